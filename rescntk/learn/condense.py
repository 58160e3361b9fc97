"""Condensed models: each pass keeps a few learned signals of its view in place of all signals."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from .. import datasets
from ..progress import progress_bar
from ..regression.learned_signals import (
    InterruptionWarning,
    learn_signals,
    of_each_label,
    rounding_ridge,
    solve_restricted,
)
from ..validation import check_integer
from .average import Average
from .calibration import NOVEL
from .drift import usual_line
from .fitted_pass import FittedPass, Training
from .process import Process
from .views import Signals, View, lengths, moderate_exponent, take

_PENALTY = 1e-4
"""Least penalty by which signals are learned, in units of the kernel's diagonal. Raising it keeps
coefficients smaller, and decisions farther from the full model's: on ArrowHead by a root mean
square of .28 with 1e-3 and .24 with 1e-4."""

_KEPT = 0.9
"""Least sum of weights of the passes that are kept. Raising it keeps more passes: it takes more
time and a larger file. Chosen: 7 to 9 passes of "fast" become 3 to 6 on five sets."""

_ROWS = (150, 300)
"""Least and most signals at which decisions are compared while signals are learned; beyond few
training signals they are means of two. Raising them comes closer to the full model, and takes more
time. Measured on ArrowHead: the decisions' root mean square change is .32 with its 36 signals,
.28 with 108 or 186, and .27 with 336."""

_TOLERANCE = 0.02
"""Part of the loss that three iterations have to gain; learning ends before. Raising it ends
sooner."""


_ARRAYS = (
    "mean", "scale", "difference_scale", "point_mean", "point_scale", "coefficients", "intercepts",
)  # fmt: skip
"""Arrays of a pass that `predict.py` needs."""

_EXPORTED = (
    "block", "block_statistics", "constant", "exponent", "first_differences", "level", "spectra",
    "standardize", "time_scale", "alpha", "dilation", "filter_size", "input_filter_size", "depths",
    "head", "kinds", "sees_levels", "line", "penalty", "usual_variance",
)  # fmt: skip
"""Settings of a pass that `predict.py` needs."""


class RoundedSignals(Training):
    """Learned signals of a pass' view, as whole numbers (int8) of a unit of each signal."""

    def __init__(self, signals: Signals) -> None:
        super().__init__([])
        unit = np.array([np.abs(x).max() for x in signals]) / np.iinfo(np.int8).max
        self.unit = np.where(unit > 0, unit, 1.0)
        pairs = zip(signals, self.unit, strict=True)
        whole = [np.rint(x / of_signal).astype(np.int8) for x, of_signal in pairs]
        self.whole = whole if isinstance(signals, list) else np.array(whole)

    def seen(self, view: View, kept: Any) -> Signals:
        """Return the signals in float64, which are of the view already."""
        numbers = [x * unit for x, unit in zip(self.whole, self.unit, strict=True)]
        return numbers if isinstance(self.whole, list) else np.array(numbers)


def condensed(
    average: Average,
    n_signals: int,
    labels_of: Callable[[np.ndarray], np.ndarray] | None,
    *,
    max_iterations: int,
    progress: bool,
) -> tuple[Average, np.ndarray]:
    """Return an average whose passes keep learned signals, and the places of the passes kept.

    `labels_of` returns the class of each row of a pass' decisions: learning starts at signals of
    all classes. Without it, learning starts at the landmarks of a pivoted factorization.
    """
    order = np.argsort(-average.weights, kind="stable")
    enough = np.searchsorted(np.cumsum(average.weights[order]), _KEPT) + 1
    kept = np.sort(order[:enough])
    fitted = [average.passes[k] for k in kept]
    count = check_integer(n_signals, "n_signals", at_least=2)
    least = min(len(full.coefficients) for full in fitted)
    if count >= least:
        raise ValueError(
            f"n_signals is {count}, expected fewer than the {least} signals that the model keeps"
        )
    passes: list[FittedPass] = []
    works = np.cumsum([_pixel_pairs(full) for full in fitted])
    parts = np.diff(np.rint(100 * works / works[-1]), prepend=0).astype(int).tolist()
    with (
        progress_bar(progress, 100, "part", name="condense") as tick,
        threadpool_limits(1, "blas"),
        warnings.catch_warnings(action="ignore", category=ConvergenceWarning),  # of equal signals
        warnings.catch_warnings(action="error", category=InterruptionWarning),
    ):
        for seed, full in enumerate(fitted):
            try:
                passes.append(
                    _condense_pass(full, count, labels_of, seed, max_iterations, average.options)
                )
            except InterruptionWarning:  # of `learn_signals`, which would go on
                raise KeyboardInterrupt from None
            tick(parts[seed])
    weights = average.weights[kept] / average.weights[kept].sum()
    return replace(average, passes=passes, weights=weights, places=slice(None)), kept


def export(model: Any, path: str | Path) -> None:
    """Write a condensed model, and `predict.py` beside it: ``export`` of an estimator."""
    target, average = Path(path), model._fitted
    if not all(isinstance(fitted.training, RoundedSignals) for fitted in average.passes):
        raise ValueError("the model has its training signals, expected model.condense(n).export")
    if isinstance(model.n_timepoints_, tuple):
        raise ValueError("the model is of images, expected a model of signals")
    datasets.check_output(target, ".npz", True)
    script = files(__package__).joinpath("predict.py").read_text(encoding="utf-8")
    beside = target.parent / "predict.py"
    if beside.exists() and beside.read_text(encoding="utf-8", errors="replace") != script:
        raise FileExistsError(f"{beside} exists and is another file: choose another folder")
    usual, rows = average.usual, list[dict[str, Any]]()
    arrays = {"weights": average.weights, "inverse_errors": average._inverse_errors}
    arrays |= {"level": usual.channels.level, "spread": usual.spread}
    settings = {"exponent": usual.exponent, "farthest": usual.farthest, "novel": NOVEL}
    settings |= {"shape": [model.n_channels_, model.n_timepoints_], "passes": rows}
    for number, fitted in enumerate(average.passes):
        source = fitted.source
        values = vars(source.view) | vars(source.network) | vars(source) | vars(fitted)
        values["sees_levels"] = source.view.sees_levels
        signals = fitted.signals
        batches = [signals] if isinstance(signals, np.ndarray) else [x[None] for x in signals]
        rows.append({name: values[name] for name in _EXPORTED} | {"n_batches": len(batches)})
        eigenvalues, vectors = np.linalg.eigh(fitted.process.matrix)
        root = vectors / np.sqrt(np.maximum(eigenvalues, 0.0) + fitted.penalty)
        parts = {"root": root} | {name: values[name] for name in _ARRAYS}
        parts |= {f"signals{k}": batch for k, batch in enumerate(batches)}
        if mix := source.view.mix:
            parts |= {"mix": mix.matrix, "mix_mean": mix.mean}
        arrays |= {f"{number}_{name}": part for name, part in parts.items()}
    if hasattr(model, "classes_"):
        settings["inverse_temperature"] = model.inverse_temperature_
        arrays |= {"classes": model.classes_, "offsets": model.offsets_, "shares": model._shares}
        if model.classes_.dtype == object:
            arrays["classes"] = model.classes_.astype(str)
    else:
        arrays |= {"scale": model._moderate_scale, "mean": model._moderate_mean}
        arrays |= {"exponents": model._exponents}
    with datasets.replacing(target) as file:
        np.savez_compressed(file, settings=json.dumps(settings, default=float), **arrays)
    beside.write_text(script, encoding="utf-8")


def _pixel_pairs(full: FittedPass) -> float:
    """Return the pixel pairs, times layers, of a pair of a pass' signals."""
    sizes = lengths(full.signals) ** (2.0 if full.source.head == "gap" else 1.0)
    return float(sizes.mean()) * max(full.source.depths)


def _condense_pass(
    full: FittedPass,
    count: int,
    labels_of: Callable[[np.ndarray], np.ndarray] | None,
    seed: int,
    max_iterations: int,
    options: dict[str, Any],
) -> FittedPass:
    r"""Return a pass with `count` learned signals whose decisions are near a full pass' decisions.

    The targets are decisions of the full pass at its own signals. The Gaussian process is
    conditioned on the learned signals only. Its variance at the full pass' signals has the mean of
    the full pass' variance at signals left out, plus the mean squared change of decisions.
    """
    signals, weights = full.signals, full.process.case_weights
    decisions, rng = full.decide(full.process.matrix), np.random.default_rng(seed)
    kernel, penalty = full.source, max(full.penalty, _PENALTY)
    start: Any = "pivoted"
    if labels_of is not None:
        start = _centres(signals, labels_of(decisions), count, rng)
    targets, n = decisions - full.intercepts, len(signals)
    rows, goals, importance = signals, targets, weights
    if n > _ROWS[1]:
        drawn = rng.permutation(n)[: _ROWS[1]]
        rows, goals, importance = take(signals, drawn), targets[drawn], weights[drawn]
    elif n < _ROWS[0] and isinstance(signals, np.ndarray):
        first, second = rng.integers(n, size=(2, _ROWS[0] - n))
        share = rng.uniform(0.0, 0.5, len(first)).reshape(-1, *[1] * (signals.ndim - 1))
        between = (1.0 - share) * signals[first] + share * signals[second]
        rows = np.concatenate([signals, between])
        goals = np.concatenate([targets, kernel(between, signals, **options) @ full.coefficients])
        importance = np.concatenate([weights, np.ones(len(first))])
    learned = learn_signals(
        kernel,
        rows,
        goals,
        count,
        penalty=penalty,
        start=start,
        max_iterations=max_iterations,
        tolerance=_TOLERANCE,
        random_state=seed,
        case_weights=importance,
        **options,
    )
    rounded = RoundedSignals(learned.signals)
    S = rounded.seen(full.source.view, slice(None))
    among_learned = kernel(S, **options)
    process = Process(among_learned, full.penalty, np.ones(count))
    of_rows, K = (kernel(part, S, **options).astype(np.float64) for part in (rows, signals))
    coefficients, _ = solve_restricted(
        of_rows, process.matrix, goals, importance[:, None], penalty, rounding_ridge(among_learned)
    )
    variances = process.variance(K) + full.penalty
    usual = float(np.average(variances, weights=weights))
    changes = (K @ coefficients + full.intercepts - decisions) ** 2
    variance = full.usual_variance * full.variance_scale
    variance = variance + np.average(changes, axis=0, weights=weights)
    return replace(
        full,
        training=rounded,
        coefficients=coefficients,
        process=process,
        variance_scale=variance / usual,
        usual_variance=usual,
        novelties=np.ones(0),
        line=usual_line(variances / usual, weights),
    )


def _centres(signals: Signals, labels: np.ndarray, count: int, rng: np.random.Generator) -> Signals:
    """Return `count` means of alike signals of a class; of lists, signals of each class."""
    drawn = of_each_label(labels, count, rng)
    if isinstance(signals, list):
        return take(signals, drawn)
    exponent, parts = moderate_exponent(signals), []  # KMeans squares the signals
    flat = np.ldexp(signals, -exponent).reshape(len(signals), -1)
    for label, number in zip(*np.unique(labels[drawn], return_counts=True), strict=True):
        clusters = KMeans(number, n_init=3, random_state=int(rng.integers(2**31)))
        parts.append(clusters.fit(flat[labels == label]).cluster_centers_)
    return np.ldexp(np.concatenate(parts), exponent).reshape(count, *signals.shape[1:])
