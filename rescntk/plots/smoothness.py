"""Kernels and interpolants on the circle (theory/smoothness.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..validation import check_depth
from .style import COLOURS, axes, finish, looks

if TYPE_CHECKING:
    from ..theory.smoothness import Interpolation

_COLOURS = ("black", *COLOURS)


def kernel_shapes(shapes: Mapping[str, np.ndarray], ax: Any = None) -> Any:
    """Draw kernels against the angle between their arguments, scaled to a peak of 1.

    Figures 2a, 2d, 4 and 5a of Tirer et al. 2022.

    Parameters
    ----------
    shapes : mapping of str to ndarray, (n_samples,)
        A label and ``smoothness.kernel_shape(kernel)`` for each kernel.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import smoothness
    >>> ax = plots.kernel_shapes({"Gaussian": smoothness.kernel_shape(smoothness.gaussian_kernel)})
    """
    ax = axes(ax)
    for (label, values), colour, _, line in looks(shapes.items(), _COLOURS):
        ax.plot(*_closed(values / values.max()), color=colour, linestyle=line, label=label)
    ax.set(xlabel="angle between the arguments / π", ylabel="kernel / its largest value")
    finish(ax, 2)
    return ax


def functions_on_circle(
    functions: Mapping[str, np.ndarray], angles: np.ndarray, targets: np.ndarray, ax: Any = None
) -> Any:
    """Draw functions on the circle, and the given points.

    Parameters
    ----------
    functions : mapping of str to ndarray, (n_samples,)
        A label and values on ``smoothness.grid(n_samples)`` for each function.
    angles, targets : ndarray, (n,)
        The given points, drawn as dots.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import plots
    >>> from rescntk.theory import smoothness
    >>> angles = smoothness.grid(6)
    >>> wave = np.cos(smoothness.grid())
    >>> ax = plots.functions_on_circle({"cosine": wave}, angles, np.cos(angles))
    """
    ax = axes(ax)
    for (label, values), colour, _, line in looks(functions.items(), _COLOURS):
        ax.plot(*_closed(values), color=colour, linestyle=line, label=label)
    turns = (np.asarray(angles) / np.pi + 1) % 2 - 1
    ax.plot(turns, targets, "ko", markersize=5, label="given", zorder=5)
    ax.set(xlabel="angle / π", ylabel="value")
    finish(ax, 2)
    return ax


def interpolations(
    found: Mapping[str, Interpolation],
    angles: np.ndarray,
    targets: np.ndarray,
    cutoff: int | None = None,
    ax: Any = None,
) -> Any:
    """Draw kernels' interpolants of given points of the circle, with smoothness in the legend.

    Figures 2, 4, 5 and 6 of Tirer et al. 2022.

    Parameters
    ----------
    found : mapping of str to Interpolation
        A label and ``smoothness.interpolation(kernel, angles, targets)`` for each kernel.
    angles, targets, ax
        As for `functions_on_circle`.
    cutoff : int, optional
        Add μ up to this frequency to the legend, ``Interpolation.gaussian_ratio(cutoff)``.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import smoothness
    >>> angles = smoothness.grid(6)
    >>> y = smoothness.target(angles)
    >>> f = smoothness.interpolation(smoothness.gaussian_kernel, angles, y)
    >>> ax = plots.interpolations({"Gaussian": f}, angles, y, cutoff=14)
    """
    labelled = {}
    for name, interpolation in found.items():
        label = f"{name}: curvature {interpolation.curvature:.3g}"
        if cutoff is not None:
            label += f", μ = {_in_powers(float(interpolation.gaussian_ratio(cutoff)))}"
        labelled[label] = interpolation.values
    ax = functions_on_circle(labelled, angles, targets, ax)
    ax.set_ylabel("interpolant")
    finish(ax, 1)
    return ax


def kernel_spectra(
    shapes: Mapping[str, np.ndarray], last: int = 127, ax: Any = None, *, absolute: bool = False
) -> Any:
    """Draw the Fourier coefficients of kernels on the circle, relative to the largest.

    Figure 7 of Tirer et al. 2022, with both axes logarithmic: power laws are straight lines.

    Parameters
    ----------
    shapes : mapping of str to ndarray, (n_samples,)
        As for `kernel_shapes`.
    last : int, default 127
        The last frequency drawn, at most half the samples.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.
    absolute : bool, default False
        Draw the magnitudes themselves, as in the figure: ``smoothness.magnitudes``, an FFT over
        its number of samples. (The figure's FFT is not divided: 4096 times larger.)

    Returns
    -------
    matplotlib Axes
        From frequency 1 on. Coefficients below eps of the largest are left out.

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import smoothness
    >>> ax = plots.kernel_spectra({"Gaussian": smoothness.kernel_shape(smoothness.gaussian_kernel)})
    """
    from ..theory.smoothness import magnitudes, relative_spectrum

    last = check_depth(last, "last")
    for label, values in shapes.items():
        if last > len(values) // 2:
            raise ValueError(
                f"last is {last}, expected at most {len(values) // 2}, half the samples of "
                f"shapes[{label!r}]"
            )
    ax = axes(ax)
    for (label, values), colour, marker, line in looks(shapes.items(), _COLOURS):
        found = relative_spectrum(values, last)
        spread = np.unique(np.geomspace(1, len(found.frequencies), 12).astype(int)) - 1
        style = {"color": colour, "linestyle": line, "marker": marker, "markersize": 4}
        style["markevery"] = spread.tolist()
        unit = float(magnitudes(values).max()) if absolute else 1.0
        ax.plot(found.frequencies, unit * found.magnitudes, label=label, **style)
    unit_name = "" if absolute else " / the largest"
    ax.set(xscale="log", yscale="log", xlabel="frequency", ylabel="magnitude" + unit_name)
    finish(ax, 2)
    return ax


def _closed(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return angles / π from -1 to 1, both ends included, and a function's values there."""
    return np.linspace(-1, 1, len(values) + 1), np.append(values, values[0])


def _in_powers(value: float) -> str:
    if 0.01 <= value < 1000:
        return f"{value:.2g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return rf"{mantissa}·$10^{{{int(exponent)}}}$"
