"""Bars, a table and a picture of the rows of benchmarks/gpu.py."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from gpu_rows import DEPTH, DTYPES, FULL, OURS, PEERS, SMALL, Row, plan

Report = dict[str, Any]

HARDWARE = "H200"
"""The bars are for it."""

# name: (bar of float32, bar of float64, whether a value may be at most or at least that)
BARS = {
    "picoseconds of a pixel pair and layer": (3.0, 8.0, "at most"),
    "share of the bound of issue slots": (0.5, 0.5, "at least"),
    "times the better peer": (8.0, 5.0, "at least"),
    "seconds of 10 000 signals": (25.0, 60.0, "at most"),
}


def look_up(report: Report, row: Row, field: str) -> float:
    """Return a number of a row; NaN if it is missing."""
    found = next((r for r in report["rows"] if row.of(r)), {})
    value = found.get(field)
    return float(value) if isinstance(value, (int, float)) else math.nan


def times_better_peer(report: Report, row: Row) -> float:
    """Return how many times faster a Gram is than the better peer; NaN if any number is missing."""
    peers = [Row("peers", who, row.dtype, None, row.d, row.q) for who in PEERS]
    pairs = [look_up(report, peer, "seconds_of_a_pair") for peer in peers]
    best = math.nan if any(map(math.isnan, pairs)) else min(pairs)
    return best * row.pairs / look_up(report, row, "seconds")


def verdicts(report: Report) -> dict[str, dict[str, Any]]:
    """Return each bar with its value (None if a row is missing or failed) and whether it is met.

    The bars are for the full sizes on one GPU: on others none is judged.
    """
    machine, judged = report["machine"], {}
    comparable = machine["sizes"] == "full" and HARDWARE in machine["hardware"]
    for dtype, number in zip(DTYPES, range(2), strict=True):
        own = [row for row in plan(FULL) if row.dtype == dtype and row.who == OURS]
        layer, large = (next(r for r in own if r.part == part) for part in ("layer", "large"))
        ratios = [times_better_peer(report, row) for row in own if row.part != "layer"]
        values = (
            look_up(report, layer, "picoseconds"),
            look_up(report, layer, "share_of_bound"),
            math.nan if any(map(math.isnan, ratios)) else min(ratios),
            look_up(report, large, "seconds"),
        )
        for (name, bar), value in zip(BARS.items(), values, strict=True):
            met = value <= bar[number] if bar[2] == "at most" else value >= bar[number]
            known = not math.isnan(value)
            judged[f"{name}, {dtype}"] = {
                "bar": f"{bar[2]} {bar[number]:g}",
                "value": value if known else None,
                "met": met if known and comparable else None,
            }
    return judged


def summary(found: dict[str, Any]) -> str:
    """Return a row's main number, for a line of progress."""
    if "error" in found:
        return f"failed: {found['error']}"
    if "seconds_of_a_pair" in found:
        return f"{1e6 * found['seconds_of_a_pair']:.4g} µs a pair ({found['stopped']})"
    text = f"{found['seconds']:.4g} s, {per_entry(found):.3g} ps an entry and layer"
    if "share_of_bound" in found:
        text += f", {100 * found['share_of_bound']:.0f} % of the bound"
    return f"{text}; {found['missing']}" if "missing" in found else text


def table(report: Report) -> str:
    """Return the verdicts as lines."""
    words = {True: "met", False: "missed", None: "not judged"}
    lines = [f"{report['machine']['hardware']}:"]
    for name, verdict in report["verdicts"].items():
        value = "–" if verdict["value"] is None else f"{verdict['value']:.3g}"
        lines.append(f"  {name}: {value}, {verdict['bar']}: {words[verdict['met']]}")
    return "\n".join(lines)


def per_entry(found: dict[str, Any]) -> float:
    """Return a row's picoseconds of a pixel pair and layer."""
    if found["who"] == OURS:
        return 1e12 * found["seconds"] / found["entries"]
    return 1e12 * found["seconds_of_a_pair"] / (found["d"] ** 2 * DEPTH)


def draw(report: Report, path: Path) -> None:
    """Draw seconds of Grams against n, and picoseconds of a pixel pair and layer against d."""
    from rescntk import plots
    from rescntk.plots import style

    good = [r for r in report["rows"] if "error" not in r]
    sizes = FULL if report["machine"]["sizes"] == "full" else SMALL
    counts = sorted({r["n"] for r in good if r["part"] in ("large", "grams")})
    figure = plots.figure((4.0 * (1 + len(sizes.filters)), 4.4))
    over_n, *over_d = figure.subplots(1, 1 + len(sizes.filters))

    def show(ax: Any, points: list[tuple[float, float]], number: int, dtype: str) -> None:
        if points:
            ax.loglog(
                *zip(*sorted(points), strict=True),
                "-" if dtype == "float32" else "--",
                color=style.COLOURS[number],
                marker=style.MARKERS[number],
                label=f"{(OURS, *PEERS)[number]}, {dtype}",
            )

    for number, who in enumerate((OURS, *PEERS)):
        for dtype in DTYPES:
            mine = [r for r in good if (r["who"], r["dtype"]) == (who, dtype)]
            mine = [r for r in mine if r["part"] != "layer"]
            centre = [r for r in mine if (r["d"], r["q"]) == (sizes.d, sizes.q)]
            if who == OURS:
                points = [(r["n"], r["seconds"]) for r in centre]
            else:  # by their time of a pair
                pairs = [r["seconds_of_a_pair"] for r in centre]
                points = [(n, pair * n * (n + 1) / 2) for pair in pairs for n in counts]
            show(over_n, points, number, dtype)
            for ax, q in zip(over_d, sizes.filters, strict=True):
                star = [r for r in mine if r["q"] == q and r["n"] in (sizes.n, None)]
                show(ax, [(r["d"], per_entry(r)) for r in star], number, dtype)
    for r in good:
        if "bound_picoseconds" in r:
            label = f"issue slots, {r['dtype']}"
            line = ":" if r["dtype"] == "float32" else "-."
            over_d[0].axhline(r["bound_picoseconds"], linestyle=line, color="black", label=label)
    over_n.set(
        xlabel="signals n", ylabel="seconds of a Gram", title=f"d = {sizes.d}, q = {sizes.q}"
    )
    for ax, q in zip(over_d, sizes.filters, strict=True):
        ax.set(xlabel="time points d", title=f"n = {sizes.n}, q = {q}")
    over_d[0].set_ylabel("ps per pixel pair and layer")
    handles = {}
    for ax in (over_n, *over_d):
        handles |= dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, frameon=False)
    m = report["machine"]
    figure.suptitle(
        f"{m['hardware']}: GPK and NTK, GAP, {m['depth']} layers, {m['channels']} channels"
    )
    figure.savefig(path)
