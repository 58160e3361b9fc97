r"""Dual activations: expectations of an activation under correlated Gaussians.

For :math:`(u, v) \sim N(0, [[q_1, S], [S, q_2]])` each activation knows
:math:`E[\sigma(u)\sigma(v)]` and :math:`E[\sigma'(u)\sigma'(v)]`, and the *half squared
distance* that replaces the covariance throughout this library,

.. math:: D = (q_1 + q_2)/2 - S .

Near correlation 1 a covariance has lost the digits that decide; a distance has them. With
:math:`g = \sqrt{q_1 q_2}` and :math:`z = (\sqrt{q_1} - \sqrt{q_2})^2/2` the complement of
the correlation is :math:`w = 1 - \rho = (D - z)/g`, and the formulas below take it instead
of :math:`\rho`. They write into arrays that they are given, and work on NumPy and on CuPy
arrays alike (every function is reached through the array module ``xp``).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from .arrays import Array


class Pixels(NamedTuple):
    """What a pixel pair needs to know of one of its pixels, for one layer.

    Arrays of any one shape: `half_root` is √(q/2), `inverse` 1/√q (0 where q is 0),
    `extra` whatever else the activation asked for in `Activation.extra`. The unit of q is
    the caller's (`Activation.dual` is told it), that of `extra` is 1.
    """

    half_root: Array
    inverse: Array
    extra: tuple[Array, ...]


class Scratch(NamedTuple):
    """Arrays of a tile's shape: the inputs of `Activation.dual`, replaced by its results.

    In: `w` = 1 − ρ, and in the unit of q `half_g` = g/2 and `z`; `v` = 1 + ρ for homogeneous
    activations, for others the covariance S in the unit of q.
    Out: `half_g` holds E[σσ], `z` its half squared distance, `slope` E[σ'σ'] times the unit
    of q, all three times the factor asked for. The rest is spoilt.
    """

    w: Array
    v: Array
    half_g: Array
    z: Array
    slope: Array
    spare: Array
    one: Array
    two: Array


class Activation(Protocol):
    """A nonlinearity of the hidden units, as the recursion over layers sees it."""

    homogeneous: bool
    """Whether σ(cu) = cσ(u) for c > 0: then signals and layers may be rescaled."""

    def diagonal(self, xp: Any, q: Array, unit: float, factor: float) -> tuple[Array, Array]:
        """Return E[σ(u)²] and E[σ'(u)²] as `dual` does, for one pixel of variance `q`."""

    def extra(self, xp: Any, q: Array, unit: float) -> tuple[Array, ...]:
        """Return the per-pixel tables, besides √q, that `dual` wants."""

    def dual(
        self, xp: Any, p: Pixels, o: Pixels, s: Scratch, unit: float, factor: float, slope: bool
    ) -> None:
        """Turn correlations of pixels `p` and `o` into dual activations, in place.

        Parameters
        ----------
        s : Scratch
            Where the inputs are and the results go.
        unit : float
            What the variances behind `p`, `o`, `s.half_g` and `s.z` are to be multiplied by.
        factor : float
            What the results are to be multiplied by.
        slope : bool
            Whether `s.slope` is wanted.
        """


class Relu:
    r"""ReLU: the arc-cosine kernels (Cho and Saul 2009).

    :math:`E[\sigma\sigma] = g\kappa_1(\rho)/2` and :math:`E[\sigma'\sigma'] =
    \kappa_0(\rho)/2`, hence :math:`D = (z + g(1-\kappa_1))/2`.
    """

    homogeneous = True

    def diagonal(self, xp: Any, q: Array, unit: float, factor: float) -> tuple[Array, Array]:
        half = 0.5 * (factor * unit)
        return half * q, xp.full_like(q, half)

    def extra(self, xp: Any, q: Array, unit: float) -> tuple[Array, ...]:
        return ()

    def dual(
        self, xp: Any, p: Pixels, o: Pixels, s: Scratch, unit: float, factor: float, slope: bool
    ) -> None:
        factor *= unit
        angle, gap = angle_and_kappa1_excess(xp, s.w, s.v, s.spare, s.slope, (s.one, s.two))
        xp.subtract(s.w, gap, out=s.w)  # 1 − κ1
        xp.multiply(s.half_g, factor, out=s.half_g)
        xp.multiply(s.w, s.half_g, out=s.w)  # g (1 − κ1) / 2
        xp.subtract(s.half_g, s.w, out=s.half_g)  # g κ1 / 2
        xp.multiply(s.z, 0.5 * factor, out=s.z)
        xp.add(s.z, s.w, out=s.z)
        if slope:
            xp.multiply(angle, -0.5 * factor / math.pi, out=s.slope)
            xp.add(s.slope, 0.5 * factor, out=s.slope)


class Erf:
    r"""The error function (Williams 1997; used by Tirer et al. 2022).

    With :math:`\Delta = (1+2q_1)(1+2q_2) - 4S^2`, :math:`E[\sigma\sigma] = \frac2\pi
    \arctan(2S/\sqrt\Delta)` and :math:`E[\sigma'\sigma'] = \frac4\pi/\sqrt\Delta`. Written
    as :math:`\Delta = 1 + 2q_1 + 2q_2 + 4gw(g + S)`, all terms are positive.
    """

    homogeneous = False

    def diagonal(self, xp: Any, q: Array, unit: float, factor: float) -> tuple[Array, Array]:
        root = xp.sqrt(1.0 + 4.0 * unit * q)
        both = (2.0 / math.pi * factor) * xp.arctan(2.0 * unit * q / root)
        return both, (4.0 / math.pi * factor * unit) / root

    def extra(self, xp: Any, q: Array, unit: float) -> tuple[Array, ...]:
        return 0.5 + 2.0 * unit * q, 0.5 * self.diagonal(xp, q, unit, 1.0)[0]

    def dual(
        self, xp: Any, p: Pixels, o: Pixels, s: Scratch, unit: float, factor: float, slope: bool
    ) -> None:
        xp.multiply(s.half_g, 4.0 * unit, out=s.half_g)  # 2g
        xp.multiply(s.w, s.half_g, out=s.w)  # 2gw
        xp.multiply(s.v, 2.0 * unit, out=s.v)  # 2S
        xp.add(s.half_g, s.v, out=s.spare)
        xp.maximum(s.spare, 0.0, out=s.spare)  # a rounding error may take it below
        xp.multiply(s.spare, s.w, out=s.spare)  # 4gw (g + S)
        xp.add(p.extra[0], o.extra[0], out=s.z)
        xp.add(s.spare, s.z, out=s.spare)
        xp.sqrt(s.spare, out=s.spare)  # √Δ
        xp.arctan2(s.v, s.spare, out=s.half_g)
        xp.multiply(s.half_g, 2.0 / math.pi * factor, out=s.half_g)
        xp.add(p.extra[1], o.extra[1], out=s.z)
        xp.multiply(s.z, factor, out=s.z)
        xp.subtract(s.z, s.half_g, out=s.z)
        if slope:
            xp.divide(4.0 / math.pi * factor * unit, s.spare, out=s.slope)


BY_NAME: dict[str, Activation] = {"relu": Relu(), "erf": Erf()}


def _series(terms: int) -> tuple[float, ...]:
    """Return the power series of k1(w) / (w √(w(2−w))) at w = 0.

    Term by term, k1 is the integral of arccos(1−w)/π, with arccos(1−w) = √(2w) Σ C(2n,n)
    wⁿ/((2n+1) 8ⁿ); and 1/√(2−w) = Σ C(2n,n) wⁿ/(√2 8ⁿ).
    """
    binomials = [math.comb(2 * n, n) / 8**n for n in range(terms)]
    integral = [b / ((2 * n + 1) * (n + 1.5)) for n, b in enumerate(binomials)]
    return tuple(np.convolve(integral, binomials)[:terms] / math.pi)


# Below this the difference √(1−ρ²) − ρθ ~ w^(3/2) has lost digits to its terms ~ w^(1/2), and
# 1 − κ1 = w − k1 with it: the loss, a few units over √w, has one sign, and in a deep network
# on nearly equal signals adds up over layers. Terms of the series fall by 1/128 each.
_SERIES_END = 1.0 / 64.0
_SERIES = _series(8)


def angle_and_kappa1_excess(
    xp: Any,
    w: Array,
    v: Array,
    root: Array = None,
    angle: Array = None,
    spare: tuple[Array, Array] = (None, None),
) -> tuple[Array, Array]:
    r"""Return :math:`\theta = \arccos\rho` and :math:`k_1 = \kappa_1 - \rho`.

    These are all there is to ReLU: :math:`\kappa_0 = 1 - \theta/\pi` and
    :math:`1 - \kappa_1 = w - k_1` with :math:`k_1 = (\sqrt{1-\rho^2} - \rho\theta)/\pi`.

    Parameters
    ----------
    xp : module
        numpy or cupy.
    w, v : array
        1 − ρ and 1 + ρ, both given because each has lost its digits where the other is
        near 2. `v` is overwritten.
    root, angle : array, optional
        Where the results go: `angle` becomes θ, `root` becomes k1.
    spare : two arrays, optional
        Scratch space.

    Returns
    -------
    theta, k1 : array
        θ with a relative error of a few rounding units, k1 with one of a few units times w.
    """
    root = xp.multiply(w, v, out=root)
    root = xp.sqrt(root, out=root)  # √(1 − ρ²)
    rho = xp.subtract(1.0, w, out=v)
    angle = xp.arctan2(root, rho, out=angle)
    rho = xp.multiply(rho, angle, out=rho)
    if float(w.min()) >= _SERIES_END:
        gap = xp.subtract(root, rho, out=root)
        return angle, xp.multiply(gap, 1.0 / math.pi, out=gap)
    series, small = spare
    series = xp.multiply(w, _SERIES[-1], out=series)
    for coefficient in _SERIES[-2:0:-1]:
        series = xp.add(series, coefficient, out=series)
        series = xp.multiply(series, w, out=series)
    series = xp.add(series, _SERIES[0], out=series)
    series = xp.multiply(series, w, out=series)
    series = xp.multiply(series, root, out=series)
    gap = xp.subtract(root, rho, out=root)
    gap = xp.multiply(gap, 1.0 / math.pi, out=gap)
    # Where w is small, gap + (series − gap); elsewhere gap + 0. Cheaper than a masked copy.
    series = xp.subtract(series, gap, out=series)
    if small is None:
        small = xp.empty_like(series)
    small[...] = w < _SERIES_END
    series = xp.multiply(series, small, out=series)
    return angle, xp.add(gap, series, out=gap)


def one_minus_kappa1(w: np.ndarray) -> np.ndarray:
    r"""Return :math:`1 - \kappa_1(1 - w)` with full relative accuracy, however small `w` is.

    Parameters
    ----------
    w : ndarray
        Complements 1 − ρ of correlations, in [0, 2].

    Returns
    -------
    ndarray of the same shape
        In [0, 1]; near 0 it is :math:`w - \frac{2\sqrt2}{3\pi} w^{3/2}`.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.activations import one_minus_kappa1
    >>> one_minus_kappa1(np.array([0.0, 1.0, 2.0])).round(4)
    array([0.    , 0.6817, 1.    ])
    """
    w = np.asarray(w, dtype=np.float64)
    flat = w.ravel()
    return (flat - angle_and_kappa1_excess(np, flat, 2.0 - flat)[1]).reshape(w.shape)
