"""Kernels and interpolants on the circle (theory/smoothness.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from ..validation import check_depth
from .style import COLOURS, MARKERS, axes, finish

if TYPE_CHECKING:
    from ..regression import Posterior
    from ..theory.smoothness import Interpolation

_LINES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3)))


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

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import smoothness
    >>> ax = plots.kernel_shapes({"Gaussian": smoothness.kernel_shape(smoothness.gaussian_kernel)})
    """
    ax = axes(ax)
    for (label, values), style in zip(shapes.items(), _styles(), strict=False):
        ax.plot(*_closed(values / values.max()), label=label, **style)
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
    for (label, values), style in zip(functions.items(), _styles(), strict=False):
        ax.plot(*_closed(values), label=label, **style)
    ax.plot(turns(angles), targets, "ko", markersize=5, label="given", zorder=5)
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
    for name, one in found.items():
        label = f"{name}: curvature {one.curvature:.3g}"
        if cutoff is not None:
            label += f", μ = {_in_powers(float(one.gaussian_ratio(cutoff)))}"
        labelled[label] = one.values
    ax = functions_on_circle(labelled, angles, targets, ax)
    ax.set_ylabel("interpolant")
    finish(ax, 1)
    return ax


def posteriors(
    found: Mapping[str, Posterior], angles: np.ndarray, targets: np.ndarray, ax: Any = None
) -> Any:
    """Draw posteriors of Gaussian processes on the circle: means, and two deviations around.

    Parameters
    ----------
    found : mapping of str to Posterior
        A label and ``regression.posterior(...)`` at ``smoothness.grid(n_samples)`` for each prior.
    angles, targets, ax
        As for `functions_on_circle`.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk import plots, regression
    >>> from rescntk.theory import smoothness
    >>> kernel = rk.Kernel(rk.literature.tirer_mlp(5), "gpk", "trace")
    >>> angles = smoothness.grid(6)
    >>> X, Z = smoothness.circle(angles), smoothness.circle(smoothness.grid(64))
    >>> y = smoothness.target(angles)
    >>> process = regression.posterior(kernel(X), kernel(Z, X), kernel.diag(Z), y)
    >>> ax = plots.posteriors({"MLP": process}, angles, y)
    """
    ax = functions_on_circle({name: one.mean for name, one in found.items()}, angles, targets, ax)
    for one, style in zip(found.values(), _styles(), strict=False):
        turns, deviation = _closed(np.sqrt(one.variance))
        mean = _closed(one.mean)[1]
        band = {"color": style["color"], "alpha": 0.2, "linewidth": 0}
        ax.fill_between(turns, mean - 2 * deviation, mean + 2 * deviation, **band)
    ax.set_ylabel("posterior: mean ± 2 standard deviations")
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
    for (label, values), style, marker in zip(
        shapes.items(), _styles(), cycle(MARKERS), strict=False
    ):
        found = relative_spectrum(values, last)
        spread = np.unique(np.geomspace(1, len(found.frequencies), 12).astype(int)) - 1
        style |= {"marker": marker, "markersize": 4, "markevery": spread.tolist()}
        unit = float(magnitudes(values).max()) if absolute else 1.0
        ax.plot(found.frequencies, unit * found.magnitudes, label=label, **style)
    unit_name = "" if absolute else " / the largest"
    ax.set(xscale="log", yscale="log", xlabel="frequency", ylabel="magnitude" + unit_name)
    finish(ax, 2)
    return ax


def gaussian_ratios(ratios: Mapping[str, np.ndarray], cutoffs: np.ndarray, ax: Any = None) -> Any:
    """Draw the ratio μ over the frequency at which its sum is cut off.

    Parameters
    ----------
    ratios : mapping of str to ndarray, (n_cutoffs,)
        A label and ``smoothness.gaussian_rkhs_ratio(..., cutoffs)`` for each function.
    cutoffs : ndarray of int, (n_cutoffs,)
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
    >>> angles, cutoffs = smoothness.grid(6), np.arange(4, 20)
    >>> y = smoothness.target(angles)
    >>> f = smoothness.interpolation(smoothness.gaussian_kernel, angles, y).values
    >>> ratios = smoothness.gaussian_rkhs_ratio(f, angles, y, cutoffs)
    >>> ax = plots.gaussian_ratios({"Gaussian": ratios}, cutoffs)
    """
    from ..theory.smoothness import CUTOFF

    ax = axes(ax)
    for (label, values), style, marker in zip(
        ratios.items(), _styles(), cycle(MARKERS), strict=False
    ):
        ax.plot(cutoffs, values, label=label, marker=marker, markersize=3.5, **style)
    label = f"cut-off {CUTOFF}: the Gaussian at eps"
    ax.axvline(CUTOFF, color="0.5", linewidth=1, zorder=0, label=label)
    name = r"$\mu = \Vert f_\mathrm{Gauss}\Vert\,/\,\Vert f\,\Vert$"
    ax.set(yscale="log", xlabel="last frequency counted in the norm of f", ylabel=name)
    finish(ax, 2)
    return ax


def _closed(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return angles / π from -1 to 1, both ends included, and a function's values there."""
    return np.linspace(-1, 1, len(values) + 1), np.append(values, values[0])


def turns(angles: np.ndarray) -> np.ndarray:
    """Return angles / π from -1 on, below 1."""
    return (np.asarray(angles) / np.pi + 1) % 2 - 1


def _styles() -> Iterator[dict[str, Any]]:
    """Yield the looks of lines: black, then colours, each with its own dashes."""
    for colour, line in zip(cycle(("black", *COLOURS)), cycle(_LINES), strict=False):
        yield {"color": colour, "linestyle": line, "linewidth": 1.5}


def _in_powers(value: float) -> str:
    if 0.01 <= value < 1000:
        return f"{value:.2g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return rf"{mantissa}·$10^{{{int(exponent)}}}$"
