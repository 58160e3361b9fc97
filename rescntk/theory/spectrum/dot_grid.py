r"""Multi-dot-product kernels on tensor grids: K(t) for every t whose entries are all nodes.

On the multi-sphere a kernel is a function of the dot products :math:`t_j = \langle x_j, z_j
\rangle/C_0` (Barzilai et al. 2022, section 3.2), and a grid of n nodes for each of d pixels
has :math:`n^d` points. Three things keep that within reach:

- The network is the same at every pixel. What pixel j carries is what pixel 0 carries, with
  the axes of the grid rotated by j: one array for all pixels, seen through transposed views.
- An array has n entries only along the pixels that a layer has seen, 1 along the others.
- The last layer, which has seen most, is never stored: it is computed block by block, and its
  outer filter is left to whoever consumes the blocks (an average over rotated axes).

Carried are, in units of the variance q of the features, which is the same for all pixels of all
signals on the multi-sphere: the complement 1 − F/q, and T/q (theory of the distance form: see
``activations``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...activations import BY_NAME, Activation, DualInput, Pixels, Workspace
from ...network import Network
from ...validation import check_depth

Array = np.ndarray
Block = tuple[slice, ...]

_MOST_AXES = 32  # of NumPy's arrays before version 2

# Points that go through an activation together: some fifty passes over a dozen such arrays, which
# a cache should hold. 30 ns a point and layer on one core, and a third more from 30 000 or 400 000.
BLOCK_ENTRIES = 100_000


def taps(size: int, d: int) -> Counter[int]:
    """Return how often a centred filter of `size` reaches each pixel of a ring of `d`."""
    half = size // 2
    return Counter(k % d for k in range(-half, half + 1))


def shifts(head: str, d: int) -> range:
    """Return the shifts over which a head averages."""
    return range(1 if head == "equivariant" else d)


def rotate(array: Array, pixel: int) -> Array:
    """Return what `pixel` carries where pixel 0 carries `array`: a view with axes rotated."""
    d = array.ndim
    return array.transpose([(axis - pixel) % d for axis in range(d)])


class Window(NamedTuple):
    """The pixels, relative to its own, that a unit depends on: a subset of a ring."""

    pixels: frozenset[int]
    d: int

    def widen(self, size: int) -> Window:
        """Return the window of a filter of `size` over units with this one."""
        reached = {(p + k) % self.d for p in self.pixels for k in taps(size, self.d)}
        return Window(frozenset(reached), self.d)

    def shape(self, n: int) -> tuple[int, ...]:
        """Return the shape of an array over this window, `n` nodes a pixel."""
        return tuple(n if pixel in self.pixels else 1 for pixel in range(self.d))


class Windows(NamedTuple):
    """What the units of each layer depend on."""

    before: tuple[Window, ...]
    """Of the pre-activations g^l, l = 1 … L."""
    features: tuple[Window, ...]
    """Of the features f^l, l = 0 … L; the last is the receptive field of the output."""


def windows(network: Network, d: int) -> Windows:
    """Return the windows of all layers of a network on `d` pixels."""
    before, features = [], [Window(frozenset({0}), d).widen(network.input_filter_size)]
    for layer in range(1, network.depth + 1):
        before.append(features[-1].widen(1 if layer == 1 else network.filter_size))
        branch = before[-1].widen(network.outer_filter_size)
        union = branch.pixels | (features[-1].pixels if network.skip else frozenset())
        features.append(Window(union, d))
    return Windows(tuple(before), tuple(features))


class Cost(NamedTuple):
    """What an evaluation on a grid takes."""

    points: int
    """Points at which an activation is evaluated, over all layers."""
    bytes: int
    """Memory at the same time, at most."""


def cost(network: Network, d: int, n: int, kind: str) -> Cost:
    """Return what `LastLayer` takes with `n` nodes a pixel, in exact integers."""
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


@dataclass(frozen=True)
class State:
    """The features of a layer at pixel 0, on the grid; in units of their variance q."""

    gap: Array
    """1 − F/q, over the grid."""
    tangent: Array | None
    """T/q, over the grid; None where the kernel is the Gaussian process's."""
    own_tangent: float
    """T/q of a signal with itself."""
    mantissa: float
    exponent: int
    """q is mantissa · 2^exponent: it may exceed any float."""

    @property
    def q(self) -> float:
        return math.ldexp(self.mantissa, self.exponent)


class Branch(NamedTuple):
    """What a layer's activation makes of a block, times α²; in units of the variance before."""

    both: Array
    """α² K."""
    gap: Array
    """Its complement, α² (K(x,x) − K)."""
    source: Array | None
    """α² ([outer trained] K + K̇ ⊙ T_g)."""


class LastLayer:
    """A network's kernel on a grid, up to the last layer and its outer filter.

    With `carried` and `branch` the kernel of pixel 0 is ``scale * (carried + mean over the
    outer filter's taps k of rotate(branch, k))``.

    Parameters
    ----------
    network : Network
    kind : {"gpk", "ntk"}
    gaps : ndarray, (n,)
        The complements 1 − t of the nodes.
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
        gaps: Array,
        d: int,
        n_channels: int,
        threads: int,
        tick: Callable[[int], None] = lambda points: None,
    ) -> None:
        self.network, self.kind, self.d, self.threads = network, kind, d, threads
        self._tick = tick
        self._activation: Activation = BY_NAME[network.activation]
        self._strength = (network.alpha**2 if network.skip else 1.0) * network.c_v
        self._before = windows(network, d).before
        scale = 1.0 if network.input_scale is None else n_channels * network.input_scale
        gap = gaps.reshape(-1, *[1] * (d - 1))
        gap = self._box(gap, network.input_filter_size)
        train_input = float("input" in network.trained)
        tangent = train_input * (1.0 - gap) if kind == "ntk" else None
        self._state = State(gap, tangent, train_input, *math.frexp(scale))
        for layer in range(1, network.depth):
            self._advance(layer)

    # -- what is asked for

    @property
    def scale(self) -> tuple[float, int]:
        """Mantissa and exponent of what all values are to be multiplied by."""
        return self._state.mantissa * self.network.readout_scale, self._state.exponent

    @property
    def carried(self) -> Array:
        """The kernel of the features that the skip connection carries past the last layer."""
        state = self._state
        features = 1.0 - state.gap
        if state.tangent is None:
            return features
        return state.tangent + features if self._readout else state.tangent

    @property
    def own(self) -> float:
        """The kernel of a signal with itself, apart from the scale: K(1, …, 1)."""
        state, kept = self._state, float(self.network.skip)
        both, source = self._own_branch()
        features = kept + both
        if self.kind == "gpk":
            return features
        return kept * state.own_tangent + source + self._readout * features

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the last layer's branch."""
        return self._before[-1].shape(max(self._state.gap.shape))

    def branch(self, block: Block) -> Array:
        """Return a block of what the last layer adds, before its outer filter."""
        values = np.empty([part.stop - part.start for part in block])

        def write(here: Block, branch: Branch) -> None:
            kernel = branch.both
            if branch.source is not None:
                kernel = branch.source + branch.both if self._readout else branch.source
            values[here] = kernel

        self._sweep(self.network.depth, block, write)
        return values

    @property
    def _readout(self) -> bool:
        return "readout" in self.network.trained

    # -- layers

    def _advance(self, layer: int) -> None:
        """Carry the state past a layer."""
        state, kept = self._state, self.network.skip
        own_both, own_source = self._own_branch()
        growth = kept + own_both
        share = 1.0 / growth if growth > 0 else 0.0  # a kernel of 0 stays one
        shape = self._before[layer - 1].shape(max(state.gap.shape))
        gap = np.empty(shape)
        source = None if state.tangent is None else np.empty(shape)

        def write(here: Block, branch: Branch) -> None:
            gap[here] = branch.gap
            if source is not None:
                source[here] = branch.source

        self._sweep(layer, whole(shape), write)

        def past(old: Array, branch: Array) -> Array:
            branch = self._box(branch, self.network.outer_filter_size)
            return share * (old + branch) if kept else share * branch

        new_gap = past(state.gap, gap)
        tangent = None
        if state.tangent is not None and source is not None:
            tangent = past(state.tangent, source)
        own_tangent = share * (kept * state.own_tangent + own_source)
        mantissa, exponent = math.frexp(state.mantissa * growth)
        self._state = State(new_gap, tangent, own_tangent, mantissa, state.exponent + exponent)

    def _units(self) -> tuple[float, float]:
        """Return the unit of variances that the activation is told, and the factor on it."""
        unit = 1.0 if self._activation.homogeneous else self._state.q
        return unit, (self._strength / unit if unit > 0 else 0.0)

    def _own_branch(self) -> tuple[float, float]:
        """Return α² K and the source of a signal with itself, in units of q."""
        network = self.network
        unit, factor = self._units()
        own = self._activation.diagonal(np, np.array(network.c_w), unit, factor)
        both, slope = (float(value) for value in own)
        tangent = network.c_w * (("inner" in network.trained) + self._state.own_tangent)
        return both, both * ("outer" in network.trained) + slope * tangent

    def _sweep(self, layer: int, block: Block, write: Callable[[Block, Branch], None]) -> None:
        """Take a block through `layer` in pieces, and have each written where it belongs in it."""

        def piece(here: Block) -> int:
            there = tuple(
                slice(a.start + b.start, a.start + b.stop) for a, b in zip(block, here, strict=True)
            )
            branch = self._activate(layer, there)
            write(here, branch)
            return branch.both.size

        lengths = tuple(part.stop - part.start for part in block)
        with ThreadPoolExecutor(self.threads) as pool:
            for points in pool.map(piece, blocks(lengths, BLOCK_ENTRIES)):
                self._tick(points)

    def _activate(self, layer: int, block: Block) -> Branch:
        """Take a block of the pre-activations of `layer` through the activation."""
        network, state, activation = self.network, self._state, self._activation
        size = 1 if layer == 1 else network.filter_size
        c_w = network.c_w
        w = np.clip(self._box(state.gap, size, block), 0.0, 2.0)  # 1 − ρ
        unit, factor = self._units()
        tangent = None
        if state.tangent is not None:
            tangent = c_w * self._box(state.tangent, size, block)
            if "inner" in network.trained:
                tangent = tangent + c_w * (1.0 - w)
        pixels = Pixels(
            np.array(math.sqrt(c_w / 2)),
            np.array(1.0 / math.sqrt(c_w) if c_w > 0 else 0.0),
            activation.extra(np, np.array(c_w), unit),
        )
        given = DualInput(
            w=w,
            v=2.0 - w,
            half_g=np.full_like(w, c_w / 2),
            z=np.zeros_like(w),
            covariance=None if activation.homogeneous else c_w * (1.0 - w),
        )
        dual = activation.dual(
            np,
            pixels,
            pixels,
            given,
            Workspace(),
            unit=unit,
            factor=factor,
            with_slope=tangent is not None,
        )
        if tangent is None or dual.K_dot is None:
            return Branch(dual.K, dual.branch_distance, None)
        # The slope has a unit in it, the tangent kernel is in units of q already.
        source = dual.K_dot * tangent
        if "outer" in network.trained:
            source += dual.K
        return Branch(dual.K, dual.branch_distance, source)

    def _box(self, array: Array, size: int, block: Block | None = None) -> Array:
        """Return the mean over a filter's taps of an array as those pixels see it."""
        reached = taps(size, self.d)
        block = (slice(None),) * self.d if block is None else block
        total: Any = 0.0
        for pixel, count in sorted(reached.items()):
            view = rotate(array, pixel)
            cut = (s if n > 1 else slice(None) for s, n in zip(block, view.shape, strict=True))
            part = view[tuple(cut)]
            total = total + (part if count == 1 else count * part)
        return total / size if size > 1 else total


def whole(shape: tuple[int, ...]) -> Block:
    """Return the block that is all of an array."""
    return tuple(slice(0, length) for length in shape)


def blocks(shape: tuple[int, ...], entries: int) -> Iterator[Block]:
    """Yield blocks of about `entries` that cover an array: whole in the last axes."""
    lead = leading(shape, entries)
    rest = whole(shape[lead:])
    if lead == 0:
        yield rest
        return
    step = max(1, entries // math.prod(shape[lead:]))
    for index in np.ndindex(*shape[: lead - 1]):
        fixed = tuple(slice(i, i + 1) for i in index)
        for start in range(0, shape[lead - 1], step):
            yield (*fixed, slice(start, min(start + step, shape[lead - 1])), *rest)


def leading(shape: tuple[int, ...], entries: int) -> int:
    """Return how many of the first axes `blocks` cuts."""
    return next(m for m in range(len(shape) + 1) if math.prod(shape[m:]) <= entries)


def check_pixels(n_timepoints: Any) -> int:
    """Return `n_timepoints` as an int that an array has axes for, or say what is wrong with it."""
    d = check_depth(n_timepoints, "n_timepoints")
    if d > _MOST_AXES:
        raise ValueError(
            f"n_timepoints is {d}, expected at most {_MOST_AXES}, an array's axes (an output "
            f"depends on its receptive field alone: a ring just longer serves as well)"
        )
    return d
