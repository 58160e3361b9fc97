"""Eigenvalues over frequency (theory/spectrum)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from .style import BLUE, COLOURS, MARKERS, SIZE, VERMILION, figure, finish

if TYPE_CHECKING:
    from ..theory.spectrum import DecayExponents, Mixture


def eigenvalue_decay(found: DecayExponents, ax: Any = None, title: str | None = None) -> Any:
    """Draw eigenvalues over a frequency that is spread over one, two, three … pixels.

    Figure 1 of Barzilai et al. 2022. Markers are eigenvalues (filled for even, open for odd
    frequencies), with error bars where errors would be seen; lines have the slopes of the law of
    ``spectrum.singularity_exponent``, through the highest even frequency. Eigenvalues that
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
    if ax is None:
        ax = figure(SIZE).subplots()
    for decay, colour, marker in zip(found, cycle(COLOURS), cycle(MARKERS)):
        count = len(decay.pixels)
        label = f"{count} pixel{'s' if count > 1 else ''}: slope {decay.exponent:.2f}"
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
                label=f"{label}, law {decay.law:g}" if parity == 0 else None,
            )
            ax.errorbar(k[some], values, errors, fmt="none", color=colour, elinewidth=1)
        even = seen & (k % 2 == 0)
        if even.any() and np.isfinite(decay.law):
            last = np.flatnonzero(even)[-1]
            tail = k >= k[last] / 6
            law = decay.eigenvalues[last] * (k[tail] / k[last]) ** decay.law
            ax.plot(k[tail], law, ":", color=colour)
    ax.set(xscale="log", yscale="log", xlabel="frequency k", ylabel="eigenvalue λ")
    ax.xaxis.set_minor_formatter("")
    if title is None:
        name = {"gpk": "Gaussian process kernel", "ntk": "tangent kernel"}[found.kind]
        net = found.network
        skip = f"skips, α = {net.alpha:g}" if net.skip else "no skips"
        title = (
            f"{name}, {net.depth} layers, {skip}\n"
            f"{found.n_channels} channels × {found.n_timepoints} pixels, filter size "
            f"{net.filter_size}, {found.head} head"
        )
    ax.set_title(title, fontsize="medium")
    finish(ax, 1)
    return ax


def decay_exponents(found: Iterable[DecayExponents], labels: Iterable[str], ax: Any = None) -> Any:
    """Draw the exponents of several kernels beside theorem 5.1 of Barzilai et al. 2022.

    Bars reach from the theorem's lower to its upper bound, markers are fitted slopes, black
    dashes the law of ``spectrum.singularity_exponent``.

    Parameters
    ----------
    found : iterable of DecayExponents
        From ``spectrum.decay_exponents``.
    labels : iterable of str
        What to call each, as many.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.

    Returns
    -------
    matplotlib Axes

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
    if ax is None:
        ax = figure(SIZE).subplots()
    width = 0.8 / max(len(found), 1)
    places: set[int] = set()
    for i, (one, label) in enumerate(zip(found, labels, strict=True)):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        count = np.array([len(decay.pixels) for decay in one])
        places |= set(count.tolist())
        at = count + (i - (len(found) - 1) / 2) * width
        low, high, law, slope = (
            np.array([getattr(decay, name) for decay in one])
            for name in ("lowest", "highest", "law", "exponent")
        )
        ax.bar(at, high - low, 0.85 * width, bottom=low, color=colour, alpha=0.25, linewidth=0)
        ax.hlines(law, at - 0.42 * width, at + 0.42 * width, color="black", linewidth=1.2)
        ax.plot(at, slope, marker, color=colour, markersize=6, label=label, zorder=4)
    ax.bar([np.nan], [1], color="grey", alpha=0.35, label="theorem 5.1")
    ax.plot([], [], "-", color="black", linewidth=1.2, label="law")
    ax.set_xticks(sorted(places))
    ax.use_sticky_edges = False
    ax.margins(y=0.04)
    ax.set(xlabel="pixels with a frequency", ylabel="exponent of the eigenvalues")
    finish(ax, 3)
    return ax


def ensemble(found: Mixture, ax: Any = None, title: str | None = None) -> Any:
    """Draw how well a weighted sum of CNNs' eigenvalues gives those of a ResNet.

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
        Ratios of fitted to true eigenvalues over these, for the CNNs of all depths and for the
        deepest alone.

    Examples
    --------
    >>> from rescntk import literature, plots
    >>> from rescntk.theory import spectrum
    >>> ax = plots.ensemble(spectrum.mixture(literature.barzilai_resnet(2), 2, 3, 6))
    """
    if ax is None:
        ax = figure(SIZE).subplots()
    for values, rms, name, colour, marker, fill in (
        (found.alone, found.rms_alone, "deepest CNN alone", BLUE, "o", "none"),
        (found.mixed, found.rms, "CNNs of all depths", VERMILION, "s", VERMILION),
    ):
        seen = (found.eigenvalues > 0) & (values > 0)
        ax.plot(
            found.eigenvalues[seen],
            values[seen] / found.eigenvalues[seen],
            marker,
            color=colour,
            markersize=4 if fill == "none" else 2,
            markerfacecolor=fill,
            markeredgewidth=0.6,
            label=f"{name}: factor {np.exp(rms):.2f} (rms)",
            rasterized=True,
        )
    ax.axhline(1.0, color="black", linewidth=1)
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
        title = f"Ensemble: {weights}"
    ax.set_title(title, fontsize="medium")
    finish(ax, 1)
    return ax
