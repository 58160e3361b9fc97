"""Pictures over depth: condition numbers, kernels, and convergence to infinite depth."""

from __future__ import annotations

import re
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from ..theory.degeneracy import ffnet_limit, resnet_limit
from .style import (
    AXES,
    BLUE,
    COLOURS,
    MARKERS,
    SIZE,
    VERMILION,
    axes,
    check_drawn,
    figure,
    finish,
    looks,
    name_ends,
    tidy,
)

if TYPE_CHECKING:
    from ..theory.conditioning import Comparison
    from ..theory.degeneracy import KernelsOverDepth
    from ..theory.depth import Profile, Report
    from ..theory.extrapolation import Estimate

_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1.2)))


def condition_numbers(comparison: Comparison, ax: Any = None, title: str | None = None) -> Any:
    """Draw condition numbers of CGPK and ResCGPK over depth, with bounds and asymptotes.

    Figure 3 of Barzilai et al. 2022. Open markers at the upper edge are infinite condition numbers.

    Parameters
    ----------
    comparison : Comparison
        From ``conditioning.compare``.
    ax : matplotlib Axes, by default those of a new figure; returned
    title : str, optional
        The default is a summary of the comparison's settings.

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import conditioning, multisphere
    >>> X = multisphere.sample(20, 4, 8, rng=0)
    >>> ax = plots.condition_numbers(conditioning.compare(X, (1, 3, 10, 30)))
    """
    check_drawn(comparison, "comparison", "a result of conditioning.compare", "column", "n_cases")
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
        for numbers in (value, lower, improved):
            numbers[~np.isfinite(numbers)] = np.nan
        ax.plot(depth, value, marker, color=colour, markersize=5, label=label, zorder=4)
        ax.plot(depth, lower, "--", color=colour, linewidth=1.2, label="   lower bound")
        bounded = np.isfinite(upper)
        if bounded.any():
            band = {"where": bounded, "color": colour, "alpha": 0.22, "linewidth": 0}
            ax.fill_between(depth, lower, upper, label="   up to upper bound", **band)
            ax.plot(depth, improved, "-.", color=colour, label="   improved upper bound")
        else:
            ax.plot([], [], " ", color=colour, label="   upper bound vacuous: ε ≥ 1 − b")
        if infinite.any():  # open markers at the upper edge, the ResCGPK's below the CGPK's
            places = np.full(infinite.sum(), edge)
            style = {"markerfacecolor": "none", "transform": ax.get_xaxis_transform()}
            label = "   infinite: singular up to rounding"
            ax.plot(depth[infinite], places, marker, color=colour, label=label, **style)
        deep = (depth >= 10) & (law >= 1)
        if deep.any():
            label = "   asymptote: the leading term"
            ax.plot(depth[deep], law[deep], ":", color=colour, label=label)
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


def kernels_over_depth(t: np.ndarray, kernels: KernelsOverDepth, axes: Any = None) -> Any:
    """Draw normalized tangent kernels against the correlation, a line for each depth.

    The two pictures of Huang et al. 2020: columns are FFNet and ResNet, rows are kernels and
    absolute distances above 1e-14 from the limits, which are thick grey lines.

    Parameters
    ----------
    t : ndarray, (n,)
        Correlations of the pairs.
    kernels : KernelsOverDepth
        From ``degeneracy.kernels_over_depth`` on n signals and one other: (n_depths, n, 1).
    axes : ndarray of matplotlib Axes, (2, 2), by default those of a new figure; returned

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import plots
    >>> from rescntk.theory import degeneracy, smoothness
    >>> angles = np.linspace(0, np.pi, 20)
    >>> X, x = smoothness.circle(angles), smoothness.circle([0.0])
    >>> found = degeneracy.kernels_over_depth(X, x, depths=(1, 10))
    >>> axes = plots.kernels_over_depth(np.cos(angles), found)
    """
    check_drawn(kernels, "kernels", "a result of degeneracy.kernels_over_depth", "ffnet", "resnet")
    if axes is None:
        size = (1.5 * SIZE[0], 1.5 * SIZE[1])
        axes = figure(size).subplots(2, 2, sharex=True, sharey="row")
    if np.shape(axes) != (2, 2):
        raise ValueError(f"axes is {axes!r}, expected an array (2, 2) of {AXES}")
    for ax in np.ravel(axes):
        check_drawn(ax, "axes", AXES, "transAxes")
    inside = np.linspace(-1, 1 - 1e-9, 400)
    order = np.argsort(t)
    t = np.asarray(t)[order]
    names = ("FFNet", "limit ¼ (1 at correlation 1)"), ("ResNet", "limit, one layer")
    drawn = kernels.ffnet, kernels.resnet
    for (ax, below), (name, label), values, limit in zip(
        axes.T, names, drawn, (ffnet_limit, resnet_limit), strict=True
    ):
        ax.plot(inside, limit(inside), color="0.75", linewidth=6, label=label, zorder=1)
        for (k, depth), colour, marker, _ in looks(enumerate(kernels.depths)):
            style = {"color": colour, "marker": marker, "markersize": 3.5, "linewidth": 1.3}
            style["markevery"] = (3 * k, max(1, len(t) // 12))
            style["label"] = f"{depth} layer{'s' if depth > 1 else ''}"
            ax.plot(t, values[k, order, 0], **style)
            height = np.abs(values[k, order, 0] - limit(t))
            seen = height > 1e-14  # rounding errors of normalized kernels
            below.plot(t, np.where(seen, height, np.nan), **style)
        below.plot([], [], color="0.75", linewidth=6, label=label)  # for the legend of both
        ax.set_title(name)
        below.set(xlabel="correlation of the inputs", yscale="log")
        for panel in (ax, below):
            finish(panel, 3)
        ax.get_legend().remove()
    axes[0, 0].set_ylabel("normalized tangent kernel")
    axes[1, 0].set_ylabel("distance from the limit")
    return axes


def limit_distances(*reports: Report, ax: Any = None) -> Any:
    """Draw distances from predicted limits over depth, with the predicted laws.

    A law is a line. Where its constant is not predicted, it passes through the last marker.

    Parameters
    ----------
    *reports : Report
        From ``depth.check``. Without a prediction, the spread of the pairs is drawn.
    ax : matplotlib Axes, by default those of a new figure; returned

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import depth, families
    >>> ax = plots.limit_distances(depth.check(families.huang_resnet(), kind="ntk"))
    """
    if not reports:
        raise ValueError("reports is empty, expected at least one")
    for report in reports:
        check_drawn(report, "a report", "a result of depth.check", "findings", "law")
    height = max(5.0, 0.8 * len(reports))
    ax = axes(ax, (8.4, height))
    quantities, laws, dashes, names = set(), set(), cycle(_DASHES), []
    for report, colour, marker in zip(reports, cycle(COLOURS), cycle(MARKERS)):
        depth, distance = report.column("depth"), report.column("distance")
        exponent, quantity = report.exponent, "distance from the predicted limit (rms over pairs)"
        known = np.isfinite(distance).any()
        if not known:
            distance, exponent = report.column("spread"), report.step_exponent
            quantity = "spread of the pairs (standard deviation)"
        quantities.add(quantity)
        name = f"{_mathtext(report.family)}, {report.kind.upper()}: {report.verdict}"
        if np.isfinite(exponent.uncertainty):
            name += f"\n{'' if known else 'steps, '}exponent {_rounded(exponent)}"
        shown = np.where(distance > 0, distance, np.nan)
        ax.plot(depth, shown, marker, color=colour, markersize=5, zorder=4)
        law, rate = report.law, _mathtext(report.predicted_rate)
        if np.isfinite(law).any():
            exact = np.isfinite(report.predicted_constant)
            formula = f"{report.predicted_constant:.4g} {rate}" if exact else rate
            name += f"\npredicted {formula}"
            if not exact or formula not in laws:  # reports that share a law share its line
                law = np.where(np.isfinite(shown), law, np.nan)
                ax.plot(depth, law, linestyle=next(dashes), color=colour, linewidth=1.2)
            laws.add(formula)
        last = np.flatnonzero(np.isfinite(shown))[-1:]
        names.append((depth[last], shown[last], name, colour))
    logarithmic = {"xscale": "log", "yscale": "log"}
    ax.set(**logarithmic, xlabel="depth $L$ (layers)", ylabel=" or\n".join(sorted(quantities)))
    tidy(ax)
    name_ends(ax, names, 0.75 / height)
    return ax


def limit_profiles(*profiles: Profile) -> Any:
    """Draw normalized kernels over the dot product at several depths, a panel for each family.

    Lines are darker and more closed with depth. Circles are the predicted limit.

    Parameters
    ----------
    *profiles : Profile
        From ``depth.profile``.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import depth, families
    >>> picture = plots.limit_profiles(depth.profile(families.huang_resnet(), (1, 10, 100)))
    """
    if not profiles:
        raise ValueError("profiles is empty, expected at least one")
    for curve in profiles:
        check_drawn(curve, "a profile", "a result of depth.profile", "depths", "limit")
    columns = min(len(profiles), 2)
    rows = -(-len(profiles) // columns)
    picture = figure((3.4 * columns, 2.9 * rows + 0.5))
    axes = picture.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for ax, curve, colour in zip(axes.flat, profiles, cycle(COLOURS)):
        styles = cycle(_DASHES[len(curve.depths) - 1 :: -1] if len(curve.depths) < 5 else _DASHES)
        strengths = np.linspace(0.7, 1.0, len(curve.depths))
        for depth, values, strength in zip(curve.depths, curve.values, strengths, strict=True):
            line = {"linestyle": next(styles), "linewidth": 1.6 * strength, "alpha": strength}
            ax.plot(curve.t, values, color=colour, label=f"$L$ = {depth}", **line)
        if curve.limit is not None:
            dots = {"markevery": max(1, len(curve.t) // 20), "markersize": 3.5}
            t, limit = curve.t[:-1], curve.limit[:-1]
            ax.plot(t, limit, "o", markerfacecolor="none", color="black", label="limit", **dots)
        ax.set_title(f"{_mathtext(curve.family)}, {curve.kind.upper()}", fontsize="medium")
        tidy(ax)
        ax.legend(fontsize="x-small", frameon=False, loc="upper left")
    for ax in axes.flat[len(profiles) :]:
        ax.set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel("dot product $t$")
    for ax in axes[:, 0]:
        ax.set_ylabel("normalized kernel")
    return picture


def _mathtext(name: str) -> str:
    name = re.sub(r"L\^(-[\d.]+)", r"$L^{\1}$", name)
    return name.replace("α", r"$\alpha$").replace("log(L)", r"$\log L$")


def _rounded(exponent: Estimate) -> str:
    """Return an exponent to three decimals, or to the decimals that are certain."""
    value, uncertainty = exponent
    if uncertainty >= 5e-4:
        return str(exponent)
    return f"{round(value, 3) + 0.0:.3f} ± {uncertainty:.0e}"
