"""Pictures over depth: condition numbers, and convergence to infinite depth."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..checks.messages import shown
from ..checks.values import check_nonnegative_vector, check_positive, check_shape
from ..engines.heads import head_in_words
from .style import (
    BLUE,
    VERMILION,
    add_title_and_legend,
    axes,
    check_attributes,
    label_curves,
    style_axes,
    style_cycle,
)

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from ..theory.conditioning import Comparison
    from ..theory.depth import ConvergenceReport


def condition_numbers(
    comparison: Comparison, ax: Axes | None = None, title: str | None = None
) -> Axes:
    """Draw condition numbers over depth, with and without skip connections, bounds and asymptotes.

    Figure 3 of Barzilai et al. 2022. Open markers at the upper edge are infinite condition numbers.

    Parameters
    ----------
    comparison : Comparison
        From ``conditioning.compare``.
    ax : matplotlib Axes, optional
        The default is axes of a new figure.
    title : str, optional
        The default is a summary of the comparison's settings.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If `comparison` or `ax` is something else.

    Examples
    --------
    >>> from rescntk import Network, plots
    >>> from rescntk.theory import conditioning, multisphere
    >>> X, options = multisphere.sample(20, 4, 8, rng=0), {"kind": "gpk", "head": "trace"}
    >>> table = conditioning.compare(Network(1), X, (1, 3, 10, 30), **options)
    >>> ax = plots.condition_numbers(table)
    """
    check_attributes(
        comparison, "comparison", "a result of conditioning.compare", "column", "n_cases"
    )
    ax = axes(ax)
    depth, before = comparison.column("depth"), len(ax.get_lines())
    plain, skips = comparison.names
    for name, label, colour, marker, edge in (
        ("cnn", f"{plain} (no skip connections)", BLUE, "o", 0.99),
        ("resnet", skips, VERMILION, "s", 0.95),
    ):
        value, lower, upper, improved, law = (
            comparison.column(f"{name}.{of}")
            for of in ("condition_number", "lower", "upper", "improved", "asymptote")
        )
        infinite = ~np.isfinite(value)
        for numbers in (value, lower, improved):
            numbers[~np.isfinite(numbers)] = np.nan
        ax.plot(depth, value, marker, color=colour, markersize=5, label=label, zorder=4)
        ax.plot(depth, lower, "--", color=colour, linewidth=1.2, label="lower bound")
        bounded = np.isfinite(upper)
        if bounded.any():
            band = {"where": bounded, "color": colour, "alpha": 0.22, "linewidth": 0}
            ax.fill_between(depth, lower, upper, **band)
            ax.plot(depth, improved, "-.", color=colour, label="improved upper bound")
        else:
            ax.plot([], [], " ", color=colour, label="upper bound vacuous: ε ≥ 1 − b")
        if infinite.any():  # open markers at the upper edge, the ResNet's below the CNN's
            places = np.full(infinite.sum(), edge)
            label = "infinite: singular up to rounding"
            ax.plot(
                depth[infinite],
                places,
                marker,
                color=colour,
                label=label,
                markerfacecolor="none",
                transform=ax.get_xaxis_transform(),
            )
        deep = np.isfinite(law)
        if deep.any():
            label = "asymptote: the leading term" if comparison.kind == "gpk" else "limit"
            ax.plot(depth[deep], law[deep], ":", color=colour, label=label)
    if not np.isfinite(ax.dataLim.intervaly).all():
        ax.set_ylim(1, 10)  # identical signals: nothing is finite, and an axis needs some numbers
    ax.set(xscale="log", yscale="log", xlabel="depth (layers)", ylabel="condition number")
    if title is None:
        c = comparison
        title = (
            f"{c.n_cases} signals, {c.n_channels} channels × {c.n_timepoints} pixels; "
            f"{head_in_words(c.head)}, filter size {c.network.filter_size}, α = {c.network.alpha:g}"
        )
    add_title_and_legend(ax, 2, title, _entries(ax.get_lines()[before:], bool(ax.collections)))
    return ax


def _entries(lines: Iterable[Line2D], has_band: bool) -> list[Artist]:
    """Return entries of a legend: coloured markers of kernels, and each kind of line once, grey."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kernels: list[Artist] = []
    grey_entries: dict[str, Artist] = {}
    for line in lines:
        name, marker, style = str(line.get_label()), line.get_marker(), line.get_linestyle()
        if "CGPK" in name or "CNTK" in name:
            kernels.append(line)
        else:
            grey = Line2D([], [], linestyle=style, marker=marker, color="0.4", label=name)
            grey.set_markerfacecolor("none")
            grey_entries[name] = grey
    band = [Patch(color="0.4", alpha=0.22, label="lower to upper bound")] if has_band else []
    return [*kernels, *grey_entries.values(), *band]


def limit_distances(*reports: ConvergenceReport, ax: Axes | None = None) -> Axes:
    """Draw distances from predicted limits over depth, and the predicted rates.

    A rate is a line through the last marker.

    Parameters
    ----------
    *reports : ConvergenceReport
        From ``depth.check_convergence``. Without a prediction, one minus the mean kernel is drawn.
    ax : matplotlib Axes, optional
        The default is axes of a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If there is no report, or one is something else.

    Examples
    --------
    >>> from rescntk import literature, plots
    >>> from rescntk.theory import depth
    >>> family = depth.Family(literature.huang_resnet(1), gamma=1.0)
    >>> report = depth.check_convergence(family, kind="ntk", head="trace")
    >>> ax = plots.limit_distances(report)
    """
    if not reports:
        raise ValueError("reports is empty, expected at least one")
    for report in reports:
        check_attributes(
            report, "a report", "a result of depth.check_convergence", "prediction", "reason"
        )
    height = max(5.0, 0.8 * len(reports))
    ax = axes(ax, (8.4, height))
    quantities, names = set(), []
    for report, colour, marker, line in style_cycle(reports):
        prediction, depth = report.prediction, report.column("depth")
        values, quantity = report.column("distance"), "distance from the predicted limit (rms)"
        if prediction.undefined:
            values, quantity = report.column("complement"), "1 − normalized kernel (mean)"
        quantities.add(quantity)
        name = f"{_mathtext(report.family)}, {report.kind.upper()}: {report.verdict}"
        if np.isfinite(report.exponent.error):
            name += f"\nexponent {report.exponent.value:.3f} ± {report.exponent.error:.1g}"
        shown = np.where(values > 0, values, np.nan)
        ax.plot(depth, shown, marker, color=colour, markersize=5, zorder=4)
        last = np.flatnonzero(np.isfinite(shown))[-1:]
        if not prediction.undefined and len(last):
            power = depth**-prediction.exponent * np.log(depth) ** prediction.log_power
            scale = shown[last] / power[last] if power[last] > 0 else np.nan  # powers underflow
            law = np.where(np.isfinite(shown), power * scale, np.nan)
            ax.plot(depth, law, linestyle=line, color=colour, linewidth=1.2)
            name += f"\npredicted {_mathtext(prediction.rate)}"
        names.append((depth[last], shown[last], name, colour))
    logarithmic = {"xscale": "log", "yscale": "log"}
    ax.set(**logarithmic, xlabel="depth $L$ (layers)", ylabel=" or\n".join(sorted(quantities)))
    style_axes(ax)
    label_curves(ax, names, 0.75 / height)
    return ax


def depth_and_width(
    depths: ArrayLike,
    widths: ArrayLike,
    variances: Mapping[str, ArrayLike],
    deviation: float = 0.1,
    ax: Axes | None = None,
) -> Axes:
    """Draw the widths at which kernels of sampled networks have one relative deviation, over depth.

    Above its line a kernel deviates less. Between the given widths it is a power of the width. A
    line ends where its width is beyond the given ones.

    Parameters
    ----------
    depths : array_like, (n_depths,)
    widths : array_like, (n_widths,)
        Strictly increasing, at least two of each.
    variances : mapping from str to array_like, (n_depths, n_widths)
        Names, and relative variances of ``theory.depth.relative_variance``, which fall with width.
    deviation : float, default 0.1
        The standard deviation over the mean.
    ax : matplotlib Axes, optional
        The default is axes of a new figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If arguments are not as described.

    Examples
    --------
    >>> from rescntk import Network, plots
    >>> from rescntk.theory.depth import relative_variance
    >>> depths, widths = (1, 10, 100), (10, 100, 1000, 10_000)
    >>> networks = {"CGPK": Network(1, skip=False), "ResCGPK": Network(1)}
    >>> variances = {
    ...     name: relative_variance(network, depths, widths) for name, network in networks.items()
    ... }
    >>> ax = plots.depth_and_width(depths, widths, variances)
    """
    x, y = (_check_axis(*axis) for axis in ((depths, "depths"), (widths, "widths")))
    level = 2.0 * math.log(check_positive(deviation, "deviation"))
    if not hasattr(variances, "items") or not variances:
        raise ValueError(f"variances is {shown(variances)}, expected names and arrays")
    ax = axes(ax)
    for (name, values), colour, _, style in style_cycle(variances.items()):
        rows = check_shape(values, f"variances of {name!r}", (len(x), len(y)))
        if not (rows > 0).all():
            raise ValueError(f"variances of {name!r} has 0 or less, expected positive numbers")
        if not (np.diff(rows, axis=1) < 0).all():
            raise ValueError(
                f"variances of {name!r} has rows that do not fall, expected rows that fall"
            )
        ends = {"left": math.nan, "right": math.nan}
        found = [np.interp(-level, -np.log(row), np.log(y), **ends) for row in rows]
        ax.plot(x, np.exp(found), color=colour, linestyle=style, linewidth=2, label=name)
    ax.set(xscale="log", yscale="log", xlim=x[[0, -1]], ylim=y[[0, -1]])
    ax.set(xlabel="depth (layers)", ylabel="width (channels)")
    title = f"Widths at which sampled kernels deviate by {100 * deviation:g} %"
    add_title_and_legend(ax, 2, title)
    return ax


def _check_axis(values: ArrayLike, name: str) -> np.ndarray:
    """Return strictly increasing, positive numbers of an axis."""
    numbers = check_nonnegative_vector(values, name)
    if len(numbers) < 2 or numbers[0] == 0 or not (np.diff(numbers) > 0).all():
        raise ValueError(f"{name} is {shown(values)}, expected two or more increasing numbers")
    return numbers


def _mathtext(name: str) -> str:
    name = re.sub(r"L\^(-[\d.]+)", r"$L^{\1}$", name)
    return name.replace("α", r"$\alpha$").replace("log(L)", r"$\log L$")
