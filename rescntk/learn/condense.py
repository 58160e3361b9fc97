"""Condensed models: each pass keeps a few learned signals of its view in place of all signals."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..progress import progress_bar
from ..regression.learned_signals import InterruptionWarning, learn_signals, of_each_label
from ..validation import check_flag, check_integer
from .average import FittedPass, Training
from .drift import usual_line
from .passes import Pass, Slopes
from .process import Process
from .views import Signals, take

_PENALTY = 1e-3
"""Least penalty by which signals are learned, in units of the kernel's diagonal. Raising it keeps
coefficients smaller, and decisions farther from the full model's."""


@dataclass(frozen=True)
class CondensedPass(FittedPass):
    """A pass that has learned signals of its view in place of training signals."""

    learned: Signals
    """(n_signals, n_channels of the view, n_points), images, or a list."""

    @property
    def signals(self) -> Signals:
        return self.learned


class _Mean:
    """The mean kernel of a pass, in the form that `learn_signals` takes."""

    def __init__(self, source: Pass) -> None:
        self.source = source

    def __call__(self, *signals: Any, **options: Any) -> np.ndarray:
        return self.source.kernel(*signals, **options)

    def vjp(self, X: Any, Z: Any = None, *, weights: np.ndarray, **options: Any) -> Slopes:
        """Return derivatives: by Z only, where Z is given."""
        if Z is None:
            return self.source.vjp(X, weights=weights, **options)
        return Slopes(None, self.source.vjp(Z, X, weights=weights.T, fixed_Z=True, **options).X)


def condensed(
    model: Any,
    n_signals: int,
    labels_of: Callable[[np.ndarray], np.ndarray] | None,
    *,
    max_iterations: int,
    progress: bool,
) -> Any:
    """Return a copy of a fitted estimator whose passes keep learned signals.

    `labels_of` returns the class of each row of a pass' decisions: learning starts at signals of
    all classes. Without it, learning starts at the landmarks of a pivoted factorization.
    """
    fitted: list[FittedPass] = model._fitted
    count, check = (
        check_integer(n_signals, "n_signals", at_least=2),
        check_flag(progress, "progress"),
    )
    least = min(len(each.coefficients) for each in fitted)
    if count >= least:
        raise ValueError(
            f"n_signals is {count}, expected fewer than the {least} signals that the model keeps"
        )
    options = model._options()
    found = []
    with (
        progress_bar(check, len(fitted), "kernel", name="condense") as tick,
        threadpool_limits(1, "blas"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error", InterruptionWarning)
        for seed, each in enumerate(fitted):
            try:
                found.append(_condense_pass(each, count, labels_of, seed, max_iterations, options))
            except InterruptionWarning:  # of `learn_signals`, which would go on
                raise KeyboardInterrupt from None
            tick(1)
    small = copy.copy(model)
    small._fitted, small._places = found, slice(None)
    return small


def _condense_pass(
    full: FittedPass,
    count: int,
    labels_of: Callable[[np.ndarray], np.ndarray] | None,
    seed: int,
    max_iterations: int,
    options: dict[str, Any],
) -> CondensedPass:
    r"""Return a pass with `count` learned signals whose decisions are near a full pass' decisions.

    The targets are decisions of the full pass at its own signals. The Gaussian process is
    conditioned on the learned signals only. Its variance at the full pass' signals has the mean of
    the full pass' variance at signals left out, plus the mean squared change of decisions.
    """
    signals, weights = full.signals, full.process.case_weights
    decisions = full.decide(full.process.matrix)
    start: Any = "pivoted"
    if labels_of is not None:
        rng = np.random.default_rng(seed)
        start = take(signals, of_each_label(labels_of(decisions), count, rng))
    kernel, penalty = _Mean(full.source), max(full.penalty, _PENALTY)
    learned = learn_signals(
        kernel,
        signals,
        decisions - full.intercepts,
        count,
        penalty=penalty,
        start=start,
        max_iterations=max_iterations,
        random_state=seed,
        case_weights=weights,
        **options,
    )
    dtype = options["dtype"]
    S = [x.astype(dtype) for x in learned.signals]
    found: Signals = S if isinstance(signals, list) else np.array(S)
    process = Process(kernel(found, **options), full.penalty, np.ones(count))
    K = kernel(signals, found, **options).astype(np.float64)
    variances = process.variance(K) + full.penalty
    usual = float(np.average(variances, weights=weights))
    changes = (K @ learned.coefficients + full.intercepts - decisions) ** 2
    variance = full.usual_variance * full.variance_scale + np.average(
        changes, axis=0, weights=weights
    )
    return CondensedPass(
        source=full.source,
        training=Training([]),
        kept=slice(None),
        penalty=full.penalty,
        coefficients=learned.coefficients,
        intercepts=full.intercepts,
        process=process,
        variance_scale=variance / usual,
        usual_variance=usual,
        novelties=np.ones(0),
        line=usual_line(variances / usual, weights),
        seconds=full.seconds,
        learned=found,
    )
