"""`JoinedStep`: one merge that replaces an outer convolution, a skip connection and the inner
convolution of the next layer.

It follows an activation and leads to the pre-activations of the next layer. All filters have three
taps (`network_steps.joined`). For pixel pairs only the compiled engines have it (cpu/joined.h).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .constants import LayerConstants
from .means import from_the_middle, weighted_mean
from .merge import Merge
from .step import PairContext, PairState, PixelValues, SignalContext, Variances
from .taps import Taps
from .weights import RoundedWeights, Weights


@dataclass(frozen=True)
class JoinedStep(Merge):
    """A merge over five taps. The features and the branch at one tap are one part together."""

    n_feature_taps: int
    """The number of taps at which features are read: 1, or 3 in layer 1. The pre-activations of
    layer 1 have no convolution, so that this step applies the inner convolution of layer 2 to them.
    """

    kind = "joined"
    taps = Taps(5, 1, 0, is_triangle=True)
    after_activation = True

    @property
    def n_parts(self) -> int:
        return self.taps.n_taps

    def weights(self, layer: LayerConstants) -> Weights:
        """Return the weight of the features at one tap, and a ninth of the branch's weight."""
        features, branch, form = layer.weights
        return Weights(features / self.n_feature_taps, branch / 9, form)

    def tap_weights(self, weights: RoundedWeights) -> tuple[float, ...]:
        """Return the weights of the five taps, in the order of the taps.

        They are b/9 times (1, 2, 3, 2, 1), and the weight of the features is added at the
        `n_feature_taps` taps in the middle. `weights` are f and b of the layer.
        """
        reach = self.n_feature_taps // 2
        features = weights.features / self.n_feature_taps
        return tuple(
            weights.branch * ninths / 9.0 + features * (abs(tap) <= reach)
            for tap, ninths in zip(range(-2, 3), (1, 2, 3, 2, 1), strict=True)
        )

    def variances(
        self, context: SignalContext, before: Variances, features: Variances
    ) -> tuple[Variances, Iterator[PixelValues]]:
        weights = from_the_middle(self.tap_weights(context.layer_weights))
        parts = context.at_taps(before.variance, self.taps)
        variance = weighted_mean(parts, weights)
        return self.merged(context, parts, weights, variance, before.rounding_error)

    def pairs(self, context: PairContext, before: PairState, features: PairState) -> PairState:
        raise NotImplementedError("only compiled engines have joined steps for pixel pairs")
