"""Taylor coefficients of kernels on the multi-sphere.

A normalized kernel is a power series in the pixels' dot products t (Barzilai et al. 2022,
appendix C; ``docs/theory/spectrum.md``). Arrays of series have the shape
(n_series, K + 1, ..., K + 1): an axis for the degree in each variable.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rescntk.network import RELU_FIELDS, Filter, Network, check_network
from rescntk.theory.argument_checks import check_kind, check_pixels
from rescntk.theory.complements import arc_cosines, check_nonzero
from rescntk.theory.spectrum.grid import rotate, taps
from rescntk.validation import check_integer

_MOST_PRODUCTS = 2e9
"""Most pairs of coefficients in a product of two series: 4 seconds of one core."""


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
    >>> taylor_coefficients(literature.geifman_cnn(2), 3, max_degree=1)[:, :, 0].round(4)
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
