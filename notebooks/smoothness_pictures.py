"""Pictures of the notebook smoothness: figures 2, 4, 5, 6 and 7 of Tirer et al. (2022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from circle import magnitudes

from rescntk.plots.style import COLOURS, axes, finish, looks
from rescntk.theory import smoothness
from rescntk.theory.argument_checks import check_points

_COLOURS = ("black", *COLOURS)


def functions_on_circle(
    functions: Mapping[str, np.ndarray],
    angles: np.ndarray | None = None,
    targets: np.ndarray | None = None,
    ax: Any = None,
) -> Any:
    """Draw functions once around the circle, from -π to π, and given points.

    Parameters
    ----------
    functions : mapping of str to ndarray, (n_samples,)
        A label and values on ``smoothness.grid(n_samples)`` for each function.
    angles, targets : ndarray, (n,), optional
        The given points, and the values there.
    ax : matplotlib Axes, by default those of a new figure; returned
    """
    if angles is not None:
        angles, targets = check_points(angles, targets)
    ax = axes(ax)
    for (label, values), colour, _, line in looks(functions.items(), _COLOURS):
        turns = np.linspace(-1, 1, len(values) + 1)  # both ends
        ax.plot(turns, np.append(values, values[0]), color=colour, linestyle=line, label=label)
    if angles is not None:
        turns = (angles / np.pi + 1) % 2 - 1
        ax.plot(turns, targets, "ko", markersize=5, label="given", zorder=5)
    ax.set(xlabel="angle / π", ylabel="value")
    finish(ax, 2)
    return ax


def kernel_shapes(shapes: Mapping[str, np.ndarray], ax: Any) -> None:
    """Draw kernels against the angle between their arguments, scaled to a peak of 1.

    `shapes` are results of ``circle.kernel_shape``, by their labels.
    """
    scaled = {label: values / values.max() for label, values in shapes.items()}
    functions_on_circle(scaled, ax=ax)
    ax.set(xlabel="angle between the arguments / π", ylabel="kernel / its largest value")


def interpolations(
    found: Mapping[str, np.ndarray],
    angles: np.ndarray,
    targets: np.ndarray,
    ax: Any,
    cutoff: int | None = None,
) -> None:
    """Draw interpolants of the same points, with curvature and μ up to `cutoff` in the legend."""
    labelled = {}
    for name, values in found.items():
        label = f"{name}: curvature {smoothness.curvature(values):.3g}"
        if cutoff is not None:
            ratio = smoothness.gaussian_rkhs_ratio(values, angles, targets, cutoff)
            label += f", μ = {_in_powers(float(ratio))}"
        labelled[label] = values
    functions_on_circle(labelled, angles, targets, ax)
    ax.set_ylabel("interpolant")
    finish(ax, 1)


def kernel_spectra(shapes: Mapping[str, np.ndarray], last: int = 127) -> Any:
    """Draw the Fourier coefficients of kernels on the circle up to a frequency, down to eps."""
    ax = axes()
    for (label, values), colour, marker, line in looks(shapes.items(), _COLOURS):
        spectrum = magnitudes(values)
        heights = spectrum[: last + 1]
        k = np.flatnonzero(heights[1:] > np.finfo(np.float64).eps * spectrum.max()) + 1
        spread = np.unique(np.geomspace(1, len(k), 12).astype(int)) - 1
        style = {"color": colour, "linestyle": line, "marker": marker, "markersize": 4}
        ax.plot(k, heights[k], label=label, markevery=spread.tolist(), **style)
    ax.set(xscale="log", yscale="log", xlabel="frequency", ylabel="magnitude")
    finish(ax, 2)
    return ax


def _in_powers(value: float) -> str:
    if 0.01 <= value < 1000:
        return f"{value:.2g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return rf"{mantissa}·$10^{{{int(exponent)}}}$"
