r"""Learned signals: a few signals S, and coefficients, that predict like all training signals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ..arrays import SignalList, rounding_unit
from ..progress import progress_bar, warn
from ..validation import (
    check_batch,
    check_choice,
    check_depth,
    check_integer,
    check_match,
    check_positive,
    check_shape,
    check_targets,
)
from .checks import check_gradients, check_share, in_range, kernel_gradients, powers_of_targets
from .decomposition import check_case_weights
from .pivoted_cholesky import pivoted_factor

STARTS = ("classes", "pivoted")
"""Names of the ways to choose the signals at which learning starts."""

_ROUNDING = 4.0
"""Factor of √m eps in the ridge δ of `learn_signals`; a pure number. Raising it keeps coefficients
of nearly equal signals smaller. Chosen as twice the norm of symmetric rounding errors, 2 √m eps."""


class InterruptionWarning(UserWarning):
    """Warning that the signals are the best before an interruption."""


class LearnedSignals(NamedTuple):
    """Signals and coefficients: ``kernel(X_new, signals) @ coefficients`` predicts."""

    signals: Any
    """S, (n_signals, n_channels, n_timepoints), images, or a list, of the kind of X"""
    coefficients: np.ndarray
    """W, (n_signals,) or (n_signals, n_outputs), of the targets' axes"""
    losses: np.ndarray
    """The loss at the start and after each iteration, (n_iterations + 1,)"""


@in_range
def learn_signals(
    kernel: Any,
    X: Any,
    y: np.ndarray,
    n_signals: int,
    *,
    penalty: float = 1e-3,
    start: Any = None,
    max_iterations: int = 100,
    tolerance: float = 0.0,
    random_state: int = 0,
    case_weights: np.ndarray | None = None,
    progress: bool = False,
    **options: Any,
) -> LearnedSignals:
    r"""Return m signals S and coefficients W that predict like ridge regression on all n signals.

    The loss :math:`\min_W \|K(X, S) W - Y\|^2 + \lambda \operatorname{tr} W^\top (K(S, S) + \delta
    I) W` is minimized over the signals by L-BFGS; W is solved for at each step (variable
    projection). Derivatives by S come from ``kernel.vjp`` (``docs/theory/large_grams.md``;
    inducing points of Titsias 2009, kernel inducing points of Nguyen et al. 2021). The small ridge
    δ is of the size of rounding errors of K, so that W exists where two signals meet.

    Parameters
    ----------
    kernel : Kernel
        Or another object with ``kernel(X)``, and ``kernel.vjp`` as of a Kernel. Normalized kernels
        suit penalties of one size for all data.
    X : array, (n_cases, n_channels, n_timepoints)
        Signals, images, or a list, as for calling the kernel.
    y : ndarray, (n_cases,) or (n_cases, n_targets)
        Targets Y: numbers; for classes ±1, or a column of zeros and ones for each class.
    n_signals : int
        m, at least 1. Time is in proportion to n · m.
    penalty : float, default 1e-3
        λ, positive, in units of the kernel.
    start : {"classes", "pivoted"} or array, optional
        The signals at which learning starts: training signals, as many of each different target as
        of others, drawn at random; the landmarks of `pivoted_cholesky`; or signals of the shape of
        the result. The default is "classes" if targets take at most m values, else "pivoted".
    max_iterations : int, default 100
        Iterations of L-BFGS, each of about one call of ``vjp``.
    tolerance : float, default 0.0
        Part of the loss, from 0 to below 1. Learning ends after three iterations that together
        gain less. Raising it ends sooner; at 0 only `max_iterations` and convergence end it.
    random_state : int, default 0
        Seed of the start.
    case_weights : ndarray, (n_cases,), optional
        Positive factors of the signals' squared errors, by default 1.
    progress : bool, default False
        Whether to report iterations to stderr.
    **options
        Options of each call of the kernel: ``engine``, ``dtype``, ``threads``.

    Returns
    -------
    LearnedSignals
        A named tuple: signals, coefficients and losses. An interruption (Ctrl-C) returns the best
        signals so far, with a warning.

    Raises
    ------
    ValueError
        If an argument is not as described above, or the kernel has no gradients.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((40, 1, 8))
    >>> y = (X * np.roll(X, 1, axis=2)).mean(axis=(1, 2))  # how alike neighbours are
    >>> kernel = rk.ResCNTK(depth=2, normalized=True)
    >>> found = rk.regression.learn_signals(kernel, X, y, 4, max_iterations=20)
    >>> predicted = kernel(X, found.signals) @ found.coefficients
    >>> found.signals.shape, predicted.shape, bool(found.losses[-1] < found.losses[0] / 2)
    ((4, 1, 8), (40,), True)
    """
    from scipy.optimize import minimize  # a third of the time of `import rescntk`

    signals, n = check_batch(X, "X"), check_depth(n_signals, "n_signals")
    check_gradients(kernel, signals, options)
    y = check_targets(y, len(signals))
    penalty = check_positive(penalty, "penalty")
    steps = check_depth(max_iterations, "max_iterations")
    least_gain = check_share(tolerance, "tolerance")
    seed = check_integer(random_state, "random_state", at_least=0)
    weights = check_case_weights(case_weights, len(signals))
    chosen = _start(kernel, signals, y, n, start, seed=seed, options=options)
    # Squares of huge targets leave the range of float64; powers of two change no digit.
    power = int(powers_of_targets(y).max())
    Y = np.ldexp(y, -power).reshape(len(y), -1)
    loss = _Loss(kernel, signals, Y, weights, penalty, chosen, options=options)
    losses: list[float] = []
    with progress_bar(progress, steps, "iteration", name="learn_signals") as tick:

        def note(_: np.ndarray) -> None:
            losses.append(loss.least)
            tick(1)
            if len(losses) > 3 and losses[-1] > (1.0 - least_gain) * losses[-4]:
                raise StopIteration  # SciPy ends the search

        try:
            first, limits = loss.flat(chosen), {"maxiter": steps, "maxfun": 20 * steps}
            losses.append(loss(first)[0] * loss.unit)
            minimize(loss, first, jac=True, method="L-BFGS-B", callback=note, options=limits)
        except KeyboardInterrupt:
            if not losses:
                raise
            warn(
                f"learn_signals was interrupted in iteration {len(losses)} of {steps}: the result "
                f"is the best so far, of loss {np.ldexp(loss.least, 2 * power):.4g}",
                InterruptionWarning,
            )
    best = list(loss.best) if isinstance(loss.best, SignalList) else loss.best
    coefficients = np.ldexp(loss.coefficients, power).reshape(n, *y.shape[1:])
    return LearnedSignals(best, coefficients, np.ldexp(losses, 2 * power))


class _Loss:
    """The loss at signals S, divided by its value for W = 0, and its gradient; the best S so far.

    Signals are one vector of numbers, divided by the root mean square of the start: the optimizer
    works at the same scale for all signals and targets.
    """

    def __init__(
        self,
        kernel: Any,
        X: Any,
        Y: np.ndarray,
        weights: np.ndarray,
        penalty: float,
        start: Any,
        options: dict[str, Any],
    ) -> None:
        self.kernel, self.X, self.Y, self.options = kernel, X, Y, options
        self.weights, self.penalty = weights[:, None], penalty
        self.unit = float((self.weights * Y**2).sum()) or 1.0
        self.best, self.least, self.coefficients = start, np.inf, np.zeros((len(start), 1))
        self.shapes = [x.shape for x in start]
        self.ridge = 0.0  # δ, set at the start
        largest = max(np.abs(x).max() for x in start)
        self.size = np.ldexp(1.0, np.frexp(largest)[1] - 1)  # squares of huge signals overflow
        self.size *= np.sqrt(np.mean(self.flat(start) ** 2)) or 1.0

    def flat(self, signals: Any) -> np.ndarray:
        """Return signals as one vector."""
        return _joined(signals) / self.size

    def signals(self, vector: np.ndarray) -> Any:
        """Return signals from one vector."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])[:-1]
        most = np.finfo(np.float64).max
        parts = np.split(np.clip(vector * self.size, -most, most), ends)
        signals = [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]
        return SignalList(signals) if isinstance(self.best, SignalList) else np.array(signals)

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        S = self.signals(vector)
        matrix = self.kernel(S, **self.options)
        B, solved = np.asarray(matrix, np.float64), list[Any]()
        if not self.ridge:
            self.ridge = rounding_ridge(matrix)
            if not self.ridge:
                raise ValueError(
                    "learning starts at signals whose kernels are all 0, expected some other than "
                    "0: give start, or leave zero signals out of X"
                )

        def slopes(K: Any) -> np.ndarray:  # of the loss by K(S, X)
            shape = len(S), len(self.X)
            K = np.ascontiguousarray(check_shape(K, "kernel(X, Z)", shape).T, np.float64)
            solved[:] = solve_restricted(K, B, self.Y, self.weights, self.penalty, self.ridge)
            errors = self.weights * (K @ solved[0] - self.Y)
            return np.asarray(2.0 * solved[0] @ errors.T)

        gradients = partial(kernel_gradients, self.kernel, S, options=self.options)
        across = _joined(gradients(self.X, slopes, fixed_Z=True))
        W, value = solved
        if value < self.least:
            self.best, self.least, self.coefficients = S, value, W
        within = _joined(gradients(None, self.penalty * W @ W.T))
        return value / self.unit, (across + within) * (self.size / self.unit)


def _joined(signals: Any) -> np.ndarray:
    """Return all numbers of signals as one vector."""
    return np.concatenate([np.ravel(x) for x in signals])


def rounding_ridge(matrix: Any) -> float:
    """Return δ for the matrix K(S, S), (m, m), of the size of its rounding errors."""
    eps = rounding_unit(matrix)
    return float(_ROUNDING * np.sqrt(len(matrix)) * eps * np.asarray(matrix).diagonal().max())


def solve_restricted(
    K: np.ndarray, B: np.ndarray, Y: np.ndarray, weights: Any, penalty: float, ridge: float
) -> tuple[np.ndarray, float]:
    r"""Return W of least :math:`\|K W - Y\|_w^2 + \lambda \operatorname{tr} W^\top (B + δI) W`.

    And the value there. `B` is K(S, S), (m, m); `weights` are w, (n, 1), `ridge` is δ. A
    QR factorization of rows of K and of the root of B takes the place of their squares, which have
    twice their condition number. Eigenvalues of B below 0 are rounding errors, and count as 0.
    """
    values, vectors = np.linalg.eigh(B)
    root = np.sqrt(penalty * (np.maximum(values, 0.0) + ridge))[:, None] * vectors.T
    scale = np.sqrt(weights)
    rows = np.vstack([scale * K, root])
    targets = np.vstack([scale * Y, np.zeros((len(B), Y.shape[1]))])
    Q, R = scipy.linalg.qr(rows, mode="economic")
    W = scipy.linalg.solve_triangular(R, Q.T @ targets)
    return W, float(((rows @ W - targets) ** 2).sum())


def _start(
    kernel: Callable[..., Any],
    X: Any,
    y: np.ndarray,
    n: int,
    start: Any,
    seed: int,
    options: dict[str, Any],
) -> Any:
    """Return the n signals at which learning starts."""
    if start is not None and not isinstance(start, str):
        given = check_batch(start, "start")
        lists = any(isinstance(batch, SignalList) for batch in (X, given))
        check_match(X, given, lists, names=("X", "start"))
        if len(given) != n:
            raise ValueError(f"start has {len(given)} signals, expected n_signals = {n}")
        return given
    if n > len(X):
        raise ValueError(
            f"n_signals is {n}, expected at most the number of signals of X, {len(X)}, or signals "
            f"as start"
        )
    labels = np.unique(y, axis=0, return_inverse=True)[1].reshape(-1)
    if start is None:
        start = "classes" if labels.max() < n else "pivoted"
    rng = np.random.default_rng(seed)
    if check_choice(start, "start", STARTS) == "classes":
        return X[of_each_label(labels, n, rng)]
    chosen = pivoted_factor(kernel, X, n, seed, options).landmarks
    others = np.setdiff1d(np.arange(len(X)), chosen)  # where signals are equal
    return X[np.concatenate([chosen, others])[:n]]


def of_each_label(labels: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n places of labels, drawn at random: each label as often as others, while it lasts."""
    order = rng.permutation(len(labels))
    drawn = labels[order]
    before = [np.sum(drawn[:k] == label) for k, label in enumerate(drawn)]
    return order[np.argsort(before, kind="stable")[:n]]
