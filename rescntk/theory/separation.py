"""A lower bound on the least eigenvalue of a kernel matrix, from dot products of its signals.

Schur's powers and Gershgorin's circles: docs/theory/conditioning.md, section 5.
"""

from __future__ import annotations

import numpy as np

from ..kernels import Kernel
from ..network import RELU_FIELDS, Network, check_network
from ..network_parts import Filter
from ..validation import check_integer
from . import multisphere
from .argument_checks import check_kind, check_named_head
from .complements import check_nonzero, circular_mean
from .spectrum.taylor import kernel_series


def separation_bound(
    network: Network, X: np.ndarray, *, kind: str, head: str, max_degree: int = 64
) -> float:
    r"""Return a lower bound on the least eigenvalue of a normalized kernel matrix.

    For ReLU without biases and signals on the multi-sphere. The normalized kernel matrix is the sum
    of its parts of degree N in the dot products. Each is positive semidefinite, and has no
    eigenvalue below the least row of its diagonal less the absolute values off it (Gershgorin). For
    signals of one pixel the bound is :math:`\sum_N a_N [1 - \max_i \sum_{j \ne i} |t_{ij}|^N]_+`
    with the kernel's Taylor coefficients a_N. It is loose where two signals are near or opposite,
    and 0 where no degree tells some signals apart.

    Parameters
    ----------
    network : Network
        Of ReLU without biases, with ``input_filter_size`` 1.
    X : ndarray, (n_cases, n_channels, n_timepoints)
        On the multi-sphere.
    kind : {"gpk", "ntk"}
    head : {"equivariant", "trace", "gap"}
    max_degree : int, default 64
        M. Degrees above any m ≤ M may be one part together, and the best m counts: more degrees
        never lower the bound.

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    ValueError
        If the network is another one, its kernel is 0 for every signal, or signals are not on the
        multi-sphere.

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
    X = multisphere.check_on_sphere(X, "X")
    parts = _parts(network, X, kind, head, degree)
    if head == "gap":  # the diagonal is a mean over pixel pairs
        pooled, single = (Kernel(network, kind, each).diag(X) for each in (head, "trace"))
        entry = np.sqrt(single / pooled)
        parts *= entry * entry[:, None]
    whole = 1.0 - multisphere.gram_complements([network], X, kind=kind, head=head)[0]
    rests = whole - np.cumsum(parts, axis=0)
    return float((np.cumsum(_gershgorin(parts)) + _gershgorin(rests)).max())


def _parts(network: Network, X: np.ndarray, kind: str, head: str, degree: int) -> np.ndarray:
    """Return the parts of degrees 0 … `degree` of a kernel matrix, (degree + 1, n, n)."""
    channels = X.transpose(1, 2, 0)

    def of_pixels(left: multisphere.Places, right: multisphere.Places) -> np.ndarray:
        t = np.mean([x[left] * x[right] for x in channels], axis=0)  # (d, n_offsets, n_pairs)
        start = np.zeros((t.size, degree + 1))
        start[:, 1] = np.clip(t, -1.0, 1.0).ravel()

        def mean(series: np.ndarray, window: Filter) -> np.ndarray:
            rows = series.reshape(len(t), -1, degree + 1)
            return circular_mean(rows, window).reshape(series.shape)

        found = kernel_series(network, start, mean, kind)[1]
        return np.moveaxis(found.reshape(*t.shape, degree + 1), -1, 0)

    return multisphere.over_pixel_pairs(channels.shape[1:], head, of_pixels)


def _gershgorin(matrices: np.ndarray) -> np.ndarray:
    """Return lower bounds on the least eigenvalues of positive semidefinite matrices."""
    diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
    others = np.abs(matrices).sum(axis=-1) - np.abs(diagonal)
    return np.maximum((diagonal - others).min(axis=-1), 0.0)
