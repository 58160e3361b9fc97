"""Multi-dot-product kernels on tensor grids: K(t) for every t whose entries are all nodes.

The recursion is that of ``theory.tools.complements``. Pixel j carries the array of pixel 0 with the
axes rotated by j. An array has 1 entry along pixels that a layer has not seen. The last layer's
branch is never stored, but handed on block by block.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np

from ...network import Network
from ...network.activations import activation_of
from ...network.parts import Filter
from ..tools.complements import Dual, activate, add_branch, input_state, relu_dual

_BLOCK_ENTRIES = 100_000
"""Points that go through an activation together. Network(3), 4 pixels, on one core: 85,
53, 43, 40, 46, 49 ns a point for blocks of 3, 10, 30, 100, 300 and 1000 thousand points."""

Block = tuple[slice, ...]

Tick = Callable[[int], None]


def blocks(shape: tuple[int, ...]) -> Iterator[Block]:
    """Yield blocks that cover an array, whole in all but its `leading` axes."""
    lead = leading(shape)
    steps = [1] * lead + list(shape[lead:])
    if lead:
        steps[lead - 1] = _BLOCK_ENTRIES // math.prod(shape[lead:])
    for starts in product(*map(range, [0] * len(shape), shape, steps)):
        yield tuple(slice(a, a + step) for a, step in zip(starts, steps, strict=True))


def leading(shape: tuple[int, ...]) -> int:
    """Return the number of leading axes that `blocks` cuts."""
    return next(m for m in range(len(shape) + 1) if math.prod(shape[m:]) <= _BLOCK_ENTRIES)


def taps(window: Filter, d: int) -> Counter[int]:
    """Return the number of taps of a centred filter at each pixel that it reaches on a ring."""
    return Counter(k % d for k in window.offsets)


def shifts(head: str, d: int) -> range:
    """Return the shifts of the signal over which a head averages."""
    return range({"equivariant": 1, "trace": d, "gap": d}[head])


def rotate(array: np.ndarray, pixel: int) -> np.ndarray:
    """Return the view that `pixel` has of the array that pixel 0 carries: axes rotated."""
    return array.transpose([(axis - pixel) % array.ndim for axis in range(array.ndim)])


def widen(pixels: frozenset[int], window: Filter, d: int) -> frozenset[int]:
    """Return the pixels that a filter sees over units that see `pixels`, relative to their own."""
    return frozenset((p + k) % d for p in pixels for k in taps(window, d))


def windows(network: Network, d: int) -> tuple[list[frozenset[int]], list[frozenset[int]]]:
    """Return the pixels, relative to its own, that a unit of each layer depends on.

    The first list has pre-activations, l = 1 … L, the second features, l = 0 … L.
    """
    before, features = [], [widen(frozenset({0}), network.input_filter, d)]
    for layer in range(1, network.depth + 1):
        before.append(widen(features[-1], network.inner_filter(layer), d))
        branch = widen(before[-1], network.outer_filter(layer), d)
        features.append(branch | features[-1] if network.skip else branch)
    return before, features


def grid_shape(pixels: frozenset[int], d: int, nodes: int) -> tuple[int, ...]:
    """Return the shape of an array over a window: 1 along pixels that it does not see."""
    return tuple(nodes if pixel in pixels else 1 for pixel in range(d))


class KernelOnGrid:
    """A network's kernel on the grid of nodes with given complements 1 − t: d pixels, C channels.

    The kernel of pixel 0 is the mean over the outer filter's taps k of ``rotate(branch, k)``, with
    skip connections plus ``carried``. The kernel of a signal with itself is ``diagonal``. All are
    apart from the factor ``scale``.
    """

    def __init__(
        self, network: Network, kind: str, complements: np.ndarray, d: int, C: int, tick: Tick
    ) -> None:
        self._parts, self._d, self._tick = network.parts, d, tick
        delta = self._mean(complements.reshape(-1, *[1] * (d - 1)), network.input_filter)
        self._state, self._tau = input_state(delta, network.parts, kind), network.parts.input
        skip = float(network.layer(1).skip)
        variance = 1.0 if network.input_scale is None else C * network.input_scale
        for layer, pixels in enumerate(windows(network, d)[0], start=1):
            q = 1.0 if network.homogeneous else variance
            self._dual, self._own_slope, self._gain, branch_weight = _at_variance(network, q)
            self._inner, outer = network.inner_filter(layer), network.outer_filter(layer)
            # The tangent kernel of the layer's branch on the diagonal: [outer] + μ0 ([inner] + τ).
            self._tangent = self._parts.outer + self._own_slope * (self._parts.inner + self._tau)
            self.shape = grid_shape(pixels, d, len(complements))
            if layer == network.depth:
                break
            branches = [np.empty(self.shape) for _ in self._state]

            def store(block: Block, *values: np.ndarray, into: list[np.ndarray] = branches) -> None:
                for array, part in zip(into, values, strict=True):
                    array[block] = part

            self._for_each_block(store)
            boxed = tuple(self._mean(branches.pop(0), outer) for _ in self._state)
            self._state = add_branch(self._state, boxed, branch_weight)
            self._tau += branch_weight * (self._tangent - self._tau)
            variance *= network.layer(1).skip + self._gain
        self.scale = variance * network.readout_scale
        self.diagonal = skip + self._gain
        if kind == "ntk":
            tangent = skip * self._tau + self._gain * self._tangent
            self.diagonal = tangent + self._parts.readout * self.diagonal

    @property
    def carried(self) -> np.ndarray:
        """The kernel of the features that the skip connection carries past the last layer."""
        return self._kernel(self._tau, *self._state)

    def for_each_block(self, function: Callable[[Block, np.ndarray], None]) -> None:
        """Call a function with all blocks of the last layer's branch, before its outer filter."""

        def scaled(block: Block, *branch: np.ndarray) -> None:
            function(block, self._gain * self._kernel(self._tangent, *branch))

        self._for_each_block(scaled)

    def _kernel(self, diagonal: float, delta: np.ndarray, *epsilon: np.ndarray) -> np.ndarray:
        """Return the kernel of δ and ε, whose tangent kernel on the diagonal is `diagonal`."""
        features = 1.0 - delta
        return (diagonal - epsilon[0]) + self._parts.readout * features if epsilon else features

    def _for_each_block(self, function: Callable[..., None]) -> None:
        """Call a function with the blocks of δ, ε of the layer's branch, several at a time."""

        def compute(block: Block) -> int:
            means = [self._mean(array, self._inner, block) for array in self._state]
            branch = activate(
                self._parts, self._tau, *means, dual=self._dual, own_slope=self._own_slope
            )
            function(block, *branch)
            return branch[0].size

        if math.prod(self.shape) <= _BLOCK_ENTRIES:  # to start threads takes longer
            self._tick(compute((slice(None),) * self._d))
            return
        with ThreadPoolExecutor(4) as pool:  # more would mostly wait for Python's lock
            for points in pool.map(compute, blocks(self.shape)):
                self._tick(points)

    def _mean(self, array: np.ndarray, window: Filter, block: Block | None = None) -> np.ndarray:
        """Return a block of the mean over a filter's taps: arrays of other pixels are rotated."""
        block = (slice(None),) * self._d if block is None else block
        total: np.ndarray | float = 0.0
        for pixel, count in sorted(taps(window, self._d).items()):
            view = rotate(array, pixel)
            cut = (s if n > 1 else slice(None) for s, n in zip(block, view.shape, strict=True))
            part = view[tuple(cut)]
            total = total + (part if count == 1 else count * part)
        return np.asarray(total / window.size if window.size > 1 else total)


def _at_variance(network: Network, q: float) -> tuple[Dual, float, float, float]:
    """Return the dual activation at features of variance q, μ0, α² K(x, x)/q and p."""
    if network.is_relu:
        return relu_dual, 1.0, network.branch_gain, network.branch_share
    layer = network.layer(1)
    activation, q_g = activation_of(network), np.full(1, layer.c_w * q)
    if not q_g[0] < activation.largest_variance:
        raise OverflowError(
            f"variances reach {q_g[0]:.3g}, expected less than "
            f"{activation.largest_variance:g} with activation {network.activation!r}"
        )
    value = float(activation.variance(np, q_g)[0])
    if value == 0.0:  # no variance: the branch is 0, whatever its correlations
        return lambda w, wanted: (w, np.zeros_like(w)), 1.0, 0.0, 0.0
    ratio, gain = (
        layer.c_w * q / value,
        layer.alpha**2 * layer.c_v * float(activation.dual_divisor) * value / q,
    )
    none = np.zeros(1)
    own = activation.correlation_map(np, none, 2.0 - none, q_g, q_g)
    own_slope = float(own.times_slope(ratio)[0])

    def dual(w: np.ndarray, wanted: bool) -> tuple[np.ndarray, np.ndarray | None]:
        result = activation.correlation_map(np, w, 2.0 - w, q_g, q_g)
        complement = result.deficits[0] / value
        return complement, own_slope - result.times_slope(ratio) if wanted else None

    return dual, own_slope, gain, gain / (1.0 + gain) if layer.skip else 1.0
