r"""Decay of eigenvalues with frequency: theorem 5.1 of Barzilai et al. 2022, and a sharper law.

:math:`c_1 \prod_i k_i^{-C_0-2} \le \lambda_k \le c_2 \prod_i k_i^{-(C_0-1)-2(\nu-1)/s}` for the s
pixels that have a frequency. ``docs/theory/spectrum.md`` has all formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln, gamma, gammaincc, gammaln

from ..engines.boxes import circular_mean
from ..network import RELU_FIELDS, Filter, Network, check_network
from ..validation import check_integer, is_sequence
from .argument_checks import check_channels, check_head, check_kind, check_pixels
from .complements import arc_cosines, check_nonzero
from .report_table import ReportTable
from .spectrum import eigenvalues
from .spectrum.grid import rotate, shifts, taps, widen, windows

__all__ = [
    "Constants", "DecayRow", "DecayTable", "constants", "exponents", "law", "taylor_coefficients",
]  # fmt: skip

_THEOREM = ": theorem 5.1 is about ReLU networks that read single pixels"

_NU = {"gpk": 2.5, "ntk": 1.5}
"""ν: coefficients of the kernel of equal dot products fall like n^−ν (lemma C.6)."""

_SPREADS = ((0,), (0, 1), (-1, 0, 1))
"""Sets of pixels over which a frequency is spread by default."""

_DEGREE = 256
"""Highest degree of series in one variable. Later coefficients, times their power, are taken to lie
between the last ones and the known limit: the two are within a percent."""

_FREQUENCIES = 64
"""Highest frequency at which the moments are searched for their least and largest."""

_MOST_PRODUCTS = 2e9
"""Most pairs of coefficients in a product of two series: 4 seconds of one core."""

_CUBE, _ROOT = 2.0 * math.sqrt(2.0) / (3.0 * math.pi), math.sqrt(2.0) / math.pi
"""Factors of (1 − ρ)^(3/2) in κ1 and of −(1 − ρ)^(1/2) in κ0 near ρ = 1 (lemma C.4). Near ρ = −1,
with 1 + ρ, both have the sign +."""


class DecayRow(NamedTuple):
    """How eigenvalues fall with a frequency on some pixels, and 0 on all others."""

    pixels: tuple[int, ...]
    """Pixels that have the frequency, relative to the output pixel."""
    exponent: float
    """Slope of log eigenvalue over log(k + C0/2 − 1), upper half of the frequencies. NaN where too
    few eigenvalues exceed errors."""
    uncertainty: float
    """Twice its difference from the slope over the quarter of the frequencies below, plus 1/K."""
    law: float
    """Exponent by `law`; −inf where eigenvalues are 0."""
    lowest: float
    """Lower bound on the exponent (theorem 5.1), unless eigenvalues are 0."""
    highest: float
    """Upper bound on the exponent (theorem 5.1)."""


@dataclass(frozen=True, eq=False)
class DecayTable(ReportTable):
    """Exponents; iterating gives a `DecayRow` for each set of pixels."""

    frequencies: np.ndarray
    """k = 1 … K, (K,)."""
    eigenvalues: np.ndarray
    """(n_sets, K); all 0 where no window of the last layer has all of a set's pixels."""
    errors: np.ndarray
    """Errors of the eigenvalues, (n_sets, K)."""


def exponents(
    network: Network, n_channels: int, n_timepoints: int, max_frequency: int, kind: str = "gpk",
    head: str = "equivariant", *, pixels: Iterable[Iterable[int]] | None = None, **options: Any,
) -> DecayTable:  # fmt: skip
    """Return exponents of eigenvalues over a frequency that is spread over one, two, three pixels.

    Figure 1 of Barzilai et al. 2022, with the bounds of theorem 5.1. R, the number of pixels in the
    receptive field, takes the place of the signal's in the theorem: a sharper bound.

    Parameters
    ----------
    network : Network
        With ReLU, and ``input_filter_size`` 1, as in the theorem.
    n_channels, n_timepoints, kind, head
        As for ``spectrum.eigenvalues``.
    max_frequency : int
        K, at least 8. Slopes are fitted to the frequencies from its half on.
    pixels : iterable of sets of pixels, optional
        Sets within the receptive field. The default is pixel 0; 0 and 1; −1, 0 and 1, as far as
        the receptive field has them.
    **options
        ``method``, ``nodes``, ``max_memory``, ``max_points``, ``progress`` of
        ``spectrum.eigenvalues``.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import decay
    >>> print(decay.exponents(literature.geifman_cnn(2), 2, 3, max_frequency=24))
    pixels  exponent  uncertainty  law  lowest  highest
    ---------------------------------------------------
         0    -4.063       0.3507   -4      -4       -2
       0 1    -5.988        0.201   -6      -8       -4
    -1 0 1    -5.931       0.2018   -6     -12       -6
    """
    C, d = _check(network, n_channels, n_timepoints, kind, head, {"input_filter_size"})
    highest, field = check_integer(max_frequency, "max_frequency", 8), windows(network, d)[1][-1]
    if pixels is None:
        sets = [s for s in (frozenset(p % d for p in s) for s in _SPREADS[:d]) if s <= field]
    else:
        sets = _sets(pixels, d, "sets of one or more integers")
        seen = [{(p - shift) % d for p in field} for shift in shifts(head, d)]
        for chosen in sets:
            if not any(map(chosen.issubset, seen)):
                raise ValueError(
                    f"pixels has {sorted(chosen)}, expected some of the receptive field's, "
                    f"{sorted(field)}: the kernel does not depend on others"
                )
    used = frozenset().union(*sets)
    top = [highest if pixel in used else 0 for pixel in range(d)]
    computed = eigenvalues(network, C, d, top, kind, head, return_error=True, **options)
    k, rows = np.arange(1, highest + 1), []
    at = [tuple(k if pixel in chosen else 0 for pixel in range(d)) for chosen in sets]
    for chosen, index in zip(sets, at, strict=True):
        known = np.where(computed.resolved[index], computed.eigenvalues[index], 0.0)
        quarter, half = highest // 4 - 1, highest // 2
        upper = _slope(k[half - 1 :], known[half - 1 :], C)
        error = 2 * abs(upper - _slope(k[quarter:half], known[quarter:half], C)) + 1 / highest
        expected = law(network, C, d, chosen, kind, head)
        s, above = len(chosen), 2 * (_NU[kind] - 1) / len(field)
        bounds = -s * (C + 2.0), -s * (C - 1.0 + above)
        rows.append(DecayRow(_relative(chosen, d), upper, error, expected, *bounds))
    values, errors = ([array[index] for index in at] for array in computed[:2])
    return DecayTable(tuple(rows), k, np.array(values), np.array(errors))


def law(
    network: Network, n_channels: int, n_timepoints: int, pixels: Iterable[int],
    kind: str = "gpk", head: str = "equivariant",
) -> float:  # fmt: skip
    """Return the exponent with which eigenvalues fall, from the kernel's singularities.

    A conjecture about large frequencies, supported by computed eigenvalues. −inf if eigenvalues
    are 0: no window of the last layer has all pixels.

    Parameters
    ----------
    network, n_channels, n_timepoints, kind, head
        As for `exponents`; any ``input_filter_size``.
    pixels : iterable of int
        Pixels that have the frequency, at least one. All others have frequency 0.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import decay
    >>> decay.law(literature.geifman_cnn(3), 2, 5, (-1, 1, 2))
    -8.0
    """
    C, d = _check(network, n_channels, n_timepoints, kind, head)
    (chosen,) = _sets([pixels], d, "one or more integers", pixels)
    parts = network.parts
    factors = network.alpha, network.c_v, network.c_w, network.readout_scale
    if not all(factors) or (kind == "ntk" and not network.trained):
        return -math.inf
    # The first layer whose κ0 the tangent kernel has: κ0 multiplies the derivatives by the parts
    # trained below its layer.
    first = network.depth + 1
    if kind == "ntk" and (parts.input or parts.inner or parts.outer):
        first = 1 if parts.input or parts.inner else 2
    # The windows of the last layer's pre-activation at pixel 0 and of all pre-activations below it.
    # `below` has the last layer in which each window occurs.
    seen, below = windows(network, d)[0], dict[frozenset[int], int]()
    reached, features = frozenset({0}), frozenset[int]()  # pixels of units, and what they take
    for layer in range(network.depth, 0, -1):
        for p in reached:
            below.setdefault(frozenset((p + k) % d for k in seen[layer - 1]), layer)
        inner = widen(reached, network.inner_filter(layer), d)
        features = features | inner if network.skip else inner
        reached = widen(features, network.outer_filter(layer), d)

    @cache
    def least(left: frozenset[int], steep: bool) -> float:
        """Return the least cost of covering `left`; `steep` if κ0 has still to be spent."""
        if not left:
            return 0.0
        pixel, costs = min(left), [math.inf]
        for window, layer in below.items():
            if pixel in window:
                cost = 3.0 + len(window) * (C - 1.0)
                costs.append(cost + least(left - window, steep))
                if steep and layer >= first:
                    costs.append(cost - 2.0 + least(left - window, False))
        return min(costs)

    # Seen from a unit of the last layer, at each pixel to which the outer filter reaches.
    moved = {
        frozenset((pixel + shift - tap) % d for pixel in chosen)
        for shift in shifts(head, d)
        for tap in taps(network.outer_filter(network.depth), d)
    }
    costs = (least(pixels, first <= network.depth) for pixels in moved if pixels <= seen[-1])
    return -min(costs, default=math.inf)


class Constants(NamedTuple):
    """Theorem 5.1 for a normalized kernel and one set of pixels."""

    pixels: tuple[int, ...]
    """Pixels that have a frequency, relative to the output pixel."""
    lower: float
    """c_1; 0 where no window of the last layer has all of the pixels."""
    upper: float
    """c_2."""
    lower_exponent: float
    """−C0 − 2."""
    upper_exponent: float
    """−(C0 − 1) − 2(ν − 1)/s, ν = 5/2 or 3/2 (tangent kernel): s pixels take the place of all
    pixels of the receptive field, a sharper bound than the theorem's."""

    def bounds(self, frequencies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper bound on eigenvalues of positive frequencies (..., s)."""
        product = np.asarray(frequencies, dtype=np.float64).prod(axis=-1)
        return self.lower * product**self.lower_exponent, self.upper * product**self.upper_exponent


def constants(
    network: Network, n_channels: int, n_timepoints: int, pixels: Iterable[int],
    kind: str = "gpk", head: str = "equivariant",
) -> Constants:  # fmt: skip
    """Return theorem 5.1's constants for a normalized kernel, computed and not fitted.

    The bounds hold for ``spectrum.eigenvalues(..., normalized=True)`` at positive frequencies on
    the pixels of a set S, and 0 on all others (Barzilai et al. 2022, lemmas C.1 to C.7).

    Parameters
    ----------
    network, n_channels, n_timepoints, kind, head
        As for `exponents`. A kernel that is 0 for every signal is refused.
    pixels : iterable of int
        The set S, at least one pixel.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import decay
    >>> found = decay.constants(literature.barzilai_cnn(2), 2, 1, pixels=[0])
    >>> [round(float(bound), 5) for bound in found.bounds([4])]  # the eigenvalue is 0.00221
    [0.0004, 0.04377]
    """
    C, d = _check(network, n_channels, n_timepoints, kind, head, {"input_filter_size"})
    (chosen,) = _sets([pixels], d, "one or more integers", pixels)
    check_nonzero(network, kind)
    s, nu, least, largest = len(chosen), _NU[kind], 0.0, 0.0
    moved = [{(p + shift) % d for p in chosen} for shift in shifts(head, d)]
    at_0 = one_variable(network, np.zeros(d), np.eye(d)[0], "gpk")
    for own in moved:
        least += _lower_coefficient(at_0, network, own, kind)
        # The largest N^ν b_N over N ≥ s (lemmas C.3-C.6). Here b_N is the coefficient of t^N of
        # the kernel whose dot products are t at the s pixels, else 1.
        inside = np.array([float(pixel in own) for pixel in range(d)])
        _, kernel, _, _, limits = one_variable(network, 1.0 - inside, inside, kind)
        n, (at_1, at_minus_1) = np.arange(s, _DEGREE + 1), limits[0]
        largest += max(float((n**nu * kernel[0, s:]).max()), float(at_1 + abs(at_minus_1)))
    lower = least / len(moved) * _least_of_powers(C) ** s
    upper = largest / len(moved) * _sum_of_moments(C, s, nu)
    exponents = -(C + 2.0), -(C - 1.0) - 2.0 * (nu - 1.0) / s
    return Constants(_relative(chosen, d), lower, upper, *exponents)


def taylor_coefficients(
    network: Network, n_timepoints: int, max_degree: int, kind: str = "gpk"
) -> np.ndarray:
    """Return the Taylor coefficients of a normalized equivariant kernel (lemmas C.1, C.2, C.7).

    On the multi-sphere a kernel is a power series in the pixels' dot products t (Barzilai et al.
    2022, appendix C). Entry n of the array, (max_degree + 1, ..., max_degree + 1) with d axes,
    multiplies the product of the powers n_i of t_i. All coefficients, of all degrees, sum to 1.

    Parameters
    ----------
    network : Network
        With ReLU.
    n_timepoints, max_degree : int
        Number d of pixels, and highest power of each pixel's dot product.
    kind : {"gpk", "ntk"}, default "gpk"

    Raises
    ------
    ValueError
        For more than 2e9 pairs of coefficients, and for a kernel that is 0 for every signal.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import decay
    >>> decay.taylor_coefficients(literature.geifman_cnn(2), 3, max_degree=1)[:, :, 0].round(4)
    array([[0.4937, 0.1005],
           [0.1005, 0.0093]])
    """
    check_network(network, RELU_FIELDS, ": the recursion of Taylor coefficients is about κ0 and κ1")
    check_nonzero(network, check_kind(kind))
    d, degree = check_pixels(n_timepoints), check_integer(max_degree, "max_degree", 0)
    products = float(degree + 1) ** (2 * d)
    if products > _MOST_PRODUCTS:
        raise ValueError(
            f"max_degree is {max_degree!r}: a product of two series has {products:.3g} pairs of "
            f"coefficients for {d} pixels, expected at most {_MOST_PRODUCTS:.3g}"
        )
    start = np.zeros((degree + 1,) * d)
    start[(min(degree, 1),) + (0,) * (d - 1)] = float(degree > 0)

    def mean(series: np.ndarray, window: Filter) -> np.ndarray:
        parts = [count * rotate(series[0], pixel) for pixel, count in taps(window, d).items()]
        return np.asarray(sum(parts) / window.size)[None]

    return _series(network, mean(start[None], network.input_filter), mean, kind)[-1][0]


# Series of several variables are arrays (n_series, K + 1, ..., K + 1), an axis for the degree in
# each variable.


def _series(
    network: Network, first: np.ndarray, mean: Callable[[np.ndarray, Filter], np.ndarray], kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the series H_i F of the last pre-activations, and of the normalized kernel.

    `first`, (n_series, K + 1, ...), are the input layer's. `mean` takes means over a window.
    """
    parts, s, tau = network.parts, network.branch_share, network.parts.input
    F, T = first, parts.input * first
    u = F
    # With the branch's share s of the variance: F ← (1 − s) F + s H_o κ1(H_i F).
    # T ← (1 − s) T + s H_o (o κ1(H_i F) + κ0(H_i F) · (i H_i F + H_i T)).
    for layer in range(1, network.depth + 1):
        inner, outer = network.inner_filter(layer), network.outer_filter(layer)
        u = mean(F, inner)
        k0, k1 = _compose(u)
        if kind == "ntk":
            branch = parts.outer * k1 + _multiply(k0, parts.inner * u + mean(T, inner))
            T = (1.0 - s) * T + s * mean(branch, outer)
            tau += s * (parts.outer + parts.inner)
        F = (1.0 - s) * F + s * mean(k1, outer)
    return u, F if kind == "gpk" else (parts.readout * F + T) / (parts.readout + tau)


def _compose(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the series of κ0(u) and κ1(u): D κ1 = κ0 D u, D κ0 = w D u / π, w = (1 − u²)^(−½).

    Coefficients of u are at least 0. D multiplies a coefficient by its total degree.
    """
    degree = np.asarray(sum(np.indices(u.shape[1:])))  # of each coefficient, over all variables
    Du, at_0 = degree * u, (slice(None),) + (0,) * (u.ndim - 1)
    k0 = _multiply(Du, _inverse_root(_multiply(u, u))) / (math.pi * np.maximum(degree, 1))
    k0[at_0], constant = arc_cosines(u[at_0])
    k1 = _multiply(Du, k0) / np.maximum(degree, 1)
    k1[at_0] = constant
    return k0, k1


def _multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the products of series, cut off at the degrees that the arrays have."""
    if np.count_nonzero(b) < np.count_nonzero(a):
        a, b = b, a
    result = np.zeros(a.shape)
    for n in np.argwhere(a.any(axis=0)):
        target, source = _shifted(n, a.shape)
        result[target] += a[(slice(None), *n)].reshape(-1, *[1] * len(n)) * b[source]
    return result


def _inverse_root(v: np.ndarray) -> np.ndarray:
    """Return the series of (1 − v)^(−½): n (1 − v_0) w_n = Σ_j (n − j/2) v_j w_(n−j)."""
    degree, at_0 = np.asarray(sum(np.indices(v.shape[1:]))), (slice(None),) + (0,) * (v.ndim - 1)
    w, left = np.zeros(v.shape), 1.0 - v[at_0]
    left = np.where(left > 0.0, left, np.inf)  # a constant of 1: κ0 and κ1 are 1, and w not needed
    for n in np.ndindex(v.shape[1:]):
        here, total = (slice(None), *n), sum(n)
        w[here] = w[here] / (total * left) if total else left**-0.5
        if w[here].any():
            target, source = _shifted(n, v.shape)
            push = (total + degree[source[1:]] / 2) * v[source]
            push[at_0] = 0.0
            w[target] += push * w[here].reshape(-1, *[1] * len(n))
    return w


def _shifted(n: np.ndarray | tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple, tuple]:
    """Return the places of a product's coefficients from degree n on, and of the factor's."""
    kept = (slice(length - int(k)) for k, length in zip(n, shape[1:], strict=True))
    return (slice(None), *(slice(int(k), None) for k in n)), (slice(None), *kept)


def one_variable(
    network: Network, constant: np.ndarray, slope: np.ndarray, kind: str
) -> tuple[np.ndarray, ...]:
    """Return series in one variable t, for dot products constant + slope · t of d pixels.

    The series (d, degrees) are the last pre-activations' and the kernel's. Three results, (d, 2),
    are for the ends t = ±1. The first has the last pre-activations' values. The second has the
    factors of x^(3/2), x being the distance from the end. The third has the shares in the limit of
    n^ν times the kernel's coefficients.
    """

    def mean(values: np.ndarray, window: Filter) -> np.ndarray:
        return circular_mean(values, *window)

    first = np.zeros((len(slope), _DEGREE + 1))
    first[:, 0], first[:, 1] = constant, slope
    before, kernel = _series(network, first, mean, kind)
    # At its ends F is value ∓ slope x + cube x^(3/2) + …, and T has root x^(1/2).
    s, parts = network.branch_share, network.parts
    F = constant[:, None] + np.array([1.0, -1.0]) * slope[:, None]
    slope, tau = np.broadcast_to(slope[:, None], F.shape), parts.input
    T, cube, root = parts.input * F, np.zeros_like(F), np.zeros_like(F)
    for layer in range(1, network.depth + 1):
        inner, outer = network.inner_filter(layer), network.outer_filter(layer)
        u, steep, cube_before = (mean(values, inner) for values in (F, slope, cube))
        inside = parts.inner * u + mean(T, inner)
        k0, k1 = arc_cosines(u)
        sign = np.isclose(u, -1.0).astype(float) - np.isclose(u, 1.0)  # of κ0's root
        own_root = _ROOT * sign * np.sqrt(steep) * inside
        own_cube = _CUBE * np.abs(sign) * steep**1.5
        root = (1 - s) * root + s * mean(k0 * mean(root, inner) + own_root, outer)
        T = (1 - s) * T + s * mean(parts.outer * k1 + k0 * inside, outer)
        cube = (1 - s) * cube + s * mean(k0 * cube_before + own_cube, outer)
        slope = (1 - s) * slope + s * mean(k0 * steep, outer)
        F = (1 - s) * F + s * mean(k1, outer)
        tau += s * (parts.inner + parts.outer)
    limits = cube / gamma(-1.5) if kind == "gpk" else root / gamma(-0.5) / (parts.readout + tau)
    return before, kernel, u, cube_before, limits


def _lower_coefficient(
    series: tuple[np.ndarray, ...], network: Network, pixels: set[int], kind: str
) -> float:
    """Return a c of lemma C.1: Taylor coefficients are a_n ≥ c Π n_i^(−5/2), n_i > 0 on `pixels`.

    `series` has the dot product of pixel 0 as its variable, and 0 elsewhere.
    """
    before, kernel, value_before, cube_before, limits = series
    s, d, parts = len(pixels), len(kernel), network.parts
    of_features = of_branch = 1.0
    if kind == "ntk":  # lemma C.2: r K of the features, (o + r) K of the last layer's branch
        branches = network.depth * network.branch_share
        total = parts.initial + (parts.inner + parts.outer) * branches
        of_features, of_branch = parts.readout / total, parts.outer_plus_readout / total
    # Let u = u_0 + Σ g_i(t_i) + …, and D the derivative of κ1 at u_0 of order s. No coefficient of
    # κ1(u) is below the coefficient of D Π (g_i + r g_i²/2).
    u_0, powers, orders = float(before[0, 0]), np.zeros((1, 2 * s + 1)), np.arange(1, s + 1)
    powers[0, :2] = u_0, 1.0
    derivatives = _compose(powers)[1][0] * [float(math.factorial(m)) for m in range(2 * s + 1)]
    r = float(((derivatives[s + orders] / (derivatives[s] or 1.0)) ** (1 / orders)).min())
    of_window = 0.0
    for tap, count in taps(network.outer_filter(network.depth), d).items():
        bound = derivatives[s]
        for unit in ((tap - pixel) % d for pixel in pixels):
            g = before[unit : unit + 1] - u_0 * np.eye(1, _DEGREE + 1)
            cube = cube_before[unit] * (1.0 + r * (value_before[unit] - u_0))
            bound *= _least((g + r / 2 * _multiply(g, g))[0], cube / gamma(-1.5))
        of_window += count / network.outer_filter_size * bound
    several = of_branch * network.branch_share * of_window
    if s > 1:
        return several
    unit = -next(iter(pixels)) % d  # the output at which `pixels` is the variable's pixel
    return max(several, of_features * _least(kernel[unit], limits[unit]))


def _least(series: np.ndarray, ends: np.ndarray) -> float:
    """Return the least n^(5/2) a_n over n ≥ 1; even and odd n tend to the ends' sum, difference."""
    found = float((np.arange(1, len(series)) ** 2.5 * series[1:]).min())
    return max(0.0, min(found, float(ends[0] + ends[1]), float(ends[0] - ends[1])))


def moments(n_channels: int, k: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return m(k, n) = ∫ t^n P_k(t) w(t) dt of spectrum.md at k and n ≥ k of equal parity.

    For other k and n the integral is 0.
    """
    logs = gammaln(n + 1.0) - gammaln((n - k) / 2 + 1.0) - n * math.log(2.0)
    # Γ(C0/2)/Γ(C0/2 + m): two logarithms would cancel where channels are many.
    m = np.maximum((n + k) / 2, 1.0)
    ratio = np.where(n + k > 0, betaln(n_channels / 2, m) - gammaln(m), 0.0)
    return np.asarray(np.exp(logs + ratio))


def _moment_limit(n_channels: int) -> float:
    """Return the limit of n^((C0−1)/2) exp(k²/2n) m(k, n) for large n."""
    return 2 ** ((n_channels - 1) / 2) * math.gamma(n_channels / 2) / math.sqrt(math.pi)


def _least_of_powers(n_channels: int) -> float:
    """Return the least k^(C0+2) Σ_n n^(−5/2) m(k, n) over k ≥ 1."""
    C, p = n_channels, n_channels / 2 + 2.0
    found = [_moment_limit(C) / 2 * math.gamma(p - 1) * 2 ** (p - 1)]
    for k in range(1, _FREQUENCIES + 1):
        n = np.arange(k, 40 * k * k + 400, 2.0)  # sums that end are lower bounds
        found.append(k ** (C + 2) * float((n**-2.5 * moments(C, np.array(k), n)).sum()))
    return min(found)


def _sum_of_moments(n_channels: int, s: int, nu: float) -> float:
    """Return the bound on the sum over N of N^−ν, times the largest product of s moments."""
    a = (n_channels - 1) / 2  # moments are at most M n^−a exp(−k²/2n)
    k, n = np.indices((4 * _FREQUENCIES,) * 2)
    k, n = (values[(n >= k) & ((n - k) % 2 == 0) & (k > 0)].astype(float) for values in (k, n))
    found = moments(n_channels, k, n) * n**a * np.exp(k**2 / (2 * n))
    M = max(float(found.max()), _moment_limit(n_channels))
    # φ(y) = y^−a exp(−1/2y) is largest at y = 1/2a, and φ^s y^−ν at y = s/2(as + ν).
    top, power = 1 / (2 * a), nu + a * s
    rising = (s / 2) ** (1 - power) * gammaincc(power - 1, s * a) * math.gamma(power - 1)
    falling = (top**-a * math.exp(-a)) ** s * top ** (1 - nu) / (nu - 1)
    peak = s / (2 * power)
    largest = peak**-power * math.exp(-s / (2 * peak))
    return float(M**s * s ** (1 - nu) * (rising + falling + largest / s))


def _slope(frequency: np.ndarray, values: np.ndarray, n_channels: int) -> float:
    """Return the slope of log values > 0 over log centred frequency, even and odd ones apart."""
    frequency, values = frequency[values > 0], values[values > 0]
    parity = frequency % 2
    offsets = [parity == some for some in np.unique(parity)]
    if len(values) < len(offsets) + 2:
        return math.nan
    # The Laplacian's k(k + C0 − 2) is the square of k + C0/2 − 1 up to a constant.
    design = np.stack([np.log(frequency + (n_channels - 2) / 2), *offsets], axis=1)
    return float(np.linalg.lstsq(design, np.log(values), rcond=None)[0][0])


def _relative(pixels: frozenset[int], d: int) -> tuple[int, ...]:
    """Return pixels of a ring relative to the output pixel, the nearer way round."""
    return tuple(sorted(p if 2 * p <= d else p - d for p in pixels))


def _check(
    network: Any, n_channels: Any, n_timepoints: Any, kind: Any, head: Any, without: Any = ()
) -> tuple[int, int]:
    """Return the channels and the ring's pixels of checked arguments."""
    check_network(network, RELU_FIELDS.difference(without), _THEOREM)
    check_kind(kind)
    check_head(head)
    return check_channels(n_channels), check_pixels(n_timepoints)


def _sets(pixels: Any, d: int, expected: str, given: Any = None) -> list[frozenset[int]]:
    """Return sets of pixels of a ring of `d`; an error names what was `given`."""
    if is_sequence(pixels) and all(map(is_sequence, pixels := list(pixels))):
        sets = [frozenset(check_integer(p, "pixels") % d for p in chosen) for chosen in pixels]
        if sets and all(sets):
            return sets
    given = pixels if given is None else given
    raise ValueError(f"pixels is {given!r}, expected {expected}")
