"""Pictures of condition numbers over depth (theory/conditioning.py)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from .style import BLUE, COLOURS, MARKERS, VERMILION, axes, finish

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

    Raises
    ------
    ImportError
        If matplotlib is not installed.

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
    for name, label, colour, marker in (
        ("cgpk", "CGPK (no skip connections)", BLUE, "o"),
        ("rescgpk", "ResCGPK", VERMILION, "s"),
    ):
        value, lower, upper, improved, law = (
            comparison.column(name + suffix)
            for suffix in ("", "_lower", "_upper", "_improved", "_asymptote")
        )
        infinite = ~np.isfinite(value)
        value, lower = (np.where(np.isfinite(v), v, np.nan) for v in (value, lower))
        ax.plot(depth, value, marker, color=colour, markersize=5, label=label, zorder=4)
        ax.plot(depth, lower, "--", color=colour, linewidth=1.2, label="   lower bound")
        bounded = np.isfinite(upper)
        if bounded.any():
            ax.fill_between(
                depth,
                lower,
                upper,
                where=bounded,
                color=colour,
                alpha=0.22,
                linewidth=0,
                label="   up to upper bound",
            )
            improved = np.where(np.isfinite(improved), improved, np.nan)
            ax.plot(depth, improved, "-.", color=colour, label="   improved upper bound")
        else:
            ax.plot([], [], " ", color=colour, label="   no upper bound: ε ≥ 1 − b")
        if infinite.any():  # open markers at the upper edge, the ResCGPK's below the CGPK's
            edge = np.full(infinite.sum(), 0.99 if name == "cgpk" else 0.95)
            ax.plot(
                depth[infinite],
                edge,
                marker,
                color=colour,
                markerfacecolor="none",
                transform=ax.get_xaxis_transform(),
                label="   infinite: singular up to rounding",
            )
        deep = depth >= 10
        if deep.any():
            ax.plot(depth[deep], law[deep], ":", color=colour, label="   asymptotic law")
    if not any(np.isfinite(line.get_ydata()).any() for line in _drawn(ax)):
        ax.set_ylim(1, 10)  # identical signals: nothing is finite, and an axis needs some numbers
    ax.set(xscale="log", yscale="log", xlabel="depth (layers)", ylabel="condition number")
    if title is None:
        c = comparison
        title = (
            f"{c.n_cases} signals, {c.n_channels} channels × {c.n_timepoints} pixels; "
            f"{c.head} head, filter size {c.filter_size}, α = {c.alpha:g}"
        )
    ax.set_title(title, fontsize="medium")
    finish(ax, 2)
    return ax


def _drawn(ax: Any) -> list[Any]:
    """Return the lines whose heights are numbers of the vertical axis."""
    return [line for line in ax.lines if line.get_transform() == ax.transData]


def condition_ratios(comparisons: Iterable[Comparison], ax: Any = None) -> Any:
    r"""Draw cond(CGPK)/cond(ResCGPK) over depth with its limit, a colour for each α.

    Parameters
    ----------
    comparisons : iterable of Comparison
        From ``conditioning.compare``, of several α.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.

    Returns
    -------
    matplotlib Axes
        Markers are the ratios of the condition numbers, dashed lines the ratios of their lower
        bounds, dotted lines the limit :math:`((1+\alpha^2)/\alpha^2)^2`.

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import conditioning, multisphere
    >>> X = multisphere.sample(10, 4, 8, rng=0)
    >>> tables = [conditioning.compare(X, (1, 10, 100), alpha=a) for a in (0.5, 1.0)]
    >>> ax = plots.condition_ratios(tables)
    """
    comparisons = tuple(comparisons)
    ax = axes(ax)
    for comparison, colour, marker in zip(comparisons, cycle(COLOURS), cycle(MARKERS)):
        depth, limit = comparison.column("depth"), comparison.column("ratio_limit")
        label = f"α = {comparison.alpha:g}: condition numbers"
        ax.plot(depth, comparison.column("ratio"), marker, color=colour, label=label, markersize=5)
        bound = comparison.column("ratio_lower")
        ax.plot(depth, bound, "--", color=colour, linewidth=1.2, label="   lower bounds")
        ax.plot(depth, limit, ":", color=colour, label=f"   limit {limit[0]:g}")
    ax.set(xscale="log", yscale="log", xlabel="depth (layers)", ylabel="ratio, CGPK / ResCGPK")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("{x:g}")
    finish(ax, len(comparisons))
    return ax
