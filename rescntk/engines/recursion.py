"""The recursion of the reference engine: one tile of pixel pairs through all layers.

For each pixel pair the recursion carries three numbers. ::

    F                       covariance of the features, the Gaussian process kernel
    D = (q1 + q2)/2 − F     half the squared distance of the features
    A = T + r F             tangent kernel

Here t, i, o, r say whether input, inner, outer and readout weights are trained (1) or frozen
(0). A starts as (t + r) F. A layer has four steps (docs/theory/recursion.md). ::

    w = 1 − ρ = (box(D) − z) / g                         _correlate
    A_g = (i − r) Σ + box(A)                             _tangent_g
    K, D_K, K̇ = dual activations of w                    _activate
    F ← F + box(K),  D ← D + box(D_K)                    _add_branch
    A ← A + box(K̇ ⊙ A_g + (o + r) K)                     _add_branch

Boxes are sums over windows: `Scaling` has the filters' constants. Without skip connections the
first terms of F, D and A are absent. Without the NTK, A is absent.

For an odd activation (erf), F → −F is a symmetry. The recursion then also carries, like D, ::

    D⁺ = (q1 + q2)/2 + F    half the squared distance to the negated features
    v = 1 + ρ = (box(D⁺) − z) / g
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..activations import DualInput, DualResult, Pixels, Workspace
from ..arrays import Array
from ..network import Filter
from ..rings import fill_halo, moving_sum
from .exact_sum import pairwise
from .geometry import OFFSETS, RowAxis, longest_reach, on_ring
from .protocol import Request
from .scaling import DOUBTFUL, MOST_E, NEARLY_OPPOSITE, Scaling

_CHANNELS = 16
"""Channels whose squares are added up one after the other; beyond, pairs of sums are added.

More channels lose more digits; fewer take more memory. Chosen by reasoning: 16 sums of positive
terms lose at most 16 rounding units, and mostly two.
"""


class Side(NamedTuple):
    """Tables of the cases on one side of a tile.

    They broadcast to the tile's shape, (pixel j, left case, row, right case).
    """

    unit_vectors: Sequence[Array]
    """A table for each feature of the input."""

    layers: Sequence[Pixels]
    tangent_exponents: list[Array] | None = None
    """For layers 0 … L the e of `SignalTables.tangent_exponents`; None: no powers are taken out."""

    vectors: Sequence[Array] | None = None
    """`SignalTables.vectors`, a table for each feature."""


def tangent_scale(
    xp: ModuleType, sides: Iterable[list[Array] | None], layer: int, since: int = 0
) -> Array:
    """Return the power of two by which A is multiplied after a layer, over the layer `since`.

    `sides` has the `tangent_exponents` of the left and of the right side.
    """
    exponents = xp.zeros((1, 1, 1), dtype=np.int64)
    for side in sides:
        if side is not None:
            exponents = exponents + side[since] - side[layer]
    return xp.ldexp(xp.ones(1), exponents)


class Buffers:
    """Arrays by name, which a thread uses again for every tile."""

    def __init__(self, xp: ModuleType, dtype: npt.DTypeLike) -> None:
        self.xp, self.dtype = xp, dtype
        self._arrays = threading.local()

    def array(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike = None) -> Array:
        """Return the array `name` of this thread, with undefined values; its dtype is fixed."""
        arrays: dict[str, Array] = self._arrays.__dict__
        size = math.prod(shape)
        if name not in arrays or arrays[name].size < size:
            dtype = self.dtype if dtype is None else dtype
            arrays[name] = self.xp.empty(size, dtype=dtype)
        return arrays[name][:size].reshape(shape)


class Recursion:
    """The recursion on one tile.

    Attributes
    ----------
    features, distance, tangent : array
        F, D and A after the last layer, stored divided by a power of two (`Scaling.step`). If
        `Scaling.linear_apart`, F and A are without the part of F⁰.
    doubt : array, (left case, right case), float64
        Weighted sum over pixels, offsets and layers of the E of doubtful pixel pairs
        (`DOUBTFUL`).
    """

    def __init__(
        self,
        request: Request,
        scaling: Scaling,
        buffers: Buffers,
        left: Side,
        right: Side,
        rows: RowAxis = OFFSETS,
    ) -> None:
        self.request, self.network, self.scaling = request, request.network, scaling
        self.xp, self.left, self.right, self._buffers = buffers.xp, left, right, buffers
        self.activation, self.rows = scaling.activation, rows
        self.want_ntk, self.want_gpk = "ntk" in request.kinds, "gpk" in request.kinds
        self.want_slope = self.want_ntk
        self.carries_covariance = not self.activation.homogeneous
        _, cases, _, _ = left.layers[0].half_root.shape
        d, _, offsets, right_cases = right.layers[0].half_root.shape
        self.shape = d, cases, offsets, right_cases
        self._ring_length = d if rows.seam is None else None
        self.halo = longest_reach(self.network, scaling.depth, self._ring_length)
        self.doubt: Array | float = 0.0
        self._doubt_weights = self.xp.asarray(scaling.doubt_weights()).reshape(-1, 1, 1, 1)
        self._distance_ring, self.distance = self._ring("distance")
        self._tangent_ring, self.tangent = self._ring("tangent")
        self._features_ring, self.features = self._ring("features")
        if self.carries_covariance:
            self._opposite_ring, self.opposite = self._ring("opposite")
            self._branch_opposite_ring, self._branch_opposite = self._ring("branch opposite")
        # g/2 and z before the activation, K and D_K after it.
        self._K_ring, self._half_g = self._ring("K")
        self._branch_distance_ring, self._z = self._ring("branch distance")
        self._tangent_branch_ring, self._tangent_branch = self._ring("tangent branch")
        self._w, self._v, self._spare, K_dot = (
            buffers.array(name, self.shape) for name in ("w", "v", "spare", "K_dot")
        )
        one, two = (self._ring_array(name)[:d] for name in ("box 1", "box 2"))
        self._workspace = Workspace(K_dot, self._spare, one, two)
        self._linear_ring: Array | None = None
        self._linear_box: tuple[Filter, Array] | None = None
        self._branches: Array | None = None  # F without the part of F⁰, where F is wanted too

    def kernels(self) -> Iterator[tuple[int, dict[str, Array]]]:
        """Yield each depth asked for, and the kernels of each kind at every pixel pair.

        The arrays yielded are overwritten by the next layer.
        """
        depths = self.request.depths
        self._enter()
        for layer in range(1, depths[-1] + 1):
            given = self._correlate(layer)
            tangent_g = self._tangent_g(layer, given) if self.want_ntk else None
            dual = self._activate(layer, given)
            self._add_branch(layer, dual, tangent_g)
            if layer in depths:
                features = self.features if self._branches is None else self._branches
                kernels = {"gpk": features, "ntk": self.tangent}
                yield layer, {kind: kernels[kind] for kind in self.request.kinds}

    # -- the steps of a layer

    def _enter(self) -> None:
        """Set F, D and A of the input, and w and v of its pixels."""
        xp, spare = self.xp, self._spare
        left, right = self.left.layers[0].half_root, self.right.layers[0].half_root
        self._correlate_unit_vectors()
        g = xp.multiply(left, right, out=self._half_g)
        g = xp.multiply(g, 2.0, out=g)
        g_w = xp.multiply(g, self._w, out=spare)
        xp.subtract(g, g_w, out=self.features)
        if self.network.skip:
            xp.subtract(left, right, out=self.distance)
            xp.multiply(self.distance, self.distance, out=self.distance)
            if self.carries_covariance:
                xp.add(self.distance, g * self._v, out=self.opposite)
            xp.add(self.distance, g_w, out=self.distance)
        if self.want_ntk:
            xp.multiply(self.features, self.network.parts.initial, out=self.tangent)
        if self.scaling.linear_apart:
            self._set_linear_part_apart()

    def _set_linear_part_apart(self) -> None:
        """Move F⁰'s part out of F and A; keep (t + r) F⁰, whose boxes A_g needs."""
        if self.carries_covariance:
            self._branches = self._buffers.array("branches", self.shape)
            self._branches[...] = 0.0
        if self.want_ntk:
            ring, linear = self._ring("linear")
            linear[...] = self.tangent
            self.tangent[...] = 0.0
            self._linear_ring = ring
        if not self.carries_covariance:
            self.features[...] = 0.0

    def _correlate_unit_vectors(self) -> None:
        """Set w = |û − v̂|²/2 and v = |û + v̂|²/2 of the input's pixels, without cancellation."""
        xp, w, v, spare = self.xp, self._w, self._v, self._spare
        self._half_square(xp.subtract, w)
        if float(w.max()) <= NEARLY_OPPOSITE:
            xp.subtract(2.0, w, out=v)
            return
        self._half_square(xp.add, v)
        xp.subtract(2.0, w, out=spare)
        xp.copyto(v, spare, where=w <= NEARLY_OPPOSITE)

    def _half_square(self, combine: Callable[..., Array], out: Array) -> None:
        """Set `out` to |û ± v̂|²/2, with + or − as `combine` adds or subtracts."""
        channels = len(self.left.unit_vectors)
        if channels <= _CHANNELS:
            total = self._sum_of_squares(combine, range(channels), out)
        else:
            total = pairwise(
                self._sum_of_squares(combine, range(first, min(first + _CHANNELS, channels)))
                for first in range(0, channels, _CHANNELS)
            )
        self.xp.multiply(total, 0.5, out=out)

    def _sum_of_squares(
        self,
        combine: Callable[..., Array],
        channels: range,
        out: Array | None = None,
    ) -> Array:
        """Return the sum of squares of some channels of both sides, combined one by one."""
        xp, spare = self.xp, self._spare
        out = xp.empty_like(spare) if out is None else out
        out[...] = 0.0
        for k in channels:
            combine(self.left.unit_vectors[k], self.right.unit_vectors[k], out=spare)
            xp.multiply(spare, spare, out=spare)
            xp.add(out, spare, out=out)
        return out

    def _correlate(self, layer: int) -> DualInput:
        """Return the correlations of the pre-activations; w and v of layer 1 are the input's."""
        xp, w, v, spare = self.xp, self._w, self._v, self._spare
        left, right = self.left.layers[layer], self.right.layers[layer]
        z = xp.subtract(left.half_root, right.half_root, out=self._z)
        z = xp.multiply(z, z, out=z)
        half_g = xp.multiply(left.half_root, right.half_root, out=self._half_g)
        if layer > 1:
            distance = self._box(self._distance_ring, self.network.inner_filter(layer))
            xp.subtract(distance, z, out=w)
            xp.multiply(left.inverse, right.inverse, out=spare)
            xp.multiply(w, spare, out=w)
            xp.clip(w, 0.0, 2.0, out=w)
            xp.subtract(2.0, w, out=v)
            if self.activation.homogeneous:
                total = xp.sqrt(z, out=self._tangent_branch)
                total = xp.multiply(total, left.half_root + right.half_root, out=total)
                total = xp.add(distance, total, out=total)
                self._add_doubt(layer, total, half_g)
            else:
                opposite = self._box(self._opposite_ring, self.network.inner_filter(layer))
                xp.subtract(opposite, z, out=v)
                xp.multiply(v, spare, out=v)
                xp.clip(v, 0.0, 2.0, out=v)
        if not self.carries_covariance:
            return DualInput(w, v, half_g, z)
        covariance = self._buffers.array("covariance", self.shape)
        covariance[...] = self._box(self._features_ring, self.network.inner_filter(layer))
        return DualInput(w, v, half_g, z, covariance)

    def _add_doubt(self, layer: int, total: Array, half_g: Array) -> None:
        """Add E = (D + |q1 − q2|/2)/√a of doubtful pixel pairs to `doubt`, in whole numbers.

        `total` is D + |q1 − q2|/2. The activation is homogeneous.
        """
        xp, root = self.xp, self._spare
        mean = self.scaling.mean_variances[layer]
        xp.minimum(self._w, self._v, out=root)
        xp.sqrt(root, out=root)
        doubtful = total > (DOUBTFUL * mean) * root
        doubtful &= half_g > 0
        if not doubtful.any():
            return
        total = xp.where(doubtful, total, 0.0).astype(np.float64)
        E = total / xp.maximum(
            mean * root.astype(np.float64), xp.maximum(total / MOST_E, np.finfo(np.float64).tiny)
        )
        self.doubt = self.doubt + self.rows.total((self._doubt_weights * xp.floor(E)).sum(axis=0))

    def _tangent_g(self, layer: int, given: DualInput) -> Array:
        """Return A_g = (i − r) Σ + box(A), the tangent kernel of the pre-activations."""
        xp, spare = self.xp, self._spare
        tangent_g = self._box(self._tangent_ring, self.network.inner_filter(layer))
        if self._linear_ring is not None:
            linear = self._linear_window(self._linear_ring, layer)
            xp.multiply(linear, 2.0 ** -self.scaling.exponents[layer - 1], out=spare)
            if self.left.tangent_exponents is not None:
                spare *= self._tangent_scale(layer - 1)
            tangent_g = xp.add(tangent_g, spare, out=self._tangent_branch)
        weight = self.network.parts.inner_minus_readout
        if weight == 0.0:
            return tangent_g
        if given.covariance is None:
            xp.multiply(given.half_g, given.w, out=spare)
            xp.subtract(given.half_g, spare, out=spare)
            xp.multiply(spare, 2.0 * weight, out=spare)
        else:
            xp.multiply(given.covariance, weight, out=spare)
            spare *= self._tangent_scale(layer - 1)
        return xp.add(tangent_g, spare, out=self._tangent_branch)

    def _linear_window(self, ring: Array, layer: int) -> Array:
        """Return box((t + r) F⁰) of a layer, kept for the next layers of the same filter."""
        window = self.network.inner_filter(layer)
        if self._linear_box is None or self._linear_box[0] != window:
            self._linear_box = window, self._box(ring, window, "linear box")
        return self._linear_box[1]

    def _activate(self, layer: int, given: DualInput) -> DualResult:
        """Return K, D_K and K̇ in the outer filter's factor, in the memory of g/2, z and K̇."""
        return self.activation.dual(
            self.xp,
            self.left.layers[layer],
            self.right.layers[layer],
            given,
            self._workspace,
            unit=self.scaling.unit(layer),
            factor=self.scaling.factor(layer),
            with_slope=self.want_slope,
        )

    def _add_branch(self, layer: int, dual: DualResult, tangent_g: Array | None) -> None:
        """Add the residual branch to F, D and A; F and D only where they are needed."""
        depths = self.request.depths
        if tangent_g is not None:
            self._add_tangent_branch(layer, dual, tangent_g)
        if layer < depths[-1]:
            self._add(self._branch_distance_ring, layer, self.distance)
            if dual.opposite_distance is not None:
                self._branch_opposite[...] = dual.opposite_distance
                self._add(self._branch_opposite_ring, layer, self.opposite)
        wanted = self.want_gpk and (self.network.skip or layer in depths)
        if wanted or self.carries_covariance:
            self._add_features_branch(layer)

    def _add_features_branch(self, layer: int) -> None:
        """Add box(K) to F."""
        branch = self._add(self._K_ring, layer, self.features)
        if self._branches is not None:
            self.xp.add(self._branches, branch, out=self._branches)

    def _add_tangent_branch(self, layer: int, dual: DualResult, tangent_g: Array) -> None:
        """Add box(K̇ ⊙ A_g + (o + r) K) to A."""
        xp, spare = self.xp, self._spare
        branch = xp.multiply(dual.K_dot, tangent_g, out=self._tangent_branch)
        weight = self.network.parts.outer_plus_readout
        if weight > 0:
            xp.multiply(dual.K, weight, out=spare)
            if self.left.tangent_exponents is not None:
                spare *= self._tangent_scale(layer - 1)
            xp.add(branch, spare, out=branch)
        self._add_to_tangents(self._tangent_branch_ring, layer, self.tangent)

    def _add_to_tangents(self, ring: Array, layer: int, state: Array) -> None:
        """Add box(ring) to A, and take out the powers of two that A has grown by."""
        self._add(ring, layer, state)
        if self.left.tangent_exponents is not None:
            state *= self._tangent_scale(layer, layer - 1)

    def _tangent_scale(self, layer: int, since: int = 0) -> Array:
        """Return the power of two by which A is multiplied after a layer, over that `since`."""
        sides = self.left.tangent_exponents, self.right.tangent_exponents
        return tangent_scale(self.xp, sides, layer, since).astype(self._w.dtype)

    def _add(self, ring: Array, layer: int, state: Array) -> Array:
        """Set `state` to skip · step · state + box(ring), with the outer filter's box.

        Return box(ring), which the next box may overwrite.
        """
        branch = self._box(ring, self.network.outer_filter(layer))
        if not self.network.skip:
            state[...] = branch
            return branch
        step = self.scaling.step(layer)
        if step != 1.0:
            self.xp.multiply(state, step, out=state)
        self.xp.add(state, branch, out=state)
        return branch

    # -- rows with a halo

    def _ring_array(self, name: str) -> Array:
        """Return an array of the tile's shape with a halo on either side."""
        d, *rest = self.shape
        return self._buffers.array(name, (d + 2 * self.halo, *rest))

    def _ring(self, name: str) -> tuple[Array, Array]:
        """Return an array with a halo, and the view of its pixels."""
        ring = self._ring_array(name)
        return ring, ring[self.halo : self.halo + self.shape[0]]

    def _box(self, ring: Array, window: Filter, name: str = "box") -> Array:
        """Return the sums over a filter's windows; the next call of a name may overwrite them."""
        if window.size == 1:
            return ring[self.halo : self.halo + self.shape[0]]
        taps = on_ring(window, self._ring_length)
        unused = self.halo - taps.reach
        ring = ring[unused : len(ring) - unused]
        fill_halo(ring, taps.reach, self.rows.seam)
        one, two = (self._ring_array(name) for name in ("box 1", "box 2"))
        out = self._buffers.array(name, self.shape)
        return moving_sum(self.xp, ring, taps.size, taps.reach, out, (one, two), taps.step)
