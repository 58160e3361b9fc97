"""Root masses with twice the digits, for the recursion of deficits.

The root mass of a pixel is √(q/2), q the variance of its features. Windows of proportional signals
have proportional root masses, and rounding errors would make them differ. The errors would have
one sign in all layers (docs/theory/deficits.md). Variances are therefore sums of two float64
numbers, and a root mass is a `Split`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ..arrays import Array, array_module, rounded_product
from ..network import Filter
from .boxes import merged, shifted
from .scaling import Scaling
from .signal_tables import read_input

_HIGH_BITS = {"float64": 26, "float32": 12}
"""Bits of the first number of a `Split`: products of two such numbers are exact."""


class Split(NamedTuple):
    """A number as the sum of `high`, of half the bits, and the rest `low`."""

    high: Any
    low: Any

    @property
    def rounded(self) -> Any:
        return self.high + self.low


def cross(a: Split, b: Split, other_a: Split, other_b: Split) -> Any:
    """Return a b' − a' b with an error of about eps² of its terms; exchanged sides negate it.

    The engine "numba" compiles the same formula (cpu/sums.py).
    """
    rests = _rest(a, other_b) - _rest(other_a, b)
    return (a.high * other_b.high - other_a.high * b.high) + rests


def _rest(a: Split, b: Split) -> Any:
    """Return a b without the product of both `high`, the same for exchanged a and b."""
    mixed = rounded_product(a.high, b.low) + rounded_product(a.low, b.high)
    return mixed + a.low * b.low


@dataclass(frozen=True)
class Mass:
    """Variances as sums `high` + `low` of float64 arrays, with a relative error of about 2^-100."""

    high: Array
    low: Array

    def __add__(self, other: Mass) -> Mass:
        high, error = _two_sum(self.high, other.high)
        return Mass(*_fast_two_sum(high, error + (self.low + other.low)))

    def times(self, factor: Any) -> Mass:
        """Return the masses times a float64 number, or times a number for each case."""
        high, error = two_product(self.high, factor)
        return Mass(*_fast_two_sum(high, error + self.low * factor))

    def shifted(self, shift: int, width: int | None = None) -> Mass:
        """Return the mass `shift` pixels on; in lines of images, if `width` is given."""
        high, low = (shifted(part, shift, width=width) for part in (self.high, self.low))
        return Mass(high, low)

    def summed(self, taps: Filter) -> Mass:
        """Return the sums over the windows of a filter, centred at each pixel."""
        return merged(self, taps, operator.add, Mass.shifted)

    @property
    def rounded_root(self) -> Array:
        """√(mass/2) in float64."""
        root: Array = array_module(self.high).sqrt(0.5 * self.high)
        return root

    @property
    def inverse_root(self) -> Array:
        """1/√mass in float64; 0 where the mass is 0."""
        xp, positive = array_module(self.high), self.high > 0
        inverse: Array = positive / xp.sqrt(xp.where(positive, self.high, 1.0))
        return inverse

    def root(self, dtype: np.dtype) -> Split:
        """Return √(mass/2) as two numbers of the working precision."""
        root, lost = self.times(0.5).exact_root()
        high = _high(root, _HIGH_BITS[dtype.name])
        return Split(high.astype(dtype), ((root - high) + lost).astype(dtype))

    def exact_root(self) -> tuple[Array, Array]:
        """Return √mass as a float64 number and what rounding took from it."""
        xp = array_module(self.high)
        root = xp.sqrt(self.high)
        square, error = two_product(root, root)
        lost = (self.high - square) - error + self.low
        return root, lost / xp.where(root > 0, 2.0 * root, 1.0)


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a + b, rounded, and the rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _fast_two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the same where |a| ≥ |b| (Dekker)."""
    total = a + b
    return total, b - (total - a)


def _high(a: Any, bits: int = 26) -> Any:
    """Return the first bits of float64 numbers, rounded (Veltkamp)."""
    scaled = (2.0 ** (53 - bits) + 1.0) * a
    return scaled - (scaled - a)


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a b, rounded, and the rounding error (Dekker)."""
    product, a_high, b_high = a * b, _high(a), _high(b)
    a_low, b_low = a - a_high, b - b_high
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


class ExactInput(NamedTuple):
    """The input's pixels of some signals."""

    unit_vectors: Array  # (features, d, cases), float64.
    rests: Array  # what rounding took from them.
    mass: Mass  # F⁰ at x = z, j = j', (d, cases), as `Input.variance`.
    bias: Mass  # the variance of the biases at each pixel, (d, cases).


def exact_unit_vectors(X: Array) -> tuple[Array, Array, Mass]:
    """Return unit vectors, what rounding took from them, and |x|², of vectors X, (features, …)."""
    squares = (Mass(*two_product(channel, channel)) for channel in X)
    energy = reduce(operator.add, squares)
    norm, lost = energy.exact_root()
    norm = array_module(X).where(norm > 0, norm, 1.0)
    vectors = X / norm
    product, error = two_product(vectors, norm)
    return vectors, ((X - product) - error - vectors * lost) / norm, energy


def read_exactly(scaling: Scaling, X: Array, windows: bool = True) -> ExactInput:
    """Return the input's pixels of signals (cases, channels, d).

    With `windows`, a pixel has the vector of its window of the input filter.
    """
    pixels = read_input(scaling, X, windows)
    vectors, rests, energy = exact_unit_vectors(pixels.vectors if windows else pixels.pixels)
    # Rounded alike with F⁰, by `unit`: the signal then has another size, and no other direction.
    bias = pixels.bias + array_module(X).zeros(pixels.variance.shape)
    return ExactInput(
        vectors, rests, energy.times(pixels.unit), Mass(*two_product(bias, bias)).times(pixels.unit)
    )


def mass_layers(scaling: Scaling, pixels: ExactInput) -> Iterator[tuple[Mass, Mass]]:
    """Yield the masses of Σ / unit and of F, (d, cases), in layers 0 … L of a ReLU network.

    Layer 0 has F⁰ in both places.
    """
    mass, biased = pixels.mass, scaling.network.bias > 0.0
    yield mass, mass
    for layer in range(1, scaling.depth + 1):
        window = mass.summed(scaling.inner_filter(layer))
        if biased:
            window = window + pixels.bias.times(scaling.biases[layer]["bias_window"])
        branch = window.times(scaling.layers[layer].half_factor)
        branch = branch.summed(scaling.outer_filter(layer))
        if biased:
            branch = branch + pixels.bias.times(scaling.biases[layer]["bias_branch"])
        mass = mass.times(scaling.step(layer)) + branch if scaling.network.skip else branch
        yield window, mass
