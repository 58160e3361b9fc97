"""Verdicts, a table and a picture of the rows of benchmarks/gpu.py."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from gpu_rows import DEPTH, DTYPES, FULL, OURS, PEERS, SMALL, Row, plan

Report = dict[str, Any]
Found = tuple[float | None, str]

HARDWARE = "H200"
"""The bars are for it."""

# name: (bar of float32, bar of float64, whether a value may be at most or at least that)
BARS = {
    "picoseconds of a pixel pair and layer": (3.0, 8.0, "at most"),
    "share of the bound of issue slots": (0.5, 0.5, "at least"),
    "times the better peer": (8.0, 5.0, "at least"),
    "seconds of 10 000 signals": (25.0, 60.0, "at most"),
}


def look_up(report: Report, row: Row, field: str) -> Found:
    """Return a number of a row, or why there is none."""
    found = next((r for r in report["rows"] if row.of(r)), None)
    if found is None:
        return None, f"not measured: {row}"
    if "error" in found:
        return None, f"failed: {row}: {found['error']}"
    value = found.get(field)
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None, f"no number: {row}: {'; '.join(found.get('missing', [])) or field}"
    return value, str(row)


def times(report: Report, row: Row) -> tuple[float | None, float | None, list[str]]:
    """Return how many times faster a Gram is than the better of all peers, and of those there are.

    The second can only become less with more peers. With them, what is missing.
    """
    own, why = look_up(report, row, "seconds")
    missing = [] if own is not None else [why]
    peers = []
    for who in PEERS:
        pair, why = look_up(
            report, Row("peers", who, row.dtype, None, row.d, row.q), "seconds_of_a_pair"
        )
        if pair is None:
            missing.append(why)
        else:
            peers.append(pair * row.pairs)
    most = min(peers) / own if peers and own else None
    return (most if not missing else None), most, missing


def verdicts(report: Report) -> dict[str, dict[str, Any]]:
    """Return each bar with its value and whether it is met: true, false, or null with a reason.

    Met only if all of it was measured; missed also by a part that falls short by itself.
    """
    rows, judged = plan(FULL), {}
    for name, (*bars, sense) in BARS.items():
        for dtype, bar in zip(DTYPES, bars, strict=True):
            own = [row for row in rows if row.dtype == dtype and row.who == OURS]
            layer = next(row for row in own if row.part == "layer")
            large = next(row for row in own if row.part == "large")
            missing: list[str] = []
            if name.startswith("times"):
                grams = [row for row in own if row.part in ("large", "grams")]
                ratios = [times(report, row) for row in grams]
                least = [most for _, most, _ in ratios if most is not None]
                value = min(least) if least else None
                missing = list(dict.fromkeys(one for *_, some in ratios for one in some))
                if value is not None and value >= bar and missing:
                    value = None  # of what is there
            else:
                row, field = {
                    "picoseconds": (layer, "picoseconds"),
                    "share": (layer, "share_of_bound"),
                    "seconds": (large, "seconds"),
                }[name.split()[0]]
                value, why = look_up(report, row, field)
                missing = [] if value is not None else [why]
            one: dict[str, Any] = {"bar": f"{sense} {bar:g}", "value": value, "met": None}
            if value is None:
                one["why"] = "; ".join(missing[:3]) + ("; …" if len(missing) > 3 else "")
            elif report["machine"].get("sizes") != "full":
                one["why"] = "the sizes are not the bar's"
            elif HARDWARE not in report["machine"]["hardware"]:
                one["why"] = f"the bar is for an {HARDWARE}"
            else:
                one["met"] = value <= bar if sense == "at most" else value >= bar
            judged[f"{name}, {dtype}"] = one
    return judged


def summary(found: dict[str, Any]) -> str:
    """Return a row's main number, for a line of progress."""
    if "error" in found:
        return f"failed: {found['error']}"
    if "seconds_of_a_pair" in found:
        text = f"{1e6 * found['seconds_of_a_pair']:.4g} µs a pair ({found['stopped']})"
    else:
        rate = 1e12 * found["seconds"] / found["entries"]
        text = f"{found['seconds']:.4g} s, {rate:.3g} ps an entry and layer"
    if found.get("share_of_bound") is not None:
        text += f", {100 * found['share_of_bound']:.0f} % of the bound"
    for reason in found.get("missing", []):
        text += f"; {reason}"
    return f"{text}; {found['wall']:.0f} s in all"


def table(report: Report) -> str:
    """Return the verdicts as lines."""
    words = {True: "met", False: "missed", None: "not judged"}
    lines = [f"{report['machine']['hardware']}:"]
    for name, one in report["verdicts"].items():
        value = "–" if one["value"] is None else f"{one['value']:.3g}"
        why = f": {one['why']}" if "why" in one else ""
        lines.append(f"  {name}: {value}, {one['bar']}: {words[one['met']]}{why}")
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
    grams = [r for r in good if r["part"] in ("large", "grams")]
    if not grams:
        return
    sizes = FULL if report["machine"]["sizes"] == "full" else SMALL
    counts = sorted({r["n"] for r in grams})
    filters = sorted({r["q"] for r in grams})
    contestants = [
        (who, dtype, [r for r in good if (r["who"], r["dtype"]) == (who, dtype)])
        for who in (OURS, *PEERS)
        for dtype in DTYPES
    ]
    colours = dict(zip((OURS, *PEERS), style.COLOURS, strict=False))
    markers = dict(zip((OURS, *PEERS), style.MARKERS, strict=False))
    figure = plots.figure((11.0 if len(filters) > 1 else 8.0, 4.4))
    over_n, *over_d = figure.subplots(1, 1 + len(filters))

    def show(ax: Any, points: list[tuple[float, float]], who: str, dtype: str) -> None:
        single = dtype == "float32"
        ax.plot(
            *zip(*sorted(points), strict=True),
            "-" if single else "--",
            color=colours[who],
            marker=markers[who],
            markersize=5,
            markerfacecolor=colours[who] if single else "white",
            label=f"{who}, {dtype}",
        )

    for who, dtype, mine in contestants:
        here = [r for r in mine if (r["d"], r["q"]) == (sizes.d, sizes.q) and r["part"] != "layer"]
        if who == OURS:
            points = [(r["n"], r["seconds"]) for r in here]
        else:
            points = [(n, r["seconds_of_a_pair"] * n * (n + 1) / 2) for r in here for n in counts]
        if points:
            show(over_n, points, who, dtype)
        for ax, q in zip(over_d, filters, strict=True):
            star = [r for r in mine if r["q"] == q and (r["part"], r["n"]) in (
                ("grams", sizes.n), ("peers", None))]  # fmt: skip
            if star:
                show(ax, [(r["d"], per_entry(r)) for r in star], who, dtype)
    for r in good:
        if r.get("bound_picoseconds"):
            line = ":" if r["dtype"] == "float32" else "-."
            label = f"issue slots, {r['dtype']}"
            over_d[0].axhline(
                r["bound_picoseconds"], linestyle=line, color="black", linewidth=1, label=label
            )
    over_n.set(xlabel="signals n", ylabel="seconds of a Gram")
    over_n.set_title(f"d = {sizes.d}, q = {sizes.q}; peers by their time of a pair")
    over_d[0].set(ylabel="ps per pixel pair and layer")
    for ax, q in zip(over_d, filters, strict=True):
        ax.set(xlabel="time points d")
        ax.set_title(f"n = {sizes.n}, q = {q}")
        ax.sharey(over_d[0])
    for ax, ticks in zip([over_n, *over_d], [counts, *[sizes.lengths] * len(filters)], strict=True):
        ax.set(xscale="log", yscale="log")
        ax.title.set_fontsize("medium")
        ax.set_xticks(ticks)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
        ax.grid(True, which="major", linewidth=0.4, alpha=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    labelled = {}
    for ax in (over_n, *over_d):
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            labelled.setdefault(label, handle)
    figure.legend(
        labelled.values(), labelled.keys(), loc="outside lower center", ncols=4, frameon=False,
        fontsize="small",
    )  # fmt: skip
    m = report["machine"]
    figure.suptitle(
        f"{m['hardware']}: GPK and NTK, GAP, {m['depth']} layers, {m['channels']} channels",
        fontsize="medium",
    )
    figure.savefig(path)
