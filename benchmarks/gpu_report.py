"""What the rows of benchmarks/gpu.py say: the issue's bars, a table, a picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from gpu_rows import DTYPES, FULL, OURS, PEERS, Row, plan

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


def brief(found: dict[str, Any]) -> str:
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


def draw(report: Report, path: Path) -> None:
    """Draw seconds of Grams against n, and picoseconds of an entry and layer against d."""
    from rescntk import plots
    from rescntk.plots import style

    looks = dict(zip((OURS, *PEERS), zip(style.COLOURS, "osD", strict=False), strict=True))
    lines = {"float32": ("-", None), "float64": ("--", "white")}
    good = [r for r in report["rows"] if "error" not in r]
    if not good:
        return
    figure = plots.figure((11.0, 4.4))
    axes = figure.subplots(1, 3)
    centre = next(Row(**{k: r[k] for k in Row.__dataclass_fields__}) for r in good)
    counts = sorted({r["n"] for r in good if r["part"] in ("grams", "large")})
    filters = sorted({r["q"] for r in good})
    axes[1].sharey(axes[2])

    def show(ax: Any, points: list[tuple[float, float]], who: str, dtype: str) -> None:
        colour, marker = looks[who]
        line, face = lines[dtype]
        ax.plot(
            *zip(*sorted(points), strict=True), line, color=colour, marker=marker, markersize=5,
            markerfacecolor=face or colour, label=f"{who}, {dtype}",
        )  # fmt: skip

    for who in looks:
        for dtype in DTYPES:
            mine = [r for r in good if (r["who"], r["dtype"]) == (who, dtype)]
            whole = [r for r in mine if r["part"] in ("grams", "large", "peers")]

            def per_entry(r: dict[str, Any]) -> float:
                if r["who"] == OURS:
                    return 1e12 * r["seconds"] / r["entries"]
                return (
                    1e12
                    * r["seconds_of_a_pair"]
                    * Row("grams", OURS, "", 1, r["d"], 0).pairs
                    / (Row("grams", OURS, "", 1, r["d"], 0).entries)
                )

            here = [r for r in whole if (r["d"], r["q"]) == (centre.d, centre.q)]
            points = [(r["n"], r["seconds"]) for r in here if who == OURS]
            if who != OURS and here:
                pair = here[0]["seconds_of_a_pair"]
                points = [(n, pair * n * (n + 1) / 2) for n in counts]
            if points:
                show(axes[0], points, who, dtype)
            for ax, q in zip(axes[1:], filters, strict=False):
                star = [
                    r for r in whole if r["q"] == q and r["n"] in (None, min(counts, default=0))
                ]
                if star:
                    show(ax, [(r["d"], per_entry(r)) for r in star], who, dtype)
    for r in good:
        if r.get("bound_picoseconds"):
            line = {"float32": ":", "float64": "-."}[r["dtype"]]
            axes[1].axhline(
                r["bound_picoseconds"], linestyle=line, color="black", linewidth=1,
                label=f"issue slots, {r['dtype']}",
            )  # fmt: skip
    axes[0].set(xlabel="signals n", ylabel="seconds of a Gram")
    axes[0].set_title(f"d = {centre.d}, q = {centre.q}; peers: by the pair", fontsize="medium")
    for ax, q in zip(axes[1:], filters, strict=False):
        ax.set(xlabel="time points d", ylabel="ps per pixel pair and layer")
        ax.set_title(f"n = {min(counts, default=0)}, q = {q}", fontsize="medium")
        ax.set_xticks(sorted({r["d"] for r in good}))
    for ax in axes:
        ax.set(xscale="log", yscale="log")
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter("")
        ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(True, which="major", linewidth=0.4, alpha=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False,
        fontsize="small",
    )  # fmt: skip
    m = report["machine"]
    figure.suptitle(
        f"{m['hardware']}: GPK and NTK, GAP, {m['depth']} layers, {m['channels']} channels",
        fontsize="medium",
    )
    figure.savefig(path)
