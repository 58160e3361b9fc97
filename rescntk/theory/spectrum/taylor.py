r"""Taylor coefficients of κ0, κ1 and of kernels on the multi-sphere: Barzilai et al. 2022, app. C.

On the multi-sphere a normalized kernel is a power series :math:`\bar K(t) = \sum_n a_n t^n` in
the dot products t of the pixels, with multi-indices n. The recursion over layers is, with the
branch's share s of the variance,

.. math::
    F &\leftarrow (1-s)\, F + s\, H_o\, \kappa_1(H_i F), \\
    T &\leftarrow (1-s)\, T + s\, H_o \bigl(o\, \kappa_1(H_i F)
        + \kappa_0(H_i F) \cdot (i\, H_i F + H_i T)\bigr) .

Arrays of series have the shape (n_series, K + 1, ..., K + 1): an axis for the degree in each
variable. Sums and products of series have positive terms alone, so every coefficient keeps its
digits. ``docs/theory/spectrum.md`` derives the composition with κ0 and κ1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from ...network import Filter, Network, check_relu
from ...validation import KINDS, check_choice, check_integer
from ..arguments import check_channels, check_pixels
from ..complements import arc_cosines, check_nonzero
from .grid import rotate, taps

_MOST_PRODUCTS = 2e9
"""Most pairs of coefficients that one product of two series may take: 4 seconds of one AMD EPYC
core. A network has about five products a layer."""

Mean = Callable[[np.ndarray, Filter], np.ndarray]
"""Mean over a filter's window, from an array of series and the filter's size."""


class DualCoefficients(NamedTuple):
    """Taylor coefficients of the dual activations of ReLU."""

    kappa0: np.ndarray
    """Of κ0(ρ), (max_degree + 1,): ½, 1/π, 0, … They fall like n^(−3/2) for odd n."""
    kappa1: np.ndarray
    """Of κ1(ρ), (max_degree + 1,): 1/π, ½, 1/(2π), 0, … They fall like n^(−5/2) for even n."""


def dual_coefficients(max_degree: int) -> DualCoefficients:
    r"""Return the Taylor coefficients of κ0 and κ1, the dual activations of ReLU.

    .. math::
        \kappa_0(\rho) = \frac12 + \frac1\pi \sum_j
            \binom{2j}{j} \frac{\rho^{2j+1}}{4^j (2j+1)}, \qquad
        \kappa_1(\rho) = \frac1\pi + \int_0^\rho \kappa_0 .

    Parameters
    ----------
    max_degree : int
        The highest power of ρ.

    Examples
    --------
    >>> from rescntk.theory import spectrum
    >>> spectrum.dual_coefficients(4).kappa1.round(4)
    array([0.3183, 0.5   , 0.1592, 0.    , 0.0133])
    """
    degree = check_integer(max_degree, "max_degree", 0)
    rho = np.zeros((1, degree + 2))
    rho[0, 1] = 1.0
    return DualCoefficients(*(series[0, : degree + 1] for series in compose(rho)))


def taylor_coefficients(
    network: Network, n_timepoints: int, max_degree: int, kind: str = "gpk"
) -> np.ndarray:
    """Return the Taylor coefficients of a normalized equivariant kernel in the dot products.

    Theorem 5.1 of Barzilai et al. 2022 rests on them (lemmas C.1, C.2, C.7).

    Parameters
    ----------
    network : Network
        With ReLU.
    n_timepoints : int
        Number d of pixels.
    max_degree : int
        Highest power of each pixel's dot product.
    kind : {"gpk", "ntk"}, default "gpk"

    Returns
    -------
    ndarray, (max_degree + 1, ..., max_degree + 1), d axes
        Entry n multiplies the product of the powers n_i of the dot products t_i. The sum of all
        coefficients, of all degrees, is 1.

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
    check_series(network, kind)
    d, degree = check_pixels(n_timepoints), check_integer(max_degree, "max_degree", 0)
    products = float(degree + 1) ** (2 * d)
    if products > _MOST_PRODUCTS:
        raise ValueError(
            f"max_degree is {max_degree!r}: a product of two series has {products:.3g} pairs of "
            f"coefficients for {d} pixels, expected at most {_MOST_PRODUCTS:.3g}"
        )
    start = np.zeros((degree + 1,) * d)
    if degree:
        start[(1,) + (0,) * (d - 1)] = 1.0

    def mean(series: np.ndarray, window: Filter) -> np.ndarray:
        parts = [count * rotate(series[0], pixel) for pixel, count in taps(window, d).items()]
        return np.asarray(sum(parts) / window.size)[None]

    first = mean(start[None], network.input_filter)
    return kernel_series(network, first, mean, kind)[-1][0]


def zonal_moments(n_channels: int, max_frequency: int, max_degree: int) -> np.ndarray:
    r"""Return the integrals :math:`\int t^n P_k(t)\, w(t)\, dt`, with P_k and w as in `zonal`.

    .. math:: \frac{n!\; \Gamma(C_0/2)}{2^n\, (\frac{n-k}2)!\; \Gamma(\frac{n+k+C_0}2)}

    for :math:`n \ge k` of equal parity, else 0, an array (max_frequency + 1, max_degree + 1). The
    eigenvalue of frequencies k is the sum of a kernel's Taylor coefficients :math:`a_n`, each
    multiplied by the pixels' moments.

    Parameters
    ----------
    n_channels : int
        C0, at least 2.
    max_frequency, max_degree : int
        Highest k, and highest n.

    Examples
    --------
    >>> from rescntk.theory import spectrum
    >>> spectrum.zonal_moments(n_channels=2, max_frequency=2, max_degree=3)
    array([[1.   , 0.   , 0.5  , 0.   ],
           [0.   , 0.5  , 0.   , 0.375],
           [0.   , 0.   , 0.25 , 0.   ]])
    """
    n_channels = check_channels(n_channels)
    k = np.arange(check_integer(max_frequency, "max_frequency", 0) + 1)[:, None]
    n = np.arange(check_integer(max_degree, "max_degree", 0) + 1)
    return np.where((n >= k) & ((n - k) % 2 == 0), moments(n_channels, k, np.maximum(n, k)), 0.0)


def moments(n_channels: int, k: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Return `zonal_moments` at k and n ≥ k of equal parity, of any broadcasting shapes."""
    logs = gammaln(n + 1.0) + gammaln(n_channels / 2) - n * math.log(2.0)
    logs = logs - gammaln((n - k) / 2 + 1.0) - gammaln((n + k + n_channels) / 2)
    return np.asarray(np.exp(logs))


def kernel_series(
    network: Network, first: np.ndarray, mean: Mean, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the series H_i F of the last pre-activations, and of the normalized kernel.

    `first`, (n_series, K + 1, ...), are series of the input layer: means of the dot products over
    the input's window. Results have its shape.
    """
    parts, s, tau = network.parts, network.branch_share, network.parts.input
    F, T = first, parts.input * first
    u = F
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
    """Return the series of κ0(u) and κ1(u), for series u with nonnegative coefficients.

    D κ1 = κ0 D u and D κ0 = w D u / π, with w = (1 − u²)^(−½). Euler's operator D multiplies a
    coefficient by its total degree.
    """
    degree = _total_degree(u)
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
    degree, last = _total_degree(v), v.shape[1:]
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
    lengths = shape[1:]
    target = (slice(None), *(slice(int(k), None) for k in n))
    source = (slice(None), *(slice(length - int(k)) for k, length in zip(n, lengths, strict=True)))
    return target, source


def _total_degree(series: np.ndarray) -> np.ndarray:
    """Return the total degree of each coefficient, an array of the series' own axes."""
    return np.asarray(sum(np.indices(series.shape[1:])))


def check_series(network: Network, kind: str) -> None:
    """Raise ValueError if the kernel has no Taylor series here: not ReLU, or 0."""
    check_relu(network, ": the recursion of Taylor coefficients is about κ0 and κ1")
    check_nonzero(network, check_choice(kind, "kind", KINDS))
