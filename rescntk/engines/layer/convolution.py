"""`ConvolutionStep`: weighted means over the taps of a filter.

A tap moves both pixels of a pair by the same offset. N is the term that each merge adds
(merge.py); the parts of this merge are the pixels at the taps. ::

    U, U⁺ ← mean(U) + N, mean(U⁺) + N;     K, A ← mean(K), mean(A).

A long filter is a sequence of such steps (taps.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from .means import weighted_mean
from .merge import Merge
from .step import PairContext, PairState, PixelValues, SignalContext, Variances, mapped
from .taps import Taps


@dataclass(frozen=True)
class ConvolutionStep(Merge):
    """A convolution whose weights at different taps are independent."""

    taps: Taps
    after_activation: bool = False

    kind = "convolution"

    @property
    def n_parts(self) -> int:
        return self.taps.n_taps

    def variances(
        self, context: SignalContext, before: Variances, features: Variances
    ) -> tuple[Variances, Iterator[PixelValues]]:
        parts, weights = context.at_taps(before.variance, self.taps), self.taps.weights
        rounding_error = before.rounding_error
        if rounding_error is not None:
            rounding_error = weighted_mean(context.at_taps(rounding_error, self.taps), weights)
        return self.merged(context, parts, weights, weighted_mean(parts, weights), rounding_error)

    def pairs(self, context: PairContext, before: PairState, features: PairState) -> PairState:
        mean, N = partial(context.mean, self.taps), self.merge_term(context)
        deficits = mapped(lambda u: mean(u) + N, before.deficits)
        return PairState(deficits, mapped(mean, before.kernels))
