"""The recursion on arrays of pixel pairs: deficits of ReLU networks, covariances of erf networks.

Each pixel pair (j, j') of two signals carries, with g = a b the product of both pixels' roots, ::

    U = g (1 − ρ),  U⁺ = g (1 + ρ)      deficits, sums of positive terms (windows.py)
    F, A = T + r F                      the two kernels, without the part of the input F⁰

One layer, with w = 1 − ρ = U / g and v = 1 + ρ, is ::

    U, U⁺, A ← windows of the inner filter                                  "window", "bias"
    A_g = A + (i − r) Σ,  K = g κ₁,  M = κ₀ A_g + (o + r) K                 "activation"
    U, U⁺ = g (1 − κ₁), g (1 + κ₁)
    U, U⁺, K, M ← windows of the outer filter                               "window", "bias"
    U, U⁺ ← merged with those of the features; F, A ← keep F + share K, …   "skip"

docs/theory/recursion.md derives it. A window moves both pixels of a pair together: on arrays
(pairs, *pixels, *pixels') it rolls both axes; on the pairs (j, j) alone, (pairs, *pixels), one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ...activations import DualInput, DualResult, Pixels, activation_of, kappas
from ...arrays import Array, array_module
from ..request import Request
from ..tables import Input, Tables, column, exact_means, past_skip, summed, window_mean
from ..windows import Operation, Operations, Window, rounded_weights
from ..work import check_stop

_LINEAR_BITS = 100
"""erf networks are linear on signals below 2^-100, where erf(u) is 2u/√π up to a relative error of
u²: these are multiplied by a power of two."""


_LARGEST = 1e153
"""Variances of erf networks, which are squared, stay below this number."""


class Pairs:
    """Pairs of signals of one network, from their tables, (pairs, rows, *pixels).

    `all_pairs` says whether all pixel pairs (j, j') are computed, or the pairs (j, j) alone.
    """

    def __init__(
        self, request: Request, operations: Operations, left: Tables, right: Tables, all_pairs: bool
    ) -> None:
        self.request, self.operations, self.tables = request, operations, (left, right)
        self.xp, self.all_pairs = array_module(left.rows), all_pairs
        self.n_axes, self.T = left.rows.ndim - 2, left.rows.dtype.type
        self.parts, self.with_ntk = request.network.parts, "ntk" in request.kinds
        self.weights = rounded_weights(operations, self.T.__name__)

    def sides(self, row: int) -> tuple[Array, Array]:
        """Return a row of both sides' tables; they broadcast to the pixel pairs."""
        left, right = (each.rows[:, row] for each in self.tables)
        if not self.all_pairs:
            return left, right
        ones = (None,) * self.n_axes
        return left[(..., *ones)], right[(slice(None), *ones)]

    def mean(self, values: Array, window: Window) -> Array:
        """Return the means over the taps of a window, which moves both pixels."""
        check_stop()
        return window_mean(values, window, *(1, 1 + self.n_axes)[: 1 + self.all_pairs])

    def at_depth(self, F: Array, A: Array, kept: float, linear: Array) -> dict[str, Array]:
        """Return both kernels with their head; they lack F⁰, `linear`, which has passed `kept`."""
        of_kinds = {"gpk": (F, kept), "ntk": (A, kept * self.parts.initial)}
        return {kind: self.head(*of_kinds[kind], linear) for kind in self.request.kinds}

    def head(self, kernel: Array, power: float, linear: Array) -> Array:
        """Return a kernel with its head, (pairs, …), to which `power` times F⁰ is added."""
        request, n = self.request, len(kernel)
        if request.head != "gap":
            kernel = kernel + self.T(power) * linear
        d = math.prod(kernel.shape[1 : 1 + self.n_axes])
        kernel = kernel.reshape(n, d, -1)
        if request.head == "pixels":
            return kernel
        if request.head == "equivariant":
            return kernel[:, 0, 0]
        at_pixels = kernel.mean(axis=2, dtype=np.float64)
        if request.head == "gap":  # F⁰ averages to a product of means, which may be 0
            left, means = (each.input.means for each in self.tables)
            left = left[..., None]
            if request.shares:
                left = self.tables[0].input.parts
                for operation in self.operations.input:
                    left = window_mean(left, operation.window, 2)
                left = left.reshape(*left.shape[:2], -1)
            at_pixels = at_pixels if request.shares else at_pixels.mean(axis=1)[:, None]
            at_pixels = at_pixels + power * (left * means[..., None]).sum(axis=1)
            return at_pixels / d if request.shares else at_pixels[:, 0]
        return at_pixels / d if request.shares else at_pixels.mean(axis=1)


class Deficits(Pairs):
    """The recursion of a ReLU or leaky ReLU network."""

    def at_depths(self) -> Iterator[dict[str, Array]]:
        """Yield the kernels with their head at each depth asked for."""
        T, operations, parts = self.T, self.operations, self.parts
        features, linear = self.enter()
        F = A = self.xp.zeros_like(linear)
        kept, alone = 1.0, (0.0, 1.0)
        for layer, of_layer in enumerate(operations.layers, start=1):
            deficits, weights = features, alone
            others = [A + T(parts.initial * kept) * linear] * self.with_ntk
            for operation in of_layer:
                if operation.kind == "activation":
                    deficits, others = self.activate(operation, deficits, others)
                elif operation.kind == "window":
                    window = operation.window
                    deficits = self.merged(operation, [[self.mean(u, window)] for u in deficits])
                    others = [self.mean(each, window) for each in others]
                elif operation.kind == "bias":
                    product = self.bias(operation)
                    both = (0.0, 2.0 * product)  # U and U⁺ of equal biases
                    deficits = self.merged(
                        operation, [*map(list, zip(deficits, both, strict=False))]
                    )
                    powers = (
                        (1.0, parts.outer_plus_readout) if operation.is_branch else (parts.readout,)
                    )
                    others = [x + T(c) * product for x, c in zip(others, powers, strict=False)]
                else:
                    weights = self.weights[operation.row]
                    pairs = zip(features, deficits, strict=False)
                    deficits = self.merged(
                        operation, [[past_skip(*pair, *weights)] for pair in pairs]
                    )
            features = deficits
            F, kept = past_skip(F, others[0], *weights), kept * operations.keep
            if self.with_ntk:
                A = past_skip(A, others[1], *weights)
            if layer in self.request.depths:
                yield self.at_depth(F, A, kept, linear)

    def enter(self) -> tuple[list[Array], Array]:
        """Return the deficits of the input, U and U⁺, and F⁰."""
        units = [self.sides(row) for row in range(self.operations.n_channels)]
        a, b = self.sides(self.operations.n_channels)
        deficits = [
            a * b * (self.T(0.5) * summed([(u + sign * v) ** 2 for u, v in units]))
            for sign in (-1, 1)
        ]
        for operation in self.operations.input:
            deficits = self.merged(operation, [[self.mean(u, operation.window)] for u in deficits])
            a, b = self.sides(operation.row)
        U, opposite = deficits
        return deficits, self.xp.where(U < opposite, a * b - U, opposite - a * b)

    def merged(self, operation: Operation, parts_of_each: list[list[Any]]) -> list[Array]:
        """Return merged deficits, of the parts of each."""
        coordinates = [
            self.sides(row) for row in range(operation.row + 2, operation.row + operation.n_rows)
        ]
        c, d = self.sides(operation.row + 1)
        N = c * d * summed([(u - v) ** 2 for u, v in coordinates])
        return [reduce(add, parts) + N for parts in parts_of_each]

    def activate(
        self, operation: Operation, deficits: list[Array], others: list[Array]
    ) -> tuple[list[Array], list[Array]]:
        """Return the branch's deficits, and K and M, of pre-activations with deficits and A."""
        xp, T, share = self.xp, self.T, self.operations.linear_share
        (a, b), inverse = self.sides(operation.root), self.sides(operation.row)
        g = a * b
        w, *opposite = (xp.minimum(u * (inverse[0] * inverse[1]), T(2.0)) for u in deficits)
        v = opposite[0] if opposite else T(2.0) - w
        near, (k0, less, more) = w < v, kappas(w, v, share)
        lost = xp.where(near, k0, T(1.0 - share) - k0)  # 1 − κ₀
        K, branch = g - g * less, [g * less, g * more][: 1 + self.operations.has_opposite]
        if not others:
            return branch, [K]
        A_g = others[0]
        if c := self.parts.inner_minus_readout:
            A_g = A_g + T(c) * (g * xp.where(near, T(1.0) - w, v - T(1.0)))
        return branch, [K, A_g - lost * A_g + T(self.parts.outer_plus_readout) * K]

    def bias(self, operation: Operation) -> Array:
        """Return the product of both sides' biases, (pairs, 1, …)."""
        root = self.operations.bias(operation.layer, operation.is_branch)
        left, right = (root * each.input.bias for each in self.tables)
        return column((left * right).astype(self.T), self.sides(operation.row)[0])


def variance_tables(operations: Operations, X: Array) -> Tables:
    """Return the tables of an erf network: the variances of the pre-activations of each layer.

    `X` are signals (n, channels, *pixels), which keep their sizes but for powers of two.
    """
    xp, net = array_module(X), operations.network
    X = xp.ascontiguousarray(X, np.float64)
    peak = xp.frexp(xp.abs(X).reshape(len(X), -1).max(axis=1))[1]
    growth = operations.depth * math.log2(1.0 + net.alpha**2 * net.c_v * net.c_w)
    scale = xp.ldexp(xp.ones(len(X)), xp.minimum(peak + _LINEAR_BITS + math.ceil(growth), 0))
    input_scale = 1.0 / X.shape[1] if net.input_scale is None else net.input_scale
    X, root = X / column(scale, X), math.sqrt(input_scale)
    parts = X * root
    given = Input(parts, parts, parts, exact_means(X) * root, scale, 0.0 * scale)
    with np.errstate(over="ignore"):
        energy = float((parts * parts).sum(axis=1).max())
    largest = net.c_w * (energy + operations.depth * net.alpha**2 * net.c_v)
    if not largest < _LARGEST:
        raise OverflowError(
            f"the signals are too large for float64: a network whose activation is not homogeneous "
            f"squares their variances, and these reach {largest:.3g}, expected less than {_LARGEST}"
        )
    request, empty = (
        Request(net, "trace", ("gpk",), (operations.depth,)),
        Tables(parts[:, :0], given),
    )
    pairs = Covariances(request, operations, empty, empty, False)
    rows = xp.stack(list(pairs.variances()), axis=1)
    last, enters = (each.reshape(len(X), -1).max(axis=1) for each in (rows[:, -1], parts * parts))
    if net.has_branch and not net.skip and bool(((enters > 0) & (last < 1.0 / _LARGEST)).any()):
        raise OverflowError(
            f"variances of layer {operations.depth} fall below {1.0 / _LARGEST:g}, expected a "
            f"smaller depth or larger c_v and c_w: float64 does not resolve kernels that small"
        )
    return Tables(rows, given)


class Covariances(Pairs):
    """The recursion of an erf network, in float64: F, T, and half squared distances.

    The covariance F alone loses the digits of nearly equal features, and layers of large α drive
    these apart. So D = (q1 + q2)/2 − F and D⁺ = (q1 + q2)/2 + F go through the layers beside it.
    """

    def variances(self) -> Iterator[Array]:
        """Yield the variances of the pre-activations of layers 1 … L, (n, *pixels)."""
        net, (features, _, _) = self.request.network, self.enter()
        for of_layer in self.operations.layers:
            q = self.window(features, of_layer, False) * net.c_w
            yield q
            K, _ = activation_of(net).diagonal(self.xp, q, 1.0, net.alpha**2 * net.c_v)
            features = net.skip * features + self.window(K, of_layer, True)

    def at_depths(self) -> Iterator[dict[str, Array]]:
        """Yield the kernels with their head at each depth asked for."""
        net, parts, (linear, *distances) = self.request.network, self.parts, self.enter()
        F, T = 0.0 * linear, parts.input * linear
        kept = 1.0
        for layer, of_layer in enumerate(self.operations.layers, start=1):
            before = [F + kept * linear, *distances]
            Sigma, *apart = (net.c_w * self.window(each, of_layer, False) for each in before)
            branch = self.dual(layer, Sigma, apart)
            if self.with_ntk:
                T_g = net.c_w * self.window(T, of_layer, False) + parts.inner * Sigma
                turned = branch.times_slope(T_g) + parts.outer * branch.K
                T = net.skip * T + self.window(turned, of_layer, True)
            F = net.skip * F + self.window(branch.K, of_layer, True)
            pairs = zip(distances, (branch.branch_distance, branch.opposite_distance), strict=True)
            distances = [net.skip * D + self.window(of, of_layer, True) for D, of in pairs]
            kept *= net.skip
            if layer in self.request.depths:
                A = T + parts.readout * F - kept * parts.input * linear
                yield self.at_depth(F, A, kept, linear)

    def enter(self) -> tuple[Array, ...]:
        """Return F⁰, D⁰ and D⁺⁰."""
        left, right = (each.input.parts for each in self.tables)
        if self.all_pairs:
            ones = (None,) * self.n_axes
            left, right = left[(..., *ones)], right[(slice(None), slice(None), *ones)]
        terms = left * right, 0.5 * (left - right) ** 2, 0.5 * (left + right) ** 2
        sums = [each.sum(axis=1) for each in terms]
        for operation in self.operations.input:
            sums = [self.mean(each, operation.window) for each in sums]
        return tuple(sums)

    def window(self, values: Array, of_layer: tuple[Operation, ...], is_branch: bool) -> Array:
        """Return means over the inner, or the outer filter of a layer."""
        for operation in of_layer:
            if operation.window is not None and operation.is_branch == is_branch:
                values = self.mean(values, operation.window)
        return values

    def dual(self, layer: int, Sigma: Array, distances: list[Array]) -> DualResult:
        """Return the dual activations of a layer, times α² c_v."""
        xp, net = self.xp, self.request.network
        activation = activation_of(net)
        left, right = (
            Pixels(xp.sqrt(0.5 * q), activation.extra(xp, q, 1.0)) for q in self.sides(layer - 1)
        )
        half_g, z = left.half_root * right.half_root, (left.half_root - right.half_root) ** 2
        safe = xp.where(half_g > 0, 2.0 * half_g, 1.0)
        w, v = (xp.clip((D - z) / safe, 0.0, 2.0) for D in distances)
        pair = DualInput(w, v, half_g, z, Sigma)
        return activation.dual(left, right, pair, unit=1.0, factor=net.alpha**2 * net.c_v)
