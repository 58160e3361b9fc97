"""Bars, tables and a picture of the measurements of benchmarks/scale.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
from harness import Row

COLOURS = {"landmarks": "#0072B2", "full": "#D55E00", "minirocket": "#009E73"}
NAMES = {"landmarks": "landmarks", "full": "full kernel", "minirocket": "MiniRocket"}

ERROR_TICKS = (0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2, 0.3, 0.4, 0.6)
"""Shares of errors that the picture names."""

PAIRS_A_SECOND_CORE = 1e6 / 71
"""Pairs of d = 128, depth 5, float32, GAP that a core computes in a second: 71 µs each.

From benchmarks/results/cpu.md: 21.5 µs on two cores at d = 100 for both kernels, times 1.28² for
the length, times two cores.
"""


def rows(report: Row, part: str, **sizes: Any) -> list[Row]:
    """Return the measurements of a part with these sizes, by their number of signals."""
    found = [
        row
        for row in report["rows"]
        if row["spec"]["part"] == part
        and "error" not in row
        and all(row["spec"].get(name) == value for name, value in sizes.items())
    ]
    return sorted(found, key=lambda row: row["spec"]["n"])


def bars(report: Row) -> Iterator[tuple[str, str, str]]:
    """Yield each bar with the number measured, and whether it is met."""

    def bar(name: str, measured: list[Row], field: str, most: float) -> tuple[str, str, str]:
        title = f"{name} (at most {most:g})"
        if not measured:
            return title, "–", "not measured"
        value = measured[0][field]
        return title, f"{value:.4g}", harness.verdict(value <= most)

    cbf = {"problem_name": "cylinder-bell-funnel"}
    largest = rows(report, "landmarks", **cbf, n=50_000)
    name = "features and ridge, n = 50 000, over the pairs' time"
    yield bar(name, largest, "times_the_pairs", 1.15)
    yield bar("memory there, MB", largest, "megabytes", 3000)
    exact, ours = rows(report, "full", **cbf, n=5000), rows(report, "landmarks", **cbf, n=5000)
    name = "accuracy below the full kernel's, n = 5000"
    if exact and ours:
        loss = exact[0]["accuracy"] - ours[0]["accuracy"]
        yield name, f"{loss:.4f}", harness.verdict(loss <= 0.01)
    else:
        yield name, "–", "not measured"
    if largest and ours:
        rise = largest[0]["accuracy"] - ours[0]["accuracy"]
        name = "accuracy gained from n = 5000 to 50 000"
        yield name, f"{rise:.4f}", harness.verdict(rise > 0)
    yield bar("pivoted Cholesky over the best of equal rank", rows(report, "spectra"), "worst", 1.5)
    solved = rows(report, "conjugate_gradients", n=10_000)
    yield bar("iterations to 1e-6, n = 10 000", solved, "iterations", 50)
    if solved:
        without = solved[0]["iterations_without"]
        yield "iterations without landmarks", f"{without}", harness.verdict(without >= 100)
    stored = rows(report, "overhead", n=5000)
    yield bar("stored Gram on two workers, over memory", stored, "overhead_on_workers", 0.05)


def text(report: Row) -> str:
    """Return the report as Markdown."""
    m = report["machine"]
    methods = (
        "problem", "method", "n", "landmarks", "seconds", "over the pairs' time", "MB", "accuracy",
    )  # fmt: skip
    cells = [
        (
            problem,
            NAMES[part],
            row["spec"]["n"],
            row["spec"].get("rank", ""),
            f"{row['seconds']:.3g}",
            f"{row['times_the_pairs']:.2f}" if "times_the_pairs" in row else "",
            f"{row['megabytes']:.0f}",
            f"{row['accuracy']:.3f}",
        )
        for problem in _problems(report)
        for part in COLOURS
        for row in rows(report, part, problem_name=problem)
    ]
    lines = [
        "# Large Grams",
        "",
        f"{m['processor']}, {m['cores']} cores; Python {m['python']}, NumPy {m['numpy']}. "
        "Seconds (s) are processor seconds of all threads.",
        "",
        "| bar | measured | |",
        "|---|--:|---|",
        *map(harness.line, bars(report)),
        "",
        *harness.table(methods, cells, left=(0, 1)),
        "",
        *_sentences(report),
        "",
        *_outlook(),
    ]
    return "\n".join(lines) + "\n"


def _problems(report: Row) -> list[str]:
    """Return the names of the problems with landmarks, in the order measured."""
    return list(dict.fromkeys(r["spec"]["problem_name"] for r in rows(report, "landmarks")))


def _sentences(report: Row) -> Iterator[str]:
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


def _outlook() -> list[str]:
    """Return what Grams of d = 128, depth 5, float32 would cost, calculated from one pair."""
    header = (
        "n", "full Gram, core-hours", "on disk, both kinds", "500 landmarks, core-hours",
    )  # fmt: skip
    cells = []
    for n in (5000, 10_000, 20_000, 50_000, 10**6):
        hours = [pairs / PAIRS_A_SECOND_CORE / 3600 for pairs in (n * (n + 1) / 2, 501 * n)]
        cells.append((n, f"{hours[0]:,.2f}", f"{8 * n * n / 1e9:,.1f} GB", f"{hours[1]:,.2f}"))
    return [
        "Calculated, d = 128, depth 5, float32, at 71 µs of a core for a pair of signals:",
        "",
        *harness.table(header, cells, left=()),
    ]


def draw(report: Row, path: Path) -> None:
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
            harness.tidy(ax)
        low, high = right.get_ylim()
        shares = [share for share in ERROR_TICKS if low <= share <= high]
        right.set_yticks(shares, [f"{share:g}" for share in shares])
    axes[0, 0].legend(fontsize="small", frameon=False)
    figure.savefig(path)
