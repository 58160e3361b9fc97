r"""Dual activations: expectations of an activation under correlated Gaussians.

For :math:`(u, v) \sim N(0, [[q_1, S], [S, q_2]])` the half squared distance is :math:`D =
(q_1 + q_2)/2 - S = z + gw`, with :math:`g = \sqrt{q_1 q_2}`, :math:`w = 1 - \rho = 1 - S/g` and
:math:`z = (\sqrt{q_1} - \sqrt{q_2})^2/2`. Functions take w and z in place of S, and return
distances besides covariances: near correlation 1 a covariance has lost the digits that decide.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .arrays import Array, array_module


class Pixels(NamedTuple):
    """Tables of single pixels at one layer, from which pixel pairs take their variances.

    Arrays of one shape. The unit of q is the caller's, and an argument of `dual`.
    """

    half_root: Array
    """√(q/2)."""

    extra: tuple[Array, ...]
    """The tables of the activation's `extra`."""


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
    """S, which erf needs."""


class DualResult(NamedTuple):
    """Dual activations at the pixel pairs of a tile, all three times the factor asked for."""

    K: Array
    """E[σ(u)σ(v)]."""

    branch_distance: Array
    """The half squared distance (E[σ(u)²] + E[σ(v)²])/2 − E[σ(u)σ(v)]."""

    times_slope: Callable[[Any], Any]
    """Multiplies numbers by E[σ'(u)σ'(v)] times the unit of q."""

    opposite_distance: Any = None
    """The half squared distance (E[σ(u)²] + E[σ(v)²])/2 + E[σ(u)σ(v)] to −σ(v), of erf."""


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

    homogeneous = True
    """Whether σ(cu) = cσ(u) for c > 0. What follows for networks are properties of `Network`."""

    def __init__(self, negative_slope: float = 0.0) -> None:
        self.gain = 1.0 + negative_slope**2
        self.linear_share = 2.0 * negative_slope / self.gain

    def diagonal(self, xp: ModuleType, q: Array, unit: float, factor: float) -> tuple[Array, Array]:
        """Return E[σ(u)²] and E[σ'(u)²] for u of variance `q`, scaled as in `dual`."""
        half = 0.5 * (factor * unit * self.gain)
        return half * q, xp.asarray(half, dtype=q.dtype)

    def extra(self, xp: ModuleType, q: Array, unit: float) -> tuple[Array, ...]:
        """Return the tables of single pixels that `dual` needs besides √q."""
        return ()

    def dual(
        self, left: Pixels, right: Pixels, pair: DualInput, *, unit: float, factor: float
    ) -> DualResult:
        """Return the dual activations of pixels `left` and `right`, all times `factor`.

        Variances are `unit` times the numbers in the tables and in `pair`.
        """
        xp, factor = array_module(pair.w), factor * unit * self.gain
        share = self.linear_share
        k0, less, _ = kappas(pair.w, pair.v, share)
        g = factor * pair.half_g
        deficit = g * less

        def times_slope(tangent: Any) -> Any:
            whole = 0.5 * factor * tangent
            part = k0 * whole
            return xp.where(pair.w < pair.v, whole - part, part + share * whole)

        return DualResult(g - deficit, 0.5 * factor * pair.z + deficit, times_slope)


class Erf:
    r"""The error function (Williams 1997; used by Tirer et al. 2022).

    With :math:`\Delta = (1+2q_1)(1+2q_2) - 4S^2`, :math:`E[\sigma\sigma] = \frac2\pi
    \arctan(2S/\sqrt\Delta)` and :math:`E[\sigma'\sigma'] = \frac4\pi/\sqrt\Delta`. Distances
    are angles of positive terms, which keep their relative accuracy.
    """

    homogeneous = False

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


Activation: TypeAlias = Relu | Erf
"""A nonlinearity σ of the hidden units; the methods of `Relu` and `Erf` mean the same."""

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


def kappas(w: Array, v: Array, linear_share: float = 0.0) -> tuple[Array, Array, Array]:
    r"""Return :math:`k_0`, :math:`1 - \kappa_1` and :math:`1 + \kappa_1` of a ReLU or leaky ReLU.

    With :math:`a = \min(w, v)`: for w < v, :math:`\kappa_0 = 1 - k_0` and :math:`1 - \kappa_1 =
    w - k_1`; otherwise :math:`\kappa_0 = \lambda + k_0` and :math:`1 - \kappa_1 = 1 - k_1`. No term
    cancels. A κ0 near 1 is not rounded: it would be rounded alike in all layers, because angles
    hardly change from layer to layer there. The compiled engines have polynomials in place of the
    angle (engines/compiled/formulas.h).

    Parameters
    ----------
    w, v : array
        1 − ρ and 1 + ρ.
    linear_share : float, default 0.0
        λ, the share of the linear network in a leaky ReLU's kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import activations
    >>> activations.kappas(np.ones(1), np.ones(1))
    (array([0.5]), array([0.68169011]), array([1.31830989]))
    """
    xp, one = array_module(w), w.dtype.type(1.0)
    a = xp.minimum(xp.minimum(w, v), one)
    angle, k1 = angle_and_kappa1_excess(xp, a, 2.0 - a)
    k0, less = angle * (1.0 / math.pi), xp.where(w < v, w, one) - k1
    more = 2.0 - less
    if linear_share:
        k0, less = k0 - linear_share * k0, less + linear_share * (w - less)
        more = more + linear_share * (v - more)
    return k0, less, more
