"""The recursion of deficits, for near-parallel windows of different amplitudes.

The distance form (recursion.py) takes w = 1 − ρ from D − z. The difference cancels where two
windows are nearly parallel and differ in amplitude: D is then the difference of amplitudes, and
z takes it away again. This form carries, for each pixel pair, the *deficit*

    u = √(q1 q2) − F ≥ 0,

and for each signal the root masses √q. Parts p with root masses a_p, b_p and deficits u_p (a
filter's taps; the identity path and the branch) merge into A² = Σ a_p², B² = Σ b_p² with the
deficit (Lagrange's identity; docs/theory/deficits.md)

    U = Σ u_p + N,   N = Σ_{p<r} (a_p b_r − a_r b_p)² / (A B + Σ a_p b_p).

All terms are positive, so that u and w = U/(A B) keep their relative accuracy. The deficit to
the negated feature, u⁺ = √(q1 q2) + F, merges with the same N, and v = 1 + ρ = U⁺/(A B).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..activations import DualInput, DualResult, Pixels
from ..arrays import Array
from ..network import Filter
from .boxes import merged, shifted
from .layer import correlate
from .masses import ExactInput, Mass, Split, cross
from .recursion import Recursion, Side
from .signal_tables import joined_pixels

Masses = list[Mass]
"""Variances of one side's pixels, (d, cases), for the signals of each length."""


class Parts(NamedTuple):
    """Parts of windows at each pixel pair: u and u⁺, and the masses q of both sides."""

    deficit: Array
    opposite: Array
    left: Masses
    right: Masses

    def scaled(self, deficit: Array, opposite: Array, factor: float) -> Parts:
        """Return parts with masses times `factor`, and new deficits."""
        left, right = ([mass.times(factor) for mass in side] for side in (self.left, self.right))
        return Parts(deficit, opposite, left, right)


class DeficitRecursion(Recursion):
    """The recursion on one block of rows, for ReLU networks in deficits.

    `inputs` are the input's pixels of both sides, of the signals of each length.
    """

    def __init__(self, *arguments: Any, inputs: tuple[list[ExactInput], list[ExactInput]]) -> None:
        super().__init__(*arguments)
        self._masses = [[signals.mass for signals in side] for side in inputs]
        self._biases = [[signals.bias for signals in side] for side in inputs]
        left, right = (joined_pixels(signals.unit_vectors for signals in side) for side in inputs)
        self._unit_vectors = left, right

    def _correlate_unit_vectors(self) -> tuple[Array, Array]:
        """Return w and v of the input's pixels, computed in float64."""
        w, v = super()._correlate_unit_vectors()
        return w.astype(self.scaling.dtype), v.astype(self.scaling.dtype)

    def _enter(self, w: Array, v: Array) -> None:
        """Set F, u = g w, u⁺ = g v and A of the input."""
        super()._enter(w, v)
        left, right = (side.axes(side.tables.layers[0, 0]) for side in (self.left, self.right))
        g = 2.0 * left * right
        self._state = Parts(g * w, g * v, *self._masses)

    def _correlate(self, layer: int, left: Pixels, right: Pixels, w: Array, v: Array) -> DualInput:
        """Return the correlations of the pre-activations, with z = 0: D_K is then u_K."""
        self._window = self._merged(self._state, self.scaling.inner_filter(layer))
        if self.biased:
            self._window = self._with_bias(self._window, layer, "bias_window")
        if layer > 1 or self.biased:
            inverse = left.inverse * right.inverse
            w, v = (correlate(u, inverse) for u in self._window[:2])
        return DualInput(w, v, left.half_root * right.half_root, 0.0)

    def _add_branch(
        self, layer: int, pair: DualInput, branch: DualResult, tangent_g: Array | None
    ) -> None:
        """Add the residual branch to u and u⁺, F and A."""
        constants = self.constants[layer]
        half = constants.half_factor  # K at x = z, j = j', of the variance of the window
        new = self._window.scaled(branch.branch_distance, branch.opposite_distance, half)
        new = self._merged(new, self.scaling.outer_filter(layer))
        if self.biased:
            new = self._with_bias(new, layer, "bias_branch")
        if self.network.skip:
            old, scale = self._state, constants.skip_scale
            old = old.scaled(scale * old.deficit, scale * old.opposite, scale)
            new = self._merge(old, new)
        self._state = new
        super()._add_branch(layer, pair, branch, tangent_g)

    def _add_distance(self, layer: int, branch: DualResult) -> None:
        """Leave D alone: u takes its place."""

    def _merged(self, parts: Parts, taps: Filter) -> Parts:
        """Return the windows of a filter, centred at each pixel."""
        return merged(parts, taps, self._merge, self._shifted)

    def _shifted(self, parts: Parts, shift: int, width: int | None = None) -> Parts:
        """Return the parts `shift` pixels on; in lines of images, if `width` is given."""
        left, right = ([mass.shifted(shift, width) for mass in side] for side in parts[2:])
        deficit, opposite = (shifted(u, shift, self.seam, width) for u in parts[:2])
        return Parts(deficit, opposite, left, right)

    def _merge(self, first: Parts, second: Parts) -> Parts:
        """Return two parts as one, with N = (a b' − a' b)² / (A B + a b + a' b')."""
        left, right = (
            [mass + added for mass, added in zip(*sides, strict=True)]
            for sides in ((first.left, second.left), (first.right, second.right))
        )
        of_left, of_right = partial(self._root, self.left), partial(self._root, self.right)
        a, a2, A = map(of_left, (first.left, second.left, left))
        b, b2, B = map(of_right, (first.right, second.right, right))
        difference = cross(a, b, a2, b2)
        total = A.rounded * B.rounded + (a.rounded * b.rounded + a2.rounded * b2.rounded)
        total = total + np.finfo(total.dtype).tiny  # where both parts are 0, N is 0
        with np.errstate(over="ignore", invalid="ignore"):
            N = difference * (2.0 * difference) / total  # roots are divided by √2, hence the 2
            N = self.xp.where(self.xp.isfinite(N), N, difference * (2.0 * difference / total))
        deficit, opposite = (u1 + u2 + N for u1, u2 in zip(first[:2], second[:2], strict=True))
        return Parts(deficit, opposite, left, right)

    def _with_bias(self, parts: Parts, layer: int, name: str) -> Parts:
        """Merge parts with a layer's biases of a `name` (`Scaling.biases`): their deficit is 0."""
        factor = self.scaling.biases[layer][name]
        left, right = ([mass.times(factor) for mass in side] for side in self._biases)
        left_root, right_root = (
            self._root(side, masses).rounded
            for side, masses in ((self.left, left), (self.right, right))
        )
        none = self.xp.zeros_like(parts.deficit)
        return self._merge(parts, Parts(none, none + 4.0 * left_root * right_root, left, right))

    def _root(self, side: Side, masses: Masses) -> Split:
        """Return √(mass/2) with the axes of the tile."""
        roots = zip(*(mass.root(self.scaling.dtype) for mass in masses), strict=True)
        return Split(*(side.axes(joined_pixels(parts)) for parts in roots))
