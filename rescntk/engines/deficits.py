"""The recursion of deficits, for near-parallel windows of different amplitudes.

The distance form (recursion.py) takes w = 1 − ρ from D − z. The difference cancels where two
windows are nearly parallel and differ in amplitude: D is then the difference of amplitudes, and
z takes it away again. This form carries, for each pixel pair, the *deficit*

    u = √(q1 q2) − F ≥ 0,

and for each signal the root masses √q. Parts p with root masses a_p, b_p and deficits u_p (a
filter's taps; the identity path and the branch) merge into A² = Σ a_p², B² = Σ b_p² with the
deficit (Lagrange's identity; docs/theory/deficits.md)

    U = Σ u_p + N,   N = Σ_{p<r} (a_p b_r − a_r b_p)² / (A B + Σ a_p b_p).

All terms are positive, so that u and w = U/(A B) keep their relative accuracy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import NamedTuple, Protocol

import numpy as np

from ..activations import DualInput, DualResult
from ..arrays import Array
from ..network import Filter
from ..rings import circular_sum, shifted
from .geometry import OFFSETS, RowAxis
from .protocol import Request
from .recursion import Buffers, Recursion, Side
from .scaling import Scaling


class Merge(NamedTuple):
    """Root masses of two parts and of both together on one side of a tile, divided by √2.

    Arrays that broadcast to the tile's shape.
    """

    first: Array
    second: Array
    merged: Array


class Step(NamedTuple):
    """A merge within a window: `second` lies `shift` pixels after `first`.

    A window is grown from pieces of 1, 2, 4, 8, … pixels, as in `rings.moving_sum`. The step
    either doubles the piece, or appends the piece to the window (`appends`).
    """

    appends: bool
    shift: int
    masses: Merge


class Masses(Protocol):
    """The root masses of one side of a tile: `RootMasses`, or several joined."""

    def features(self, layer: int) -> Array: ...
    def skip(self, layer: int) -> Merge: ...
    def inner_window(self, layer: int) -> Iterator[Step]: ...
    def outer_window(self, layer: int) -> Iterator[Step]: ...


class RootMasses:
    """The root masses of the cases on one side of a tile, as far as merges need them.

    Parameters
    ----------
    scaling : Scaling
        The constants of the layers.
    variance : array, (d, cases), float64
        F⁰ at x = z, j = j' (`Input.variance`).
    show : callable
        Gives a table (d, cases) the axes of the tile.
    """

    def __init__(
        self, scaling: Scaling, xp: ModuleType, variance: Array, show: Callable[[Array], Array]
    ) -> None:
        self._scaling, self._xp, self._show = scaling, xp, show
        recursion = scaling.variances(xp, variance, with_tangent=False)
        self._layers = [(at.window, at.features) for at in recursion]

    def features(self, layer: int) -> Array:
        """Return the root masses of the features after a layer."""
        return self._root(self._layers[layer][1])

    def skip(self, layer: int) -> Merge:
        """Return the merge of the identity path with the branch, before and after a layer."""
        xp, scaling = self._xp, self._scaling
        identity = scaling.step(layer) * self._layers[layer - 1][1]
        branch = self._branch_pixels(layer)
        window = circular_sum(xp, branch, *scaling.network.outer_filter(layer))
        return self._merge(identity, window, self._layers[layer][1])

    def inner_window(self, layer: int) -> Iterator[Step]:
        """Yield the merges of the inner filter's window of features before a layer."""
        return self._steps(self._layers[layer - 1][1], self._scaling.network.inner_filter(layer))

    def outer_window(self, layer: int) -> Iterator[Step]:
        """Yield the merges of the outer filter's window of K of a layer."""
        return self._steps(self._branch_pixels(layer), self._scaling.network.outer_filter(layer))

    def _branch_pixels(self, layer: int) -> Array:
        """Return K at x = z, j = j' of a layer."""
        scaling, window = self._scaling, self._layers[layer][0]
        unit, factor = scaling.unit(layer), scaling.factor(layer)
        return scaling.activation.diagonal(self._xp, window, unit, factor)[0]

    def _steps(self, mass: Array, taps: Filter) -> Iterator[Step]:
        """Yield the merges of a filter's windows of the given masses (d, cases)."""
        xp, size, step = self._xp, *taps
        window, piece = mass, mass
        reached, width = 1, 1
        while 2 * width <= size:
            other = shifted(xp, piece, width * step)
            both = piece + other
            yield Step(False, width * step, self._merge(piece, other, both))
            piece, width = both, 2 * width
            if size & width:
                other = shifted(xp, piece, reached * step)
                both = window + other
                yield Step(True, reached * step, self._merge(window, other, both))
                window, reached = both, reached + width

    def _merge(self, first: Array, second: Array, merged: Array) -> Merge:
        return Merge(self._root(first), self._root(second), self._root(merged))

    def _root(self, mass: Array) -> Array:
        """Return √(mass/2) in the working precision, with the axes of the tile."""
        root = self._xp.sqrt(0.5 * mass)
        return self._show(self._xp.asarray(root, dtype=self._scaling.dtype))


class DeficitRecursion(Recursion):
    """The way of one tile through the layers of a ReLU network, in deficits.

    `distance` holds the deficit u in the place of D.
    """

    def __init__(
        self,
        request: Request,
        scaling: Scaling,
        buffers: Buffers,
        sides: tuple[Side, Side],
        masses: tuple[Masses, Masses],
        rows: RowAxis = OFFSETS,
    ) -> None:
        super().__init__(request, scaling, buffers, *sides, rows)
        self._masses = masses

    def _enter(self) -> None:
        """Set F, u = g w and A of the input, and w and v of its pixels."""
        super()._enter()
        left, right = (side.layers[0].half_root for side in (self.left, self.right))
        self.xp.multiply(2.0 * left * right, self._w, out=self.distance)

    def _correlate(self, layer: int) -> DualInput:
        """Return the correlations of the pre-activations, with z = 0: D_K is then u_K."""
        xp, w = self.xp, self._w
        left, right = self.left.layers[layer], self.right.layers[layer]
        half_g = xp.multiply(left.half_root, right.half_root, out=self._half_g)
        self._z[...] = 0.0
        if layer > 1:
            one, other = (masses.inner_window(layer) for masses in self._masses)
            deficit = self._merged(self.distance, one, other, self.network.inner_filter(layer))
            xp.multiply(deficit, left.inverse * right.inverse, out=w)
            xp.clip(w, 0.0, 2.0, out=w)
            xp.subtract(2.0, w, out=self._v)
        return DualInput(w, self._v, half_g, self._z)

    def _add_branch(self, layer: int, dual: DualResult, tangent_g: Array | None) -> None:
        """Add the residual branch to A and u, and set F where it is asked for."""
        xp, deficit = self.xp, self.distance
        if tangent_g is not None:
            self._add_tangent_branch(layer, dual, tangent_g)
        one, other = (masses.outer_window(layer) for masses in self._masses)
        outer = self.network.outer_filter(layer)
        branch = self._merged(dual.branch_distance, one, other, outer)
        if self.network.skip:
            left, right = (masses.skip(layer) for masses in self._masses)
            deficit *= self.scaling.step(layer)
            deficit += branch
            deficit += cross_term(xp, left, right)
        else:
            deficit[...] = branch
        if self.want_gpk and self.scaling.linear_apart:
            self._add_features_branch(layer)
        elif self.want_gpk and layer in self.request.depths:
            root1, root2 = (masses.features(layer) for masses in self._masses)
            xp.subtract(2.0 * root1 * root2, deficit, out=self.features)

    def _merged(
        self, deficits: Array, left_steps: Iterator[Step], right_steps: Iterator[Step], taps: Filter
    ) -> Array:
        """Return the deficits of a filter's windows centred at each pixel."""
        xp, seam = self.xp, self.rows.seam
        window, piece = deficits, deficits
        for left, right in zip(left_steps, right_steps, strict=True):
            first = window if left.appends else piece
            both = first + shifted(xp, piece, left.shift, seam)
            both += cross_term(xp, left.masses, right.masses)
            if left.appends:
                window = both
            else:
                piece = both
        return window if taps.size == 1 else shifted(xp, window, -taps.reach, seam)


def cross_term(xp: ModuleType, left: Merge, right: Merge) -> Array:
    """Return N = (a b' − a' b)² / (A B + a b + a' b'), the deficit that a merge adds."""
    difference = left.first * right.second - left.second * right.first
    total = left.merged * right.merged + (left.first * right.first + left.second * right.second)
    total += np.finfo(total.dtype).tiny  # where both parts are 0, N is 0
    difference *= 2.0 * difference  # roots are divided by √2, hence the 2
    difference /= total
    return difference
