"""The recursion of the reference engine: one tile of pixel pairs through all layers.

For each pixel pair the recursion carries three numbers. ::

    F                       covariance of the features, the Gaussian process kernel
    D = (q1 + q2)/2 − F     half the squared distance of the features
    A = T + r F             tangent kernel

A starts as (t + r) F. For an odd activation (erf), F → −F is a symmetry, and a fourth number is
half the squared distance to the negated features: ::

    D⁺ = (q1 + q2)/2 + F,   v = 1 + ρ = (box(D⁺) − z) / g

The four steps of a layer are those of layer.py; docs/theory/recursion.md derives them. Boxes are
sums over windows: `Scaling` has the filters' constants. Without skip connections a layer's results
replace the state. Without the NTK, A is absent.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..activations import DualInput, DualResult, Pixels
from ..arrays import Array, array_module
from ..network import Filter
from .boxes import circular_sum
from .doubt import pixel_weights
from .exact_sum import pairwise
from .geometry import Rows
from .layer import NEARLY_OPPOSITE, add, correlate, merge_biases, tangent_branch, tangent_g
from .protocol import Request, check_stop
from .scaling import Scaling
from .signal_tables import SignalTables

_CHANNELS = 16
"""Channels whose squares are added up one after the other; beyond, pairs of sums are added.

More channels lose more digits; fewer take more memory. Chosen by reasoning: 16 sums of positive
terms lose at most 16 rounding units, and mostly two.
"""

Axes: TypeAlias = Callable[[Array], Array]
"""Gives joined tables (…, pixels) the axes of a block of rows, (…, pixel j, left case, row, 1)."""


class Side(NamedTuple):
    """The joined tables of one side of a tile."""

    tables: SignalTables
    axes: Axes

    cases: Callable[[Array], Array]
    """Gives tables of signals the axes (left case, right case)."""

    def layer(self, layer: int) -> Pixels:
        """Return the tables of a layer; they broadcast to the tile's shape."""
        half_root, inverse, *extra = map(self.axes, self.tables.layers[:, layer])
        return Pixels(half_root, inverse, tuple(extra))


class Recursion:
    """The recursion on one block of rows, in distances.

    Attributes
    ----------
    features, distance, tangent : array
        F, D and A after the last layer, stored divided by a power of two (`Scaling.step`). With
        skip connections, F and A are without the part of F⁰.
    opposite, covariance : array
        D⁺ and F, with the part of F⁰, for odd activations.
    """

    features: Array
    distance: Array
    tangent: Array
    opposite: Array
    covariance: Array

    def __init__(
        self, request: Request, scaling: Scaling, left: Side, right: Side, rows: Rows
    ) -> None:
        self.request, self.network, self.scaling = request, request.network, scaling
        self.left, self.right, self.rows = left, right, rows
        self.xp = array_module(left.tables.scale)
        self._unit_vectors = left.tables.unit_vectors, right.tables.unit_vectors
        self.seam, self.odd = rows.seam(self.xp), scaling.activation.odd
        self.want_ntk, self.want_gpk = "ntk" in request.kinds, "gpk" in request.kinds
        self.constants, self._initial = scaling.layers, request.network.parts.initial
        self.biased = request.network.bias > 0.0
        if self.biased:  # of the pixel pairs
            biases = [side.cases(side.tables.bias) for side in (left, right)]
            self._bias_product = rows.spread(biases[0] * biases[1]).astype(scaling.dtype)
            difference = rows.spread(biases[0] - biases[1])
            self._bias_distance = (0.5 * difference * difference).astype(scaling.dtype)
            pairs = self.xp.broadcast_arrays(*biases)
            self._bias_pair = tuple(rows.spread(bias).astype(scaling.dtype) for bias in pairs)
        self._E: Array | float = 0.0  # of doubtful pixel pairs (doubt.py), summed over layers
        self._doubt_weights = self.xp.asarray(pixel_weights(scaling)).reshape(-1, 1, 1, 1)
        self._linear: Array | None = None  # F⁰, where it is kept apart from F and A
        self._linear_box: tuple[tuple[Filter, float], Array] | None = None

    def kernels(self) -> Iterator[tuple[int, dict[str, Array]]]:
        """Yield each depth asked for, and the kernels of each kind at every pixel pair."""
        depths, kinds, scaling = self.request.depths, self.request.kinds, self.scaling
        w, v = self._correlate_unit_vectors()
        self._enter(w, v)
        for layer in range(1, depths[-1] + 1):
            check_stop()
            left, right = self.left.layer(layer), self.right.layer(layer)
            pair = self._correlate(layer, left, right, w, v)
            unit, factor = scaling.unit(layer), scaling.factor(layer)
            branch = scaling.activation.dual(left, right, pair, unit=unit, factor=factor)
            tangent = self._tangent_g(layer, pair) if self.want_ntk else None
            self._add_branch(layer, pair, branch, tangent)
            if layer in depths:
                yield layer, {kind: self._kernel(kind, layer) for kind in kinds}

    def _kernel(self, kind: str, layer: int) -> Array:
        """Return a kernel at each pixel pair; the head "gap" adds the mean of F⁰ by itself."""
        kernel = self.features if kind == "gpk" else self.tangent
        scale: Any = 1.0 if kind == "gpk" else self._initial
        if self._linear is None or self.scaling.adds_mean:
            return kernel
        constants = self.constants[layer]
        return (constants.linear_scale * constants.skip_scale * scale) * self._linear + kernel

    # -- the input

    def _enter(self, w: Array, v: Array) -> None:
        """Set F, D, D⁺ and A of the input, from w and v of its pixels."""
        left, right = (side.layer(0) for side in (self.left, self.right))
        g, z = 2.0 * (left.half_root * right.half_root), self._root_difference(left, right) ** 2
        g_w = g * w
        self.features, self.distance = g - g_w, z + g_w
        if self.odd:
            self.covariance, self.opposite = self.features, z + g * v
        if self.want_ntk:
            self.tangent = self._initial * self.features
        if self.network.skip:
            self._linear, self.features = self.features, self.xp.zeros_like(self.features)
            self.tangent = self.features

    def _correlate_unit_vectors(self) -> tuple[Array, Array]:
        """Return w = |û − v̂|²/2 and v = |û + v̂|²/2 of the input's pixels, without cancellation."""
        w = self._half_square(operator.sub)
        if float(w.max()) <= NEARLY_OPPOSITE:
            return w, 2.0 - w
        return w, self.xp.where(w <= NEARLY_OPPOSITE, 2.0 - w, self._half_square(operator.add))

    def _half_square(self, combine: Callable[[Array, Array], Array]) -> Array:
        """Return |û ± v̂|²/2, as `combine` adds or subtracts."""
        left, right = self._unit_vectors

        def square(k: int) -> Array:
            term = combine(self.left.axes(left[k]), self.right.axes(right[k]))
            return term * term

        stop = len(left)
        return 0.5 * pairwise(
            reduce(operator.add, map(square, range(first, min(first + _CHANNELS, stop))))
            for first in range(0, stop, _CHANNELS)
        )

    # -- the steps of a layer

    def _correlate(self, layer: int, left: Pixels, right: Pixels, w: Array, v: Array) -> DualInput:
        """Return the correlations of the pre-activations; layer 1 has w and v of the input."""
        window = self.scaling.inner_filter(layer)
        half_g, difference = left.half_root * right.half_root, self._root_difference(left, right)
        z = difference**2
        if layer == 1 and self.biased:
            w, v = self._merge_biases(left, right, w, v)
        elif layer > 1:
            distance, inverse = self._box(self.distance, window), left.inverse * right.inverse
            if self.biased:
                distance = distance + self.constants[layer].bias_distance * self._bias_distance
            w = correlate(distance - z, inverse)
            if self.odd:
                v = correlate(self._box(self.opposite, window) - z, inverse)
            else:
                v = 2.0 - w
                total = distance
                if not self.scaling.keeps_root_errors:
                    total = abs(difference) * (left.half_root + right.half_root) + distance
                if self.scaling.mean_variances:  # the unit of doubt
                    self._add_doubt(layer, total, w, v, half_g)
        covariance = self._box(self.covariance, window) if self.odd else None
        return DualInput(w, v, half_g, z, covariance)

    def _merge_biases(self, left: Pixels, right: Pixels, w: Array, v: Array) -> tuple[Any, Any]:
        """Return w and v of layer 1, from w and v of the input's pixels."""
        roots = self.left.layer(0).half_root, self.right.layer(0).half_root
        g, inverse = 2.0 * (roots[0] * roots[1]), left.inverse * right.inverse
        windows = left.half_root, right.half_root
        U, opposite = merge_biases(g * w, g * v, roots, windows, self._bias_pair, self.constants[1])
        return correlate(U, inverse), correlate(opposite, inverse)

    def _root_difference(self, left: Pixels, right: Pixels) -> Any:
        """Return √(q1/2) − √(q2/2), in float32 with what rounding took from the roots."""
        difference = left.half_root - right.half_root
        if self.scaling.keeps_root_errors:
            difference = difference + (left.extra[0] - right.extra[0])
        return difference

    @property
    def doubt(self) -> Array | float:
        """The weighted sum of E² over pixels and offsets, (left case, right case), float64."""
        if isinstance(self._E, float):
            return 0.0
        return self.rows.total(((self._doubt_weights * self._E) ** 2).sum(axis=0))

    def _add_doubt(self, layer: int, total: Array, w: Array, v: Array, half_g: Array) -> None:
        """Add the E of doubtful pixel pairs, whole numbers (doubt.py). a is min(w, v)."""
        xp, constants = self.xp, self.constants[layer]
        root = xp.sqrt(xp.minimum(w, v))
        with np.errstate(over="ignore"):
            doubtful = (total > constants.doubtful * root - constants.tied) & (total * half_g > 0)
        if not doubtful.any():
            return
        tied = constants.doubtful * root < constants.tied
        unknown = tied | (2.0 * half_g * (root * root) < constants.parallel * total)
        E = total.astype(np.float64) / (constants.mean * xp.where(unknown, 1.0, root))
        E = xp.minimum(xp.where(unknown, constants.most_E, E), constants.most_E)
        self._E = self._E + xp.where(doubtful, xp.floor(E), 0.0)

    def _tangent_g(self, layer: int, pair: DualInput) -> Array:
        """Return A_g = (i − r) Σ + box(A)."""
        constants, window = self.constants[layer], self.scaling.inner_filter(layer)
        tangent = self._box(self.tangent, window)
        if self._linear is not None:
            key = window, self._initial * constants.linear_scale
            if self._linear_box is None or self._linear_box[0] != key:
                self._linear_box = key, key[1] * self._box(self._linear, window)
            tangent = self._linear_box[1] + tangent
        if self.biased:
            tangent = tangent + constants.bias_tangent * self._bias_product
        if constants.twice_inner_minus_readout == 0.0:
            return tangent
        if self.odd:
            return tangent_g(tangent, pair.covariance, 0.5, constants)
        return tangent_g(tangent, pair.half_g, 1.0 - pair.w, constants)

    def _add_branch(
        self, layer: int, pair: DualInput, branch: DualResult, tangent_g: Array | None
    ) -> None:
        """Add boxes of the branch to F, D, D⁺ and A, where they are needed."""
        depths = self.request.depths
        if tangent_g is not None:
            turned = branch.times_slope(tangent_g)
            tangent = tangent_branch(turned, branch.K, self.constants[layer])
            self.tangent = self._add(self.tangent, tangent, layer)
        if layer < depths[-1]:
            self._add_distance(layer, branch)
        if self.want_gpk and (self.network.skip or layer in depths):
            self.features = self._add(self.features, branch.K, layer)

    def _add_distance(self, layer: int, branch: DualResult) -> None:
        """Add box(D_K) to D, of which the next layer is made."""
        self.distance = self._add(self.distance, branch.branch_distance, layer)
        if self.odd:
            self.opposite = self._add(self.opposite, branch.opposite_distance, layer)
            self.covariance = self._add(self.covariance, branch.K, layer)

    def _add(self, state: Array, branch: Array, layer: int) -> Array:
        """Return a state after a layer: its branch passes the outer filter."""
        box = self._box(branch, self.scaling.outer_filter(layer))
        return add(state, box, self.constants[layer].skip_scale) if self.network.skip else box

    def _box(self, pixels: Array, window: Filter) -> Array:
        """Return the sums over a filter's windows."""
        check_stop()
        return circular_sum(pixels, *window, self.seam)
