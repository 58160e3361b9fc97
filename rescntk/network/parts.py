"""Parts of a `Network`: which weights are trained, its filters, and the numbers of a layer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple


class TrainedParts(NamedTuple):
    """The parts of a network as numbers: 1 where trained, 0 where frozen."""

    input: float
    """The input layer."""
    inner: float
    """The inner weights."""
    outer: float
    """The outer weights."""
    readout: float
    """The readout."""

    @property
    def initial(self) -> float:
        """[input] + [readout]: the tangent kernel's multiple of F⁰, where F has the multiple 1."""
        return self.input + self.readout

    @property
    def outer_plus_readout(self) -> float:
        """[outer] + [readout]: the tangent kernel's multiple of the last K, where F has 1."""
        return self.outer + self.readout


class Filter(NamedTuple):
    """A filter's taps: the pixels −rh, …, −r, 0, r, …, rh around its own pixel, with dilation r."""

    size: int
    """q = 2h + 1, the number of taps, odd."""

    dilation: int = 1
    """r, pixels from one tap to the next."""

    n_axes: int = 1
    """The number of axes with `size` taps each: 1 of signals, 2 of images."""

    @property
    def reach(self) -> int:
        """rh, the pixels from the middle tap to either end."""
        return self.dilation * (self.size // 2)

    @property
    def offsets(self) -> range:
        """The pixels of all taps, counted from the filter's own pixel."""
        return range(-self.reach, self.reach + 1, self.dilation)

    @property
    def variance(self) -> float:
        """r² (q² − 1)/12, the mean square of the taps, in pixels²."""
        return self.dilation**2 * (self.size**2 - 1) / 12


class ConvolutionWeights(NamedTuple):
    """The weights and biases of a convolution: their filter and their variances."""

    filter: Filter
    variance: float
    """c_w or c_v, the variance of a weight times the number of inputs."""
    bias: float
    """The standard deviation of the biases."""


BRANCH_FACTOR, OUTER_VARIANCE, INNER_VARIANCE = ("alpha",), ("c_v",), ("c_w",)
"""The numbers of a `Layer` whose products are its `branch_factor`, `outer_variance` and
`inner_variance`."""

WEIGHT_VARIANCES = OUTER_VARIANCE + INNER_VARIANCE
"""The numbers of a `Layer` that multiply variances of weights; biases need them to be positive."""

BRANCH_POWERS = dict.fromkeys(BRANCH_FACTOR, 2) | dict.fromkeys(WEIGHT_VARIANCES, 1)
"""The numbers of a `Layer` that multiply its branch's variance, each with its power in β, as
messages name them."""


class Layer(NamedTuple):
    """The numbers of a layer: those that `Network` has for each layer, and what follows of them.

    Engines and the outputs of networks of finite width compute with `identity_factor`,
    `branch_factor`, `inner_variance` and `outer_variance`, and not with the numbers that these are
    made of; `finite.correction` alone computes with `c_v` and `c_w`.
    """

    inner: Filter
    """The filter before the activation; of layer 1 of size 1."""
    outer: Filter
    """The filter after the activation."""
    skip: bool
    """Whether it has the identity path."""
    alpha: float
    """The weight α of the branch; 1 without the identity path."""
    c_v: float
    """The variance of the outer weights."""
    c_w: float
    """The variance of the inner weights."""
    bias: float
    """The standard deviation of the biases."""
    activation_gain: Fraction
    """E[σ(u)²]/q of a ReLU of slope s, (1 + s²)/2; ½ of activations that are not homogeneous."""

    @property
    def inner_weights(self) -> ConvolutionWeights:
        """The weights W before the activation."""
        return ConvolutionWeights(self.inner, self.inner_variance, self.bias)

    @property
    def outer_weights(self) -> ConvolutionWeights:
        """The weights V behind the activation."""
        return ConvolutionWeights(self.outer, self.outer_variance, self.bias)

    @property
    def identity_factor(self) -> float:
        """The factor on the features that pass the layer: 1, or 0 without the identity path."""
        return float(self.skip)

    @property
    def branch_factor(self) -> float:
        """α, the factor on the branch in the features."""
        return math.prod(self.numbers(BRANCH_FACTOR).values(), start=1.0)

    @property
    def inner_variance(self) -> float:
        """c_w, the variance of the inner weights times the number of inputs."""
        return math.prod(self.numbers(INNER_VARIANCE).values(), start=1.0)

    @property
    def outer_variance(self) -> float:
        """c_v, the variance of the outer weights times the number of inputs."""
        return math.prod(self.numbers(OUTER_VARIANCE).values(), start=1.0)

    def numbers(self, names: Iterable[str]) -> dict[str, float]:
        """Return some of the layer's numbers by their names."""
        return {name: getattr(self, name) for name in names}

    @property
    def has_branch(self) -> bool:
        """True if the branch depends on the input: β is not 0."""
        return self.exact_branch_gain > 0

    @property
    def exact_identity_gain(self) -> Fraction:
        """The square of `identity_factor` without rounding: 1, or 0 without the identity path."""
        return Fraction(self.identity_factor) ** 2

    @property
    def keeps_features(self) -> bool:
        """True if the identity path passes features undiminished: `identity_factor` is at least 1.

        Then the layer does not decrease any variance.
        """
        return self.exact_identity_gain >= 1

    @property
    def branch_factor_squared(self) -> Fraction:
        """α² without rounding, the weight of the branch, its bias included, in variances."""
        return Fraction(self.branch_factor) ** 2

    @property
    def exact_branch_gain(self) -> Fraction:
        """β = α² c_v c_w (1 + s²)/2 without rounding."""
        weights = Fraction(self.outer_variance) * Fraction(self.inner_variance)
        return self.activation_gain * self.branch_factor_squared * weights

    @property
    def branch_gain(self) -> float:
        """β, rounded once: a ReLU branch adds β times the mean variance of F."""
        return float(self.exact_branch_gain)

    @property
    def growth(self) -> float:
        """1 + β, or β without the identity path: the growth of the mean variance of F."""
        return float(self.exact_identity_gain + self.exact_branch_gain)

    @property
    def branch_share(self) -> float:
        """β / (1 + β), or 1 without the identity path."""
        gain = self.exact_branch_gain
        identity = self.exact_identity_gain
        return float(gain / (identity + gain)) if identity else 1.0
