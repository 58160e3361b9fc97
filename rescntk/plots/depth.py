"""Pictures of convergence to infinite depth (theory/depth.py)."""

from __future__ import annotations

import re
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from .style import COLOURS, MARKERS, SIZE, axes, figure, finish

if TYPE_CHECKING:
    from ..theory.depth import Profile, Report
    from ..theory.extrapolation import Estimate

_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1.2)))


def limit_distances(*reports: Report, ax: Any = None) -> Any:
    """Draw distances from predicted limits over depth, with the predicted laws.

    Markers are distances, in root mean square over pairs of signals. Lines are predicted laws.
    Reports that share a law share its line. Where the constant of a law is not predicted, its
    line passes through the last marker. Both axes are logarithmic.

    Parameters
    ----------
    *reports : Report
        From ``depth.check``. Without a prediction, the spread of the pairs is drawn.
    ax : matplotlib Axes, optional
        Where to draw; the default is a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from rescntk import plots
    >>> from rescntk.theory import depth, families
    >>> ax = plots.limit_distances(depth.check(families.huang_resnet(), kind="ntk"))
    >>> ax.figure.savefig("limits.png")  # doctest: +SKIP
    """
    if not reports:
        raise ValueError("reports is empty, expected at least one")
    ax = axes(ax, (SIZE[0], SIZE[1] + 0.35 * max(0, 2 * len(reports) - 4)))
    quantities, laws, dashes = set(), set(), cycle(_DASHES)
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
            name += f" ({'' if known else 'steps, '}exponent {_rounded(exponent)})"
        shown = np.where(distance > 0, distance, np.nan)
        ax.plot(depth, shown, marker, color=colour, markersize=5, label=name, zorder=4)
        law, rate = report.law, _mathtext(report.predicted_rate)
        label = f"   predicted rate {rate}, through the last"
        if np.isfinite(report.predicted_constant):
            label = f"   predicted: {report.predicted_constant:.4g} {rate}"
            if label in laws:
                continue  # reports that share a law share its line
            laws.add(label)
        if np.isfinite(law).any():
            law = np.where(np.isfinite(shown), law, np.nan)
            ax.plot(depth, law, linestyle=next(dashes), color=colour, linewidth=1.2, label=label)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="depth $L$ (layers)",
        ylabel=" or ".join(sorted(quantities)),
    )
    finish(ax, 1)
    ax.xaxis.set_major_formatter(lambda value, _: f"$10^{{{round(np.log10(value))}}}$")
    return ax


def limit_profiles(*profiles: Profile) -> Any:
    """Draw normalized kernels over the dot product at several depths, a panel for each family.

    Lines are the kernels, darker and more closed with depth. Circles are the predicted limit.

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
    columns = min(len(profiles), 2)
    rows = -(-len(profiles) // columns)
    picture = figure((3.4 * columns, 2.9 * rows + 0.5))
    axes = picture.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for ax, curve, colour in zip(axes.flat, profiles, cycle(COLOURS)):
        styles = cycle(_DASHES[len(curve.depths) - 1 :: -1] if len(curve.depths) < 5 else _DASHES)
        strengths = np.linspace(0.7, 1.0, len(curve.depths))
        for depth, values, strength in zip(curve.depths, curve.values, strengths, strict=True):
            ax.plot(
                curve.t,
                values,
                color=colour,
                alpha=strength,
                linestyle=next(styles),
                linewidth=1.6 * strength,
                label=f"$L$ = {depth}",
            )
        if curve.limit is not None:
            dots = {"markevery": max(1, len(curve.t) // 20), "markersize": 3.5}
            t, limit = curve.t[:-1], curve.limit[:-1]
            ax.plot(t, limit, "o", markerfacecolor="none", color="black", label="limit", **dots)
        ax.set_title(f"{_mathtext(curve.family)}, {curve.kind.upper()}", fontsize="medium")
        ax.grid(True, linewidth=0.4, alpha=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(fontsize="x-small", frameon=False, loc="upper left")
    for ax in axes.flat[len(profiles) :]:
        ax.set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel("dot product $t$")
    for ax in axes[:, 0]:
        ax.set_ylabel("normalized kernel")
    return picture


def _mathtext(name: str) -> str:
    """Return a name with its powers of L, and α, in mathtext."""
    name = re.sub(r"L\^(-[\d.]+)", r"$L^{\1}$", name)
    return name.replace("α", r"$\alpha$").replace("log(L)", r"$\log L$")


def _rounded(exponent: Estimate) -> str:
    """Return an exponent to three decimals, or to the decimals that are certain."""
    value, uncertainty = exponent
    if uncertainty >= 5e-4:
        return str(exponent)
    return f"{round(value, 3) + 0.0:.3f} ± {uncertainty:.0e}"
