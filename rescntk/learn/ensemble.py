r"""The average of views: kernels, ridge regression, weights and novelty.

A view's kernel is the mean of the normalized Gaussian process kernel and tangent kernel of its
network. All signals are landmarks, or some of them: the features :math:`\Phi = K(X, S)
K(S, S)^{-1/2}` of signals X with landmarks S have the inner products K between landmarks. Ridge
regression on these features has closed-form leave-one-out errors, which weigh the views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy.optimize import nnls

from ..engines.protocol import blocks
from ..kernels import gram, prepare
from ..kernels.call import mean_again
from ..kernels.pixels import gram_shares
from ..kernels.prepared import PreparedSignals
from ..regression import Decomposition, decompose
from ..validation import KINDS
from .inputs import Cases, Signals, arrays, longest, take
from .views import View

_LEFT_OUT = 0.02  # largest sum of weights of views that are left out
_LEAST_SPREAD = 0.1  # least deviation of levels, in deviations inside of signals; of log2 of sizes
_SHARES = 2**20  # of kernels, that are held at once, or those of one signal

_POWER = 4.0
"""Power of errors in the weights that the average starts from. Measured mean accuracy: .863 with 0,
.880 with 4, .872 with 12."""

_NOVELTY_POWER = 2.0
"""Power of novelties above 1 in weights at a signal. Measured mean accuracy with noise of a tenth
of the deviation: .766 with 0, .842 with 1, .855 with 2, .855 with 4."""

_LEVEL_POWER = 8.0
"""Power of distances of levels above 1 in weights of views that see levels. Measured on simulated
plants whose levels drift by half a deviation, mean accuracy: .784 with 0, .840 with 8."""


@dataclass(eq=False)
class FittedView:
    """A view with ridge regression and a Gaussian process on its kernel."""

    view: View  # as measured on the training signals
    signals: Signals  # the landmarks, in the view
    coefficients: np.ndarray  # (n_landmarks, n_outputs)
    intercepts: np.ndarray  # (n_outputs,)
    root: np.ndarray  # R, (n_landmarks, rank): the process has the variance 1 − ‖Rᵀk‖²
    penalty: float
    usual_variance: float  # mean variance of an observation at a training signal left out
    scale: np.ndarray  # variance of the prior of each output, (n_outputs,), its unit
    error: float  # mean squared error of cases left out
    tables: tuple[Any, Any] | None = None  # of `matrix`: options, the landmarks prepared

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"tables": None}

    def matrix(self, X: Signals, options: dict[str, Any]) -> np.ndarray:
        """Return the kernel matrix of signals with the landmarks, in float64."""
        tables = self.tables  # threads may share the view
        if tables is None or tables[0] != options:
            kept = prepare(self.view.network, self.signals, **_kernels(self.view), **options)
            self.tables = tables = (dict(options), kept)
        return kernel(self.view, self.view.see(X), tables[1], options)

    def decide(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return decisions (n_cases, n_outputs) and novelties (n_cases,) from the `matrix`.

        The novelty is the variance of an observation, divided by the usual variance.
        """
        explained = ((K @ self.root) ** 2).sum(axis=1)
        variance = np.maximum(1.0 - explained, 0.0) + self.penalty
        return K @ self.coefficients + self.intercepts, variance / self.usual_variance

    def contributions(self, X: Signals, options: dict[str, Any]) -> list[np.ndarray]:
        """Return the shares of time points in decisions less intercepts, (n_outputs, d_i) each."""
        seen: Any = self.view.see(X)
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


class Usual:
    """Levels and sizes of training signals X with weights, (n_cases,).

    A signal's level is its mean, and its size log2 of its mean magnitude, of each channel. The unit
    of sizes is two deviations. One of twenty training signals has a distance of levels above 1, if
    that is more than a deviation.
    """

    def __init__(self, X: Signals, weights: np.ndarray) -> None:
        values = _levels_and_sizes(X)
        self.mean = np.average(values, axis=0, weights=weights)
        level, size = np.sqrt(np.average((values - self.mean) ** 2, axis=0, weights=weights))
        deviations = np.reshape([x.std(axis=-1) for x in arrays(X)], (len(X), -1))
        inside = np.average(deviations, axis=0, weights=weights)
        level = np.maximum(level, _LEAST_SPREAD * inside)
        self.unit = np.stack([np.where(level > 0, level, np.inf), 2 * (size + _LEAST_SPREAD)])
        left_out = self.distances(X)[0] / (1.0 - shares_of(weights))
        most = np.quantile(left_out, 0.95, weights=weights, method="inverted_cdf")
        self.unit[0] *= max(1.0, most)

    def distances(self, X: Signals) -> np.ndarray:
        """Return the distances of levels and of sizes from the usual ones, (2, n_cases)."""
        deviations = (_levels_and_sizes(X) - self.mean) / self.unit
        return np.sqrt(np.mean(deviations**2, axis=2)).T


def _levels_and_sizes(X: Signals) -> np.ndarray:
    """Return the level and the size of each channel of signals, (n_cases, 2, n_channels)."""
    pairs = [np.stack([x.mean(axis=-1), np.abs(x).mean(axis=-1)], axis=-2) for x in arrays(X)]
    values = np.reshape(pairs, (len(X), 2, -1))
    values[:, 1] = np.log2(np.maximum(values[:, 1], np.finfo(np.float64).tiny))
    return values


def _kernels(view: View) -> dict[str, Any]:
    return {"head": view.head, "kinds": KINDS, "depths": (view.depth,), "normalized": True}


def kernel(view: View, X: Any, Z: Any, options: dict[str, Any]) -> np.ndarray:
    """Return the mean kernel of signals in the view, (n, m), in float64; its diagonal is 1.

    Z are signals in the view, `PreparedSignals`, or None: X itself.
    """
    if isinstance(Z, PreparedSignals) and isinstance(Z.batch, np.ndarray):
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
    view: View, cases: Cases, landmarks: np.ndarray | None, penalties: Sequence[float],
    error_weights: np.ndarray, options: dict[str, Any],
) -> tuple[FittedView, np.ndarray, np.ndarray]:  # fmt: skip
    r"""Return a resolved view fitted to cases; residuals and novelty of cases left out.

    The penalty has the least leave-one-out error. The prior's scale :math:`\sigma^2 = y^\top
    (K + \lambda I)^{-1} (y - b) / n` maximizes the marginal likelihood.
    """
    seen = view.measure(cases.signals, cases.weights)
    Y, weights, members = cases.targets, cases.weights, cases.members
    groups = members if members.max() + 1 < len(Y) else None  # single cases take less time
    if landmarks is None:
        S, K, rest = seen, kernel(view, seen, None, options), np.zeros(len(Y))
        spectrum = decompose(K, weights, clip=True)
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
    residuals = spectrum.leave_one_out(Y, penalties, intercept=True, groups=groups)
    errors = (residuals**2).mean(axis=2) @ shares_of(error_weights)
    choice = int(errors.argmin())
    penalty = penalties[choice]
    beta, b = spectrum.ridge(Y, penalty, intercept=True)
    scale = np.mean(beta * (Y - b), axis=0)
    variance = spectrum.left_out_variance(penalty, groups) + rest
    usual = float(np.average(variance, weights=weights))
    if landmarks is None:
        root = spectrum.roots[:, None] * spectrum.eigenvectors
    else:  # functions of all signals, as functions of landmarks
        beta, root = half @ (features.T @ beta), half * np.sqrt(spectrum.eigenvalues)
    root /= np.sqrt(spectrum.eigenvalues + penalty)
    fitted = FittedView(view, S, beta, b, root, penalty, usual, scale, float(errors[choice]))
    return fitted, residuals[choice], variance / usual


def shares_of(weights: np.ndarray) -> np.ndarray:
    """Return weights divided by their sum; weights of only zeros stay zeros."""
    return weights / (weights.sum() or 1.0)


def weigh(residuals: np.ndarray, error_weights: np.ndarray) -> np.ndarray:
    r"""Return the weights of views, (n_views,), from residuals (n_views, n_cases, n_outputs).

    G are mean products of residuals, where cases count with `error_weights`, and e = diag G. The
    weights, at least 0 and of sum 1, minimize the squared error of the average near w₀ ∝ e⁻⁴,
    :math:`w^\top G w + \min e\, \|w - w_0\|^2`. The least become 0, up to a sum of .02.
    """
    shares = shares_of(error_weights) / residuals.shape[2]
    rows = (residuals * np.sqrt(shares)[:, None]).reshape(len(residuals), -1)
    errors = (rows**2).sum(axis=1)
    unit = max(errors.min(), np.finfo(np.float64).eps * errors.max()) or 1.0
    near = (np.maximum(errors, unit) / unit) ** -_POWER
    near /= near.sum()
    # Least squares with a last row 1ᵀw = 1: any scale of w has the minimum's direction.
    values, vectors = np.linalg.eigh(rows @ rows.T / unit)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    ones = np.ones(len(errors))
    distance = np.eye(len(errors)) - np.outer(near, ones)
    weights = nnls(np.vstack([root, distance, ones]), np.append(np.zeros(2 * len(errors)), 1.0))[0]
    weights /= weights.sum()
    rising = np.argsort(weights, kind="stable")
    weights[rising[np.cumsum(weights[rising]) < _LEFT_OUT]] = 0.0
    return weights / weights.sum()


def weights_at(
    weights: np.ndarray, novelties: np.ndarray, distances: np.ndarray, views: Sequence[View]
) -> np.ndarray:
    """Return the views' weights at signals, (n_views, n_cases); sums over views are 1.

    A view has less weight where a signal is novel to it, or levels that it sees are far away.
    """
    products = weights[:, None] * np.maximum(1.0, novelties) ** -_NOVELTY_POWER
    farther = np.clip(distances, 1.0, 1e9) ** -_LEVEL_POWER
    products *= np.where([[view.sees_levels] for view in views], farther, 1.0)
    return products / products.sum(axis=0)


def average(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the views' average of values (n_views, n_cases, n_outputs), (n_cases, n_outputs)."""
    return np.einsum("pn,pno->no", weights, values)
