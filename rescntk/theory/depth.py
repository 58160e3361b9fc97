"""The depth checker: does a family of kernels converge, to what limit, and how fast?

Barzilai et al. 2022, theorem 6.1 and appendix F; Huang et al. 2020, theorems 6 and 7. The
predictions are in theory/limits.py, their derivations in docs/theory/depth_limits.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..kernels import Kernel, gram
from ..network import BASIC_FIELDS, Network, check_one_dilation
from ..validation import check_constant, check_depths, check_signals
from . import multisphere
from .argument_checks import (
    check_cases,
    check_energies,
    check_head,
    check_kind,
    check_layers,
    check_rng,
)
from .extrapolation import LEAST_DEPTHS, root_mean_square
from .families import Family, Networks
from .prediction import Prediction
from .verdict import AGREES, CONTRADICTS, OPEN, TOLERANCE, VERDICTS, Report, Row, judge

__all__ = [
    "AGREES",
    "CONTRADICTS",
    "DEFAULT_DEPTHS",
    "OPEN",
    "VERDICTS",
    "Report",
    "Row",
    "check",
]

DEFAULT_DEPTHS = tuple(2**k for k in range(3, 15))
"""Depths of the ladder (layers): 8, 16, …, 16384. More depths resolve slower rates."""

_CASES, _CHANNELS, _PIXELS = 6, 4, 5
"""Shape of the signals that are drawn: 15 pairs."""

_LEAST_RATIO = 1.25
"""Least ratio of neighbouring depths. Smaller: differences drown in rounding errors."""

_ROUNDINGS = 20
"""Rounding errors of a kernel value apart from its layers, in eps (tests/tolerances.py)."""

_EPS = float(np.finfo(np.float64).eps)


def check(
    family: Networks,
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

    Fits over a ladder of depths give each pair's limit, and the power law of its distance from the
    predicted limit: exponent and constant. All three have error bars. The verdict *agrees*,
    *contradicts* or is *open* (docs/theory/depth_checker.md).

    Parameters
    ----------
    family : callable
        From a depth to a `Network`: any function, or a family of ``theory.families``, which
        knows its limit.
    X : ndarray, (n_cases, n_channels, n_timepoints), optional
        At least 3 different signals, 2 where there is a prediction. The default is 6 drawn from
        the multi-sphere, 4 channels × 5 pixels (1 pixel where no filter is larger).
    depths : iterable of int, default 8, 16, …, 16384
        At least 6, each at least 1.25 times the previous depth.
    kind, head, engine, progress
        As for `Kernel`. With "auto", ReLU networks without biases on the multi-sphere go through
        `multisphere.gram_complements`, all others through `gram`.
    prediction : Prediction, Kernel, float or ndarray, optional
        Instead of the family's own; the last three are a limit without a rate.
    tolerance : float, default 0.1
        Longest error bar that tells: of an exponent or a constant, relative to it; of a limit,
        relative to the distance at the shallowest network, or the distance at the deepest.
    rng : Generator or int, default 0
        For drawing signals.

    Raises
    ------
    ValueError
        If arguments are not as described, or the prediction requires the multi-sphere.

    See Also
    --------
    rescntk.theory.families.resnet : A family of networks over depth.
    rescntk.plots.limit_distances : Pictures of a report.

    Examples
    --------
    >>> from rescntk.theory import depth, families
    >>> depth.check(families.resnet(gamma=1.0), depths=[2**k for k in range(3, 11)]).verdict
    'agrees'
    """
    ladder = _check_ladder(depths)
    tolerance = check_constant(tolerance, "tolerance")
    check_kind(kind)
    check_head(head)
    rng = check_rng(rng)
    networks = [_network(family, depth) for depth in ladder]
    known = family.predict(kind) if isinstance(family, Family) else None
    told = known if prediction is None else prediction
    if told is not None and not isinstance(told, Prediction):
        told = Prediction(told)
    X, on_sphere = _signals(X, networks[0], told, rng)
    above = np.triu_indices(len(X), 1)
    limit, constant = None, None
    if told is not None:
        told = told.at(X, head)
        if known is not None and told.correction is None and on_sphere:
            law = known.at(X, head)
            log_power = law.log_power if told.exponent is None else told.log_power
            onset = max(told.onset, law.onset)
            told = replace(told, log_power=log_power, correction=law.correction, onset=onset)
        if told.reach < ladder[-1]:
            text = f"beyond depth {told.reach:.3g} rounding errors of the signals' means count"
            told = replace(told, undefined=told.undefined or text)
        if not told.undefined:
            limit = told.complements(X, head)[above]
    alike = {network.replace(depth=1, alpha=1.0) for network in networks}
    usual = networks[0].is_relu and networks[0].input_filter_size == 1 and not networks[0].bias
    if engine == "auto" and on_sphere and usual and len(alike) == 1 and _keeps_digits(X, head):
        route = "complements on the multi-sphere"
        found = multisphere.gram_complements(networks, X, kind=kind, head=head, progress=progress)
        roundings, absolute = _ROUNDINGS + np.sqrt(ladder), 0.0
    else:
        route = "normalized kernel matrices"
        found = 1.0 - _matrices(networks, X, kind, head, engine, progress)
        roundings, absolute = _ROUNDINGS + np.asarray(ladder, dtype=np.float64), 8 * _EPS
    values = found[:, above[0], above[1]]
    noise = roundings * _EPS * root_mean_square(values)
    if told is not None and limit is not None:
        noise += 4 * _EPS * np.abs(limit).max() + told.error
        constant = told.distance_constant(X, head)
    report = judge(ladder, values, noise + absolute, told, limit, constant, tolerance)
    return replace(report, family=_name(family), kind=kind, head=head, shape=X.shape, route=route)


def _check_ladder(depths: Iterable[int]) -> tuple[int, ...]:
    """Return depths that are enough, and far enough apart, for fits."""
    ladder = check_depths(depths)
    if len(ladder) < LEAST_DEPTHS:
        raise ValueError(
            f"depths is {ladder!r}, expected at least {LEAST_DEPTHS} of them: an exponent needs "
            "slopes, and its uncertainty how they change"
        )
    for low, high in pairwise(ladder):
        if high < _LEAST_RATIO * low:
            raise ValueError(
                f"depths has {low} and then {high}, expected each at least {_LEAST_RATIO} times "
                "the depth before it"
            )
    check_layers(ladder[-1], "depths has")
    return ladder


def _name(family: Networks) -> str:
    return str(getattr(family, "name", None) or getattr(family, "__name__", repr(family)))


def _network(family: Networks, depth: int) -> Network:
    if not callable(family):
        raise ValueError(f"family is {family!r}, expected a function from a depth to a Network")
    network = family(depth)
    check_one_dilation(network, BASIC_FIELDS | {"bias"})
    if network.depth != depth:
        raise ValueError(f"family returns a network of depth {network.depth}, expected {depth}")
    if network.input_scale == 0:
        raise ValueError(
            f"network is {network!r}, whose kernels are 0 and have no limit: expected a positive "
            "input_scale"
        )
    return network


def _signals(
    X: np.ndarray | None, network: Network, prediction: Prediction | None, rng: np.random.Generator
) -> tuple[np.ndarray, bool]:
    """Return the signals, given or drawn, and whether they are on the multi-sphere."""
    if X is None:
        sizes = network.filter_size, network.outer_filter_size, network.input_filter_size
        X = multisphere.sample(_CASES, _CHANNELS, _PIXELS if max(sizes) > 1 else 1, rng)
    X = check_signals(X, "X")
    least, reason = 2, "a distance is taken over pairs of signals"
    if prediction is None:
        least, reason = 3, "without a prediction, pairs show whether a limit forgets the signals"
    check_cases(X, least, reason)
    for i, x in enumerate(X):
        same = i + 1 + np.flatnonzero((X[i + 1 :] == x).all(axis=(1, 2)))
        if len(same):
            raise ValueError(
                f"X has the same signal as cases {i} and {same[0]}, expected different ones: the "
                "limits are about different signals"
            )
    # Without biases normalized ReLU kernels do not depend on the lengths of signals of one pixel.
    lengthless = network.is_relu and not network.bias and X.shape[2] == 1
    on_sphere = multisphere.contains(X) or lengthless
    if on_sphere:
        X = multisphere.project(X)  # the recursion takes all norms for exact, the limit does not
    elif prediction is not None and prediction.requires_multisphere:
        raise ValueError(
            f"X of shape {X.shape} is not on the multi-sphere, which the prediction "
            f'"{prediction.source}" requires (multisphere.project makes it so)'
        )
    return X, on_sphere


def _keeps_digits(X: np.ndarray, head: str) -> bool:
    """Return whether GAP's mean over pixel pairs loses at most `_ROUNDINGS`, on the multi-sphere.

    The signals' means decide, whose squared norm is GAP's F⁰(x, x): the least that a mean can be.
    """
    return head != "gap" or _ROUNDINGS * float((X.mean(axis=2) ** 2).mean(axis=1).min()) >= 1.0


def _matrices(
    networks: list[Network], X: np.ndarray, kind: str, head: str, engine: str, progress: bool
) -> np.ndarray:
    """Return normalized kernel matrices; networks that differ only in depth share one pass."""
    groups = defaultdict(list)
    for index, network in enumerate(networks):
        groups[network.replace(depth=1)].append(index)
    options: dict[str, Any] = {"head": head, "engine": engine, "progress": progress}
    options |= {"kinds": (kind,), "normalized": True}
    result = np.empty((len(networks), len(X), len(X)))
    for network, indices in groups.items():
        depths = [networks[index].depth for index in indices]
        result[indices] = gram(network, X, depths=depths, **options)[0]
    check_energies(result)
    return result
