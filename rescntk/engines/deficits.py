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

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..activations import DualInput, DualResult
from ..arrays import Array, array_module
from ..network import Filter
from .boxes import circular_sum, shifted
from .geometry import Rows
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


class RootMasses:
    """The root masses of the cases on one side of a tile, as far as merges need them.

    Parameters
    ----------
    parts : sequence of (Scaling, array)
        For signals of each length the constants of the layers and F⁰ at x = z, j = j'
        (`Input.variance`), (d, cases), float64.
    axes : callable
        Gives a table whose signals' pixels follow one another the axes of the tile.
    """

    def __init__(
        self, parts: Sequence[tuple[Scaling, Array]], axes: Callable[[Array], Array]
    ) -> None:
        self._xp, self._axes = array_module(parts[0][1]), axes
        self._scalings = [scaling for scaling, _ in parts]
        recursions = [
            scaling.variances(self._xp, variance, with_tangent=False) for scaling, variance in parts
        ]
        tables = [[(at.window, at.features) for at in recursion] for recursion in recursions]
        self._windows, self._features = (
            [[layers[layer][k] for layers in tables] for layer in range(len(tables[0]))]
            for k in range(2)
        )

    def features(self, layer: int) -> Array:
        """Return the root masses of the features after a layer."""
        return self._root(self._features[layer])

    def skip(self, layer: int) -> Merge:
        """Return the merge of the identity path with the branch, before and after a layer."""
        scaling = self._scalings[0]
        outer = scaling.network.outer_filter(layer)
        identity = [scaling.step(layer) * mass for mass in self._features[layer - 1]]
        windows = [circular_sum(mass, *outer) for mass in self._branch_pixels(layer)]
        return self._merge(identity, windows, self._features[layer])

    def inner_window(self, layer: int) -> Iterator[Step]:
        """Yield the merges of the inner filter's window of features before a layer."""
        window = self._scalings[0].network.inner_filter(layer)
        return self._steps(self._features[layer - 1], window)

    def outer_window(self, layer: int) -> Iterator[Step]:
        """Yield the merges of the outer filter's window of K of a layer."""
        window = self._scalings[0].network.outer_filter(layer)
        return self._steps(self._branch_pixels(layer), window)

    def _branch_pixels(self, layer: int) -> list[Array]:
        """Return K at x = z, j = j' of a layer."""
        return [
            scaling.activation.diagonal(
                self._xp, window, scaling.unit(layer), scaling.factor(layer)
            )[0]
            for scaling, window in zip(self._scalings, self._windows[layer], strict=True)
        ]

    def _steps(self, masses: list[Array], taps: Filter) -> Iterator[Step]:
        """Yield the merges of a filter's windows of the given masses, each (d, cases)."""
        size, step = taps
        window, piece = masses, masses
        reached, width = 1, 1
        while 2 * width <= size:
            second = [shifted(mass, width * step) for mass in piece]
            both = [a + b for a, b in zip(piece, second, strict=True)]
            yield Step(False, width * step, self._merge(piece, second, both))
            piece, width = both, 2 * width
            if size & width:
                second = [shifted(mass, reached * step) for mass in piece]
                both = [a + b for a, b in zip(window, second, strict=True)]
                yield Step(True, reached * step, self._merge(window, second, both))
                window, reached = both, reached + width

    def _merge(self, first: list[Array], second: list[Array], merged: list[Array]) -> Merge:
        return Merge(self._root(first), self._root(second), self._root(merged))

    def _root(self, masses: list[Array]) -> Array:
        """Return √(mass/2) in the working precision, with the axes of the tile."""
        flat = [self._xp.sqrt(0.5 * mass).swapaxes(0, 1).reshape(-1) for mass in masses]
        return self._axes(self._xp.concatenate(flat).astype(self._scalings[0].dtype))


class DeficitRecursion(Recursion):
    """The recursion on one tile, for ReLU networks in deficits.

    `distance` holds the deficit u in the place of D.
    """

    def __init__(
        self,
        request: Request,
        scaling: Scaling,
        sides: tuple[Side, Side],
        masses: tuple[RootMasses, RootMasses],
        rows: Rows,
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
        seam = self.seam
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
