"""Taylor coefficients of kernels on the multi-sphere, and theorem 5.1's constants made of them.

A normalized kernel is a power series in the pixels' dot products t (Barzilai et al. 2022,
appendix C; ``docs/theory/spectrum.md``). Arrays of series have the shape
(n_series, K + 1, ..., K + 1): an axis for the degree in each variable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from scipy.special import betaln, gamma, gammaincc, gammaln

from ...engines.boxes import circular_mean
from ...network import RELU_FIELDS, Filter, Network, check_network
from ...validation import check_integer
from ..argument_checks import check_kind, check_pixels, check_theorem, check_whole
from ..complements import arc_cosines, check_nonzero
from .decay import check_input_window, relative_pixels
from .grid import rotate, shifts, taps

_MOST_PRODUCTS = 2e9
"""Most pairs of coefficients in a product of two series: 4 seconds of one core."""

_DEGREE = 256
"""Highest degree of the power series. Later coefficients, times their power, are taken to lie
between the last ones and the known limit. The two are within a percent."""

_FREQUENCIES = 64
"""Highest frequency at which the zonal moments are searched for their least and largest."""

_CUBE, _ROOT = 2.0 * math.sqrt(2.0) / (3.0 * math.pi), math.sqrt(2.0) / math.pi
"""Factors of (1 − ρ)^(3/2) in κ1 and of −(1 − ρ)^(1/2) in κ0 near ρ = 1 (lemma C.4). Near ρ = −1,
with 1 + ρ, both have the sign +."""

_NU = {"gpk": 2.5, "ntk": 1.5}
"""Powers with which coefficients of the kernel of equal dot products fall (lemma C.6)."""


def taylor_coefficients(
    network: Network, n_timepoints: int, max_degree: int, kind: str = "gpk"
) -> np.ndarray:
    """Return the Taylor coefficients of a normalized equivariant kernel (lemmas C.1, C.2, C.7).

    Entry n of the array with d axes multiplies the product of the powers n_i of the dot products
    t_i. All coefficients, of all degrees, sum to 1.

    Parameters
    ----------
    network : Network
        With ReLU.
    n_timepoints, max_degree : int
        Number d of pixels, and highest power of each pixel's dot product.
    kind : {"gpk", "ntk"}

    Raises
    ------
    ValueError
        For more than 2e9 pairs of coefficients, and for a kernel that is 0 for every signal.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import spectrum
    >>> spectrum.taylor_coefficients(literature.geifman_cnn(2), 3, max_degree=1)[:, :, 0].round(4)
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

    first = mean(start[None], network.input_filter)
    return kernel_series(network, first, mean, kind)[-1][0]


def moments(n_channels: int, k: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return ∫ t^n P_k(t) w(t) dt, P_k and w as in `zonal`, at k and n ≥ k of equal parity.

    For other k and n the integral is 0. k and n have any broadcasting shapes.
    """
    logs = gammaln(n + 1.0) - gammaln((n - k) / 2 + 1.0) - n * math.log(2.0)
    # Γ(C0/2)/Γ(C0/2 + m): two logarithms would cancel where channels are many.
    m = np.maximum((n + k) / 2, 1.0)
    ratio = np.where(n + k > 0, betaln(n_channels / 2, m) - gammaln(m), 0.0)
    return np.asarray(np.exp(logs + ratio))


def kernel_series(
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
        k0, k1 = compose(u)
        if kind == "ntk":
            branch = parts.outer * k1 + multiply(k0, parts.inner * u + mean(T, inner))
            T = (1.0 - s) * T + s * mean(branch, outer)
            tau += s * (parts.outer + parts.inner)
        F = (1.0 - s) * F + s * mean(k1, outer)
    if kind == "gpk":
        return u, F
    return u, (parts.readout * F + T) / (parts.readout + tau)


def compose(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the series of κ0(u) and κ1(u): D κ1 = κ0 D u, D κ0 = w D u / π, w = (1 − u²)^(−½).

    Coefficients of u are at least 0. D multiplies a coefficient by its total degree.
    """
    degree = np.asarray(sum(np.indices(u.shape[1:])))  # of each coefficient, over all variables
    Du = degree * u
    at_0 = (slice(None),) + (0,) * (u.ndim - 1)
    w = _inverse_root(multiply(u, u))
    k0 = multiply(Du, w) / (math.pi * np.maximum(degree, 1))
    k0[at_0], constant = arc_cosines(u[at_0])
    k1 = multiply(Du, k0) / np.maximum(degree, 1)
    k1[at_0] = constant
    return k0, k1


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the products of series, cut off at the degrees that the arrays have."""
    if np.count_nonzero(b) < np.count_nonzero(a):
        a, b = b, a
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape))
    for n in np.argwhere(a.any(axis=0)):
        target, source = _shifted(n, a.shape)
        factor = a[(slice(None), *n)].reshape(-1, *[1] * len(n))
        result[target] += factor * b[source]
    return result


def _inverse_root(v: np.ndarray) -> np.ndarray:
    """Return the series of (1 − v)^(−½): n (1 − v_0) w_n = Σ_j (n − j/2) v_j w_(n−j)."""
    last = v.shape[1:]
    degree = np.asarray(sum(np.indices(last)))
    at_0 = (slice(None),) + (0,) * len(last)
    w, left = np.zeros(v.shape), 1.0 - v[at_0]
    left = np.where(left > 0.0, left, np.inf)  # a constant of 1: κ0 and κ1 are 1, and w not needed
    for n in np.ndindex(last):
        here = (slice(None), *n)
        total = sum(n)
        w[here] = w[here] / (total * left) if total else left**-0.5
        if not w[here].any():
            continue
        target, source = _shifted(n, v.shape)
        factor = w[here].reshape(-1, *[1] * len(last))
        push = (total + degree[source[1:]] / 2) * v[source] * factor
        push[at_0] = 0.0
        w[target] += push
    return w


def _shifted(n: np.ndarray | tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple, tuple]:
    """Return the places of a product's coefficients from degree n on, and of the factor's."""
    target = (slice(None), *(slice(int(k), None) for k in n))
    kept = (slice(length - int(k)) for k, length in zip(n, shape[1:], strict=True))
    return target, (slice(None), *kept)


class DecayConstants(NamedTuple):
    """Theorem 5.1 for a normalized kernel and one set of pixels."""

    pixels: tuple[int, ...]
    """Pixels that have a frequency, relative to the output pixel."""
    lower: float
    """c_1; 0 where no window of the last layer has all of the pixels."""
    upper: float
    """c_2."""
    lower_exponent: float
    upper_exponent: float

    def bounds(self, frequencies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper bound on eigenvalues of positive frequencies (..., s)."""
        s = len(self.pixels)
        given = check_whole(frequencies, "frequencies", f"(..., {s})", lambda x: x[-1:] == (s,))
        product = given.prod(axis=-1)
        return self.lower * product**self.lower_exponent, self.upper * product**self.upper_exponent


def decay_constants(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    pixels: Iterable[int],
    kind: str = "gpk",
    head: str = "equivariant",
) -> DecayConstants:
    """Return theorem 5.1's constants for a normalized kernel, computed and not fitted.

    The constants bound ``eigenvalues(..., normalized=True)``. Frequencies are positive on the
    pixels of a set S, and 0 on all others. ``docs/theory/spectrum.md`` has the formulas.

    Parameters
    ----------
    network : Network
        With ReLU, and ``input_filter_size`` 1, as in the theorem.
    n_channels, n_timepoints, kind, head
        As for `eigenvalues`.
    pixels : iterable of int
        The set S, at least one pixel.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import spectrum
    >>> spectrum.decay_constants(literature.barzilai_resnet(2), 3, 5, pixels=[0]).lower_exponent
    -5.0
    """
    C, d, chosen = check_theorem(network, n_channels, n_timepoints, pixels, kind, head)
    check_nonzero(network, kind)
    check_input_window(network)
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
    return DecayConstants(relative_pixels(chosen, d), lower, upper, *exponents)


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
    before, kernel = kernel_series(network, first, mean, kind)
    # At its ends F is value ∓ slope x + cube x^(3/2) + …, and T has root x^(1/2).
    s, parts = network.branch_share, network.parts
    F = constant[:, None] + np.array([1.0, -1.0]) * slope[:, None]
    slope, tau = np.broadcast_to(slope[:, None], F.shape), parts.input
    T, cube, root = parts.input * F, np.zeros_like(F), np.zeros_like(F)
    for layer in range(1, network.depth + 1):
        inner, outer = network.inner_filter(layer), network.outer_filter(layer)
        u, steep, cube_before = mean(F, inner), mean(slope, inner), mean(cube, inner)
        inside = parts.inner * u + mean(T, inner)
        k0, k1 = arc_cosines(u)
        sign = np.isclose(u, -1.0).astype(float) - np.isclose(u, 1.0)  # of κ0's root
        own_root = _ROOT * sign * np.sqrt(steep) * inside
        root = (1 - s) * root + s * mean(k0 * mean(root, inner) + own_root, outer)
        T = (1 - s) * T + s * mean(parts.outer * k1 + k0 * inside, outer)
        own_cube = _CUBE * np.abs(sign) * steep**1.5
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
    u_0, powers = float(before[0, 0]), np.zeros((1, 2 * s + 1))
    powers[0, :2] = u_0, 1.0
    derivatives = compose(powers)[1][0] * [float(math.factorial(m)) for m in range(2 * s + 1)]
    orders = np.arange(1, s + 1)
    r = float(((derivatives[s + orders] / (derivatives[s] or 1.0)) ** (1 / orders)).min())
    of_window = 0.0
    for tap, count in taps(network.outer_filter(network.depth), d).items():
        bound = derivatives[s]
        for pixel in pixels:
            unit = (tap - pixel) % d
            g = before[unit : unit + 1].copy()
            g[0, 0] = 0.0
            cube = cube_before[unit] * (1.0 + r * (value_before[unit] - u_0))
            bound *= _least((g + r / 2 * multiply(g, g))[0], cube / gamma(-1.5))
        of_window += count / network.outer_filter_size * bound
    several = of_branch * network.branch_share * of_window
    if s > 1:
        return several
    unit = -next(iter(pixels)) % d  # the output at which `pixels` is the variable's pixel
    return max(several, of_features * _least(kernel[unit], limits[unit]))


def _least(series: np.ndarray, ends: np.ndarray) -> float:
    """Return the least n^(5/2) a_n over n ≥ 1; even and odd n tend to the ends' sum, difference."""
    n = np.arange(1, len(series))
    found = float((n**2.5 * series[1:]).min())
    return max(0.0, min(found, float(ends[0] + ends[1]), float(ends[0] - ends[1])))


def _least_of_powers(n_channels: int) -> float:
    """Return the least k^(C0+2) Σ_n n^(−5/2) m(k, n) over k ≥ 1, m the zonal moments."""
    C, p = n_channels, n_channels / 2 + 2.0
    found = [_moment_limit(C) / 2 * math.gamma(p - 1) * 2 ** (p - 1)]
    for k in range(1, _FREQUENCIES + 1):
        n = np.arange(k, 40 * k * k + 400, 2.0)  # sums that end are lower bounds
        found.append(k ** (C + 2) * float((n**-2.5 * moments(C, np.array(k), n)).sum()))
    return min(found)


def _moment_limit(n_channels: int) -> float:
    """Return the limit of n^((C0−1)/2) exp(k²/2n) m(k, n) for large n, m the zonal moments."""
    half = n_channels / 2
    return 2 ** (half - 0.5) * math.gamma(half) / math.sqrt(math.pi)


def _sum_of_moments(n_channels: int, s: int, nu: float) -> float:
    """Return the bound on the sum over N of N^−ν, times the largest product of s moments."""
    a = (n_channels - 1) / 2  # moments are at most M n^−a exp(−k²/2n)
    n = np.arange(1.0, 4 * _FREQUENCIES)
    k = n[:, None]
    k, n = (values[(n >= k) & ((n - k) % 2 == 0)] for values in np.broadcast_arrays(k, n))
    found = moments(n_channels, k, n) * n**a * np.exp(k**2 / (2 * n))
    M = max(float(found.max()), _moment_limit(n_channels))
    # φ(y) = y^−a exp(−1/2y) is largest at y = 1/2a, and φ^s y^−ν at y = s/2(as + ν).
    top, power = 1 / (2 * a), nu + a * s
    rising = (s / 2) ** (1 - power) * gammaincc(power - 1, s * a) * math.gamma(power - 1)
    falling = (top**-a * math.exp(-a)) ** s * top ** (1 - nu) / (nu - 1)
    peak = s / (2 * power)
    largest = peak**-power * math.exp(-s / (2 * peak))
    return float(M**s * s ** (1 - nu) * (rising + falling + largest / s))
