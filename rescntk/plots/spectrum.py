"""The picture of eigenvalues over frequency (theory/spectrum)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .style import axes, finish, looks

if TYPE_CHECKING:
    from ..theory.spectrum import DecayExponents


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

    Examples
    --------
    >>> from rescntk import literature, plots
    >>> from rescntk.theory import spectrum
    >>> found = spectrum.decay_exponents(literature.geifman_cnn(2), 2, 3, max_frequency=12)
    >>> ax = plots.eigenvalue_decay(found)
    >>> ax.figure.savefig("decay.png")  # doctest: +SKIP
    """
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
    finish(ax, 2, title)
    return ax
