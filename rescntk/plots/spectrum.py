"""Eigenvalues over frequency (theory/spectrum)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from .style import BLUE, COLOURS, MARKERS, VERMILION, axes, finish

if TYPE_CHECKING:
    from ..theory.spectrum import DecayExponents, Mixture

_LARGEST = 40
"""Number of the largest eigenvalues that have a marker each. Chosen by eye."""

_MANY = 20
"""Eigenvalues in half a decade from which on their quantiles are drawn: of fewer, the 5 % and
95 % quantiles would be single eigenvalues."""


def eigenvalue_decay(found: DecayExponents, ax: Any = None, title: str | None = None) -> Any:
    """Draw eigenvalues over a frequency that is spread over one, two, three … pixels.

    Figure 1 of Barzilai et al. 2022. Markers are eigenvalues (filled for even, open for odd
    frequencies), with error bars where errors would be seen; dotted lines have the slopes of the
    law of ``spectrum.singularity_exponent``, through the highest even frequency. Eigenvalues that
    do not exceed their errors are left out. Both axes are logarithmic.

    Parameters
    ----------
    found : DecayExponents
        From ``spectrum.decay_exponents``.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.
    title : str, optional
        The default tells the settings.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    Examples
    --------
    >>> from rescntk import literature, plots
    >>> from rescntk.theory import spectrum
    >>> found = spectrum.decay_exponents(literature.geifman_cnn(2), 2, 3, max_frequency=12)
    >>> ax = plots.eigenvalue_decay(found)
    >>> ax.figure.savefig("decay.png")  # doctest: +SKIP
    """
    ax = axes(ax)
    for decay, colour, marker in zip(found, cycle(COLOURS), cycle(MARKERS)):
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
            ax.plot(
                k[some],
                values,
                marker,
                color=colour,
                markerfacecolor=fill,
                markersize=4.5,
                label=label.replace("-", "−") if parity == 0 else None,
            )
            ax.errorbar(k[some], values, errors, fmt="none", color=colour, elinewidth=1)
        even = seen & (k % 2 == 0)
        if even.any() and np.isfinite(decay.law):
            last = np.flatnonzero(even)[-1]
            tail = k >= k[last] / 6
            law = decay.eigenvalues[last] * (k[tail] / k[last]) ** decay.law
            ax.plot(k[tail], law, ":", color=colour)
    for label, style in (
        ("even k", {"marker": "o", "linestyle": "none"}),
        ("odd k", {"marker": "o", "linestyle": "none", "markerfacecolor": "white"}),
        ("law", {"linestyle": ":"}),
    ):
        ax.plot([], [], color="0.3", markersize=4.5, label=label, **style)
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
    ax.set_title(title, fontsize="medium")
    finish(ax, 2)
    return ax


def decay_exponents(
    found: Iterable[DecayExponents],
    labels: Iterable[str],
    ax: Any = None,
    title: str | None = None,
) -> Any:
    """Draw the exponents of several kernels beside theorem 5.1 of Barzilai et al. 2022.

    Bars reach from the theorem's lower to its upper bound, markers are fitted slopes with their
    uncertainty, black dashes the law of ``spectrum.singularity_exponent``. Where eigenvalues are 0
    there is only a bar.

    Parameters
    ----------
    found : iterable of DecayExponents
        From ``spectrum.decay_exponents``.
    labels : iterable of str
        A name for each.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.
    title : str, optional
        The default tells on which frequencies slopes are fitted.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        For nothing to draw, and for another number of labels.

    Examples
    --------
    >>> from rescntk import literature, plots
    >>> from rescntk.theory import spectrum
    >>> network = literature.geifman_cnn(2)
    >>> found = [spectrum.decay_exponents(network, c, 3, 12) for c in (2, 3)]
    >>> ax = plots.decay_exponents(found, ["2 channels", "3 channels"])
    """
    found, labels = tuple(found), tuple(labels)
    if len(found) != len(labels):
        raise ValueError(f"labels has {len(labels)} names, expected {len(found)}")
    if not found:
        raise ValueError("found is empty, expected at least one DecayExponents")
    ax = axes(ax)
    width = 0.8 / len(found)
    places: set[int] = set()
    tops = sorted({len(decay.frequencies) for one in found for decay in one})
    for i, (one, label) in enumerate(zip(found, labels, strict=True)):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        count = np.array([len(decay.pixels) for decay in one])
        places |= set(count.tolist())
        at = count + (i - (len(found) - 1) / 2) * width
        low, high, law, slope, error = (
            np.array([getattr(decay, name) for decay in one])
            for name in ("lowest", "highest", "law", "exponent", "uncertainty")
        )
        law = np.where(np.isfinite(law), law, np.nan)
        ax.bar(at, high - low, 0.85 * width, bottom=low, color=colour, alpha=0.25, linewidth=0)
        ax.hlines(law, at - 0.42 * width, at + 0.42 * width, color="black", linewidth=1.2)
        ax.errorbar(at, slope, error, fmt="none", color=colour, capsize=2, elinewidth=1, zorder=3)
        ax.plot(at, slope, marker, color=colour, markersize=6, label=label, zorder=4)
    ax.bar([np.nan], [1], color="grey", alpha=0.35, label="theorem 5.1")
    ax.plot([], [], "-", color="black", linewidth=1.2, label="law")
    ax.set_xticks(sorted(places))
    ax.use_sticky_edges = False
    ax.margins(y=0.04)
    ax.set(xlabel="pixels with a frequency", ylabel="exponent of the eigenvalues")
    if title is None:
        ranges = " or ".join(f"{top // 2} … {top}" for top in tops)
        title = f"Slopes fitted on frequencies {ranges}"
    ax.set_title(title, fontsize="medium")
    finish(ax, 3)
    return ax


def ensemble(found: Mixture, ax: Any = None, title: str | None = None) -> Any:
    """Draw ratios of a weighted sum of CNNs' eigenvalues to a ResNet's eigenvalues.

    The ratios are drawn over the ResNet's eigenvalues, for CNNs of all depths and for the deepest
    alone. Each half decade with enough eigenvalues has its median on a line. Nine tenths of its
    ratios lie in the band, or between dashed lines. The largest eigenvalues have markers.

    Parameters
    ----------
    found : Mixture
        From ``spectrum.mixture``.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.
    title : str, optional
        The default tells the weights.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rescntk import literature, plots
    >>> from rescntk.theory import spectrum
    >>> ax = plots.ensemble(spectrum.mixture(literature.barzilai_resnet(2), 2, 3, 6))
    """
    ax = axes(ax)
    seen = (found.eigenvalues > 0) & (found.mixed > 0)
    true = found.eigenvalues[seen]
    largest = np.argsort(-true)[:_LARGEST]
    bins = np.floor(2 * np.log10(true))
    at, counts = np.unique(bins, return_counts=True)
    at = at[counts >= _MANY]
    centre = 10 ** ((at + 0.5) / 2)
    for values, rms, name, colour, marker in (
        (found.alone, found.rms_alone, "deepest CNN alone", BLUE, "o"),
        (found.mixed, found.rms, "CNNs of all depths", VERMILION, "s"),
    ):
        ratio = values[seen] / true
        quantiles = [np.quantile(ratio[bins == some], (0.05, 0.5, 0.95)) for some in at]
        low, middle, high = np.reshape(quantiles, (-1, 3)).T
        filled = values is found.mixed
        if filled:
            ax.fill_between(centre, low, high, color=colour, alpha=0.2, linewidth=0)
        else:
            for edge in (low, high):
                ax.plot(centre, edge, "--", color=colour, linewidth=1)
        label = f"{name}: factor {np.exp(rms):.2f} (rms)"
        face = colour if filled else "white"
        ax.plot(centre, middle, "-" if filled else "-.", color=colour, linewidth=1.5)
        one = {"color": colour, "markerfacecolor": face, "markersize": 5, "zorder": 3}
        ax.plot(true[largest], ratio[largest], marker, label=label, **one)
    ax.axhline(1.0, color="black", linewidth=1)
    ax.plot([], [], color="0.3", linewidth=1.5, label="median of half a decade (solid: all depths)")
    ax.plot([], [], "--", color="0.3", linewidth=1, label="90 % of it (band: all depths)")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="eigenvalue of the ResNet, of K/K(x,x)",
        ylabel="fit / eigenvalue",
    )
    if title is None:
        weights = ", ".join(
            f"{weight:.2f} × {'dot product' if depth == 0 else f'depth {depth}'}"
            for depth, weight in zip(found.depths, found.weights, strict=True)
        )
        title = f"Ensemble: {weights}\nmarkers: the {len(largest)} largest eigenvalues"
    ax.set_title(title, fontsize="medium")
    finish(ax, 2)
    from matplotlib.ticker import LogFormatterSciNotation, LogLocator

    ax.xaxis.set_major_formatter(LogFormatterSciNotation())
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_minor_formatter("")
    ax.yaxis.set_major_formatter("{x:g}")
    return ax
