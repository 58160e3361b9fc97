"""`SkipStep`: the skip connection, the weighted sum of a layer's features and its branch. ::

    F, A ← f F + b K, f A + b M.

weights.py defines f and b, and how the sum is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .constants import LayerConstants
from .merge import Merge
from .step import PairContext, PairState, PixelValues, SignalContext, Variances, mapped
from .weights import Weights


@dataclass(frozen=True)
class SkipStep(Merge):
    """The end of a layer: the weighted sum of features and branch."""

    kind = "skip"
    after_activation = True

    def weights(self, layer: LayerConstants) -> Weights:
        return layer.weights

    def variances(
        self, context: SignalContext, before: Variances, features: Variances
    ) -> tuple[Variances, Iterator[PixelValues]]:
        weights = context.layer_weights
        variance = weights.weighted_sum(features.variance, before.variance)
        rounding_error = before.rounding_error
        if rounding_error is not None:
            rounding_error = weights.weighted_sum(features.rounding_error, rounding_error)
        parts = [features.variance, before.variance]
        part_weights = [weights.features, weights.branch]
        if not weights.begins_with_features:
            parts, part_weights = parts[::-1], part_weights[::-1]
        return self.merged(context, parts, part_weights, variance, rounding_error)

    def pairs(self, context: PairContext, before: PairState, features: PairState) -> PairState:
        weights, N = context.weights, self.merge_term(context)
        return PairState(
            mapped(lambda u, v: weights.weighted_sum(u, v) + N, features.deficits, before.deficits),
            mapped(weights.weighted_sum, features.kernels, before.kernels),
        )
