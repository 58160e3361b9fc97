"""Log loss of left-out probabilities, beside cross-validation with ten folds.

    python benchmarks/left_out.py [--most N] [--quick]

Training signals of the UCR sets that chose the default views: the official split, and of small sets
nine resamples. With --most, larger sets are stratified subsamples. The classifier has its defaults
and one thread. Folds are stratified, and six where no class has ten signals. The only signal of a
class does not count: without it, its class is unknown. Rows that the file has are kept.
"""

import warnings
from argparse import Namespace
from functools import partial
from pathlib import Path

import harness
import numpy as np
import pandas as pd
import ucr
from classification_methods import OUR_CLASSIFIER
from harness import Row, call_by_name

FOLDS = 10


def number_of_folds(y: np.ndarray) -> int:
    """Return ten, or the number of signals of the largest class if that is less."""
    return min(FOLDS, int(np.unique(y, return_counts=True)[1].max()))


def measure(name: str, seed: int, most: int | None = None) -> list[Row]:
    """Return the log losses and processor seconds of a fit, and of fits to all but a fold."""
    from sklearn.metrics import log_loss
    from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split

    X, y = ucr.signals(name, seed)[:2]
    of_set = len(X)
    if most is not None and of_set > most:
        X, _, y, _ = train_test_split(X, y, train_size=most, stratify=y, random_state=seed)
    folds = StratifiedKFold(number_of_folds(y), shuffle=True, random_state=seed)
    make_one = partial(call_by_name, OUR_CLASSIFIER, n_jobs=1, random_state=0)
    options = {"cv": folds, "method": "predict_proba"}
    model, fit = harness.timed(lambda: make_one().fit(X, y))
    proba, seconds = harness.timed(lambda: cross_val_predict(make_one(), X, y, **options))
    classes, places, counts = np.unique(y, return_inverse=True, return_counts=True)
    counted = counts[places] > 1
    row = {"n_train": of_set, "n": len(X), "folds": folds.get_n_splits()}
    for of, given in (("left_out", model.left_out_proba_), ("folds", proba)):
        row[f"log_loss_{of}"] = float(log_loss(y[counted], given[counted], labels=classes))
    return [row | {"seconds_left_out": fit, "seconds_folds": seconds}]


def table(rows: pd.DataFrame) -> str:
    """Return the page of the results."""
    means = rows.groupby("set", sort=False).mean()
    first, second = "log_loss_left_out", "log_loss_folds"
    lines = []
    for name, row in [*means.iterrows(), ("**mean**", means.mean())]:
        of_set = rows[rows["set"] == name]
        losses = harness.decimals([row[first], row[second], row[first] / row[second]])
        n, n_train = (f"{row[column]:.0f}" for column in ("n", "n_train"))
        about = [n if n == n_train else f"{n} of {n_train}", f"{row['folds']:.0f}", len(of_set)]
        ratios = harness.decimals((of_set[first] / of_set[second]).agg(["min", "max"]), 2)
        times = f"{row['seconds_folds'] / row['seconds_left_out']:.1f}"
        several = " to ".join(ratios) if len(of_set) > 1 else ""
        lines.append((name, *(about if len(of_set) else [""] * 3), *losses, several, times))
    header = "set", "n", "folds", "splits", "left out", "of folds", "ratio", "splits' ratios"
    return harness.page(
        "# Log loss of left-out probabilities",
        "Beside cross-validation with ten folds, or six where no class has ten signals, whose fits "
        "have a tenth or a sixth less signals. Natural logarithms; means over splits, and over "
        "sets. The last ratio is that of mean log losses. The only signal of a class does not "
        "count. Where n is less than a set has, it is that of a stratified subsample.",
        harness.table((*header, "processor time, folds to one fit"), lines),
    )


def measure_all(asked: Namespace, path: Path) -> None:
    warnings.filterwarnings("ignore")
    keys = [
        {"set": p["set"], "seed": seed}
        for _, p in ucr.sets_for_choosing().iterrows()
        for seed in range(ucr.SPLITS if p["n_train"] <= ucr.FEW else 1)
    ]
    of_most = partial(measure, most=asked.most)
    harness.measure_missing(path, keys[: 1 if asked.quick else None], of_most)


if __name__ == "__main__":
    largest = {"type": int, "metavar": "N", "help": "most signals of a set, default: all"}
    harness.script(__doc__, "left_out.csv", measure_all, table, most=largest)
