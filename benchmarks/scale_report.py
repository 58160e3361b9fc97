"""Bars and tables of the measurements of benchmarks/scale.py."""

from collections.abc import Iterator

import harness
from harness import Row

NAMES = {"landmarks": "landmarks", "full": "full kernel", "minirocket": "MiniRocket"}
LEAST_SHARE, MOST_SECONDS = 0.99, 600.0
"""Bars of our classifier: landmarks' share of all signals' accuracy; 20 000 signals, two cores."""


def rows(report: Row, part: str) -> list[Row]:
    """Return the measurements of a part, by their number of signals."""
    found = [row for row in report["rows"] if "error" not in row and row["part"] == part]
    return sorted(found, key=lambda row: row["n"])


def bars(report: Row) -> Iterator[tuple[str, str, str]]:
    of = {(row["part"], row["n"]): row for row in report["rows"] if "error" not in row}
    large, small = (of.get(("landmarks", n), {}) for n in (50_000, 5000))
    exact, solved = of.get(("full", 5000), {}), of.get(("conjugate_gradients", 10_000), {})
    spread = of.get(("overhead", 5000), {})

    def less(above: Row, below: Row) -> float | None:
        return above["accuracy"] - below["accuracy"] if above and below else None

    for name, value, form, bar, is_least in (
        ("features and ridge, n = 50 000, over the pairs' time (at most 1.15)",
         large.get("times_the_pairs"), ".4g", 1.15, False),
        ("memory there, MB (at most 3000)", large.get("megabytes"), ".4g", 3000, False),
        ("accuracy below the full kernel's, n = 5000", less(exact, small), ".4f", 0.01, False),
        ("accuracy gained from n = 5000 to 50 000", less(large, small), ".4f", 0.0, True),
        ("iterations to 1e-6, n = 10 000 (at most 50)", solved.get("iterations"), ".4g", 50, False),
        ("iterations without landmarks", solved.get("iterations_without"), ".4g", 99, True),
        ("stored Gram on two workers, over memory (at most 0.05)",
         spread.get("overhead_on_workers"), ".4g", 0.05, False),
    ):  # fmt: skip
        if value is None:
            yield name, "–", "not measured"
        else:
            met = value > bar if is_least else value <= bar
            yield name, f"{value:{form}}", harness.verdict(met)


def text(report: Row) -> str:
    m = report["machine"]
    methods = ("method", "n", "landmarks", "seconds", "over the pairs' time", "MB", "accuracy")
    cells = [
        (
            name,
            row["n"],
            row.get("rank", ""),
            f"{row['seconds']:.3g}",
            f"{row['times_the_pairs']:.2f}" if "times_the_pairs" in row else "",
            f"{row['megabytes']:.0f}",
            f"{row['accuracy']:.3f}",
        )
        for part, name in NAMES.items()
        for row in rows(report, part)
    ]
    return harness.page(
        "# Large Grams",
        f"{m['processor']}, {m['cores']} cores; Python {m['python']}, NumPy {m['numpy']}. "
        "Seconds (s) are processor seconds of all threads.",
        harness.table(("bar", "measured", ""), bars(report), left=(0, 2)),
        harness.table(methods, cells),
        list(sentences(report)),
    )


def sentences(report: Row) -> Iterator[str]:
    for row in rows(report, "landmarks")[:1]:
        name, depth, size = row["kernel"]
        kernel = f"normalized {name}({depth}, input_filter_size={size})"
        yield f"* Kernel on cylinder-bell-funnel: {kernel}."
    for row in rows(report, "conjugate_gradients"):
        yield (
            f"* {row['n']} equations, {row['rank']} landmarks, λ = "
            f"{row['ridge']:g}: {row['iterations']} iterations in "
            f"{row['seconds_of_iterations']:.3g} s, {row['iterations_without']} without landmarks "
            f"(residual {row['residual_without']:.1g}); the Gram took "
            f"{row['seconds_of_the_gram']:.3g} s, the landmarks "
            f"{row['seconds_of_landmarks']:.3g} s."
        )
    for row in rows(report, "overhead"):
        worker = row["megabytes_of_workers"] - row["megabytes_of_workers_before"]
        yield (
            f"* Stored Gram, {row['n']} signals: "
            f"{row['seconds_in_memory']:.3g} s in memory, "
            f"{100 * row['overhead_here']:+.1f} % stored in this process, "
            f"{100 * row['overhead_on_workers']:+.1f} % on {row['workers']} workers, each "
            f"with {worker:.0f} MB more than at rest (a block has "
            f"{row['megabytes_of_a_block']:.0f} MB)."
        )


def thousands(rows: list[Row]) -> str:
    header = (
        "signals", "landmarks", "fit, processor s", "predict 1000, processor s", "MB", "accuracy",
    )  # fmt: skip
    cells, by_size = [], {(r["n"], r["landmarks"]): r for r in rows if "error" not in r}
    for size, row in by_size.items():
        numbers = (f"{row[name]:.0f}" for name in ("fit_seconds", "predict_seconds", "megabytes"))
        cells.append((*size, *numbers, f"{row['accuracy']:.3f}"))
    lines = []
    for n in (1000, 2000):
        if {(n, "all"), (n, 500)} <= set(by_size):
            share = by_size[n, 500]["accuracy"] / by_size[n, "all"]["accuracy"]
            lines.append(
                f"* {n} signals, landmarks' accuracy over all signals': {share:.3f}, asked "
                f"{LEAST_SHARE}: {harness.verdict(share >= LEAST_SHARE)}."
            )
    if (20_000, 500) in by_size:
        seconds = by_size[20_000, 500]["fit_seconds"] / 2
        lines.append(
            f"* 20 000 signals on two cores, half the processor seconds: {seconds:.0f} s, asked "
            f"{MOST_SECONDS:.0f} s: {harness.verdict(seconds <= MOST_SECONDS)}."
        )
    table = harness.table(header, cells, left=())
    return harness.page("# Thousands of signals", table, lines)
