"""Pictures of the theory's results. Matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .theory.conditioning import Comparison

# Okabe and Ito's blue and vermilion: told apart by colour-blind readers, and in grey by
# their lightness; markers and line styles differ too.
_CGPK, _RESCGPK = "#0072B2", "#D55E00"


def condition_numbers(comparison: Comparison, ax: Any = None, title: str | None = None) -> Any:
    """Draw condition numbers of CGPK and ResCGPK over depth, with bounds and asymptotes.

    Figure 3 of Barzilai et al. 2022. Markers are condition numbers, bands reach from the
    lower to the upper bound where there is one (otherwise only the lower bound is drawn,
    dashed), dotted lines are the asymptotic law from depth 10 on. Both axes are logarithmic.

    Parameters
    ----------
    comparison : Comparison
        From ``conditioning.compare``.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.
    title : str, optional
        The default tells the comparison's settings.

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
    if ax is None:
        ax = figure((6.4, 4.4)).subplots()
    depth = comparison.column("depth")
    for name, label, colour, marker in (
        ("cgpk", "CGPK (no skip connections)", _CGPK, "o"),
        ("rescgpk", "ResCGPK", _RESCGPK, "s"),
    ):
        value, lower, upper, law = (
            comparison.column(name + suffix) for suffix in ("", "_lower", "_upper", "_asymptote")
        )
        value = np.where(np.isfinite(value), value, np.nan)
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
        deep = depth >= 10
        if deep.any():
            ax.plot(depth[deep], law[deep], ":", color=colour, label="   asymptotic law")
    ax.set(xscale="log", yscale="log", xlabel="depth (layers)", ylabel="condition number")
    ax.xaxis.set_major_formatter("{x:g}")
    if title is None:
        c = comparison
        title = (
            f"{c.n_cases} signals, {c.n_channels} channels × {c.n_timepoints} pixels; "
            f"{c.head} head, filter size {c.filter_size}, α = {c.alpha:g}"
        )
    ax.set_title(title, fontsize="medium")
    ax.grid(True, which="major", linewidth=0.4, alpha=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(fontsize="small", frameon=False, ncols=2)
    return ax


def figure(size: tuple[float, float]) -> Any:
    """Return a new figure of that size in inches, apart from any interactive backend."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ImportError("pictures need matplotlib: pip install 'rescntk[plot]'") from None
    drawn = Figure(figsize=size, layout="constrained", dpi=150)
    FigureCanvasAgg(drawn)
    return drawn
