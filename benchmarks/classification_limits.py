"""Limits of our classifier: the search of the main run with one dimension fixed at a time.

Choices are made by leave-one-out errors alone, as in the classifier. Accuracies on test signals
choose nothing: they tell users what a choice costs.

1. The file classification_search.csv holds every kernel that the search judged. The least error
   with one dimension fixed (head, depth, …) is the worth of the dimension, at no cost.
2. On the sets where we are behind MiniRocket: test accuracies with the dimension fixed.
3. On two sets where we are behind with few training signals: all kernels and penalties of the
   search on ten draws of training signals. If one kernel, taken in hindsight, is as good as
   MiniRocket on all draws, then choosing is the limit. If no kernel is, the kernels are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from classification_methods import (
    CURVE_DRAWS,
    METHODS,
    OURS,
    SETS,
    draw_signals,
    signals,
)
from classification_report import Row, read

from rescntk import gram
from rescntk.learn import ResidualKernelClassifier
from rescntk.learn.parameters import constraints
from rescntk.learn.readouts import RidgePath, margins, one_against_rest
from rescntk.learn.search import ONE_PASS, Pass

DIMENSIONS = tuple(
    name for name, rule in constraints(ResidualKernelClassifier).items() if rule.searched
)
"""Dimensions of the classifier's search; their values make a kernel."""

PASS = tuple(name for name in DIMENSIONS if name not in ONE_PASS)
"""Dimensions whose values make a pass of the recursion."""

FIXED = tuple(name for name in DIMENSIONS if name not in ("max_length", "constant"))
"""Dimensions that are fixed in turn: all that have several values at the first length."""

ROCKET = "MiniRocket"
STUDIED = {"GunPoint": (5, 10, 20, 50), "PickupGestureWiimoteZ": (20, 50, 80)}
"""Sets, and numbers of training signals, on which all kernels are judged on several draws."""


def first_length(rows: Sequence[Row]) -> list[Row]:
    """Return the kernels judged at the first length, where every pass is made."""
    return [row for row in rows if row["max_length"] == rows[0]["max_length"]]


def best(rows: Iterable[Row]) -> Row:
    return min(rows, key=lambda row: row["error"])


def fixed(rows: Sequence[Row], names: Sequence[str] = FIXED) -> dict[tuple[str, Any], Row]:
    """Return the kernel with the least error for each value of each dimension, the rest free."""
    return {
        (name, value): best(row for row in rows if row[name] == value)
        for name in names
        for value in sorted({row[name] for row in rows})
    }


# -- 1: least errors of the search


def error_table(search: dict[str, list[Row]]) -> str:
    """Return least errors with a dimension fixed, relative to the least of all, as Markdown."""
    columns = {}
    for name, rows in search.items():
        first = first_length(rows)
        least = best(first)["error"]
        columns[name] = {
            key: row["error"] / least
            for key, row in (fixed(first) | fixed(rows, ["max_length"])).items()
        }
    keys = {key for column in columns.values() for key in column}
    order = (*FIXED, "max_length")
    lines = [
        "| fixed | " + " | ".join(columns) + " |",
        "|---|" + "--:|" * len(columns),
        "| nothing: least error | "
        + " | ".join(f"{best(first_length(rows))['error']:.3f}" for rows in search.values())
        + " |",
    ]
    for key in sorted(keys, key=lambda key: (order.index(key[0]), key[1])):
        cells = (f"{column[key]:.2f}" if key in column else "–" for column in columns.values())
        lines.append(f"| {words(key)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def words(key: tuple[str, Any]) -> str:
    """Return a dimension and its value in words."""
    name, value = key
    said = name.replace("_", " ")
    if isinstance(value, bool):
        nothing = "no" if name in ("block_statistics", "first_differences") else "not"
        return said if value else f"{nothing} {said}"
    return f"{said} {value}"


def dearest(search: dict[str, list[Row]]) -> list[str]:
    """Return a line for each set: the three values whose fixing costs most."""
    lines = []
    for name, rows in search.items():
        first = first_length(rows)
        least = best(first)["error"]
        costs = {key: row["error"] / least - 1 for key, row in fixed(first).items()}
        most = sorted(costs, key=costs.__getitem__, reverse=True)[:3]
        said = ", ".join(f"{words(key)} (+{100 * costs[key]:.0f} %)" for key in most)
        finer = best(rows)["error"] / least - 1
        lines.append(f"* {name}: {said}; finer resolution {100 * finer:+.0f} %.")
    return lines


# -- 2: accuracies of the alternatives on the official test signals


class Alternative(NamedTuple):
    """A kernel: its error relative to the least error of the search, its test accuracy."""

    title: str
    error: float
    accuracy: float


def alternatives(name: str, rows: Sequence[Row]) -> list[Alternative]:
    """Return the choices with one dimension fixed, at the first length, and two beyond the search.

    Beyond the search are the best kernel's neighbours: twice the depth, filters twice as wide.
    """
    X, y, Z, truth = signals(name)
    first = first_length(rows)
    least = best(first)
    known: dict[str, Alternative] = {}

    def fit(title: str, row: Row, readout: str = "ridge") -> Alternative:
        parameters = {name: row[name] for name in DIMENSIONS}
        key = f"{readout} {parameters}"
        if key not in known:
            model = ResidualKernelClassifier(**parameters, readout=readout).fit(X, y)
            error = model.best_error_ / least["error"]
            known[key] = Alternative(title, error, float(model.score(Z, truth)))
        return known[key]._replace(title=title)

    lines = [fit(f"nothing, readout {readout}", least, readout) for readout in ("ridge", "svm")]
    lines += [fit(words(key), row) for key, row in fixed(first).items()]
    for name in ("depth", "filter_size", "input_filter_size"):
        value = 2 * max(row[name] for row in first)
        value += "filter" in name  # filter sizes are odd
        lines.append(fit(f"beyond the search: {words((name, value))}", least | {name: value}))
    return lines


def alternatives_table(columns: dict[str, list[Alternative]]) -> str:
    titles = list(dict.fromkeys(one.title for column in columns.values() for one in column))
    lines = ["| fixed | " + " | ".join(columns) + " |", "|---|" + "--:|" * len(columns)]
    for title in titles:
        found = [next((one for one in c if one.title == title), None) for c in columns.values()]
        cells = ("–" if one is None else f"{one.accuracy:.3f} ({one.error:.2f})" for one in found)
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


# -- 3: the limit is choosing, or the kernels


class Study(NamedTuple):
    """Errors and accuracies (kernels, draws), and MiniRocket's accuracies (draws,).

    `kernels` has an entry for each pair of kernel and penalty.
    """

    kernels: list[Row]
    errors: np.ndarray
    accuracies: np.ndarray
    rocket: np.ndarray

    def chosen(self, some: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return, for each draw, the accuracy of the kernel with the least error in the draw."""
        picked = self.errors[some].argmin(axis=0)
        return np.take_along_axis(self.accuracies[some], picked[None], axis=0)[0]

    def favourite(self) -> Row:
        """Return the kernel that is right most often over all draws."""
        return self.kernels[self.accuracies.mean(axis=1).argmax()]

    def hindsight(self) -> np.ndarray:
        """Return, for each draw, the accuracy of one kernel for all draws, taken in hindsight.

        For odd draws the kernel is most accurate on the even draws, and the other way round. So no
        kernel is judged on the draws that chose it.
        """
        accuracies = np.empty(self.accuracies.shape[1])
        for mine, others in ((0, 1), (1, 0)):
            kernel = self.accuracies[:, others::2].mean(axis=1).argmax()
            accuracies[mine::2] = self.accuracies[kernel, mine::2]
        return accuracies


def matrices(rows: Sequence[Row], X: np.ndarray) -> Iterator[tuple[Row, np.ndarray]]:
    """Yield the kernels of a search with their matrices on signals X, each pass made once."""
    alpha = ResidualKernelClassifier().alpha

    def key(row: Row) -> tuple:
        return tuple(row[name] for name in PASS)

    for _, group in groupby(sorted(rows, key=key), key):
        kernels = list(group)
        depths = sorted({kernel["depth"] for kernel in kernels})
        view, network, head = Pass.of({n: kernels[0][n] for n in PASS}, max(depths), alpha)
        both = gram(network, view.fit(X)(X), head=head, depths=depths)
        for kernel in kernels:
            K = getattr(both, kernel["kind"])[depths.index(kernel["depth"])]
            own = np.sqrt(K.diagonal())
            yield kernel, K / np.outer(own, own) if kernel["normalized"] else K


def judge(
    K: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, penalties: Sequence[float]
) -> list[tuple[float, float]]:
    """Return leave-one-out error on training signals and test accuracy, for each penalty."""
    classes, labels = np.unique(y[train], return_inverse=True)
    path = RidgePath(K[np.ix_(train, train)], one_against_rest(labels, len(classes)))
    counted = np.bincount(labels)[labels] > 1
    errors = (path.residuals(penalties)[:, counted] ** 2).mean(axis=(1, 2))
    judged = []
    for penalty, error in zip(penalties, errors, strict=True):
        decisions = margins(path.fit(penalty)(K[np.ix_(test, train)]))
        right = classes[decisions.argmax(axis=1)] == y[test]
        judged.append((float(error), float(np.mean(right))))
    return judged


def study(rows: Sequence[Row], name: str, sizes: Sequence[int]) -> dict[int, Study]:
    """Judge all kernels of a set's search on draws of training signals, for each size of a draw.

    A kernel's matrix is computed once, on all signals. So the scales of its view come from all
    signals, not from the drawn signals; labels have no influence on the scales.
    """
    X, y, Z, truth = signals(name)
    X, y = np.concatenate([X, Z]), np.concatenate([y, truth])
    draws = {
        size: [draw_signals(y, size, number) for number in range(CURVE_DRAWS)] for size in sizes
    }
    penalties = ResidualKernelClassifier().penalty
    kernels: list[Row] = []
    judged: dict[int, list[np.ndarray]] = {size: [] for size in sizes}
    for kernel, K in matrices(first_length(rows), X):
        kernels += [kernel | {"penalty": penalty} for penalty in penalties]
        for size in sizes:
            judged[size].append(np.array([judge(K, y, *p, penalties) for p in draws[size]]))
    studies = {}
    for size in sizes:
        # (kernels, draws, penalties, 2) -> (2, kernels · penalties, draws)
        both = np.array(judged[size]).transpose(3, 0, 2, 1)
        errors, accuracies = both.reshape(2, len(kernels), CURVE_DRAWS)
        rocket = []
        for number, (train, test) in enumerate(draws[size]):
            model = METHODS[ROCKET](number).fit(X[train], y[train])
            rocket.append(np.mean(model.predict(X[test]) == y[test]))
        studies[size] = Study(kernels, errors, accuracies, np.array(rocket))
    return studies


def study_table(studies: dict[int, Study]) -> str:
    """Return accuracies for each way to choose a kernel, as Markdown."""
    lines = [
        "| training signals | " + " | ".join(map(str, studies)) + " |",
        "|---|" + "--:|" * len(studies),
    ]

    def line(title: str, values: Callable[[Study], np.ndarray]) -> None:
        cells = [mean_and_error(values(study)) for study in studies.values()]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")

    line(ROCKET, lambda study: study.rocket)
    line("chosen in each draw by its errors", lambda study: study.chosen())
    line("one kernel for all draws, in hindsight", lambda study: study.hindsight())
    line("the best of each draw, in hindsight", lambda study: study.accuracies.max(axis=0))
    kernels = next(iter(studies.values())).kernels
    plain = middle(kernels)
    least = plain & np.array([k["penalty"] == min(x["penalty"] for x in kernels) for k in kernels])
    line("the middle of each list, penalty chosen", lambda study: study.chosen(plain))
    line("the middle of each list, least penalty", lambda study: study.chosen(least))
    for name in (*FIXED, "penalty"):
        values = sorted({kernel[name] for kernel in kernels})
        for value in values if len(values) > 1 else ():
            some = np.array([kernel[name] == value for kernel in kernels])
            line(f"chosen, {words((name, value))}", lambda study, some=some: study.chosen(some))
    return "\n".join(lines)


def middle(kernels: Sequence[Row]) -> np.ndarray:
    """Return which kernels have the middle value of every dimension, of two values the second.

    A middle value that was not searched changes nothing; any value is then accepted.
    """
    lists = ResidualKernelClassifier().get_params()
    chosen = np.ones(len(kernels), dtype=bool)
    for name in FIXED:
        value = lists[name][len(lists[name]) // 2]
        same = np.array([kernel[name] == value for kernel in kernels])
        chosen &= same | ~same.any()
    return chosen


def mean_and_error(values: np.ndarray) -> str:
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def split(name: str, studies: dict[int, Study]) -> list[str]:
    """Return a line for each size: the cost of choosing, and the gap left to the kernels."""
    lines = []
    for size, one in studies.items():
        chosen, hindsight = one.chosen(), one.hindsight()
        lines.append(
            f"* {name}, {size} training signals: {lead(one.rocket - chosen)}. Choosing costs "
            f"{mean_and_error(hindsight - chosen)}: with one kernel for all draws, taken in "
            f"hindsight ({describe(one.favourite())}), {lead(one.rocket - hindsight)}."
        )
    return lines


def lead(gain: np.ndarray) -> str:
    who = ROCKET if gain.mean() > 0 else "our classifier"
    return f"{who} is ahead by {mean_and_error(np.copysign(1.0, gain.mean()) * gain)}"


def describe(kernel: Row) -> str:
    view = [words((name, True)) for name in FIXED if kernel[name] is True and name != "normalized"]
    normalized = "normalized " if kernel["normalized"] else ""
    return (
        f"{normalized}{kernel['kind'].upper()}, {kernel['head']}, depth {kernel['depth']}, filters "
        f"{kernel['input_filter_size']} and {kernel['filter_size']}"
        + (f", {' and '.join(view)}" if view else "")
        + f", penalty {kernel['penalty']:g}"
    )


# -- the report


def main(folder: Path, sets: Sequence[str]) -> str:
    """Return the report, and write it beside the results that it rests on."""
    results = {(row["method"], row["set"]): row for row in read(folder / "classification.csv")}
    judged = read(folder / "classification_search.csv")
    search = {s: [row for row in judged if row["set"] == s] for s in SETS if s in sets}
    lacking = [s for s in search if not search[s] or (ROCKET, s) not in results]
    if lacking:
        raise SystemExit(f"no results yet for {', '.join(lacking)}: run this without --limits")
    parts = [
        "# Limits of our classifier",
        "",
        "Made by `benchmarks/classification.py --limits`.",
        "",
        *overview(search, results),
        "",
        "## The worth of each dimension",
        "",
        "Mean squared leave-one-out error on the training signals (targets ±1), with one dimension "
        "fixed and the rest chosen, as a multiple of the least error of all kernels at the first "
        "length. A dash: not tried there.",
        "",
        error_table(search),
        "",
        "The values whose fixing costs most:",
        "",
        *dearest(search),
    ]
    behind = [s for s in search if ahead(results, s) < -0.01]
    if behind:
        parts += ["", "## Sets where we are behind: the alternatives on test signals", "",
                  "Chosen by the same errors with one dimension fixed, ridge regression unless "
                  "said; accuracies on the official test signals, in brackets the error as above.",
                  "",
                  alternatives_table({s: alternatives(s, search[s]) for s in behind})]  # fmt: skip
    for name in STUDIED:
        if name in search:
            studies = study(search[name], name, STUDIED[name])
            parts += ["", f"## The limit on {name}: choosing, or the kernels", "",
                      f"Accuracies, means of {CURVE_DRAWS} draws ± standard errors; "
                      "ridge regression.", "",
                      study_table(studies), "", *split(name, studies)]  # fmt: skip
    text = "\n".join(parts) + "\n"
    (folder / "classification_limits.md").write_text(text, encoding="utf-8")
    return text


def ahead(results: dict[tuple[str, str], Row], name: str) -> float:
    return results[OURS, name]["accuracy"] - results[ROCKET, name]["accuracy"]


def overview(search: dict[str, list[Row]], results: dict[tuple[str, str], Row]) -> list[str]:
    """Return a table of the sets: their sizes, our accuracy and MiniRocket's."""
    lines = [
        "| set | training signals | least of a class | classes | channels × length | ours | "
        f"{ROCKET} | in test signals |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name in search:
        X, y, _, truth = signals(name)
        counts = np.unique(y, return_counts=True)[1]
        lines.append(
            f"| {name} | {len(y)} | {counts.min()} | {len(counts)} | {X.shape[1]} × {X.shape[2]} | "
            f"{results[OURS, name]['accuracy']:.3f} | {results[ROCKET, name]['accuracy']:.3f} | "
            f"{len(truth) * ahead(results, name):+.1f} of {len(truth)} |"
        )
    return lines
