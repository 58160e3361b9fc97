"""`Merge`: a step that adds independent parts: taps of a convolution, biases, features and branch.

At a pixel pair let a_p² and b_p² be the variances of part p at the left and at the right pixel.
The sum of the parts has the variances a² = Σ a_p² and b² = Σ b_p². Part 0 is the middle tap, or
what biases are added to, or of features and branch the one with which the sum begins (weights.py).
Each other part has the *coordinates* u_p = a_p / (a + a_0) and v_p = b_p / (b + b_0). The deficit
of the sum is ::

    U = a b (1 − ρ) = Σ_p U_p + N,   N = ½ (a + a_0) (b + b_0) Σ_p>0 (u_p − v_p)².

No term is negative (docs/theory/deficits.md). Since a, a_0 and u_p belong to one signal, they are
computed once per signal: the rows of a merge in a signal's table are a, (a + a_0) / √2 and the
coordinates of all parts but part 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...arrays import AnyArray
from ..work import until_stopped
from .means import summed
from .step import PairContext, PairValues, PixelValues, SignalContext, Step, Variances
from .weights import is_zero, sqrt_of

_FACTOR = 1
"""The index of (a + a_0) / √2 among the rows of a merge."""

_COORDINATES = 2
"""The index of the first coordinate among the rows of a merge."""


class Merge(Step):
    """A step that adds independent parts."""

    @property
    def n_rows(self) -> int:
        return _COORDINATES + self.n_parts - 1

    @property
    def n_parts(self) -> int:
        """The number of parts."""
        return 2

    def merged(
        self,
        context: SignalContext,
        parts: Sequence[PixelValues],
        weights: Sequence[AnyArray],
        variance: PixelValues,
        rounding_error: PixelValues | None,
    ) -> tuple[Variances, Iterator[PixelValues]]:
        """Return the variances of the sum, and an iterator over the rows of their table.

        `parts` and `weights` are the variances and the weights of the parts, part 0 first;
        `variance` and `rounding_error` are those of the sum.
        """
        whole = Variances(variance, rounding_error, context.sqrt(variance))
        return whole, _rows(context, parts, weights, whole)

    def merge_term(self, context: PairContext) -> PairValues:
        """Return N, which the merge adds to the deficits.

        It is a multiple of the squared distance between the coordinates of both pixels.
        """
        coordinates = [context.row(index) for index in range(_COORDINATES, self.n_rows)]
        left, right = context.row(_FACTOR)
        return left * right * summed([*until_stopped((u - v) ** 2 for u, v in coordinates)])


def _rows(
    context: SignalContext,
    parts: Sequence[PixelValues],
    weights: Sequence[AnyArray],
    whole: Variances,
) -> Iterator[PixelValues]:
    """Yield the rows of a merge, from the variances of its parts and of their sum."""
    # Variances are divided before roots are taken: so pixels have equal coordinates to the last
    # bit if their variances are exactly proportional.
    positive = context.positive(whole.variance)
    first, *later = parts
    ratio = context.sqrt(first / positive)  # a_0 / (√weight a)
    half_sum = math.sqrt(0.5) + sqrt_of(0.5 * weights[0]) * ratio  # (a + a_0) / (√2 a)
    yield whole.std
    yield whole.std * half_sum
    divisors: dict[float | None, PixelValues] = {}
    for part, weight in zip(later, weights[1:], strict=True):
        if is_zero(weight):  # the variance of a part of weight 0 may be far above that of the sum
            yield context.xp.zeros_like(part)
            continue
        # A weight that is an array of JAX belongs to a merge of two parts, and so to one `part`.
        key = weight if isinstance(weight, float) else None
        if key not in divisors:
            divisors[key] = half_sum * sqrt_of(2.0 / weight)
        yield context.sqrt(part / positive) / divisors[key]
