"""Pictures over pixels, angles and frequencies: receptive fields, functions, spectra."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..theory.argument_checks import check_length, check_points
from ..theory.locality import effective_receptive_field
from ..theory.smoothness import Interpolation, magnitudes
from ..validation import KINDS, check_depth, check_flag
from .style import COLOURS, axes, check_drawn, check_named, finish, looks

if TYPE_CHECKING:
    from ..network import Network
    from ..theory.spectrum import DecayExponents

_COLOURS = ("black", *COLOURS)

_FAINTEST = 1e-9
"""Lower end of a logarithmic axis, relative to the largest weight. Chosen by eye."""

_MARKERS = 24
"""Markers on a line of receptive fields, about. Chosen by eye."""

_HOLLOW: dict[str, Any] = {"markerfacecolor": "none", "markersize": 5}


def receptive_fields(
    networks: Mapping[str, Network],
    n_timepoints: int,
    ax: Any = None,
    title: str | None = None,
    *,
    logarithmic: bool = False,
    explain: bool = True,
) -> Any:
    """Draw effective receptive fields, of both kernels of each network; weights sum to 1.

    The kernels' half of figure 2 of Barzilai et al. 2022.

    Parameters
    ----------
    networks : mapping of str to Network
    n_timepoints : int
        Length of the signals.
    ax : matplotlib Axes, by default those of a new figure; returned
    title : str, optional
    logarithmic : bool, default False
        Make the axis of the weights logarithmic.
    explain : bool, default True
        Explain lines and markers in the legend; one panel of a figure is enough.

    Examples
    --------
    >>> from rescntk import literature, plots
    >>> ax = plots.receptive_fields({"CNN": literature.barzilai_cnn(8)}, 31)
    """
    check_named(networks, "networks")
    d = check_length(n_timepoints)
    logarithmic, explain = check_flag(logarithmic, "logarithmic"), check_flag(explain, "explain")
    ax = axes(ax)
    top = 0.0
    distance, every = np.arange(d) - d // 2, max(1, d // _MARKERS)
    shown = (d // 2 % every, every)  # so that the output pixel has a marker
    for (name, network), colour, marker, line in looks(networks.items()):
        gpk, ntk = (
            np.fft.fftshift(effective_receptive_field(network, d, kind, normalized=True))
            for kind in KINDS
        )
        top = max(top, gpk.max(), ntk.max())
        # Nothing is drawn outside the receptive field.
        gpk, ntk = (np.where(weights > 0, weights, np.nan) for weights in (gpk, ntk))
        ax.plot(distance, gpk, color=colour, linestyle=line, linewidth=1.2)
        ax.plot(distance, ntk, marker, color=colour, markevery=shown, **_HOLLOW)
        ax.plot([], [], marker=marker, color=colour, linestyle=line, label=name, **_HOLLOW)
    if logarithmic:
        ax.set(yscale="log", ylim=(_FAINTEST * top, 2 * top))
    else:
        ax.set_ylim(-0.02 * top, 1.05 * top)
    ax.set(xlabel="distance from the output pixel (pixels)", ylabel="weight of a pixel's energy")
    if explain:
        ax.plot([], [], color="0.3", linewidth=1.2, label="lines: Gaussian process kernels")
        ax.plot([], [], "o", color="0.3", label="markers: tangent kernels", **_HOLLOW)
    finish(ax, 2, title)
    return ax


def eigenvalue_decay(found: DecayExponents, ax: Any = None, title: str | None = None) -> Any:
    """Draw eigenvalues over a frequency that is spread over one, two, three … pixels.

    Figure 1 of Barzilai et al. 2022. Markers are eigenvalues above their errors, filled for even
    frequencies. Dotted lines have the slopes of ``spectrum.singularity_exponent``.

    Parameters
    ----------
    found : DecayExponents
        From ``spectrum.decay_exponents``.
    ax : matplotlib Axes, by default those of a new figure; returned
    title : str, optional
        The default tells the settings.

    Examples
    --------
    >>> from rescntk import literature, plots
    >>> from rescntk.theory import spectrum
    >>> found = spectrum.decay_exponents(literature.geifman_cnn(2), 2, 3, max_frequency=12)
    >>> ax = plots.eigenvalue_decay(found)
    """
    check_drawn(found, "found", "a result of spectrum.decay_exponents", "decays", "network")
    ax = axes(ax)
    for decay, colour, marker, _ in looks(found):
        count = len(decay.pixels)
        label = f"{count} pixel{'s' if count > 1 else ''} ({', '.join(map(str, decay.pixels))}): "
        if np.isfinite(decay.law):
            label += f"slope {decay.exponent:.2f} ± {decay.uncertainty:.2f}, law {decay.law:g}"
        else:
            label += "λ = 0"
        k, seen = decay.frequencies, decay.eigenvalues > decay.errors
        for parity, fill in ((0, colour), (1, "white")):
            some = seen & (k % 2 == parity)
            values, errors = decay.eigenvalues[some], decay.errors[some]
            points = {"color": colour, "markerfacecolor": fill, "markersize": 4.5}
            name = label.replace("-", "−") if parity == 0 else None
            ax.plot(k[some], values, marker, label=name, **points)
            ax.errorbar(k[some], values, errors, fmt="none", color=colour, elinewidth=1)
        even = seen & (k % 2 == 0)
        if even.any() and np.isfinite(decay.law):
            last = np.flatnonzero(even)[-1]
            tail = k >= k[last] / 6
            law = decay.eigenvalues[last] * (k[tail] / k[last]) ** decay.law
            ax.plot(k[tail], law, ":", color=colour)
    grey = {"color": "0.3", "markersize": 4.5}
    ax.plot([], [], "o", label="even k", **grey)
    ax.plot([], [], "o", markerfacecolor="white", label="odd k", **grey)
    ax.plot([], [], ":", label="law", **grey)
    ax.set(xscale="log", yscale="log", xlabel="frequency k", ylabel="eigenvalue λ")
    ax.xaxis.set_minor_formatter("")
    if title is None:
        name = {"gpk": "Gaussian process kernel", "ntk": "tangent kernel"}[found.kind]
        net = found.network
        skip = f"skips, α = {net.alpha:g}" if net.skip else "no skips"
        layers = f"{net.depth} layer{'s' if net.depth > 1 else ''}"
        title = (
            f"{name}, {layers}, {skip}\n"
            f"{found.n_channels} channels × {found.n_timepoints} pixels, filter size "
            f"{net.filter_size}, {found.head} head"
        )
    finish(ax, 2, title)
    return ax


def kernel_shapes(shapes: Mapping[str, np.ndarray], ax: Any = None) -> Any:
    """Draw kernels against the angle between their arguments, scaled to a peak of 1.

    Figures 2a, 2d, 4 and 5a of Tirer et al. 2022.

    Parameters
    ----------
    shapes : mapping of str to ndarray, (n_samples,)
        A label and ``smoothness.kernel_shape(kernel)`` for each kernel.
    ax : matplotlib Axes, by default those of a new figure; returned

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import smoothness
    >>> ax = plots.kernel_shapes({"Gaussian": smoothness.kernel_shape(smoothness.gaussian_kernel)})
    """
    check_named(shapes, "shapes", "values on smoothness.grid")
    scaled = {label: np.divide(values, np.max(values)) for label, values in shapes.items()}
    ax = _around(scaled, ax)
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
    ax : matplotlib Axes, by default those of a new figure; returned

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import smoothness
    >>> angles, wave = smoothness.grid(6), smoothness.target(smoothness.grid())
    >>> ax = plots.functions_on_circle({"target": wave}, angles, smoothness.target(angles))
    """
    check_named(functions, "functions", "values on smoothness.grid")
    angles, targets = check_points(angles, targets)
    ax = _around(functions, ax)
    turns = (angles / np.pi + 1) % 2 - 1
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

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import smoothness
    >>> angles = smoothness.grid(6)
    >>> y = smoothness.target(angles)
    >>> f = smoothness.interpolation(smoothness.gaussian_kernel, angles, y)
    >>> ax = plots.interpolations({"Gaussian": f}, angles, y, cutoff=14)
    """
    check_named(found, "found", "interpolants")
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

    Figure 7 of Tirer et al. 2022, from frequency 1 on, down to eps of the largest.

    Parameters
    ----------
    shapes : mapping of str to ndarray, (n_samples,)
        As for `kernel_shapes`.
    last : int, default 127
        The last frequency drawn, at most half the samples.
    ax : matplotlib Axes, by default those of a new figure; returned
    absolute : bool, default False
        Draw ``smoothness.magnitudes`` themselves; the figure's are 4096 times larger.

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import smoothness
    >>> ax = plots.kernel_spectra({"Gaussian": smoothness.kernel_shape(smoothness.gaussian_kernel)})
    """
    check_named(shapes, "shapes", "values on smoothness.grid")
    last, absolute = check_depth(last, "last"), check_flag(absolute, "absolute")
    for label, values in shapes.items():
        if last > len(values) // 2:
            raise ValueError(
                f"last is {last}, expected at most {len(values) // 2}, half the samples of "
                f"shapes[{label!r}]"
            )
    ax = axes(ax)
    for (label, values), colour, marker, line in looks(shapes.items(), _COLOURS):
        spectrum = magnitudes(values)
        heights = spectrum[: last + 1] / spectrum.max()
        k = np.flatnonzero(heights[1:] > np.finfo(np.float64).eps) + 1
        spread = np.unique(np.geomspace(1, len(k), 12).astype(int)) - 1
        style = {"color": colour, "linestyle": line, "marker": marker, "markersize": 4}
        style["markevery"] = spread.tolist()
        unit = float(spectrum.max()) if absolute else 1.0
        ax.plot(k, unit * heights[k], label=label, **style)
    unit_name = "" if absolute else " / the largest"
    ax.set(xscale="log", yscale="log", xlabel="frequency", ylabel="magnitude" + unit_name)
    finish(ax, 2)
    return ax


def _around(functions: Mapping[str, np.ndarray], ax: Any) -> Any:
    """Draw functions once around the circle, from -π to π, both ends included."""
    ax = axes(ax)
    for (label, values), colour, _, line in looks(functions.items(), _COLOURS):
        turns = np.linspace(-1, 1, len(values) + 1)
        ax.plot(turns, np.append(values, values[0]), color=colour, linestyle=line, label=label)
    return ax


def _in_powers(value: float) -> str:
    if 0.01 <= value < 1000:
        return f"{value:.2g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return rf"{mantissa}·$10^{{{int(exponent)}}}$"
