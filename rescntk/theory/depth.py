"""The depth checker: do kernels converge over depth to a predicted limit, at the predicted rate?

Barzilai et al. 2022, theorem 6.1 and appendix F; Huang et al. 2020, theorems 6 and 7. The
predictions are in theory/limits.py, the method in docs/theory/depth_limits.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..kernels import gram
from ..network import BASIC_FIELDS, Network, check_one_dilation
from ..report_table import ReportTable
from ..validation import check_depths, check_signals
from . import fits, multisphere
from .argument_checks import check_cases, check_energies, check_layers, check_rng
from .fits import Estimate
from .limits import Family, Prediction

__all__ = ["DEFAULT_DEPTHS", "VERDICTS", "Report", "Row", "check"]

AGREES, CONTRADICTS, OPEN, UNDEFINED = "agrees", "contradicts", "open", "undefined"
VERDICTS = {
    AGREES: "the prediction is inside the error bar ±, which is short enough to tell",
    CONTRADICTS: "the prediction is outside the error bar ±",
    OPEN: "the error bar ± is too long to tell; deeper networks shorten it",
    UNDEFINED: "no prediction holds for these networks and signals",
}
"""Verdicts with their meanings."""

DEFAULT_DEPTHS = tuple(2**k for k in range(3, 15))
"""Depths of the ladder (layers): 8, 16, …, 16384. More depths resolve slower rates."""

TOLERANCE = 0.05
"""Longest error bar that tells an exponent, relative to it."""

DOUBTED, WRONG = 0.1, 0.5
"""The errors of some pair's predicted limit, in last distances, above which no prediction agrees,
and above which it is contradicted.

The distance is over all pairs: it may fall as predicted where the limit of one pair is wrong.
Raising the numbers overlooks more wrong limits, lowering them leaves more right predictions open.
Chosen; of 1989 right predictions (other draws than tests/theory/test_depth_cases.py has) none has
limits that are more than .00001 last distances outside of their error bars."""

HIGHER_ORDERS = (1.5, 2.0)
"""Multiples of a predicted exponent that contradict nothing. For some signals the constant of a
law is 0, and the next order leads: the power 3/2 or 2 of the law's."""

_LEAST_RATIO = 1.25
"""Least ratio of neighbouring depths. Smaller: differences drown in rounding errors."""

_ROUNDINGS = 20
"""Rounding errors of a kernel value apart from its layers, in eps (tests/tolerances.py)."""

_EPS = float(np.finfo(np.float64).eps)


class Row(NamedTuple):
    """Statistics of the pairs of different signals at one depth of a `Report`."""

    depth: int
    off_diagonal: float
    """The mean of the normalized kernel over pairs."""
    complement: float
    """1 − off_diagonal, with all its digits."""
    distance: float
    """The distance from the predicted limit, in root mean square over pairs."""
    slope: float
    """Minus the slope of log distance over log depth since the previous depth."""


@dataclass(frozen=True)
class Report(ReportTable):
    """The result of `check`: a verdict with its reason; iterating gives a `Row` for each depth."""

    prediction: Prediction
    exponent: Estimate
    """p of the distance, L^-p (log L)^k."""
    verdict: str
    """A key of `VERDICTS`."""
    reason: str
    family: str
    kind: str
    head: str
    shape: tuple[int, ...]
    """Signals: (n_cases, n_channels, n_timepoints)."""

    def __str__(self) -> str:
        """Return the whole report as text."""
        header, *table = ["  ".join(line) for line in self._cells(Row._fields)]
        predicted = f"{self.prediction.source}; distance ~ {self.prediction.rate}"
        n_cases, n_channels, n_timepoints = self.shape
        settings = f"{self.family}: {self.kind.upper()}, {self.head} head; {n_cases} signals, "
        settings += f"{n_channels} channels × {n_timepoints} pixels"
        prediction = f"prediction: {'none' if self.prediction.undefined else predicted}"
        verdict = f"verdict: {self.verdict}: {VERDICTS[self.verdict]}"
        lines = [settings, prediction, header, "-" * len(header), *table, self.reason, verdict]
        return "\n".join(lines)


def check(
    family: Callable[[int], Network],
    X: np.ndarray | None = None,
    *,
    depths: Iterable[int] = DEFAULT_DEPTHS,
    kind: str = "ntk",
    head: str = "trace",
    prediction: Prediction | None = None,
    rng: np.random.Generator | int = 0,
    engine: str = "auto",
    progress: bool = False,
) -> Report:
    """Check whether kernels converge over depth to the predicted limit, at the predicted rate.

    A fit over a ladder of depths gives the exponent of the distance from the predicted limit, with
    an error bar. The verdict *agrees*, *contradicts*, is *open* if the bar is too long to tell, or
    *undefined* if no prediction holds for these signals (docs/theory/depth_limits.md).

    Parameters
    ----------
    family : callable
        From a depth to a `Network`: any function, or a `Family`, which predicts its limit.
    X : ndarray, (n_cases, n_channels, n_timepoints), optional
        At least 2 different signals. The default is 6 drawn from the multi-sphere, 4 channels × 5
        pixels (1 pixel where no filter is larger).
    depths : iterable of int, default 8, 16, …, 16384
        At least 6, each at least 1.25 times the previous depth.
    kind, head, engine, progress
        As for `Kernel`. With "auto", ReLU networks without biases on the multi-sphere go through
        `multisphere.gram_complements`, all others through `gram`.
    prediction : Prediction, optional
        Instead of the family's own, ``family.predict(kind, X, head)``.
    rng : Generator or int, default 0
        For drawing signals.

    Raises
    ------
    ValueError
        If arguments are not as described.

    See Also
    --------
    rescntk.theory.limits.Family : A network for each depth, with predicted limits.
    rescntk.plots.limit_distances : Pictures of a report.

    Examples
    --------
    >>> import rescntk as rk
    >>> family = rk.theory.limits.Family(rk.Network(1), gamma=1.0)
    >>> rk.theory.depth.check(family, depths=[2**k for k in range(3, 11)]).verdict
    'agrees'
    """
    ladder = _check_ladder(depths)
    if not (prediction is None or isinstance(prediction, Prediction)):
        raise ValueError(f"prediction is {prediction!r}, expected a Prediction, or None")
    networks = [_network(family, depth) for depth in ladder]
    X, on_sphere = _signals(X, networks[0], check_rng(rng))
    used = Prediction(undefined="nothing is predicted") if prediction is None else prediction
    if prediction is None and isinstance(family, Family):
        used = family.predict(kind, X, head)
    above = np.triu_indices(len(X), 1)
    limit = None if used.undefined else used.complements(len(X))[above]
    options: dict[str, Any] = {"head": head, "progress": progress}
    if engine == "auto" and on_sphere and _keeps_digits(networks, X, head):
        K, absolute = multisphere.gram_complements(networks, X, kind=kind, **options), 0.0
        roundings = _ROUNDINGS + np.sqrt(ladder)
    else:
        K, absolute = _complements(networks, X, kind, options | {"engine": engine}), 8 * _EPS
        roundings = _ROUNDINGS + np.array(ladder, dtype=np.float64)
    values = K[:, above[0], above[1]]
    noise = roundings * _EPS * _root_mean_square(values) + absolute
    name = getattr(family, "name", None) or getattr(family, "__name__", repr(family))
    settings = {"family": str(name), "kind": kind, "head": head, "shape": X.shape}
    return judge(ladder, values, noise, used, limit, **settings)


def judge(
    depths: tuple[int, ...],
    values: np.ndarray,
    noise: np.ndarray,
    used: Prediction,
    limit: np.ndarray | None,
    **settings: Any,
) -> Report:
    """Judge whether kernels over a ladder of depths converge as predicted.

    `values` are complements, (n_depths, n_pairs), with rounding errors `noise`, (n_depths,), and
    `limit` the predicted complements, or None.
    """
    L, mean = np.array(depths, dtype=np.float64), values.mean(axis=1)
    distance = _root_mean_square(values - (math.nan if limit is None else limit))
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.append(np.nan, -np.diff(np.log(distance)) / np.diff(np.log(L)))
    slope[~np.isfinite(slope)] = np.nan
    columns = (1.0 - mean, mean, distance, slope)
    rows = zip(depths, *(column.tolist() for column in columns), strict=True)
    table = tuple(Row._make(row) for row in rows)
    if limit is None:
        unknown = Estimate(math.nan, math.inf)
        return Report(table, used, unknown, UNDEFINED, used.undefined, **settings)
    noise = noise + 4 * _EPS * np.abs(limit).max() + used.error
    left = _left_over(used, L, distance)
    exponent = fits.fit_exponent(L, distance, noise, used.correction, used.log_power, left)
    verdict = _verdict(exponent, used.exponent)
    reason = f"the exponent of the distance is {exponent}, predicted {used.exponent:g}"
    share = _wrong_limits(used, L, values - limit, noise, left)
    if math.isinf(left):
        least = max(used.onset, depths[-1])
        reason = f"the law sets in deeper than this ladder, at depth {least:.1e} or more"
    elif share > DOUBTED and verdict != CONTRADICTS:
        verdict = CONTRADICTS if share > WRONG else OPEN
        reason += f"; the limit of some pair is wrong by {share * distance[-1]:.1e} at least"
    elif verdict == OPEN and abs(exponent.value - used.exponent) > exponent.bar:
        reason += ": of a higher order, the constant of the law may be 0 for these signals"
    return Report(table, used, exponent, verdict, reason, **settings)


def _root_mean_square(values: np.ndarray) -> np.ndarray:
    """Return the root mean square over the last axis, pairs of different signals."""
    return np.sqrt((values * values).mean(axis=-1))


def _verdict(fit: Estimate, predicted: float) -> str:
    orders = (1.0, *HIGHER_ORDERS)
    close = [abs(fit.value - order * predicted) <= fit.bar for order in orders]
    if not any(close) and math.isfinite(fit.bar):
        return CONTRADICTS
    return AGREES if close[0] and fit.bar <= TOLERANCE * fit.value else OPEN


def _wrong_limits(
    used: Prediction, L: np.ndarray, apart: np.ndarray, noise: np.ndarray, left: float
) -> float:
    """Return the largest error of a pair's predicted limit, less its error bar, in last distances.

    `apart` are kernels less their predicted limits, (n_depths, n_pairs): without the terms of the
    law they are errors of the limits. `left` is as in `fits.fit_exponent`.
    """
    orders = (used.exponent + k * used.correction for k in range(3))
    removed = [order for order in orders for _ in range(1 + used.log_power)]
    pairs = (fits.extrapolate(L, of_pair, noise, removed) for of_pair in apart.T)
    wrong = max(abs(limit) - fits.STANDARD_ERRORS * error for limit, error in pairs)
    distance = max(float(_root_mean_square(apart[-1])), _EPS)
    return wrong / distance - fits.STANDARD_ERRORS * left


def _left_over(used: Prediction, L: np.ndarray, distance: np.ndarray) -> float:
    """Return what a fit leaves of the corrections to the law, relative to the law."""
    q, last = used.correction, list(zip(L[-3:], np.maximum(distance[-3:], _EPS), strict=True))
    first = (used.onset / float(L[-1])) ** q  # relative size of the first correction
    if used.leading:
        first = min(first, max(abs(size / used.leading(depth) - 1.0) for depth, size in last))
    # What does not follow the law changes a slope by half at most: a root has half the power.
    unsettled = max(used.unsettled(depth) / size for depth, size in last)
    if max(first, unsettled) >= 1.0:
        return math.inf
    # Beside a logarithm the second correction has powers of logarithms that no removal takes away.
    left = (first * (1.0 - math.log(first))) ** 2 if used.log_power else first**3
    return left + 0.5 * unsettled


def _check_ladder(depths: Iterable[int]) -> tuple[int, ...]:
    """Return depths that are enough, and far enough apart, for fits."""
    ladder = check_depths(depths)
    if len(ladder) < fits.LEAST_DEPTHS:
        raise ValueError(
            f"depths is {ladder!r}, expected at least {fits.LEAST_DEPTHS} of them: an exponent "
            "needs slopes, and its error bar how they change"
        )
    for low, high in pairwise(ladder):
        if high < _LEAST_RATIO * low:
            raise ValueError(
                f"depths has {low} and then {high}, expected each at least {_LEAST_RATIO} times "
                "the depth before it"
            )
    check_layers(ladder[-1], "depths has")
    return ladder


def _network(family: Callable[[int], Network], depth: int) -> Network:
    if not callable(family):
        raise ValueError(f"family is {family!r}, expected a function from a depth to a Network")
    network = family(depth)
    check_one_dilation(network, BASIC_FIELDS | {"bias"})
    if network.depth != depth:
        raise ValueError(f"family returns a network of depth {network.depth}, expected {depth}")
    if network.input_scale == 0:
        raise ValueError(f"network is {network!r}, expected a positive input_scale: kernels are 0")
    return network


def _signals(
    X: np.ndarray | None, network: Network, rng: np.random.Generator
) -> tuple[np.ndarray, bool]:
    """Return the signals, given or drawn, and whether they are on the multi-sphere."""
    if X is None:
        sizes = network.filter_size, network.outer_filter_size, network.input_filter_size
        X = multisphere.sample(6, 4, 5 if max(sizes) > 1 else 1, rng)
    X = check_signals(X, "X")
    check_cases(X, 2, "a distance is taken over pairs of signals")
    for i, x in enumerate(X):
        same = i + 1 + np.flatnonzero((X[i + 1 :] == x).all(axis=(1, 2)))
        if len(same):
            raise ValueError(
                f"X has the same signal as cases {i} and {same[0]}, expected different ones: the "
                "limits are about different signals"
            )
    # Without biases normalized ReLU kernels do not depend on the lengths of signals of one pixel.
    lengthless = network.is_relu and not network.bias and X.shape[2] == 1 and X.any(axis=1).all()
    if multisphere.contains(X) or lengthless:
        return multisphere.project(X), True  # the recursion takes all norms for exact
    return X, False


def _keeps_digits(networks: list[Network], X: np.ndarray, head: str) -> bool:
    """Return whether `multisphere.gram_complements` takes these networks without loss of digits.

    GAP's mean over pixel pairs loses at most `_ROUNDINGS` where the signals' own means are large.
    The squared norm of a signal's mean is GAP's F⁰(x, x); means of later layers are not less.
    """
    first, *others = (network.replace(depth=1, alpha=1.0) for network in networks)
    usual = first.is_relu and first.input_filter_size == 1 and not first.bias
    least = float((X.mean(axis=2) ** 2).mean(axis=1).min())
    alike = all(network == first for network in others)
    return usual and alike and (head != "gap" or _ROUNDINGS * least >= 1.0)


def _complements(
    networks: list[Network], X: np.ndarray, kind: str, options: dict[str, Any]
) -> np.ndarray:
    """Return 1 − (normalized kernels); networks that differ in depth alone share one pass."""
    ladder = [network.depth for network in networks]
    alike = len({network.replace(depth=1) for network in networks}) == 1
    passes = [(networks[-1], ladder)] if alike else [(n, [n.depth]) for n in networks]
    options = {"kinds": (kind,), "normalized": True, **options}
    K = np.concatenate([gram(n, X, depths=depths, **options)[0] for n, depths in passes])
    check_energies(K)
    return 1.0 - K
