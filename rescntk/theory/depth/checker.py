"""The depth checker: do kernels converge over depth to a predicted limit, at the predicted rate?

Barzilai et al. 2022, theorem 6.1 and appendix F; Huang et al. 2020, theorems 6 and 7. Predictions
are in laws.py. The method, Richardson's extrapolation, is in docs/theory/depth_checks.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ...checks.messages import shown
from ...checks.values import check_depths, check_rng, check_signals
from ...engines.heads import head_in_words, pixels_averaged
from ...engines.layer.means import pooled
from ...kernels import gram
from ...network import PER_LAYER_FIELDS, Network, check_network
from ...network.parameters import FIELDS_WITH_NORM
from .. import multisphere
from ..tools.argument_checks import check_cases, check_energies, check_layers
from ..tools.report_table import ReportTable
from .laws import Family, Prediction

AGREES, CONTRADICTS, OPEN, UNDEFINED = "agrees", "contradicts", "open", "undefined"
VERDICTS = {
    AGREES: "the prediction is inside the error bar ±, which is short enough to tell",
    CONTRADICTS: "the prediction is outside the error bar ±",
    OPEN: "the error bar ± is too long to tell; deeper networks shorten it",
    UNDEFINED: "no prediction holds for these networks and signals",
}
"""Verdicts with their meanings."""

DEFAULT_DEPTHS = tuple(2**k for k in range(3, 15))
"""Default depths, in layers: 8, 16, …, 16384. More depths resolve slower rates."""

_LEAST_DEPTHS = 6
"""Fewest depths of a fit: five slopes, two removals, three changes to compare."""

_LEAST_RATIO = 1.25
"""Least ratio of neighbouring depths. Smaller: differences drown in rounding errors."""

_ROUNDINGS = 20
"""Rounding errors of a kernel value apart from its layers, in eps (tests/tolerances.py)."""

_EPS = float(np.finfo(np.float64).eps)

_STANDARD_ERRORS = 3.0
"""Standard errors in an error bar. The largest error in 2,488 right reports was 0.64 of a bar."""


class FittedExponent(NamedTuple):
    """A fitted exponent with its error bar, which is infinite where the exponent is not known."""

    value: float
    error: float

    def __str__(self) -> str:
        if not math.isfinite(self.error):
            return "unknown"
        digits = min(max(1 - math.floor(math.log10(self.error or 1e-5)), 0), 6)
        return f"{self.value:.{digits}f} ± {self.error:.{digits}f}"


class DepthRow(NamedTuple):
    """A row of a `ConvergenceReport`, which documents the columns."""

    depth: int
    off_diagonal: float
    complement: float
    distance: float
    slope: float


class Subject(NamedTuple):
    """The family, kernel and signals of a `ConvergenceReport`."""

    family: str
    kind: str
    head: str | int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class ConvergenceReport(ReportTable[DepthRow]):
    """A verdict with its reason, of `check_convergence`; iterating gives a row for each depth.

    Columns are about the pairs of different signals.

    - ``depth``.
    - ``off_diagonal``: the mean of the normalized kernel over pairs.
    - ``complement``: 1 − ``off_diagonal``, with all its digits.
    - ``distance``: from the predicted limit, in root mean square over pairs.
    - ``slope``: of log distance over log depth since the previous depth, times −1.
    """

    prediction: Prediction
    exponent: FittedExponent
    """e of the distance, which falls like L^-e, or like L^-e log L."""
    verdict: str
    """"agrees", "contradicts", "open" or "undefined": see `check_convergence`."""
    reason: str
    family: str
    kind: str
    head: str | int
    shape: tuple[int, ...]
    """Signals: (n_cases, n_channels, n_timepoints)."""

    def __str__(self) -> str:
        """Return the whole report as text."""
        n_cases, n_channels, n_timepoints = self.shape
        settings = (
            f"{self.family}: {self.kind.upper()}, {head_in_words(self.head)}; {n_cases} signals, "
        )
        settings += f"{n_channels} channels × {n_timepoints} pixels"
        predicted = f"{self.prediction.source}; distance ~ {self.prediction.rate}"
        prediction = f"prediction: {'none' if self.prediction.undefined else predicted}"
        verdict = f"verdict: {self.verdict}: {VERDICTS[self.verdict]}"
        return "\n".join([settings, prediction, super().__str__(), self.reason, verdict])


def check_convergence(
    family: Callable[[int], Network],
    X: np.ndarray | None = None,
    *,
    kind: str,
    head: str | int,
    depths: Iterable[int] = DEFAULT_DEPTHS,
    prediction: Prediction | None = None,
    rng: np.random.Generator | int = 0,
    engine: str = "auto",
    progress: bool = False,
) -> ConvergenceReport:
    """Check whether kernels converge over depth to the predicted limit, at the predicted rate.

    A fit over increasing depths gives the exponent of the distance from the predicted limit, with
    an error bar. The verdict *agrees*, *contradicts*, is *open* if the bar is too long to tell, or
    *undefined* if no prediction holds for these signals (docs/theory/depth_checks.md).

    Parameters
    ----------
    family : callable
        From a depth to a `Network`: any function, or a `Family`, which predicts its limit.
    X : ndarray, (n_cases, n_channels, n_timepoints), optional
        At least 2 different signals. The default is 6 drawn from the multi-sphere, 4 channels × 5
        pixels (1 pixel where no filter is larger).
    kind : {"gpk", "ntk"}
    head : {"equivariant", "trace", "gap"} or int
    depths : iterable of int, default 8, 16, …, 16384
        At least 6, each at least 1.25 times the previous depth.
    prediction : Prediction, optional
        Instead of the family's own, ``family.predict(X, kind=kind, head=head)``.
    rng : Generator or int, default 0
        For drawing signals.
    engine : str, default "auto"
        As for `Kernel`. With "auto", ReLU networks without biases on the multi-sphere go through
        ``multisphere.gram_complements``, all others through `gram`.
    progress : bool, default False
        Whether to show a progress bar (needs tqdm).

    Returns
    -------
    `ConvergenceReport`
        A row for each depth, the exponent with its error bar, and the verdict with its reason.

    Raises
    ------
    ValueError
        If there are too few depths, the family returns other depths, or a signal's kernel with
        itself is 0.
    OverflowError
        If kernels exceed float64 at one of the depths.

    Examples
    --------
    >>> import rescntk as rk
    >>> family, depths = rk.theory.depth.Family(rk.Network(1), 1.0), [2**k for k in range(3, 11)]
    >>> rk.theory.depth.check_convergence(family, kind="ntk", head="trace", depths=depths).verdict
    'agrees'
    """
    depths = check_depths(depths)
    near = any(high < _LEAST_RATIO * low for low, high in pairwise(depths))
    if near or len(depths) < _LEAST_DEPTHS:
        raise ValueError(
            f"depths is {shown(depths)}, expected at least {_LEAST_DEPTHS}, each at least "
            f"{_LEAST_RATIO} times the depth before it"
        )
    check_layers(depths[-1], "depths has")
    if not (prediction is None or isinstance(prediction, Prediction)):
        raise ValueError(f"prediction is {shown(prediction)}, expected a Prediction, or None")
    networks = [_network(family, depth) for depth in depths]
    X = _signals(X, networks[0], check_rng(rng))
    used = Prediction(undefined="nothing is predicted") if prediction is None else prediction
    if prediction is None and isinstance(family, Family):
        used = family.predict(X, kind=kind, head=head)
    above = np.triu_indices(len(X), 1)
    limit = None if used.undefined else used.complements(len(X))[above]
    if isinstance(engine, str) and engine == "auto" and _keeps_digits(networks, X, head):
        K = multisphere.gram_complements(networks, X, kind=kind, head=head, progress=progress)
        absolute = 0.0
        roundings = _ROUNDINGS + np.sqrt(depths)
    else:
        # One pass, if each network has the first layers of the deepest one.
        alike = all(networks[-1].replace(depth=network.depth) == network for network in networks)
        passes = [(networks[-1], depths)] if alike else [(n, (n.depth,)) for n in networks]
        kernels = [
            gram(
                n,
                X,
                head=head,
                kinds=(kind,),
                depths=of_pass,
                normalized=True,
                engine=engine,
                progress=progress,
            )[0]
            for n, of_pass in passes
        ]
        K = np.concatenate(kernels)
        check_energies(K)
        K, absolute = 1.0 - K, 8 * _EPS
        roundings = _ROUNDINGS + np.array(depths, dtype=np.float64)
    values = K[:, above[0], above[1]]
    noise = roundings * _EPS * np.sqrt((values * values).mean(axis=1)) + absolute
    name = getattr(family, "name", None) or getattr(family, "__name__", repr(family))
    subject = Subject(str(name), kind, head, X.shape)
    return judge(depths, values, noise, used, limit, subject)


def judge(
    depths: tuple[int, ...],
    values: np.ndarray,
    noise: np.ndarray,
    used: Prediction,
    limit: np.ndarray | None,
    subject: Subject,
) -> ConvergenceReport:
    """Judge whether kernels over increasing depths converge as predicted.

    `values` are complements, (n_depths, n_pairs), with errors `noise`; `limit` is the predicted.
    """
    L, mean = np.array(depths, dtype=np.float64), values.mean(axis=1)
    deviations = values - (math.nan if limit is None else limit)
    distance = np.sqrt((deviations * deviations).mean(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.append(np.nan, -np.diff(np.log(distance)) / np.diff(np.log(L)))
    slope[~np.isfinite(slope)] = np.nan
    columns = (1.0 - mean, mean, distance, slope)
    table = tuple(map(DepthRow, depths, *(column.tolist() for column in columns)))
    if limit is None:
        unknown = FittedExponent(math.nan, math.inf)
        return ConvergenceReport(
            table, used, unknown, UNDEFINED, used.undefined, **subject._asdict()
        )
    theta, k = used.correction_exponent, used.log_power
    noise = noise + 4 * _EPS * np.abs(limit).max() + used.error
    # x is the relative size of the first correction; removals leave `left`.
    x = (used.onset / depths[-1]) ** theta
    left = ((x * (1.0 - math.log(x))) ** 2 if k else x**3) if x < 1.0 else math.inf
    exponent = fit_exponent(L, distance, noise, theta, k, left)
    # A pair's kernel less its limit, without the terms of the law, is the error of the limit.
    orders = [used.exponent + order * theta for order in range(3) for _ in range(1 + k)]
    pairs = (extrapolate(L, of_pair, noise, orders) for of_pair in (values - limit).T)
    wrong = max(abs(error) - _STANDARD_ERRORS * bar for error, bar in pairs)
    wrong = wrong / max(float(distance[-1]), _EPS) - left
    verdict, why = _verdict(exponent, used, depths[-1], wrong)
    reason = f"the exponent of the distance is {exponent}, predicted {used.exponent:g}{why}"
    if math.isinf(left):
        reason = f"the law sets in deeper than these networks, at depth {used.onset:.1e} or more"
    return ConvergenceReport(table, used, exponent, verdict, reason, **subject._asdict())


def _verdict(
    fit: FittedExponent, used: Prediction, deepest: float, wrong: float
) -> tuple[str, str]:
    """Return the verdict, and why, from an exponent and a limit's error, in last distances."""
    # 1.5 and 2 times the exponent contradict nothing: the constant of a law may be 0.
    inside = [abs(fit.value - k * used.exponent) <= fit.error for k in (1.0, 1.5, 2.0)]
    half = 0.5 * used.exponent - fit.error <= fit.value <= used.exponent
    moving = deepest < used.settled and half
    if math.isfinite(fit.error) and not (any(inside) or moving):
        return CONTRADICTS, ""
    if wrong > 0.1:  # raising 0.1 and 0.5 overlooks wrong limits; right ones have .00001
        certain = wrong > 0.5 and not moving
        return (CONTRADICTS if certain else OPEN), "; the limit of some pair is wrong"
    if inside[0]:
        return (AGREES if fit.error <= 0.05 * fit.value else OPEN), ""
    if moving:
        return OPEN, ": windows are near a square-root point, which halves exponents"
    return OPEN, ": of a higher order, the constant of the law may be 0 for these signals"


def fit_exponent(
    depths: np.ndarray, sizes: np.ndarray, noise: np.ndarray, theta: float, k: int, left: float
) -> FittedExponent:
    """Return e of sizes that fall like L^-e (log L)^k, down to the first that is rounding.

    The law is multiplied by 1 + a L^-θ + b L^-2θ + …, with one logarithm more where k is 1. `left`
    is the size of the corrections, relative to the law, once L^-θ and L^-2θ are removed.
    """
    lost = np.flatnonzero(~(sizes > 30.0 * noise))  # rounding errors are too large for an exponent
    end = int(lost[0]) if len(lost) else len(sizes)
    if end < _LEAST_DEPTHS - 1:
        return FittedExponent(math.nan, math.inf)
    depths, sizes, noise = depths[:end], sizes[:end], noise[:end] / sizes[:end]
    logs, middles = np.log(depths), np.sqrt(depths[1:] * depths[:-1])
    exponents = -np.diff(np.log(sizes)) / np.diff(logs)
    if k:
        triples, middles = (slice(i, i + 3) for i in range(end - 2)), depths[2:]
        exponents = np.array([_log_exponent(logs[i], sizes[i]) for i in triples])
    noise = 2.0 * noise[-len(middles) :] / (logs[-1] - logs[-2])
    removed = (*(theta,) * (2 + k), *(2.0 * theta,) * (2 - k))
    value, error = extrapolate(middles, exponents, noise, removed)
    bar = _STANDARD_ERRORS * (error + abs(value) * left)
    if k:  # a beside a log L + b errs by the bar of e
        first, second = sizes[-2:] * np.exp(value * logs[-2:])
        slope = (1.0 - first / second) / (logs[-1] - logs[-2])
        bar = bar if slope > 2.0 * bar else math.inf  # else a power without a logarithm fits
    return FittedExponent(value, float(bar) if math.isfinite(bar) else math.inf)


def extrapolate(
    depths: np.ndarray, values: np.ndarray, noise: np.ndarray, exponents: Iterable[float]
) -> tuple[float, float]:
    """Return the limit of a sequence at infinite depth, and its standard error.

    The terms L^-θ are removed one after another, where θ occurs twice (a log L + b) L^-θ. The
    removal with the least standard error gives the limit.
    """
    best = float(values[-1]), math.inf
    for exponent in exponents:
        # A change that passes through 0 is small at one depth, not over a factor 5 of depth.
        last = max(3, int((5.0 * depths[1:] > depths[-1]).sum()))
        if len(values) <= last:
            break
        r = (depths[:-1] / depths[1:]) ** exponent
        removed = (values[1:] - r * values[:-1]) / (1.0 - r)
        noise = (noise[1:] + r * noise[:-1]) / (1.0 - r)
        changes = (removed - values[1:])[-last:], np.diff(removed[-last:])
        error = float(np.abs(np.concatenate(changes)).max() + noise[-1])
        best = min(best, (float(removed[-1]), error), key=lambda limit: limit[1])
        values, depths = removed, depths[1:]
    return best


def _log_exponent(logs: np.ndarray, sizes: np.ndarray) -> float:
    """Return the e for which the three sizes are (a log L + b) L^-e, or NaN.

    Sizes times L^e lie on a line over log L: low·exp(−eh) + high·exp(ek) = 1/h + 1/k, e the upper.
    """
    h, k = np.diff(logs)
    low, high = sizes[0] / (sizes[1] * h), sizes[2] / (sizes[1] * k)

    def bend(e: float) -> float:
        return low * math.exp(-e * h) + high * math.exp(e * k) - (1.0 / h + 1.0 / k)

    turn = math.log(low * h / (high * k)) / (h + k)
    if bend(turn) >= 0:
        return math.nan
    return float(brentq(bend, turn, turn + 20.0 / min(h, k)))


def _network(family: Callable[[int], Network], depth: int) -> Network:
    if not callable(family):
        raise ValueError(
            f"family is {shown(family)}, expected a function from a depth to a Network"
        )
    network = family(depth)
    check_network(network, FIELDS_WITH_NORM, per_layer=PER_LAYER_FIELDS)
    if network.depth != depth:
        raise ValueError(f"family returns a network of depth {network.depth}, expected {depth}")
    if network.input_scale == 0:
        raise ValueError(
            f"network is {shown(network)}, expected a positive input_scale: kernels are 0"
        )
    return network


def _signals(X: np.ndarray | None, network: Network, rng: np.random.Generator) -> np.ndarray:
    """Return the signals, given or drawn; projected to the multi-sphere if they are on it.

    Without biases normalized ReLU kernels do not depend on the lengths of signals of one pixel.
    """
    if X is None:
        layer = network.layer(2)
        sizes = layer.inner.size, layer.outer.size, network.input_filter_size
        X = multisphere.sample(6, 4, 5 if max(sizes) > 1 else 1, rng)
    X = check_signals(X, "X")
    check_cases(X, 2, "a distance is taken over pairs of signals")
    lengthless = network.is_relu and not (network.has_bias or network.norm) and X.shape[2] == 1
    return (
        multisphere.project(X)
        if (lengthless and X.any(axis=1).all()) or multisphere.is_on_sphere(X)
        else X
    )


def _keeps_digits(networks: list[Network], X: np.ndarray, head: str | int) -> bool:
    """Return whether `multisphere.gram_complements` takes these networks without loss of digits.

    A mean over pixel pairs loses at most `_ROUNDINGS` where the signals' own means, over all pixels
    or over windows, whose squared norms are F⁰(x, x), are large.
    """
    first, *different = {network.replace(depth=1, alpha=1.0) for network in networks}
    plain = first.is_relu and first.input_filter_size == 1 and not (first.has_bias or different)
    alike = all(network.is_uniform and not network.norm for network in networks)
    if not (plain and alike and multisphere.is_on_sphere(X)):
        return False
    if (width := pixels_averaged(head, X.shape[2:])) == 1:
        return True
    least = float((pooled(np, X, (width,)) ** 2).mean(axis=(1, 2)).min())
    return _ROUNDINGS * least >= 1.0
