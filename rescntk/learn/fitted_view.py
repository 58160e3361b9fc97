r"""A view fitted to signals: its kernel, ridge regression on it, novelty and contributions.

A view's kernel is the mean of the normalized Gaussian process kernel and tangent kernel of its
network. All signals are landmarks, or some of them: the features :math:`\Phi = K(X, S)
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
from ..engines.work import blocks
from ..kernels.call import mean_again
from ..kernels.gram import gram, prepare
from ..kernels.pixels import gram_shares
from ..kernels.prepared import PreparedSignals
from ..validation import KINDS
from .inputs import Cases, Options, Signals, longest, take
from .views import ResolvedView

_SHARES = 2**20  # numbers of kernels that are held at once; of one signal all are


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
    """R, (n_landmarks, rank): the process has the variance 1 − ‖Rᵀk‖²."""
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
    tables: tuple[Options, PreparedSignals] | None = None
    """Of `matrix`: its last options, and the landmarks prepared for them."""

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"tables": None}

    def matrix(self, X: Signals, options: Options) -> np.ndarray:
        """Return the kernel matrix of signals with the landmarks, in float64."""
        tables = self.tables  # threads may share the view
        if tables is None or tables[0] != options:
            kept = prepare(self.view.network, self.signals, **_kernels(self.view), **options)
            self.tables = tables = (dict(options), kept)
        return kernel(self.view, self.view.see(X), tables[1], options)

    def decide(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return decisions (n_cases, n_outputs) and novelties (n_cases, n_penalties) by `matrix`.

        The novelty is the variance of an observation, divided by the usual variance.
        """
        squares = (K @ self.root) ** 2
        several = len(self.penalty) > 1
        explained = squares @ self.ratios if several else squares.sum(axis=1, keepdims=True)
        variance = np.maximum(1.0 - explained, 0.0) + self.penalty
        return K @ self.coefficients + self.intercepts, variance / self.usual_variance

    def contributions(self, X: Signals, options: Options) -> list[np.ndarray]:
        """Return the shares of time points in decisions less intercepts, (n_outputs, d_i) each."""
        seen = self.view.see(X)
        most = longest(seen)
        parts = np.zeros((len(X), self.coefficients.shape[1], most))
        for some in blocks(0, len(X), max(1, _SHARES // (most * len(self.signals)))):
            shares = gram_shares(
                self.view.network, seen[some], self.signals, **_kernels(self.view), **options
            )
            mean = np.mean([share[0] for share in shares], axis=0, dtype=np.float64)
            parts[some, :, : mean.shape[2]] = self.coefficients.T @ mean
        # Rounding errors, which large coefficients magnify, are divided evenly.
        sums = self.matrix(X, options) @ self.coefficients
        counts = np.array([x.shape[1] for x in seen])
        parts += ((sums - parts.sum(axis=2)) / counts[:, None])[..., None]
        triples = zip(parts, counts, X, strict=True)
        return [self.view.to_time(part[:, :count], x) for part, count, x in triples]


def _kernels(view: ResolvedView) -> dict[str, Any]:
    return {"head": view.head, "kinds": KINDS, "depths": (view.network.depth,), "normalized": True}


def kernel(
    view: ResolvedView, X: Signals, Z: Signals | PreparedSignals | None, options: Options
) -> np.ndarray:
    """Return the mean kernel of signals in the view, (n, m), in float64; its diagonal is 1.

    Z are signals in the view, `PreparedSignals`, or None: X itself.
    """
    if (
        isinstance(X, np.ndarray)
        and isinstance(Z, PreparedSignals)
        and isinstance(Z.batch, np.ndarray)
    ):
        return mean_again(X, Z)
    matrices = gram(view.network, X, Z, **_kernels(view), **options)
    return np.asarray(np.mean([K[0] for K in matrices], axis=0, dtype=np.float64))


def least_penalty(weights: np.ndarray, dtype: str) -> float:
    r"""Return the least penalty that rounding errors of kernels allow, in units of the diagonal.

    :math:`10^{-6} + 4 \sqrt n\, \mathrm{eps}`: n × n independent errors of size eps have the norm
    2 √n eps. Weights w, of mean 1, multiply row and column i by :math:`\sqrt{w_i}`.
    """
    return 1e-6 + 4.0 * float(np.sqrt(weights.max() * weights.sum()) * np.finfo(dtype).eps)


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
    Y, weights, members = cases.targets, cases.weights, cases.members
    groups = members if members.max() + 1 < len(Y) else None  # single cases take less time
    if landmarks is None:
        S, K, rest = seen, kernel(view, seen, None, options), np.zeros(len(Y))
        spectrum = decompose(K, weights, clip=True)
        root = spectrum.roots[:, None] * spectrum.eigenvectors
    else:
        S, others = take(seen, landmarks), np.setdiff1d(np.arange(len(Y)), landmarks)
        K = np.empty((len(Y), len(landmarks)))
        K[landmarks] = kernel(view, S, None, options)
        K[others] = kernel(view, take(seen, others), S, options)
        values, V = scipy.linalg.eigh(K[landmarks], driver="evd")
        resolved = values > least_penalty(np.ones(len(S)), options["dtype"])
        half = V[:, resolved] / np.sqrt(values[resolved])  # K(S, S)^(-1/2), but for a rotation
        features, roots = K @ half, np.sqrt(weights)[:, None]
        rest = np.maximum(1.0 - (features**2).sum(axis=1), 0.0)  # outside of the features
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
        own = of_outputs == choice
        outputs = slice(None) if own.all() else own
        beta[:, outputs], b[outputs] = spectrum.ridge(
            Y[:, outputs], penalties[choice], intercept=True
        )
        left_out = spectrum.left_out_variance(penalties[choice], groups) + rest
        variance[:, choices == choice] = left_out[:, None]
    scale = np.mean(beta * (Y - b), axis=0)
    usual = np.array([np.average(of_one, weights=weights) for of_one in variance.T])
    if landmarks is not None:  # a function of all signals, as one of landmarks
        beta = half @ (features.T @ beta)
    sums = spectrum.eigenvalues[:, None] + penalty
    root /= np.sqrt(sums[:, 0])
    error = errors.min(axis=1)
    fitted = FittedView(view, S, beta, b, root, sums[:, :1] / sums, penalty, usual, scale, error)
    residuals = np.take_along_axis(residuals, of_outputs[None, None], axis=0)[0]
    return fitted, residuals, variance / usual


def shares_of(weights: np.ndarray) -> np.ndarray:
    """Return weights divided by their sum; weights of only zeros stay zeros."""
    return weights / (weights.sum() or 1.0)
