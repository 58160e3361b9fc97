"""Bars, tables and a picture of the measurements of benchmarks/scale.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

Report = dict[str, Any]

COLOURS = {"landmarks": "#0072B2", "full": "#D55E00", "minirocket": "#009E73"}
NAMES = {"landmarks": "landmarks", "full": "full kernel", "minirocket": "MiniRocket"}

ERROR_TICKS = (0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2, 0.3, 0.4, 0.6)
"""Shares of errors that the picture names."""

PAIRS_A_SECOND_CORE = 1e6 / 71
"""Pairs of d = 128, depth 5, float32, GAP that a core computes in a second: 71 µs each.

From benchmarks/results/cpu.md: 21.5 µs on two cores at d = 100 for both kernels, times 1.28² for
the length, times two cores.
"""


def rows(report: Report, part: str, **sizes: Any) -> list[Report]:
    """Return the measurements of a part with these sizes, by their number of signals."""
    found = [
        row
        for row in report["rows"]
        if row["spec"]["part"] == part
        and "error" not in row
        and all(row["spec"].get(name) == value for name, value in sizes.items())
    ]
    return sorted(found, key=lambda row: row["spec"]["n"])


def bars(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yield each bar with the number measured, and whether it is met."""
    cbf = "cylinder-bell-funnel"
    largest = rows(report, "landmarks", problem_name=cbf, n=50_000)
    yield _bar(
        "features and ridge, n = 50 000, over the pairs' time", largest, "times_the_pairs", 1.15
    )
    yield _bar("memory there, MB", largest, "megabytes", 3000)
    exact = rows(report, "full", problem_name=cbf, n=5000)
    ours = rows(report, "landmarks", problem_name=cbf, n=5000)
    if exact and ours:
        loss = exact[0]["accuracy"] - ours[0]["accuracy"]
        yield "accuracy below the full kernel's, n = 5000", f"{loss:.4f}", _met(loss <= 0.01)
    else:
        yield "accuracy below the full kernel's, n = 5000", "–", "not measured"
    if largest and ours:
        rise = largest[0]["accuracy"] - ours[0]["accuracy"]
        yield "accuracy gained from n = 5000 to 50 000", f"{rise:.4f}", _met(rise > 0)
    yield _bar(
        "pivoted Cholesky over the best of equal rank", rows(report, "spectra"), "worst", 1.5
    )
    solved = rows(report, "conjugate_gradients", n=10_000)
    yield _bar("iterations to 1e-6, n = 10 000", solved, "iterations", 50)
    if solved:
        without = solved[0]["iterations_without"]
        yield "iterations without landmarks", f"{without}", _met(without >= 100)
    stored = rows(report, "overhead", n=5000)
    yield _bar("stored Gram on two workers, over memory", stored, "overhead_on_workers", 0.05)


def _bar(name: str, found: list[Report], field: str, most: float) -> tuple[str, str, str]:
    if not found:
        return f"{name} (at most {most:g})", "–", "not measured"
    value = found[0][field]
    return f"{name} (at most {most:g})", f"{value:.4g}", _met(value <= most)


def _met(is_met: bool) -> str:
    return "met" if is_met else "missed"


def text(report: Report) -> str:
    """Return the report as Markdown."""
    m = report["machine"]
    lines = [
        "# Large Grams",
        "",
        f"{m['processor']}, {m['cores']} cores; Python {m['python']}, NumPy {m['numpy']}. "
        "Seconds (s) are processor seconds of all threads.",
        "",
        "| bar | measured | |",
        "|---|--:|---|",
        *(f"| {name} | {value} | {met} |" for name, value, met in bars(report)),
        "",
        "| problem | method | n | landmarks | seconds | over the pairs' time | MB | accuracy |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for problem in _problems(report):
        for part in COLOURS:
            for row in rows(report, part, problem_name=problem):
                times = row.get("times_the_pairs")
                lines.append(
                    f"| {problem} | {NAMES[part]} | {row['spec']['n']} "
                    f"| {row['spec'].get('rank', '')} | {row['seconds']:.3g} "
                    f"| {'' if times is None else f'{times:.2f}'} | {row['megabytes']:.0f} "
                    f"| {row['accuracy']:.3f} |"
                )
    lines += ["", *_sentences(report), "", *_outlook()]
    return "\n".join(lines) + "\n"


def _problems(report: Report) -> list[str]:
    """Return the names of the problems with landmarks, in the order measured."""
    return list(dict.fromkeys(r["spec"]["problem_name"] for r in rows(report, "landmarks")))


def _sentences(report: Report) -> Iterator[str]:
    """Yield a sentence for each of the other measurements."""
    for problem in _problems(report):
        name, depth, size = rows(report, "landmarks", problem_name=problem)[0]["spec"]["kernel"]
        yield f"* Kernel on {problem}: normalized {name}({depth}, input_filter_size={size})."
    for row in rows(report, "spectra"):
        parts = ", ".join(f"{name}: {x:.2f}" for name, x in row["times_the_best"].items())
        yield f"* Pivoted Cholesky over the best error of equal rank, by eigenvalues: {parts}."
    for row in rows(report, "conjugate_gradients"):
        yield (
            f"* {row['spec']['n']} equations, {row['spec']['rank']} landmarks, λ = "
            f"{row['spec']['ridge']:g}: {row['iterations']} iterations in "
            f"{row['seconds_of_iterations']:.3g} s, {row['iterations_without']} without landmarks "
            f"(residual {row['residual_without']:.1g}); the Gram took "
            f"{row['seconds_of_the_gram']:.3g} s, the landmarks "
            f"{row['seconds_of_landmarks']:.3g} s."
        )
    for row in rows(report, "overhead"):
        worker = row["megabytes_of_workers"] - row["megabytes_of_workers_before"]
        yield (
            f"* Stored Gram, {row['spec']['n']} signals: "
            f"{row['seconds_in_memory']:.3g} s in memory, "
            f"{100 * row['overhead_here']:+.1f} % stored in this process, "
            f"{100 * row['overhead_on_workers']:+.1f} % on {row['spec']['workers']} workers, each "
            f"with {worker:.0f} MB more than at rest (a block has "
            f"{row['megabytes_of_a_block']:.0f} MB)."
        )


def _outlook() -> Iterator[str]:
    """Yield what Grams of d = 128, depth 5, float32 would cost, calculated from one pair."""
    yield "Calculated, d = 128, depth 5, float32, at 71 µs of a core for a pair of signals:"
    yield ""
    yield "| n | full Gram, core-hours | on disk, both kinds | 500 landmarks, core-hours |"
    yield "|--:|--:|--:|--:|"
    for n in (5000, 10_000, 20_000, 50_000, 10**6):
        hours = [pairs / PAIRS_A_SECOND_CORE / 3600 for pairs in (n * (n + 1) / 2, 501 * n)]
        disk = 2 * 4 * n * n / 1e9
        yield f"| {n} | {hours[0]:,.2f} | {disk:,.1f} GB | {hours[1]:,.2f} |"


def draw(report: Report, path: Path) -> None:
    """Draw time and error against the number of signals."""
    from rescntk import plots

    problems = _problems(report)
    figure = plots.figure((9.0, 3.4 * len(problems)))
    axes = figure.subplots(len(problems), 2, squeeze=False)
    for (left, right), problem in zip(axes, problems, strict=True):
        for part, colour in COLOURS.items():
            found = rows(report, part, problem_name=problem)
            n = [row["spec"]["n"] for row in found]
            style = {"color": colour, "marker": "o", "markersize": 4, "label": NAMES[part]}
            left.plot(n, [row["seconds"] for row in found], **style)
            right.plot(n, [1 - row["accuracy"] for row in found], **style)
        left.set(ylabel="processor seconds of training", title=problem)
        right.set(ylabel="share of errors", title=problem)
        sizes = sorted({r["spec"]["n"] for r in rows(report, "landmarks", problem_name=problem)})
        for ax in (left, right):
            ax.set(xscale="log", yscale="log", xlabel="signals n")
            ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
            ax.minorticks_off()
            ax.grid(True, linewidth=0.4, alpha=0.6)
            ax.spines[["top", "right"]].set_visible(False)
        low, high = right.get_ylim()
        shares = [share for share in ERROR_TICKS if low <= share <= high]
        right.set_yticks(shares, [f"{share:g}" for share in shares])
    axes[0, 0].legend(fontsize="small", frameon=False)
    figure.savefig(path)
