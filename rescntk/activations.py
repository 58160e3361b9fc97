r"""Dual activations: expectations of an activation under correlated Gaussians.

For :math:`(u, v) \sim N(0, [[q_1, S], [S, q_2]])` the half squared distance is :math:`D =
(q_1 + q_2)/2 - S = z + gw`, with :math:`g = \sqrt{q_1 q_2}`, :math:`w = 1 - \rho = 1 - S/g` and
:math:`z = (\sqrt{q_1} - \sqrt{q_2})^2/2`. Functions take w and z in place of S, and return
distances besides covariances: near correlation 1 a covariance has lost the digits that decide.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from .arrays import Array, array_module, smaller, sqrt, where_less


class Pixels(NamedTuple):
    """Tables of single pixels at one layer, from which pixel pairs take their variances.

    Arrays of one shape. The unit of q is the caller's, and an argument of `Activation.dual`.
    """

    half_root: Array
    """√(q/2)."""

    inverse: Array
    """1/√q, 0 where q is 0."""

    extra: tuple[Array, ...]
    """The tables of `Activation.extra`, in the unit 1. Of ReLU in float32: what rounding took from
    `half_root`."""


class DualInput(NamedTuple):
    """Correlated Gaussians (u, v) at the pixel pairs of a tile; g, z and S in the unit of q."""

    w: Array
    """w = 1 − ρ."""

    v: Array
    """v = 1 + ρ, given besides w because 2 − w has lost its digits where w is near 2."""

    half_g: Array
    """g/2 = √(q1 q2)/2."""

    z: Any
    """z = (√q1 − √q2)²/2."""

    covariance: Any = None
    """S, for odd activations."""


class DualResult(NamedTuple):
    """Dual activations at the pixel pairs of a tile, all three times the factor asked for."""

    K: Array
    """E[σ(u)σ(v)]."""

    branch_distance: Array
    """The half squared distance (E[σ(u)²] + E[σ(v)²])/2 − E[σ(u)σ(v)]."""

    times_slope: Callable[[Any], Any]
    """Multiplies numbers by E[σ'(u)σ'(v)] times the unit of q."""

    opposite_distance: Any = None
    """The half squared distance (E[σ(u)²] + E[σ(v)²])/2 + E[σ(u)σ(v)] to −σ(v). ReLU gives it only
    for deficits, where z is the number 0."""

    k0: Any = None  # `Dual.k0` of ReLU, for deficits


class Activation(Protocol):
    """A nonlinearity σ of the hidden units, as the recursion over layers uses it."""

    homogeneous: bool
    """Whether σ(cu) = cσ(u) for c > 0. What follows for networks are properties of `Network`."""

    odd: bool
    """Whether σ(−u) = −σ(u), and `dual` needs S and D⁺: a leaky ReLU of slope 1 needs neither."""

    gain: float
    """2 E[σ(u)²]/q of homogeneous activations, for u of variance q; 1 for the others."""

    exact_gain: Fraction
    """The gain without rounding."""

    root_at_opposite: bool
    """Whether E[σ'(u)σ'(v)] is a constant plus a multiple of √(1 + ρ) near ρ = −1."""

    constants: Mapping[str, float]
    """Constants of each layer that `dual` needs besides the constants of `Scaling`."""

    def diagonal(self, xp: ModuleType, q: Array, unit: float, factor: float) -> tuple[Array, Array]:
        """Return E[σ(u)²] and E[σ'(u)²] for u of variance `q`, scaled as in `dual`."""

    def extra(self, xp: ModuleType, q: Array, unit: float) -> tuple[Array, ...]:
        """Return the tables of single pixels that `dual` needs besides √q."""

    def dual(
        self, left: Pixels, right: Pixels, pair: DualInput, *, unit: float, factor: float
    ) -> DualResult:
        """Return the dual activations of pixels `left` and `right`, all times `factor`.

        Variances are `unit` times the numbers in the tables and in `pair`.
        """


class Relu:
    r"""ReLU: the arc-cosine kernels (Cho and Saul 2009).

    :math:`E[\sigma\sigma] = g\kappa_1(\rho)/2` and :math:`E[\sigma'\sigma'] =
    \kappa_0(\rho)/2`, hence :math:`D = (z + g(1-\kappa_1))/2`. A leaky ReLU, max(u, s u), has
    1 + s² times these with the share :math:`\lambda = 2s/(1+s^2)` of the linear network:
    :math:`(1-\lambda)\kappa_1 + \lambda\rho` and :math:`(1-\lambda)\kappa_0 + \lambda`.

    Parameters
    ----------
    negative_slope : float, default 0.0
        The slope s below 0.
    """

    homogeneous, odd = True, False

    def __init__(self, negative_slope: float = 0.0) -> None:
        self.exact_gain = 1 + Fraction(negative_slope) ** 2
        self.gain = float(self.exact_gain)
        self.root_at_opposite = negative_slope < 1.0
        share = 2.0 * negative_slope / self.gain
        self.constants: Mapping[str, float] = {"linear_share": share} if share else {}

    def diagonal(self, xp: ModuleType, q: Array, unit: float, factor: float) -> tuple[Array, Array]:
        half = 0.5 * (factor * unit * self.gain)
        return half * q, xp.asarray(half, dtype=q.dtype)

    def extra(self, xp: ModuleType, q: Array, unit: float) -> tuple[Array, ...]:
        return ()

    def dual(
        self, left: Pixels, right: Pixels, pair: DualInput, *, unit: float, factor: float
    ) -> DualResult:
        factor *= unit * self.gain
        constants = ReluConstants(factor, 0.5 * factor, **self.constants)
        relu = dual(pair.half_g, pair.w, pair.v, constants)
        slope = partial(times_slope, relu.k0, pair.w, pair.v, constants)
        if isinstance(pair.z, float):  # 0, of deficits: only they need the last result
            return DualResult(relu.K, relu.deficit, slope, relu.g * relu.one_plus_kappa1, relu.k0)
        return DualResult(relu.K, 0.5 * factor * pair.z + relu.deficit, slope)


class Erf:
    r"""The error function (Williams 1997; used by Tirer et al. 2022).

    With :math:`\Delta = (1+2q_1)(1+2q_2) - 4S^2`, :math:`E[\sigma\sigma] = \frac2\pi
    \arctan(2S/\sqrt\Delta)` and :math:`E[\sigma'\sigma'] = \frac4\pi/\sqrt\Delta`. Distances
    are angles of positive terms, which keep their relative accuracy.
    """

    homogeneous, odd, root_at_opposite = False, True, False
    gain, exact_gain = 1.0, Fraction(1)
    constants: Mapping[str, float] = MappingProxyType({})

    def diagonal(self, xp: ModuleType, q: Array, unit: float, factor: float) -> tuple[Array, Array]:
        root = xp.sqrt(1.0 + 4.0 * unit * q)
        K = (2.0 / math.pi * factor) * xp.arctan(2.0 * unit * q / root)
        return K, (4.0 / math.pi * factor * unit) / root

    def extra(self, xp: ModuleType, q: Array, unit: float) -> tuple[Array, ...]:
        """Return 1/2 + 2q and t − 1, with t = √(1 + 4q)."""
        four_q = 4.0 * unit * q
        return 0.5 + 0.5 * four_q, four_q / (1.0 + xp.sqrt(1.0 + four_q))

    def dual(
        self, left: Pixels, right: Pixels, pair: DualInput, *, unit: float, factor: float
    ) -> DualResult:
        covariance = pair.covariance
        xp = array_module(covariance)
        ahead = covariance >= 0  # else −v is the nearer one, and w and v change places
        two_g, two_z = (4.0 * unit) * pair.half_g, (2.0 * unit) * pair.z
        two_S = (2.0 * unit) * covariance
        two_gw, size = two_g * xp.where(ahead, pair.w, pair.v), xp.abs(two_S)
        m = left.extra[0] + right.extra[0]  # 1 + 2 q1 + 2 q2
        root = xp.sqrt((two_g + size) * two_gw + m)  # √Δ
        m = two_g * two_g + m  # (1 + 2 q1)(1 + 2 q2)

        # tan = X (p + 4|S|) m / ((p √Δ + 2|S| s)(s √Δ + 2|S| p));
        # t = √(1 + 4q), s = t1 + t2, p = t1 t2 − 1;
        # X = p − 4|S| = 64 z (z + 2g) / (s² (p + 4g)) + 4gw.
        tiny = float(np.finfo(two_g.dtype).tiny)  # where both pixels are 0, the angle is 0
        s = left.extra[1] + right.extra[1]
        p = left.extra[1] * right.extra[1] + s
        s = s + 2.0
        # Divided first: products of tiny variances would leave the range.
        X = (2.0 * two_g + two_z) / (2.0 * two_g + p + tiny)
        X = X * two_z / s / s * 16.0 + 2.0 * two_gw
        X = X / (p * root + size * s + tiny)
        X = X * (m / (s * root + size * p))
        X = X * (p + 2.0 * size)
        distance = (2.0 / math.pi * factor) * xp.arctan(X)
        K = (2.0 / math.pi * factor) * xp.arctan(two_S / root)
        far = 2.0 * xp.abs(K) + distance
        return DualResult(
            K,
            xp.where(ahead, distance, far),
            partial(operator.mul, (4.0 / math.pi * factor * unit) / root),
            xp.where(ahead, far, distance),
        )


BY_NAME: dict[str, Activation] = {"relu": Relu(), "erf": Erf()}
"""The activations by the names of `validation.ACTIVATIONS`."""


def activation_of(network: Any) -> Activation:
    """Return the nonlinearity of a `Network`'s hidden units.

    Parameters
    ----------
    network : Network

    Examples
    --------
    >>> from rescntk import Network, activations
    >>> activations.activation_of(Network(3, activation="erf")).homogeneous
    False
    """
    slope = network.negative_slope
    return Relu(slope) if slope > 0.0 else BY_NAME[network.activation]


_SERIES_END = 1.0 / 64.0
"""The w below which k1 comes from its power series.

k1 = (√(1−ρ²) − ρθ)/π ~ w^(3/2) is a difference of terms ~ w^(1/2). For small w it has lost a few
units over √w, always to the same side, and the loss adds up over the layers of a deep network
on nearly equal signals. A larger value needs more terms: they fall by w/2 each. 8 terms reach
2^-56 at 1/64, and above 1/64 the difference is right within 8 units.
"""

_BINOMIALS = [math.comb(2 * n, n) / 8**n for n in range(8)]
_INTEGRAL = [b / ((2 * n + 1) * (n + 1.5)) for n, b in enumerate(_BINOMIALS)]
_SERIES = (np.convolve(_INTEGRAL, _BINOMIALS)[:8] / math.pi).tolist()
"""The first coefficients of k1(w) / (w √(w(2−w))) as a power series in w.

k1 is the integral of arccos(1−w)/π, term by term, with
arccos(1−w) = √(2w) Σ C(2n,n) wⁿ/((2n+1) 8ⁿ) and 1/√(2−w) = Σ C(2n,n) wⁿ/(√2 8ⁿ).
"""


def angle_and_kappa1_excess(xp: ModuleType, w: Array, v: Array) -> tuple[Array, Array]:
    r"""Return :math:`\theta = \arccos\rho` and :math:`k_1 = \kappa_1 - \rho`.

    ReLU needs no more: :math:`\kappa_0 = 1 - \theta/\pi` and
    :math:`1 - \kappa_1 = w - k_1` with :math:`k_1 = (\sqrt{1-\rho^2} - \rho\theta)/\pi`.

    Parameters
    ----------
    xp : module
    w, v : array
        w = 1 − ρ and v = 1 + ρ. Each has lost its digits where the other is near 2. Then θ has a
        relative error of a few rounding units, k1 one of a few units times w.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import activations
    >>> activations.angle_and_kappa1_excess(np, np.ones(1), np.ones(1))
    (array([1.57079633]), array([0.31830989]))
    """
    # tan(θ/2); NumPy's arctan takes 0.4 to 0.7 times as long as its arctan2.
    half_tangent = xp.sqrt(w / (v + float(np.finfo(w.dtype).tiny)))
    root = half_tangent * v  # √(1 − ρ²)
    angle = 2.0 * xp.arctan(half_tangent)
    k1 = (root - (1.0 - w) * angle) * (1.0 / math.pi)
    small = w < _SERIES_END
    if small.any():
        few, series = w[small], 0.0
        for coefficient in _SERIES[:0:-1]:
            series = (series + coefficient) * few
        k1[small] = (series + _SERIES[0]) * few * root[small]
    return angle, k1


class ReluConstants(NamedTuple):
    """The constants of `dual`; the engines have them among a layer's constants."""

    factor: float
    """The factor on E[σσ], times the unit of variances."""

    half_factor: float
    linear_share: float = 0.0


class Dual(NamedTuple):
    """A ReLU layer's dual activations, times `factor`; of layer.py's constants."""

    deficit: Any
    """g (1 − κ1)/2: what K lacks at this correlation."""

    g: Any
    """g/2 times `factor`."""

    one_plus_kappa1: Any
    """1 + κ1: times `g` the deficit to −σ(v)."""

    K: Any
    """g κ1/2."""

    k0: Any
    """(1 − λ) θ/π of the smaller angle θ to v or −v: κ0 is 1 − k0 for w < v, else λ + k0."""


def arc(a: Any, root: Any, coefficients: Any = None) -> tuple[Any, Any]:
    r"""Return :math:`k_0 = \arccos(1 - a)/\pi` and :math:`k_1 = \kappa_1(\rho) - \rho`.

    The compiled engines have polynomials in its place (engines/cpu/formulas.h).

    Parameters
    ----------
    a : array
        a = 1 − ρ, in [0, 1].
    root, coefficients
        √a and the polynomials' coefficients; arrays need none.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import activations
    >>> activations.arc(np.ones(1), np.ones(1))
    (array([0.5]), array([0.31830989]))
    """
    angle, k1 = angle_and_kappa1_excess(array_module(a), a, 2.0 - a)
    return angle * (1.0 / math.pi), k1


def dual(half_g: Any, w: Any, v: Any, layer: Any, coefficients: Any = None) -> Dual:
    r"""Return the dual activations of a ReLU layer; all engines but "cuda" call this function.

    With :math:`a = \min(w, v)` and `arc`: for w < v, :math:`\kappa_0 = 1 - k_0` and
    :math:`1 - \kappa_1 = w - k_1`; otherwise :math:`\kappa_0 = k_0` and
    :math:`1 - \kappa_1 = 1 - k_1`. No term cancels, nor in :math:`1 + \kappa_1`.

    Parameters
    ----------
    half_g, w, v : array
        g/2 = √(q1 q2)/2, 1 − ρ and 1 + ρ.
    layer : record
        Has the numbers of `ReluConstants` among its fields.
    coefficients : tuple, optional
        Of `arc`.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import activations
    >>> half, one = np.array([0.5]), np.array([1.0])
    >>> relu = activations.dual(half, one, one, activations.ReluConstants(2.0, 1.0))
    >>> relu.K.round(4), relu.k0
    (array([0.3183]), array([0.5]))
    """
    return _scaled_dual(half_g, _kappas(w, v, sqrt(smaller(w, v)), layer, coefficients), layer)


def _kappas(w: Any, v: Any, root: Any, layer: Any, coefficients: Any) -> tuple[Any, Any, Any]:
    """Return k0, 1 − κ1 and 1 + κ1; `root` is √a."""
    k0, k1 = arc(smaller(w, v), root, coefficients)
    one_minus_kappa1 = where_less(w, v, w, 1.0) - k1
    return _add_linear_part((k0, one_minus_kappa1, 2.0 - one_minus_kappa1), w, v, layer)


def _scaled_dual(half_g: Any, parts: tuple[Any, Any, Any], layer: Any) -> Dual:
    """Return the dual activations of `_kappas`, times `factor`."""
    k0, one_minus_kappa1, one_plus_kappa1 = parts
    g = layer.factor * half_g
    deficit = g * one_minus_kappa1
    return Dual(deficit, g, one_plus_kappa1, g - deficit, k0)


def times_slope(k0: Any, w: Any, v: Any, layer: Any, tangent: Any) -> Any:
    r"""Return :math:`\dot K \odot` `tangent`, with :math:`\dot K = \kappa_0/2` times the factor.

    κ0 itself is not rounded: near 1 it would be rounded alike in all layers, because angles hardly
    change from layer to layer there.

    Parameters
    ----------
    k0 : array
        Of `dual`.
    w, v, layer
        As in `dual`.
    tangent : array or float

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import activations
    >>> k0, one = np.array([0.25]), np.array([1.0])
    >>> relu = activations.ReluConstants(2.0, 1.0)
    >>> activations.times_slope(k0, 0.5 * one, 1.5 * one, relu, 8.0)
    array([6.])
    """
    whole = layer.half_factor * tangent
    part = k0 * whole
    return where_less(w, v, whole - part, _add_linear_slope(part, whole, layer))


def _add_linear_part(parts: Any, w: Any, v: Any, layer: Any) -> Any:
    """Return k0, 1 − κ1 and 1 + κ1 with the share λ of the linear network; no term is negative."""
    if layer.linear_share != 0.0:
        k0, one_minus_kappa1, one_plus_kappa1 = parts
        k0 = k0 - layer.linear_share * k0
        one_minus_kappa1 = one_minus_kappa1 + layer.linear_share * (w - one_minus_kappa1)
        one_plus_kappa1 = one_plus_kappa1 + layer.linear_share * (v - one_plus_kappa1)
        return k0, one_minus_kappa1, one_plus_kappa1
    return parts


def _add_linear_slope(part: Any, whole: Any, layer: Any) -> Any:
    """Return a `part` of κ0 of opposite pixels with the share λ of the linear network."""
    return part + layer.linear_share * whole if layer.linear_share != 0.0 else part
