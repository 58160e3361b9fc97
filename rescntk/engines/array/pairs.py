"""The recursion on arrays of pixel pairs in NumPy and CuPy, from the tables of single signals.

The arrays have the shape (pairs, *pixels, *pixels) if all pixel pairs are needed, (pairs, *pixels)
if only the pairs (j, j) are, and (pairs, *offsets, *pixels) for the pairs (j, j + δ) of pooled
heads, where δ is one of the offsets. The taps of a convolution move both pixels of a pair together:
they roll both groups of pixel axes, or the only one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

import numpy as np

from ...arrays import Array, array_module
from ...network.activations import Gaussians, activation_of
from ..heads import offsets, pool_pixels, pool_weights
from ..layer.constants import LayerConstants
from ..layer.means import column, mean_over_taps, sum_over_terms, summed
from ..layer.operations import Operation, Operations
from ..layer.recursion import by_kind, pairs_after_layer
from ..layer.step import Deficits, DualPairs, Kernels, PairContext, PairState, Variances, mapped
from ..layer.taps import Taps
from ..layer.weights import RoundedWeights
from ..request import Request
from ..signals.input import input_terms
from ..signals.tables import Tables
from ..work import check_stop, pieces, until_stopped

Piece: TypeAlias = tuple[slice, ...]
"""An index of some pixel pairs. The empty tuple means all of them."""

_PIECE = 1 << 16
"""The number of pixel pairs for which an activation is computed at a time. On a GPU it is 64 times
as large."""


class SignalPairs:
    """Some signal pairs, whose kernels are computed from the tables of both signals of each pair.

    The tables of the left and of the right signals have the shape (pairs, rows, *pixels).
    `all_pairs` says whether all pixel pairs (j, j') are computed. If not, only the pairs (j, j) are
    computed, or (j, j + δ) if the head has pools.
    """

    def __init__(
        self, request: Request, operations: Operations, left: Tables, right: Tables, all_pairs: bool
    ) -> None:
        self.request, self.operations, self.tables = request, operations, (left, right)
        self.constants = operations.constants
        self.xp, self.all_pairs = array_module(left.rows), all_pairs
        self.pixel_shape, self.real = left.rows.shape[2:], left.rows.dtype.type
        self.n_axes, self.right_rows = len(self.pixel_shape), right.rows
        if request.pool:
            pooled = zip(pool_pixels(request.pool, self.pixel_shape), self.pixel_shape, strict=True)
            self.offsets = [offsets(*axis) for axis in pooled]
            self.right_rows = self.extended(right.rows)
        self.with_ntk = "ntk" in request.kinds
        self.weights = operations.rounded_weights(self.real.__name__)
        self.activation = activation_of(request.network)

    def row_of_both(self, row: int) -> tuple[Array, Array]:
        """Return a table row of the left and of the right signals.

        Both arrays broadcast to the shape of the pixel pairs.
        """
        left, right = self.tables[0].rows[:, row], self.right_rows[:, row]
        ones = (None,) * self.n_axes
        if self.request.pool:
            return left[(slice(None), *ones)], self.at_offsets(right)
        if not self.all_pairs:
            return left, right
        return left[(..., *ones)], right[(slice(None), *ones)]

    def extended(self, rows: Array) -> Array:
        """Return rows of right signals, extended periodically for `at_offsets`.

        Along each axis they begin at the smallest offset, and end at the last pixel plus the
        largest offset.
        """
        first = rows.ndim - self.n_axes
        for axis, (axis_offsets, d) in enumerate(
            zip(self.offsets, rows.shape[first:], strict=True), first
        ):
            pixels = np.arange(axis_offsets[0], axis_offsets[-1] + d) % d
            rows = self.xp.take(rows, self.xp.asarray(pixels), axis=axis)
        return rows

    def at_offsets(self, row: Array) -> Array:
        """Return the values at the right pixels, (pairs, *offsets, *pixels).

        A right pixel is at an offset from a left pixel. The result is a view of the extended row.
        """
        shape = len(row), *map(len, self.offsets), *self.pixel_shape
        strides = *row.strides, *row.strides[1:]
        view: Array = self.xp.lib.stride_tricks.as_strided(row, shape, strides)
        return view

    def mean(self, taps: Taps, values: Array) -> Array:
        """Return the weighted means over the taps. A tap moves both pixels of a pair."""
        check_stop()
        # The axes of left and of right pixels begin here. With a pooled head they are those of the
        # offsets and of left pixels.
        first, second = 1, 1 + self.n_axes
        if self.request.pool:
            return mean_over_taps(self.xp, values, taps, second)
        sides = (first, second) if self.all_pairs else (first,)
        return mean_over_taps(self.xp, values, taps, *sides)

    def context_of(
        self, operation: Operation, before: PairState, features: PairState
    ) -> ArrayPairContext:
        """Return the `PairContext` of the operation's step."""
        return ArrayPairContext(self, operation)

    def kernels_with_head(
        self, kernels: Kernels, input_weight: float, F0: Array
    ) -> dict[str, Array]:
        """Return the kernels with the head applied.

        `kernels` are without their multiples of F⁰, `F0`. The features have the multiple
        `input_weight`, which is added.
        """
        weighted = by_kind(self.operations.constants, kernels, input_weight)
        return {kind: self.with_head(*weighted[kind], F0) for kind in self.request.kinds}

    def with_head(self, kernel: Array, input_weight: float, F0: Array) -> Array:
        """Return `kernel` + `input_weight` · `F0` with the head applied, (pairs, …)."""
        check_stop()
        request, n, d = self.request, len(kernel), math.prod(self.pixel_shape)
        averages_pairs = request.head == "gap" or request.pool
        if not averages_pairs:
            kernel = kernel + input_weight * F0
        if request.head == "pixels":
            return kernel.reshape(n, d, d)
        if request.reads_pixel_1:
            return kernel.reshape(n, -1)[:, 0]
        if request.pool:
            weights = self.xp.asarray(pool_weights(request.pool, self.pixel_shape))[:, None]
            at_pixels = sum_over_terms(self.xp, weights * kernel.reshape(n, -1, d))
        elif request.head in ("trace", "gap"):
            at_pixels = kernel.reshape(n, d, -1).mean(axis=2, dtype=np.float64)
        else:
            raise NotImplementedError(f"engine 'array' has no head {request.head!r}")
        if not request.shares:
            at_pixels = at_pixels.mean(axis=1, keepdims=True)
        if averages_pairs:  # the mean of F⁰ over pixel pairs is a product of means; it may be 0
            terms = (input_terms(self.operations, request, side.input) for side in self.tables)
            (left, _), (_, right) = terms
            product = sum_over_terms(self.xp, left * right)
            if not request.shares:
                product = product.mean(axis=1, keepdims=True)
            at_pixels = at_pixels + input_weight * product
        return at_pixels / d if request.shares else at_pixels[:, 0]

    def at_depths(self) -> Iterator[dict[str, Array]]:
        """Yield the kernels with the head applied, for each of the request's depths."""
        state, F0 = self.enter()
        zeros, input_weight = self.xp.zeros_like(F0), self.operations.constants.input_weight
        state = state._replace(kernels=Kernels(zeros, zeros if self.with_ntk else None))
        for layer_number, layer_operations in enumerate(self.operations.layers, start=1):
            in_tangent = self.constants.carried_parts.initial * input_weight(layer_number - 1)
            state = pairs_after_layer(self.context_of, layer_operations, state, in_tangent, F0)
            if layer_number in self.request.depths:
                yield self.kernels_with_head(state.kernels, input_weight(layer_number), F0)

    def enter(self) -> tuple[PairState, Array]:
        """Return the state of the pixel pairs before layer 1, without kernels, and F⁰."""
        units = [self.row_of_both(row) for row in range(self.operations.n_channels)]
        a, b = self.row_of_both(self.operations.n_channels)
        U, U_plus = (
            a
            * b
            * (self.real(0.5) * summed([*until_stopped((u + sign * v) ** 2 for u, v in units)]))
            for sign in (-1, 1)
        )
        state = PairState(Deficits(U, U_plus), Kernels(None, None))
        for operation in self.operations.input:
            state = operation.step.pairs(self.context_of(operation, state, state), state, state)
            a, b = self.row_of_both(operation.row)
        check_stop()
        U, U_plus = state.deficits
        return state, self.xp.where(U < U_plus, a * b - U, U_plus - a * b)


class ArrayPairContext:
    """The implementation of `step.PairContext` that reads rows from the tables of both signals."""

    variances: tuple[Variances, ...] = ()

    def __init__(self, pairs: SignalPairs, operation: Operation, piece: Piece = ()) -> None:
        self.pairs, self.operation, self.piece = pairs, operation, piece
        self.constants = pairs.constants

    @property
    def layer_constants(self) -> LayerConstants:
        return self.constants.of_layer(self.operation.layer_number)

    @property
    def weights(self) -> RoundedWeights:
        return self.pairs.weights[self.operation.row]

    def row(self, index: int) -> tuple[Array, Array]:
        return self.pairs.row_of_both(self.operation.row + index)

    def mean(self, taps: Taps, values: Array) -> Array:
        return self.pairs.mean(taps, values)

    def bias_product(self, after_activation: bool) -> Array:
        """Return the product of the standard deviations of both signals' biases, (pairs, 1, …)."""
        std = self.constants.bias_std(self.operation.layer_number, after_activation)
        left, right = (std * side.input.bias for side in self.pairs.tables)
        return column((left * right).astype(self.pairs.real), self.row(0)[0])

    def dual(self, deficits: Deficits, inner_variance: float | None) -> DualPairs:
        xp, real, c_w = self.pairs.xp, self.pairs.real, inner_variance
        rows = *self.pairs.row_of_both(self.operation.std_row), *self.row(0)
        a, b, inverse_a, inverse_b = (_part(self.piece, row) for row in rows)
        g = a * b
        w, v = mapped(lambda u: xp.minimum(u * (inverse_a * inverse_b), real(2.0)), deficits)
        if v is None:
            v = real(2.0) - w
        gaussians = Gaussians(w, v, g, (a * a, b * b))
        if c_w is not None:
            gaussians = Gaussians(w, v, c_w * g, (c_w * a * a, c_w * b * b))
        K, branch_deficits, times_slope = self.pairs.activation.dual(xp, gaussians)

        def covariance() -> Array:
            return g * xp.where(w < v, real(1.0) - w, v - real(1.0))

        return DualPairs(K, Deficits(*branch_deficits), times_slope, covariance)

    def by_pieces(
        self, function: Callable[[PairContext, PairState], PairState], state: PairState
    ) -> PairState:
        """Return ``function(self, state)``, computed in pieces of some pixel pairs.

        Dozens of arrays of one piece fit in the cache. If the computation is stopped, it ends after
        the current piece.
        """
        shape, most = state.deficits.U.shape, _PIECE * (1 if self.pairs.xp is np else 64)
        if math.prod(shape) <= most:
            return function(self, state)
        results: list[Array | None] = []
        for piece in until_stopped(pieces(shape, most)):
            part = partial(_part, piece)
            before = PairState(mapped(part, state.deficits), mapped(part, state.kernels))
            after = function(ArrayPairContext(self.pairs, self.operation, piece), before)
            values = *after.deficits, *after.kernels
            results = results or [value if value is None else self.empty(shape) for value in values]
            for array, value in zip(results, values, strict=True):
                if array is not None:
                    array[piece] = value
        U, U_plus, F, A = results
        return PairState(Deficits(U, U_plus), Kernels(F, A))

    def empty(self, shape: tuple[int, ...]) -> Array:
        """Return an uninitialized array in the working precision."""
        array: Array = self.pairs.xp.empty(shape, self.pairs.real)
        return array


def _part(piece: Piece, values: Array) -> Array:
    """Return a piece of an array.

    Axes of length 1 are not indexed, since the array broadcasts along them.
    """
    if not piece:
        return values
    axes = zip(piece, values.shape, strict=False)
    return values[tuple(index if size > 1 else slice(None) for index, size in axes)]
