r"""Theorem 5.1 of Barzilai et al. 2022: bounds on the decay of eigenvalues, with their constants.

:math:`c_1 \prod_i k_i^{-C_0-2} \le \lambda_k \le c_2 \prod_i k_i^{-(C_0-1)-2(\nu-1)/s}` for the s
pixels that have a frequency. ``docs/theory/decay_constants.md`` has all formulas.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.special import betaln, gamma, gammaincc, gammaln

from ...checks.messages import shown
from ...checks.values import check_integer, is_sequence
from ...network import Network, check_network
from ...network.parameters import RELU_FIELDS
from ..tools.argument_checks import check_grid, check_kind
from ..tools.complements import check_nonzero
from .grid import shifts, taps
from .taylor import DEGREE, compose, multiply, series_in_one_variable

NU = {"gpk": 2.5, "ntk": 1.5}
"""ν: coefficients of the kernel of equal dot products fall like n^−ν (lemma C.6)."""


class DecayConstants(NamedTuple):
    """Theorem 5.1 for a normalized kernel and one set of s pixels: constants and exponents.

    With the product of the frequencies eigenvalues are at least
    ``lower * product**-exponent_of_lower_bound`` and at most
    ``upper * product**-exponent_of_upper_bound``.
    """

    lower: float
    """c_1. It is 0, and bounds nothing, at depth 1, where no window of the last layer has all
    pixels, and of tangent kernels whose outer and readout weights are both frozen."""
    upper: float
    """c_2."""
    exponent_of_lower_bound: float
    """C0 + 2."""
    exponent_of_upper_bound: float
    """C0 − 1 + 2(ν − 1)/s, ν = 5/2 (GPK) or 3/2 (NTK). The paper has the number R of pixels
    for s: this bound is sharper."""

    def bounds(self, frequencies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper bound on eigenvalues.

        Parameters
        ----------
        frequencies : array-like, (..., s)
            Positive frequencies of each of the s pixels.

        Returns
        -------
        lower, upper : ndarray, (...)
        """
        product = np.asarray(frequencies, dtype=np.float64).prod(axis=-1)
        lower = self.lower * product**-self.exponent_of_lower_bound
        return lower, self.upper * product**-self.exponent_of_upper_bound


def decay_constants(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    pixels: Iterable[int],
    *,
    kind: str,
    head: str,
) -> DecayConstants:
    """Return theorem 5.1's constants for a normalized kernel, computed and not fitted.

    They bound the eigenvalues at positive frequencies on a set of pixels, and 0 on all others
    (Barzilai et al. 2022, lemmas C.1 to C.7). As in `eigenvalues`, kernels are normalized by
    K(x, x) of the equivariant head, whatever their head. ``lower`` may be 0.

    Parameters
    ----------
    network : Network
        Of ReLU without biases, with ``input_filter_size`` 1.
    n_channels : int
        C0, at least 2.
    n_timepoints : int
        Number d of pixels, at most 32.
    pixels : iterable of int
        Pixels that have a frequency, at least one.
    kind : {"gpk", "ntk"}
    head : {"equivariant", "trace", "gap"}

    Returns
    -------
    `DecayConstants`

    Raises
    ------
    ValueError
        If the network is another one, its kernel is 0 for every signal, or an argument is out of
        range.
    OverflowError
        If the pixels have more than 160 channels together.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory.spectrum import decay_constants
    >>> cnn, options = literature.barzilai_cnn(2), {"kind": "gpk", "head": "equivariant"}
    >>> found = decay_constants(cnn, 2, 1, pixels=[0], **options)
    >>> [round(float(bound), 5) for bound in found.bounds([4])]  # the eigenvalue is 0.00221
    [0.0004, 0.04377]
    """
    C, d = check_ring(network, n_channels, n_timepoints, kind, head, {"input_filter_size"})
    chosen = check_pixel_set(pixels, d)
    check_nonzero(network, kind)
    s, nu, coefficients = len(chosen), NU[kind], []
    if s * C > 160:
        raise OverflowError(
            f"constants of {s} pixels of {C} channels exceed float64, expected at most 160 in all"
        )
    at_0, degrees = (
        series_in_one_variable(network, np.zeros(d), np.eye(d)[0], "gpk"),
        np.arange(DEGREE + 1),
    )
    for shift in shifts(head, d):
        moved = {(p + shift) % d for p in chosen}
        # The largest J^ν b_J over J ≥ s (lemmas C.3-C.6). Here b_J is the coefficient of t^J of
        # the kernel whose dot products are t at the s pixels, else 1.
        inside = np.isin(np.arange(d), list(moved)).astype(float)
        _, kernel, _, _, limits = series_in_one_variable(network, 1.0 - inside, inside, kind)
        largest = max((degrees**nu * kernel[0])[s:].max(), limits[0, 0] + abs(limits[0, 1]))
        coefficients.append((_lower_coefficient(at_0, network, moved, kind), largest))
    # The least k^(C0+2) Σ_n n^(−5/2) Ψ(k, n) over k ≥ 1; Ψ n^χ exp(k²/2n) tends to M, with
    # χ = (C0 − 1)/2.
    p, M = C / 2 + 2.0, 2 ** ((C - 1) / 2) * math.gamma(C / 2) / math.sqrt(math.pi)
    power = M / 2 * math.gamma(p - 1) * 2 ** (p - 1)
    for k in np.arange(1.0, 65.0)[:, None]:
        n = np.arange(k[0], 40 * k[0] ** 2 + 400, 2.0)  # sums that end are lower bounds
        power = min(power, float((k ** (C + 2) * n**-2.5 * moments(C, k, n)).sum()))
    # The sum over J of J^−ν, times the largest product of s moments, at most M n^−χ exp(−k²/2n).
    chi, grid = (C - 1) / 2, np.indices((256, 256), dtype=float)
    k, n = grid[:, (grid[1] >= grid[0]) & ((grid[1] - grid[0]) % 2 == 0) & (grid[0] > 0)]
    M = max(M, float((moments(C, k, n) * n**chi * np.exp(k**2 / (2 * n))).max()))
    # φ(y) = y^−χ exp(−1/2y) is largest at y = 1/2χ, and φ^s y^−ν at y = s/2(χs + ν).
    q, peak = nu + chi * s, s / (2 * nu + 2 * chi * s)
    rising = (s / 2) ** (1 - q) * gammaincc(q - 1, s * chi) * math.gamma(q - 1)
    falling = (2 * chi / math.e) ** (chi * s) * (2 * chi) ** (nu - 1) / (nu - 1)
    total = M**s * s ** (1 - nu) * (rising + falling + (math.e * peak) ** -q / s)
    lower, upper = (np.mean(coefficients, axis=0) * [power**s, total]).tolist()
    return DecayConstants(lower, upper, C + 2.0, C - 1.0 + 2.0 * (nu - 1.0) / s)


def _lower_coefficient(
    series: tuple[np.ndarray, ...], network: Network, pixels: set[int], kind: str
) -> float:
    """Return ξ of lemma C.1: Taylor coefficients are a_n ≥ ξ Π n_i^(−5/2), n_i > 0 on `pixels`.

    `series` has the dot product of pixel 0 as its variable, and 0 elsewhere.
    """
    before, kernel, value_before, cube_before, limits = series
    s, d, parts = len(pixels), len(kernel), network.parts
    # Lemma C.2, for the tangent kernel: [readout] K of the features, and ([outer] + [readout]) K of
    # the last layer's branch.
    of_features = of_branch = 1.0
    if kind == "ntk":
        total = parts.initial + (parts.inner + parts.outer) * network.depth * network.branch_share
        of_features, of_branch = parts.readout / total, parts.outer_plus_readout / total
    # Let u = u_0 + Σ g_i(t_i) + …, and D the derivative of κ1 at u_0 of order s. No coefficient of
    # κ1(u) is below the coefficient of D Π (g_i + ζ g_i²/2).
    u_0, orders = float(before[0, 0]), np.arange(1, s + 1)
    series_of_u = np.array([[u_0, 1.0, *[0.0] * (2 * s - 1)]])
    derivatives = compose(series_of_u)[1][0] * gamma(np.arange(2 * s + 1) + 1.0)
    zeta = float(((derivatives[s + orders] / (derivatives[s] or 1.0)) ** (1 / orders)).min())
    several = 0.0
    for tap, count in taps(network.outer_filter(network.depth), d).items():
        bound = count / network.outer_filter(network.depth).size * derivatives[s]
        for unit in ((tap - pixel) % d for pixel in pixels):
            g = before[unit : unit + 1] - u_0 * np.eye(1, DEGREE + 1)
            cube = cube_before[unit] * (1.0 + zeta * (value_before[unit] - u_0))
            bound *= _min_scaled_coefficient((g + zeta / 2 * multiply(g, g))[0], cube / gamma(-1.5))
        several += of_branch * network.branch_share * bound
    unit = -min(pixels) % d  # the output at which `pixels`, if 1, is the variable's pixel
    return max(
        several,
        of_features * _min_scaled_coefficient(kernel[unit], limits[unit]) if s == 1 else 0.0,
    )


def _min_scaled_coefficient(series: np.ndarray, ends: np.ndarray) -> float:
    """Return the least n^(5/2) a_n over n ≥ 1; even and odd n tend to the ends' sum, difference."""
    scaled = np.arange(1, len(series)) ** 2.5 * series[1:]
    return float(max(0.0, min(scaled.min(), ends[0] - abs(ends[1]))))


def moments(n_channels: int, k: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return Ψ(k, n) = ∫ t^n P_k(t) η(t) dt at k and n ≥ k of equal parity."""
    logs = gammaln(n + 1.0) - gammaln((n - k) / 2 + 1.0) - n * math.log(2.0)
    # Γ(C0/2)/Γ(C0/2 + m): two logarithms would cancel where channels are many.
    m = np.maximum((n + k) / 2, 1.0)
    ratio = np.where(n + k > 0, betaln(n_channels / 2, m) - gammaln(m), 0.0)
    return np.asarray(np.exp(logs + ratio))


def check_ring(
    network: Network, n_channels: int, d: int, kind: str, head: str, without: Iterable[str] = ()
) -> tuple[int, int]:
    """Return the channels and the ring's pixels of checked arguments."""
    known = RELU_FIELDS.difference(without)
    check_network(network, known, ": theorem 5.1 is about ReLU networks that read single pixels")
    check_kind(kind)
    return check_grid(n_channels, d, 0, head)[:2]


def check_pixel_set(
    pixels: Iterable[int], d: int, field: frozenset[int] | None = None
) -> frozenset[int]:
    """Return a set of pixels of a ring of `d`, in the receptive field if that is given."""
    entries = pixels if is_sequence(pixels) else ()
    if not (chosen := frozenset(check_integer(p, "pixels") % d for p in entries)):
        raise ValueError(f"pixels has {shown(pixels)}, expected one or more integers")
    if field is None or chosen <= field:
        return chosen
    raise ValueError(f"pixels has {sorted(chosen)}, expected some of {sorted(field)}, those seen")
