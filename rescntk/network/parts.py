"""Parts of a `Network`: the trained weights, its filters, and the numbers of a layer."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple


class TrainedParts(NamedTuple):
    """The parts of a network as numbers: 1 if the part is trained, 0 if it is not."""

    input: float
    """The weights of the input layer."""
    inner: float
    """The weights before the activations, with their biases."""
    outer: float
    """The weights after the activations, with their biases."""
    readout: float
    """The weights of the last, linear layer."""

    @property
    def initial(self) -> float:
        """[input] + [readout]: the multiple of F⁰ in the tangent kernel if it is 1 in F."""
        return self.input + self.readout

    @property
    def outer_plus_readout(self) -> float:
        """[outer] + [readout]: the multiple of the last K in the tangent kernel if it is 1 in F."""
        return self.outer + self.readout


class Filter(NamedTuple):
    """A filter, whose taps are the pixels −rh, …, −r, 0, r, …, rh relative to its own pixel.

    r is its dilation.
    """

    size: int
    """q = 2h + 1, the number of taps, which is odd."""
    dilation: int = 1
    """r, the number of pixels from one tap to the next."""
    n_axes: int = 1
    """The number of axes with `size` taps each: 1 for signals, 2 for images."""

    @property
    def reach(self) -> int:
        """rh, the number of pixels from the middle tap to the first or the last one."""
        return self.dilation * (self.size // 2)

    @property
    def offsets(self) -> range:
        """The positions of all taps relative to the filter's own pixel."""
        return range(-self.reach, self.reach + 1, self.dilation)

    @property
    def variance(self) -> float:
        """r² (q² − 1)/12, the mean of the squares of `offsets`."""
        return self.dilation**2 * (self.size**2 - 1) / 12


class ConvolutionWeights(NamedTuple):
    """The filter of a convolution, and the variances of its weights and biases."""

    filter: Filter
    variance: float
    """c_w or c_v, the variance of a weight times the number of inputs."""
    bias: float
    """The standard deviation of the biases."""


IDENTITY_FACTOR, BRANCH_FACTOR = ("skip",), ("alpha",)
"""The fields of `Layer` whose products are `identity_factor` and `branch_factor`."""

OUTER_VARIANCE, INNER_VARIANCE = ("c_v",), ("c_w",)
"""The fields of `Layer` whose products are `outer_variance` and `inner_variance`."""

WEIGHT_VARIANCES = OUTER_VARIANCE + INNER_VARIANCE
"""The fields of `Layer` that multiply variances of weights. Biases need them to be positive."""

BRANCH_POWERS = dict.fromkeys(BRANCH_FACTOR, 2) | dict.fromkeys(WEIGHT_VARIANCES, 1)
"""The fields of `Layer` that multiply the variance of its branch, and the power of each in β."""


class Layer(NamedTuple):
    """The numbers of a layer: the fields that `Network` has for it, and others computed from them.

    Engines and networks of finite width use `identity_factor`, `branch_factor`, `inner_variance`
    and `outer_variance`, and not the fields from which these are computed.
    """

    inner: Filter
    """The filter before the activation. In layer 1 its size is 1."""
    outer: Filter
    """The filter after the activation."""
    skip: bool
    """Whether the layer has the identity path."""
    alpha: float
    """α, the factor on the branch; 1 without the identity path."""
    c_v: float
    """The variance of the outer weights."""
    c_w: float
    """The variance of the inner weights."""
    bias: float
    """The standard deviation of the biases."""
    activation_gain: Fraction
    """E[σ(u)²]/q for u of variance q: (1 + s²)/2 for a ReLU of slope s. For activations that are
    not homogeneous it is ½."""

    @property
    def inner_weights(self) -> ConvolutionWeights:
        """The weights W and biases before the activation."""
        return ConvolutionWeights(self.inner, self.inner_variance, self.bias)

    @property
    def outer_weights(self) -> ConvolutionWeights:
        """The weights V and biases after the activation."""
        return ConvolutionWeights(self.outer, self.outer_variance, self.bias)

    @property
    def identity_factor(self) -> float:
        """The factor on the features on the identity path: 1, or 0 without this path."""
        return math.prod(self.numbers(IDENTITY_FACTOR).values(), start=1.0)

    @property
    def branch_factor(self) -> float:
        """α, the factor on the branch, which is then added to the features."""
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
        """Return the fields with the given names."""
        return {name: getattr(self, name) for name in names}

    @property
    def has_branch(self) -> bool:
        """True if the branch depends on the input: β is not 0."""
        return self.exact_branch_gain > 0

    @property
    def exact_identity_gain(self) -> Fraction:
        """The exact square of `identity_factor`: 1, or 0 without the identity path."""
        return Fraction(self.identity_factor) ** 2

    @property
    def keeps_features(self) -> bool:
        """True if the identity path passes features undiminished: `identity_factor` is at least 1.

        Then the layer does not decrease any variance.
        """
        return self.exact_identity_gain >= 1

    @property
    def branch_factor_squared(self) -> Fraction:
        """α², exact: the factor by which variances of the branch and its bias are multiplied."""
        return Fraction(self.branch_factor) ** 2

    @property
    def exact_branch_gain(self) -> Fraction:
        """β = α² c_v c_w (1 + s²)/2, exact."""
        weights = Fraction(self.outer_variance) * Fraction(self.inner_variance)
        return self.activation_gain * self.branch_factor_squared * weights

    @property
    def branch_gain(self) -> float:
        """β, rounded once: a ReLU branch adds β times the mean variance of the features."""
        return float(self.exact_branch_gain)

    @property
    def growth(self) -> float:
        """1 + β, or β without the identity path: by this the mean variance of features grows."""
        return float(self.exact_identity_gain + self.exact_branch_gain)

    @property
    def branch_share(self) -> float:
        """β / (1 + β), the share of the branch in the variance; 1 without the identity path."""
        gain = self.exact_branch_gain
        identity = self.exact_identity_gain
        return float(gain / (identity + gain)) if identity else 1.0
