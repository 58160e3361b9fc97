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
from collections.abc import Iterable, Mapping
from types import ModuleType

import numpy as np

from ..activations import DualInput, DualResult, activation_of
from ..arrays import Array, array_module
from .geometry import Rows
from .layer import add, correlate
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
    if left.amplification is None or right.amplification is None:
        return False
    largest = math.sqrt(float(left.amplification.max()) * float(right.amplification.max()))
    eps = float(np.finfo(scaling.dtype).eps)
    return eps * (scaling.depth + 1) * largest > largest_error(scaling.dtype)


def may_cancel(request: Request) -> bool:
    """Return True if GAP's mean over pixel pairs may cancel, because the activation is odd."""
    return request.head == "gap" and not activation_of(request.network).homogeneous


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
    pixel_pairs : array (right cases,)
        The number of pixel pairs of a left with a right case, over which the head averages.
    """

    def __init__(self, scaling: Scaling, pixel_pairs: Array) -> None:
        self._scaling, self._pixel_pairs = scaling, pixel_pairs
        self._sums: dict[tuple[str, int], Array] = {}

    def add(self, kind: str, depth: int, error: Array, rows: Rows) -> None:
        """Add the errors of a kernel at pixel pairs, (j, left case, row, 1)."""
        xp, head = array_module(error), self._scaling.request_head
        before = self._sums.get((kind, depth), 0.0)
        if head == "pixels":
            largest = rows.total(error.max(axis=0), "maximum")
            self._sums[kind, depth] = xp.maximum(largest, before)
            return
        if head == "equivariant":
            error = error[0].astype(np.float64)
        else:
            error = error.sum(axis=0, dtype=np.float64)
        self._sums[kind, depth] = before + rows.total(error) / self._pixel_pairs

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


class OddRecursion(Recursion):
    """The recursion on one tile for an odd activation (erf): F → −F is a symmetry.

    Besides F, D and A the recursion carries, like D, ::

        D⁺ = (q1 + q2)/2 + F    half the squared distance to the negated features
        v = 1 + ρ = (box(D⁺) − z) / g

    Attributes
    ----------
    opposite : array
        D⁺ after the last layer.
    """

    opposite: Array

    def __init__(
        self, request: Request, scaling: Scaling, left: Side, right: Side, rows: Rows
    ) -> None:
        super().__init__(request, scaling, left, right, rows)
        self._branches: Array | None = None  # F without the part of F⁰, where F is wanted too

    def _kernel(self, kind: str) -> Array:
        if kind == "gpk" and self._branches is not None:
            return self._branches
        return super()._kernel(kind)

    def _enter(self, w: Array, v: Array) -> None:
        """Set F, D, D⁺ and A of the input."""
        super()._enter(w, v)
        left, right = self.left.layers[0].half_root, self.right.layers[0].half_root
        self.opposite = (left - right) ** 2 + 2.0 * (left * right) * v

    def _set_linear_part_apart(self) -> None:
        """Keep F besides its branches: the activation depends on F itself."""
        features = self.features
        super()._set_linear_part_apart()
        self._branches, self.features = self.features, features

    def _input_pair(self, w: Array, v: Array) -> DualInput:
        features = self._box(self.features, self.network.inner_filter(1))
        return super()._input_pair(w, v)._replace(covariance=features)

    def _correlate(self, layer: int) -> DualInput:
        """Return the correlations of the pre-activations of layers 2, 3, …."""
        left, right = self.left.layers[layer], self.right.layers[layer]
        window, inverse = self.network.inner_filter(layer), left.inverse * right.inverse
        z = (left.half_root - right.half_root) ** 2
        w, v = (
            correlate(self._box(distance, window) - z, inverse)
            for distance in (self.distance, self.opposite)
        )
        features = self._box(self.features, window)
        return DualInput(w, v, left.half_root * right.half_root, z, features)

    def _add_tangent(self, layer: int, pair: DualInput, branch: DualResult) -> None:
        """Add box(K̇ ⊙ A_g + (o + r) K) to A, and take out the powers of two of its growth."""
        weight = self.network.parts.outer_plus_readout
        tangent = branch.K_dot * self._tangent_g(layer, pair)
        tangent = tangent + (weight * branch.K) * self._tangent_scale(layer - 1)
        self.tangent = self._add_and_rescale(self.tangent, tangent, layer)

    def _tangent_g(self, layer: int, pair: DualInput) -> Array:
        """Return A_g = (i − r) Σ + box(A)."""
        scale = self._tangent_scale(layer - 1)
        tangent = self._box(self.tangent, self.network.inner_filter(layer))
        if self._linear is not None:
            tangent = tangent + self._box_of_linear(self._linear, layer) * scale
        return tangent + (self.network.parts.inner_minus_readout * pair.covariance) * scale

    def _add_branch(self, layer: int, branch: DualResult) -> None:
        """Add box(D_K) to D and D⁺, and box(K) to F."""
        if layer < self.request.depths[-1]:
            self.distance = self._add(self.distance, branch.branch_distance, layer)
            self.opposite = self._add(
                self.opposite, self.xp.asarray(branch.opposite_distance), layer
            )
        box = self._box(branch.K, self.network.outer_filter(layer))
        skip_scale = self.constants[layer].skip_scale
        self.features = add(self.features, box, skip_scale)
        if self._branches is not None:
            self._branches = add(self._branches, box, skip_scale)

    def _add_and_rescale(self, state: Array, branch: Array, layer: int) -> Array:
        """Return A after a layer, divided by the powers of two that A has grown by."""
        return self._add(state, branch, layer) * self._tangent_scale(layer, layer - 1)

    def _tangent_scale(self, layer: int, since: int = 0) -> Array:
        """Return the power of two by which A is multiplied after a layer, over that `since`."""
        sides = self.left.tangent_exponents, self.right.tangent_exponents
        return tangent_scale(self.xp, sides, layer, since).astype(self.scaling.dtype)


def tangent_scale(
    xp: ModuleType, sides: Iterable[list[Array] | None], layer: int, since: int = 0
) -> Array:
    """Return the power of two by which A is multiplied after a layer, over the layer `since`.

    `sides` has the `tangent_exponents` of the left and of the right side.
    """
    exponents = xp.zeros((1, 1), dtype=np.int64)
    for side in sides:
        if side is not None:
            exponents = exponents + side[since] - side[layer]
    return xp.ldexp(xp.ones(1), exponents)


class ErrorRecursion(OddRecursion):
    """The recursion of an odd activation with estimates of its errors.

    Attributes
    ----------
    error, tangent_error : array
        e and e_A after the last layer, in rounding units.
    """

    error: Array
    tangent_error: Array

    def __init__(
        self,
        request: Request,
        scaling: Scaling,
        left: Side,
        right: Side,
        sums: ErrorSums,
        rows: Rows,
    ) -> None:
        super().__init__(request, scaling, left, right, rows)
        self._sums, self._eps = sums, float(np.finfo(scaling.dtype).eps)

    def _enter(self, w: Array, v: Array) -> None:
        """Set e and e_A of the input besides F, D, D⁺ and A."""
        super()._enter(w, v)
        # Rounded, vectors that differ may have become equal: D is then unknown up to eps² q.
        least = self._eps**2 * (self.distance + self.opposite)
        distance, opposite = (
            self.xp.maximum(distance, self.xp.where(tied, 0.0, least))
            for distance, tied in zip((self.distance, self.opposite), self._ties(), strict=True)
        )
        self.error = _change(self.xp, distance, opposite)
        self.tangent_error = self.network.parts.initial * self.error

    def _ties(self) -> tuple[Array, Array]:
        """Return where the vectors of two pixels are equal, and where they are opposite."""
        equal, opposite = (self.xp.ones(self.distance.shape, dtype=bool) for _ in range(2))
        vectors = (side.vectors or () for side in (self.left, self.right))
        for left, right in zip(*vectors, strict=True):
            equal &= left == right
            opposite &= left == -right
        return equal, opposite

    def _activate(self, layer: int, pair: DualInput) -> DualResult:
        """Return the dual activations, and carry e and e_A past the layer."""
        branch = super()._activate(layer, pair)
        inner = self.network.inner_filter(layer)
        entering = self._box(self.error, inner)
        moved = branch.K_dot * entering
        if self.want_ntk:
            unit, parts, scale = (
                self.scaling.unit(layer), self.network.parts, self._tangent_scale(layer - 1)
            )  # fmt: skip
            # 4/Δ, from K̇ = (4/π)/√Δ.
            root = branch.K_dot * (math.pi / (2.0 * self.scaling.factor(layer) * unit))
            per_error = (unit * unit * abs(pair.covariance)) * (root * root)
            error = self._box(self.tangent_error, inner)
            error = error + (abs(parts.inner_minus_readout) * scale) * entering
            error = error + per_error * entering * self.xp.abs(self._tangent_g(layer, pair))
            error = error * branch.K_dot + (parts.outer_plus_readout * scale) * moved
            self.tangent_error = self._add_and_rescale(self.tangent_error, error, layer)
        self.error = self._add(self.error, moved, layer)
        return branch

    def _add_branch(self, layer: int, branch: DualResult) -> None:
        """Add the residual branch to all states, and the errors of a depth asked for to `sums`."""
        super()._add_branch(layer, branch)
        if layer in self.request.depths:
            errors = {"gpk": self.error, "ntk": self.tangent_error}
            for kind in self.request.kinds:
                self._sums.add(kind, layer, errors[kind], self.rows)
        if layer < self.request.depths[-1]:
            most = (self.distance + self.opposite) / self._eps
            change = _change(self.xp, self.distance, self.opposite)
            self.error = self.xp.minimum(self.error + change, most)


def _change(xp: ModuleType, distance: Array, opposite: Array) -> Array:
    """Return c √(min(D, D⁺) (D + D⁺)), the change of D by a layer's roundings, in units eps."""
    change = xp.sqrt(xp.minimum(distance, opposite)) * xp.sqrt(distance + opposite)
    return _ROUNDING * change
