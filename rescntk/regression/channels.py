r"""Metrics of the channels: which channels, and which combinations of channels, decide targets.

``docs/theory/gradients.md`` has the formulas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..arrays import SignalList, channels_and_length
from ..engines.protocol import Tick, blocks, silent
from ..progress import progress_bar
from ..validation import check_batch, check_depth, check_integer, check_kernel, check_targets
from .checks import check_gradients, check_share, in_range, kernel_gradients, kernel_matrix
from .decomposition import decompose
from .pivoted_cholesky import pivoted_factor
from .restricted_ridge import restricted_ridge

PENALTIES = 10.0 ** np.arange(-6.0, 2.0, 0.5)
"""Penalties of ridge regression to choose from, in units of the kernel's mean diagonal. More of
them cost little time. Chosen by reasoning: from near interpolation to near the mean."""

_MOST_CENTRES = 1000
"""Most signals that all have coefficients, and the number of landmarks of more signals. Raising it
takes more time and memory. Chosen as for the estimators."""

_CASES = 32
"""Signals of one call for gradients. Raising it makes fewer calls, and reports progress less often.
Chosen by reasoning: a call takes far longer than its start."""

_FLOOR = 1e-3
"""Relevance, before scaling, of a channel that explains nothing. 0 would remove such channels, and
raising it keeps more of their noise. Chosen by taste."""


class ChannelMetric(NamedTuple):
    """A linear map of the channels: ``transform @ x`` takes the place of a signal x."""

    transform: np.ndarray
    """S, (n_channels, n_channels), symmetric, with tr S² = n_channels"""
    relevance: np.ndarray
    """The diagonal of M = S², (n_channels,), of mean 1"""


@in_range
def channel_metric(
    kernel: Any, X: Any, y: np.ndarray, *, steps: int = 1, identity: float = 0.3, cases: int = 200,
    random_state: int = 0, progress: bool = False, **options: Any,
) -> ChannelMetric:  # fmt: skip
    r"""Return a metric of the channels, learned from gradients of ridge regression.

    A step fits ridge regression :math:`f(x) = \sum_b K(Sx, Sx_b) \beta_b + c` with the penalty of
    least leave-one-out error. M is the sum of outer products of its gradients over signals, points
    and targets. The next S is :math:`M^{1/2}`; the first S is the identity
    (``docs/theory/gradients.md``; recursive feature machines of Radhakrishnan et al. 2024).

    Parameters
    ----------
    kernel, **options
        As for `learn_signals`. More than 1000 signals are represented by 1000 landmarks.
    X : array, (n_cases, n_channels, n_timepoints)
        Signals, images, or a list, as for calling the kernel. Standardize channels first: the
        relevance of a channel depends on its unit.
    y : ndarray, (n_cases,) or (n_cases, n_targets)
        Targets of one unit: numbers; for classes ±1, or a column of zeros and ones for each class.
    steps : int, default 1
        Number of steps. Each takes a kernel matrix, and `cases` · n_targets rows of gradients.
    identity : float, default 0.3
        Share of the identity in M, from 0 to below 1. Raising it changes the signals less.
    cases : int, default 200
        Number of signals, drawn at random, at which gradients are taken.
    random_state : int, default 0
        Seed of the drawn signals, and of landmarks.
    progress : bool, default False
        Whether to report gradients to stderr.

    Returns
    -------
    ChannelMetric
        A named tuple: transform and relevance. Leave-one-out errors of transformed signals are too
        small, because S has seen all targets: to judge S, learn it in each fold.

    Raises
    ------
    ValueError
        If signals have one channel, all targets are equal, or the kernel has no gradients.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 2, 8)) + 2 * rng.standard_normal((80, 1, 8))
    >>> y = (X[:, 0] - X[:, 1]).std(axis=1)  # only the difference of both channels decides
    >>> m = rk.regression.channel_metric(rk.ResCNTK(2, normalized=True), X, y)
    >>> m.relevance.round(1), bool(m.transform[0, 1] < -0.1)
    (array([1., 1.]), True)
    """
    signals, Y, unit = _check_data(X, y)
    check_gradients(kernel, signals, options)
    share, n_steps = check_share(identity, "identity"), check_depth(steps, "steps")
    n_cases, seed = check_depth(cases, "cases"), check_integer(random_state, "random_state", 0)
    total = n_steps * Y.shape[1] * min(n_cases, len(signals))
    with progress_bar(progress, total, "gradient", name="channel_metric") as tick:
        S = unit
        for _ in range(n_steps):
            S, M = next_metric(
                kernel, signals, Y, S, share, n_cases, seed=seed, options=options, tick=tick
            )
            if not M.any():
                raise ValueError("kernel has gradients of 0 at X, expected signals that change it")
    return ChannelMetric(S, M.diagonal().copy())


def next_metric(
    kernel: Any, X: Any, Y: np.ndarray, S: np.ndarray, identity: float, cases: int, seed: int,
    options: dict[str, Any], tick: Tick = silent, case_weights: np.ndarray | None = None,
    signs: bool = False,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return the root of M of a step from the metric S, and M; targets are centred.

    M has the share `identity` of the identity, and is in the channels of X. With `signs` targets
    are added up at each signal with random signs: in the mean M is the same, in less time. Where
    all gradients are 0, S is returned, and 0.
    """
    Z = _transformed(S, X)
    coefficients, centres, _ = _least_error_ridge(kernel, Z, Y, seed, options, case_weights)
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(len(X))[:cases])
    combinations = np.eye(Y.shape[1])[:, None].repeat(len(chosen), axis=1)
    if signs:
        combinations = rng.choice([-1.0, 1.0], (1, len(chosen), Y.shape[1]))
    if case_weights is not None:
        combinations = combinations * np.sqrt(case_weights[chosen])[:, None]
    products = np.zeros((len(S), len(S)))
    for rows in combinations @ coefficients.T:
        products += _gradient_products(kernel, Z, chosen, rows, centres, options=options, tick=tick)
    M = S.T @ products @ S
    if not (trace := np.trace(M)) > 0.0:
        return S, M
    M = (1.0 - identity) * len(M) / trace * M + identity * np.eye(len(M))
    values, V = np.linalg.eigh(M)
    return V * np.sqrt(np.maximum(values, 0.0)) @ V.T, M


@in_range
def channel_weights(
    kernel: Callable[..., Any], X: Any, y: np.ndarray, *, progress: bool = False, **options: Any
) -> np.ndarray:
    r"""Return a weight of each channel, (n_channels,), by ridge regression on the channel alone.

    Weights are :math:`\sqrt r` with :math:`r \propto \max(0, 1 - e) + 0.001` of mean 1, and e the
    least squared leave-one-out error as a share of the targets' variance. ``weights[:, None] * x``
    takes the place of a signal x. Weights serve where most channels are noise, and `channel_metric`
    where channels decide together.

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or another function with matrices ``kernel(X)`` and ``kernel(X, Z)``. It takes
        signals of one channel.
    X, y, progress, **options
        As for `channel_metric`.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((40, 3, 8))
    >>> weights = rk.regression.channel_weights(rk.ResCNTK(2), X, abs(X[:, 1]).mean(axis=1))
    >>> int(weights.argmax())
    1
    """
    check_kernel(kernel)
    signals, Y, unit = _check_data(X, y)
    errors = np.ones(len(unit))
    with progress_bar(progress, len(unit), "channel", name="channel_weights") as tick:
        for c, selection in enumerate(unit):
            channel = _transformed(selection[None], signals)
            if any(x.any() for x in channel):
                errors[c] = _least_error_ridge(kernel, channel, Y, 0, options)[2]
            tick(1)
    return weights_of_errors(errors)


def weights_of_errors(errors: np.ndarray) -> np.ndarray:
    """Return weights of channels, (n_channels,), by errors as shares of the targets' variance."""
    relevance = np.maximum(0.0, 1.0 - errors) + _FLOOR
    return np.asarray(np.sqrt(relevance / relevance.mean()))


def _least_error_ridge(
    kernel: Any, X: Any, Y: np.ndarray, seed: int, options: dict[str, Any],
    case_weights: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, float]:  # fmt: skip
    """Return the ridge regression, with an intercept, of least squared leave-one-out error.

    Its coefficients (n_centres, n_targets), the places of its centres among the signals, and its
    error as a share of the variance of Y, which is centred.
    """
    if len(X) <= _MOST_CENTRES:
        ridge = ridge_of_matrix(kernel_matrix(kernel, X, **options), Y, case_weights)
        return ridge[0], np.arange(len(X)), ridge[1]
    low = pivoted_factor(kernel, X, _MOST_CENTRES, seed, options)
    penalties = PENALTIES * (low.factor**2).sum(axis=1).mean()
    restricted = restricted_ridge(
        kernel, X, Y, low, penalties, intercept=True, leave_one_out=True,
        case_weights=case_weights, **options,
    )  # fmt: skip
    best, error = _least_error(np.asarray(restricted.errors), Y, case_weights)
    return restricted.coefficients[best], restricted.features.landmarks, error


def ridge_of_matrix(
    K: np.ndarray, Y: np.ndarray, case_weights: np.ndarray | None = None, groups: Any = None
) -> tuple[np.ndarray, float, np.ndarray]:
    """Return coefficients of the least error, this error, and errors of cases left out.

    The first two are as by `_least_error_ridge`, the last (n_penalties, n_cases, n_targets). With
    `groups`, (n_cases,), whole groups are left out.
    """
    penalties = PENALTIES * (K.diagonal().mean() or 1.0)
    spectrum = decompose(K, case_weights, clip=True)
    errors = spectrum.leave_one_out(Y, penalties, intercept=True, groups=groups)
    best, error = _least_error(errors, Y, case_weights)
    return spectrum.with_intercept(Y, penalties[best])[0], error, errors


def _least_error(
    errors: np.ndarray, Y: np.ndarray, case_weights: np.ndarray | None
) -> tuple[int, float]:
    """Return the place of the penalty of least squared error, and it as a share of Y's squares."""
    shares = np.ones(len(Y)) if case_weights is None else case_weights
    squares = (errors**2).sum(axis=2) @ shares
    best = int(squares.argmin())
    return best, float(squares[best] / (shares @ (Y**2).sum(axis=1) or 1.0))  # 0 of a constant


def _gradient_products(
    kernel: Any, X: Any, cases: np.ndarray, weights: np.ndarray, centres: np.ndarray,
    options: dict[str, Any], tick: Tick,
) -> np.ndarray:  # fmt: skip
    """Return the sum of outer products of gradients at some cases, (n_channels, n_channels).

    The gradient at a case is of its kernels with the centres times a row of weights. Gradients are
    in units of the largest number in X, so that their squares stay in range.
    """
    exponent = np.frexp(max(np.abs(x).max() for x in X))[1]
    products, centre_signals = np.zeros((channels_and_length(X)[0],) * 2), X[centres]
    for part in blocks(0, len(cases), _CASES):
        signals = X[cases[part]]
        for gradient in kernel_gradients(
            kernel, signals, centre_signals, weights[part], options, fixed_Z=True
        ):
            g = np.ldexp(gradient.astype(np.float64), exponent).reshape(len(products), -1)
            products += g @ g.T
        tick(len(signals))
    return products


def _transformed(matrix: np.ndarray, X: Any) -> Any:
    """Return signals or images whose channels are a matrix times the channels of X."""
    if isinstance(X, SignalList):
        return SignalList([matrix @ x for x in X])
    pixels = X.reshape(*X.shape[:2], -1)
    return (matrix @ pixels).reshape(len(X), len(matrix), *X.shape[2:])


def _check_data(X: Any, y: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return signals, centred targets (n_cases, n_targets), and the identity of the channels."""
    signals = check_batch(X, "X")
    if (n_channels := channels_and_length(signals)[0]) == 1:
        raise ValueError("X has one channel, expected two or more to compare")
    targets = check_targets(y, len(signals))
    if (targets == targets[0]).all():
        raise ValueError(f"y has equal values for all {len(y)} signals, expected different values")
    Y = targets.reshape(len(targets), -1) / np.abs(targets).max()
    return signals, Y - Y.mean(axis=0), np.eye(n_channels)
