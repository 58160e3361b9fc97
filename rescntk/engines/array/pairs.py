"""The recursion on arrays of pixel pairs, of NumPy and CuPy, from tables of single signals.

A window moves both pixels of a pair together: on arrays (pairs, *pixels, *pixels) it rolls both
axes; on the pairs (j, j) alone, (pairs, *pixels), one. Pooled heads have the pairs (j, j + δ) of
some offsets, (pairs, *offsets, *pixels).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import chain
from operator import mul

import numpy as np

from ...arrays import Array, array_module
from ...network.activations import Gaussians, activation_of
from ..heads import offsets, pool_pixels, pool_weights
from ..layer.means import column, sum_over_terms, summed, window_mean
from ..layer.operations import Operation, Operations, rounded_weights
from ..layer.recursion import Deficits, Kernels, Recursion, by_kind, mapped
from ..layer.weights import RoundedWeights
from ..layer.window import Window
from ..request import Request
from ..signals.input import input_terms
from ..signals.tables import Tables
from ..work import check_stop, pieces, until_stopped

_PIECE = 1 << 16
"""Pixel pairs that go through an activation at a time, and on a device 64 times as many."""


class Pairs(Recursion[Deficits]):
    """Pairs of signals of one network, from their tables, (pairs, rows, *pixels).

    `all_pairs` says whether all pixel pairs (j, j') are computed, or the pairs (j, j) alone.
    """

    def __init__(
        self, request: Request, operations: Operations, left: Tables, right: Tables, all_pairs: bool
    ) -> None:
        self.request, self.operations, self.tables = request, operations, (left, right)
        self.xp, self.all_pairs = array_module(left.rows), all_pairs
        self.axes, self.real = left.rows.shape[2:], left.rows.dtype.type
        self.n_axes, self.right_rows = len(self.axes), right.rows
        if request.pool:
            pooled = zip(pool_pixels(request.pool, self.axes), self.axes, strict=True)
            self.offsets = [offsets(*axis) for axis in pooled]
            self.right_rows = self.around(right.rows)
        self.trained, self.with_ntk = operations.constants.carried_parts, "ntk" in request.kinds
        self.skip_weights = rounded_weights(operations, self.real.__name__)
        self.activation = activation_of(request.network)

    def sides(self, row: int) -> tuple[Array, Array]:
        """Return a row of both sides' tables; they broadcast to the pixel pairs."""
        left, right = self.tables[0].rows[:, row], self.right_rows[:, row]
        ones = (None,) * self.n_axes
        if self.request.pool:
            return left[(slice(None), *ones)], self.at_offsets(right)
        if not self.all_pairs:
            return left, right
        return left[(..., *ones)], right[(slice(None), *ones)]

    def around(self, rows: Array) -> Array:
        """Return rows of right signals, whose pixels go around each ring from the least offset."""
        first = rows.ndim - self.n_axes
        for axis, (along, d) in enumerate(
            zip(self.offsets, rows.shape[first:], strict=True), first
        ):
            place = np.arange(along[0], along[-1] + d) % d
            rows = self.xp.take(rows, self.xp.asarray(place), axis=axis)
        return rows

    def at_offsets(self, row: Array) -> Array:
        """Return a row at all offsets from left pixels, (pairs, *offsets, *pixels), as a view."""
        shape = len(row), *map(len, self.offsets), *self.axes
        strides = *row.strides, *row.strides[1:]
        view: Array = self.xp.lib.stride_tricks.as_strided(row, shape, strides)
        return view

    def mean(self, window: Window, values: Array) -> Array:
        """Return the means over the taps of a window, which moves both pixels."""
        check_stop()
        # Left pixels, and right ones; or offsets, and left pixels.
        first, second = 1, 1 + self.n_axes
        if self.request.pool:
            return window_mean(values, window, second)
        return window_mean(values, window, *((first, second) if self.all_pairs else (first,)))

    def at_depth(self, kernels: Kernels, input_weight: float, F0: Array) -> dict[str, Array]:
        """Return the kernels with their head; they lack `input_weight` times F⁰, `F0`."""
        weighted = by_kind(self.operations.constants, kernels, input_weight)
        return {kind: self.head(*weighted[kind], F0) for kind in self.request.kinds}

    def head(self, kernel: Array, input_weight: float, F0: Array) -> Array:
        """Return a kernel with its head, (pairs, …), to which `input_weight` times F⁰ is added."""
        check_stop()
        request, n, d = self.request, len(kernel), math.prod(self.axes)
        averages_pairs = request.head == "gap" or request.pool
        if not averages_pairs:
            kernel = kernel + input_weight * F0
        if request.head == "pixels":
            return kernel.reshape(n, d, d)
        if request.reads_pixel_1:
            return kernel.reshape(n, -1)[:, 0]
        if request.pool:
            weights = self.xp.asarray(pool_weights(request.pool, self.axes))[:, None]
            at_pixels = sum_over_terms(weights * kernel.reshape(n, -1, d))
        elif request.head in ("trace", "gap"):
            at_pixels = kernel.reshape(n, d, -1).mean(axis=2, dtype=np.float64)
        else:
            raise NotImplementedError(f"engine 'array' has no head {request.head!r}")
        if not request.shares:
            at_pixels = at_pixels.mean(axis=1, keepdims=True)
        if averages_pairs:  # F⁰ averages to products of means, which may be 0
            terms = (input_terms(self.operations, request, side.input) for side in self.tables)
            (left, _), (_, right) = terms
            product = sum_over_terms(left * right)
            if not request.shares:
                product = product.mean(axis=1, keepdims=True)
            at_pixels = at_pixels + input_weight * product
        return at_pixels / d if request.shares else at_pixels[:, 0]

    def at_depths(self) -> Iterator[dict[str, Array]]:
        """Yield the kernels with their head at each depth asked for."""
        state, F0 = self.enter()
        zeros, input_weight = self.xp.zeros_like(F0), self.operations.constants.input_weight
        kernels = Kernels(zeros, zeros if self.with_ntk else None)
        for layer_number, layer_operations in enumerate(self.operations.layers, start=1):
            before = input_weight(layer_number - 1)
            state, kernels = self.behind_layer(layer_operations, state, kernels, before, F0)
            if layer_number in self.request.depths:
                yield self.at_depth(kernels, input_weight(layer_number), F0)

    def enter(self) -> tuple[Deficits, Array]:
        """Return the deficits of the input, and F⁰."""
        units = [self.sides(row) for row in range(self.operations.n_channels)]
        a, b = self.sides(self.operations.n_channels)
        U, opposite = (
            a
            * b
            * (self.real(0.5) * summed([*until_stopped((u + sign * v) ** 2 for u, v in units)]))
            for sign in (-1, 1)
        )
        deficits = Deficits(U, opposite)
        for operation in self.operations.input:
            deficits = self.window(operation, deficits)
            a, b = self.sides(operation.row)
        check_stop()
        U, opposite = deficits
        return deficits, self.xp.where(U < opposite, a * b - U, opposite - a * b)

    def merge_term(self, operation: Operation) -> Array:
        """Return N, which a merge adds to deficits: the squared distance of coordinates."""
        coordinates = [self.sides(row) for row in operation.coordinate_rows]
        c, d = self.sides(operation.factor_row)
        N: Array = c * d * summed([*until_stopped((u - v) ** 2 for u, v in coordinates)])
        return N

    def norm(self, operation: Operation, state: Deficits) -> tuple[Deficits, Array]:
        left, right = self.sides(operation.factor_row)
        factor = left * right
        return mapped(partial(mul, factor), state), factor

    def activate(
        self, operation: Operation, state: Deficits, A: Array | None
    ) -> tuple[Deficits, Kernels]:
        """Return the branch's deficits, and K and M, of pre-activations with deficits and A.

        They are computed piece by piece: dozens of arrays of a piece fit in the cache, and a task
        ends between pieces.
        """
        sides = [*self.sides(operation.root_row), *self.sides(operation.row)]
        shape, most = state.U.shape, _PIECE * (1 if self.xp is np else 64)
        if math.prod(shape) <= most:
            return self.activated(operation, sides, state, A)
        has_opposite, empty = self.operations.constants.has_opposite, self.xp.empty_like
        deficits = Deficits(empty(state.U), empty(state.U) if has_opposite else None)
        kernels = Kernels(empty(state.U), None if A is None else empty(state.U))
        for piece in until_stopped(pieces(shape, most)):
            results = self.activated(
                operation,
                [_part(piece, side) for side in sides],
                mapped(partial(_part, piece), state),
                None if A is None else _part(piece, A),
            )
            for array, values in zip((*deficits, *kernels), chain(*results), strict=True):
                if array is not None:
                    array[piece] = values
        return deficits, kernels

    def activated(
        self, operation: Operation, sides: list[Array], deficits: Deficits, A: Array | None
    ) -> tuple[Deficits, Kernels]:
        """Return what `activate` returns, at once; `sides` are the roots and their inverses."""
        xp, real = self.xp, self.real
        constants = self.operations.constants.of_layer(operation.layer_number)
        a, b, *inverse = sides
        g = a * b
        w, v = mapped(lambda u: xp.minimum(u * (inverse[0] * inverse[1]), real(2.0)), deficits)
        if v is None:
            v = real(2.0) - w
        if not operation.has_root:
            K, branch, times_slope = self.activation.dual(Gaussians(w, v, g, (a * a, b * b)))
        else:
            c_w, factor = constants.layer.inner_variance, constants.dual_factor
            variances = c_w * a * a, c_w * b * b
            K, branch, times_slope = self.activation.dual(Gaussians(w, v, c_w * g, variances))
            K, branch = factor * K, (factor * branch[0], factor * branch[1])
        U, opposite = branch
        deficits = Deficits(U, opposite if self.operations.constants.has_opposite else None)
        if A is None:
            return deficits, Kernels(K, None)
        if c := self.trained.inner_minus_readout:
            A = A + real(c) * (g * xp.where(w < v, real(1.0) - w, v - real(1.0)))
        M = times_slope(A)
        if operation.has_root:
            M = (c_w * factor) * M
        return deficits, Kernels(K, M + real(self.trained.outer_plus_readout) * K)

    def window(self, operation: Operation, state: Deficits) -> Deficits:
        N = self.merge_term(operation)
        return mapped(lambda u: self.mean(operation.window, u) + N, state)

    def bias(self, operation: Operation, state: Deficits) -> tuple[Deficits, Array]:
        """Return merged deficits, and the product of both sides' biases, (pairs, 1, …)."""
        root = self.operations.constants.bias_root(operation.layer_number, operation.is_branch)
        left, right = (root * side.input.bias for side in self.tables)
        product = column((left * right).astype(self.real), self.sides(operation.row)[0])
        N, joins = self.merge_term(operation), Deficits(0.0, 2.0 * product)  # of equal biases
        return mapped(lambda u, bias: u + bias + N, state, joins), product

    def skip(
        self, operation: Operation, features: Deficits, branch: Deficits
    ) -> tuple[Deficits, RoundedWeights]:
        weights, N = self.skip_weights[operation.row], self.merge_term(operation)
        merged = mapped(lambda u, v: weights.merged(u, v) + N, features, branch)
        return merged, weights


def _part(piece: tuple[slice, ...], values: Array) -> Array:
    """Return a piece of an array, whose axes of one number stay whole: they broadcast."""
    places = zip(piece, values.shape, strict=False)
    return values[tuple(place if size > 1 else slice(None) for place, size in places)]
