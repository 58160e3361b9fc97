"""`ActivationStep`: the activation, which turns pre-activations into the branch of the layer.

Let Σ be the covariance of the pre-activations at a pixel pair, ρ their correlation, and
w = 1 − ρ = U / g, v = 1 + ρ = U⁺ / g. For ReLU the step computes ::

    A_g = A + ([inner] − ι) Σ;
    K = g κ₁;   M = κ₀ A_g + ([outer] + ι) K;
    U, U⁺ = g (1 − κ₁), g (1 + κ₁).

For other activations E[σσ] takes the place of g κ₁ and E[σ'σ'] that of κ₀
(rescntk/network/activations.py), and the branch is multiplied by `LayerConstants.dual_factor`.

The step's first row in a signal's table is 1/a. Here a² and Σ are the variance and the covariance
of the pre-activations without the factor c_w: the weight of the branch has it for homogeneous
activations, and `dual` multiplies by it for others. These have a second row, the square root of the
branch's variance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from operator import mul

from .step import (
    Kernels,
    PairContext,
    PairState,
    PixelValues,
    SignalContext,
    Step,
    Variances,
    mapped,
)


@dataclass(frozen=True)
class ActivationStep(Step):
    """The activation of a layer."""

    is_homogeneous: bool
    """Whether the activation is homogeneous. If so, the branch has the same variances as the
    pre-activations, and the step has no row for them."""

    kind = "activation"
    after_activation = True

    @property
    def std_index(self) -> int | None:
        return None if self.is_homogeneous else 1

    @property
    def n_rows(self) -> int:
        return 1 if self.is_homogeneous else 2

    def variances(
        self, context: SignalContext, before: Variances, features: Variances
    ) -> tuple[Variances, Iterator[PixelValues]]:
        after = before
        if not self.is_homogeneous:
            context.check_preactivations(before.variance)
            layer_constants = context.layer_constants
            pre_activations = layer_constants.layer.inner_variance * before.variance
            activated = context.activation.variance(context.xp, pre_activations)
            variance = layer_constants.dual_factor * activated
            context.check_activated(variance)
            after = context.exact_variances(variance)
        return after, self._rows(context, before, after)

    def _rows(
        self, context: SignalContext, before: Variances, after: Variances
    ) -> Iterator[PixelValues]:
        yield 1.0 / context.xp.maximum(before.std, context.least_std)
        if not self.is_homogeneous:
            yield after.std

    def pairs(self, context: PairContext, before: PairState, features: PairState) -> PairState:
        return context.by_pieces(self._activated, before)

    def _activated(self, context: PairContext, before: PairState) -> PairState:
        """Return what `pairs` returns. No pixel pair depends on another."""
        parts, A = context.constants.carried_parts, before.kernels.A
        c_w, factor = None, 1.0
        if not self.is_homogeneous:
            layer_constants = context.layer_constants
            c_w, factor = layer_constants.layer.inner_variance, layer_constants.dual_factor
        K, deficits, times_slope, covariance = context.dual(before.deficits, c_w)
        if c_w is not None:
            K, deficits = factor * K, mapped(partial(mul, factor), deficits)
        if not context.constants.has_U_plus:
            deficits = deficits._replace(U_plus=None)
        if A is None:
            return PairState(deficits, Kernels(K, None))
        if parts.inner_minus_iota:
            A = A + parts.inner_minus_iota * covariance()
        M = times_slope(A)
        if c_w is not None:
            M = (c_w * factor) * M
        return PairState(deficits, Kernels(K, M + parts.outer_plus_iota * K))
