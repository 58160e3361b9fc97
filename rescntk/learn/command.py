"""The commands ``rescntk fit``, ``predict`` and ``report``: signals, labels, models in files."""

from __future__ import annotations

import csv
import io
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.metrics import accuracy_score, r2_score

from .. import datasets
from ..datasets import fields
from ..parsers import columns_of
from ..progress import say, show
from .classifier import ResidualKernelClassifier
from .regressor import ResidualKernelRegressor
from .report import report as write_report
from .report_sections import in_form_of

_STANDARDIZE = {"true": True, "false": False}
"""Values of --standardize that are not texts."""


def fit(options: Namespace) -> None:
    """Fit an estimator to the signals in a file, and write it to a file."""
    inputs = options.signals, options.labels, options.groups
    datasets.check_output(options.output, ".joblib", options.overwrite, *inputs)
    X, y, _, channels, dates = _labelled(options, options.regression)
    if y is None:
        raise ValueError(f"{options.signals.name} has no labels, expected them in --labels FILE")
    effort: str | float = options.effort
    with suppress(ValueError):
        effort = float(effort)
    make: Any = ResidualKernelRegressor if options.regression else ResidualKernelClassifier
    settings = {"effort": effort, "missing": options.missing, "n_jobs": options.threads}
    settings |= {"channel_names": channels}
    if options.standardize is not None:
        settings["standardize"] = _STANDARDIZE.get(options.standardize, options.standardize)
    if options.class_weight is not None:
        if options.regression:
            raise ValueError("--class-weight is given with --regression, expected one of them")
        settings["class_weight"] = options.class_weight
    groups = None if options.groups is None else _one_each(options.groups, None, "groups", len(X))
    model = make(**settings, verbose=1).fit(X, y, groups=groups)
    gaps = sum(int(np.isnan(x).sum()) for x in X)
    model.file_ = {"columns": columns_of(options), "dates": dates, "missing": gaps}
    with datasets.replacing(options.output) as file:
        joblib.dump(model, file)
    show(f"written: {options.output}, {type(model).__name__} of {len(X)} signals")


def predict(options: Namespace) -> None:
    """Write a row for each signal: label or value, its uncertainty, and the novelty."""
    if options.output is not None:
        inputs = options.model, options.signals, options.labels
        datasets.check_output(options.output, ".csv", options.overwrite, *inputs)
    model = _model(options)
    names, score = ("label", "probability"), accuracy_score
    if regression := isinstance(model, ResidualKernelRegressor):
        names, score = ("value", "deviation"), r2_score
    with _whole(options.model):
        _check_encoding([] if regression else model.classes_.tolist(), options.output)
    X, y, cases, *_ = _labelled(options, regression, model)
    with _whole(options.model):
        answers = model._answers(X)
    predicted, n = answers[0], answers[1][0].size
    ends = [f"_{k}" for k in range(1, n + 1)] if n > 1 else [""]
    message = None
    if y is not None:
        y = y if regression else in_form_of(model.classes_, y)
        if {y.dtype.kind, predicted.dtype.kind} & set("UO"):  # some are no class of the model
            y, predicted = y.astype(str), predicted.astype(str)
        message = f"score {score(y, predicted):.3f} on {len(X)} signals"
    header = [name + end for name in names for end in ends]
    text = io.StringIO()
    columns = [c for values in answers for c in np.atleast_2d(values.T).tolist()]
    if cases is not None:
        header, columns = ["case", *header], [cases.tolist(), *columns]
    rows = zip(*columns, strict=True)
    csv.writer(text, lineterminator="\n").writerows([(*header, "novelty"), *rows])
    if options.output is None:
        show(text.getvalue().removesuffix("\n"))
    else:
        with datasets.replacing(options.output) as file:
            file.write(text.getvalue().encode())
        show(f"written: {options.output}, {', '.join(header)} and novelty of {len(X)} signals")
    if message is not None:
        say(message)


def report(options: Namespace) -> None:
    """Write a page about a model's answers to labelled signals."""
    inputs = options.model, options.signals, options.labels
    datasets.check_output(options.output, ".html", options.overwrite, *inputs)
    model = _model(options)
    regression = isinstance(model, ResidualKernelRegressor)
    X, y, cases, *_ = _labelled(options, regression, model)
    if y is None:
        raise ValueError(f"{options.signals.name} has no labels, expected them in LABELS")
    groups = None if options.groups is None else _one_each(options.groups, None, "groups", len(X))
    title = f"{options.model.name} on {options.signals.name}"
    with _whole(options.model):
        page = write_report(
            model,
            X,
            y,
            title,
            cases=cases,
            groups=groups,
            prevalence=options.prevalence,
            costs=options.cost,
        )
    with datasets.replacing(options.output) as file:
        file.write(page.encode())
    show(f"written: {options.output}, about {len(X)} signals")


def _model(options: Namespace) -> Any:
    """Return the model in a file, with the threads of the command."""
    if options.model.suffix in datasets.SUFFIXES:
        raise ValueError(f"model is {options.model}, expected a .joblib file, then signals")
    with datasets.readable(options.model):
        try:
            model: Any = joblib.load(options.model)
        except ImportError as error:  # of a damaged name, or of another version
            raise ValueError(str(error)) from None
    if not isinstance(model, ResidualKernelClassifier | ResidualKernelRegressor):
        raise ValueError(
            f"{options.model} holds a {type(model).__name__}, expected a model written by "
            "`rescntk fit`"
        )
    return model.set_params(n_jobs=options.threads)


def _check_encoding(labels: list[Any], output: Path | None) -> None:
    """Refuse labels that the screen, or a file in UTF-8, cannot have: escapes are other labels."""
    screen = getattr(sys.stdout, "encoding", None) or "utf-8"
    encoding, target = (screen, "the screen") if output is None else ("utf-8", str(output))
    for label in labels:
        try:
            str(label).encode(encoding)
        except UnicodeEncodeError:
            raise ValueError(
                f"the model has the label {label!r}, expected labels in {encoding}, the encoding "
                f"of {target}{': -o Y.csv writes utf-8' * (output is None)}"
            ) from None


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Name the file of a model that lacks what a fitted model has."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} has a model that is damaged, not fitted, or of another version: {error}"
        ) from None


def _labelled(options: Namespace, regression: bool, model: Any = None) -> tuple[Any, ...]:
    """Return signals, labels, cases, channels and dates; labels given apart replace the file's.

    Columns are called as for a fitted model's table, unless options name them. Channels are the
    model's.
    """
    usual = getattr(model, "file_", {}).get("columns", {})
    columns = columns_of(options)
    table, dates = datasets.read_file(options.signals, options.array, True, columns, usual)
    X, y = table.X, table.y
    if options.labels is not None or options.labels_array is not None:
        if options.label_column is not None:
            raise ValueError("--label-column is given with --labels, expected one of them")
        path = options.labels or options.signals
        y = _one_each(path, options.labels_array, "labels", len(X))
    if regression and y is not None and y.dtype.kind == "U":
        texts, y = y, np.vectorize(fields.number, otypes=[float])(y)
        if not np.isfinite(y).all():
            wrong = str(texts[~np.isfinite(y)][0])
            raise ValueError(f"labels are texts, expected numeric targets: {wrong[:80]!r}")
    known = getattr(model, "channel_names_", None)
    fields.check_channels(table.channels, known, "the table", "fit")
    return table.X, y, table.cases, table.channels, dates


def _one_each(path: Path, array: str | None, what: str, n: int) -> np.ndarray:
    """Return the labels, or the groups, of n signals in a file."""
    values = datasets.read_labels(path, array)
    if values.shape[:1] != (n,) or values.ndim > 2:
        raise ValueError(
            f"{path.name} has {what} of shape {values.shape}, expected ({n},): a "
            f"{what.removesuffix('s')} for each signal"
        )
    return values
