r"""Constants of theorem 5.1 of Barzilai et al. 2022, computed from Taylor coefficients.

For frequency :math:`k_i` on the s pixels of a set S, and 0 on the others,

.. math:: c_1 \prod_{i \in S} k_i^{-C_0-2} \;\le\; \lambda_k \;\le\;
    c_2 \prod_{i \in S} k_i^{-(C_0-1)-2(\nu-1)/s}

with :math:`\nu = \frac52` for the normalized Gaussian process kernel and :math:`\frac32` for the
normalized tangent kernel. Both constants come from power series in one variable (lemmas C.1 and
C.3-C.7). ``docs/theory/spectrum.md`` has the proof of both bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.special import gamma, gammaincc

from ...engines.boxes import circular_mean
from ...network import Filter, Network
from ...validation import HEADS, check_choice
from ..arguments import check_channels, check_pixel_set, check_pixels
from ..complements import arc_cosines
from .decay import check_input_window, relative_pixels
from .grid import shifts, taps
from .taylor import check_series, compose, kernel_series, moments, multiply

_DEGREE = 256
"""Highest degree of the power series. Beyond it coefficients, times their power, are taken to lie
between the last ones and their known limit; at this degree they are within a percent of it.
Raising it costs time like its square."""

_FREQUENCIES = 64
"""Highest frequency at which the zonal moments are searched for their least and largest. They have
them at frequency 1 or in the known limit in 2 to 12 channels."""

_CUBE = 2.0 * math.sqrt(2.0) / (3.0 * math.pi)
"""Factor of (1 − ρ)^(3/2) in κ1 near ρ = 1, and of (1 + ρ)^(3/2) near ρ = −1 (lemma C.4)."""

_ROOT = math.sqrt(2.0) / math.pi
"""Factor of −(1 − ρ)^(1/2) in κ0 near ρ = 1, and of (1 + ρ)^(1/2) near −1 (lemma C.4)."""

_NU = {"gpk": 2.5, "ntk": 1.5}
"""Powers with which coefficients of the kernel of equal dot products fall (lemma C.6)."""


class DecayConstants(NamedTuple):
    """Theorem 5.1 for a normalized kernel and one set of pixels."""

    pixels: tuple[int, ...]
    """Pixels that have a frequency, relative to the output pixel."""
    lower: float
    """c_1; 0 where no window of the last layer has all of the pixels."""
    upper: float
    """c_2."""
    lower_exponent: float
    """Power of each frequency in the lower bound: −C0 − 2."""
    upper_exponent: float
    """Power in the upper bound: −(C0 − 1) − 3/s, or −(C0 − 1) − 1/s for the tangent kernel."""

    def bounds(self, frequencies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper bound on eigenvalues of positive frequencies (..., s)."""
        k = np.asarray(frequencies, dtype=np.float64)
        product = k.prod(axis=-1)
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

    Parameters
    ----------
    network : Network
        With ReLU, and ``input_filter_size`` 1, as in the theorem.
    n_channels, n_timepoints, kind, head
        As for `eigenvalues`. Any number of pixels.
    pixels : iterable of int
        Pixels that have a frequency, at least one. All others have frequency 0.

    Returns
    -------
    DecayConstants
        For the eigenvalues of ``eigenvalues(..., normalized=True)``.

    Raises
    ------
    ValueError
        For a kernel that is 0 for every signal.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import spectrum
    >>> network = literature.barzilai_resnet(depth=2)
    >>> found = spectrum.decay_constants(network, n_channels=3, n_timepoints=5, pixels=[0])
    >>> low, high = found.bounds([[1], [4]])
    >>> found = spectrum.eigenvalues(network, 3, 5, (4, 0, 0, 0, 0), normalized=True)
    >>> values = found[[1, 4]].ravel()
    >>> bool((low <= values).all()), bool((values <= high).all())
    (True, True)
    """
    check_series(network, kind)
    check_choice(head, "head", HEADS)
    C, d = check_channels(n_channels), check_pixels(n_timepoints)
    chosen = check_pixel_set(pixels, pixels, d)
    check_input_window(network)
    s, moved = len(chosen), [{(p + shift) % d for p in chosen} for shift in shifts(head, d)]
    at_0 = _OneVariable(network, np.zeros(d), np.eye(d)[0], "gpk")
    least = sum(_lower_coefficient(at_0, network, own, kind) for own in moved) / len(moved)
    largest = sum(_largest_coefficient(network, d, own, kind) for own in moved) / len(moved)
    return DecayConstants(
        pixels=relative_pixels(chosen, d),
        lower=least * _least_of_powers(C) ** s,
        upper=largest * _sum_of_moments(C, s, _NU[kind]),
        lower_exponent=-(C + 2.0),
        upper_exponent=-(C - 1.0) - 2.0 * (_NU[kind] - 1.0) / s,
    )


class _OneVariable:
    """The recursion for dot products constant + slope · t of d pixels: a series a pixel.

    Dot products that are not constant are 1 at t = 1.
    """

    def __init__(
        self, network: Network, constant: np.ndarray, slope: np.ndarray, kind: str
    ) -> None:
        first = np.zeros((len(slope), _DEGREE + 1))
        first[:, 0], first[:, 1] = constant, slope
        self.before, self.kernel = kernel_series(
            network, first, lambda series, window: circular_mean(series, *window), kind
        )
        """Series (d, degrees) of the last pre-activations, and of the kernel."""
        # Values and singularities at t = 1 and t = −1, (2, d): with x the distance of t from its
        # end, F is value ∓ slope x + cube x^(3/2) + …, and T has root x^(1/2).
        s, parts = network.branch_share, network.parts
        F = constant + np.array([[1.0], [-1.0]]) * slope
        slope, tau = np.broadcast_to(slope, F.shape), parts.input
        T, cube, root = parts.input * F, np.zeros_like(F), np.zeros_like(F)

        def mean(values: np.ndarray, window: Filter) -> np.ndarray:
            return circular_mean(values.T, *window).T

        for layer in range(1, network.depth + 1):
            inner, outer = network.inner_filter(layer), network.outer_filter(layer)
            u, steep, self.cube_before = mean(F, inner), mean(slope, inner), mean(cube, inner)
            self.value_before, inside = u, parts.inner * u + mean(T, inner)
            k0, k1 = arc_cosines(u)
            sign = np.isclose(u, -1.0).astype(float) - np.isclose(u, 1.0)  # of κ0's root
            own_root = _ROOT * sign * np.sqrt(steep) * inside
            root = (1 - s) * root + s * mean(k0 * mean(root, inner) + own_root, outer)
            T = (1 - s) * T + s * mean(parts.outer * k1 + k0 * inside, outer)
            own_cube = _CUBE * np.abs(sign) * steep**1.5
            cube = (1 - s) * cube + s * mean(k0 * self.cube_before + own_cube, outer)
            slope = (1 - s) * slope + s * mean(k0 * steep, outer)
            F = (1 - s) * F + s * mean(k1, outer)
            tau += s * (parts.inner + parts.outer)
        self.limits = cube / gamma(-1.5) if kind == "gpk" else root / gamma(-0.5)
        """Shares of t = 1 and t = −1 in the limit of n^ν times the kernel's coefficients (2, d)."""
        if kind == "ntk":
            self.limits = self.limits / (parts.readout + tau)


def _lower_coefficient(
    series: _OneVariable, network: Network, pixels: set[int], kind: str
) -> float:
    """Return a c for which a kernel's Taylor coefficients are a_n ≥ c Π n_i^(−5/2).

    Lemma C.1 with its constant; n_i > 0 on `pixels`. `series` has the dot product of pixel 0 as
    its variable, and 0 elsewhere. The tangent kernel has the terms r K of the features, and
    (o + r) K of the last layer's branch (lemma C.2).
    """
    d, parts = len(series.kernel), network.parts
    of_features = of_branch = 1.0
    if kind == "ntk":
        branches = network.depth * network.branch_share
        total = parts.initial + (parts.inner + parts.outer) * branches
        of_features, of_branch = parts.readout / total, parts.outer_plus_readout / total
    several = of_branch * network.branch_share * _of_window(series, network, pixels)
    if len(pixels) > 1:
        return several
    unit = -next(iter(pixels)) % d  # the output at which `pixels` is the variable's pixel
    return max(several, of_features * _least(series.kernel[unit], series.limits[:, unit]))


def _of_window(series: _OneVariable, network: Network, pixels: set[int]) -> float:
    """Return the constant for pixels that a window of the last layer has in common.

    With u = u_0 + Σ g_i(t_i) + …, coefficients of κ1(u) are at least those of
    D Π (g_i + r g_i²/2), D the derivative of κ1 at u_0 of order s.
    """
    s, d, u_0 = len(pixels), len(series.kernel), float(series.before[0, 0])
    derivatives = _derivatives_of_kappa1(u_0, 2 * s)
    orders = np.arange(1, s + 1)
    r = float(((derivatives[s + orders] / derivatives[s]) ** (1 / orders)).min())
    total = 0.0
    for tap, count in taps(network.outer_filter(network.depth), d).items():
        bound = derivatives[s]
        for pixel in pixels:
            unit = (tap - pixel) % d
            g = series.before[unit : unit + 1].copy()
            g[0, 0] = 0.0
            rise = series.value_before[:, unit] - u_0
            cube = series.cube_before[:, unit] * (1.0 + r * rise)
            bound *= _least((g + r / 2 * multiply(g, g))[0], cube / gamma(-1.5))
        total += count / network.outer_filter_size * bound
    return total


def _derivatives_of_kappa1(u: float, order: int) -> np.ndarray:
    """Return κ1(u) and its derivatives up to an order, (order + 1,)."""
    series = np.zeros((1, order + 1))
    series[0, :2] = u, 1.0
    return np.asarray(compose(series)[1][0] * [float(math.factorial(m)) for m in range(order + 1)])


def _least(series: np.ndarray, ends: np.ndarray) -> float:
    """Return the least n^(5/2) a_n over n ≥ 1; even and odd n tend to the ends' sum, difference."""
    n = np.arange(1, len(series))
    found = (n**2.5 * series[1:]).min()
    return max(0.0, min(float(found), float(ends[0] + ends[1]), float(ends[0] - ends[1])))


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
    """Return the bound on the sum over N of N^−ν, times the largest product of s moments.

    With a = (C0 − 1)/2, moments are at most M n^−a exp(−k²/2n). Powers of k are left out.
    """
    a = (n_channels - 1) / 2
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


def _largest_coefficient(network: Network, d: int, pixels: set[int], kind: str) -> float:
    """Return B, the largest N^ν b_N over N ≥ s (lemmas C.3-C.6).

    b_N is the coefficient of t^N of the kernel whose dot products are t at the s pixels, else 1.
    """
    inside = np.array([float(pixel in pixels) for pixel in range(d)])
    series = _OneVariable(network, 1.0 - inside, inside, kind)
    n = np.arange(len(pixels), _DEGREE + 1)
    at_1, at_minus_1 = series.limits[:, 0]
    limit = float(at_1 + abs(at_minus_1))
    return max(float((n ** _NU[kind] * series.kernel[0, len(pixels) :]).max()), limit)
