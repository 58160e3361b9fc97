r"""Signals on the multi-sphere, where every pixel has the norm :math:`\sqrt{C_0}`.

There kernels depend only on the dot products
:math:`\langle x_j, z_{j+\Delta}\rangle / C_0`, with :math:`\Delta = 0` for the heads "trace" and
"equivariant" (Barzilai et al. 2022, section 3.2 and theorem 4.1; ``docs/theory/multisphere.md``).
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import overload

import numpy as np
from numpy.typing import ArrayLike
from opt_einsum import contract

from ..arrays import SignalList
from ..checks.messages import shown
from ..checks.values import (
    check_batch,
    check_flag,
    check_integer,
    check_nonnegative,
    check_rng,
    check_shape,
    check_signals,
    is_sequence,
)
from ..engines.heads import n_offsets, offsets, pixels_averaged, pool_weights, pooled_head
from ..engines.layer.means import pooled
from ..kernels.progress import progress_bar
from ..memory import check_free_memory
from ..network import Network, check_network
from ..network.parameters import RELU_FIELDS
from .tools.argument_checks import (
    Map,
    check_dot_products,
    check_kind,
    check_known_head,
    check_layers,
)
from .tools.complements import (
    activate,
    add_branch,
    check_nonzero,
    circular_mean,
    input_state,
    normalize_complements,
)
from .tools.decimal_complements import decimal_complements

__all__ = ["dot_products", "gram_complements", "normalized_gpk", "project", "sample"]

Places = tuple[np.ndarray, np.ndarray]
"""Pixels and cases: an index of arrays (n_timepoints, n_cases)."""

_SLACK = 2e-6
"""Largest | ‖x_j‖²/C0 − 1 | of a pixel on the multi-sphere: float32 errs by units of 1.2e-7."""

_FIELDS = RELU_FIELDS - {"input_filter_size"}

_REASON = ": this function is for activation 'relu' and input_filter_size 1"

_EPS = float(np.finfo(np.float64).eps)

_MOST_CANCELLATION = 32
"""For each pixel that a head averages, the largest factor by which errors of means are increased.

Most independent signals have one to five, and few more than this.
"""

_MOST_WORK = 2**21
"""Pixel pairs times layers of decimal arithmetic, of 40 to 80 µs each: minutes."""

BLOCK = 2**14
"""Pixel pairs that pass all layers together: more take memory, fewer add calls of Python."""


@overload
def project(X: np.ndarray) -> np.ndarray: ...


@overload
def project(X: list[np.ndarray]) -> list[np.ndarray]: ...


def project(X: np.ndarray | list[np.ndarray]) -> np.ndarray | list[np.ndarray]:
    """Return the signals with each pixel scaled to norm √n_channels, in float64.

    Parameters
    ----------
    X : ndarray, (n_cases, n_channels, n_timepoints)
        Or a list of arrays (n_channels, n_timepoints_i) of different lengths. No pixel is zero.

    Returns
    -------
    ndarray, (n_cases, n_channels, n_timepoints), or list of arrays (n_channels, n_timepoints_i)
        As the signals came.

    Raises
    ------
    ValueError
        If a pixel is zero at all channels: it has no direction.

    Examples
    --------
    >>> from rescntk.theory import multisphere
    >>> multisphere.project([[[3.0], [4.0]]]).ravel().round(4)
    array([0.8485, 1.1314])
    """
    batch = check_batch(X, "X", images=False)
    if isinstance(batch, SignalList):
        return [_on_sphere(signal[None], f"X[{k}]")[0] for k, signal in enumerate(batch)]
    return _on_sphere(batch, "X")


def _on_sphere(X: np.ndarray, name: str) -> np.ndarray:
    largest = np.abs(X).max(axis=1, keepdims=True)
    if not largest.all():
        case, _, pixel = np.argwhere(largest == 0)[0]
        raise ValueError(
            f"{name} of shape {X.shape} is zero at all channels of case {case}, timepoint {pixel}: "
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
    rng : Generator or int, optional
        Source of randomness, or its seed.

    Returns
    -------
    ndarray, (n_cases, n_channels, n_timepoints)

    Raises
    ------
    ValueError
        If a size is not a positive integer.
    MemoryError
        If the sample exceeds the free memory.

    Examples
    --------
    >>> from rescntk.theory import multisphere
    >>> (multisphere.sample(1, 3, 2, rng=0) ** 2).sum(axis=1).round(12)
    array([[3., 3.]])
    """
    sizes = {"n_cases": n_cases, "n_channels": n_channels, "n_timepoints": n_timepoints}
    shape = [check_integer(size, name, at_least=1) for name, size in sizes.items()]
    numbers = math.prod(check_nonnegative(size, name) for name, size in sizes.items())
    check_free_memory(16 * numbers, f"a sample of shape {tuple(shape)}", "a smaller one")
    return project(check_rng(rng).standard_normal(shape))


def dot_products(
    X: np.ndarray, Z: np.ndarray | None = None, offset: int = 0, complement: bool = False
) -> np.ndarray:
    """Return the dot products t of pixels on the multi-sphere.

    Parameters
    ----------
    X, Z : ndarray, (n_cases, n_channels, n_timepoints)
        On the multi-sphere (`project`). The default of `Z` is `X`.
    offset : int, default 0
        Pixel j of X meets pixel j + offset of Z (circularly).
    complement : bool, default False
        Return 1 − t, from differences: exact for signals that nearly agree.

    Returns
    -------
    ndarray, (n_cases, m_cases, n_timepoints)
        In [-1, 1], or in [0, 2] with `complement`.

    Raises
    ------
    ValueError
        If signals are not on the multi-sphere, or X and Z differ in channels or length.

    Examples
    --------
    >>> from rescntk.theory import multisphere
    >>> multisphere.dot_products(multisphere.sample(1, 3, 2, rng=0)).round(12)
    array([[[1., 1.]]])
    """
    X = check_on_sphere(X, "X")
    Z = X if Z is None else check_on_sphere(Z, "Z")
    if X.shape[1:] != Z.shape[1:]:
        raise ValueError(f"Z has shape {Z.shape}, expected (m_cases, {X.shape[1]}, {X.shape[2]})")
    Z = np.roll(Z, -check_integer(offset, "offset"), axis=2)
    if not check_flag(complement, "complement"):
        return np.clip(contract("icj,kcj->ikj", X, Z) / X.shape[1], -1.0, 1.0)
    channels = zip(X.transpose(1, 0, 2), Z.transpose(1, 0, 2), strict=True)
    return pixel_complements((x[:, None], z[None]) for x, z in channels)


def pixel_complements(channels: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return 1 − t = ‖x − z‖² / 2C0 of pixels x and z, given their values in each channel."""
    total, count = np.zeros(()), 0
    for x, z in channels:
        total, count = total + (x - z) ** 2, count + 1
    return np.minimum(total / (2 * count), 2.0)


def is_on_sphere(X: np.ndarray) -> bool:
    """Return whether signals are on the multi-sphere: every pixel's norm is √n_channels."""
    return off_sphere(check_signals(X, "X")) <= _SLACK


def off_sphere(X: np.ndarray) -> float:
    """Return the largest | ‖x_j‖²/C0 − 1 | over the pixels of signals."""
    with np.errstate(over="ignore"):
        return float(np.abs((X * X).mean(axis=1) - 1.0).max())


def check_on_sphere(X: np.ndarray, name: str) -> np.ndarray:
    X = check_signals(X, name)
    worst = off_sphere(X)
    if worst > _SLACK:
        raise ValueError(
            f"{name} of shape {X.shape} is not on the multi-sphere: a pixel's squared norm is off "
            f"by {worst:.2g} of n_channels, expected none (multisphere.project makes it so)"
        )
    return X


def normalized_gpk(network: Network, t: ArrayLike, *, complement: bool = False) -> np.ndarray:
    """Return the normalized equivariant ResCGPK, or CGPK, at each pixel, given dot products.

    Theorem 4.1 of Barzilai et al. 2022 (docs/theory/multisphere.md).

    Parameters
    ----------
    network : Network
        Of ReLU without biases or normalized features, with ``input_filter_size`` 1 and 10^8 like
        layers at most.
    t : array_like, (..., n_timepoints)
        Dot products in [-1, 1] along a row of pixels, from `dot_products`.
    complement : bool, default False
        Take and return 1 − (·) instead: with full relative accuracy at any depth.

    Returns
    -------
    ndarray, (..., n_timepoints)
        The normalized kernel with each pixel as the output, or 1 less it.

    Raises
    ------
    ValueError
        If the network is another one, its kernel is 0 for every signal, or t is out of range.

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.theory.multisphere.normalized_gpk(rk.Network(2), [1.0, 0.0, -1.0]).round(4)
    array([0.5778, 0.3278, 0.0778])
    """
    check_network(network, _FIELDS, _REASON)
    check_layers(network.depth, "depth is")
    rows = check_shape(t, "t", "(..., n_timepoints)", lambda shape: len(shape) > 0)
    delta = np.moveaxis(check_dot_products(rows, complement), -1, 0)
    delta = np.moveaxis(_propagate(delta, (network,), "gpk", lambda done: None)[0], 0, -1)
    return delta if complement else 1.0 - delta


def gram_complements(
    networks: Iterable[Network],
    X: np.ndarray,
    *,
    kind: str,
    head: str | int,
    progress: bool = False,
) -> np.ndarray:
    """Return 1 − ``gram(..., normalized=True)`` of ReLU networks, with its digits at any depth.

    With "gap" and windows, means over pixel pairs cancel between signals that are near each other,
    and where the signals' own means are near 0 and α is small. These pairs are computed again in
    decimal arithmetic, in some 40 to 80 microseconds for each pixel pair and layer
    (docs/theory/multisphere.md).

    Parameters
    ----------
    networks : iterable of Network
        Of ReLU without biases or normalized features, with ``input_filter_size`` 1, alike in
        everything but `depth` and `alpha`; 10^8 like layers at most. Networks of one `alpha` pass
        the layers once.
    X : ndarray, (n_cases, n_channels, n_timepoints)
        On the multi-sphere. If a pixel's length is off by a share ε, such as float32's rounding
        errors of 1e-7, a complement δ of a GPK is off by some ε √δ + ε², of an NTK by ε, or by
        some √ε where pixels are nearly opposite.
    kind : {"gpk", "ntk"}
    head : {"equivariant", "trace", "gap"} or int
    progress : bool, default False
        Whether to show a progress bar (needs tqdm).

    Returns
    -------
    ndarray, (n_networks, n_cases, n_cases)
        Exactly symmetric, 0 on the diagonals.

    Raises
    ------
    ValueError
        If networks are others or differ in more, if a kernel is 0 for every signal, or for one
        whose means a head without branches sees, or if a signal is not on the multi-sphere.

    Warns
    -----
    UserWarning
        If decimal arithmetic would take minutes, and float64's digits are returned. The warning
        says how many these are.

    Examples
    --------
    >>> import rescntk as rk
    >>> X = rk.theory.multisphere.sample(3, 4, 5, rng=0)
    >>> complements = rk.theory.multisphere.gram_complements
    >>> found = complements([rk.Network(2)], X, kind="ntk", head="gap")[0]
    >>> bool(abs(1 - found - rk.ResCNTK(2, normalized=True)(X)).max() < 1e-14)
    True
    """
    check_kind(kind)
    check_known_head(head)
    argument, networks = networks, tuple(networks) if is_sequence(networks) else ()
    if not networks:
        raise ValueError(f"networks is {shown(argument)}, expected a list of at least one network")
    for network in networks:
        check_network(network, _FIELDS, _REASON)
        check_nonzero(network, kind)
        check_layers(network.depth, "networks has the depth")
    ordered = sorted(networks, key=lambda network: network.depth)
    for network in networks:
        common = ordered[-1].replace(depth=network.depth, alpha=network.alpha)  # and its dilations
        if network != common:
            text = "expected networks that differ in depth and alpha only"
            raise ValueError(f"networks has {shown(network)} and {shown(ordered[-1])}, {text}")
    pairs = math.comb(len(check_signals(X, "X")) + 1, 2)
    if not all(network.branch_gain for network in networks):
        _check_means(X, head)
    deepest = {network.alpha: network.depth for network in ordered}
    check_flag(progress, "progress")
    with progress_bar(progress, pairs * sum(deepest.values()), "pair-layer") as tick:
        means = mean_complements(X, head, lambda rows: _propagate(rows, networks, kind, tick))
    complements = normalize_complements(means)
    if pixels_averaged(head, X.shape[2:]) > 1:
        _restore_digits(complements, _cancellation(means, complements), networks, X, kind, head)
    return complements


def _check_means(X: np.ndarray, head: str | int) -> None:
    """Raise a ValueError if the means that a head sees are 0: kernels without branches are then."""
    if (width := pixels_averaged(head, X.shape[2:])) == 1:
        return
    X = np.asarray(X, np.float64)
    sizes = np.sqrt((pooled(np, X, (width,)) ** 2).sum(axis=1).mean(axis=1))
    largest = np.sqrt((X**2).sum(axis=1).max(axis=1))
    zero = np.flatnonzero(sizes <= 4.0 * _EPS * largest)
    if len(zero):
        raise ValueError(
            f"X[{zero[0]}] has means of 0 over pixels, expected others: without branches, at alpha "
            f"0, its kernel with itself is 0"
        )


def _cancellation(means: np.ndarray, complements: np.ndarray) -> np.ndarray:
    """Return by which factor normalized complements have larger relative errors than means."""
    diagonal = np.diagonal(means, axis1=-2, axis2=-1)
    a, b = diagonal[..., :, None], diagonal[..., None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        own = 0.5 * np.abs(1.0 - complements) * (a / (1.0 - a) + b / (1.0 - b))
        return (means / (np.sqrt(1.0 - a) * np.sqrt(1.0 - b)) + own) / complements


def _restore_digits(
    complements: np.ndarray,
    factors: np.ndarray,
    networks: Sequence[Network],
    X: np.ndarray,
    kind: str,
    head: str | int,
) -> None:
    """Compute complements anew, in their place, whose errors were increased by large factors.

    If one network needs a pair of signals, all networks of the same `alpha` have it anew.
    """
    d, groups = X.shape[2], defaultdict(list)
    for index, network in enumerate(networks):
        groups[network.alpha].append(index)
    is_lost = ~((factors > 0) & (factors <= _MOST_CANCELLATION * pixels_averaged(head, (d,))))
    shifts = range(d if pooled_head(head, (d,)) == "gap" else 1)
    for group in groups.values():
        pairs = []
        for i, k in np.argwhere(np.triu(is_lost[group].any(axis=0), 1)).tolist():
            if any(np.array_equal(X[i], np.roll(X[k], shift, axis=1)) for shift in shifts):
                complements[group, i, k] = complements[group, k, i] = 0.0
            else:
                pairs.append((i, k))
        if not pairs:
            continue
        deepest = max((networks[index] for index in group), key=lambda network: network.depth)
        work = 3 * len(pairs) * d * n_offsets(head, (d,)) * deepest.depth
        if work > _MOST_WORK:
            sizes = np.abs([factors[group, i, k] for i, k in pairs])
            worst = np.nan_to_num(sizes, nan=np.inf).max() * (20 + deepest.depth) * _EPS
            warnings.warn(
                f"complements of {len(pairs)} pairs of signals, X[{pairs[0][0]}] and "
                f"X[{pairs[0][1]}] first, have relative errors of up to {worst:.1g} at depth "
                f"{deepest.depth}: means over pixels cancel, and more digits would take some "
                f"{math.ceil(work * 6e-5 / 60)} minutes",
                stacklevel=3,
            )
            continue
        depths = sorted({networks[index].depth for index in group})
        restored = decimal_complements(deepest, depths, X, pairs, kind, head)
        for index in group:
            for (i, k), value in zip(
                pairs, restored[depths.index(networks[index].depth)], strict=True
            ):
                complements[index, i, k] = complements[index, k, i] = value


def over_pairs(X: np.ndarray, head: str | int, function: Map) -> np.ndarray:
    """Return normalized kernel matrices of signals: apply a function to pixel pairs, then a head.

    GAP sees the rows of all pixel offsets, pooled heads the rows of offsets that share pools, the
    other heads the row of offset 0. The function takes complements of dot products,
    (n_timepoints, n_offsets, n_pairs). It returns complements of k kernels,
    (k, n_timepoints, n_offsets, n_pairs), which become (k, n_cases, n_cases).
    """
    return normalize_complements(mean_complements(X, head, function))


def mean_complements(X: np.ndarray, head: str | int, function: Map) -> np.ndarray:
    """Return what `over_pairs` returns, before it is normalized: 1 less means over pixel pairs."""
    channels = check_on_sphere(X, "X").transpose(1, 2, 0)

    def of_pixels(left: Places, right: Places) -> np.ndarray:
        return function(pixel_complements((x[left], x[right]) for x in channels))

    return over_pixel_pairs(channels.shape[1:], head, of_pixels)


def over_pixel_pairs(
    shape: tuple[int, ...], head: str | int, function: Callable[..., np.ndarray]
) -> np.ndarray:
    """Return means over the pixel pairs that a head sees, (k, n_cases, n_cases), of a function.

    The function takes the places of pixels of pairs of signals, two indices of arrays of the given
    shape, (n_timepoints, n_cases). It returns k kernels, (k, n_timepoints, n_offsets, n_pairs).
    """
    d, n = shape
    left, right = np.triu_indices(n)
    pixels = np.arange(d)[:, None, None]
    head = pooled_head(head, (d,))
    if isinstance(head, str) and head not in ("equivariant", "trace", "gap"):
        raise NotImplementedError(f"means over pixel pairs have no head {head!r}")
    along = np.arange(d if head == "gap" else 1) if isinstance(head, str) else offsets(head, d)
    partners = (pixels + along[:, None]) % d
    block, parts = max(1, BLOCK // partners.size), []
    for begin in range(0, len(left), block):
        cases, other_cases = (side[begin : begin + block] for side in (left, right))
        values = function((pixels, cases), (partners, other_cases))
        if not isinstance(head, str):
            weights = pool_weights(head, (d,))
            parts.append(np.average(values.mean(axis=1), axis=1, weights=weights))
            continue
        parts.append(values[:, 0, 0] if head == "equivariant" else values.mean(axis=2).mean(axis=1))
    kernels = np.zeros((len(parts[0]), n, n))
    kernels[:, left, right] = kernels[:, right, left] = np.concatenate(parts, axis=1)
    return kernels


def _propagate(
    delta: np.ndarray, networks: Sequence[Network], kind: str, tick: Callable[[int], None]
) -> np.ndarray:
    """Return 1 − (normalized equivariant kernel) of each network at each pixel of some rows.

    `delta`, (d, ...), are complements of dot products; the result is (n_networks, d, ...).
    """
    results, alike = np.empty((len(networks), *delta.shape)), defaultdict(list)
    for index in sorted(range(len(networks)), key=lambda index: -networks[index].depth):
        alike[networks[index].branch_share].append(index)
    groups, together = list(alike.items()), max(1, BLOCK // delta.size)
    for begin in range(0, len(groups), together):  # axis 1 has a group of networks at each place
        batch, ends = groups[begin : begin + together], defaultdict(list)
        for place, (_, group) in enumerate(batch):
            for index in group:
                ends[networks[index].depth].append((place, index))
        deepest = networks[batch[0][1][0]]  # it has all layers' dilations
        weights = np.reshape([weight for weight, _ in batch], (-1, *[1] * (delta.ndim - 1)))
        parts, tau = deepest.parts, np.full_like(weights, deepest.parts.input)
        state = input_state(np.repeat(delta[:, None], len(batch), axis=1), parts, kind)
        left_over = [np.zeros_like(array) for array in state]
        for layer in range(1, deepest.depth + 1):
            inner, outer = deepest.inner_filter(layer), deepest.outer_filter(layer)
            branches = activate(parts, tau, *(circular_mean(array, inner) for array in state))
            boxed = tuple(circular_mean(array, outer) for array in branches)
            state = add_branch(state, boxed, weights, left_over)
            tau = parts.input + layer * weights * (parts.inner + parts.outer)
            for place, index in ends.get(layer, ()):
                results[index] = state[0][:, place]
                if kind == "ntk":
                    results[index] = state[1][:, place] + parts.readout * state[0][:, place]
                    results[index] /= tau[place] + parts.readout
            if layer % 256 == 0:
                tick(256 * delta.shape[-1] * sum(networks[g[0]].depth >= layer for _, g in batch))
    return results
