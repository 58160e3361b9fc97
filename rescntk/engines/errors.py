"""The condition of deep erf kernels: how far rounding errors grow on their way through the layers.

Where the ordered state, correlation 1, is unstable, nearly equal signals separate exponentially
with depth, and their rounding errors with them (docs/theory/erf.md). An error e of the distance D
moves through a layer as D itself does, to first order: D_K changes by K̇ ⊙ e. For each pixel pair
the recursion below therefore carries, in rounding units,

    e ← e + box(K̇ ⊙ box(e)) + c √(near · (D + D⁺)),      near = min(D, D⁺)
    e_A ← e_A + box(K̇ ⊙ (box(e_A) + |i − r| box(e) + (4|Σ|/Δ) box(e) |A_g|) + (o + r) K̇ ⊙ box(e)).

The last term of the first line is the change of D under a relative change of the features by
c units (`_ROUNDING`). It is 0 for equal and for opposite features, which stay exact. The factor
4|Σ|/Δ is the derivative of log K̇ with respect to Σ. A kernel whose e exceeds half of the digits of
√(K(x,x) K(z,z)) is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from ..activations import DualInput, DualResult, activation_of
from ..arrays import Array, array_module
from ..validation import KINDS
from .geometry import Rows
from .protocol import Request
from .recursion import Recursion, Side
from .scaling import Scaling
from .signal_tables import SignalTables

_ROUNDING = 0.25
"""The relative change of the features, in units eps, that a layer's roundings amount to.

A larger number estimates larger errors and refuses more kernels; a smaller one may estimate less
than the errors are. Measured against 200-digit arithmetic on signals that differ by 1e-3 and
1e-6, one and three pixels, depths 50 and 200, with and without skip connections: errors are
0.02 to 0.6 of their estimates.
"""

_WORDS = {"gpk": "Gaussian process", "ntk": "tangent"}


def largest_error(dtype: np.dtype) -> float:
    """Return the error, as a share of √(K(x,x) K(z,z)), above which kernels are refused: √eps.

    A larger number lets through kernels with less than half of the digits; a smaller one refuses
    kernels that have more than half of them. Chosen by reasoning.
    """
    return math.sqrt(float(np.finfo(dtype).eps))


def may_be_unresolved(scaling: Scaling, left: SignalTables, right: SignalTables) -> bool:
    """Return True if errors could grow above `largest_error` for some pair of signals.

    No pixel pair amplifies errors more than the geometric mean of its two signals' own
    amplifications: K̇(x, z)² ≤ K̇(x, x) K̇(z, z) at each pixel pair.
    """
    if not scaling.activation.odd:
        return False
    largest = math.sqrt(float(left.amplification.max()) * float(right.amplification.max()))
    eps = float(np.finfo(scaling.dtype).eps)
    return eps * (scaling.depth + 1) * largest > largest_error(scaling.dtype)


def may_cancel(request: Request) -> bool:
    """Return True if GAP's mean over pixel pairs may cancel, because the activation is odd."""
    return request.head == "gap" and activation_of(request.network).odd


def check_pooled(values: Mapping[str, Array], bounds: Array, depths: tuple[int, ...]) -> None:
    """Raise a ValueError if GAP kernels K(x, x) are too small a share of those at pixel pairs.

    The mean over pixel pairs has the error eps times the bound on its terms (docs/theory/erf.md).
    `values` are K(x, x) of each kind, (depth, 1, case); `bounds` are `SignalTables.bounds`.
    """
    for kind, own in values.items():
        xp, least = array_module(own), largest_error(own.dtype)
        for t, depth in enumerate(depths):
            largest = bounds[KINDS.index(kind), t] ** 2
            shares = xp.where(largest > 0, own[t, 0] / xp.where(largest > 0, largest, 1.0), 1.0)
            share = float(shares.min())
            if not share >= least:
                raise ValueError(
                    f"the {_WORDS[kind]} kernel of a signal with itself, of head 'gap' at depth "
                    f"{depth}, is {max(share, 0.0):.1g} of its terms at pixel pairs, expected at "
                    f"least {least:.1g}: erf is odd, and the terms of this signal cancel in "
                    f"rounding errors. Remedies: head='trace', activation='relu', larger signals "
                    f"or signals whose mean is not zero"
                )


class ErrorSums:
    """The estimated errors of a tile's kernels, as the head takes them of pixel pairs.

    `pixel_pairs`, (right cases,), is the number of pixel pairs over which the head averages.
    """

    def __init__(self, scaling: Scaling, pixel_pairs: Array) -> None:
        self._scaling, self._pixel_pairs = scaling, pixel_pairs
        self._sums: dict[tuple[str, int], Array] = {}

    def add(self, kind: str, depth: int, error: Array, rows: Rows) -> None:
        """Add the errors of a kernel at pixel pairs, (j, left case, row, 1)."""
        head, before = self._scaling.request_head, self._sums.get((kind, depth), 0.0)
        if head == "pixels":
            largest = rows.total(error.max(axis=0), "maximum")
            self._sums[kind, depth] = array_module(error).maximum(largest, before)
        else:
            over_pixels = error[0] if head == "equivariant" else error.sum(axis=0)
            self._sums[kind, depth] = before + rows.total(over_pixels) / self._pixel_pairs

    def check(self, left: Side, right: Side) -> None:
        """Raise a ValueError if a kernel has lost more than half of its digits."""
        dtype, depths = self._scaling.dtype, self._scaling.depths
        for (kind, depth), total in self._sums.items():
            xp, place = array_module(total), (KINDS.index(kind), depths.index(depth))
            size = left.cases(left.tables.sizes[place]) * right.cases(right.tables.sizes[place])
            error = total / xp.where(size > 0, size, 1.0)
            worst = float(error.max()) * float(np.finfo(dtype).eps)
            if not worst <= largest_error(dtype):
                raise ValueError(
                    f"the {_WORDS[kind]} kernel at depth {depth} is not resolved in {dtype.name}: "
                    f"rounding errors grow to {min(worst, 1.0):.1g} of √(K(x,x) K(z,z)), expected "
                    f"at most {largest_error(dtype):.1g}. Nearly equal (or opposite) signals "
                    f"separate exponentially with depth in this network; remedies: fewer "
                    f"layers, smaller alpha, c_v or c_w, or signals that differ by more or not "
                    f"at all"
                )


class ErrorRecursion(Recursion):
    """The recursion of an odd activation with estimates of its errors, which go to `sums`.

    `error` and `tangent_error` are e and e_A after the last layer, in rounding units.
    """

    error: Array
    tangent_error: Array

    def __init__(self, *arguments: Any, sums: ErrorSums) -> None:
        super().__init__(*arguments)
        self._sums, self._eps = sums, float(np.finfo(self.scaling.dtype).eps)

    def _enter(self, w: Array, v: Array) -> None:
        """Set e and e_A of the input besides F, D, D⁺ and A."""
        super()._enter(w, v)
        xp = self.xp
        equal, negated = (xp.ones(self.distance.shape, dtype=bool) for _ in range(2))
        for one, other in zip(self.left.tables.vectors, self.right.tables.vectors, strict=True):
            one, other = self.left.axes(one), self.right.axes(other)
            equal &= one == other
            negated &= one == -other
        # Rounded, vectors that differ may have become equal: D is then unknown up to eps² q.
        least = self._eps**2 * (self.distance + self.opposite)
        distance = xp.maximum(self.distance, xp.where(equal, 0.0, least))
        opposite = xp.maximum(self.opposite, xp.where(negated, 0.0, least))
        self.error = _change(xp, distance, opposite)
        self.tangent_error = self.network.parts.initial * self.error

    def _add_branch(
        self, layer: int, pair: DualInput, branch: DualResult, tangent_g: Array | None
    ) -> None:
        """Carry e and e_A past the layer too, and give `sums` both at the depths asked for."""
        inner, parts = self.scaling.inner_filter(layer), self.network.parts
        entering = self._box(self.error, inner)
        K_dot = branch.times_slope(1.0)
        moved = K_dot * entering
        if tangent_g is not None:
            unit, scale = self.scaling.unit(layer), self._tangent_scale(layer - 1)
            # 4/Δ, from K̇ = (4/π)/√Δ.
            root = K_dot * (math.pi / (2.0 * self.scaling.factor(layer) * unit))
            per_error = (unit * unit * abs(pair.covariance)) * (root * root)
            error = self._box(self.tangent_error, inner)
            error = error + (abs(parts.inner_minus_readout) * scale) * entering
            error = error + per_error * entering * self.xp.abs(tangent_g)
            error = error * K_dot + (parts.outer_plus_readout * scale) * moved
            self.tangent_error = self._add_tangent(self.tangent_error, error, layer)
        self.error = self._add(self.error, moved, layer)
        super()._add_branch(layer, pair, branch, tangent_g)
        if layer in self.request.depths:
            for kind in self.request.kinds:
                error = self.error if kind == "gpk" else self.tangent_error
                self._sums.add(kind, layer, error, self.rows)
        if layer < self.request.depths[-1]:
            most = (self.distance + self.opposite) / self._eps
            change = _change(self.xp, self.distance, self.opposite)
            self.error = self.xp.minimum(self.error + change, most)


def _change(xp: ModuleType, distance: Array, opposite: Array) -> Array:
    """Return c √(min(D, D⁺) (D + D⁺)), the change of D by a layer's roundings, in units eps."""
    change = xp.sqrt(xp.minimum(distance, opposite)) * xp.sqrt(distance + opposite)
    return _ROUNDING * change
