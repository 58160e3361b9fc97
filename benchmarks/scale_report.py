"""Bars and tables of the measurements of benchmarks/scale.py."""

from collections.abc import Iterator

import harness
from harness import Row

NAMES = {"landmarks": "landmarks", "full": "full kernel", "minirocket": "MiniRocket"}


def rows(report: Row, part: str) -> list[Row]:
    """Return the measurements of a part, by their number of signals."""
    return sorted((row for row in report["rows"] if row["part"] == part), key=lambda r: r["n"])


def text(report: Row) -> str:
    m = report["machine"]
    methods = ("method", "n", "landmarks", "seconds", "MB", "accuracy")
    cells = [
        (
            name,
            row["n"],
            row.get("rank", ""),
            f"{row['seconds']:.3g}",
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
    cells = []
    for row in sorted(rows, key=lambda row: row["n"]):
        numbers = (f"{row[name]:.0f}" for name in ("fit_seconds", "predict_seconds", "megabytes"))
        cells.append((row["n"], row["landmarks"], *numbers, f"{row['accuracy']:.3f}"))
    return harness.page("# Thousands of signals", harness.table(header, cells, left=()))
