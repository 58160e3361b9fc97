"""`BiasStep`: the biases of a convolution, whose variance is the same at all pixels.

A channel adds the same bias to both signals of a pair, so that the correlation of the biases is 1.
Let c be the product of the standard deviations of both signals' biases (these differ because each
signal was divided by its own size). Then c is added to Σ before the activation,
or to K after it; N of the merge to U, and N + 2 c to U⁺. A grows by ι c before the activation, and
M by ([outer] + ι) c after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import add

from .means import sum_and_rest
from .merge import Merge
from .network_constants import NetworkConstants
from .step import (
    Deficits,
    Kernels,
    PairContext,
    PairState,
    PixelValues,
    SignalContext,
    Variances,
    mapped,
)


@dataclass(frozen=True)
class BiasStep(Merge):
    """The biases of a layer: those before or after its activation."""

    after_activation: bool

    kind = "bias"

    def bias_std(self, constants: NetworkConstants, layer_number: int) -> float:
        return constants.bias_std(layer_number, self.after_activation)

    def variances(
        self, context: SignalContext, before: Variances, features: Variances
    ) -> tuple[Variances, Iterator[PixelValues]]:
        bias_variance = context.bias_variance(self.after_activation)
        bias_variance = bias_variance + context.xp.zeros_like(before.variance)
        variance, rounding_error = sum_and_rest(
            before.variance, bias_variance + before.rounding_error
        )
        parts = [before.variance, bias_variance]
        return self.merged(context, parts, [1.0, 1.0], variance, rounding_error)

    def pairs(self, context: PairContext, before: PairState, features: PairState) -> PairState:
        product, N = context.bias_product(self.after_activation), self.merge_term(context)
        bias_deficits = Deficits(0.0, 2.0 * product)
        deficits = mapped(lambda u, added: u + added + N, before.deficits, bias_deficits)
        tangent = context.constants.carried_parts.bias_multiple(self.after_activation) * product
        return PairState(deficits, mapped(add, before.kernels, Kernels(product, tangent)))
