r"""Signals on the multi-sphere, where every pixel has the same norm.

For :math:`x \in MS(C_0, d)`, i.e. :math:`\|x_j\| = \sqrt{C_0}` at every pixel j, kernels of
ReLU networks depend on the dot products :math:`t_j = \langle x_j, z_j\rangle / C_0` alone
(Barzilai et al. 2022, section 3.2 and theorem 4.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..matrices import normalize_complements
from ..network import Filter, Network, check_network, check_one_dilation
from ..progress import progress_bar
from ..rings import circular_mean
from ..validation import (
    check_choice,
    check_constant,
    check_depth,
    check_dot_products,
    check_filter_size,
    check_flag,
    check_on_multisphere,
    check_rows_of_pixels,
    check_signals,
)
from ..vocabulary import HEADS, KINDS
from .complements import Arrays, Number, initial_state, pass_layer
from .sphere import contains, dot_products, pixel_complements, project, sample

__all__ = [
    "closest",
    "contains",
    "dot_products",
    "gram_complements",
    "normalize_complements",
    "normalized_gpk",
    "over_pairs",
    "project",
    "sample",
]

_BLOCK = 2**14
"""Pixel pairs that pass all layers together. Raising it takes the arrays out of the cache where
many networks share the layers; lowering it adds calls of Python a layer. A wide plateau, measured
on one AMD EPYC core (1 MB of L2), 60 signals of 25 pixels, tangent kernel: one network of depth
50 takes 66, 55, 50, 45, 43 ms at 2^12 … 2^16, ten networks of depth 20 take 0.26 … 0.29 s."""

_OPPOSITE = 64 * float(np.finfo(np.float64).eps)
"""1 + ρ below which pixels count as opposite. Raising it takes more pairs for opposite. Chosen by
rounding: 1 + ρ is 2 minus a mean of squares over channels and a window, some tens of roundings."""

_TICK = 256
"""Layers between two reports to the progress bar. Raising it makes the bar jump, lowering it adds
calls of Python. Chosen by reasoning, not measured."""


def normalized_gpk(
    t: np.ndarray,
    depth: int,
    filter_size: int = 3,
    alpha: float = 1.0,
    skip: bool = True,
    complement: bool = False,
    dilation: int | Iterable[int] = 1,
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
    dilation : int or iterable of int, default 1
        As for `Network`: boxes have dilated windows.

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
    delta = np.moveaxis(check_dot_products(check_rows_of_pixels(t), complement), -1, 0)
    network = Network(depth, size, alpha=alpha, skip=skip, dilation=dilation)
    delta = _propagate(delta, (network,), "gpk")[0]
    delta = np.moveaxis(delta, 0, -1)
    return delta if complement else 1.0 - delta


def gram_complements(
    networks: Iterable[Network],
    X: np.ndarray,
    *,
    kind: str = "gpk",
    head: str = "gap",
    progress: bool = False,
) -> np.ndarray:
    r"""Return 1 − (normalized kernel matrix) of ReLU networks, with its digits at any depth.

    Equal to 1 − ``gram(..., normalized=True)`` for signals on the multi-sphere, with full
    relative accuracy. (Deep kernels are too close to 1 to take the difference afterwards.)
    :math:`\delta` is :math:`1 - \bar K`, and s is ``Network.branch_share``, the branch's share of
    a layer's variance. A layer of the Gaussian process kernel is

    .. math:: \delta \leftarrow (1-s)\,\delta
        + s\,\mathrm{box}\bigl(1 - \kappa_1(1 - \mathrm{box}\,\delta)\bigr) .

    The tangent kernel's recursion stands in ``theory.complements``.

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
    >>> found = multisphere.gram_complements([rk.Network(2, alpha=0.5)], X, kind="ntk")
    >>> bool(abs(found[0] - (1 - T)).max() < 1e-14)
    True
    """
    networks = _check_networks(networks, check_choice(kind, "kind", KINDS))
    n = len(check_signals(X, "X"))
    pairs = n * (n + 1) // 2 if head == "gap" else n * (n - 1) // 2
    work = pairs * max(network.depth for network in networks)
    with progress_bar(progress, work, "pair-layer") as tick:
        return over_pairs(X, head, lambda rows: _propagate(rows, networks, kind, tick))


def over_pairs(
    X: np.ndarray, head: str, function: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Apply a function to all rows of pixel pairs, then a head, then normalize.

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
    >>> dots = multisphere.over_pairs(X, "trace", lambda delta: delta[None])
    >>> expected = 1 - multisphere.dot_products(X).mean(axis=2)
    >>> bool(abs(dots[0] - expected).max() < 1e-15)
    True
    """
    n, _, d = check_on_multisphere(X, "X").shape
    pooled = check_choice(head, "head", HEADS) == "gap"
    left, right = np.triu_indices(n, 0 if pooled or n == 1 else 1)
    channels = X.transpose(1, 2, 0)
    partners = np.add.outer(np.arange(d), np.arange(d if pooled else 1)) % d
    block = max(1, _BLOCK // partners.size)
    parts = []
    for begin in range(0, len(left), block):
        one, other = (side[begin : begin + block] for side in (left, right))
        pixels = ((x[:, None, one], x[partners[..., None], other]) for x in channels)
        values = function(pixel_complements(pixels))
        parts.append(values[:, 0, 0] if head == "equivariant" else values.mean(axis=(1, 2)))
    values = np.concatenate(parts, axis=1)
    complements = np.zeros((len(values), n, n))
    complements[:, left, right] = complements[:, right, left] = values
    return normalize_complements(complements) if pooled or n == 1 else complements


class _RowFilters(NamedTuple):
    """A layer's filters along rows: circular means over windows of axis 0."""

    inner: Filter
    outer: Filter

    def around(self, function: Callable[..., Arrays], arrays: Arrays) -> Arrays:
        values = function(*(circular_mean(array, *self.inner) for array in arrays))
        return tuple(circular_mean(value, *self.outer) for value in values)

    def identity(self, array: np.ndarray) -> np.ndarray:
        return array


def _propagate(
    delta: np.ndarray,
    networks: Sequence[Network],
    kind: str,
    tick: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Return 1 − (normalized equivariant kernel) of each network at each pixel of some rows.

    Parameters
    ----------
    delta : ndarray, (d, ...)
        Complements of dot products along rows of pixels.
    networks : sequence of Network
        Alike but for `depth` and `alpha`. Networks of equal `alpha` share their layers: axis 1
        of the state has a slot for each `alpha`, not for each network.
    tick : callable
        Told how many more pairs, times layers, are done.

    Returns
    -------
    ndarray, (n_networks, d, ...)
    """
    first = max(networks, key=lambda network: network.depth)  # has the dilations of all layers
    parts, tangent = first.parts, kind == "ntk"
    shares = [network.branch_share for network in networks]
    deepest: dict[float, int] = {}
    ending: dict[int, list[int]] = {}  # networks by their last layer
    for index, (share, network) in enumerate(zip(shares, networks, strict=True)):
        deepest[share] = max(deepest.get(share, 0), network.depth)
        ending.setdefault(network.depth, []).append(index)
    running = sorted(deepest, key=lambda share: -deepest[share])  # slots that end first come last
    results = np.empty((len(networks), *delta.shape))
    s = np.array(running).reshape(-1, *[1] * (delta.ndim - 1))
    state = initial_state(np.repeat(delta[:, None], len(running), axis=1), parts, tangent)
    tau: Number = parts.input
    for number in range(1, deepest[running[0]] + 1):
        if deepest[running[-1]] < number:
            running = [share for share in running if deepest[share] >= number]
            s, tau = s[: len(running)], np.asarray(tau)[: len(running)]
            state = state.first(len(running))
        filters = _RowFilters(first.inner_filter(number), first.outer_filter(number))
        state = pass_layer(state, filters, s, parts, tau=tau, skip=first.skip, compensated=True)
        tau = parts.input + number * s * (parts.inner + parts.outer)
        for index in ending.get(number, ()):
            slot = running.index(shares[index])
            results[index] = state.delta[:, slot]
            if state.epsilon is not None:
                results[index] = state.epsilon[:, slot] + parts.readout * state.delta[:, slot]
                results[index] /= tau[slot] + parts.readout
        if number % _TICK == 0:
            tick(delta.shape[-1] * _TICK)
    return results


def closest(network: Network, X: np.ndarray, head: str) -> tuple[float, float]:
    """Return the least complements 1 − ρ and 1 + ρ of different signals' pixels in layer 2.

    Parameters
    ----------
    network : Network
    X : ndarray, (n_cases, n_channels, n_timepoints)
        On the multi-sphere.
    head : {"equivariant", "trace", "gap"}

    Returns
    -------
    tuple of float
        The least 1 − u that is not 0, where u are means over the window of the largest filter
        (infinity where all are 0). And the least 1 + u, where u are means over the window of the
        inner filter; exactly 0 where 1 + u is 0 to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk.theory import multisphere
    >>> X = np.array([[[1.0]], [[-1.0]]])
    >>> multisphere.closest(rk.Network(1), X, "trace")
    (2.0, 0.0)
    """
    check_one_dilation(network)
    inner, outer = network.inner_filter(2), network.outer_filter(2)
    least = np.array([np.inf, np.inf])

    def function(delta: np.ndarray) -> np.ndarray:
        mixed = circular_mean(delta, *max(inner, outer))
        above = 2.0 - circular_mean(delta, *inner)
        above[above < _OPPOSITE] = 0.0
        for k, values in enumerate((mixed[mixed > 0], above)):
            least[k] = min(least[k], values.min(initial=np.inf))
        return delta[None]

    over_pairs(X, head, function)
    return float(least[0]), float(least[1])


def _check_networks(networks: Iterable[Network], kind: str) -> tuple[Network, ...]:
    """Return the networks if ``multisphere.gram_complements`` can take them together.

    They are ReLU networks with an input filter of size 1, differ in depth and α alone, and have
    kernels that are not 0 for every signal.
    """
    networks = tuple(networks)
    if not networks:
        raise ValueError("networks is empty, expected at least one")
    for network in networks:
        check_network(network)
    deepest = max(networks, key=lambda network: network.depth)
    for network in networks:
        if network.activation != "relu" or network.input_filter_size != 1:
            raise ValueError(
                f"network is {network!r}: kernels depend on dot products alone for activation "
                f"'relu' and input_filter_size 1, expected these"
            )
        nothing = not network.skip and network.branch_gain == 0
        if nothing or network.input_scale == 0:
            raise ValueError(f"network is {network!r}: its kernels are 0, no correlations")
        if not _alike(network, deepest):
            raise ValueError("networks differ in more than depth and alpha, expected them alike")
        parts = network.parts
        moves = network.branch_share > 0 and parts.inner + parts.outer > 0
        if kind == "ntk" and parts.initial == 0 and not moves:
            raise ValueError(
                f"network is {network!r}: its tangent kernel is 0, and has no correlations"
            )
    return networks


def _alike(one: Network, other: Network) -> bool:
    """Return whether networks differ in depth and α alone, the dilations of common layers alike."""
    depth = min(one.depth, other.depth)
    return bool(one.replace(depth=depth, alpha=1.0) == other.replace(depth=depth, alpha=1.0))
