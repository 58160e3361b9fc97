"""The infinite-depth-limit checker: does a family of kernels converge, to what, and how fast?

Barzilai et al. 2022, theorem 6.1 and appendix F; Huang et al. 2020, theorems 6 and 7. What
theory predicts is derived in theory/limits.py; here it meets the kernels themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..kernels import Kernel, gram
from ..network import Network
from ..validation import check_choice, check_depth, check_depths, check_network, check_signals
from ..vocabulary import HEADS, KINDS
from . import multisphere
from .extrapolation import LEAST_DEPTHS, settle
from .families import Family
from .limits import FAR, Prediction, dot_product
from .verdict import AS_PREDICTED, DEGENERATES, ELSEWHERE, UNDECIDED, VERDICTS, Findings, Row, judge

__all__ = [
    "AS_PREDICTED",
    "DEFAULT_DEPTHS",
    "DEGENERATES",
    "ELSEWHERE",
    "UNDECIDED",
    "VERDICTS",
    "Profile",
    "Report",
    "Row",
    "check",
    "profile",
]

DEFAULT_DEPTHS = tuple(2**k for k in range(3, 15))
_CASES, _CHANNELS, _PIXELS = 6, 4, 5  # of sampled signals

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Report(Findings):
    """What `check` found. Iterating gives a `Row` for each depth."""

    family: str
    kind: str
    head: str
    n_cases: int
    n_channels: int
    n_timepoints: int
    route: str
    """How the kernels were computed."""

    def __str__(self) -> str:
        """Return the whole report as text."""
        cells = self._cells([name.replace("_", "-") for name in Row._fields])
        table = ["  ".join(line) for line in cells]
        said = self.prediction
        if self.predicted_exponent > 0:
            known = not math.isnan(self.predicted_constant)
            constant = f"{self.predicted_constant:.4g} " if known else ""
            said += f"; distance ~ {constant}{self.predicted_rate}"
        lines = [
            f"{self.family}: {self.kind.upper()}, {self.head} head; {self.n_cases} signals, "
            f"{self.n_channels} channels × {self.n_timepoints} pixels; {self.route}",
            f"prediction: {said}",
            table[0],
            "-" * len(table[0]),
            *table[1:],
            f"step      exponent {self.step_exponent}",
            f"spread    exponent {self.spread_exponent}, left {self.spread_remainder}",
        ]
        if not math.isnan(self.rows[-1].distance):
            lines += [
                f"distance  exponent {self.exponent}, left {self.remainder}, "
                f"constant {self.constant}"
            ]
        agrees = {True: " (as predicted)", False: " (not as predicted)", None: ""}
        note = "" if self.verdict == AS_PREDICTED else agrees[self.as_predicted]
        return "\n".join([*lines, f"verdict: {self.verdict}{note}: {self.reason}"])


def check(
    family: Callable[[int], Network],
    X: np.ndarray | None = None,
    *,
    depths: Iterable[int] = DEFAULT_DEPTHS,
    kind: str = "ntk",
    head: str = "trace",
    prediction: Prediction | Kernel | float | np.ndarray | None = None,
    rng: np.random.Generator | int = 0,
    engine: str = "auto",
    progress: bool = False,
) -> Report:
    """Check whether a family of kernels converges at infinite depth, to what, and how fast.

    Distances between the normalized kernel matrix and the predicted limit are taken over a
    ladder of depths, and extrapolated (theory/extrapolation.py). The family

    * *converges as predicted* where the distance falls with the predicted exponent (or a larger
      one: theorems bound from above) and constant, and nothing is left of it;
    * *converges to something else* where the kernels converge, something is left, and they have
      a shorter way still to go than the distance;
    * *degenerates* where the limit is the same for all pairs of different signals, whether that
      is predicted or not (`Report.as_predicted`);
    * is left *undecided* by this ladder otherwise.

    Parameters
    ----------
    family : callable
        From a depth to a `Network`: one of ``theory.families``, which know their limits, or
        any function.
    X : ndarray, (n_cases, n_channels, n_timepoints), optional
        At least 3 different signals, 2 where there is a prediction. The default is 6 drawn
        uniformly from the multi-sphere, 4 channels × 5 pixels (1 pixel where no filter is larger).
    depths : iterable of int, default 8, 16, …, 16384
        At least 6, each at least 1.25 times the one before.
    kind, head, engine, progress
        As for `Kernel`. "auto" takes the multi-sphere recursion where it can.
    prediction : Prediction, Kernel, float or ndarray, optional
        Instead of the family's own; the last three are a limit without a rate.
    rng : Generator or int, default 0
        For drawing signals.

    Returns
    -------
    Report
        ReLU networks on the multi-sphere go through `multisphere.gram_complements`, all depths
        in one pass, whose values near 1 keep their digits; others, and all with an `engine`
        that is named, through `gram`.

    Raises
    ------
    ValueError
        If signals, depths or networks are not as described, or the prediction is about the
        multi-sphere and the signals are elsewhere.

    Examples
    --------
    >>> from rescntk.theory import depth, families
    >>> report = depth.check(families.resnet(gamma=1.0), depths=[2**k for k in range(3, 11)])
    >>> report.verdict
    'converges as predicted'
    >>> depth.check(families.resnet(gamma=0.5), depths=[2**k for k in range(3, 11)]).verdict
    'converges to something else'
    """
    ladder = _check_ladder(depths)
    check_choice(kind, "kind", KINDS)
    check_choice(head, "head", HEADS)
    networks = [_network(family, depth) for depth in ladder]
    if prediction is None:
        prediction = family.predict(kind) if isinstance(family, Family) else None
    elif not isinstance(prediction, Prediction):
        prediction = Prediction(prediction)
    least = 3 if prediction is None else 2
    X = _sample(networks[0], rng) if X is None else _check_distinct(check_signals(X, "X"), least)
    relu = networks[0].activation == "relu"
    # Of vectors, signals of one pixel, normalized ReLU kernels do not see the lengths.
    on_sphere = multisphere.contains(X) or (relu and X.shape[2] == 1)
    if on_sphere:
        X = multisphere.project(X)  # the recursion takes norms for exact, the limit as they are
    if prediction is not None and prediction.requires_multisphere and not on_sphere:
        raise ValueError(
            f"X of shape {X.shape} is not on the multi-sphere, which the prediction "
            f'"{prediction.source}" requires (multisphere.project makes it so)'
        )
    above = np.triu_indices(len(X), 1)
    dots = 1.0 - dot_product(networks[0]).replace(head=head)(X, engine="reference")[above]
    if len(dots) > 1 and np.ptp(dots) <= 64 * _EPS:
        raise ValueError(
            f"X of shape {X.shape} has the same dot product for all pairs of signals, expected "
            f"pairs that differ: else nothing tells whether a limit forgets the signals"
        )
    if prediction is not None:
        prediction = prediction.at(X, head)
    limit = None if prediction is None else prediction.complements(X, head)[above]
    if engine == "auto" and on_sphere and _on_dot_products(networks):
        route = "complements on the multi-sphere"
        gaps = multisphere.gram_complements(networks, X, kind=kind, head=head, progress=progress)
        growth = np.sqrt(ladder)
    else:
        route = "normalized kernel matrices"
        gaps = 1.0 - _matrices(networks, X, kind, head, engine, progress)
        growth = np.asarray(ladder, dtype=np.float64)
    values = gaps[:, above[0], above[1]]
    size = np.sqrt((values * values).mean(axis=1))
    noise = (20 + growth) * _EPS * size
    if limit is not None:
        noise += 4 * _EPS * np.abs(limit).max()
    if route.startswith("normalized"):
        noise += 8 * _EPS
    constant = prediction.distance_constant(X, head) if prediction else None
    needed = 0.0
    if relu:
        by_pixels = on_sphere and networks[0].input_filter_size == 1
        closest = dots[dots > 0].min(initial=np.inf)
        if by_pixels:
            closest = multisphere.closest(networks[0], X, head)[0]
        needed = _law_depth(networks, float(closest))
    found = judge(ladder, values, noise, limit, prediction, constant, needed)
    n_cases, n_channels, n_timepoints = X.shape
    return Report(
        **vars(found),
        family=_name(family),
        kind=kind,
        head=head,
        n_cases=n_cases,
        n_channels=n_channels,
        n_timepoints=n_timepoints,
        route=route,
    )


class Profile(NamedTuple):
    """The normalized kernel of a family as a function of one dot product."""

    family: str
    kind: str
    depths: tuple[int, ...]
    t: np.ndarray
    """Dot products, (n_t,)."""
    values: np.ndarray
    """The kernel, (n_depths, n_t)."""
    limit: np.ndarray | None
    """The predicted limit at t < 1, (n_t,)."""


def profile(
    family: Callable[[int], Network],
    depths: Iterable[int],
    *,
    kind: str = "ntk",
    n_points: int = 101,
) -> Profile:
    """Return the normalized kernel over the dot product of fully connected inputs.

    Signals of one pixel on a circle: what is left of any network, and of its limit, when all
    pixels of the signals agree.

    Parameters
    ----------
    family : callable
        From a depth to a ReLU `Network`, as for `check`.
    depths : iterable of int
    kind : {"gpk", "ntk"}, default "ntk"
    n_points : int, default 101
        How many dot products, from -1 to 1; evenly spaced angles.

    Returns
    -------
    Profile

    Examples
    --------
    >>> from rescntk.theory import depth, families
    >>> curve = depth.profile(families.huang_ffnet(), [1, 1000], n_points=5)
    >>> curve.values[1].round(2)
    array([0.25, 0.25, 0.25, 0.25, 1.  ])
    """
    depths = check_depths(depths)
    check_choice(kind, "kind", KINDS)
    if check_depth(n_points, "n_points") < 2:
        raise ValueError(f"n_points is {n_points!r}, expected at least 2: -1 and 1")
    angle = np.linspace(np.pi, 0.0, n_points)
    X = np.sqrt(2.0) * np.stack([np.cos(angle), np.sin(angle)], axis=1)[:, :, None]
    networks = [_network(family, depth) for depth in depths]
    values = 1.0 - multisphere.gram_complements(networks, X, kind=kind, head="trace")[:, -1]
    prediction = family.predict(kind) if isinstance(family, Family) else None
    limit = None
    if prediction is not None and prediction.exponent != 0:
        limit = 1.0 - prediction.complements(X, "trace")[-1]
        limit[-1] = 1.0
    return Profile(_name(family), kind, depths, np.cos(angle), values, limit)


def _name(family: Callable[[int], Network]) -> str:
    return str(getattr(family, "name", None) or getattr(family, "__name__", repr(family)))


def _network(family: Callable[[int], Network], depth: int) -> Network:
    if not callable(family):
        raise ValueError(f"family is {family!r}, expected a function from a depth to a Network")
    network = family(depth)
    check_network(network)
    if network.depth != depth:
        raise ValueError(
            f"family returns a network of depth {network.depth} for depth {depth}, expected one "
            f"of that depth"
        )
    if network.input_scale == 0:
        raise ValueError(f"network is {network!r}: its kernels are 0 and have no limit")
    return network


def _law_depth(networks: list[Network], gap: float) -> float:
    """Return the depth from which on pixels follow the law of all, their least 1 − t given.

    A ReLU layer is 1/s of one without skip connections. In u = δ^(-1/2) such a layer adds
    √2/(3π) (`conditioning.asymptotic_complement`), so that where u has started is forgotten
    after 3πs/√(2δ) layers; before, two signals that nearly agree seem to do so for ever. 0
    where the number of effective layers, L/s, has a bound: these networks never get there.
    """
    depths = np.array([network.depth for network in networks], dtype=np.float64)
    layers = depths * [network.branch_share for network in networks]
    if not layers.all() or layers[-1] <= layers[-2]:
        return 0.0
    bound = settle(depths, layers, 4 * _EPS * layers)
    if bound.uncertainty < 0.1 * bound.value:
        return 0.0
    growth = math.log(layers[-1] / layers[-2]) / math.log(depths[-1] / depths[-2])
    more = FAR * 3.0 * math.pi / math.sqrt(2.0 * gap) / float(layers[-1])
    return float(depths[-1]) * math.exp(min(math.log(more) / growth, 600.0))


def _check_ladder(depths: Iterable[int]) -> tuple[int, ...]:
    ladder = check_depths(depths)
    if len(ladder) < LEAST_DEPTHS:
        raise ValueError(
            f"depths is {ladder!r}, expected at least {LEAST_DEPTHS}: an exponent needs slopes, "
            f"and its uncertainty how they change"
        )
    for low, high in pairwise(ladder):
        if high < 1.25 * low:
            raise ValueError(
                f"depths has {low} and then {high}, expected each at least 1.25 times as much"
            )
    return ladder


def _check_distinct(X: np.ndarray, least: int) -> np.ndarray:
    n = len(X)
    if n < least:
        raise ValueError(
            f"X has {n} case{'s' if n > 1 else ''}, expected at least {least}: "
            + (
                "a distance is that of pairs"
                if least == 2
                else "without a prediction, whether a "
                "limit forgets the signals shows in how their pairs differ"
            )
        )
    for i in range(n):
        same = np.flatnonzero((X[i + 1 :] == X[i]).all(axis=(1, 2)))
        if len(same):
            raise ValueError(
                f"X has the same signal as cases {i} and {i + 1 + same[0]}, expected different "
                f"ones: the limits are about these"
            )
    return X


def _sample(network: Network, rng: np.random.Generator | int) -> np.ndarray:
    sizes = network.filter_size, network.outer_filter_size, network.input_filter_size
    return multisphere.sample(_CASES, _CHANNELS, _PIXELS if max(sizes) > 1 else 1, rng)


def _on_dot_products(networks: list[Network]) -> bool:
    """Whether the multi-sphere recursion takes these networks together."""
    alike = {network.replace(depth=1, alpha=1.0) for network in networks}
    relu = networks[0].activation == "relu" and networks[0].input_filter_size == 1
    return relu and len(alike) == 1


def _matrices(
    networks: list[Network], X: np.ndarray, kind: str, head: str, engine: str, progress: bool
) -> np.ndarray:
    """Return normalized kernel matrices, in one pass of those that differ in depth alone."""
    groups: dict[Network, list[int]] = {}
    for index, network in enumerate(networks):
        groups.setdefault(network.replace(depth=1), []).append(index)
    result = np.empty((len(networks), len(X), len(X)))
    for network, indices in groups.items():
        result[indices] = gram(
            network,
            X,
            head=head,
            kinds=(kind,),
            depths=[networks[index].depth for index in indices],
            normalized=True,
            engine=engine,
            progress=progress,
        )[0]
    if not result.diagonal(axis1=1, axis2=2).all():
        raise ValueError(
            f"X of shape {X.shape} has a signal whose kernel with itself is 0 at some depth, "
            f"expected signals and networks with a normalized kernel"
        )
    return result
