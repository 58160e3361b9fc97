"""Predicted limits of kernels at infinite depth, and rates (docs/theory/depth_limits.md).

For networks with α = a·depth^-γ:

========================  ==============================  =============================
γ                         normalized GPK                  normalized NTK
========================  ==============================  =============================
γ > ½, frozen readout     dot product, L^(1−2γ)           one layer, L^-min(2γ−1, 1)
γ > ½                     dot product, L^(1−2γ)           dot product, L^(1−2γ)
γ = ½                     flow to time 1, L^-1            flow to time 1, L^-1
0 < γ < ½                 1, L^(4γ−2)                     ¼, L^(2γ−1)
0 (α fixed) or no skips   1, (9π²/2) s² L^-2              ¼, (3/8) log(L) L^-1
========================  ==============================  =============================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..activations import activation_of
from ..kernels import Kernel
from ..network import Network, check_network, check_one_dilation
from ..validation import check_constant, check_positive, check_real, check_shape
from . import conditioning, degeneracy, flow, multisphere
from .arguments import check_kind
from .extrapolation import root_mean_square


@dataclass(frozen=True, eq=False)
class Prediction:
    r"""A predicted limit and rate of a family of kernels.

    Distances from the limit, in root mean square over pairs of signals, are predicted to be
    :math:`C L^{-p} (\log L)^k`, asymptotically.

    Parameters
    ----------
    limit : Kernel, float, ndarray (n, n), or callable
        The normalized kernel at infinite depth, or its value for all pairs of different signals. A
        callable takes signals and a head and returns *complements*, 1 − limit.
    exponent, log_power : float, optional, and {0, 1}, default 0
        p, positive, and k.
    constant : float or callable, optional
        C, or a function of signals and head that returns it.
    source : str
        Whose prediction it is, in a few words.
    requires_multisphere : bool, default False
        Whether signals must be on the multi-sphere.
    correction : float, optional
        q of the corrections to the law: the first has the relative size
        :math:`(\text{onset}/L)^q`. The default is the fitted p, 1 at most.
    onset : float, default 1
        The depth at which the law sets in.
    law_at : callable, optional
        A function of signals and head that returns a factor of p, `onset` and `correction`.
    error : float, default 0
        Largest error of an entry of the limit.
    """

    limit: Kernel | float | np.ndarray | Callable[[np.ndarray, str], np.ndarray]
    exponent: float | None = None
    log_power: int = 0
    constant: float | Callable[[np.ndarray, str], float | None] | None = None
    source: str = "handed in"
    requires_multisphere: bool = False
    correction: float | None = None
    onset: float = 1.0
    law_at: Callable[[np.ndarray, str], tuple[float, float, float]] | None = None
    error: float = 0.0

    def __post_init__(self) -> None:
        if self.exponent is not None and check_constant(self.exponent, "exponent") == 0:
            raise ValueError("exponent is 0, expected a positive number, or None for no rate")
        if self.log_power not in (0, 1):
            raise ValueError(f"log_power is {self.log_power!r}, expected 0 or 1")
        check_positive(self.onset, "onset")
        check_constant(self.error, "error")
        if self.correction is not None:
            check_positive(self.correction, "correction")
        if not (self.constant is None or callable(self.constant)):
            check_constant(self.constant, "constant")
        if callable(self.limit):
            return
        expected = "(n, n), a number, a Kernel or a function of signals and head"
        values = check_real(self.limit, "limit", expected)
        if isinstance(self.limit, bool) or (values.ndim == 0 and abs(values) > 1.0):
            raise ValueError(f"limit is {self.limit!r}, expected a correlation from -1 to 1")

    def complements(self, X: np.ndarray, head: str) -> np.ndarray:
        """Return 1 − limit for all pairs of signals, (n, n), 0 on the diagonal."""
        n = len(X)
        if isinstance(self.limit, Kernel):
            values = 1.0 - self.limit.replace(head=head, normalized=True)(X)
        elif callable(self.limit):
            values = np.array(self.limit(X, head), dtype=np.float64)
        else:
            values = 1.0 - np.array(self.limit, dtype=np.float64)
            values = np.full((n, n), float(values)) if values.ndim == 0 else values
        values = check_shape(values, "the predicted limit", (n, n))
        np.fill_diagonal(values, 0.0)
        if np.abs(values - values.T).max() > 1e-8:
            raise ValueError("the predicted limit is not symmetric, expected a kernel matrix")
        return values

    def distance_constant(self, X: np.ndarray, head: str) -> float | None:
        return self.constant(X, head) if callable(self.constant) else self.constant

    def at(self, X: np.ndarray, head: str) -> Prediction:
        """Return the prediction with p, `onset` and `correction` of these signals."""
        if self.law_at is None:
            return self
        factor, onset, correction = self.law_at(X, head)
        exponent = None if self.exponent is None else factor * self.exponent
        return replace(self, exponent=exponent, onset=onset, correction=correction, law_at=None)

    @property
    def rate(self) -> str:
        """The predicted rate in words, such as "log(L) L^-1"."""
        if self.exponent is None:
            return "unknown"
        return ("log(L) " if self.log_power else "") + f"L^-{self.exponent:g}"

    def power(self, depths: np.ndarray) -> np.ndarray:
        """Return L^-p (log L)^k."""
        return depths ** -(self.exponent or 0.0) * np.log(depths) ** self.log_power


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
    check_network(network)
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
    check_one_dilation(network)
    if network.filter_size > 1 and network.dilation != 1:
        raise ValueError(f"network has dilation {network.dilation}, expected 1, as input filters")
    windows = network.filter_size, network.input_filter_size
    if 1 not in windows:
        raise ValueError(f"filter_size and input_filter_size are {windows}, expected one of them 1")
    seen = network.replace(depth=1, skip=False, input_filter_size=max(windows))
    return Kernel(seen, kind, normalized=True)


def fixed(network: Network, kind: str) -> Prediction | None:
    """Return the prediction for deep networks that differ from `network` in depth alone.

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
    check_network(network)
    check_kind(kind)
    if network.branch_share == 0:
        raise ValueError(
            f"alpha, c_v, c_w are {network.alpha!r}, {network.c_v!r}, {network.c_w!r}, expected "
            f"positive numbers: without a residual branch depth changes nothing"
        )
    return _degenerate(network, 0.0, kind)


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
    check_network(network)
    check_kind(kind)
    gamma = check_constant(gamma, "gamma")
    if not network.skip:
        raise ValueError("network has no skip connections, expected some: alpha is their weight")
    if network.alpha == 0:
        raise ValueError("alpha is 0, expected a positive factor of depth**-gamma")
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

    def constant(X: np.ndarray, head: str) -> float:
        start, branch = (
            kernel.replace(head=head, normalized=False)(X)
            for kernel in (dot_product(network), two_layer(network, kind))
        )
        if kind == "ntk":
            start = start * network.parts.initial
        own, growth = start.diagonal(), branch.diagonal() / start.diagonal()
        root = np.sqrt(np.multiply.outer(own, own))
        change = branch / root - 0.5 * start / root * np.add.outer(growth, growth)
        return network.alpha**2 * _over_pairs(change)

    exponent = 2.0 * gamma - 1.0
    correction = min(exponent, 1.0)

    def law(X: np.ndarray, head: str) -> tuple[float, float, float]:
        # κ0 has a square root at u = −1: half the power.
        root = kind == "ntk" and _to_opposite(network, X, head) == 0
        onset = _depth_of(network.branch_gain, exponent)
        return 1.0, onset, min(0.5 * exponent, correction) if root else correction

    return Prediction(
        dot_product(network),
        exponent,
        constant=constant if one_window else None,
        source="Barzilai et al., theorem 6.1: the dot product",
        correction=correction,
        law_at=law,
    )


def _depth_of(value: float, power: float) -> float:
    """Return the depth, at least 1 and within float64, whose power is `value`."""
    return math.exp(min(max(math.log(value), 0.0) / power, 600.0))


def _to_opposite(network: Network, X: np.ndarray, head: str) -> float:
    """Return the least 1 + u of signals; infinity where it is unknown or κ0 has no root there."""
    if not (activation_of(network).root_at_opposite and multisphere.contains(X)):
        return math.inf
    return multisphere.closest(network, X, head)[1]


def _one_layer(network: Network, gamma: float) -> Prediction:
    """Return the prediction for a frozen readout and γ > ½."""
    # The first layer sees single pixels, all others windows: an error of O(1/L).
    first_layer = 1.0 if network.filter_size > 1 else math.inf
    power = 2.0 * gamma - 1.0
    exponent = min(power, first_layer)
    apart = abs(power - first_layer)  # of the two errors; where they are one power, there is none
    correction = min(power, apart or 1.0, 1.0)

    def law(X: np.ndarray, head: str) -> tuple[float, float, float]:
        distance = _to_opposite(network, X, head)
        if distance == 0:
            root = min(gamma - 0.5, first_layer)
            return root / exponent, _depth_of(network.branch_gain, power), min(root, correction)
        # κ0 has a square root at u = −1, whose reach is Lα² = 1 + u.
        return 1.0, _depth_of(network.branch_gain / min(distance, 1.0), power), correction

    def constant(X: np.ndarray, head: str) -> float | None:
        if X.shape[2] > 1:
            return None
        t = np.clip(dot_product(network)(X), -1.0, 1.0)[np.triu_indices(len(X), 1)]
        if t.min() <= -1.0 + multisphere.OPPOSITE:
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
        # errors are 2⁻⁴⁰ = 1e-12 and, beside 3/4, those of rounding: eps/2⁻²⁰ = 2e-10.
        low, high = (_where_different(network, X, head, complement + e) for e in margins)
        return rate * _over_pairs(high - low) / (margins[1] - margins[0])

    def law(X: np.ndarray, head: str) -> tuple[float, float, float]:
        # Two pixels of complement δ seem to agree until there are 3π/√(2δ) effective layers.
        layers = 3.0 * math.pi / math.sqrt(2.0 * multisphere.closest(network, X, head)[0])
        onset = max(_depth_of(layers / share, growth), _depth_of(share, 2.0 * gamma or 1.0))
        return 1.0, onset, correction

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
    check_one_dilation(network)
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
