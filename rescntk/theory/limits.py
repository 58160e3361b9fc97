"""Predicted limits of kernels at infinite depth, and rates (docs/theory/depth_limits.md).

For networks with α = a·depth^-γ:

========================  ==============================  =============================
γ                         normalized GPK                  normalized NTK
========================  ==============================  =============================
γ > ½, frozen readout     dot product, L^(1−2γ)           one layer, L^-min(2γ−1, 1)
γ > ½                     dot product, L^(1−2γ)           dot product, L^(1−2γ)
γ > ½, F⁰(x, x) = 0       one layer, L^-min(2γ−1, 1)      one layer, L^-min(2γ−1, 1)
γ = ½                     flow to time 1, L^-1            flow to time 1, L^-1
0 < γ < ½                 1, L^(4γ−2)                     ¼, L^(2γ−1)
0 (α fixed) or no skips   1, (9π²/2) s² L^-2              ¼, (3/8) log(L) L^-1
========================  ==============================  =============================

The dot product is F⁰. Signals of mean 0 have F⁰(x, x) = 0 with the head "gap". Between them and
other signals the limit is 0, with the rate L^(½−γ).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from ..activations import activation_of
from ..engines.boxes import circular_mean
from ..kernels import Kernel
from ..network import BASIC_FIELDS, Network, check_network, check_one_dilation
from ..validation import check_constant
from . import conditioning, degeneracy, flow, multisphere
from .argument_checks import check_kind
from .extrapolation import root_mean_square
from .prediction import Prediction, unresolved

__all__ = ["Prediction", "decaying", "dot_product", "fixed", "two_layer"]

_EPS = float(np.finfo(np.float64).eps)

_OPPOSITE = 64 * _EPS
"""1 + ρ below which pixels count as opposite: some tens of roundings."""


def dot_product(network: Network) -> Kernel:
    """Return the kernel of the features that enter the first layer, F⁰: a dot product.

    Parameters
    ----------
    network : Network
        Its depth, filters and α do not matter.

    Examples
    --------
    >>> import rescntk as rk
    >>> X = rk.theory.multisphere.sample(3, 4, 5, rng=0)
    >>> K = rk.theory.limits.dot_product(rk.Network(50)).replace(head="trace")(X)
    >>> bool(abs(K - rk.theory.multisphere.dot_products(X).mean(axis=2)).max() < 1e-15)
    True
    """
    check_network(network, BASIC_FIELDS)
    return Kernel(network.replace(depth=1, skip=True, alpha=0.0), "gpk", normalized=True)


def two_layer(network: Network, kind: str = "ntk") -> Kernel:
    """Return the kernel of a single layer, on signals seen through its inner filter.

    For α = L^-γ, γ > ½ and a frozen readout, the tangent kernel tends to this kernel
    (Barzilai et al. 2022, appendix F).

    Parameters
    ----------
    network : Network
        `filter_size` or `input_filter_size` is 1.
    kind : {"gpk", "ntk"}, default "ntk"

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.theory.limits.two_layer(rk.Network(50, filter_size=5)).network.input_filter_size
    5
    """
    check_one_dilation(network, BASIC_FIELDS)
    if network.filter_size > 1 and network.dilation != 1:
        raise ValueError(
            f"network has dilation {network.dilation}, expected 1: the limit sees the signals "
            "through the dilated inner filter, and input filters are not dilated"
        )
    windows = network.filter_size, network.input_filter_size
    if 1 not in windows:
        raise ValueError(
            f"filter_size is {windows[0]} and input_filter_size is {windows[1]}, expected one of "
            "them 1: the limit sees the signals through both, which this library has no filter for"
        )
    seen = network.replace(depth=1, skip=False, input_filter_size=max(windows))
    return Kernel(seen, kind, normalized=True)


def fixed(network: Network, kind: str) -> Prediction | None:
    """Return the prediction for deep networks that differ from `network` only in depth.

    None where there is no theory: other activations than ReLU, ``input_filter_size`` above 1, and
    tangent kernels without inner and outer weights.

    Parameters
    ----------
    network : Network
    kind : {"gpk", "ntk"}

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.theory.limits.fixed(rk.Network(1), "gpk").rate
    'L^-2'
    """
    check_network(network, BASIC_FIELDS)
    check_kind(kind)
    _check_branch(network)
    return _degenerate(network, 0.0, kind)


def _check_branch(network: Network) -> None:
    if network.branch_share == 0:
        raise ValueError(
            f"alpha, c_v, c_w are {network.alpha!r}, {network.c_v!r}, {network.c_w!r}, expected "
            f"positive numbers: without a residual branch depth changes nothing"
        )


def decaying(network: Network, gamma: float, kind: str) -> Prediction | None:
    """Return the prediction for networks with α = a·depth^-γ, a the α of `network`.

    For γ = ½ the limit is a flow (theory/flow.py): not in the papers. For smaller γ None where
    `fixed` returns None.

    Parameters
    ----------
    network : Network
        With skip connections. Its depth does not matter.
    gamma : float
        Not negative.
    kind : {"gpk", "ntk"}

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.theory.limits.decaying(rk.Network(1), 0.75, "ntk").rate
    'L^-0.5'
    """
    check_network(network, BASIC_FIELDS)
    check_kind(kind)
    gamma = check_constant(gamma, "gamma")
    if not network.skip:
        raise ValueError("network has no skip connections, expected some: alpha is their weight")
    _check_branch(network)
    if gamma == 0:
        return fixed(network, kind)
    if gamma < 0.5:
        return _degenerate(network, gamma, kind)
    if gamma == 0.5:  # layers are steps of Euler's method, of error O(1/L)
        return Prediction(
            lambda X, head: flow.complements(network, kind, X, head),
            1.0,
            source="the flow dF/dt = a² box K(box F) at time 1",
            correction=1.0,
            error=flow.ERROR,
        )
    one_window = network.filter_size == 1 or (network.input_filter_size, network.dilation) == (1, 1)
    if kind == "ntk" and network.parts.initial == 0:
        return _one_layer(network, gamma) if one_window else None
    return _dot_product(network, gamma, kind, one_window)


def _dot_product(network: Network, gamma: float, kind: str, one_window: bool) -> Prediction:
    """Return the prediction for γ > ½ where F⁰ is part of the kernel.

    With `one_window` a kernel is known for what the layers add, `two_layer`.
    """
    power, correction = 2.0 * gamma - 1.0, min(2.0 * gamma - 1.0, 1.0)

    def first_orders(X: np.ndarray, head: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
        """Return F⁰, as the kernel has it, and the kernel that the layers add."""
        X = flow.of_unit_energy(network, X)
        start, branch = (
            kernel.replace(head=head, normalized=False)(X)
            for kernel in (dot_product(network), two_layer(network, kind))
        )
        return start * (network.parts.initial if kind == "ntk" else 1.0), branch

    def limit(X: np.ndarray, head: str) -> np.ndarray:
        K, zero = dot_product(network).replace(head=head)(X), _mean_errors(network, X, head) >= 1.0
        if zero.any():
            both = np.logical_and.outer(zero, zero)
            K = np.where(both, two_layer(network, kind).replace(head=head)(X), K)
            K[np.logical_xor.outer(zero, zero)] = 0.0
        return 1.0 - K

    def constant(X: np.ndarray, head: str) -> float | None:
        if not one_window or (_mean_errors(network, X, head) >= 1.0).any():
            return None
        start, branch = first_orders(X, head, kind)
        own, growth = start.diagonal(), branch.diagonal() / start.diagonal()
        root = np.sqrt(np.multiply.outer(own, own))
        change = branch / root - 0.5 * start / root * np.add.outer(growth, growth)
        return network.alpha**2 * _over_pairs(change)

    def law(told: Prediction, X: np.ndarray, head: str) -> Prediction:
        errors = _mean_errors(network, X, head)
        zero, gain = errors >= 1.0, network.branch_gain
        if one_window and not zero.all():  # F⁰ leads once Lα² times this is below 1
            start, branch = first_orders(X[~zero], head, "gpk")
            gain = network.alpha**2 * float((branch.diagonal() / start.diagonal()).max())
        onset = max(told.onset, _depth_of(gain, power))
        error = told.error + 2.0 * errors[~zero].max(initial=0.0)
        told = replace(told, onset=onset, error=error)
        opposite = _to_opposite(network, X, head) if kind == "ntk" else math.inf
        if not zero.any():
            # κ0 has a square root at u = −1: half the power.
            factor = min(0.5 * power, correction) / correction if opposite == 0 else 1.0
            return told.scaled(correction=factor)
        cases = np.flatnonzero(zero)
        note = f"F⁰(x, x) is 0 for {len(cases)} of the signals, X[{cases[0]}] first"
        if not one_window or len(unresolved(two_layer(network, kind).replace(head=head), X[zero])):
            why = "so are their kernels" if one_window else "no kernel is known for their limit"
            return replace(told, undefined=f"{note}, and {why}")
        p, q = _rate(network, gamma, not zero.all() or opposite == 0, len(cases) > 1)
        # Rounding errors of the mean are left in F⁰: eps of the branch at most, up to this depth.
        start, branch = (A.diagonal() for A in first_orders(X[zero], head, kind))
        ratio = np.divide(branch, start, out=np.full(len(cases), np.inf), where=start > 0).min()
        return told.scaled(
            p / power,
            q / correction,
            onset=max(onset, _onset(network, gamma, opposite)),
            reach=min(told.reach, _depth_of(network.alpha**2 * _EPS * float(ratio), power)),
            source=f"{told.source}; {note}, where it is undefined and one layer is the limit",
        )

    return Prediction(
        limit,
        power,
        constant=constant,
        source="Barzilai et al., theorem 6.1: the dot product",
        correction=correction,
        law_at=law,
    )


def _mean_errors(network: Network, X: np.ndarray, head: str) -> np.ndarray:
    """Return the relative rounding errors of √F⁰(x, x), (n_cases,): at least 1 where it is 0.

    GAP's F⁰(x, x) is the squared norm of a signal's mean. A sum of d numbers errs by d·eps/2 times
    the sum of absolute values. Two sums count: the user's, which took the mean away from every
    pixel, and the sum in this function. A smaller mean cannot be told from 0.
    """
    if head != "gap":  # a mean of squares
        own = dot_product(network).replace(head=head).diag(X)
        return np.where(own > 0, 0.0, np.inf)
    largest = np.abs(X).max(axis=(1, 2), keepdims=True)
    X = X / np.where(largest > 0, largest, 1.0)
    size, total = np.abs(X).sum(axis=(1, 2)), np.abs(X.sum(axis=2)).sum(axis=1)
    return X.shape[2] * _EPS * np.divide(size, total, out=np.full(len(X), np.inf), where=total > 0)


def _depth_of(value: float, power: float) -> float:
    """Return the depth, at least 1 and within float64, whose power is `value`."""
    return math.exp(min(max(math.log(value), 0.0) / power, 600.0))


def _to_opposite(network: Network, X: np.ndarray, head: str) -> float:
    """Return the least 1 + u of signals; infinity where it is unknown or κ0 has no root there."""
    if not (activation_of(network).root_at_opposite and multisphere.contains(X)):
        return math.inf
    return _closest(network, X, head)[1]


def _closest(network: Network, X: np.ndarray, head: str) -> tuple[float, float]:
    """Return the least complements 1 − ρ and 1 + ρ of different signals' pixels in layer 2.

    X is on the multi-sphere. 1 − ρ is the least positive complement over windows of the largest
    filter, or infinity. 1 + ρ is over windows of the inner filter, exactly 0 where it is rounding.
    """
    check_one_dilation(network, BASIC_FIELDS)
    inner, outer = network.inner_filter(2), network.outer_filter(2)
    least = np.array([np.inf, np.inf])

    def function(delta: np.ndarray) -> np.ndarray:
        delta = circular_mean(delta, *network.input_filter)
        mixed = circular_mean(delta, *max(inner, outer))
        above = 2.0 - circular_mean(delta, *inner)
        above[above < _OPPOSITE] = 0.0
        for k, values in enumerate((mixed[mixed > 0], above)):
            least[k] = min(least[k], values.min(initial=np.inf))
        return np.zeros((1, *delta.shape))  # the matrix does not matter

    multisphere.over_pairs(X, head, function)
    return float(least[0]), float(least[1])


def _rate(
    network: Network, gamma: float, half: bool = False, first_layer: bool = True
) -> tuple[float, float]:
    """Return p and q of a distance whose parts fall like L^(1−2γ), or its root, and like 1/L."""
    power = (gamma - 0.5) * (1.0 if half else 2.0)
    # The first layer sees single pixels, all others windows: an error of O(1/L).
    first = 1.0 if first_layer and network.filter_size > 1 else math.inf
    apart = abs(power - first)  # of the two errors; where they are one power, there is none
    return min(power, first), min(power, apart or 1.0, 1.0)


def _onset(network: Network, gamma: float, opposite: float) -> float:
    """Return where the law of one layer sets in for pixels of `_to_opposite`."""
    # κ0 has a square root at u = −1, whose reach is Lα² = 1 + u. At 0 it is the law itself.
    return _depth_of(network.branch_gain / min(opposite or 1.0, 1.0), 2.0 * gamma - 1.0)


def _one_layer(network: Network, gamma: float) -> Prediction:
    """Return the prediction for a frozen readout and γ > ½."""
    exponent, correction = _rate(network, gamma)

    def law(told: Prediction, X: np.ndarray, head: str) -> Prediction:
        opposite = _to_opposite(network, X, head)
        p, q = _rate(network, gamma, opposite == 0)
        onset = max(told.onset, _onset(network, gamma, opposite))
        return told.scaled(p / exponent, q / correction, onset=onset)

    def constant(X: np.ndarray, head: str) -> float | None:
        if X.shape[2] > 1:
            return None
        t = np.clip(dot_product(network)(X), -1.0, 1.0)[np.triu_indices(len(X), 1)]
        if t.min() <= -1.0 + _OPPOSITE:
            return None
        return network.branch_gain * float(root_mean_square(degeneracy.resnet_rate(t)))

    vectors = network.filter_size == 1
    huang = network.is_relu and network.trained == ("inner", "outer")
    source = "Huang et al., theorem 7" if vectors else "Barzilai et al., app. F"
    return Prediction(
        two_layer(network),
        exponent,
        constant=constant if huang and vectors and network.input_filter_size == 1 else None,
        source=f"{source}: the two-layer NTK",
        correction=correction,
        law_at=law,
    )


def _degenerate(network: Network, gamma: float, kind: str) -> Prediction | None:
    """Return the prediction for 0 ≤ γ < ½, L/s effective layers: all ones, or 1/4."""
    parts, growth = network.parts, 1.0 - 2.0 * gamma
    # There are share·L^growth = L/s effective layers.
    share = network.branch_gain if gamma else network.branch_share
    if not network.is_relu or network.input_filter_size > 1:
        return None
    if kind == "gpk" or (parts.readout == 1 and sum(parts) == 1):
        complement, exponent, log_power = 0.0, 2.0 * growth, 0
        rate = conditioning.asymptotic_complement(1, skip=False) / share**2
        margins = 0.0, 2.0**-40
        law_of = "s = 1/α²" if gamma else "sharper than lemma E.2"
        source = f"all ones at (9π²/2) s²/L² ({law_of})"
    elif parts.inner + parts.outer > 0:
        complement, exponent, log_power = 1.0 - degeneracy.FFNET_LIMIT, growth, int(gamma == 0)
        rate, margins = degeneracy.LOG_RATE, (-(2.0**-20), 2.0**-20)
        source = "1/4 at different pixels (sharper than Huang et al., theorem 6)"
    else:
        return None

    def constant(X: np.ndarray, head: str) -> float:
        # `rate` is for pixels. GAP's normalization is not linear, and has a slope of its own. Its
        # errors are 2⁻⁴⁰ = 1e-12 and, beside 3/4, rounding errors: eps/2⁻²⁰ = 2e-10.
        low, high = (_where_different(network, X, head, complement + e) for e in margins)
        return rate * _over_pairs(high - low) / (margins[1] - margins[0])

    def law(told: Prediction, X: np.ndarray, head: str) -> Prediction:
        # Two pixels of complement δ seem to agree until there are 3π/√(2δ) effective layers.
        layers = 3.0 * math.pi / math.sqrt(2.0 * _closest(network, X, head)[0])
        onset = max(_depth_of(layers / share, growth), _depth_of(share, 2.0 * gamma or 1.0))
        return replace(told, onset=max(told.onset, onset))

    # s = (1 + β)/β has corrections of β = L^-2γ, the law itself of s/L.
    correction = min(2.0 * gamma, growth) if gamma else 1.0
    return Prediction(
        partial(_where_different, network, value=complement) if complement else 1.0,
        exponent,
        log_power,
        constant=constant if log_power or not complement else None,
        source=source,
        requires_multisphere=True,
        correction=correction,
        law_at=law,
    )


def _where_different(network: Network, X: np.ndarray, head: str, value: float) -> np.ndarray:
    """Return the head's complements: of pixel pairs `value` where pixels differ, or else 0."""
    check_one_dilation(network, BASIC_FIELDS)
    mixes = max(network.filter_size, network.outer_filter_size) > 1

    def function(complements: np.ndarray) -> np.ndarray:
        d = len(complements)
        # Rings are interleaved. Filters mix the pixel pairs of a ring: if one differs, all do.
        rings = math.gcd(network.outer_filter(1).step, d) if mixes else d
        parts = (complements > 0).reshape(-1, rings, *complements.shape[1:])
        different = np.broadcast_to(parts.any(axis=0), parts.shape).reshape(complements.shape)
        return value * different[None]

    return multisphere.over_pairs(X, head, function)[0]


def _over_pairs(A: np.ndarray) -> float:
    return float(root_mean_square(A[np.triu_indices(len(A), 1)]))
