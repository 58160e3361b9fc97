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
from .boxes import circular_sum, shifted
from .geometry import OFFSETS, RowAxis
from .layer import add, correlate
from .protocol import Request
from .recursion import Recursion, Side
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

    A window is grown from pieces of 1, 2, 4, 8, … pixels, as in `boxes.circular_sum`. The step
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
        scaling = self._scaling
        identity = scaling.step(layer) * self._layers[layer - 1][1]
        branch = self._branch_pixels(layer)
        window = circular_sum(branch, *scaling.network.outer_filter(layer))
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
        size, step = taps
        window, piece = mass, mass
        reached, width = 1, 1
        while 2 * width <= size:
            other = shifted(piece, width * step)
            both = piece + other
            yield Step(False, width * step, self._merge(piece, other, both))
            piece, width = both, 2 * width
            if size & width:
                other = shifted(piece, reached * step)
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
    """The recursion on one tile, for ReLU networks in deficits.

    `distance` holds the deficit u in the place of D.
    """

    def __init__(
        self,
        request: Request,
        scaling: Scaling,
        sides: tuple[Side, Side],
        masses: tuple[Masses, Masses],
        rows: RowAxis = OFFSETS,
    ) -> None:
        super().__init__(request, scaling, *sides, rows)
        self._masses = masses

    def _enter(self, w: Array, v: Array) -> None:
        """Set F, u = g w and A of the input."""
        super()._enter(w, v)
        left, right = (side.layers[0].half_root for side in (self.left, self.right))
        self.distance = 2.0 * left * right * w

    def _input_pair(self, w: Array, v: Array) -> DualInput:
        """Return the correlations of layer 1, with z = 0: D_K is then u_K."""
        return super()._input_pair(w, v)._replace(z=0.0)

    def _correlate(self, layer: int) -> DualInput:
        """Return the correlations of the pre-activations of layers 2, 3, …, with z = 0."""
        left, right = self.left.layers[layer], self.right.layers[layer]
        left_steps, right_steps = (masses.inner_window(layer) for masses in self._masses)
        window = self.network.inner_filter(layer)
        deficit = self._merged(self.distance, left_steps, right_steps, window)
        w = correlate(deficit, left.inverse * right.inverse)
        return DualInput(w, 2.0 - w, left.half_root * right.half_root, 0.0)

    def _add_branch(self, layer: int, branch: DualResult) -> None:
        """Add the residual branch to u, and set F where it is asked for."""
        left_steps, right_steps = (masses.outer_window(layer) for masses in self._masses)
        outer = self.network.outer_filter(layer)
        deficit = self._merged(branch.branch_distance, left_steps, right_steps, outer)
        if self.network.skip:
            left, right = (masses.skip(layer) for masses in self._masses)
            deficit = add(self.distance, deficit, self.constants[layer].skip_scale)
            deficit = deficit + cross_term(left, right)
        self.distance = deficit
        if self.want_gpk and self.scaling.linear_apart:
            self.features = self._add(self.features, branch.K, layer)
        elif self.want_gpk and layer in self.request.depths:
            left_root, right_root = (masses.features(layer) for masses in self._masses)
            self.features = 2.0 * left_root * right_root - deficit

    def _merged(
        self, deficits: Array, left_steps: Iterator[Step], right_steps: Iterator[Step], taps: Filter
    ) -> Array:
        """Return the deficits of a filter's windows centred at each pixel."""
        seam = self.rows.seam
        window, piece = deficits, deficits
        for left, right in zip(left_steps, right_steps, strict=True):
            first = window if left.appends else piece
            both = first + shifted(piece, left.shift, seam) + cross_term(left.masses, right.masses)
            if left.appends:
                window = both
            else:
                piece = both
        return window if taps.size == 1 else shifted(window, -taps.reach, seam)


def cross_term(left: Merge, right: Merge) -> Array:
    """Return N = (a b' − a' b)² / (A B + a b + a' b'), the deficit that a merge adds."""
    difference = left.first * right.second - left.second * right.first
    total = left.merged * right.merged + (left.first * right.first + left.second * right.second)
    total = total + np.finfo(total.dtype).tiny  # where both parts are 0, N is 0
    term: Array = difference * (2.0 * difference) / total  # roots are divided by √2, hence the 2
    return term
