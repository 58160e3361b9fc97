"""The recursion of the reference engine: one tile of pixel pairs through all layers.

For each pixel pair the recursion carries three numbers. ::

    F                       covariance of the features, the Gaussian process kernel
    D = (q1 + q2)/2 − F     half the squared distance of the features
    A = T + r F             tangent kernel

A starts as (t + r) F. The four steps of a layer are those of layer.py; docs/theory/recursion.md
derives them. Boxes are sums over windows: `Scaling` has the filters' constants. Without skip
connections a layer's results replace F, D and A. Without the NTK, A is absent.

Subclasses carry other states: deficits (deficits.py), and for an odd activation both distances
(errors.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..activations import DualInput, DualResult, Pixels
from ..arrays import Array, array_module
from ..network import Filter
from .boxes import circular_sum
from .exact_sum import pairwise
from .geometry import Rows
from .layer import add, correlate, tangent_branch, tangent_g
from .protocol import Request
from .scaling import DOUBTFUL, MOST_E, NEARLY_OPPOSITE, Scaling

_CHANNELS = 16
"""Channels whose squares are added up one after the other; beyond, pairs of sums are added.

More channels lose more digits; fewer take more memory. Chosen by reasoning: 16 sums of positive
terms lose at most 16 rounding units, and mostly two.
"""


class Side(NamedTuple):
    """Tables of the cases on one side of a tile.

    They broadcast to the tile's shape, (pixel j, left case, row, 1).
    """

    unit_vectors: Sequence[Array]
    """A table for each feature of the input."""

    layers: Sequence[Pixels]
    tangent_exponents: list[Array] | None = None
    """For layers 0 … L the e of `SignalTables.tangent_exponents`; None: no powers are taken out."""

    vectors: Sequence[Array] | None = None
    """`SignalTables.vectors`, a table for each feature."""


class Recursion:
    """The recursion on one tile, for ReLU networks in distances.

    Attributes
    ----------
    features, distance, tangent : array
        F, D and A after the last layer, stored divided by a power of two (`Scaling.step`). If
        `Scaling.linear_apart`, F and A are without the part of F⁰.
    doubt : array, (left case, right case), float64
        Weighted sum over pixels, offsets and layers of the E of doubtful pixel pairs
        (`DOUBTFUL`).
    """

    features: Array
    distance: Array
    tangent: Array

    def __init__(
        self, request: Request, scaling: Scaling, left: Side, right: Side, rows: Rows
    ) -> None:
        self.request, self.network, self.scaling = request, request.network, scaling
        self.left, self.right, self.rows = left, right, rows
        self.xp = array_module(left.layers[0].half_root)
        self.seam = rows.seam(self.xp)
        self.want_ntk, self.want_gpk = "ntk" in request.kinds, "gpk" in request.kinds
        self.constants = scaling.constants.view(np.recarray)
        self.doubt: Array | float = 0.0
        self._doubt_weights = self.xp.asarray(scaling.doubt_weights()).reshape(-1, 1, 1, 1)
        self._linear: Array | None = None  # (t + r) F⁰, if it is kept apart from A
        self._linear_box: tuple[Filter, Array] | None = None

    def kernels(self) -> Iterator[tuple[int, dict[str, Array]]]:
        """Yield each depth asked for, and the kernels of each kind at every pixel pair."""
        depths, kinds = self.request.depths, self.request.kinds
        w, v = self._correlate_unit_vectors()
        self._enter(w, v)
        for layer in range(1, depths[-1] + 1):
            pair = self._input_pair(w, v) if layer == 1 else self._correlate(layer)
            branch = self._activate(layer, pair)
            if self.want_ntk:
                self._add_tangent(layer, pair, branch)
            self._add_branch(layer, branch)
            if layer in depths:
                kernels = {kind: self._kernel(kind) for kind in kinds}
                yield layer, kernels

    def _kernel(self, kind: str) -> Array:
        return self.features if kind == "gpk" else self.tangent

    # -- the input

    def _enter(self, w: Array, v: Array) -> None:
        """Set F, D and A of the input, from w and v of its pixels."""
        left, right = self.left.layers[0].half_root, self.right.layers[0].half_root
        g = 2.0 * (left * right)
        self.features = g - g * w
        self.distance = (left - right) ** 2 + g * w
        if self.want_ntk:
            self.tangent = self.network.parts.initial * self.features
        if self.scaling.linear_apart:
            self._set_linear_part_apart()

    def _set_linear_part_apart(self) -> None:
        """Take F⁰'s part out of F and A; keep (t + r) F⁰, whose boxes A_g needs."""
        self.features = self.xp.zeros_like(self.features)
        if self.want_ntk:
            self._linear, self.tangent = self.tangent, self.features

    def _input_pair(self, w: Array, v: Array) -> DualInput:
        """Return the correlations of layer 1, whose pre-activations have the input's w and v."""
        left, right = self.left.layers[1].half_root, self.right.layers[1].half_root
        return DualInput(w, v, left * right, (left - right) ** 2)

    def _correlate_unit_vectors(self) -> tuple[Array, Array]:
        """Return w = |û − v̂|²/2 and v = |û + v̂|²/2 of the input's pixels, without cancellation."""
        w = self._half_square(-1.0)
        if float(w.max()) <= NEARLY_OPPOSITE:
            return w, 2.0 - w
        return w, self.xp.where(w <= NEARLY_OPPOSITE, 2.0 - w, self._half_square(1.0))

    def _half_square(self, sign: float) -> Array:
        """Return |û + sign · v̂|²/2."""
        channels = len(self.left.unit_vectors)
        return 0.5 * pairwise(
            self._sum_of_squares(sign, range(first, min(first + _CHANNELS, channels)))
            for first in range(0, channels, _CHANNELS)
        )

    def _sum_of_squares(self, sign: float, channels: range) -> Array:
        """Return the sum of |û + sign · v̂|² over some channels."""
        terms = (self.left.unit_vectors[k] + sign * self.right.unit_vectors[k] for k in channels)
        total: Array = sum(term * term for term in terms)
        return total

    # -- the steps of a layer

    def _correlate(self, layer: int) -> DualInput:
        """Return the correlations of the pre-activations of layers 2, 3, …."""
        left, right = self.left.layers[layer], self.right.layers[layer]
        half_g, difference = left.half_root * right.half_root, left.half_root - right.half_root
        distance, z = self._box(self.distance, self.network.inner_filter(layer)), difference**2
        w = correlate(distance - z, left.inverse * right.inverse)
        pair = DualInput(w, 2.0 - w, half_g, z)
        total = abs(difference) * (left.half_root + right.half_root) + distance
        self._add_doubt(layer, total, pair)
        return pair

    def _add_doubt(self, layer: int, total: Array, pair: DualInput) -> None:
        """Add E = (D + |q1 − q2|/2)/√a of doubtful pixel pairs to `doubt`, in whole numbers.

        `total` is D + |q1 − q2|/2, and a is min(w, v).
        """
        xp, mean = self.xp, self.scaling.mean_variances[layer]
        root = xp.sqrt(xp.minimum(pair.w, pair.v))
        doubtful = (total > (DOUBTFUL * mean) * root) & (pair.half_g > 0)
        if not doubtful.any():
            return
        total = xp.where(doubtful, total, 0.0).astype(np.float64)
        least = xp.maximum(total / MOST_E, np.finfo(np.float64).tiny)
        E = xp.floor(total / xp.maximum(mean * root.astype(np.float64), least))
        self.doubt = self.doubt + self.rows.total((self._doubt_weights * E).sum(axis=0))

    def _activate(self, layer: int, pair: DualInput) -> DualResult:
        """Return K, D_K and K̇ of a layer."""
        return self.scaling.activation.dual(
            self.left.layers[layer],
            self.right.layers[layer],
            pair,
            unit=self.scaling.unit(layer),
            factor=self.scaling.factor(layer),
        )

    def _add_tangent(self, layer: int, pair: DualInput, branch: DualResult) -> None:
        """Add box(K̇ ⊙ A_g + (o + r) K) to A."""
        constants, net = self.constants[layer], self.network
        tangent = self._box(self.tangent, net.inner_filter(layer))
        if self._linear is not None:
            tangent = constants.linear_scale * self._box_of_linear(self._linear, layer) + tangent
        tangent = tangent_g(tangent, pair.half_g, 1.0 - pair.w, constants)
        tangent = tangent_branch(branch.K_dot, branch.K, tangent, constants)
        self.tangent = self._add(self.tangent, tangent, layer)

    def _box_of_linear(self, linear: Array, layer: int) -> Array:
        """Return box((t + r) F⁰) of a layer, kept for the next layers of the same filter."""
        window = self.network.inner_filter(layer)
        if self._linear_box is None or self._linear_box[0] != window:
            self._linear_box = window, self._box(linear, window)
        return self._linear_box[1]

    def _add_branch(self, layer: int, branch: DualResult) -> None:
        """Add box(D_K) to D and box(K) to F, where D and F are needed."""
        depths = self.request.depths
        if layer < depths[-1]:
            self.distance = self._add(self.distance, branch.branch_distance, layer)
        if self.want_gpk and (self.network.skip or layer in depths):
            self.features = self._add(self.features, branch.K, layer)

    def _add(self, state: Array, branch: Array, layer: int) -> Array:
        """Return a state after a layer: its branch passes the outer filter."""
        box = self._box(branch, self.network.outer_filter(layer))
        return add(state, box, self.constants[layer].skip_scale) if self.network.skip else box

    def _box(self, pixels: Array, window: Filter) -> Array:
        """Return the sums over a filter's windows."""
        return circular_sum(pixels, *window, self.seam)
