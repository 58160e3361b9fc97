r"""Multi-dot-product kernels on tensor grids: K(t) for every t whose entries are all nodes.

On the multi-sphere a kernel is a function of the dot products :math:`t_j = \langle x_j, z_j
\rangle/C_0` (Barzilai et al. 2022, section 3.2). A grid of n nodes for each of d pixels has
:math:`n^d` points. Three things keep the points few:

- The network is the same at every pixel. Pixel j carries the array of pixel 0 with the axes of
  the grid rotated by j: one array for all pixels, seen through transposed views.
- An array has n entries only along the pixels that a layer has seen, 1 along the others.
- The last layer, which has seen most pixels, is never stored. It is computed block by block.
  Its outer filter is left to the consumer of the blocks, as an average over rotated axes.

The recursion is ``theory.complements``, relative to the variance q of the features, which on
the multi-sphere is one number for each layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...activations import BY_NAME, DualInput, Pixels, Workspace
from ...network import Filter, Network
from ..complements import RELU, Arrays, Dual, activate, initial_state, own_branch, pass_layer
from .blocks import Block, blocks, whole
from .windows import rotate, taps, windows

BLOCK_ENTRIES = 100_000
"""Points that go through an activation together. Raising it takes the dozen arrays of a block out
of the cache; lowering it adds calls of Python. Measured on one AMD EPYC core (1 MB of L2) with
Network(3), 4 pixels, frequencies to 16: 85, 53, 43, 40, 46, 49 ns a point for blocks of 3, 10, 30,
100, 300 and 1000 thousand points."""


class Cost(NamedTuple):
    """Points and memory that an evaluation on a grid takes."""

    points: int
    """Points at which an activation is evaluated, over all layers."""
    bytes: int
    """Memory at the same time, at most."""


def cost(network: Network, d: int, n: int, kind: str) -> Cost:
    """Return the cost of `LastLayer` with `n` nodes a pixel, in exact integers."""
    seen = windows(network, d)
    points = sum(n ** len(window.pixels) for window in seen.before)
    stored = 0
    for layer in range(1, network.depth):
        # The features before, the branch, and the features after with one sum in the making.
        arrays = n ** len(seen.features[layer - 1].pixels) + n ** len(seen.before[layer - 1].pixels)
        stored = max(stored, arrays + 2 * n ** len(seen.features[layer].pixels))
    if kind == "ntk":
        stored *= 2
    return Cost(points, 8 * stored)


class LayerActivation(NamedTuple):
    """A layer's activation at the variance q of the features before it."""

    dual: Dual
    gain: float
    """α² K(x, x) / q."""
    branch_share: float
    """s, the branch's share of the variance after the layer."""


def at_variance(network: Network, q: float) -> LayerActivation:
    """Return a network's activation for features of variance q.

    ReLU is the same at every variance. Other activations go through ``activations``.
    """
    if network.activation == "relu":
        return LayerActivation(RELU, network.branch_gain, network.branch_share)
    activation, c_w = BY_NAME[network.activation], np.array(network.c_w)
    value, slope = (float(np.asarray(v)) for v in activation.diagonal(np, c_w, q, 1.0))
    if value == 0.0:  # no variance: the branch is 0, with the correlations of a linear activation
        linear = Dual(lambda w, wanted: (w, np.zeros_like(w)), 1.0)
        return LayerActivation(linear, 0.0, float(not network.skip))
    own_slope = slope * network.c_w / value

    def function(w: np.ndarray, wanted: bool) -> tuple[np.ndarray, np.ndarray | None]:
        complement, slopes = _dual(network, q, w, 1.0 / value, wanted)
        np.maximum(complement, 0.0, out=complement)  # a difference, rounded
        if slopes is not None:
            slopes *= -network.c_w
            slopes += own_slope
        return complement, slopes

    gain = network.alpha**2 * network.c_v * value / q
    return LayerActivation(Dual(function, own_slope), gain, gain / (network.skip + gain))


def _dual(
    network: Network, q: float, w: np.ndarray, factor: float, slope: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return E[σ(u)²] − E[σ(u)σ(v)] and q E[σ'(u)σ'(v)], times `factor`, at correlation 1 − w.

    u and v have the variance c_w q.
    """
    activation, c_w = BY_NAME[network.activation], network.c_w
    pixels = Pixels(
        np.array(math.sqrt(c_w / 2)),
        np.array(1.0 / math.sqrt(c_w)),
        activation.extra(np, np.array(c_w), q),
    )
    given = DualInput(
        w=w.copy(),
        v=2.0 - w,
        half_g=np.full_like(w, c_w / 2),
        z=np.zeros_like(w),
        covariance=c_w * (1.0 - w),
    )
    dual = activation.dual(
        np, pixels, pixels, given, Workspace(), unit=q, factor=factor, with_slope=slope
    )
    return np.asarray(dual.branch_distance), np.asarray(dual.K_dot) if slope else None


@dataclass(frozen=True)
class GridFilters:
    """A layer's filters on a tensor grid (see ``complements.Filters``), on some threads."""

    inner: Filter
    outer: Filter
    d: int
    shape: tuple[int, ...]
    """Of the branch before the outer filter."""
    threads: int
    tick: Callable[[int], None]
    """Told how many more points are done."""

    def mean(self, array: np.ndarray, window: Filter, block: Block | None = None) -> np.ndarray:
        """Return a block of the mean over a filter's taps: arrays of other pixels are rotated."""
        block = (slice(None),) * self.d if block is None else block
        total: np.ndarray | float = 0.0
        for pixel, count in sorted(taps(window, self.d).items()):
            view = rotate(array, pixel)
            cut = (s if n > 1 else slice(None) for s, n in zip(block, view.shape, strict=True))
            part = view[tuple(cut)]
            total = total + (part if count == 1 else count * part)
        return np.asarray(total / window.size if window.size > 1 else total)

    def around(self, function: Callable[..., Arrays], arrays: Arrays) -> Arrays:
        """Return H_o of ``function`` of H_i of each array."""
        branches = [np.empty(self.shape) for _ in arrays]
        self.sweep(function, arrays, whole(self.shape), branches)
        return tuple(self.mean(branches.pop(0), self.outer) for _ in arrays)

    def identity(self, array: np.ndarray) -> np.ndarray:
        """Return the array: pixel 0 stays pixel 0."""
        return array

    def sweep(
        self,
        function: Callable[..., Arrays],
        arrays: Arrays,
        block: Block,
        results: list[np.ndarray],
    ) -> None:
        """Write ``function`` of H_i of each array to `results`, for a block and piece by piece."""

        def piece(here: Block) -> int:
            there = tuple(
                slice(a.start + b.start, a.start + b.stop) for a, b in zip(block, here, strict=True)
            )
            values = function(*(self.mean(array, self.inner, there) for array in arrays))
            for result, value in zip(results, values, strict=True):
                result[here] = value
            return values[0].size

        lengths = tuple(part.stop - part.start for part in block)
        with ThreadPoolExecutor(self.threads) as pool:
            for points in pool.map(piece, blocks(lengths, BLOCK_ENTRIES)):
                self.tick(points)


class LastLayer:
    """A network's kernel on a grid, up to the last layer and its outer filter.

    With `carried` and `branch` the kernel of pixel 0 is ``scale * (carried + mean over the
    outer filter's taps k of rotate(branch, k))``.

    Parameters
    ----------
    network : Network
    kind : {"gpk", "ntk"}
    complements : ndarray, (n,)
        1 − t of the nodes.
    d : int
        Number of pixels.
    n_channels : int
    threads : int
    tick : function
        Told how many more points are done.
    """

    def __init__(
        self,
        network: Network,
        kind: str,
        complements: np.ndarray,
        d: int,
        n_channels: int,
        threads: int,
        tick: Callable[[int], None] = lambda points: None,
    ) -> None:
        self.network, self.kind, self.parts = network, kind, network.parts
        n, before = len(complements), windows(network, d).before
        self._filters = [
            GridFilters(
                network.inner_filter(layer),
                network.outer_filter(layer),
                d,
                window.shape(n),
                threads,
                tick,
            )
            for layer, window in enumerate(before, start=1)
        ]
        delta = complements.reshape(-1, *[1] * (d - 1))
        delta = self._filters[0].mean(delta, network.input_filter)
        self._state = initial_state(delta, self.parts, kind == "ntk")
        self._tau = self.parts.input
        # q is mantissa · 2^exponent: it may exceed any float.
        scale = 1.0 if network.input_scale is None else n_channels * network.input_scale
        self._mantissa, self._exponent = math.frexp(scale)
        for filters in self._filters[:-1]:
            self._pass(filters)
        self._last = self._at_variance()

    @property
    def scale(self) -> tuple[float, int]:
        """Mantissa and exponent of the factor on all values."""
        return self._mantissa * self.network.readout_scale, self._exponent

    @property
    def carried(self) -> np.ndarray:
        """The kernel of the features that the skip connection carries past the last layer."""
        features = 1.0 - self._state.delta
        if self._state.epsilon is None:
            return features
        return (self._tau - self._state.epsilon) + self.parts.readout * features

    @property
    def own(self) -> float:
        """The kernel of a signal with itself, apart from the scale: K(1, …, 1)."""
        skip, gain = float(self.network.skip), self._last.gain
        if self.kind == "gpk":
            return skip + gain
        tangent = skip * self._tau + gain * self._own_branch(self._last)
        return tangent + self.parts.readout * (skip + gain)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the last layer's branch."""
        return self._filters[-1].shape

    def branch(self, block: Block) -> np.ndarray:
        """Return a block of the last layer's branch, before its outer filter."""
        gain, own = self._last.gain, self._own_branch(self._last)

        def function(*arrays: np.ndarray) -> Arrays:
            delta, *epsilon = activate(self.parts, self._tau, self._last.dual, *arrays)
            features = 1.0 - delta
            if not epsilon:
                return (gain * features,)
            return (gain * ((own - epsilon[0]) + self.parts.readout * features),)

        values = np.empty([part.stop - part.start for part in block])
        self._filters[-1].sweep(function, self._state.arrays, block, [values])
        return values

    def _pass(self, filters: GridFilters) -> None:
        """Carry the state past a layer."""
        network, here = self.network, self._at_variance()
        self._state = pass_layer(
            self._state,
            filters,
            here.branch_share,
            self.parts,
            tau=self._tau,
            dual=here.dual,
            skip=network.skip,
        )
        self._tau += here.branch_share * (self._own_branch(here) - self._tau)
        mantissa, exponent = math.frexp(self._mantissa * (network.skip + here.gain))
        self._mantissa, self._exponent = mantissa, self._exponent + exponent

    def _at_variance(self) -> LayerActivation:
        homogeneous = self.network.activation == "relu"
        q = 1.0 if homogeneous else math.ldexp(self._mantissa, self._exponent)
        return at_variance(self.network, q)

    def _own_branch(self, here: LayerActivation) -> float:
        return float(own_branch(self.parts, self._tau, here.dual))
