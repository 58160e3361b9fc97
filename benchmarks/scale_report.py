"""Bars and tables of the measurements of benchmarks/scale.py."""

from collections.abc import Iterator
from typing import Any

import harness
from harness import Row

CBF = {"problem_name": "cylinder-bell-funnel"}
NAMES = {"landmarks": "landmarks", "full": "full kernel", "minirocket": "MiniRocket"}


def rows(report: Row, part: str, **sizes: Any) -> list[Row]:
    """Return the measurements of a part with these sizes, by their number of signals."""
    sizes["part"] = part
    found = [
        row for row in report["rows"] if "error" not in row and sizes.items() <= row["spec"].items()
    ]
    return sorted(found, key=lambda row: row["spec"]["n"])


def bars(report: Row) -> Iterator[tuple[str, str, str]]:
    first = {
        (part, n): (rows(report, part, n=n, **problem) or [{}])[0]
        for part, n, problem in (
            ("landmarks", 50_000, CBF),
            ("landmarks", 5000, CBF),
            ("full", 5000, CBF),
            ("conjugate_gradients", 10_000, {}),
            ("overhead", 5000, {}),
        )
    }
    large, small = first["landmarks", 50_000], first["landmarks", 5000]
    exact, solved = first["full", 5000], first["conjugate_gradients", 10_000]

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
         first["overhead", 5000].get("overhead_on_workers"), ".4g", 0.05, False),
    ):  # fmt: skip
        if value is None:
            yield name, "–", "not measured"
        else:
            met = value > bar if is_least else value <= bar
            yield name, f"{value:{form}}", harness.verdict(met)


def problems(report: Row) -> list[str]:
    """Return the names of the problems with landmarks, in the order measured."""
    return list(dict.fromkeys(r["spec"]["problem_name"] for r in rows(report, "landmarks")))


def text(report: Row) -> str:
    m = report["machine"]
    methods = (
        "problem", "method", "n", "landmarks", "seconds", "over the pairs' time", "MB", "accuracy",
    )  # fmt: skip
    cells = [
        (
            problem,
            name,
            row["spec"]["n"],
            row["spec"].get("rank", ""),
            f"{row['seconds']:.3g}",
            f"{row['times_the_pairs']:.2f}" if "times_the_pairs" in row else "",
            f"{row['megabytes']:.0f}",
            f"{row['accuracy']:.3f}",
        )
        for problem in problems(report)
        for part, name in NAMES.items()
        for row in rows(report, part, problem_name=problem)
    ]
    lines = [
        "# Large Grams",
        "",
        f"{m['processor']}, {m['cores']} cores; Python {m['python']}, NumPy {m['numpy']}. "
        "Seconds (s) are processor seconds of all threads.",
        "",
        *harness.table(("bar", "measured", ""), bars(report), left=(0, 2)),
        "",
        *harness.table(methods, cells, left=(0, 1)),
        "",
        *sentences(report),
    ]
    return "\n".join(lines) + "\n"


def sentences(report: Row) -> Iterator[str]:
    for problem in problems(report):
        name, depth, size = rows(report, "landmarks", problem_name=problem)[0]["spec"]["kernel"]
        yield f"* Kernel on {problem}: normalized {name}({depth}, input_filter_size={size})."
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
