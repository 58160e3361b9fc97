r"""Activations: the nonlinearities of the hidden units, with all formulas about them.

For Gaussians :math:`(u, v) \sim N(0, [[q_1, S], [S, q_2]])` a layer needs the *dual activation*
:math:`E[\sigma(u)\sigma(v)]` and its slope :math:`E[\sigma'(u)\sigma'(v)]`.
Let :math:`g = \sqrt{q_1 q_2}` and :math:`\rho = S/g`. The arguments of functions are
:math:`w = 1 - \rho` and :math:`v = 1 + \rho` instead of S, and results include deficits besides
covariances, because a rounded covariance hardly determines :math:`1 \mp \rho` near correlations of
:math:`\pm 1`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..arrays import Array


class Gaussians(NamedTuple):
    """Correlated Gaussians (u, v) at pixel pairs. The arrays broadcast against each other."""

    w: Array
    """w = 1 − ρ, from 0 to 2."""

    v: Array
    """v = 1 + ρ. It is given besides w, because 2 − w is inaccurate where w is near 2."""

    g: Array
    """g = √(q1 q2)."""

    variances: tuple[Array, Array]
    """q1 and q2."""


class Dual(NamedTuple):
    """Dual activations at pixel pairs, divided by the activation's `dual_divisor`."""

    K: Array
    """E[σ(u)σ(v)]."""

    deficits: tuple[Array, Array]
    """√(E[σ(u)²] E[σ(v)²]) ∓ E[σ(u)σ(v)], which are U and U⁺ of the branch."""

    times_slope: Callable[[Any], Array]
    """A function that multiplies its argument by E[σ'(u)σ'(v)]."""


class Activation(ABC):
    """A nonlinearity σ of the hidden units with σ(0) = 0, and the formulas about it."""

    name: ClassVar[str]
    """The name that users give to `Network`."""

    homogeneous: ClassVar[bool] = False
    """Whether σ(cu) = c σ(u) for c > 0. `Network.homogeneous` says what follows from it."""

    has_negative_slope: ClassVar[bool] = False
    """Whether ``Network.negative_slope`` may be other than 0 with this activation."""

    dual_divisor: Fraction = Fraction(1)
    """The divisor in the results of `dual` and `variance`.

    It is E[σ(u)²]/q for homogeneous activations, and 1 for others."""

    linear_share: float = 0.0
    """λ, the share of a linear network in `dual`."""

    least_U_plus: float = 0.0
    """A lower bound of U⁺/g = 1 + K/g after a homogeneous activation; 0 for other activations."""

    linear_below: ClassVar[float | None] = None
    """If all pre-activations are smaller than this, the network is linear up to relative errors of
    2^-100. None means that there is no such number."""

    largest_variance: ClassVar[float] = math.inf
    """For variances below this number, all numbers in `dual` stay in the range of float64."""

    @property
    @abstractmethod
    def largest_slope(self) -> float:
        """The largest value of |σ'(u)|, so that |σ(u)| is at most this number times |u|."""

    @abstractmethod
    def function(self, xp: ModuleType, special: ModuleType, u: Array) -> Array:
        """Return σ(u) for an array of the module `xp`, whose special functions are in `special`.

        The modules are numpy and scipy.special, or jax.numpy and jax.scipy.special.
        """

    @abstractmethod
    def variance(self, xp: ModuleType, q: Array) -> Array:
        """Return E[σ(u)²]/`dual_divisor` for u of variance `q`, an array of the module `xp`."""

    @abstractmethod
    def dual(self, xp: ModuleType, pairs: Gaussians) -> Dual:
        """Return the dual activations of pixel pairs. Where a variance is 0, K and deficits are 0.

        Let s = √(E[σ(u)²] E[σ(v)²]). The errors of deficits are at most some rounding units of s.
        Near ρ = 1 the deficit U must be more accurate for two activations. The slope of ReLU
        depends on the root of U, so that the error of U is some units of U itself. GELU becomes
        ReLU if later layers enlarge variances, so that the error of U is some units of √(U s).
        """

    def correlation_map(self, xp: ModuleType, w: Array, v: Array, q1: Array, q2: Array) -> Dual:
        """Return `dual` for Gaussians with variances `q1` and `q2`, 1 − ρ = `w` and 1 + ρ = `v`.

        If the slope has no square-root singularity at ρ = −1, `v` may be 2 − w.
        """
        return self.dual(xp, Gaussians(w, v, xp.sqrt(q1) * xp.sqrt(q2), (q1, q2)))


class Relu(Activation):
    r"""ReLU: the arc-cosine kernels (Cho and Saul 2009).

    :math:`E[\sigma\sigma] = g\kappa_1(\rho)/2` and :math:`E[\sigma'\sigma'] =
    \kappa_0(\rho)/2`. A leaky ReLU, max(u, s u), has 1 + s² times these with the share
    :math:`\lambda = 2s/(1+s^2)` of the linear network: :math:`(1-\lambda)\kappa_1 + \lambda\rho`
    and :math:`(1-\lambda)\kappa_0 + \lambda`.

    Parameters
    ----------
    negative_slope : float, default 0.0
        The slope s below 0.
    """

    name = "relu"
    homogeneous = True
    has_negative_slope = True
    largest_slope = 1.0

    def __init__(self, negative_slope: float = 0.0) -> None:
        self.negative_slope = negative_slope
        self.dual_divisor = (1 + Fraction(negative_slope) ** 2) / 2
        self.linear_share = negative_slope / float(self.dual_divisor)
        # κ is at least λρ for ρ < 0, and at least 0 if the slope is negative.
        self.least_U_plus = min(1.0, 1.0 - self.linear_share)

    def function(self, xp: ModuleType, special: ModuleType, u: Array) -> Array:
        return xp.where(u > 0, u, self.negative_slope * u)

    def variance(self, xp: ModuleType, q: Array) -> Array:
        return q

    def dual(self, xp: ModuleType, pairs: Gaussians) -> Dual:
        w, v, g, _ = pairs
        most = w.dtype.type(1.0 - self.linear_share)  # the largest k0
        k0, less, more = kappas(xp, w, v, self.linear_share)
        lost = xp.where(w < v, k0, most - k0)  # 1 − κ₀
        deficit = g * less
        return Dual(g - deficit, (deficit, g * more), lambda A: A - lost * A)


class Erf(Activation):
    r"""The error function (Williams 1997; used by Tirer et al. 2022).

    With :math:`\Delta = (1+2q_1)(1+2q_2) - 4S^2`, :math:`E[\sigma\sigma] = \frac2\pi
    \arctan(2S/\sqrt\Delta)` and :math:`E[\sigma'\sigma'] = \frac4\pi/\sqrt\Delta`. Half squared
    distances are angles of positive terms, which keep their relative accuracy.
    """

    name = "erf"
    largest_slope = 2.0 / math.sqrt(math.pi)
    linear_below = 2.0**-100
    largest_variance = 1e153  # its square is below the largest float64

    def function(self, xp: ModuleType, special: ModuleType, u: Array) -> Array:
        return special.erf(u)

    def variance(self, xp: ModuleType, q: Array) -> Array:
        return (2.0 / math.pi) * xp.arctan(2.0 * q / xp.sqrt(1.0 + 4.0 * q))

    def dual(self, xp: ModuleType, pairs: Gaussians) -> Dual:
        w, v, g, (q1, q2) = pairs
        is_positive = w < v  # if not, ρ ≤ 0, and the formulas are those of (u, −v)
        smaller = xp.where(is_positive, w, v)  # 1 − |ρ|
        two_g, two_gw = 2.0 * g, 2.0 * g * smaller
        two_S = two_g - two_gw  # |2 S|
        two_z = (xp.sqrt(q1) - xp.sqrt(q2)) ** 2
        m = (0.5 + 2.0 * q1) + (0.5 + 2.0 * q2)  # 1 + 2 q1 + 2 q2
        root = xp.sqrt((two_g + two_S) * two_gw + m)  # √Δ
        m = two_g * two_g + m  # (1 + 2 q1)(1 + 2 q2)

        # The half squared distance D is 2/π times an angle, with
        # tan = X (p + 4|S|) m / ((p √Δ + 2|S| s)(s √Δ + 2|S| p));
        # t = √(1 + 4q), s = t1 + t2, p = t1 t2 − 1;
        # X = p − 4|S| = 64 z (z + 2g) / (s² (p + 4g)) + 4gw.
        tiny = float(np.finfo(two_g.dtype).tiny)  # where both pixels are 0, the angle is 0
        t1, t2 = (4.0 * q / (1.0 + xp.sqrt(1.0 + 4.0 * q)) for q in (q1, q2))  # t − 1
        s = t1 + t2
        p = t1 * t2 + s
        s = s + 2.0
        # Quotients come first, because products of tiny variances would underflow.
        X = (2.0 * two_g + two_z) / (2.0 * two_g + p + tiny)
        X = X * two_z / s / s * 16.0 + 2.0 * two_gw
        X = X / (p * root + two_S * s + tiny)
        X = X * (m / (s * root + two_S * p))
        X = X * (p + 2.0 * two_S)
        distance = (2.0 / math.pi) * xp.arctan(X)
        K = (2.0 / math.pi) * xp.arctan(two_S / root)
        root1, root2 = xp.sqrt(self.variance(xp, q1)), xp.sqrt(self.variance(xp, q2))
        most, z = root1 * root2, 0.5 * (root1 - root2) ** 2
        # Where the sizes differ much, the distance is hardly larger than z, and distance − z is
        # inaccurate.
        less, more = xp.where(z > most, most - K, xp.maximum(distance - z, 0.0)), most + K
        slope = (4.0 / math.pi) / root
        return Dual(
            xp.where(is_positive, K, -K),
            (xp.where(is_positive, less, more), xp.where(is_positive, more, less)),
            lambda A: slope * A,
        )


class Gelu(Activation):
    r"""The Gaussian error linear unit, u Φ(u) (Hendrycks and Gimpel 2016).

    By Stein's lemma (also Tsuchida et al. 2021), with :math:`P = (1+q_1)(1+q_2)`,
    :math:`D = P - S^2` and :math:`\theta = \arccos(S/\sqrt P)`,

    .. math::
        E[\sigma\sigma] = \frac S2 + \frac H2, \qquad
        H = \frac1\pi \Bigl(\frac{\sqrt D\, g^2}{P} + \frac{S^2}{P\sqrt D} - S\theta\Bigr)

    and :math:`E[\sigma'\sigma'] = \frac12 - \frac\theta{2\pi} + \frac{S}{2\pi\sqrt D}
    \bigl(\frac{2+q_1+q_2}P + \frac1D\bigr)`. H(−S) = H(S) + S. For large q it falls like
    :math:`q^{-1/2}` at ρ = 1: the rest is a ReLU's. docs/theory/activations.md has the derivation.
    """

    name = "gelu"
    largest_slope = 0.5 * (1.0 + math.erf(1.0)) + math.exp(-1.0) / math.sqrt(math.pi)  # at u = √2
    linear_below = 2.0**-100
    largest_variance = 1e300

    def function(self, xp: ModuleType, special: ModuleType, u: Array) -> Array:
        return u * special.ndtr(u)

    def variance(self, xp: ModuleType, q: Array) -> Array:
        h, *_ = self._h_and_slope(xp, q, q, 0.0 * q)
        return q * (0.5 + 0.5 * h)

    def dual(self, xp: ModuleType, pairs: Gaussians) -> Dual:
        w, v, g, (q1, q2) = pairs
        is_positive = w < v  # if not, ρ ≤ 0, and H and the slope are those of |S|
        smaller = xp.where(is_positive, w, v)
        rho = 1.0 - smaller  # |ρ|
        h, slope, gamma, sine = self._h_and_slope(xp, q1, q2, smaller)
        (h1, *_), (h2, *_) = (self._h_and_slope(xp, q, q, 0.0 * q) for q in (q1, q2))
        most = xp.sqrt((0.5 + 0.5 * h1) * (0.5 + 0.5 * h2))  # √(E[σ(u)²] E[σ(v)²]) / g
        K = xp.where(is_positive, 0.5 * rho, 0.0) + 0.5 * h
        # The product of most + K and most − K, for S > 0, in which 1 − ρ² does not cancel.
        sine2 = smaller * (1.0 + rho)
        product = 0.25 * (sine2 + (h1 + h2 - 2.0 * rho * h) + (h1 * h2 - h * h))
        less = xp.maximum(product, 0.0) / xp.where(is_positive, most + K, 1.0)
        integral, has_digits = self._deficit_of_similar_sizes(
            xp, q1, q2, h1, h2, smaller, gamma, sine
        )
        less = xp.where(has_digits & (g * xp.sqrt(smaller) < 1.0), integral, less)
        less = xp.where(is_positive, less, most - K)
        slope = xp.where(is_positive, slope, 0.5 - slope)
        deficits = g * less, g * xp.maximum(most + K, 0.0)
        return Dual(g * K, deficits, lambda A: slope * A)

    def _h_and_slope(self, xp: ModuleType, q1: Array, q2: Array, w: Array) -> tuple[Array, ...]:
        """Return H/g, the slope, g/√P and sin θ at the correlation 1 − `w`, which is at least 0."""
        e1, e2 = 1.0 / (1.0 + q1), 1.0 / (1.0 + q2)
        gamma = xp.sqrt(q1 * e1) * xp.sqrt(q2 * e2)  # g / √P
        cosine = gamma * (1.0 - w)
        sine2 = e1 + e2 * (q1 * e1) + gamma * gamma * (w * (2.0 - w))  # D / P, not as a difference
        sine = xp.sqrt(sine2)
        angle, k1 = angle_and_kappa1_excess(xp, sine2 / (1.0 + cosine), 1.0 + cosine)
        e12 = e1 * (e2 / sine)  # 1 / (P sin θ)
        # H/g is computed from k1 of ReLU for large q, and from S for small q.
        safe_gamma = xp.where(gamma > 0.5, gamma, 1.0)
        large = (k1 + (e12 - (e1 + e2) * sine) / math.pi) / safe_gamma
        small = (gamma * (sine + (1.0 - w) ** 2 * e12) - (1.0 - w) * angle) / math.pi
        slope = 0.5 - angle / (2.0 * math.pi)
        slope = slope + cosine / (2.0 * math.pi * sine) * (e1 + e2 + e12 / sine)
        return xp.where(gamma > 0.5, large, small), slope, gamma, sine

    def _deficit_of_similar_sizes(
        self,
        xp: ModuleType,
        q1: Array,
        q2: Array,
        h1: Array,
        h2: Array,
        w: Array,
        gamma: Array,
        sine: Array,
    ) -> tuple[Array, Array]:
        """Return (√(K1 K2) − K)/g for similar variances, and a mask of where it is accurate.

        The first summand is the deficit at ρ = 1: half the squared distance of u Φ(u)/√q1 and
        v Φ(v)/√q2, less half the squared difference of their norms. The second is (K(ρ = 1) − K)/g.
        docs/theory/activations.md has both.
        """
        root1, root2 = xp.sqrt(q1), xp.sqrt(q2)
        difference = root2 - root1
        norms = 0.5 * (h1 - h2) / (xp.sqrt(0.5 + 0.5 * h1) + xp.sqrt(0.5 + 0.5 * h2))
        squares = [(root1 + difference * x) ** 2 for x in _NODES]
        distance = 0.0
        for j, k in combinations_with_replacement(range(len(_NODES)), 2):
            weight = _WEIGHTS[j] * _WEIGHTS[k] * (1.0 if j == k else 2.0)
            inverse = 1.0 / (1.0 + squares[j] + squares[k])
            distance = distance + weight * inverse * inverse * xp.sqrt(inverse)
        at_one = xp.maximum(0.75 / math.pi * difference**2 * distance - 0.5 * norms**2, 0.0)

        mean = 1.0 / (1.0 + q1) + 1.0 / (1.0 + q2)
        sine_at_one = xp.sqrt(1.0 / (1.0 + q1) + (q1 / (1.0 + q1)) / (1.0 + q2))
        angle = xp.arctan2(sine_at_one, gamma)
        both = sine + sine_at_one
        turned = gamma * w * (gamma**2 * (2.0 - w) / both + sine_at_one)
        turned = xp.arctan(turned / (gamma**2 * (1.0 - w) + sine * sine_at_one))
        remainder = mean * gamma**2 / (sine_at_one * both) + mean - 1.0
        remainder = gamma * (w * (2.0 - w)) / sine * remainder
        less = w * (0.5 - angle / (2.0 * math.pi)) + ((1.0 - w) * turned + remainder) / (
            2.0 * math.pi
        )
        return at_one + less, difference**2 < _SIMILAR**2 * (1.0 + q1)


_POINTS, _SUMMANDS = np.polynomial.legendre.leggauss(6)
_NODES, _WEIGHTS = (0.5 + 0.5 * _POINTS).tolist(), (0.5 * _SUMMANDS).tolist()
"""The nodes and weights of Gauss-Legendre quadrature on [0, 1]."""

_SIMILAR = 0.15
"""The largest difference of the roots of two variances, divided by √(1 + q), for which six nodes
are enough for an accurate distance."""


ACTIVATIONS: dict[str, type[Activation]] = {kind.name: kind for kind in (Relu, Erf, Gelu)}
"""All activations by their names."""


def activation_of(network: Any) -> Activation:
    """Return the nonlinearity of a `Network`'s hidden units.

    Parameters
    ----------
    network : Network

    Returns
    -------
    Activation

    Examples
    --------
    >>> from rescntk import Network
    >>> from rescntk.network import activations
    >>> activations.activation_of(Network(3, activation="erf")).homogeneous
    False
    """
    return _activation_of(network.activation, network.negative_slope)


@cache
def _activation_of(name: str, negative_slope: float) -> Activation:
    kind: Any = ACTIVATIONS[name]
    return kind(negative_slope) if kind.has_negative_slope else kind()


_SERIES_END = 1.0 / 64.0
"""The w below which k1 is computed from its power series.

k1 = (√(1−ρ²) − ρθ)/π ~ w^(3/2) is a difference of terms ~ w^(1/2). For small w its error is a few
rounding units of √w, which is a few units over √w relative to w. It always has the same sign, so
that in deep networks the errors of all layers add up if signals are nearly equal. A larger number
needs more terms of the series: each is about w/2 times the one before. At 1/64 the relative error
of 8 terms is 2^-56, and above 1/64 the difference is accurate within 8 units of w.
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

    The formulas of ReLU follow from them: :math:`\kappa_0 = 1 - \theta/\pi` and
    :math:`1 - \kappa_1 = w - k_1` with :math:`k_1 = (\sqrt{1-\rho^2} - \rho\theta)/\pi`.

    Parameters
    ----------
    xp : module
    w, v : array
        w = 1 − ρ and v = 1 + ρ, both accurate. Then the relative error of θ is a few rounding
        units, and the error of k1 is a few units of w.

    Returns
    -------
    tuple of arrays
        θ and k1, of the shape of `w`.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.network import activations
    >>> activations.angle_and_kappa1_excess(np, np.ones(1), np.ones(1))
    (array([1.57079633]), array([0.31830989]))
    """
    # This is tan(θ/2). NumPy's arctan takes 0.4 to 0.7 times as long as its arctan2.
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


def kappas(
    xp: ModuleType, w: Array, v: Array, linear_share: float = 0.0
) -> tuple[Array, Array, Array]:
    r"""Return :math:`k_0`, :math:`1 - \kappa_1` and :math:`1 + \kappa_1` of a ReLU or leaky ReLU.

    With :math:`a = \min(w, v)`: for w < v, :math:`\kappa_0 = 1 - k_0` and :math:`1 - \kappa_1 =
    w - k_1`; otherwise :math:`\kappa_0 = k_0` and :math:`1 - \kappa_1 = 1 - k_1`. A leaky ReLU has
    :math:`1 - \lambda` times :math:`k_0`, and :math:`1 \mp \kappa_1` are :math:`1 - \lambda` times
    these plus :math:`\lambda w` and :math:`\lambda v`. No terms cancel. The result is k0 and not
    κ0, because all layers would make the same error if a κ0 near 1 were rounded. Compiled engines
    use polynomials instead of the angle.

    Parameters
    ----------
    xp : module
        The module of the arrays: numpy or cupy.
    w, v : array
        1 − ρ and 1 + ρ.
    linear_share : float, default 0.0
        λ, the share of the linear network in a leaky ReLU's kernels.

    Returns
    -------
    tuple of arrays
        k0, 1 − κ1 and 1 + κ1, of the shape of `w`.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.network import activations
    >>> activations.kappas(np, np.ones(1), np.ones(1))
    (array([0.5]), array([0.68169011]), array([1.31830989]))
    """
    one = w.dtype.type(1.0)
    a = xp.minimum(xp.minimum(w, v), one)
    angle, k1 = angle_and_kappa1_excess(xp, a, 2.0 - a)
    k0, less = angle * (1.0 / math.pi), xp.where(w < v, w, one) - k1
    more = 2.0 - less
    if linear_share:
        k0, less = k0 - linear_share * k0, less + linear_share * (w - less)
        more = more + linear_share * (v - more)
    return k0, less, more
