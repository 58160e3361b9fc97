"""What limits our classifier: the search of the main run with one part fixed at a time.

Choices are made by leave-one-out errors alone, here as in the classifier. Accuracies on test
signals are reported so that users know what a choice costs, and choose nothing.

1. Every kernel that the search judged is in classification_search.csv. The least error with one
   part fixed (head, depth, …) tells what that part is worth, at no cost.
2. Where we are behind MiniRocket on the official test signals: their accuracy with that part fixed.
3. On two sets where we are behind with few training signals, all kernels of the search on ten draws
   of training signals, with each penalty. If one of them, taken in hindsight, is as good as
   MiniRocket on all draws, choosing limits; if none is, the kernels do.
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

VIEW = ("max_length", "spread", "standardize", "slopes", "constant")
PASS = (*VIEW, "filter_size", "input_filter_size", "head")
KERNEL = (*PASS, "kind", "depth", "normalized")
PARTS = ("head", "kind", "depth", "filter_size", "input_filter_size", "normalized",
         "standardize", "slopes", "spread")  # fmt: skip
ROCKET = "MiniRocket"
STUDIED = {"GunPoint": (5, 10, 20, 50), "PickupGestureWiimoteZ": (20, 50, 80)}


def first_length(rows: Sequence[Row]) -> list[Row]:
    """Return what was judged at the first length, where all of it was."""
    return [row for row in rows if row["max_length"] == rows[0]["max_length"]]


def best(rows: Iterable[Row]) -> Row:
    return min(rows, key=lambda row: row["error"])


def fixed(rows: Sequence[Row], parts: Sequence[str] = PARTS) -> dict[tuple[str, Any], Row]:
    """Return the kernel with the least error for each value of each part, the rest free."""
    return {
        (part, value): best(row for row in rows if row[part] == value)
        for part in parts
        for value in sorted({row[part] for row in rows})
    }


# -- 1: errors that the search has left


def error_table(search: dict[str, list[Row]]) -> str:
    """Return the least error with a part fixed, as a multiple of the least of all, as Markdown."""
    columns = {}
    for name, rows in search.items():
        first = first_length(rows)
        least = best(first)["error"]
        columns[name] = {
            key: row["error"] / least
            for key, row in (fixed(first) | fixed(rows, ["max_length"])).items()
        }
    keys = {key for column in columns.values() for key in column}
    order = (*PARTS, "max_length")
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
    part, value = key
    part = part.replace("_", " ")
    if isinstance(value, bool):
        return part if value else f"no{'t' if part != 'spread' and part != 'slopes' else ''} {part}"
    return f"{part} {value}"


def dearest(search: dict[str, list[Row]]) -> list[str]:
    """Return a line for each set: the parts whose worse value costs most."""
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


# -- 2: what the alternatives are worth on the official test signals


class Alternative(NamedTuple):
    """A kernel: its error as a multiple of the least of the search, its test accuracy."""

    title: str
    error: float
    accuracy: float


def alternatives(name: str, rows: Sequence[Row]) -> list[Alternative]:
    """Return what is chosen with a part fixed, at the first length, and what lies beyond.

    Beyond the search are the best kernel's neighbours: twice its depth, filters twice as wide.
    """
    from rescntk.learn import ResidualKernelClassifier

    X, y, Z, truth = signals(name)
    first = first_length(rows)
    least = best(first)
    known: dict[str, Alternative] = {}

    def fit(title: str, row: Row, readout: str = "ridge") -> Alternative:
        parameters = {key: row[key] for key in KERNEL}
        key = f"{readout} {parameters}"
        if key not in known:
            model = ResidualKernelClassifier(**parameters, readout=readout).fit(X, y)
            error = model.best_error_ / least["error"]
            known[key] = Alternative(title, error, float(model.score(Z, truth)))
        return known[key]._replace(title=title)

    lines = [fit(f"nothing, readout {readout}", least, readout) for readout in ("ridge", "svm")]
    lines += [fit(words(key), row) for key, row in fixed(first).items()]
    for part in ("depth", "filter_size", "input_filter_size"):
        value = 2 * max(row[part] for row in first)
        value += "filter" in part  # odd, as the others are
        lines.append(fit(f"beyond the search: {words((part, value))}", least | {part: value}))
    return lines


def alternatives_table(columns: dict[str, list[Alternative]]) -> str:
    titles = list(dict.fromkeys(one.title for column in columns.values() for one in column))
    lines = ["| fixed | " + " | ".join(columns) + " |", "|---|" + "--:|" * len(columns)]
    for title in titles:
        found = [next((one for one in c if one.title == title), None) for c in columns.values()]
        cells = ("–" if one is None else f"{one.accuracy:.3f} ({one.error:.2f})" for one in found)
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


# -- 3: choosing or kernels?


class Study(NamedTuple):
    """Errors and accuracies (kernels, draws), and MiniRocket's accuracies (draws,).

    Each kernel with each penalty counts as one of `kernels`.
    """

    kernels: list[Row]
    errors: np.ndarray
    accuracies: np.ndarray
    rocket: np.ndarray

    def chosen(self, some: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Return the accuracy in each draw of the kernel with the least error in it."""
        picked = self.errors[some].argmin(axis=0)
        return np.take_along_axis(self.accuracies[some], picked[None], axis=0)[0]

    def favourite(self) -> Row:
        """Return the kernel that is right most often over all draws."""
        return self.kernels[self.accuracies.mean(axis=1).argmax()]

    def hindsight(self) -> np.ndarray:
        """Return accuracies of the kernel that is right most often, one for all draws.

        It is taken on the even draws for the odd ones and the other way round, so that it does
        not profit from being the best of many on the draws that it is judged by.
        """
        accuracies = np.empty(self.accuracies.shape[1])
        for mine, others in ((0, 1), (1, 0)):
            kernel = self.accuracies[:, others::2].mean(axis=1).argmax()
            accuracies[mine::2] = self.accuracies[kernel, mine::2]
        return accuracies


def matrices(rows: Sequence[Row], X: np.ndarray) -> Iterator[tuple[Row, np.ndarray]]:
    """Yield the kernels of a search and their matrices on other signals, from one pass each."""
    from rescntk import Network, gram
    from rescntk.learn import ResidualKernelClassifier
    from rescntk.learn.views import View

    alpha = ResidualKernelClassifier().alpha

    def source(row: Row) -> tuple:
        return tuple(row[key] for key in PASS)

    for _, group in groupby(sorted(rows, key=source), source):
        kernels = list(group)
        row = kernels[0]
        seen = View(**{key: row[key] for key in VIEW}).fit(X)(X)
        depths = sorted({kernel["depth"] for kernel in kernels})
        sizes = {key: row[key] for key in ("filter_size", "input_filter_size")}
        both = gram(Network(max(depths), alpha=alpha, **sizes), seen, head=row["head"],
                    depths=depths)  # fmt: skip
        for kernel in kernels:
            K = getattr(both, kernel["kind"])[depths.index(kernel["depth"])]
            own = np.sqrt(K.diagonal())
            yield kernel, K / np.outer(own, own) if kernel["normalized"] else K


def judge(
    K: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray, penalties: Sequence[float]
) -> list[tuple[float, float]]:
    """Return the error of leaving training signals out, and test accuracy, for each penalty."""
    from rescntk.learn.readouts import RidgePath, margins, one_against_rest

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
    """Judge all kernels of a set's search on draws of so many training signals.

    A kernel's matrix on all signals is computed once, so the scales of its view come from all
    of them, not from those drawn; labels play no part in them.
    """
    from rescntk.learn import ResidualKernelClassifier

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
    """Return what kernels are right, by how they were chosen, as Markdown."""
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
    for part in (*PARTS, "penalty"):
        values = sorted({kernel[part] for kernel in kernels})
        for value in values if len(values) > 1 else ():
            some = np.array([kernel[part] == value for kernel in kernels])
            line(f"chosen, {words((part, value))}", lambda study, some=some: study.chosen(some))
    return "\n".join(lines)


def middle(kernels: Sequence[Row]) -> np.ndarray:
    """Return which kernels are the middle of all lists, of two the second: where nobody chose.

    Where that was not searched, since it changes nothing, it is the one value that was.
    """
    from rescntk.learn import ResidualKernelClassifier

    lists = ResidualKernelClassifier().get_params()
    chosen = np.ones(len(kernels), dtype=bool)
    for part in PARTS:
        value = lists[part][len(lists[part]) // 2]
        same = np.array([kernel[part] == value for kernel in kernels])
        chosen &= same | ~same.any()
    return chosen


def mean_and_error(values: np.ndarray) -> str:
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def split(name: str, studies: dict[int, Study]) -> list[str]:
    """Return a line for each size: what choosing costs, and what the kernels lack."""
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
    view = [key for key in ("standardize", "slopes", "spread") if kernel[key]]
    normalized = "normalized " if kernel["normalized"] else ""
    return (
        f"{normalized}{kernel['kind'].upper()}, {kernel['head']}, depth {kernel['depth']}, filters "
        f"{kernel['input_filter_size']} and {kernel['filter_size']}"
        + (f", {' and '.join(view)}" if view else "")
        + f", penalty {kernel['penalty']:g}"
    )


# -- all of it


def main(folder: Path, sets: Sequence[str]) -> str:
    """Return the report, and write it beside the results that it rests on."""
    results = {(row["method"], row["set"]): row for row in read(folder / "classification.csv")}
    judged = read(folder / "classification_search.csv")
    search = {s: [row for row in judged if row["set"] == s] for s in SETS if s in sets}
    lacking = [s for s in search if not search[s] or (ROCKET, s) not in results]
    if lacking:
        raise SystemExit(f"no results yet for {', '.join(lacking)}: run this without --limits")
    parts = [
        "# What limits our classifier",
        "",
        "Made by `benchmarks/classification.py --limits`.",
        "",
        *overview(search, results),
        "",
        "## What each part is worth",
        "",
        "Mean squared error of leaving one out of the training signals (targets ±1), with one part "
        "fixed and the rest chosen, as a multiple of the least error of all kernels at the first "
        "length. A dash: not tried there.",
        "",
        error_table(search),
        "",
        "What costs most:",
        "",
        *dearest(search),
    ]
    behind = [s for s in search if ahead(results, s) < -0.01]
    if behind:
        parts += ["", "## Where we are behind: the alternatives on test signals", "",
                  "Chosen by the same errors with one part fixed, ridge regression unless said; "
                  "accuracies on the official test signals, in brackets the error as above.", "",
                  alternatives_table({s: alternatives(s, search[s]) for s in behind})]  # fmt: skip
    for name in STUDIED:
        if name in search:
            studies = study(search[name], name, STUDIED[name])
            parts += ["", f"## Choosing or kernels? {name}", "",
                      f"Accuracies, means of {CURVE_DRAWS} draws ± standard errors; "
                      "ridge regression.", "",
                      study_table(studies), "", *split(name, studies)]  # fmt: skip
    text = "\n".join(parts) + "\n"
    (folder / "classification_limits.md").write_text(text, encoding="utf-8")
    return text


def ahead(results: dict[tuple[str, str], Row], name: str) -> float:
    return results[OURS, name]["accuracy"] - results[ROCKET, name]["accuracy"]


def overview(search: dict[str, list[Row]], results: dict[tuple[str, str], Row]) -> list[str]:
    """Return a table of how much there is to learn from, and how we do."""
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
