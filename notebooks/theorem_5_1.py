"""Theorem 5.1 of Barzilai et al. (2022) with computed constants: bounds on eigenvalues.

``docs/theory/spectrum.md`` has the formulas. As a script it prints how far the bounds are from the
eigenvalues of one pixel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.special import betaln, gamma, gammaincc, gammaln

from rescntk import literature
from rescntk.engines.boxes import circular_mean
from rescntk.network import Filter, Network
from rescntk.theory import spectrum
from rescntk.theory.complements import arc_cosines, check_nonzero
from rescntk.theory.spectrum.grid import shifts, taps
from decay import check_input_window, check_theorem, relative_pixels
from taylor import compose, kernel_series, multiply

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


def moments(n_channels: int, k: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return ∫ t^n P_k(t) w(t) dt, P_k and w as in `zonal`, at k and n ≥ k of equal parity.

    For other k and n the integral is 0. k and n have any broadcasting shapes.
    """
    logs = gammaln(n + 1.0) - gammaln((n - k) / 2 + 1.0) - n * math.log(2.0)
    # Γ(C0/2)/Γ(C0/2 + m): two logarithms would cancel where channels are many.
    m = np.maximum((n + k) / 2, 1.0)
    ratio = np.where(n + k > 0, betaln(n_channels / 2, m) - gammaln(m), 0.0)
    return np.asarray(np.exp(logs + ratio))


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
        product = np.asarray(frequencies, dtype=np.float64).prod(axis=-1)
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


def main() -> None:
    """Print factors from the lower bound up to eigenvalues, and from these to the upper bound."""
    k = np.arange(1, 41)
    for make in (literature.barzilai_cnn, literature.barzilai_resnet):
        for depth, kind in ((2, "gpk"), (3, "gpk"), (2, "ntk")):
            closest = []
            for channels in (2, 3):
                values = spectrum.eigenvalues(make(depth), channels, 1, 40, kind, normalized=True)
                lower, upper = decay_constants(make(depth), channels, 1, [0], kind).bounds(
                    k[:, None]
                )
                closest.append(((values[1:] / lower).min(), (upper / values[1:]).min()))
            below, above = np.transpose(closest)
            print(f"{make.__name__}({depth}), {kind}: {below.round(1)} {above.round(1)}")


if __name__ == "__main__":
    main()
