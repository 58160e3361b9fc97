"""`JoinedStep`: one merge in the place of an outer convolution, a skip connection and the next
layer's inner convolution.

It begins and ends with pre-activations of filters of three pixels (`network_steps.joined`).
Compiled engines alone have it for pixel pairs (cpu/joined.h).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .constants import LayerConstants
from .means import from_the_middle, weighted_mean
from .merge import Merge
from .step import BothSides, OneSide, PairState, PixelValues, Variances
from .taps import Taps
from .weights import RoundedWeights, Weights


@dataclass(frozen=True)
class JoinedStep(Merge):
    """A merge of five taps, in which features and branch of one pixel are one part."""

    n_feature_taps: int
    """The taps that have features: one; or three in layer 1, whose pre-activations have no
    convolution yet."""

    kind = "joined"
    taps = Taps(5, 1, 0, is_triangle=True)
    is_branch = True

    @property
    def n_parts(self) -> int:
        return self.taps.n_taps

    def weights(self, layer: LayerConstants) -> Weights:
        """Return the weights of one tap: of its features, and of a ninth of the branch."""
        features, branch, form = layer.weights
        return Weights(features / self.n_feature_taps, branch / 9, form)

    def tap_weights(self, weights: RoundedWeights) -> tuple[float, ...]:
        """Return the weights of the taps, from the first on: b (1 2 3 2 1)/9, and f in the middle.

        b and f are the `weights` of branch and features behind the layer.
        """
        reach = self.n_feature_taps // 2
        features = weights.features / self.n_feature_taps
        return tuple(
            weights.branch * ninths / 9.0 + features * (abs(tap) <= reach)
            for tap, ninths in zip(range(-2, 3), (1, 2, 3, 2, 1), strict=True)
        )

    def variances(
        self, at: OneSide, before: Variances, features: Variances
    ) -> tuple[Variances, Iterator[PixelValues]]:
        weights = from_the_middle(self.tap_weights(at.weights))
        parts = at.at_taps(before.variance, self.taps)
        variance = weighted_mean(parts, weights)
        return self.merged(at, parts, weights, variance, before.rounding_error)

    def pairs(self, at: BothSides, before: PairState, features: PairState) -> PairState:
        raise NotImplementedError("compiled engines alone have joined steps for pixel pairs")
