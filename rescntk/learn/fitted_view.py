r"""A view fitted to signals: ridge regression on its kernel, novelty and contributions.

All signals are landmarks, or some of them: the features :math:`\Phi = K(X, S)
K(S, S)^{-1/2}` of signals X with landmarks S have the inner products K between landmarks. Ridge
regression on these features has closed-form leave-one-out errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from ..decomposition import Decomposition, decompose
from .inputs import Cases, Options, Signals, take
from .resolved_view import ResolvedView


@dataclass(eq=False)
class FittedView:
    """A view with ridge regression and a Gaussian process on its kernel."""

    view: ResolvedView
    """As measured on the training signals."""
    signals: Signals
    """The landmarks, in the view."""
    coefficients: np.ndarray
    """(n_landmarks, n_outputs)"""
    intercepts: np.ndarray
    """(n_outputs,)"""
    root: np.ndarray
    """R, (n_landmarks, rank): the process has the variance K(x, x) − ‖Rᵀk‖²."""
    ratios: np.ndarray
    """(rank, n_penalties), the squares of R for each penalty divided by the squares of `root`."""
    penalty: np.ndarray
    """(n_penalties,), of each output, or one for all."""
    usual_variance: np.ndarray
    """(n_penalties,), the mean variance of an observation at a training signal left out."""
    scale: np.ndarray
    """(n_outputs,), the variance of each output's prior, the unit of other variances."""
    error: np.ndarray
    """(n_penalties,), the mean squared error of cases left out."""
    prepared: tuple[Options, Any] | None = None
    """The last options of a call, and the landmarks prepared for them."""

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"prepared": None}

    def matrix(self, seen: Signals, options: Options) -> np.ndarray:
        """Return the kernel matrix of signals in the view with the landmarks, in float64."""
        prepared = self.prepared  # threads may share the view
        if prepared is None or prepared[0] != options:
            landmarks = self.view.kernel.prepared(self.signals, options)
            self.prepared = prepared = (dict(options), landmarks)
        return self.view.kernel.matrix(seen, prepared[1], options)

    def decide(self, X: Signals, options: Options) -> tuple[np.ndarray, np.ndarray]:
        """Return decisions (n_cases, n_outputs) and novelties (n_cases, n_penalties).

        The novelty is the variance of an observation, divided by the usual variance.
        """
        seen = self.view.see(X)
        K, diagonal = self.matrix(seen, options), self.view.kernel.diag(seen)[:, None]
        squares = (K @ self.root) ** 2
        several = len(self.penalty) > 1
        explained = squares @ self.ratios if several else squares.sum(axis=1, keepdims=True)
        variance = np.maximum(diagonal - explained, 0.0) + self.penalty
        return K @ self.coefficients + self.intercepts, variance / self.usual_variance

    def contributions(self, X: Signals, options: Options) -> list[np.ndarray]:
        """Return the shares of time points in decisions less intercepts, (n_outputs, d_i) each."""
        seen = self.view.see(X)
        parts = self.view.kernel.shares(seen, self.signals, self.coefficients, options)
        # Rounding errors, which large coefficients magnify, are divided evenly.
        sums = self.matrix(seen, options) @ self.coefficients
        counts = np.array([x.shape[1] for x in seen])
        parts += ((sums - parts.sum(axis=2)) / counts[:, None])[..., None]
        triples = zip(parts, counts, X, strict=True)
        return [self.view.to_time(part[:, :count], x) for part, count, x in triples]


def fit_view(
    view: ResolvedView, cases: Cases, landmarks: np.ndarray | None, penalties: Sequence[float],
    error_weights: np.ndarray, options: Options, n_penalties: int,
) -> tuple[FittedView, np.ndarray, np.ndarray]:  # fmt: skip
    r"""Return a resolved view fitted to cases; residuals and novelty of cases left out.

    One penalty for all outputs, or one for each, has the least leave-one-out error. The prior's
    scale :math:`\sigma^2 = y^\top (K + \lambda I)^{-1} (y - b) / n` maximizes the marginal
    likelihood.
    """
    view, seen = view.measure(cases.signals, cases.weights)
    kernel, diagonal = view.kernel, view.kernel.diag(seen)
    Y, weights, members = cases.targets, cases.weights, cases.members
    groups = members if members.max() + 1 < len(Y) else None  # single cases take less time
    if landmarks is None:
        S, K, unexplained = seen, kernel.matrix(seen, None, options), np.zeros(len(Y))
        spectrum = decompose(K, weights, clip=True)
        root = spectrum.roots[:, None] * spectrum.eigenvectors
    else:
        S, remaining = take(seen, landmarks), np.setdiff1d(np.arange(len(Y)), landmarks)
        K = np.empty((len(Y), len(landmarks)))
        K[landmarks] = kernel.matrix(S, None, options)
        K[remaining] = kernel.matrix(take(seen, remaining), S, options)
        values, V = scipy.linalg.eigh(K[landmarks], driver="evd")
        resolved = values > kernel.least_penalty(np.ones(len(S)), options["dtype"])
        half = V[:, resolved] / np.sqrt(values[resolved])  # K(S, S)^(-1/2), but for a rotation
        features, roots = K @ half, np.sqrt(weights)[:, None]
        unexplained = np.maximum(diagonal - (features**2).sum(axis=1), 0.0)  # by the features
        # Eigenvectors of products take less time than singular vectors. They have fewer digits
        # where eigenvalues are far below the penalty, which are as good as 0.
        values, V = scipy.linalg.eigh((roots * features).T @ (roots * features), driver="evd")
        eps = float(np.finfo(np.float64).eps)
        values, half, features = np.maximum(values, eps * values[-1]), half @ V, features @ V
        spectrum = Decomposition(values, roots * features / np.sqrt(values), eps, roots[:, 0])
        root = half * np.sqrt(values)
    residuals = spectrum.leave_one_out(Y, penalties, intercept=True, groups=groups)
    parts, shares = np.split(residuals, n_penalties, axis=2), shares_of(error_weights)
    errors = np.array([(part**2).mean(axis=2) @ shares for part in parts])
    choices = errors.argmin(axis=1)
    penalty, of_outputs = np.asarray(penalties)[choices], np.resize(choices, Y.shape[1])
    beta, b = np.empty(Y.shape), np.empty(Y.shape[1])
    variance = np.empty((len(Y), n_penalties))
    for choice in np.unique(choices):
        with_choice = of_outputs == choice
        outputs = slice(None) if with_choice.all() else with_choice
        beta[:, outputs], b[outputs] = spectrum.ridge(
            Y[:, outputs], penalties[choice], intercept=True
        )
        left_out = spectrum.left_out_variance(penalties[choice], groups) + unexplained
        variance[:, choices == choice] = left_out[:, None]
    scale = np.mean(beta * (Y - b), axis=0)
    usual_variance = np.array([np.average(of_one, weights=weights) for of_one in variance.T])
    if landmarks is not None:  # a function of all signals, as one of landmarks
        beta = half @ (features.T @ beta)
    sums = spectrum.eigenvalues[:, None] + penalty
    root /= np.sqrt(sums[:, 0])
    error = errors.min(axis=1)
    fitted = FittedView(
        view, S, beta, b, root, sums[:, :1] / sums, penalty, usual_variance, scale, error
    )
    residuals = np.take_along_axis(residuals, of_outputs[None, None], axis=0)[0]
    return fitted, residuals, variance / usual_variance


def shares_of(weights: np.ndarray) -> np.ndarray:
    """Return weights divided by their sum; weights of only zeros stay zeros."""
    return weights / (weights.sum() or 1.0)
