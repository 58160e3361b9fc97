"""`ConvolutionStep`: means over some taps, which move both pixels of a pair together. ::

    U, U⁺ ← mean(U) + N, mean(U⁺) + N;     K, A ← mean(K), mean(A).

The parts of the merge are the pixels at the taps. A filter is some such steps (taps.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from .means import weighted_mean
from .merge import Merge
from .step import BothSides, OneSide, PairState, PixelValues, Variances, mapped
from .taps import Taps


@dataclass(frozen=True)
class ConvolutionStep(Merge):
    """A convolution with independent weights at some taps."""

    taps: Taps
    is_branch: bool = False

    kind = "convolution"

    @property
    def n_parts(self) -> int:
        return self.taps.n_taps

    def variances(
        self, at: OneSide, before: Variances, features: Variances
    ) -> tuple[Variances, Iterator[PixelValues]]:
        parts, weights = at.at_taps(before.variance, self.taps), self.taps.weights
        rounding_error = before.rounding_error
        if rounding_error is not None:
            rounding_error = weighted_mean(at.at_taps(rounding_error, self.taps), weights)
        return self.merged(at, parts, weights, weighted_mean(parts, weights), rounding_error)

    def pairs(self, at: BothSides, before: PairState, features: PairState) -> PairState:
        mean, N = partial(at.mean, self.taps), self.distance(at)
        deficits = mapped(lambda u: mean(u) + N, before.deficits)
        return PairState(deficits, mapped(mean, before.kernels))
