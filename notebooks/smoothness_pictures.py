"""Pictures of the notebook smoothness: figures 2, 4, 5, 6 and 7 of Tirer et al. (2022)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from circle import magnitudes

from rescntk import plots
from rescntk.plots.style import COLOURS, axes, finish, looks
from rescntk.theory import smoothness


def kernel_shapes(shapes: Mapping[str, np.ndarray], ax: Any) -> None:
    """Draw kernels against the angle between their arguments, scaled to a peak of 1.

    `shapes` are results of ``circle.kernel_shape``, by their labels.
    """
    scaled = {label: values / values.max() for label, values in shapes.items()}
    plots.functions_on_circle(scaled, ax=ax)
    ax.set(xlabel="angle between the arguments / π", ylabel="kernel / its largest value")


def interpolations(
    found: Mapping[str, smoothness.Interpolation], ax: Any, cutoff: int | None = None
) -> None:
    """Draw interpolants of the same points, with curvature and μ up to `cutoff` in the legend."""
    labelled = {}
    for name, interpolation in found.items():
        label = f"{name}: curvature {interpolation.curvature:.3g}"
        if cutoff is not None:
            label += f", μ = {_in_powers(interpolation.gaussian_ratio(cutoff))}"
        labelled[label] = interpolation.values
    plots.functions_on_circle(labelled, interpolation.angles, interpolation.targets, ax)
    ax.set_ylabel("interpolant")
    finish(ax, 1)


def kernel_spectra(shapes: Mapping[str, np.ndarray], last: int = 127) -> Any:
    """Draw the Fourier coefficients of kernels on the circle up to a frequency, down to eps."""
    ax = axes()
    for (label, values), colour, marker, line in looks(shapes.items(), ("black", *COLOURS)):
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
