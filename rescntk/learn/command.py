"""The commands ``rescntk fit`` and ``rescntk predict``: signals, labels and models in files."""

from __future__ import annotations

import csv
import io
import sys
from argparse import Namespace
from typing import Any

import joblib
import numpy as np
from sklearn.metrics import accuracy_score, r2_score

from .. import datasets
from .classifier import ResidualKernelClassifier
from .regressor import ResidualKernelRegressor


def fit(options: Namespace) -> None:
    """Fit an estimator to the signals in a file, and write it to a file."""
    inputs = options.signals, options.labels
    datasets.check_output(options.output, ".joblib", options.overwrite, *inputs)
    X, y = _labelled(options)
    if y is None:
        raise ValueError(f"{options.signals.name} has no labels, expected them in --labels FILE")
    effort = options.effort if options.effort.isalpha() else float(options.effort)
    make: Any = ResidualKernelRegressor if options.regression else ResidualKernelClassifier
    model = make(effort=effort, verbose=1).fit(X, y.astype(float) if options.regression else y)
    with datasets.replacing(options.output) as file:
        joblib.dump(model, file)
    print(f"written: {options.output}, {type(model).__name__} of {len(X)} signals")


def predict(options: Namespace) -> None:
    """Write a row for each signal: label or value, how sure it is, and its novelty."""
    if options.output is not None:
        inputs = options.model, options.signals, options.labels
        datasets.check_output(options.output, ".csv", options.overwrite, *inputs)
    with datasets.readable(options.model):
        model: Any = joblib.load(options.model)
    if not isinstance(model, ResidualKernelClassifier | ResidualKernelRegressor):
        raise ValueError(f"{options.model} holds a {type(model).__name__}, expected rescntk fit's")
    X, y = _labelled(options)
    if isinstance(model, ResidualKernelClassifier):
        names, score = ("label", "probability"), accuracy_score
    else:
        names, score = ("value", "deviation"), r2_score
        y = None if y is None else y.astype(float)
    found = model._answers(X)
    predicted, n = found[0], found[1][0].size
    ends = [f"_{k}" for k in range(1, n + 1)] if n > 1 else [""]
    header = [name + end for name in names for end in ends]
    text = io.StringIO()
    rows = zip(*(c for values in found for c in np.atleast_2d(values.T).tolist()), strict=True)
    csv.writer(text, lineterminator="\n").writerows([(*header, "novelty"), *rows])
    if options.output is None:
        print(text.getvalue(), end="")
    else:
        with datasets.replacing(options.output) as file:
            file.write(text.getvalue().encode())
    if y is not None:
        if {y.dtype.kind, predicted.dtype.kind} & set("UO"):  # the text "1" is the label 1
            y, predicted = y.astype(str), predicted.astype(str)
        print(f"score {score(y, predicted):.3f} on {len(X)} signals", file=sys.stderr)


def _labelled(options: Namespace) -> tuple[Any, Any]:
    """Return signals, and labels or None; labels given apart take the place of the file's."""
    X, y = datasets.read_labelled(options.signals, options.array)
    if options.labels is not None or options.labels_array is not None:
        path = options.labels or options.signals
        y = datasets.read_labels(path, options.labels_array)
        if y.shape[:1] != (len(X),):
            raise ValueError(
                f"{path.name} has labels of shape {y.shape}, expected {len(X)}, one a signal"
            )
    return X, y
