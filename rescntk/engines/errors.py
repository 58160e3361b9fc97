"""The condition of deep erf kernels: how far rounding errors grow on their way through the layers.

Where the ordered state, correlation 1, is unstable, nearly equal signals separate exponentially
with depth, and their rounding errors with them (docs/theory/erf.md). An error e of the distance D
moves through a layer as D itself does, to first order: D_K changes by K̇ ⊙ e. For each pixel pair
the recursion below therefore carries, in rounding units,

    e ← e + box(K̇ ⊙ box(e)) + c √(near · (D + D⁺)),      near = min(D, D⁺)
    e_A ← e_A + box(K̇ ⊙ (box(e_A) + |i − r| box(e) + (4|Σ|/Δ) box(e) |A_g|) + (o + r) K̇ ⊙ box(e)).

The last term of the first line is the change of D under a relative change of the features by
c units (`_ROUNDING`): 0 for equal and for opposite features, which therefore stay exact. The factor
4|Σ|/Δ is the derivative of log K̇ with respect to Σ. A kernel whose e exceeds half of the digits of
√(K(x,x) K(z,z)) is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import ModuleType

import numpy as np

from ..activations import BY_NAME, DualInput, DualResult
from ..arrays import Array, array_module
from .geometry import OFFSETS, RowAxis
from .protocol import Request
from .recursion import Buffers, Recursion, Side
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
    if left.amplification is None or right.amplification is None:
        return False
    largest = math.sqrt(float(left.amplification.max()) * float(right.amplification.max()))
    eps = float(np.finfo(scaling.dtype).eps)
    return eps * (scaling.depth + 1) * largest > largest_error(scaling.dtype)


def may_cancel(request: Request) -> bool:
    """Return True if GAP's mean over pixel pairs may cancel, because the activation is odd."""
    return request.head == "gap" and not BY_NAME[request.network.activation].homogeneous


def check_pooled(
    values: Mapping[str, Array],
    bounds: Mapping[tuple[str, int], Array | float],
    depths: tuple[int, ...],
) -> None:
    """Raise a ValueError if GAP kernels K(x, x) are too small a share of those at pixel pairs.

    The mean over pixel pairs has the error eps times the bound on its terms (docs/theory/erf.md).

    Parameters
    ----------
    values : mapping of kinds to arrays (depth, 1, case)
        K(x, x) of the head GAP.
    bounds : mapping
        `SignalTables.bounds` of the same cases.
    depths : tuple of int
    """
    for kind, own in values.items():
        for t, depth in enumerate(depths):
            largest = bounds[kind, depth] ** 2
            xp = array_module(own)
            share = xp.where(largest > 0, own[t, 0] / xp.where(largest > 0, largest, 1.0), 1.0)
            least, expected = float(share.min()), largest_error(own.dtype)
            if not least >= expected:
                raise ValueError(
                    f"the {_WORDS[kind]} kernel of a signal with itself, of head 'gap' at depth "
                    f"{depth}, is {max(least, 0.0):.1g} of its terms at pixel pairs, expected at "
                    f"least {expected:.1g}: erf is odd, and the terms of this signal cancel in "
                    f"rounding errors. Remedies: head='trace', activation='relu', larger signals "
                    f"or signals whose mean is not zero"
                )


class ErrorSums:
    """Sums over pixels and offsets of the estimated errors of a tile's kernels.

    Parameters
    ----------
    scaling : Scaling
        The constants of the layers.
    pixel_pairs : int or array (right cases,)
        The number of pixel pairs of a left with a right case.
    """

    def __init__(self, scaling: Scaling, pixel_pairs: Array | int) -> None:
        self._scaling, self._pixel_pairs = scaling, pixel_pairs
        self._sums: dict[tuple[str, int], Array] = {}

    def add(self, kind: str, depth: int, error: Array, rows: RowAxis) -> None:
        """Add the errors of a kernel at pixel pairs, (j, left case, δ, right case)."""
        head = self._scaling.request_head
        if head == "equivariant":
            self._sums[kind, depth] = error[0, :, 0].astype(np.float64)
        elif head == "pixels":
            largest = error.max(axis=(0, 2)).astype(np.float64)
            self._sums[kind, depth] = array_module(error).maximum(
                largest, self._sums.get((kind, depth), 0.0)
            )
        else:
            total = rows.total(error.sum(axis=0, dtype=np.float64))
            before = self._sums.get((kind, depth), 0.0)
            self._sums[kind, depth] = before + total / self._pixel_pairs

    def check(self, left: SignalTables, right: SignalTables, paired: bool) -> None:
        """Raise a ValueError if a kernel has lost more than half of its digits."""
        dtype = self._scaling.dtype
        for (kind, depth), total in self._sums.items():
            xp = array_module(total)
            own, other = left.sizes[kind, depth], right.sizes[kind, depth]
            size = (own if paired else own[:, None]) * other
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
    """The way of one tile through the layers of an erf network, with estimates of its errors.

    Attributes
    ----------
    error, tangent_error : array
        e and e_A after the last layer, in rounding units.
    """

    def __init__(
        self,
        request: Request,
        scaling: Scaling,
        buffers: Buffers,
        left: Side,
        right: Side,
        sums: ErrorSums,
        rows: RowAxis = OFFSETS,
    ) -> None:
        super().__init__(request, scaling, buffers, left, right, rows)
        self.want_slope = True
        self._sums = sums
        self._error_ring, self.error = self._ring("error")
        self._moved_ring, self._moved = self._ring("moved error")
        self._tangent_error_ring, self.tangent_error = self._ring("tangent error")
        self._moved_tangent_ring, self._moved_tangent = self._ring("moved tangent error")

    def _enter(self) -> None:
        """Set e and e_A of the input besides F, D, D⁺ and A."""
        super()._enter()
        left, right = self.left.layers[0].half_root, self.right.layers[0].half_root
        difference, g = left - right, 2.0 * left * right
        z = difference * difference
        distance, opposite = z + g * self._w, z + g * self._v
        # Rounded, vectors that differ may have become equal: D is then unknown up to eps² q.
        least = float(np.finfo(self._w.dtype).eps) ** 2 * (distance + opposite)
        for array, tied in zip((distance, opposite), self._ties(), strict=True):
            self.xp.maximum(array, self.xp.where(tied, 0.0, least), out=array)
        self.error[...] = _change(self.xp, distance, opposite)
        if self.want_ntk:
            self.xp.multiply(self.error, self.network.parts.initial, out=self.tangent_error)

    def _ties(self) -> tuple[Array, Array]:
        """Return where the vectors of two pixels are equal, and where they are opposite."""
        xp = self.xp
        equal, opposite = xp.ones(self.shape, dtype=bool), xp.ones(self.shape, dtype=bool)
        assert self.left.vectors is not None and self.right.vectors is not None
        for one, other in zip(self.left.vectors, self.right.vectors, strict=True):
            equal &= one == other
            opposite &= one == -other
        return equal, opposite

    def _tangent_g(self, layer: int, given: DualInput) -> Array:
        """Return A_g in memory of its own: boxes of errors follow."""
        return super()._tangent_g(layer, given).copy()

    def _activate(self, layer: int, given: DualInput) -> DualResult:
        """Return the dual activations, and keep |Σ|."""
        self._size = self.scaling.unit(layer) * self.xp.abs(given.covariance)
        return super()._activate(layer, given)

    def _add_branch(self, layer: int, dual: DualResult, tangent_g: Array | None) -> None:
        """Add the residual branch to all states, and the errors of a depth asked for to `sums`."""
        xp, parts = self.xp, self.network.parts
        unit = self.scaling.unit(layer)
        entering = self._box(self._error_ring, self.network.inner_filter(layer)).copy()
        K_dot = xp.asarray(dual.K_dot)
        xp.multiply(K_dot, entering, out=self._moved)
        if tangent_g is not None:
            # 4/Δ, from K̇ = (4/π)/√Δ.
            root = K_dot * (math.pi / (2.0 * self.scaling.factor(layer) * unit))
            per_error = (self._size * unit) * (root * root)
            scale, inner = self._tangent_scale(layer - 1), self.network.inner_filter(layer)
            error = self._box(self._tangent_error_ring, inner).copy()
            error += (abs(parts.inner_minus_readout) * scale) * entering
            error += per_error * entering * xp.abs(tangent_g)
            error *= K_dot
            error += (parts.outer_plus_readout * scale) * self._moved
            self._moved_tangent[...] = error
        super()._add_branch(layer, dual, tangent_g)
        self._add(self._moved_ring, layer, self.error)
        if tangent_g is not None:
            self._add_to_tangents(self._moved_tangent_ring, layer, self.tangent_error)
        if layer in self.request.depths:
            errors = {"gpk": self.error, "ntk": self.tangent_error}
            for kind in self.request.kinds:
                self._sums.add(kind, layer, errors[kind], self.rows)
        if layer < self.request.depths[-1]:
            most = (self.distance + self.opposite) / float(np.finfo(self._w.dtype).eps)
            self.error += _change(xp, self.distance, self.opposite)
            xp.minimum(self.error, most, out=self.error)


def _change(xp: ModuleType, distance: Array, opposite: Array) -> Array:
    """Return c √(min(D, D⁺) (D + D⁺)), the change of D by a layer's roundings, in units eps."""
    change = xp.sqrt(xp.minimum(distance, opposite)) * xp.sqrt(distance + opposite)
    return _ROUNDING * change
