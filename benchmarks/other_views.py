"""Accuracy and log loss of changed default views: heads of windows, and normalized networks.

    python benchmarks/other_views.py [--views NAME] [--quick]

The UCR sets that chose the default views: official splits; of small sets and normalized networks
also nine resamples. Test sets have at most 300 signals, drawn once. One thread. Rows that the
file has are kept.
"""

import warnings
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pandas as pd
import ucr
from harness import Row

from rescntk import Network
from rescntk.learn import View
from rescntk.learn.views.defaults import CLASSIFIER_VIEWS

MOST = 300
"""Maximum number of test signals."""


def with_windows(width: int) -> list[View]:
    """Return the default views; those with time channels average windows instead, without them."""
    return [replace(view, head=width, time=0.0) if view.time else view for view in CLASSIFIER_VIEWS]


def deeper(depth: int, norm: bool = False) -> list[View]:
    """Return the default views with networks of a depth, normalized or not."""
    return [view if view.linear else with_network(view, depth, norm) for view in CLASSIFIER_VIEWS]


def with_network(view: View, depth: int, norm: bool) -> View:
    """Return a view with a network of the same filters."""
    network = Network(depth, view.filter_size, input_filter_size=view.input_filter_size, norm=norm)
    return replace(view, network=network, filter_size=9, input_filter_size=1)


PLAIN = "default views"
WINDOWS = {f"windows of {width}": with_windows(width) for width in (4, 8, 16)}
NORMALIZED = {f"normalized, depth {depth}": deeper(depth, norm=True) for depth in (2, 4, 8)}
NORMALIZED |= {f"depth {depth}": deeper(depth) for depth in (4, 8)}
VIEWS = {PLAIN: list(CLASSIFIER_VIEWS)} | WINDOWS | NORMALIZED


def measure(name: str, seed: int, views: str) -> list[Row]:
    """Return accuracy, log loss and processor seconds of a split with changed views."""
    X, y, Z, truth = ucr.signals(name, seed)
    drawn = np.random.default_rng(seed).permutation(len(Z))[:MOST]
    few = np.append(np.unique(y, return_index=True)[1], len(X) - 1)
    ucr.fit_and_predict_proba(VIEWS[views], X[few], y[few], Z[:2])  # compiles
    model, proba, seconds = ucr.fit_and_predict_proba(VIEWS[views], X, y, Z[drawn])
    return [ucr.scores(model, proba, truth[drawn]) | {"seconds": sum(seconds)}]


def section(rows: pd.DataFrame, names: dict[str, Any]) -> list[list[str]]:
    """Return tables of official splits and of resamples; default views have the same splits."""
    tables, keys = [], ["set", "seed"]
    plain = rows[rows["views"] == PLAIN].set_index(keys)
    official = rows["seed"] == 0
    for label, of_split in (("official splits", official), ("resamples", ~official)):
        lines = []
        for name in names:
            changed = rows[of_split & (rows["views"] == name)].set_index(keys)
            if changed.empty:
                continue
            both = changed.join(plain, rsuffix="_plain").groupby("set").mean(numeric_only=True)
            lines.append(line := [name, len(both), len(changed)])
            for measure, sign in (("accuracy", 1), ("log_loss", -1)):
                means = both[[measure, f"{measure}_plain"]]
                gains = sign * (means[measure] - means[f"{measure}_plain"])
                counts = f"{(gains > 0).sum()} to {(gains < 0).sum()}"
                line += [*harness.decimals(means.mean(), 4), counts]
            ratio = both["seconds"].sum() / both["seconds_plain"].sum()
            line.append(f"{ratio:.2f}")
        scores = [
            name
            for score in ("accuracy", "log loss")
            for name in (score, f"{score}, default", f"better to worse {score}")
        ]
        header = (f"views, {label}", "sets", "splits", *scores, "processor time to default")
        tables += [harness.table(header, lines)] if lines else []
    return tables


def table(rows: pd.DataFrame) -> str:
    """Return the page of the results."""
    of_sets = rows[rows["seed"] == 0].pivot_table(index="set", columns="views", values="log_loss")
    header = [name for name in VIEWS if name in of_sets.columns]
    lines = [(name, *harness.decimals(row[header])) for name, row in of_sets.iterrows()]
    return harness.page(
        "# Other views",
        "Means over sets of the UCR archive that chose the default views, beside these on the same "
        "sets and splits, and numbers of sets that are better and worse. Test sets of at most "
        f"{MOST} signals.",
        "## Views with windows",
        "Default views with time channels and GAP have heads of windows instead, without time "
        "channels.",
        *section(rows, WINDOWS),
        "## Normalized networks",
        "Networks of all views normalize their features, with two layers as in the default views, "
        "and with more. Without “normalized” they have more layers alone.",
        *section(rows, NORMALIZED),
        "## Log loss of each set",
        harness.table(("set", *header), lines),
    )


def measure_all(asked: Namespace, path: Path) -> None:
    warnings.filterwarnings("ignore")
    sets = ucr.sets_for_choosing()
    resampled = sets["set"][sets["n_train"] <= ucr.FEW]
    keys = [
        {"set": name, "seed": seed, "views": views}
        for seed in range(ucr.SPLITS)
        for views in asked.views or VIEWS
        for name in (resampled if seed else sets["set"])
        if not seed or views not in WINDOWS
    ]
    harness.measure_missing(path, keys[: 1 if asked.quick else None], measure)


if __name__ == "__main__":
    only = {"action": "append", "choices": VIEWS, "help": "only these (and these …)"}
    harness.script(__doc__, "other_views.csv", measure_all, table, views=only)
