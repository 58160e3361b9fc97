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

from ..network import RELU_FIELDS, Filter, Network, check_network
from ..validation import check_integer, check_nonnegative, is_sequence
from .argument_checks import check_grid, check_kind, check_options, check_pixels
from .complements import arc_cosines, check_nonzero, circular_mean
from .report_table import ReportTable
from .spectrum import eigenvalues
from .spectrum.grid import rotate, shifts, taps, widen, windows

__all__ = [
    "Constants", "DecayRow", "DecayTable", "constants", "exponents", "law", "taylor_coefficients",
]  # fmt: skip

_NU = {"gpk": 2.5, "ntk": 1.5}
"""ν: coefficients of the kernel of equal dot products fall like n^−ν (lemma C.6)."""

_DEGREE = 256
"""Highest degree of series in one variable: later terms lie between the last ones and a limit."""


class DecayRow(NamedTuple):
    """The fall of eigenvalues λ_k with a frequency k on some pixels, and 0 on all others.

    ``pixels`` are relative to the output pixel. ``exponent`` is the slope of log λ over
    log(k + C0/2 − 1), K/2 ≤ k ≤ K, NaN where too few λ exceed errors; ``uncertainty`` is twice its
    difference from the slope over K/4 ≤ k ≤ K/2, plus 1/K. `law` is −inf where eigenvalues are 0.
    ``lowest`` and ``highest`` are the bounds of theorem 5.1 on the exponents of others.
    """

    pixels: tuple[int, ...]
    exponent: float
    uncertainty: float
    law: float
    lowest: float
    highest: float


@dataclass(frozen=True, eq=False)
class DecayTable(ReportTable):
    """A `DecayRow` for each set; k = 1 … K, and eigenvalues and their errors, (n_sets, K)."""

    frequencies: np.ndarray
    eigenvalues: np.ndarray
    errors: np.ndarray


def exponents(
    network: Network, n_channels: int, n_timepoints: int, max_frequency: int, kind: str = "gpk", *,
    pixels: Iterable[Iterable[int]] | None = None, **options: Any,
) -> DecayTable:  # fmt: skip
    """Return exponents of eigenvalues over a frequency that is spread over one, two, three pixels.

    Figure 1 of Barzilai et al. 2022 (equivariant kernel), with theorem 5.1's bounds, sharper: only
    pixels in the receptive field count.

    Parameters
    ----------
    network, n_channels, n_timepoints, kind, **options
        As for ``spectrum.eigenvalues``, with ReLU and ``input_filter_size`` 1, as in the theorem.
    max_frequency : int
        K, at least 8. Slopes are fitted to the frequencies from its half on.
    pixels : iterable of sets of pixels, optional
        By default 0; 0 and 1; −1, 0 and 1, as far as the receptive field has them.

    Examples
    --------
    >>> from rescntk import literature, theory
    >>> print(theory.decay.exponents(literature.geifman_cnn(2), 2, 3, max_frequency=24))
    pixels  exponent  uncertainty  law  lowest  highest
    ---------------------------------------------------
         0    -4.063       0.3507   -4      -4       -2
       0 1    -5.988        0.201   -6      -8       -4
    -1 0 1    -5.931       0.2018   -6     -12       -6
    """
    C, d = _check(network, n_channels, n_timepoints, kind, "equivariant", {"input_filter_size"})
    K, field = check_integer(max_frequency, "max_frequency", 8), windows(network, d)[1][-1]
    if pixels is None:
        spreads = [(0,), (0, 1), (-1, 0, 1)][:d]
        pixels = [spread for spread in spreads if field.issuperset(p % d for p in spread)]
    sets = [_pixels(chosen, d, field) for chosen in pixels] if is_sequence(pixels) else []
    if not sets:
        raise ValueError(f"pixels is {pixels!r}, expected sets of one or more integers")
    top = [K if pixel in frozenset().union(*sets) else 0 for pixel in range(d)]
    computed = eigenvalues(network, C, d, top, kind, **check_options(options, "return_error"))
    k, rows, columns = np.arange(1, K + 1), [], []
    for chosen in sets:
        at = tuple(k if pixel in chosen else 0 for pixel in range(d))
        columns.append([array[at] for array in computed[:2]])
        known = np.where(computed.resolved[at], columns[-1][0], 0.0)
        halves = slice(K // 2 - 1, None), slice(K // 4 - 1, K // 2)
        upper, lower = (_slope(k[half], known[half], C) for half in halves)
        bounds = len(chosen) * np.array([-C - 2, 1 - C - 2 * (_NU[kind] - 1) / len(field)])
        near = tuple(sorted(p if 2 * p <= d else p - d for p in chosen))
        error, expected = 2 * abs(upper - lower) + 1 / K, law(network, C, d, chosen, kind)
        rows.append(DecayRow(near, upper, error, expected, *bounds.tolist()))
    return DecayTable(tuple(rows), k, *np.array(columns).swapaxes(0, 1))


def law(
    network: Network, n_channels: int, n_timepoints: int, pixels: Iterable[int],
    kind: str = "gpk", head: str = "equivariant",
) -> float:  # fmt: skip
    """Return the exponent with which eigenvalues fall, from the kernel's singularities.

    A conjecture about large frequencies. −inf if eigenvalues are 0: no window of the last layer
    has all pixels.

    Parameters
    ----------
    network, n_channels, n_timepoints, kind, head
        As for ``spectrum.eigenvalues``, with ReLU.
    pixels : iterable of int
        Pixels that have the frequency, at least one. All others have frequency 0.

    Examples
    --------
    >>> from rescntk import literature, theory
    >>> theory.decay.law(literature.geifman_cnn(3), 2, 5, (-1, 1, 2))
    -8.0
    """
    C, d = _check(network, n_channels, n_timepoints, kind, head)
    chosen = _pixels(pixels, d)
    parts, factors = network.parts, (network.alpha, network.c_v, network.c_w, network.readout_scale)
    if not all(factors) or (kind == "ntk" and not network.trained):
        return -math.inf
    # κ0 multiplies the derivatives by the parts trained below its layer: the first such layer.
    first = 1 if parts.input or parts.inner else 2 if parts.outer else network.depth + 1
    first = network.depth + 1 if kind == "gpk" else first
    # The windows of the last pre-activation at pixel 0 and of all below it, and their last layers.
    seen, below = windows(network, d)[0], dict[frozenset[int], int]()
    reached, features = frozenset({0}), frozenset[int]()  # pixels of units, and what they take
    for layer in range(network.depth, 0, -1):
        for p in reached:
            below.setdefault(frozenset((p + k) % d for k in seen[layer - 1]), layer)
        inner = widen(reached, network.inner_filter(layer), d)
        features = features | inner if network.skip else inner
        reached = widen(features, network.outer_filter(max(layer - 1, 1)), d)

    @cache
    def least(left: frozenset[int], steep: bool) -> float:
        """Return the least cost of covering `left`; `steep` if κ0 has still to be spent."""
        best = math.inf if left else 0.0
        for window, layer in below.items():
            if left and min(left) in window:
                cost, rest = 3.0 + len(window) * (C - 1.0), left - window
                best = min(best, cost + least(rest, steep))
                if steep and layer >= first:
                    best = min(best, cost - 2.0 + least(rest, False))
        return best

    # Seen from a unit of the last layer, at each pixel to which the outer filter reaches.
    moved = {
        frozenset((pixel + shift - tap) % d for pixel in chosen)
        for shift in shifts(head, d)
        for tap in taps(network.outer_filter(network.depth), d)
    }
    costs = (least(pixels, first <= network.depth) for pixels in moved if pixels <= seen[-1])
    return -min(costs, default=math.inf)


class Constants(NamedTuple):
    """Theorem 5.1 for a normalized kernel and one set of s pixels: c_1, c_2 and exponents.

    c_1 is 0 where no window of the last layer has all pixels. In ``upper_exponent``, s takes the
    place of the number of pixels of the receptive field: a sharper bound.
    """

    lower: float
    upper: float
    lower_exponent: float
    upper_exponent: float

    def bounds(self, frequencies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper bound on eigenvalues of positive frequencies (..., s)."""
        product = np.asarray(frequencies, dtype=np.float64).prod(axis=-1)
        return self.lower * product**self.lower_exponent, self.upper * product**self.upper_exponent


def constants(
    network: Network, n_channels: int, n_timepoints: int, pixels: Iterable[int],
    kind: str = "gpk", head: str = "equivariant",
) -> Constants:  # fmt: skip
    """Return theorem 5.1's constants for a normalized kernel, computed and not fitted.

    They bound ``spectrum.eigenvalues(..., normalized=True)`` at positive frequencies on a set of
    pixels, and 0 on all others (Barzilai et al. 2022, lemmas C.1 to C.7).

    Parameters
    ----------
    network, n_channels, n_timepoints, pixels, kind, head
        As for `law`, with ``input_filter_size`` 1. A kernel that is 0 for every signal is refused.

    Examples
    --------
    >>> from rescntk import literature, theory
    >>> found = theory.decay.constants(literature.barzilai_cnn(2), 2, 1, pixels=[0])
    >>> [round(float(bound), 5) for bound in found.bounds([4])]  # the eigenvalue is 0.00221
    [0.0004, 0.04377]
    """
    C, d = _check(network, n_channels, n_timepoints, kind, head, {"input_filter_size"})
    chosen = _pixels(pixels, d)
    check_nonzero(network, kind)
    s, nu, found = len(chosen), _NU[kind], []
    if s * C > 160:
        raise OverflowError(
            f"constants of {s} pixels of {C} channels exceed float64, expected at most 160 in all"
        )
    at_0, degrees = one_variable(network, np.zeros(d), np.eye(d)[0], "gpk"), np.arange(_DEGREE + 1)
    for shift in shifts(head, d):
        moved = {(p + shift) % d for p in chosen}
        # The largest N^ν b_N over N ≥ s (lemmas C.3-C.6). Here b_N is the coefficient of t^N of
        # the kernel whose dot products are t at the s pixels, else 1.
        inside = np.isin(np.arange(d), list(moved)).astype(float)
        _, kernel, _, _, limits = one_variable(network, 1.0 - inside, inside, kind)
        largest = max((degrees**nu * kernel[0])[s:].max(), limits[0, 0] + abs(limits[0, 1]))
        found.append((_lower_coefficient(at_0, network, moved, kind), largest))
    # The least k^(C0+2) Σ_n n^(−5/2) m(k, n) over k ≥ 1; m n^((C0−1)/2) exp(k²/2n) tends to M.
    p, M = C / 2 + 2.0, 2 ** ((C - 1) / 2) * math.gamma(C / 2) / math.sqrt(math.pi)
    power = M / 2 * math.gamma(p - 1) * 2 ** (p - 1)
    for k in np.arange(1.0, 65.0)[:, None]:
        n = np.arange(k[0], 40 * k[0] ** 2 + 400, 2.0)  # sums that end are lower bounds
        power = min(power, float((k ** (C + 2) * n**-2.5 * moments(C, k, n)).sum()))
    # The sum over N of N^−ν, times the largest product of s moments, at most M n^−a exp(−k²/2n).
    a, grid = (C - 1) / 2, np.indices((256, 256), dtype=float)
    k, n = grid[:, (grid[1] >= grid[0]) & ((grid[1] - grid[0]) % 2 == 0) & (grid[0] > 0)]
    M = max(M, float((moments(C, k, n) * n**a * np.exp(k**2 / (2 * n))).max()))
    # φ(y) = y^−a exp(−1/2y) is largest at y = 1/2a, and φ^s y^−ν at y = s/2(as + ν).
    q, peak = nu + a * s, s / (2 * nu + 2 * a * s)
    rising = (s / 2) ** (1 - q) * gammaincc(q - 1, s * a) * math.gamma(q - 1)
    falling = (2 * a / math.e) ** (a * s) * (2 * a) ** (nu - 1) / (nu - 1)
    total = M**s * s ** (1 - nu) * (rising + falling + (math.e * peak) ** -q / s)
    lower, upper = (np.mean(found, axis=0) * [power**s, total]).tolist()
    return Constants(lower, upper, -C - 2.0, 1.0 - C - 2.0 * (nu - 1.0) / s)


def taylor_coefficients(
    network: Network, n_timepoints: int, max_degree: int, kind: str = "gpk"
) -> np.ndarray:
    """Return the Taylor coefficients of a normalized equivariant kernel (lemmas C.1, C.2, C.7).

    The array has an axis of max_degree + 1 for each pixel. Entry n multiplies the product of the
    powers n_i of the dot products t_i. All coefficients sum to 1.

    Parameters
    ----------
    network, n_timepoints, kind
        As for ``spectrum.eigenvalues``, with ReLU, and a kernel that is not 0 for every signal.
    max_degree : int
        Highest power of each dot product; a product of two series has at most 2e9 pairs of terms.

    Examples
    --------
    >>> from rescntk import literature, theory
    >>> theory.decay.taylor_coefficients(literature.geifman_cnn(2), 3, 1)[:, :, 0].round(4)
    array([[0.4937, 0.1005],
           [0.1005, 0.0093]])
    """
    check_network(network, RELU_FIELDS, ": the recursion of Taylor coefficients is about κ0 and κ1")
    check_nonzero(network, check_kind(kind))
    d, degree = check_pixels(n_timepoints), check_integer(max_degree, "max_degree", 0)
    check_nonnegative(degree, "max_degree")  # within float64
    if (pairs := float(degree + 1) ** (2 * d)) > 2e9:  # 4 seconds of one core
        what = f"max_degree is {max_degree!r}: products of series have {pairs:.3g}"
        raise ValueError(f"{what} pairs of coefficients for {d} pixels, expected at most 2e9")
    start = np.eye(1, (degree + 1) ** d, (degree + 1) ** (d - 1)).reshape(1, *[degree + 1] * d)

    def mean(series: np.ndarray, window: Filter) -> np.ndarray:
        seen = [count * rotate(series[0], p) for p, count in taps(window, d).items()]
        return np.asarray(sum(seen) / window.size)[None]

    return _series(network, mean(start, network.input_filter), mean, kind)[-1][0]


def _series(
    network: Network, F: np.ndarray, mean: Callable[..., np.ndarray], kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the series H_i F of the last pre-activations, and of the normalized kernel.

    `F`, (n_series, K + 1, ...), an axis for the degree in each variable, are the input layer's.
    `mean` takes means over a window.
    """
    parts, s, tau = network.parts, network.branch_share, network.parts.input
    u, T = F, parts.input * F
    # F ← (1 − s) F + s H_o κ1(u), T ← (1 − s) T + s H_o (o κ1(u) + κ0(u) (i u + H_i T)), u = H_i F.
    filters = network.filters()
    for inner, outer in zip(filters, filters, strict=True):
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

    D multiplies a coefficient by its total degree. n (1 − v_0) w_n is the
    sum over j ≠ 0 of (n − j/2) v_j w_(n−j) for v = u². Coefficients of u are at least 0.
    """
    degree, at_0 = np.asarray(sum(np.indices(u.shape[1:]))), (slice(None),) + (0,) * (u.ndim - 1)
    v, w, axes = _multiply(u, u), np.zeros(u.shape), tuple(range(1, u.ndim))
    left = 1.0 - v[at_0]
    left = np.where(left > 0.0, left, np.inf)  # a constant of 1: κ0 and κ1 are 1, and w not needed
    w[at_0] = left**-0.5
    for n in list(np.ndindex(u.shape[1:]))[1:]:
        box = (slice(None), *(slice(k + 1) for k in n))
        terms = (sum(n) - degree[box[1:]] / 2) * v[box] * np.flip(w[box], axes)
        w[(slice(None), *n)] = terms.sum(axis=axes) / (sum(n) * left)
    k0 = _multiply(degree * u, w) / (math.pi * np.maximum(degree, 1))
    k0[at_0], constant = arc_cosines(u[at_0])
    k1 = _multiply(degree * u, k0) / np.maximum(degree, 1)
    k1[at_0] = constant
    return k0, k1


def _multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the products of series, cut off at the degrees that the arrays have."""
    result = np.zeros(a.shape)
    for n in np.argwhere(a.any(axis=0)):
        target = (slice(None), *(slice(k, None) for k in n))
        source = (slice(None), *(slice(a.shape[1] - k) for k in n))
        result[target] += a[(slice(None), *n)].reshape(-1, *[1] * len(n)) * b[source]
    return result


def one_variable(
    network: Network, constant: np.ndarray, slope: np.ndarray, kind: str
) -> tuple[np.ndarray, ...]:
    """Return series in one variable t, for dot products constant + slope · t of d pixels.

    They are the last pre-activations' and the kernel's, (d, degrees). Three results, (d, 2), are
    for the ends t = ±1. The first has the last pre-activations' values, the second their factors
    of x^(3/2), where x is the distance from the end. The third has the ends' shares in the limit of
    n^ν times the kernel's coefficients.
    """
    first = np.stack([constant, slope], axis=1) @ np.eye(2, _DEGREE + 1)
    before, kernel = _series(network, first, circular_mean, kind)
    # At its ends F is value ∓ slope x + cube x^(3/2) + …, and T has root x^(1/2). Near ρ = 1, κ1
    # has (1 − ρ)^(3/2) times 2√2/3π, and κ0 (1 − ρ)^(1/2) times −√2/π; near −1 both have + (C.4).
    s, parts, tau = network.branch_share, network.parts, network.parts.input
    value, steep = constant[:, None] + np.outer(slope, [1, -1]), np.outer(slope, [1, 1])
    ends = np.stack([value, steep, 0 * steep, tau * value, 0 * steep], axis=1)
    filters = network.filters()
    for inner, outer in zip(filters, filters, strict=True):
        u, steep, cube, T, root = np.moveaxis(circular_mean(ends, inner), 1, 0)
        inside, (k0, k1) = parts.inner * u + T, arc_cosines(u)
        sign = np.isclose(u, -1.0).astype(float) - np.isclose(u, 1.0)  # of κ0's root
        new_cube = k0 * cube + math.sqrt(8) / (3 * math.pi) * np.abs(sign) * steep**1.5
        new_root = k0 * root + math.sqrt(2) / math.pi * sign * np.sqrt(steep) * inside
        branch = [k1, k0 * steep, new_cube, parts.outer * k1 + k0 * inside, new_root]
        ends = (1 - s) * ends + s * circular_mean(np.stack(branch, axis=1), outer)
        tau += s * (parts.inner + parts.outer)
    shares = {"gpk": ends[:, 2] / gamma(-1.5), "ntk": ends[:, 4] / gamma(-0.5)}
    return before, kernel, u, cube, shares[kind] / (1.0 if kind == "gpk" else parts.readout + tau)


def _lower_coefficient(
    series: tuple[np.ndarray, ...], network: Network, pixels: set[int], kind: str
) -> float:
    """Return a c of lemma C.1: Taylor coefficients are a_n ≥ c Π n_i^(−5/2), n_i > 0 on `pixels`.

    `series` has the dot product of pixel 0 as its variable, and 0 elsewhere.
    """
    before, kernel, value_before, cube_before, limits = series
    s, d, parts = len(pixels), len(kernel), network.parts
    # Lemma C.2, for the tangent kernel: r K of the features, (o + r) K of the last layer's branch.
    of_features = of_branch = 1.0
    if kind == "ntk":
        total = parts.initial + (parts.inner + parts.outer) * network.depth * network.branch_share
        of_features, of_branch = parts.readout / total, parts.outer_plus_readout / total
    # Let u = u_0 + Σ g_i(t_i) + …, and D the derivative of κ1 at u_0 of order s. No coefficient of
    # κ1(u) is below the coefficient of D Π (g_i + r g_i²/2).
    u_0, orders = float(before[0, 0]), np.arange(1, s + 1)
    series_of_u = np.array([[u_0, 1.0, *[0.0] * (2 * s - 1)]])
    derivatives = _compose(series_of_u)[1][0] * gamma(np.arange(2 * s + 1) + 1.0)
    r = float(((derivatives[s + orders] / (derivatives[s] or 1.0)) ** (1 / orders)).min())
    several = 0.0
    for tap, count in taps(network.outer_filter(network.depth), d).items():
        bound = count / network.outer_filter_size * derivatives[s]
        for unit in ((tap - pixel) % d for pixel in pixels):
            g = before[unit : unit + 1] - u_0 * np.eye(1, _DEGREE + 1)
            cube = cube_before[unit] * (1.0 + r * (value_before[unit] - u_0))
            bound *= _least((g + r / 2 * _multiply(g, g))[0], cube / gamma(-1.5))
        several += of_branch * network.branch_share * bound
    unit = -min(pixels) % d  # the output at which `pixels`, if 1, is the variable's pixel
    return max(several, of_features * _least(kernel[unit], limits[unit]) if s == 1 else 0.0)


def _least(series: np.ndarray, ends: np.ndarray) -> float:
    """Return the least n^(5/2) a_n over n ≥ 1; even and odd n tend to the ends' sum, difference."""
    scaled = np.arange(1, len(series)) ** 2.5 * series[1:]
    return float(max(0.0, min(scaled.min(), ends[0] - abs(ends[1]))))


def moments(n_channels: int, k: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return m(k, n) = ∫ t^n P_k(t) w(t) dt of spectrum.md at k and n ≥ k of equal parity."""
    logs = gammaln(n + 1.0) - gammaln((n - k) / 2 + 1.0) - n * math.log(2.0)
    # Γ(C0/2)/Γ(C0/2 + m): two logarithms would cancel where channels are many.
    m = np.maximum((n + k) / 2, 1.0)
    ratio = np.where(n + k > 0, betaln(n_channels / 2, m) - gammaln(m), 0.0)
    return np.asarray(np.exp(logs + ratio))


def _slope(frequency: np.ndarray, values: np.ndarray, n_channels: int) -> float:
    """Return the slope of log values > 0 over log centred frequency, even and odd ones apart."""
    frequency, values = frequency[values > 0], values[values > 0]
    offsets = [frequency % 2 == some for some in np.unique(frequency % 2)]
    if len(values) < len(offsets) + 2:
        return math.nan
    # The Laplacian's k(k + C0 − 2) is the square of k + C0/2 − 1 up to a constant.
    design = np.stack([np.log(frequency + (n_channels - 2) / 2), *offsets], axis=1)
    return float(np.linalg.lstsq(design, np.log(values), rcond=None)[0][0])


def _check(
    network: Any, n_channels: Any, d: Any, kind: Any, head: Any, without: Any = ()
) -> tuple[int, int]:
    """Return the channels and the ring's pixels of checked arguments."""
    known = RELU_FIELDS.difference(without)
    check_network(network, known, ": theorem 5.1 is about ReLU networks that read single pixels")
    check_kind(kind)
    return check_grid(n_channels, d, 0, head)[:2]


def _pixels(pixels: Any, d: int, field: Any = None) -> frozenset[int]:
    """Return a set of pixels of a ring of `d`, in the receptive field if that is given."""
    given = pixels if is_sequence(pixels) else ()
    if not (found := frozenset(check_integer(p, "pixels") % d for p in given)):
        raise ValueError(f"pixels has {pixels!r}, expected one or more integers")
    if field is None or found <= field:
        return found
    raise ValueError(f"pixels has {sorted(found)}, expected some of {sorted(field)}, those seen")
