"""`Merge`: a step that joins parts: the taps of a convolution, biases, features and branch.

A merge joins parts p of two pixels, with the roots of variances a_p and b_p, into a² = Σ a_p² and
b² = Σ b_p².
Part 0 has the most weight. All others have *coordinates* u_p = a_p / (a + a_0) and
v_p = b_p / (b + b_0). The whole has the deficit ::

    U = a b (1 − ρ) = Σ_p U_p + N,   N = ½ (a + a_0) (b + b_0) Σ_p>0 (u_p − v_p)².

All terms are positive (docs/theory/deficits.md). Roots and coordinates belong to single signals:
the rows of a merge are a, (a + a_0) / √2 and the coordinates of all parts but the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...arrays import AnyArray
from ..work import until_stopped
from .means import summed
from .step import BothSides, OneSide, PairValues, PixelValues, Step, Variances
from .weights import is_zero, root_of

_FACTOR = 1
"""The place of (a + a_0) / √2 among the rows."""

_COORDINATES = 2
"""The place of the first coordinates."""


class Merge(Step):
    """A step that joins parts."""

    @property
    def n_rows(self) -> int:
        return _COORDINATES + self.n_parts - 1

    @property
    def n_parts(self) -> int:
        """The number of parts."""
        return 2

    def merged(
        self,
        at: OneSide,
        parts: Sequence[PixelValues],
        weights: Sequence[AnyArray],
        variance: PixelValues,
        rounding_error: PixelValues | None,
    ) -> tuple[Variances, Iterator[PixelValues]]:
        """Return what `variances` returns, from the parts with their weights and the whole."""
        whole = Variances(variance, rounding_error, at.root(variance))
        return whole, _rows(at, parts, weights, whole)

    def distance(self, at: BothSides) -> PairValues:
        """Return N, which the merge adds to deficits: the squared distance of coordinates."""
        coordinates = [at.row(place) for place in range(_COORDINATES, self.n_rows)]
        left, right = at.row(_FACTOR)
        return left * right * summed([*until_stopped((u - v) ** 2 for u, v in coordinates)])


def _rows(
    at: OneSide, parts: Sequence[PixelValues], weights: Sequence[AnyArray], whole: Variances
) -> Iterator[PixelValues]:
    """Yield the rows of a merge."""
    # Ratios of equal variances are 1: their coordinates are equal to the bit, at any size.
    positive = at.positive(whole.variance)
    first, *later = parts
    ratio = at.root(first / positive)  # a_0 / (√weight a)
    half_sum = math.sqrt(0.5) + root_of(0.5 * weights[0]) * ratio  # (a + a_0) / (√2 a)
    yield whole.root
    yield whole.root * half_sum
    divisors: dict[float | None, PixelValues] = {}
    for part, weight in zip(later, weights[1:], strict=True):
        if is_zero(weight):  # a part without weight may be infinitely larger than the whole
            yield at.xp.zeros_like(part)
            continue
        key = weight if isinstance(weight, float) else None  # JAX's array belongs to one part
        if key not in divisors:
            divisors[key] = half_sum * root_of(2.0 / weight)
        yield at.root(part / positive) / divisors[key]
