"""Pictures of condition numbers over depth (theory/conditioning.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .style import BLUE, VERMILION, axes, finish

if TYPE_CHECKING:
    from ..theory.conditioning import Comparison


def condition_numbers(comparison: Comparison, ax: Any = None, title: str | None = None) -> Any:
    """Draw condition numbers of CGPK and ResCGPK over depth, with bounds and asymptotes.

    Figure 3 of Barzilai et al. 2022. Markers are condition numbers, and dashed lines are lower
    bounds. A band reaches up to the upper bound where there is one, and a line of dashes and
    dots is the improved upper bound. Dotted lines are the asymptotic law from depth 10 on. Both
    axes are logarithmic. Open markers at the upper edge are infinite condition numbers, as of
    signals that are there twice.

    Parameters
    ----------
    comparison : Comparison
        From ``conditioning.compare``.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.
    title : str, optional
        The default is a summary of the comparison's settings.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import conditioning, multisphere
    >>> X = multisphere.sample(20, 4, 8, rng=0)
    >>> ax = plots.condition_numbers(conditioning.compare(X, (1, 3, 10, 30)))
    >>> ax.figure.savefig("compare.png")  # doctest: +SKIP
    """
    ax = axes(ax)
    depth = comparison.column("depth")
    for name, label, colour, marker, edge in (
        ("cgpk", "CGPK (no skip connections)", BLUE, "o", 0.99),
        ("rescgpk", "ResCGPK", VERMILION, "s", 0.95),
    ):
        value, lower, upper, improved, law = (
            comparison.column(name + suffix)
            for suffix in ("", "_lower", "_upper", "_improved", "_asymptote")
        )
        infinite = ~np.isfinite(value)
        value, lower, improved = (
            np.where(np.isfinite(v), v, np.nan) for v in (value, lower, improved)
        )
        ax.plot(depth, value, marker, color=colour, markersize=5, label=label, zorder=4)
        ax.plot(depth, lower, "--", color=colour, linewidth=1.2, label="   lower bound")
        bounded = np.isfinite(upper)
        if bounded.any():
            band = {"where": bounded, "color": colour, "alpha": 0.22, "linewidth": 0}
            ax.fill_between(depth, lower, upper, label="   up to upper bound", **band)
            ax.plot(depth, improved, "-.", color=colour, label="   improved upper bound")
        else:
            ax.plot([], [], " ", color=colour, label="   no upper bound: ε ≥ 1 − b")
        if infinite.any():  # open markers at the upper edge, the ResCGPK's below the CGPK's
            places = np.full(infinite.sum(), edge)
            style = {"markerfacecolor": "none", "transform": ax.get_xaxis_transform()}
            label = "   infinite: singular up to rounding"
            ax.plot(depth[infinite], places, marker, color=colour, label=label, **style)
        deep = depth >= 10
        if deep.any():
            ax.plot(depth[deep], law[deep], ":", color=colour, label="   asymptotic law")
    if not np.isfinite(ax.dataLim.intervaly).all():
        ax.set_ylim(1, 10)  # identical signals: nothing is finite, and an axis needs some numbers
    ax.set(xscale="log", yscale="log", xlabel="depth (layers)", ylabel="condition number")
    if title is None:
        c = comparison
        title = (
            f"{c.n_cases} signals, {c.n_channels} channels × {c.n_timepoints} pixels; "
            f"{c.head} head, filter size {c.filter_size}, α = {c.alpha:g}"
        )
    finish(ax, 2, title)
    return ax
