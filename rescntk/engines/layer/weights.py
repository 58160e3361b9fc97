"""`Weights`: the weights of features and branch in the sum at the end of a layer.

A layer ends with the weighted sum of the features of its identity path and of its branch, ::

    F ← f F + b K.

Most layers are divided by their growth, so that f + b = 1 and the sum is a mean. A mean of a and c
is computed as a + w (c − a), where a is the part with the larger weight and w is the smaller
weight. So f + b = 1 holds to the last bit, and the mean of equal parts is exact, for the reason in
means.py. If f + b is not 1, the sum is computed as it is written above.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from enum import Enum
from fractions import Fraction
from itertools import repeat
from typing import NamedTuple

import numpy as np

from ...arrays import AnyArray


class Form(Enum):
    """The formula that adds features a and branch c. compiled/records.h has the same names."""

    BRANCH_ALONE = "branch alone"
    """b c: the weight f is 0."""
    SUM = "sum"
    """f a + b c."""
    MEAN_FROM_FEATURES = "mean from features"
    """a + b (c − a): the branch has the smaller weight."""
    MEAN_FROM_BRANCH = "mean from branch"
    """c + f (a − c): the features have the smaller weight."""


class RoundedWeights(NamedTuple):
    """The weights of features and branch in the working precision, and the form of their sum.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.engines.layer.weights import Form, RoundedWeights
    >>> weights = RoundedWeights(0.75, 0.25, Form.MEAN_FROM_FEATURES)
    >>> weights.weighted_sum(np.array([4.0]), np.array([8.0]))
    array([5.])
    """

    features: AnyArray
    """f, a number or an array of JAX with the shape ()."""
    branch: AnyArray
    """b, of the same type."""
    form: Form

    def weighted_sum(self, features: AnyArray, branch: AnyArray) -> AnyArray:
        """Return the weighted sum of two arrays."""
        f, b, form = self
        if form is Form.BRANCH_ALONE:
            return _times(b, branch)
        if form is Form.SUM:
            return _times(f, features) + _times(b, branch)
        if form is Form.MEAN_FROM_FEATURES:
            return features + b * (branch - features)
        return branch + f * (features - branch)

    @property
    def begins_with_features(self) -> bool:
        """Whether the features are part 0 of the merge: in sums, and in means if f is larger."""
        return self.form in (Form.MEAN_FROM_FEATURES, Form.SUM)


def _times(weight: AnyArray, values: AnyArray) -> AnyArray:
    """Return the product of a weight and an array, without a multiplication if the weight is 1."""
    return values if isinstance(weight, float) and weight == 1.0 else weight * values


def is_zero(weight: AnyArray) -> bool:
    """Return whether a weight is the number 0.

    A weight that is an array of JAX is never 0: weights of 0 are numbers (jax/pairs.py).
    """
    return isinstance(weight, float) and weight == 0.0


def sqrt_of(weight: AnyArray) -> AnyArray:
    """Return √weight. The weight is a number or an array of JAX."""
    return math.sqrt(weight) if isinstance(weight, float) else weight**0.5


class Weights(NamedTuple):
    """The weights of features and branch, as exact fractions, and the form of their sum."""

    features: Fraction
    """f. In a mean, the larger one of f and b is 1 minus the smaller one."""
    branch: Fraction
    """b."""
    form: Form

    @classmethod
    def of(cls, features: Fraction, branch: Fraction) -> Weights:
        """Return the weights, rounded as float64 needs it, with the form that belongs to them.

        In a mean the smaller weight is rounded to float64, and the larger one is 1 minus it. In
        other sums each weight is rounded to float64.

        Examples
        --------
        >>> from fractions import Fraction
        >>> from rescntk.engines.layer.weights import Weights
        >>> Weights.of(Fraction(3, 4), Fraction(1, 4)).form.value
        'mean from features'
        """
        if not features:
            return cls(features, Fraction(float(branch)), Form.BRANCH_ALONE)
        if not branch or features + branch != 1:
            return cls(Fraction(float(features)), Fraction(float(branch)), Form.SUM)
        smaller = Fraction(float(min(features, branch)))
        if features < branch:
            return cls(smaller, 1 - smaller, Form.MEAN_FROM_BRANCH)
        return cls(1 - smaller, smaller, Form.MEAN_FROM_FEATURES)

    @property
    def keeps_means(self) -> bool:
        """True if f + b = 1, so that the sum of equal features and branch is equal to both."""
        return self.features + self.branch == 1

    @property
    def rounded(self) -> RoundedWeights:
        """The weights as float64 numbers."""
        return RoundedWeights(float(self.features), float(self.branch), self.form)


def rounded_in_turn(weights: Iterable[Weights], dtype: str) -> Iterator[RoundedWeights]:
    """Yield the weights of one layer after the other, rounded to `dtype`.

    If all L layers used the same rounded weight, kernels could be wrong by the factor (1 + eps)^L.
    So a weight is rounded up in some layers and down in others, and its product over layers is
    accurate.
    """
    roundings: dict[Fraction, Iterator[float]] = {}

    def rounded(weight: Fraction) -> float:
        return next(roundings.setdefault(weight, _roundings(weight, dtype)))

    for features, branch, form in weights:
        yield RoundedWeights(rounded(features), rounded(branch), form)


def _roundings(weight: Fraction, dtype: str) -> Iterator[float]:
    """Yield a weight again and again, each time rounded up or down.

    The direction is the one that brings the product of all yielded numbers nearest to the exact
    power of the weight.
    """
    nearest = np.dtype(dtype).type(float(weight))
    if nearest < np.finfo(dtype).tiny:
        yield from repeat(float(nearest))
    candidates = (
        nearest,
        np.nextafter(nearest, np.float32(0)),
        np.nextafter(nearest, np.float32(2)),
    )
    errors = {float(value): float(Fraction(float(value)) / weight - 1) for value in candidates}
    total = 0.0
    while True:
        value = min(errors, key=lambda value: abs(total + errors[value]))
        total += errors[value]
        yield value
