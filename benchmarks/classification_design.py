"""The plan of passes of our classifier, and their weights, measured on training sets.

    python benchmarks/classification.py --design

Each training set is split at random into signals that train and signals that test: 10 splits for
each of a few sizes. Official test sets are not touched. A pass's kernel matrix is computed once on
all training signals, so that the scales of its view come from all.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import harness
import numpy as np
from classification_methods import draw_signals, signals

from rescntk.learn import average, base, passes
from rescntk.learn.classifier import margins, one_against_rest
from rescntk.validation import KINDS

SHARES = (0.1, 0.2, 0.4, 0.7)  # of a training set that train
DRAWS = 10
POWERS = (0.0, 2.0, 4.0, 6.0, 8.0, 12.0)
NOTES = "\n## Tried\n"  # heading of the notes by hand, which are kept


class Split(NamedTuple):
    """The passes on one split: decisions at test signals, and leave-one-out residuals."""

    decisions: np.ndarray  # (n_passes, n_test, n_outputs)
    residuals: np.ndarray  # (n_passes, 1, n_train, n_outputs)
    counted: np.ndarray  # (n_train,): 1 for signals whose class has others, else 0
    truth: np.ndarray  # (n_test,)

    def accuracy(self, some: Sequence[int], power: float = 4.0) -> float:
        """Return the accuracy of the average of some passes, with weights 1/error**power."""
        errors = average.weigh(self.residuals[some], self.counted)[1]
        weights = (errors / errors.min()) ** -power
        decisions = np.tensordot(weights, self.decisions[some], 1)
        return float(np.mean(margins(decisions).argmax(axis=1) == self.truth))


def splits(X: np.ndarray, y: np.ndarray, effort: str = "default") -> tuple[list[str], list[Split]]:
    """Return the passes of an effort in words, and all splits of a training set."""
    networks = {"kinds": KINDS, "depths": (2,), "alpha": 1.0}  # the estimators' defaults
    found = passes.plan(passes.EFFORTS[effort], {}, X, **networks)
    matrices = [one.kernel(one.view.fit(X)(X), dtype="float32") for one in found]
    n_classes, made = len(np.unique(y)), []
    for share in SHARES:
        size = round(share * len(y))
        if size < 2 * n_classes:
            continue
        for number in range(DRAWS):
            train, test = draw_signals(y, size, number)
            classes, labels = np.unique(y[train], return_inverse=True)
            test = test[np.isin(y[test], classes)]
            Y = one_against_rest(labels, len(classes))
            penalty = base.least_penalty(np.ones(size), "float32")
            decisions, residuals = [], []
            for K in matrices:
                spectrum = average.spectrum_of(K[np.ix_(train, train)])
                coefficients, intercepts = spectrum.with_intercept(Y, penalty)
                decisions.append(K[np.ix_(test, train)] @ coefficients + intercepts)
                residuals.append(spectrum.leave_one_out(Y, [penalty], intercept=True))
            counted = (np.bincount(labels)[labels] > 1).astype(float)
            truth = np.searchsorted(classes, y[test])
            made.append(Split(np.array(decisions), np.array(residuals), counted, truth))
    return [one.describe() for one in found], made


def report(sets: dict[str, tuple[list[str], list[Split]]]) -> str:
    """Return mean accuracies as Markdown: passes alone, the first passes, weights."""
    cells = []

    def line(title: str, some: list[Sequence[int] | None], power: float = 4.0) -> None:
        """Add the accuracies of the average of some passes, by set; None where a set lacks one."""
        means = [
            None if own is None else np.mean([split.accuracy(own, power) for split in made])
            for own, (_, made) in zip(some, sets.values(), strict=True)
        ]
        means.append(None if None in means else np.mean(means))
        cells.append((title, *("–" if x is None else f"{x:.3f}" for x in means)))

    counts = [len(names) for names, _ in sets.values()]
    for name in dict.fromkeys(name for names, _ in sets.values() for name in names):
        alone = [[names.index(name)] if name in names else None for names, _ in sets.values()]
        line(f"{name}, alone", alone)
    for most in range(2, max(counts) + 1):
        line(f"the first {most}", [range(min(most, count)) for count in counts])
    for power in POWERS:
        line(f"all, weights 1/error^{power:g}", [range(count) for count in counts], power)
    return harness.page(
        "# What our classifier averages",
        "Made by `benchmarks/classification.py --design`: mean accuracies on random parts of the "
        "training sets. Signals that a pass leaves as long as they are have no block statistics, "
        "so that sets of short signals have fewer passes.",
        harness.table(("averaged", *sets, "mean"), cells),
    )


def with_notes(text: str, path: Path) -> str:
    """Return a report, followed by the notes at the end of a former report in the file."""
    former = path.read_text(encoding="utf-8") if path.exists() else ""
    _, heading, notes = former.partition(NOTES)
    return text + heading + notes


def main(folder: Path, sets: Sequence[str]) -> None:
    path = folder / "classification_design.md"
    found = {name: splits(*signals(name)[:2]) for name in sets}
    harness.publish(path, with_notes(report(found), path))
