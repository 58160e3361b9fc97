"""Estimate the rounding errors of erf kernels, and refuse kernels with half of their digits lost.

Where the ordered state, correlation 1, is unstable, nearly equal signals separate exponentially
with depth, and their rounding errors with them (docs/theory/erf.md). An error e of the distance D
moves through a layer as D itself does, to first order. The recursion carries two errors of each
pixel pair, in rounding units::

    e ← e + box(K̇ ⊙ box(e)) + c √(min(D, D⁺) (D + D⁺))
    e_A ← e_A + box(K̇ ⊙ (box(e_A) + (|i − r| + (4|Σ|/Δ) |A_g|) box(e)) + (o + r) K̇ ⊙ box(e)).

The last term of the first line is the change of D under a relative change of the features by
c units. It is 0 for equal and for opposite features, which stay exact. The factor 4|Σ|/Δ is the
derivative of log K̇ with respect to Σ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ..activations import DualInput, DualResult
from ..arrays import Array, array_module
from ..validation import KINDS
from .recursion import Recursion
from .scaling import Scaling

MOST_LOST = 2.0**-26
"""The error above which erf kernels are refused: half of the digits of float64.

A larger number lets through kernels with fewer digits; a smaller one refuses kernels that have
more. Chosen by reasoning.
"""

_EPS = 2.0**-52

_ROUNDING = 0.25
"""The relative change of the features, in units eps, that a layer's roundings amount to.

A larger number refuses more kernels; with a smaller one errors may exceed their estimates. Measured
against hundreds of digits (docs/theory/erf.md): errors are at most 0.6 of their estimates.
"""


def may_be_unresolved(scaling: Scaling) -> bool:
    """Return True if the layers could multiply rounding errors to `MOST_LOST` for some signals."""
    bits = scaling.growth_bits + math.log2((scaling.depth + 1) * _EPS / MOST_LOST)
    return scaling.activation.odd and bits > 0


class ErrorRecursion(Recursion):
    """The recursion of an odd activation, with e and e_A of each pixel pair, in rounding units.

    Raises
    ------
    ValueError
        After the last layer, if a row of pixel pairs has lost more than `MOST_LOST` at one of the
        depths asked for, of the largest K(x, x) and K(z, z) of pixels.
    """

    error: Array
    tangent_error: Array

    def kernels(self) -> Iterator[tuple[int, dict[str, Array]]]:
        for depth, kernels in super().kernels():
            self._check(depth)
            yield depth, kernels

    def _check(self, depth: int) -> None:
        t, xp = self.request.depths.index(depth), self.xp
        for kind in self.request.kinds:
            left, right = (
                side.cases(side.tables.bounds[KINDS.index(kind), t])
                for side in (self.left, self.right)
            )
            size = self.rows.spread(xp.where(left * right > 0, left * right, 1.0))
            error = (self.error if kind == "gpk" else self.tangent_error) / size
            if self.request.head != "pixels":
                error = error[0] if self.scaling.equivariant else error.mean(axis=0)
            worst = float(error.max()) * _EPS
            if not worst <= MOST_LOST:
                raise ValueError(
                    f"the {kind} kernel at depth {depth} is not resolved in float64: rounding "
                    f"errors grow to {min(worst, 1.0):.1g} of √(K(x,x) K(z,z)), expected at most "
                    f"{MOST_LOST:.1g}. Nearly equal (or opposite) signals separate exponentially "
                    f"with depth in this network; remedies: fewer layers, smaller alpha, c_v or "
                    f"c_w, or signals that differ by more or not at all"
                )

    def _enter(self, w: Array, v: Array) -> None:
        """Set e and e_A of the input besides F, D, D⁺ and A."""
        super()._enter(w, v)
        self.error = self._change()
        self.tangent_error = self._initial * self.error

    def _change(self) -> Array:
        """Return c √(min(D, D⁺) (D + D⁺)), the change of D by a layer's roundings."""
        root = self.xp.sqrt(self.xp.minimum(self.distance, self.opposite))
        change: Array = _ROUNDING * root * self.xp.sqrt(self.distance + self.opposite)
        return change

    def _add_branch(
        self, layer: int, pair: DualInput, branch: DualResult, tangent_g: Array | None
    ) -> None:
        """Carry e and e_A past the layer too."""
        inner, parts = self.scaling.inner_filter(layer), self.network.parts
        K_dot, entering = branch.times_slope(1.0), self._box(self.error, inner)
        moved = K_dot * entering
        if tangent_g is not None:
            # 4/Δ, from K̇ = (4/π)/√Δ times the factor and the unit.
            root = K_dot * (0.5 * math.pi / self.scaling.factor(layer))
            relative = abs(pair.covariance) * root * root
            error = self._box(self.tangent_error, inner)
            error = error + (abs(parts.inner_minus_readout) + relative * abs(tangent_g)) * entering
            error = K_dot * error + parts.outer_plus_readout * moved
            self.tangent_error = self._add(self.tangent_error, error, layer)
        self.error = self._add(self.error, moved, layer)
        super()._add_branch(layer, pair, branch, tangent_g)
        if layer < self.request.depths[-1]:
            most = (self.distance + self.opposite) / _EPS
            self.error = self.xp.minimum(self.error + self._change(), most)


def check_pooled(values: Mapping[str, Array], bounds: Array, depths: tuple[int, ...]) -> None:
    """Raise a ValueError if GAP kernels K(x, x) are too small a share of those at pixel pairs.

    The mean over pixel pairs has the error eps times the bound on its terms (docs/theory/erf.md).
    `values` are K(x, x) of each kind, (depth, 1, case); `bounds` are `SignalTables.bounds`.
    """
    for kind, kernels in values.items():
        xp = array_module(kernels)
        largest = bounds[KINDS.index(kind)] ** 2
        shares = xp.where(largest > 0, kernels[:, 0] / xp.where(largest > 0, largest, 1.0), 1.0)
        for depth, share in zip(depths, shares.min(axis=1).tolist(), strict=True):
            if not share >= MOST_LOST:
                raise ValueError(
                    f"the {kind} kernel of a signal with itself, of head 'gap' at depth {depth}, "
                    f"is {max(share, 0.0):.1g} of its terms at pixel pairs, expected at least "
                    f"{MOST_LOST:.1g}: erf is odd, and the terms of this signal cancel in rounding "
                    f"errors. Remedies: head='trace', activation='relu', larger signals or signals "
                    f"whose mean is not zero"
                )
