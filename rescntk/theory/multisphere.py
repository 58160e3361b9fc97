r"""Signals on the multi-sphere, where every pixel has the same norm.

For :math:`x \in MS(C_0, d)`, i.e. :math:`\|x_j\| = \sqrt{C_0}` at every pixel j, kernels of
ReLU networks depend on the dot products :math:`t_j = \langle x_j, z_j\rangle / C_0` alone
(Barzilai et al. 2022, section 3.2 and theorem 4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from opt_einsum import contract

from ..activations import angle_and_kappa1_excess, one_minus_kappa1
from ..calls import progress_bar
from ..network import Network
from ..rings import circular_sum
from ..validation import (
    check_choice,
    check_constant,
    check_depth,
    check_dot_products,
    check_filter_size,
    check_flag,
    check_integer,
    check_network,
    check_real,
    check_signals,
)
from ..vocabulary import HEADS, KINDS

# How far from √C0 a pixel's norm may be, relatively: what float32 data has after projection.
_NORM_TOLERANCE = 1e-6

# Pixel pairs that pass the layers at once: few enough for the cache, even with several networks.
_BLOCK = 2**14
_TICK = 256  # layers between reports of progress


def project(X: np.ndarray) -> np.ndarray:
    """Return the signals with each pixel scaled to norm √n_channels.

    Parameters
    ----------
    X : ndarray, (n_cases, n_channels, n_timepoints)

    Returns
    -------
    ndarray of the same shape, float64

    Raises
    ------
    ValueError
        If a pixel is zero: it has no direction.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import multisphere
    >>> multisphere.project(np.array([[[3.0], [4.0]]])).ravel().round(4)
    array([0.8485, 1.1314])
    """
    X = check_signals(X, "X")
    largest = np.abs(X).max(axis=1, keepdims=True)
    if not largest.all():
        case, _, pixel = np.argwhere(largest == 0)[0]
        raise ValueError(
            f"X of shape {X.shape} is zero at all channels of case {case}, timepoint {pixel}: "
            f"expected pixels that have a direction"
        )
    X = X / largest  # squares neither overflow nor vanish
    return X * np.sqrt(X.shape[1] / (X * X).sum(axis=1, keepdims=True))


def sample(
    n_cases: int, n_channels: int, n_timepoints: int, rng: np.random.Generator | int | None = None
) -> np.ndarray:
    """Return signals drawn uniformly from the multi-sphere.

    Parameters
    ----------
    n_cases, n_channels, n_timepoints : int
        Shape of the result, each at least 1.
    rng : Generator or int, optional
        Source of randomness, or its seed.

    Returns
    -------
    ndarray, (n_cases, n_channels, n_timepoints)

    Examples
    --------
    >>> from rescntk.theory import multisphere
    >>> X = multisphere.sample(5, 3, 8, rng=0)
    >>> (X**2).sum(axis=1).round(12)[0]
    array([3., 3., 3., 3., 3., 3., 3., 3.])
    """
    shape = tuple(
        check_depth(number, name)
        for number, name in (
            (n_cases, "n_cases"),
            (n_channels, "n_channels"),
            (n_timepoints, "n_timepoints"),
        )
    )
    return project(np.random.default_rng(rng).standard_normal(shape))


def dot_products(
    X: np.ndarray, Z: np.ndarray | None = None, offset: int = 0, complement: bool = False
) -> np.ndarray:
    """Return the dot products t of the pixels of signals on the multi-sphere.

    Parameters
    ----------
    X : ndarray, (n_cases, n_channels, n_timepoints)
    Z : ndarray, (m_cases, n_channels, n_timepoints), optional
        The default is `X`.
    offset : int, default 0
        Pixel j of X meets pixel j + offset of Z (circularly).
    complement : bool, default False
        Return 1 − t, from differences: exact for signals that nearly agree.

    Returns
    -------
    ndarray, (n_cases, m_cases, n_timepoints)
        In [-1, 1], or [0, 2].

    Raises
    ------
    ValueError
        If a pixel's norm is not √n_channels (`project` makes it so).

    Examples
    --------
    >>> from rescntk.theory import multisphere
    >>> X = multisphere.sample(5, 3, 8, rng=0)
    >>> multisphere.dot_products(X)[0, 0].round(12)
    array([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    X = _on_multisphere(X, "X")
    Z = X if Z is None else _on_multisphere(Z, "Z")
    if X.shape[1:] != Z.shape[1:]:
        raise ValueError(f"Z has shape {Z.shape}, expected (m_cases, {X.shape[1]}, {X.shape[2]})")
    Z = np.roll(Z, -check_integer(offset, "offset"), axis=2)
    if not check_flag(complement, "complement"):
        return np.clip(contract("icj,kcj->ikj", X, Z) / X.shape[1], -1.0, 1.0)
    channels = zip(X.transpose(1, 0, 2), Z.transpose(1, 0, 2), strict=True)
    return _gaps((x[:, None], z[None]) for x, z in channels)


def _gaps(channels: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return 1 − t of pixels on the multi-sphere from the two sides' values in each channel."""
    total, count = np.zeros(()), 0
    for x, z in channels:
        total, count = total + (x - z) ** 2, count + 1
    return np.minimum(total / (2 * count), 2.0)


def normalized_gpk(
    t: Any,
    depth: int,
    filter_size: int = 3,
    alpha: float = 1.0,
    skip: bool = True,
    complement: bool = False,
) -> np.ndarray:
    r"""Return the normalized equivariant ResCGPK, or CGPK, as a function of dot products.

    Theorem 4.1 of Barzilai et al. 2022 (c_v = 2, c_w = 1):

    .. math::
        \bar K^1 = \frac{t + \alpha^2\,\mathrm{box}\,\kappa_1(t)}{1 + \alpha^2}, \qquad
        \bar K^l = \frac{\bar K^{l-1} + \alpha^2\,\mathrm{box}\,
        \kappa_1(\mathrm{box}\,\bar K^{l-1})}{1 + \alpha^2},

    and without skip connections :math:`\bar K^1 = \mathrm{box}\,\kappa_1(t)`,
    :math:`\bar K^l = \mathrm{box}\,\kappa_1(\mathrm{box}\,\bar K^{l-1})`. The recursion runs
    on the complements :math:`1 - \bar K`, whose digits survive at any depth.

    Parameters
    ----------
    t : array_like, (..., n_timepoints)
        Dot products in [-1, 1] along a row of pixels, from `dot_products`.
    depth, filter_size, alpha, skip
        As for `Network`.
    complement : bool, default False
        Take and return 1 − (·) instead: with full relative accuracy.

    Returns
    -------
    ndarray, (..., n_timepoints)
        The kernel with the equivariant head at each pixel. Its mean over the last axis is
        the trace kernel at offset 0; averaged over all offsets too, GAP (not normalized).

    Examples
    --------
    >>> from rescntk.theory import multisphere
    >>> multisphere.normalized_gpk([1.0, 0.0, -1.0], depth=2).round(4)
    array([0.5778, 0.3278, 0.0778])
    """
    depth = check_depth(depth)
    size = check_filter_size(filter_size, "filter_size")
    alpha = check_constant(alpha, "alpha")
    skip, complement = check_flag(skip, "skip"), check_flag(complement, "complement")
    values = check_real(t, "t", "(..., n_timepoints)")
    if values.ndim == 0 or values.size == 0:
        raise ValueError(f"t has shape {values.shape}, expected (..., n_timepoints)")
    gap = np.moveaxis(check_dot_products(values, complement), -1, 0)
    gap = _propagate(gap, (Network(depth, size, alpha=alpha, skip=skip),), "gpk")[0]
    gap = np.moveaxis(gap, 0, -1)
    return gap if complement else 1.0 - gap


def gram_complements(
    networks: Iterable[Network],
    X: np.ndarray,
    *,
    kind: str = "gpk",
    head: str = "gap",
    progress: bool = False,
) -> np.ndarray:
    r"""Return 1 − (normalized kernel matrix) of ReLU networks, with its digits at any depth.

    The matrices of `gram` with ``normalized=True``, for signals on the multi-sphere, where deep
    kernels are too close to 1 for 1 − (·) to be taken afterwards. With :math:`\delta = 1 - \bar K`
    and :math:`s = \alpha^2/(1+\alpha^2)` (1 without skip connections; :math:`\alpha^2 c_v c_w/2`
    in place of :math:`\alpha^2` for other constants) a layer is

    .. math::
        w = \mathrm{box}\,\delta, \qquad
        \delta \leftarrow (1-s)\,\delta + s\,\mathrm{box}(1 - \kappa_1(1-w)) .

    The tangent kernel of the features, in units of their variance, is :math:`\tau - \epsilon`
    with its value :math:`\tau` on the diagonal, :math:`\tau \leftarrow \tau + s(i + o)` where
    i and o are 1 if inner and outer weights are trained and 0 otherwise; and

    .. math::
        \epsilon \leftarrow (1-s)\,\epsilon + s\,\mathrm{box}\bigl(
        o\,(1-\kappa_1) + i\,w + \mathrm{box}\,\epsilon +
        (1-\kappa_0)(i\,(1-w) + \tau - \mathrm{box}\,\epsilon)\bigr) .

    Parameters
    ----------
    networks : iterable of Network
        ReLU, ``input_filter_size`` 1, alike in everything but `depth` and `alpha`: they pass
        the layers together.
    X : ndarray, (n_cases, n_channels, n_timepoints)
        On the multi-sphere.
    kind, head, progress
        As for `Kernel`.

    Returns
    -------
    ndarray, (n_networks, n_cases, n_cases)
        Symmetric, 0 on the diagonal.

    Raises
    ------
    ValueError
        If signals or networks are not as described, or the tangent kernel is 0.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import multisphere
    >>> X = multisphere.sample(3, 4, 5, rng=0)
    >>> T = rk.gram(rk.Network(2, alpha=0.5), X, kinds=("ntk",), normalized=True).ntk
    >>> gaps = multisphere.gram_complements([rk.Network(2, alpha=0.5)], X, kind="ntk")
    >>> bool(abs(gaps[0] - (1 - T)).max() < 1e-14)
    True
    """
    networks = tuple(networks)
    _check_alike(networks, check_choice(kind, "kind", KINDS))
    n = len(check_signals(X, "X"))
    pairs = n * (n + 1) // 2 if head == "gap" else n * (n - 1) // 2
    work = pairs * max(network.depth for network in networks)
    with progress_bar(progress, work, "pair-layer") as tick:
        return over_pairs(X, head, lambda rows: _propagate(rows, networks, kind, tick))


def over_pairs(
    X: np.ndarray, head: str, function: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return what a head makes of a function of rows of pixel pairs, normalized.

    Parameters
    ----------
    X : ndarray, (n_cases, n_channels, n_timepoints)
        On the multi-sphere.
    head : {"equivariant", "trace", "gap"}
        GAP sees the rows of all pixel offsets, the others that of offset 0.
    function : callable
        Takes complements of dot products, (n_timepoints, n_offsets, n_pairs), and returns
        complements of a kernel at these pixel pairs, (k, n_timepoints, n_offsets, n_pairs).

    Returns
    -------
    ndarray, (k, n_cases, n_cases)
        Complements of the normalized kernel: symmetric, 0 on the diagonal.

    Examples
    --------
    >>> from rescntk.theory import multisphere
    >>> X = multisphere.sample(3, 4, 5, rng=0)
    >>> dots = multisphere.over_pairs(X, "trace", lambda gaps: gaps[None])
    >>> expected = 1 - multisphere.dot_products(X).mean(axis=2)
    >>> bool(abs(dots[0] - expected).max() < 1e-15)
    True
    """
    n, _, d = _on_multisphere(X, "X").shape
    pooled = check_choice(head, "head", HEADS) == "gap"
    left, right = np.triu_indices(n, 0 if pooled or n == 1 else 1)
    channels = X.transpose(1, 2, 0)
    partners = np.add.outer(np.arange(d), np.arange(d if pooled else 1)) % d
    block = max(1, _BLOCK // partners.size)
    parts = []
    for start in range(0, len(left), block):
        one, other = (side[start : start + block] for side in (left, right))
        values = function(_gaps((x[:, None, one], x[partners[..., None], other]) for x in channels))
        parts.append(values[:, 0, 0] if head == "equivariant" else values.mean(axis=(1, 2)))
    values = np.concatenate(parts, axis=1)
    gaps = np.zeros((len(values), n, n))
    gaps[:, left, right] = gaps[:, right, left] = values
    return normalize_complements(gaps) if pooled or n == 1 else gaps


def normalize_complements(gaps: np.ndarray) -> np.ndarray:
    r"""Return 1 − A(x,z)/√(A(x,x) A(z,z)) of matrices given as 1 − A, without cancellation.

    Parameters
    ----------
    gaps : ndarray, (..., n, n)
        Symmetric, below 1 on the diagonal.

    Returns
    -------
    ndarray of the same shape
        0 on the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import multisphere
    >>> multisphere.normalize_complements(1 - np.array([[0.5, 0.2], [0.2, 0.5]])).round(12)
    array([[0. , 0.6],
           [0.6, 0. ]])
    """
    own = np.diagonal(gaps, axis1=-2, axis2=-1)
    one, other = own[..., :, None], own[..., None, :]
    both = one + other - one * other  # 1 − A(x,x) A(z,z)
    root = np.sqrt(1.0 - both)
    result = (gaps - both / (1.0 + root)) / root
    index = np.arange(gaps.shape[-1])
    result[..., index, index] = 0.0
    return result


def _propagate(
    gap: np.ndarray,
    networks: Sequence[Network],
    kind: str,
    tick: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Return 1 − (normalized equivariant kernel) of each network at each pixel of some rows.

    Parameters
    ----------
    gap : ndarray, (d, ...)
        Complements of dot products along rows of pixels.
    networks : sequence of Network
        Alike but for `depth` and `alpha`. Those of one `alpha` are one on the way to the other.
    tick : callable
        Told how many more pairs, times layers, are done.

    Returns
    -------
    ndarray, (n_networks, d, ...)
    """
    first = networks[0]
    inner, outer, tuned, readout = (
        float(part in first.trained) for part in ("inner", "outer", "input", "readout")
    )
    shares = [network.branch_share for network in networks]
    last: dict[float, int] = {}
    for share, network in zip(shares, networks, strict=True):
        last[share] = max(last.get(share, 0), network.depth)
    order = sorted(last, key=lambda share: -last[share])  # those that end first are at the end
    due: dict[int, list[int]] = {}
    for index, network in enumerate(networks):
        due.setdefault(network.depth, []).append(index)
    results = np.empty((len(networks), *gap.shape))
    s = np.array(order).reshape(-1, *[1] * (gap.ndim - 1))
    gap = np.repeat(gap[:, None], len(order), axis=1)
    miss, own = gap * tuned, tuned + np.zeros_like(s)  # ε and τ
    gap_rest = miss_rest = np.zeros_like(gap)
    ntk, pairs = kind == "ntk", gap.shape[-1]
    for layer in range(1, last[order[0]] + 1):
        if last[order[-1]] < layer:
            order = [share for share in order if last[share] >= layer]
            s, own = s[: len(order)], own[: len(order)]
            gap, miss = gap[:, : len(order)].copy(), miss[:, : len(order)].copy()
            gap_rest, miss_rest = gap_rest[:, : len(order)], miss_rest[:, : len(order)]
        size = 1 if layer == 1 else first.filter_size
        w = np.minimum(_box(gap, size), 2.0)
        if not ntk:
            branch = one_minus_kappa1(w)
        else:
            angle, k1 = angle_and_kappa1_excess(np, w, 2.0 - w)
            branch = w - k1  # 1 − κ1
            inside = _box(miss, size)
            source = outer * branch + inner * w + inside
            source += angle * (1.0 / np.pi) * (inner * (1.0 - w) + own - inside)
            source = _box(source, first.outer_filter_size)
            miss, miss_rest = _step(miss, source, s, miss_rest, first.skip)
            own = tuned + layer * s * (inner + outer)
        branch = _box(branch, first.outer_filter_size)
        gap, gap_rest = _step(gap, branch, s, gap_rest, first.skip)
        for index in due.get(layer, ()):
            slot = order.index(shares[index])
            results[index] = gap[:, slot]
            if ntk:
                results[index] = miss[:, slot] + readout * gap[:, slot]
                results[index] /= own[slot] + readout
        if layer % _TICK == 0:
            tick(pairs * _TICK)
    return results


def _step(
    state: np.ndarray, branch: np.ndarray, s: np.ndarray, rest: np.ndarray, skip: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return (1 − s) state + s branch, and what rounding has left over for the next layer.

    Where s is small, the same little is added over and over, and rounded the same way.
    """
    if not skip:
        return branch, rest
    change = s * (branch - state) - rest
    total = state + change
    return total, (total - state) - change


def _box(pixels: np.ndarray, size: int) -> np.ndarray:
    return circular_sum(np, pixels, size) / size if size > 1 else pixels


def _check_alike(networks: tuple[Network, ...], kind: str) -> None:
    if not networks:
        raise ValueError("networks is empty, expected at least one")
    first = networks[0]
    for network in networks:
        check_network(network)
        if network.activation != "relu" or network.input_filter_size != 1:
            raise ValueError(
                f"network is {network!r}: kernels depend on dot products alone for activation "
                f"'relu' and input_filter_size 1, expected these"
            )
        nothing = not network.skip and network.c_v * network.c_w == 0
        if nothing or network.input_scale == 0:
            raise ValueError(f"network is {network!r}: its kernels are 0, no correlations")
        if network.replace(depth=1, alpha=1.0) != first.replace(depth=1, alpha=1.0):
            raise ValueError("networks differ in more than depth and alpha, expected them alike")
        fixed = not {"input", "readout"} & set(network.trained)
        moves = network.branch_share > 0 and {"inner", "outer"} & set(network.trained)
        if kind == "ntk" and fixed and not moves:
            raise ValueError(
                f"network is {network!r}: its tangent kernel is 0, and has no correlations"
            )


def closest(network: Network, X: np.ndarray, head: str) -> tuple[float, float]:
    """Return how close to 1, and to −1, correlations of different signals come in layer 2.

    Parameters
    ----------
    network : Network
    X : ndarray, (n_cases, n_channels, n_timepoints)
        On the multi-sphere.
    head : {"equivariant", "trace", "gap"}

    Returns
    -------
    tuple of float
        The least 1 − u that is not 0 (infinity where there is none), u being means over the
        window of the largest filter: below it pixels agree. And the least 1 + u, over the window
        of the inner filter; 0 to rounding where there are opposite ones.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk.theory import multisphere
    >>> X = np.array([[[1.0]], [[-1.0]]])
    >>> multisphere.closest(rk.Network(1), X, "trace")
    (2.0, 0.0)
    """
    least = np.array([np.inf, np.inf])

    def function(gaps: np.ndarray) -> np.ndarray:
        mixed = _box(gaps, max(network.filter_size, network.outer_filter_size))
        above = 2.0 - _box(gaps, network.filter_size)
        above[above < 64 * np.finfo(np.float64).eps] = 0.0
        for k, values in enumerate((mixed[mixed > 0], above)):
            least[k] = min(least[k], values.min(initial=np.inf))
        return gaps[None]

    over_pairs(X, head, function)
    return float(least[0]), float(least[1])


def contains(X: np.ndarray) -> bool:
    """Return whether signals are on the multi-sphere: every pixel's norm √n_channels.

    Examples
    --------
    >>> from rescntk.theory import multisphere
    >>> X = multisphere.sample(3, 4, 5, rng=0)
    >>> multisphere.contains(X), multisphere.contains(2 * X)
    (True, False)
    """
    return _off_by(check_signals(X, "X")) <= 2 * _NORM_TOLERANCE


def _off_by(X: np.ndarray) -> float:
    return float(np.abs((X * X).mean(axis=1) - 1.0).max())


def _on_multisphere(X: np.ndarray, name: str) -> np.ndarray:
    X = check_signals(X, name)
    worst = _off_by(X)
    if worst > 2 * _NORM_TOLERANCE:
        raise ValueError(
            f"{name} of shape {X.shape} is not on the multi-sphere: a pixel's squared norm is off "
            f"by {worst:.2g} of n_channels, expected none (multisphere.project makes it so)"
        )
    return X
