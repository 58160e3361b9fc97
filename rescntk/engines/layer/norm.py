"""`NormStep`: layer normalization, the first step of a branch.

At each pixel the features that enter the branch are divided by their root mean square over
channels; the identity path is not changed. Let a² and b² be the variances of the features at the
left and at the right pixel, n² and n'² those of the normalized features, and g = a b. Then ::

    U ← (n n' / g) U,  and likewise U⁺ and A.

Where the features of a pixel are 0, its normalized features are 0 too. The step's rows in a
signal's table are n and n / a.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from operator import mul

from .step import PairContext, PairState, PixelValues, SignalContext, Step, Variances, mapped

_FACTOR = 1
"""The index of n / a among the rows of the step."""


@dataclass(frozen=True)
class NormStep(Step):
    """Layer normalization, the first step of a branch."""

    kind = "norm"
    after_activation = False
    n_rows = 2

    def variances(
        self, context: SignalContext, before: Variances, features: Variances
    ) -> tuple[Variances, Iterator[PixelValues]]:
        context.check_features(before)
        after = context.exact_variances(
            context.xp.where(before.variance > 0, context.norm_std() ** 2, 0.0)
        )
        return after, self._rows(context, before, after)

    def _rows(
        self, context: SignalContext, before: Variances, after: Variances
    ) -> Iterator[PixelValues]:
        yield after.std
        yield after.std / context.positive(before.std)

    def pairs(self, context: PairContext, before: PairState, features: PairState) -> PairState:
        left, right = context.row(_FACTOR)
        normalized = partial(mul, left * right)
        return PairState(mapped(normalized, before.deficits), mapped(normalized, before.kernels))
