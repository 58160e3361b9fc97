"""Power series of kernels on the multi-sphere in the pixels' dot products.

Lemmas C.1, C.2, C.4 and C.7 of Barzilai et al. 2022; ``docs/theory/decay_constants.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import gamma

from ...checks.messages import shown
from ...checks.values import check_integer, check_nonnegative
from ...network import Network, check_network
from ...network.parameters import RELU_FIELDS
from ...network.parts import Filter
from ..tools.argument_checks import check_kind, check_pixels
from ..tools.complements import arc_cosines, check_nonzero, circular_mean
from .grid import rotate, taps

DEGREE = 256
"""Highest degree of series in one variable: later terms lie between the last ones and a limit."""


def taylor_coefficients(
    network: Network, n_timepoints: int, max_degree: int, *, kind: str
) -> np.ndarray:
    """Return the Taylor coefficients of a normalized equivariant kernel (lemmas C.1, C.2, C.7).

    Entry n multiplies the product of the powers n_i of the pixels' dot products t_i.

    Parameters
    ----------
    network : Network
        Of ReLU without biases, with a kernel that is not 0 for every signal.
    n_timepoints : int
        Number d of pixels, at most 32.
    max_degree : int
        Highest power of each dot product; a product of two series has at most 2e9 pairs of terms.
    kind : {"gpk", "ntk"}

    Returns
    -------
    ndarray, (max_degree + 1, ..., max_degree + 1)
        An axis for each pixel. The coefficients of all degrees sum to 1.

    Raises
    ------
    ValueError
        If the network is another one, or the products of series have more pairs of terms.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory.spectrum import taylor_coefficients
    >>> taylor_coefficients(literature.geifman_cnn(2), 3, 1, kind="gpk")[:, :, 0].round(4)
    array([[0.4937, 0.1005],
           [0.1005, 0.0093]])
    """
    check_network(network, RELU_FIELDS, ": the recursion of Taylor coefficients is about κ0 and κ1")
    check_nonzero(network, check_kind(kind))
    d, degree = check_pixels(n_timepoints), check_integer(max_degree, "max_degree", 0)
    check_nonnegative(degree, "max_degree")  # within float64
    if (pairs := float(degree + 1) ** (2 * d)) > 2e9:  # 4 seconds of one core
        what = f"max_degree is {shown(max_degree)}: products of series have {pairs:.3g}"
        raise ValueError(f"{what} pairs of coefficients for {d} pixels, expected at most 2e9")
    start = np.eye(1, (degree + 1) ** d, (degree + 1) ** (d - 1)).reshape(1, *[degree + 1] * d)

    def mean(series: np.ndarray, window: Filter) -> np.ndarray:
        seen = [count * rotate(series[0], p) for p, count in taps(window, d).items()]
        return np.asarray(sum(seen) / window.size)[None]

    return kernel_series(network, mean(start, network.input_filter), mean, kind)[-1][0]


def kernel_series(
    network: Network, F: np.ndarray, mean: Callable[..., np.ndarray], kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the series H_i F of the last pre-activations, and of the normalized kernel.

    `F`, (n_series, K + 1, ...), an axis for the degree in each variable, are the input layer's.
    `mean` takes means over a window.
    """
    parts, p, tau = network.parts, network.branch_share, network.parts.input
    u, T = F, parts.input * F
    # With u = H_i F: F ← (1 − p) F + p H_o κ1(u);
    # T ← (1 − p) T + p H_o ([outer] κ1(u) + κ0(u) ([inner] u + H_i T)).
    filters = network.filters()
    for inner, outer in zip(filters, filters, strict=True):
        u = mean(F, inner)
        k0, k1 = compose(u)
        if kind == "ntk":
            branch = parts.outer * k1 + multiply(k0, parts.inner * u + mean(T, inner))
            T = (1.0 - p) * T + p * mean(branch, outer)
            tau += p * (parts.outer + parts.inner)
        F = (1.0 - p) * F + p * mean(k1, outer)
    return u, F if kind == "gpk" else (parts.readout * F + T) / (parts.readout + tau)


def compose(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the series of κ0(u) and κ1(u): D κ1 = κ0 D u, D κ0 = w D u / π, w = (1 − u²)^(−½).

    D multiplies a coefficient by its total degree. n (1 − v_0) w_n is the
    sum over j ≠ 0 of (n − j/2) v_j w_(n−j) for v = u². Coefficients of u are at least 0.
    """
    degree, at_0 = np.asarray(sum(np.indices(u.shape[1:]))), (slice(None),) + (0,) * (u.ndim - 1)
    v, w, axes = multiply(u, u), np.zeros(u.shape), tuple(range(1, u.ndim))
    left = 1.0 - v[at_0]
    left = np.where(left > 0.0, left, np.inf)  # a constant of 1: κ0 and κ1 are 1, and w not needed
    w[at_0] = left**-0.5
    for n in list(np.ndindex(u.shape[1:]))[1:]:
        box = (slice(None), *(slice(k + 1) for k in n))
        terms = (sum(n) - degree[box[1:]] / 2) * v[box] * np.flip(w[box], axes)
        w[(slice(None), *n)] = terms.sum(axis=axes) / (sum(n) * left)
    k0 = multiply(degree * u, w) / (math.pi * np.maximum(degree, 1))
    k0[at_0], constant = arc_cosines(u[at_0])
    k1 = multiply(degree * u, k0) / np.maximum(degree, 1)
    k1[at_0] = constant
    return k0, k1


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the products of series, cut off at the degrees that the arrays have."""
    result = np.zeros(a.shape)
    for n in np.argwhere(a.any(axis=0)):
        target = (slice(None), *(slice(k, None) for k in n))
        source = (slice(None), *(slice(a.shape[1] - k) for k in n))
        result[target] += a[(slice(None), *n)].reshape(-1, *[1] * len(n)) * b[source]
    return result


def series_in_one_variable(
    network: Network, constant: np.ndarray, slope: np.ndarray, kind: str
) -> tuple[np.ndarray, ...]:
    """Return series in one variable t, for dot products constant + slope · t of d pixels.

    They are the last pre-activations' and the kernel's, (d, degrees). Three results, (d, 2), are
    for the ends t = ±1. The first has the last pre-activations' values, the second their factors
    of x^(3/2), where x is the distance from the end. The third has the ends' shares in the limit of
    n^ν times the kernel's coefficients.
    """
    first = np.stack([constant, slope], axis=1) @ np.eye(2, DEGREE + 1)
    before, kernel = kernel_series(network, first, circular_mean, kind)
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
