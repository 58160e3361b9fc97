r"""The average of views: kernels, ridge regression, weights and novelty.

A view's kernel is the mean of the normalized Gaussian process kernel and tangent kernel of its
network. All signals are landmarks, or some of them: the features :math:`\Phi = K(X, S)
K(S, S)^{-1/2}` of signals X with landmarks S have the inner products K between landmarks. Ridge
regression on these features has closed-form leave-one-out errors, which weigh the views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

from ..kernels import gram, gram_again, prepare
from ..kernels.call import mean_of_kernels
from ..kernels.pixels import gram_shares
from ..kernels.prepared import PreparedSignals
from ..regression import decompose, decompose_features
from .inputs import Cases, Signals, take
from .views import View

KINDS = ("gpk", "ntk")
"""Kinds of kernel whose mean a view takes."""

_POWER = 4.0
"""Power of errors in the weights that the average starts from. Measured mean accuracy: .863 with 0,
.880 with 4, .872 with 12."""

_LEFT_OUT = 0.02
"""Largest sum of weights of views that are left out, to take less time."""

_NOVELTY_POWER = 2.0
"""Power of novelties above 1 in weights at a signal. Measured mean accuracy with noise of a tenth
of the deviation: .766 with 0, .842 with 1, .855 with 2, .855 with 4."""

_LEVEL_POWER = 8.0
"""Power of distances of levels above 1 in weights of views that see levels. Measured on simulated
plants whose levels drift by half a deviation, mean accuracy: .784 with 0, .840 with 8."""

_FOLDS = 10
"""Folds of the score: weights of views at a fold come from the other folds."""

_EXAMPLES = 40
"""Most training signals whose contributions give the usual ones."""

_LEAST_SPREAD = 0.1
"""Least deviation of levels, in units of the deviation inside of signals, and of log2 of sizes."""

_SHARES = 2**20
"""Shares of kernels that are held at once."""

_MOST_KEPT = 2**26
"""Most bytes of a view's tables that are kept between predictions."""

_ONE_THREAD = 500
"""Most signals whose matrices are decomposed by one BLAS thread: two are no faster up to 270, and
on busy cores they wait for each other."""


@dataclass(eq=False, kw_only=True)
class FittedView:
    """A view with ridge regression and a Gaussian process on its kernel."""

    view: View
    """The view as measured on the training signals."""
    signals: Signals
    """The landmarks, in the view."""
    coefficients: np.ndarray
    """(n_landmarks, n_outputs)"""
    intercepts: np.ndarray
    """(n_outputs,)"""
    root: np.ndarray
    r"""R, (n_landmarks, rank): the process has the variance :math:`1 - \|R^\top k\|^2`."""
    penalty: float
    usual_variance: float
    """Mean variance of an observation at a training signal left out, in units of the prior's."""
    scale: np.ndarray
    """Variance of the prior of each output, (n_outputs,)."""
    error: float
    """Mean squared error of cases left out."""
    tables: tuple[Any, Any] | None = field(default=None, repr=False)
    """Options of the last kernel matrix, and what the engine keeps of the landmarks."""

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"tables": None}

    def matrix(self, X: Signals, options: dict[str, Any]) -> np.ndarray:
        """Return the kernel matrix of signals with the landmarks, in float64."""
        tables = self.tables  # threads may share the view
        if tables is None or tables[0] != options:
            prepared = prepare(self.view.network, self.signals, **_kernels(self.view), **options)
            kept = prepared if prepared.nbytes <= _MOST_KEPT else self.signals
            self.tables = tables = (dict(options), kept)
        return kernel(self.view, self.view.see(X), tables[1], options)

    def decide(self, K: np.ndarray) -> np.ndarray:
        """Return decisions (n_cases, n_outputs) from the `matrix`."""
        return K @ self.coefficients + self.intercepts

    def novelty(self, K: np.ndarray) -> np.ndarray:
        """Return the variance of observations, divided by the usual variance, (n_cases,)."""
        explained = ((K @ self.root) ** 2).sum(axis=1)
        return (np.maximum(1.0 - explained, 0.0) + self.penalty) / self.usual_variance

    def contributions(self, X: Signals, options: dict[str, Any]) -> list[np.ndarray]:
        """Return the shares of time points in decisions less intercepts, (n_outputs, d_i) each."""
        seen: Any = self.view.see(X)
        n, m, longest = len(X), len(self.signals), max(x.shape[1] for x in seen)
        rows = max(1, min(n, int(np.sqrt(_SHARES / longest))))
        columns = max(1, _SHARES // (longest * rows))
        parts = np.zeros((n, self.coefficients.shape[1], longest))
        for i in range(0, n, rows):
            for j in range(0, m, columns):
                shares = gram_shares(
                    self.view.network, seen[i : i + rows], self.signals[j : j + columns],
                    **_kernels(self.view), **options,
                )  # fmt: skip
                mean = np.mean([share.mean(axis=0, dtype=np.float64) for share in shares], axis=0)
                parts[i : i + rows, :, : mean.shape[2]] += (
                    self.coefficients.T[:, j : j + columns] @ mean
                )
        # Rounding errors, which large coefficients magnify, are divided evenly.
        sums = self.matrix(X, options) @ self.coefficients
        counts = np.array([x.shape[1] for x in seen])
        parts += ((sums - parts.sum(axis=2)) / counts[:, None])[..., None]
        triples = zip(parts, counts, X, strict=True)
        return [self.view.to_time(part[:, :count], x) for part, count, x in triples]


class Usual(NamedTuple):
    """Levels and sizes of the training signals: means and deviations of each channel.

    A signal's level is its mean, and its size log2 of its mean magnitude.
    """

    level: np.ndarray
    level_spread: np.ndarray
    size: np.ndarray
    size_spread: np.ndarray
    farthest: float = 1.0
    """Distance of levels that one of twenty training signals exceeds, at least 1."""

    @classmethod
    def of(cls, X: Signals, weights: np.ndarray) -> Usual:
        """Return what is usual for signals X with weights, (n_cases,)."""
        levels, sizes = _levels(X), _sizes(X)
        deviation = np.average([x.std(axis=1) for x in X], axis=0, weights=weights)
        (level, spread), (size, of_sizes) = (_moments(v, weights) for v in (levels, sizes))
        spread = np.maximum(spread, _LEAST_SPREAD * deviation)
        usual = cls(level, np.where(spread > 0, spread, np.inf), size, of_sizes + _LEAST_SPREAD)
        distances = usual.distances(X) / (1.0 - weights / weights.sum())  # left out
        order = distances.argsort()
        place = np.searchsorted(weights[order].cumsum(), 0.95 * weights.sum())
        return usual._replace(farthest=max(1.0, float(distances[order[min(place, len(X) - 1)]])))

    def distances(self, X: Signals) -> np.ndarray:
        """Return distances of levels in deviations, by what is usual: (n_cases,)."""
        shifts = (_levels(X) - self.level) / self.level_spread
        return np.sqrt(np.mean(shifts**2, axis=1)) / self.farthest

    def novelty(self, X: Signals) -> np.ndarray:
        """Return the mean squared distance of sizes, (n_cases,): 1 for two deviations."""
        return np.mean(((_sizes(X) - self.size) / self.size_spread) ** 2, axis=1) / 4.0


def _levels(X: Signals) -> np.ndarray:
    return np.array([x.mean(axis=1) for x in X])


def _sizes(X: Signals) -> np.ndarray:
    sizes = np.array([np.abs(x).mean(axis=1) for x in X])
    return np.log2(np.maximum(sizes, np.finfo(np.float64).tiny))


def _moments(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = np.average(values, axis=0, weights=weights)
    return mean, np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))


def _kernels(view: View) -> dict[str, Any]:
    return {"head": view.head, "kinds": KINDS, "depths": (view.depth,), "normalized": True}


def kernel(
    view: View, X: Signals, Z: Signals | PreparedSignals | None, options: dict[str, Any]
) -> np.ndarray:
    """Return the mean kernel of signals in the view, (n, m), in float64; its diagonal is 1."""
    if (
        isinstance(Z, PreparedSignals)
        and isinstance(X, np.ndarray)
        and isinstance(Z.batch, np.ndarray)
    ):
        matrices: Any = gram_again(X, Z)
    else:
        matrices = gram(view.network, X, Z, **_kernels(view), **options)
    return np.asarray(mean_of_kernels(matrices), dtype=np.float64)


def least_penalty(weights: np.ndarray, dtype: str) -> float:
    r"""Return the least penalty that rounding errors of kernels allow, in units of the diagonal.

    :math:`10^{-6} + 4 \sqrt n\, \mathrm{eps}`: n × n independent errors of size eps have the norm
    2 √n eps. Weights w, of mean 1, multiply row and column i by :math:`\sqrt{w_i}`.
    """
    return 1e-6 + 4.0 * float(np.sqrt(weights.max() * weights.sum()) * np.finfo(dtype).eps)


def fit_view(
    view: View,
    cases: Cases,
    landmarks: np.ndarray | None,
    penalties: Sequence[float],
    error_weights: np.ndarray,
    options: dict[str, Any],
) -> tuple[FittedView, np.ndarray, np.ndarray]:
    r"""Return a resolved view fitted to cases; residuals and novelty of cases left out.

    The penalty has the least leave-one-out error. The prior's scale :math:`\sigma^2 = y^\top
    (K + \lambda I)^{-1} (y - b) / n` maximizes the marginal likelihood.
    """
    view, seen = view.measure(cases.signals, cases.weights)
    Y, weights, groups = cases.targets, cases.weights, cases.groups
    rest = np.zeros(len(Y))  # of the kernel's diagonal, outside of the features
    if landmarks is None:
        S, K = seen, kernel(view, seen, None, options)
        spectrum = decompose(K, weights, clip=True)
    else:
        S, others = take(seen, landmarks), np.setdiff1d(np.arange(len(Y)), landmarks)
        K = np.empty((len(Y), len(landmarks)))
        K[landmarks] = kernel(view, S, None, options)
        if len(others):
            K[others] = kernel(view, take(seen, others), S, options)
        values, V = scipy.linalg.eigh(K[landmarks], driver="evd")
        resolved = values > least_penalty(np.ones(len(S)), options["dtype"])
        half = V[:, resolved] / np.sqrt(values[resolved])  # K(S, S)^(-1/2), but for a rotation
        features = K @ half
        spectrum = decompose_features(features, weights)
        rest = np.maximum(1.0 - (features**2).sum(axis=1), 0.0)
    residuals = spectrum.leave_one_out(Y, penalties, intercept=True, groups=groups)
    shares = error_weights / (error_weights.sum() or 1.0)
    errors = (residuals**2).mean(axis=2) @ shares
    choice = int(errors.argmin())
    penalty = penalties[choice]
    beta, b = spectrum.ridge(Y, penalty, intercept=True)
    scale = np.mean(beta * (Y - b), axis=0)
    variance = spectrum.left_out_variance(penalty, groups) + rest
    usual = float(np.average(variance, weights=weights))
    values, U = spectrum.eigenvalues, spectrum.roots[:, None] * spectrum.eigenvectors
    if landmarks is None:
        coefficients, root = beta, U / np.sqrt(values + penalty)
    else:
        inside = values > np.finfo(np.float64).eps * len(Y) * values[-1]
        # Right singular vectors of the weighted features are Φᵀ √W U / s.
        right = half @ (features.T @ U[:, inside] / np.sqrt(values[inside]))
        coefficients = half @ (features.T @ beta)
        root = right * np.sqrt(values[inside] / (values[inside] + penalty))
    fitted = FittedView(
        view=view, signals=S, coefficients=coefficients, intercepts=b, root=root, penalty=penalty,
        usual_variance=usual, scale=scale, error=float(errors[choice]),
    )  # fmt: skip
    return fitted, residuals[choice], variance / usual


def weigh(residuals: np.ndarray, error_weights: np.ndarray) -> np.ndarray:
    r"""Return the weights of views, (n_views,), from residuals (n_views, n_cases, n_outputs).

    G are mean products of residuals, where cases count with `error_weights`, and e = diag G. The
    weights minimize :math:`w^\top G w + \min e\, \|w - w_0\|^2`. They are at least 0, and their sum
    is 1. The first term is the squared error of the average; w₀ is proportional to :math:`e^{-4}`.
    The least weights become 0, as long as their sum is below .02.
    """
    shares = error_weights / (error_weights.sum() or 1.0)
    rows = (residuals * np.sqrt(shares / residuals.shape[2])[:, None]).reshape(len(residuals), -1)
    errors = (rows**2).sum(axis=1)
    unit = max(errors.min(), np.finfo(np.float64).eps * errors.max())
    if unit == 0.0:
        return np.full(len(errors), 1.0 / len(errors))
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

    A view has less weight where it finds a signal novel. A view that sees levels also has less
    where the levels are far from the training signals' (`Usual.distances`).
    """
    products = weights[:, None] * np.maximum(1.0, novelties) ** -_NOVELTY_POWER
    farther = np.clip(distances, 1.0, 1e9) ** -_LEVEL_POWER
    products *= np.where(np.array([view.sees_levels for view in views])[:, None], farther, 1.0)
    return products / products.sum(axis=0)


class Decided(NamedTuple):
    """What the views of an ensemble say of some signals."""

    decisions: np.ndarray
    """(n_views, n_cases, n_outputs)"""
    novelties: np.ndarray
    """(n_views, n_cases)"""
    weights: np.ndarray
    """(n_views, n_cases); sums over views are 1."""

    def mean(self) -> np.ndarray:
        """Return the average's decisions, (n_cases, n_outputs)."""
        return np.einsum("pn,pno->no", self.weights, self.decisions)


@dataclass(eq=False, kw_only=True)
class Ensemble:
    """Fitted views, their weights, and what is usual; made by `fit_ensemble`."""

    views: list[FittedView]
    weights: np.ndarray
    """(n_views,), above 0"""
    usual: Usual
    examples: Signals
    """Some training signals, whose contributions are usual ones."""

    def at(self, X: Signals, options: dict[str, Any]) -> Decided:
        """Return the views' decisions, novelties and weights at signals X."""
        matrices = [fitted.matrix(X, options) for fitted in self.views]
        pairs = list(zip(self.views, matrices, strict=True))
        novelties = np.array([fitted.novelty(K) for fitted, K in pairs])
        decisions = np.array([fitted.decide(K) for fitted, K in pairs])
        return Decided(decisions, novelties, self.weights_at(novelties, self.usual.distances(X)))

    def weights_at(self, novelties: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Return the views' weights at signals: see the function of this name."""
        views = [fitted.view for fitted in self.views]
        return weights_at(self.weights, novelties, distances, views)

    def novelty(self, X: Signals, decided: Decided) -> np.ndarray:
        """Return the geometric mean of the views' novelties, or the sizes' if that is larger."""
        errors = np.array([fitted.error for fitted in self.views])
        inverse = 1.0 / np.maximum(errors, np.finfo(np.float64).eps * (errors.max() or 1.0))
        of_views = np.exp((inverse / inverse.sum()) @ np.log(decided.novelties))
        return np.maximum(of_views, self.usual.novelty(X))

    def variance(self, decided: Decided) -> np.ndarray:
        """Return the variance of new observations, (n_cases, n_outputs), of the views' mixture."""
        units = np.array([fitted.usual_variance * fitted.scale for fitted in self.views])
        variances = decided.novelties[:, :, None] * units[:, None]
        spread = (decided.decisions - decided.mean()) ** 2
        return np.einsum("pn,pno->no", decided.weights, variances + spread)

    def contributions(
        self, X: Signals, centre: np.ndarray, options: dict[str, Any]
    ) -> list[np.ndarray]:
        """Return the shares of time points in decisions less `centre`, (n_outputs,)."""
        weights = self.at(X, options).weights
        totals = [np.zeros((len(centre), x.shape[1])) for x in X]
        for fitted, of_cases in zip(self.views, weights, strict=True):
            parts = fitted.contributions(X, options)
            for total, part, weight in zip(totals, parts, of_cases, strict=True):
                rest = (fitted.intercepts - centre)[:, None] / part.shape[1]
                total += weight * (part + rest)
        return totals


class Fitted(NamedTuple):
    """An ensemble, and what it says of its cases left out."""

    ensemble: Ensemble
    left_out: Decided
    """Of the views of the ensemble, with residuals in place of decisions."""
    residuals: np.ndarray
    """(n_cases, n_outputs), where a case's weights of views come from other folds."""
    table: dict[str, np.ndarray]
    """`views_` of the estimators."""


def fit_ensemble(
    views: Sequence[View],
    cases: Cases,
    *,
    landmarks: np.ndarray | None,
    penalties: Sequence[float],
    error_weights: np.ndarray,
    rng: np.random.RandomState,
    options: dict[str, Any],
) -> Fitted:
    """Return the average of views fitted to cases.

    `landmarks` are places of cases, or None for all. Errors of cases count with `error_weights`.
    A view that the signals cannot have, or that sees the same as an earlier view, is left out.
    """
    X, n = cases.signals, len(cases.weights)
    lengths, notes = [x.shape[1] for x in X], np.full(len(views), "", dtype=object)
    resolved: dict[View, int] = {}
    for k, view in enumerate(views):
        of_signals = view.resolve(lengths, isinstance(X, list))
        if isinstance(of_signals, str):
            notes[k] = of_signals
        elif of_signals in resolved:
            notes[k] = f"sees the same as view {resolved[of_signals]}"
        else:
            resolved[of_signals] = k
    if not resolved:
        raise ValueError(f"views has none for these signals: {notes[0]}")
    with threadpool_limits(1 if n <= _ONE_THREAD else None, "blas"):
        fits = [
            fit_view(view, cases, landmarks, penalties, error_weights, options) for view in resolved
        ]
        fitted = [fit[0] for fit in fits]
        residuals, novelties = (np.array([fit[k] for fit in fits]) for k in (1, 2))
        weights, usual = weigh(residuals, error_weights), Usual.of(X, cases.weights)
        distances = usual.distances(X)
        mean = np.zeros(cases.targets.shape)
        members = np.arange(n) if cases.groups is None else cases.groups
        folds = (rng.permutation(members.max() + 1) % _FOLDS)[members]
        for fold in np.unique(folds):
            inside = folds == fold
            of_others = weigh(residuals, np.where(inside, 0.0, error_weights))
            at_cases = weights_at(of_others, novelties[:, inside], distances[inside], [*resolved])
            mean[inside] = np.einsum("pn,pno->no", at_cases, residuals[:, inside])
    table: dict[str, np.ndarray] = {"view": np.empty(len(views), dtype=object)}
    table["view"][:] = list(views)
    table |= {"error": np.full(len(views), np.nan), "weight": np.zeros(len(views)), "note": notes}
    places = list(resolved.values())
    table["error"][places] = [each.error for each in fitted]
    table["weight"][places] = weights
    kept = np.flatnonzero(weights)
    ensemble = Ensemble(
        views=[fitted[k] for k in kept],
        weights=weights[kept],
        usual=usual,
        examples=take(X, np.sort(rng.permutation(n)[:_EXAMPLES])),
    )
    at_cases = ensemble.weights_at(novelties[kept], distances)
    return Fitted(ensemble, Decided(residuals[kept], novelties[kept], at_cases), mean, table)
