"""A lower bound on the least eigenvalue of a kernel matrix, from dot products of its signals.

Schur's powers and Gershgorin's circles: docs/theory/conditioning.md, section 5.
"""

from __future__ import annotations

import math

import numpy as np

from ...checks.values import check_integer
from ...kernels import Kernel
from ...memory import check_free_memory
from ...network import Network, check_network
from ...network.parameters import RELU_FIELDS
from ...network.parts import Filter
from .. import multisphere
from ..spectrum.taylor import kernel_series
from ..tools.argument_checks import check_kind, check_named_head
from ..tools.complements import check_nonzero, circular_mean

_HIGHEST_DEGREE = 4096
"""Highest degree: a pixel pair takes a second there."""

_SERIES = 12
"""Arrays of series of all pixel pairs that the recursion holds at a time."""


def separation_bound(
    network: Network, X: np.ndarray, *, kind: str, head: str, max_degree: int = 64
) -> float:
    r"""Return a lower bound on the least eigenvalue of a normalized kernel matrix.

    For ReLU without biases and signals on the multi-sphere. The normalized kernel matrix is the sum
    of its parts of degree N in the dot products. Each is positive semidefinite, and has no
    eigenvalue below the least row of its diagonal less the absolute values off it (Gershgorin). For
    signals of one pixel the bound is :math:`\sum_N a_N [1 - \max_i \sum_{j \ne i} |t_{ij}|^N]_+`
    with the kernel's Taylor coefficients a_N. It is loose where two of many signals are near or
    opposite, and 0 where no degree tells some signals apart. What rounding may add is subtracted.

    Parameters
    ----------
    network : Network
        Of ReLU without biases, with ``input_filter_size`` 1.
    X : ndarray, (n_cases, n_channels, n_timepoints)
        On the multi-sphere.
    kind : {"gpk", "ntk"}
    head : {"equivariant", "trace", "gap"}
    max_degree : int, default 64
        At most 4096. Degrees above any M up to it may be one part together, and the best M counts:
        more degrees never lower the bound.

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    ValueError
        If the network is another one, its kernel is 0 for every signal, signals are not on the
        multi-sphere, or `max_degree` is out of range.
    MemoryError
        If the parts of all degrees exceed the free memory.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk.theory import conditioning
    >>> X, options = rk.theory.multisphere.sample(10, 4, 5, rng=0), {"kind": "ntk", "head": "gap"}
    >>> K = rk.Kernel(rk.Network(3), normalized=True, **options)(X)
    >>> least = np.linalg.eigvalsh(K)[0]
    >>> bound = conditioning.separation_bound(rk.Network(3), X, **options)
    >>> print(f"{bound:.3f} is at most {least:.3f}")
    0.041 is at most 0.102
    """
    known = RELU_FIELDS - {"input_filter_size"}
    check_network(network, known, ": the bound is about Taylor series in dot products")
    check_kind(kind)
    check_named_head(head)
    check_nonzero(network, kind)
    degree = check_integer(max_degree, "max_degree", at_least=1)
    if degree > _HIGHEST_DEGREE:
        raise ValueError(
            f"max_degree is {degree}, expected at most {_HIGHEST_DEGREE}: work is its square"
        )
    X = multisphere.check_on_sphere(X, "X")
    n, d = len(X), X.shape[2]
    pairs = min(multisphere.BLOCK, n * (n + 1) // 2 * d * (d if head == "gap" else 1))
    what = f"a bound for {n} signals with max_degree {degree}"
    needed = 8.0 * (degree + 1) * (4 * n * n + _SERIES * pairs)
    check_free_memory(needed, what, "a smaller one, or fewer signals")
    parts, pooling = _parts(network, X, kind, head, degree), 1.0
    if head == "gap":  # the diagonal is a mean over pixel pairs
        pooled, single = (Kernel(network, kind, name).diag(X) for name in (head, "trace"))
        root = np.sqrt(single / pooled)
        parts *= root * root[:, None]
        pooling = float((single / pooled).max())  # rounding errors grow alike
    complements = multisphere.gram_complements([network], X, kind=kind, head=head)[0]
    rests = 1.0 - complements - np.cumsum(parts, axis=0)
    bounds = np.cumsum(_gershgorin(parts)) + _gershgorin(rests)
    rounding, of_length, every = (pooling * error for error in _errors(network, X, kind, head))
    # Entries err by some roundings a layer, and parts of degree N by N times the error of t.
    bounds -= n * (8.0 * rounding + 2.0 * np.arange(2, degree + 3) * of_length + every)
    undivided = _gershgorin_with_digits(complements, rounding + 2.0 * of_length, every)
    return max(undivided, float(bounds.max()), 0.0)


def _errors(network: Network, X: np.ndarray, kind: str, head: str) -> tuple[float, float, float]:
    """Return bounds on errors of complements: of layers and of lengths, relative, and all others.

    Pixels are on the multi-sphere up to rounding. Their lengths differ by a share, and with them
    the dot products; the square of that share is the least complement that is known. GAP's
    complements are differences of means over pixels that differ.
    """
    eps = float(np.finfo(np.float64).eps)
    rounding, of_length = (20 + network.depth) * eps, multisphere.off_sphere(X) + 4.0 * eps
    pooled = rounding + 2.0 * of_length if head == "gap" else 0.0
    if kind == "gpk":
        return rounding, of_length, pooled + 4.0 * of_length * of_length
    # Near t = ±1 κ0 has the square root of the distance from there.
    offsets = range(X.shape[2] if head == "gap" else 1)
    least = min(1.0 + multisphere.dot_products(X, offset=k).min() for k in offsets)
    root = math.sqrt(min(max(float(least), of_length), 1.0))
    return rounding, of_length, pooled + (20 + network.depth) * of_length / root


def _gershgorin_with_digits(complements: np.ndarray, error: float, every: float) -> float:
    """Return Gershgorin's bound for the whole matrix, less its rounding errors.

    Of a complement `error` is relative to it, and `every` comes on top. Complements of two signals
    that are near are digits which the difference of a diagonal and an entry has lost.
    """
    n = len(complements)
    distance = np.minimum(complements, 2.0 - complements)  # 1 − |K|
    np.fill_diagonal(distance, np.inf)
    off_diagonal, rows = np.abs(1.0 - complements), np.arange(n)
    np.fill_diagonal(off_diagonal, 0.0)
    nearest = distance.argmin(axis=1)
    off_diagonal[rows, nearest] = 0.0
    lost = error * (complements[rows, nearest] + max(n - 2, 0)) + every * (n - 1)
    return float((distance.min(axis=1, initial=1.0) - off_diagonal.sum(axis=1) - lost).min())


def _parts(network: Network, X: np.ndarray, kind: str, head: str, degree: int) -> np.ndarray:
    """Return the parts of degrees 0 … `degree` of a kernel matrix, (degree + 1, n, n)."""
    channels = X.transpose(1, 2, 0)

    def of_pixels(left: multisphere.Places, right: multisphere.Places) -> np.ndarray:
        t = 1.0 - multisphere.pixel_complements((x[left], x[right]) for x in channels)
        start = np.zeros((t.size, degree + 1))  # t has the axes (d, n_offsets, n_pairs)
        start[:, 1] = t.ravel()

        def mean(series: np.ndarray, window: Filter) -> np.ndarray:
            rows = series.reshape(len(t), -1, degree + 1)
            return circular_mean(rows, window).reshape(series.shape)

        coefficients = kernel_series(network, start, mean, kind)[1]
        return np.moveaxis(coefficients.reshape(*t.shape, degree + 1), -1, 0)

    return multisphere.over_pixel_pairs(channels.shape[1:], head, of_pixels)


def _gershgorin(matrices: np.ndarray) -> np.ndarray:
    """Return lower bounds on the least eigenvalues of positive semidefinite matrices."""
    diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
    off_diagonal = np.abs(matrices).sum(axis=-1) - np.abs(diagonal)
    return np.maximum((diagonal - off_diagonal).min(axis=-1), 0.0)
