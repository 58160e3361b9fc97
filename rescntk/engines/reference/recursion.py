"""The recursion on arrays of pixel pairs, of NumPy and CuPy, from tables of single signals.

A window moves both pixels of a pair together: on arrays (pairs, *pixels, *pixels) it rolls both
axes; on the pairs (j, j) alone, (pairs, *pixels), one. Pooled heads have the pairs (j, j + δ) of
some offsets, (pairs, *offsets, *pixels).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ...activations import Gaussians, activation_of
from ...arrays import Array, array_module
from ..heads import offsets, pool_weights, widths_of
from ..inputs import linear_terms
from ..means import column, past_skip, summed, window_mean
from ..operations import Operation, Operations, rounded_weights
from ..recursion import Recursion
from ..request import Request
from ..tables import Tables
from ..windows import Window
from ..work import check_stop, pieces, until_stopped

_PIECE = 1 << 16
"""Pixel pairs that go through an activation at a time, and on a device 64 times as many."""


class Pairs(Recursion[list[Array]]):
    """Pairs of signals of one network, from their tables, (pairs, rows, *pixels).

    `all_pairs` says whether all pixel pairs (j, j') are computed, or the pairs (j, j) alone.
    """

    def __init__(
        self, request: Request, operations: Operations, left: Tables, right: Tables, all_pairs: bool
    ) -> None:
        self.request, self.operations, self.tables = request, operations, (left, right)
        self.xp, self.all_pairs = array_module(left.rows), all_pairs
        self.axes, self.T = left.rows.shape[2:], left.rows.dtype.type
        self.n_axes, self.right_rows = len(self.axes), right.rows
        if request.pool:
            widths = zip(widths_of(request.pool, self.axes), self.axes, strict=True)
            self.offsets = [offsets(*axis) for axis in widths]
            self.right_rows = self.around(right.rows)
        self.parts, self.with_ntk = request.network.carried_parts, "ntk" in request.kinds
        self.weights = rounded_weights(operations, self.T.__name__)
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

    def mean(self, values: Array, window: Window) -> Array:
        """Return the means over the taps of a window, which moves both pixels."""
        check_stop()
        # Left pixels, and right ones; or offsets, and left pixels.
        first, second = 1, 1 + self.n_axes
        if self.request.pool:
            return window_mean(values, window, second)
        return window_mean(values, window, *((first, second) if self.all_pairs else (first,)))

    def at_depth(self, kernels: list[Array], input_factor: float) -> dict[str, Array]:
        """Return the kernels with their head; they lack F⁰, which has the factor `input_factor`."""
        parts, (F, *tangent) = self.request.network.parts, kernels
        of_kinds = {"gpk": (F, input_factor)}
        for A in tangent:
            if parts.readout != self.parts.readout:  # A is T
                A = A + F
            of_kinds["ntk"] = A, input_factor * parts.initial
        return {kind: self.head(*of_kinds[kind]) for kind in self.request.kinds}

    def head(self, kernel: Array, of_linear: float) -> Array:
        """Return a kernel with its head, (pairs, …), to which `of_linear` times F⁰ is added."""
        check_stop()
        request, n, d = self.request, len(kernel), math.prod(self.axes)
        of_means = request.head == "gap" or request.pool
        if not of_means:
            kernel = kernel + of_linear * self.linear
        if request.head == "pixels":
            return kernel.reshape(n, d, d)
        if request.head == "equivariant":
            return kernel.reshape(n, -1)[:, 0]
        if request.pool:
            weights = self.xp.asarray(pool_weights(request.pool, self.axes))[:, None]
            at_pixels = (weights * kernel.reshape(n, -1, d)).sum(axis=1)
        elif request.head in ("trace", "gap"):
            at_pixels = kernel.reshape(n, d, -1).mean(axis=2, dtype=np.float64)
        else:
            raise NotImplementedError(f"arrays have no head {request.head!r}")
        if not request.shares:
            at_pixels = at_pixels.mean(axis=1, keepdims=True)
        if of_means:  # F⁰ averages to products of means, which may be 0
            terms = (linear_terms(self.operations, request, side.input) for side in self.tables)
            (left, _), (_, right) = terms
            linear = (left * right).sum(axis=1)
            if not request.shares:
                linear = linear.mean(axis=1, keepdims=True)
            at_pixels = at_pixels + of_linear * linear
        return at_pixels / d if request.shares else at_pixels[:, 0]

    def at_depths(self) -> Iterator[dict[str, Array]]:
        """Yield the kernels with their head at each depth asked for."""
        state, self.linear = self.enter()
        kernels, input_factor = [self.xp.zeros_like(self.linear)] * (1 + self.with_ntk), 1.0
        for layer, of_layer in enumerate(self.operations.layers, start=1):
            state, kernels = self.layer(of_layer, state, kernels, input_factor)
            input_factor *= self.operations.constants.of_layer(layer).feature_factor
            if layer in self.request.depths:
                yield self.at_depth(kernels, input_factor)

    def enter(self) -> tuple[list[Array], Array]:
        """Return the deficits of the input, U and U⁺, and F⁰."""
        units = [self.sides(row) for row in range(self.operations.n_channels)]
        a, b = self.sides(self.operations.n_channels)
        deficits = [
            a * b * (self.T(0.5) * summed([*until_stopped((u + sign * v) ** 2 for u, v in units)]))
            for sign in (-1, 1)
        ]
        for operation in self.operations.input:
            deficits = self.merged(operation, [[self.mean(u, operation.window)] for u in deficits])
            a, b = self.sides(operation.row)
        check_stop()
        U, opposite = deficits
        return deficits, self.xp.where(U < opposite, a * b - U, opposite - a * b)

    def merged(self, operation: Operation, parts_of_each: list[list[Any]]) -> list[Array]:
        """Return merged deficits, of the parts of each."""
        coordinates = [self.sides(row) for row in operation.coordinates]
        c, d = self.sides(operation.factor)
        N = c * d * summed([*until_stopped((u - v) ** 2 for u, v in coordinates)])
        return [reduce(add, parts) + N for parts in until_stopped(parts_of_each)]

    def norm(self, operation: Operation, state: list[Array]) -> tuple[list[Array], Array]:
        left, right = self.sides(operation.factor)
        factor = left * right
        return [factor * u for u in state], factor

    def activate(
        self, operation: Operation, deficits: list[Array], tangent: list[Array]
    ) -> tuple[list[Array], list[Array]]:
        """Return the branch's deficits, and K and M, of pre-activations with deficits and A.

        They are computed piece by piece: dozens of arrays of a piece fit in the cache, and a task
        ends between pieces.
        """
        sides = [*self.sides(operation.root), *self.sides(operation.row)]
        shape, most = deficits[0].shape, _PIECE * (1 if self.xp is np else 64)
        if math.prod(shape) <= most:
            return self.activated(operation, sides, deficits, tangent)
        n_deficits = 1 + self.operations.constants.has_opposite
        wholes = [self.xp.empty_like(deficits[0]) for _ in range(n_deficits + 1 + len(tangent))]
        for piece in until_stopped(pieces(shape, most)):
            parts = ([_part(x, piece) for x in arrays] for arrays in (sides, deficits, tangent))
            state, kernels = self.activated(operation, *parts)
            for result, part in zip(wholes, state + kernels, strict=True):
                result[piece] = part
        return wholes[:n_deficits], wholes[n_deficits:]

    def activated(
        self, operation: Operation, sides: list[Array], deficits: list[Array], tangent: list[Array]
    ) -> tuple[list[Array], list[Array]]:
        """Return what `activate` returns, at once; `sides` are the roots and their inverses."""
        xp, T, constants = self.xp, self.T, self.operations.constants.of_layer(operation.layer)
        a, b, *inverse = sides
        g = a * b
        w, *opposite = (xp.minimum(u * (inverse[0] * inverse[1]), T(2.0)) for u in deficits)
        v = opposite[0] if opposite else T(2.0) - w
        if not operation.has_root:
            K, branch, times_slope = self.activation.dual(Gaussians(w, v, g, (a * a, b * b)))
        else:
            c_w, scale = constants.layer.c_w, constants.branch_scale
            variances = c_w * a * a, c_w * b * b
            K, branch, times_slope = self.activation.dual(Gaussians(w, v, c_w * g, variances))
            K, branch = scale * K, (scale * branch[0], scale * branch[1])
        deficits = [*branch[: 1 + self.operations.constants.has_opposite]]
        if not tangent:
            return deficits, [K]
        A_g = tangent[0]
        if c := self.parts.inner_minus_readout:
            A_g = A_g + T(c) * (g * xp.where(w < v, T(1.0) - w, v - T(1.0)))
        M = times_slope(A_g)
        if operation.has_root:
            M = (constants.layer.c_w * scale) * M
        return deficits, [K, M + T(self.parts.outer_plus_readout) * K]

    def window(self, operation: Operation, state: list[Array]) -> list[Array]:
        return self.merged(operation, [[self.mean(u, operation.window)] for u in state])

    def bias(self, operation: Operation, state: list[Array]) -> tuple[list[Array], Array]:
        """Return merged deficits, and the product of both sides' biases, (pairs, 1, …)."""
        root = self.operations.constants.bias(operation.layer, operation.is_branch)
        left, right = (root * side.input.bias for side in self.tables)
        product = column((left * right).astype(self.T), self.sides(operation.row)[0])
        both = (0.0, 2.0 * product)  # U and U⁺ of equal biases
        parts = [[u, of_bias] for u, of_bias in zip(state, both, strict=False)]
        return self.merged(operation, parts), product

    def skip(
        self, operation: Operation, features: list[Array], branch: list[Array]
    ) -> tuple[list[Array], tuple[float, float]]:
        weights = self.weights[operation.row]
        pairs = zip(features, branch, strict=False)
        return self.merged(operation, [[past_skip(*pair, *weights)] for pair in pairs]), weights


def _part(values: Array, piece: tuple[slice, ...]) -> Array:
    """Return a piece of an array, whose axes of one number stay whole: they broadcast."""
    places = zip(piece, values.shape, strict=False)
    return values[tuple(place if size > 1 else slice(None) for place, size in places)]
