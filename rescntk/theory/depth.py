"""The depth checker: does a family of kernels converge, to what limit, and how fast?

Barzilai et al. 2022, theorem 6.1 and appendix F; Huang et al. 2020, theorems 6 and 7. The
predictions are in theory/limits.py, their derivations in docs/theory/depth_limits.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..kernels import Kernel, gram
from ..network import Network, check_one_dilation
from ..validation import check_choice, check_constant, check_depth, check_depths, check_signals
from ..vocabulary import HEADS, KINDS
from . import multisphere
from .arguments import check_cases, check_distinct, check_ladder
from .evidence import TOLERANCE
from .extrapolation import extrapolate_limit
from .families import Family
from .findings import Findings, Row, judge
from .limits import FAR, ROUNDING, Prediction, dot_product
from .power_law import LEAST_DEPTHS, root_mean_square
from .verdict import AS_PREDICTED, DEGENERATES, ELSEWHERE, UNDECIDED, VERDICTS

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
"""Depths of the ladder (layers): 8, 16, …, 16384. More depths resolve slower rates.

Chosen by hand: at γ = 0.6, L^-0.2 falls from 0.66 to 0.14, and the verdict is right (tests)."""

_CASES, _CHANNELS, _PIXELS = 6, 4, 5
"""Shape of the signals that are drawn: 15 pairs. Larger shapes cost more and tell the same."""

_LEAST_RATIO = 1.25
"""Least ratio of neighbouring depths. Larger: fewer ladders are taken. Smaller: differences of
neighbours drown in rounding errors. Chosen by hand."""

_ROUNDINGS = 20
"""Rounding errors of a kernel value apart from its layers, in units of eps. Larger: small
distances count as rounding errors earlier. The bar of tests/tolerances.py for complements."""

_FEW_LAYERS = 0.5
"""Effective layers, L/s, from which on a power series in L/s is followed to L/s = 0. Larger: limits
of slow families are decided, and printed, earlier. Chosen by hand: at γ = 0.55 the default ladder
ends at 0.38, and its exponent is right within 16 % (tests)."""

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Report(Findings):
    """The result of `check`: a verdict, fits and a `Row` for each depth, given by iterating."""

    family: str
    kind: str
    head: str
    n_cases: int
    n_channels: int
    n_timepoints: int
    route: str
    """The computation: complements on the multi-sphere, or normalized kernel matrices."""

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
    tolerance: float = TOLERANCE,
    rng: np.random.Generator | int = 0,
    engine: str = "auto",
    progress: bool = False,
) -> Report:
    """Check whether a family of kernels converges at infinite depth, to what, and how fast.

    Distances between the normalized kernel matrix and the predicted limit are taken over a
    ladder of depths, and extrapolated pair by pair (theory/extrapolation.py). The worst pair
    counts. There are four verdicts:

    * *converges as predicted*: all distances fall to 0, with the predicted exponent and
      constant. A larger exponent agrees, too: theorems are upper bounds.
    * *converges to something else*: the kernels converge, and the distance of a pair stays
      positive. It is longer than the way that the pair may still move, or it is resolved beyond
      doubt.
    * *degenerates*: the limit is the same for all pairs of different signals. It may be the
      predicted limit or not (`Report.as_predicted`).
    * *undecided*: the ladder does not tell. The reason names a depth that would.

    Parameters
    ----------
    family : callable
        From a depth to a `Network`: any function, or a family of ``theory.families``, which
        knows its limit.
    X : ndarray, (n_cases, n_channels, n_timepoints), optional
        At least 3 different signals, 2 where there is a prediction. The default is 6 drawn
        uniformly from the multi-sphere, 4 channels × 5 pixels (1 pixel where no filter is larger).
    depths : iterable of int, default 8, 16, …, 16384
        At least 6, each at least 1.25 times the previous depth.
    kind, head, engine, progress
        As for `Kernel`. "auto" takes the multi-sphere recursion where it can.
    prediction : Prediction, Kernel, float or ndarray, optional
        Instead of the family's own; the last three are a limit without a rate.
    tolerance : float, default 0.01
        Largest relative difference of a constant from the predicted constant, beside the
        uncertainty of the fit: a constant that the fit resolves to a thousandth is refuted where
        it is off by more than 1 %. 0 leaves the uncertainty alone. An exponent is confirmed where
        the distance over the predicted rate tends to a constant. It is refuted where it is off by
        more than its uncertainty, 5 %, and the tolerance.
    rng : Generator or int, default 0
        For drawing signals.

    Returns
    -------
    Report
        With ``engine="auto"``, ReLU networks on the multi-sphere go through
        `multisphere.gram_complements`: all depths in one pass, and values near 1 keep their
        digits. All others go through `gram`.

    Raises
    ------
    ValueError
        If signals, depths or networks are not as described, or the prediction requires the
        multi-sphere and the signals are not on it.

    Examples
    --------
    >>> from rescntk.theory import depth, families
    >>> report = depth.check(families.resnet(gamma=1.0), depths=[2**k for k in range(3, 11)])
    >>> report.verdict
    'converges as predicted'
    >>> linear = families.resnet(gamma=1.0).predict("ntk")  # the dot product
    >>> family, depths = families.resnet(gamma=0.5), [2**k for k in range(3, 11)]
    >>> depth.check(family, depths=depths, prediction=linear).verdict
    'converges to something else'
    """
    ladder = check_ladder(depths, LEAST_DEPTHS, _LEAST_RATIO)
    tolerance = check_constant(tolerance, "tolerance")
    check_choice(kind, "kind", KINDS)
    check_choice(head, "head", HEADS)
    networks = [_network(family, depth) for depth in ladder]
    prediction = _prediction(family, kind, prediction)
    X, on_sphere = _signals(X, networks[0], prediction, rng)
    above = np.triu_indices(len(X), 1)
    dots = 1.0 - dot_product(networks[0]).replace(head=head)(X, engine="reference")[above]
    if len(dots) > 1 and np.ptp(dots) <= ROUNDING:
        raise ValueError(
            f"X of shape {X.shape} has the same dot product for all pairs of signals, expected "
            f"pairs that differ: else nothing tells whether a limit forgets the signals"
        )
    limit = None
    if prediction is not None:
        prediction = prediction.at(X, head)
        limit = prediction.complements(X, head)[above]
    if engine == "auto" and on_sphere and _on_dot_products(networks):
        route = "complements on the multi-sphere"
        complements = multisphere.gram_complements(
            networks, X, kind=kind, head=head, progress=progress
        )
        roundings, absolute = _ROUNDINGS + np.sqrt(ladder), 0.0
    else:
        route = "normalized kernel matrices"
        complements = 1.0 - _matrices(networks, X, kind, head, engine, progress)
        roundings, absolute = _ROUNDINGS + np.asarray(ladder, dtype=np.float64), 8 * _EPS
    values = complements[:, above[0], above[1]]
    noise = roundings * _EPS * root_mean_square(values)
    if limit is not None:
        noise += 4 * _EPS * np.abs(limit).max()
    if prediction is not None:
        noise += prediction.error
    constant = prediction.distance_constant(X, head) if prediction else None
    needed = _depth_of_law(networks, X, head, dots, on_sphere)
    found = judge(ladder, values, noise + absolute, limit, prediction, constant, needed, tolerance)
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

    The signals are vectors on a circle, signals of one pixel. A signal of equal pixels has the
    same kernel in any network.

    Parameters
    ----------
    family : callable
        From a depth to a ReLU `Network`, as for `check`.
    depths : iterable of int
    kind : {"gpk", "ntk"}, default "ntk"
    n_points : int, default 101
        Number of dot products, from -1 to 1, of evenly spaced angles.

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
    check_one_dilation(network)
    if network.depth != depth:
        raise ValueError(
            f"family returns a network of depth {network.depth} for depth {depth}, expected one "
            f"of that depth"
        )
    if network.input_scale == 0:
        raise ValueError(f"network is {network!r}: its kernels are 0 and have no limit")
    return network


def _prediction(
    family: Callable[[int], Network],
    kind: str,
    given: Prediction | Kernel | float | np.ndarray | None,
) -> Prediction | None:
    """Return the prediction that was handed in, or the family's own, or None."""
    if given is None:
        return family.predict(kind) if isinstance(family, Family) else None
    return given if isinstance(given, Prediction) else Prediction(given)


def _signals(
    X: np.ndarray | None,
    network: Network,
    prediction: Prediction | None,
    rng: np.random.Generator | int,
) -> tuple[np.ndarray, bool]:
    """Return the signals, given or drawn, and whether they are on the multi-sphere."""
    if X is None:
        X = _sample(network, rng)
    else:
        X = check_signals(X, "X")
        if prediction is None:
            check_cases(
                X,
                3,
                "without a prediction, whether a limit forgets the signals shows in how their "
                "pairs differ",
            )
        check_cases(X, 2, "a distance is taken over pairs of signals")
        check_distinct(X, "the limits are about different signals")
    # Normalized ReLU kernels do not depend on the lengths of vectors, signals of one pixel.
    on_sphere = multisphere.contains(X) or (network.activation == "relu" and X.shape[2] == 1)
    if on_sphere:
        X = multisphere.project(X)  # the recursion takes all norms for exact, the limit does not
    elif prediction is not None and prediction.requires_multisphere:
        raise ValueError(
            f"X of shape {X.shape} is not on the multi-sphere, which the prediction "
            f'"{prediction.source}" requires (multisphere.project makes it so)'
        )
    return X, on_sphere


def _depth_of_law(
    networks: list[Network], X: np.ndarray, head: str, dots: np.ndarray, on_sphere: bool
) -> float:
    """Return the depth from which on all pairs of pixels follow the law of fixed α.

    Parameters
    ----------
    dots : ndarray, (n_pairs,)
        Complements of the dot products of different signals.

    Returns
    -------
    float
        Where the number of effective layers, L/s, grows: 3πs/√(2δ) layers, δ the least
        complement 1 − t of two pixels (docs/theory/depth_limits.md, section 4), times `FAR`.
        Until then pixels that nearly agree seem to agree for ever. Where L/s falls to 0: the
        depth at which it is ½. Before, all powers of it matter. Where it tends to another
        number: 0.
    """
    depths = np.array([network.depth for network in networks], dtype=np.float64)
    layers = depths * [network.branch_share for network in networks]
    if not layers.all():
        return 0.0
    growth = math.log(layers[-1] / layers[-2]) / math.log(depths[-1] / depths[-2])
    bound = extrapolate_limit(depths, layers, 4 * _EPS * layers)
    if growth == 0 or bound.uncertainty < 0.1 * bound.value:
        return 0.0
    if growth < 0:
        more = min(1.0, _FEW_LAYERS / float(layers[-1]))
    elif networks[0].activation != "relu":
        return 0.0
    else:
        least = float(dots[dots > 0].min(initial=np.inf))
        if on_sphere and networks[0].input_filter_size == 1:
            least = multisphere.closest(networks[0], X, head)[0]
        more = FAR * 3.0 * math.pi / math.sqrt(2.0 * least) / float(layers[-1])
        if more == 0:
            return 0.0
    if more == 1.0:
        return 0.0
    return float(depths[-1]) * math.exp(min(math.log(more) / growth, 600.0))  # within float64


def _sample(network: Network, rng: np.random.Generator | int) -> np.ndarray:
    sizes = network.filter_size, network.outer_filter_size, network.input_filter_size
    return multisphere.sample(_CASES, _CHANNELS, _PIXELS if max(sizes) > 1 else 1, rng)


def _on_dot_products(networks: list[Network]) -> bool:
    """Return whether the multi-sphere recursion takes these networks together."""
    alike = {network.replace(depth=1, alpha=1.0) for network in networks}
    relu = networks[0].activation == "relu" and networks[0].input_filter_size == 1
    return relu and len(alike) == 1


def _matrices(
    networks: list[Network], X: np.ndarray, kind: str, head: str, engine: str, progress: bool
) -> np.ndarray:
    """Return normalized kernel matrices; networks that differ in depth alone share one pass."""
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
