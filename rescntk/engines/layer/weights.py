"""`Weights`: the weights of features and branch behind a layer, and how they are applied.

A layer ends with the weighted sum of the features that pass it and of its branch. ::

    F ← f F + b K.

Most layers are divided by their growth, so that f + b = 1: the sum is a mean. It is computed from
its heavier part on, a + w (c − a) with the smaller weight w. So the mean of equal parts is exact,
and f + b = 1 to the last bit. Elsewhere it is computed as it is written.
"""

from __future__ import annotations

import math
from enum import Enum
from fractions import Fraction
from typing import NamedTuple

from ...arrays import AnyArray


class Form(Enum):
    """How features a and branch c are added. compiled/records.h has the same names."""

    BRANCH_ALONE = "branch alone"
    """b c: nothing passes the layer."""
    SUM = "sum"
    """f a + b c."""
    MEAN_FROM_FEATURES = "mean from features"
    """a + b (c − a): the branch has the smaller weight."""
    MEAN_FROM_BRANCH = "mean from branch"
    """c + f (a − c): the features have the smaller weight."""


class RoundedWeights(NamedTuple):
    """The weights of features and branch in a precision, and the form of their sum.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.engines.layer.weights import Form, RoundedWeights
    >>> weights = RoundedWeights(0.75, 0.25, Form.MEAN_FROM_FEATURES)
    >>> weights.merged(np.array([4.0]), np.array([8.0]))
    array([5.])
    """

    features: AnyArray
    """f, a number, or an array () of JAX."""
    branch: AnyArray
    """b, likewise."""
    form: Form

    def merged(self, features: AnyArray, branch: AnyArray) -> AnyArray:
        """Return the weighted sum of arrays."""
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
        """Whether the features are the first part of the merge, the heavier one of a mean."""
        return self.form in (Form.MEAN_FROM_FEATURES, Form.SUM)


def _times(weight: AnyArray, values: AnyArray) -> AnyArray:
    """Return a product; the number 1 costs nothing."""
    return values if isinstance(weight, float) and weight == 1.0 else weight * values


def is_zero(weight: AnyArray) -> bool:
    """Return whether a weight is the number 0. Arrays of JAX are of layers whose weight is not."""
    return isinstance(weight, float) and weight == 0.0


def root_of(weight: AnyArray) -> AnyArray:
    """Return √weight, of a number or an array of JAX."""
    return math.sqrt(weight) if isinstance(weight, float) else weight**0.5


class Weights(NamedTuple):
    """The weights of features and branch, as exact fractions, and the form of their sum."""

    features: Fraction
    """f. In a mean the larger of f and b is 1 minus the other."""
    branch: Fraction
    """b, likewise."""
    form: Form

    @classmethod
    def of(cls, features: Fraction, branch: Fraction) -> Weights:
        """Return the weights nearest to exact ones that float64 can apply.

        In a mean the smaller weight is rounded, and the larger one is the rest.

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
        """True if f + b = 1: what features and branch have in common passes unchanged."""
        return self.features + self.branch == 1

    @property
    def rounded(self) -> RoundedWeights:
        """Both weights in float64."""
        return RoundedWeights(float(self.features), float(self.branch), self.form)
