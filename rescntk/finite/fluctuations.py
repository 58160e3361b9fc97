r"""How the kernels of one layer fluctuate, and what the steps of the next layer make of it.

Of a layer of n units f_i, a and b are two of its points: the pixels of one signal, or of two. The
features of a sampled network have ::

    F̂_ab = (1/n) Σ_i f_i(a) f_i(b),        Θ̂_ij(a, b) = ⟨∂_θ f_i(a), ∂_θ f_j(b)⟩,

and T̂_ab is the mean of Θ̂_ii(a, b) over the units. To order 1/n, a `State` has the means of F̂ and
T̂, their shifts and covariances, and what units i ≠ j have in common. Each step (`Normalization`,
`Convolution`, `Activation`) takes a state and returns the one behind it, and `add_branch` joins the
two paths of a layer: docs/theory/depth_and_width.md derives them.

Arrays of a batch of signals, or of pairs of them, have P points and the batch as their last axis.
"""

from __future__ import annotations

import math
from itertools import product
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from ..arrays import Array
from ..network.parts import ConvolutionWeights, Filter
from .moments import TwoNumbers, of_four_numbers, quotient

Slopes: TypeAlias = "tuple[Array, Array, Array]"
"""Derivatives of a function of F_aa, F_ab and F_bb by each of them, (P, P, B)."""


class State(NamedTuple):
    """The kernels of a layer's units, and, times the width, their fluctuations to first order.

    The units are features or activations, which weights read, or numbers behind weights, which are
    independent given the layer below. Of the latter, `covariance` is that of their variances and
    tangent kernels given the layer below, and `mixed` and `squares` are means over units i ≠ j.
    """

    kernels: Array
    """(2, P, P, B): F, and T."""
    shift: Array
    """(2, P, P, B): the means of F̂ and T̂ less F and T, times n."""
    covariance: Array
    """(2, P, P, 2, P, P, B): the covariances of F̂ and T̂, times n."""
    mixed: Array
    """(P, P, P, P, B): n times the mean of f_i(ξ) f_j(ζ) Θ̂_ij(a, b), over ξ, ζ, a and b."""
    squares: Array
    """(P, P, P, P, B): n times the mean of Θ̂_ij(a, b) Θ̂_ij(c, d), over a, b, c and d."""


class Points:
    """The pixels of `n_signals` signals of the given axes, one signal after the other."""

    def __init__(self, n_signals: int, axes: tuple[int, ...]) -> None:
        self.axes, self.size = axes, n_signals * math.prod(axes)
        self._numbers = np.arange(self.size).reshape(n_signals, *axes)

    def box(self, values: Array, mean_of: Filter, one: int = 0, other: int = 1) -> Array:
        """Return means over the taps of a filter, which moves the points of two axes together."""
        if mean_of.size == 1:
            return values
        axes = tuple(range(1, 1 + len(self.axes)))
        total = np.zeros_like(values)
        for tap in product(mean_of.offsets, repeat=len(axes)):
            moved = np.roll(self._numbers, [-offset for offset in tap], axes).ravel()
            total += values.take(moved, axis=one).take(moved, axis=other)
        return total / mean_of.size ** len(axes)


def fixed(F: Array, trained: float) -> State:
    """Return the state of a signal itself, or of units in the limit of infinite width.

    `trained` is the multiple of F in their tangent kernel.
    """
    size = len(F)
    four = np.zeros((size,) * 4 + F.shape[2:])
    kernels = np.stack([F, trained * F])
    covariance = np.zeros((2, size, size, 2, size, size, *F.shape[2:]))
    return State(kernels, np.zeros_like(kernels), covariance, four, four)


def features(state: State) -> State:
    """Return the state of n units that are Gaussian with the variances of `state`."""
    F, T = state.kernels
    covariance = state.covariance.copy()
    covariance[0, :, :, 0] += _product(F, F, "ac,bd") + _product(F, F, "ad,bc")
    mixed, squares = state.mixed + _product(F, T), state.squares + _product(T, T)
    return state._replace(covariance=covariance, mixed=mixed, squares=squares)


class Convolution:
    """Weights, which read the units of a layer, and their biases."""

    def __init__(
        self, points: Points, weights: ConvolutionWeights, trained: float, factor: float = 1.0
    ) -> None:
        self._points, self._filter, self._trained = points, weights.filter, trained
        self._scale, self._of_bias = factor * weights.variance, factor * np.square(weights.bias)

    def behind(self, state: State) -> State:
        """Return the state of the numbers behind the weights."""
        kernels = self.derivative(state.kernels)
        kernels += self._of_bias * np.reshape([1.0, self._trained], (2, 1, 1, 1))
        shift, covariance = self.derivative(state.shift), both_sides(self, state.covariance)
        mixed, squares = (self._of_pairs(values) for values in (state.mixed, state.squares))
        return State(kernels, shift, covariance, mixed, squares)

    def derivative(self, values: Array) -> Array:
        """Return what changes (2, P, P, …) of the kernels become behind the weights."""
        F, T = (self._scale * self._points.box(kernel, self._filter) for kernel in values)
        return np.stack([F, T + self._trained * F])

    def _of_pairs(self, values: Array) -> Array:
        left = self._points.box(values, self._filter, 0, 2)
        return np.square(self._scale) * self._points.box(left, self._filter, 1, 3)

    def beside(self, mixed: Array, squares: Array) -> tuple[Array, Array]:
        """Return `mixed` and `squares` of units i of features, and of numbers j behind weights."""
        one, other = (self._points.box(values, self._filter, 1, 3) for values in (mixed, squares))
        return self._scale * one, self._scale * other


class Normalization:
    """Features divided by their root mean square over the units, at each point."""

    def __init__(self, kernels: Array) -> None:
        F, T = kernels
        size, every = len(F), np.arange(len(F))
        self._F, self._variance = F, F[every, every]
        self._inverse = quotient(np.ones_like(self._variance), np.sqrt(self._variance))
        self._sizes = self._inverse[:, None] * self._inverse[None]
        self._rho, self._T = F * self._sizes, T * self._sizes
        self._slopes = _of_correlation(self._variance, self._rho)
        left, _, right = _of_correlation(self._variance, self._T)
        self._of_sizes = left, np.zeros((size, size, 1)), right

    def behind(self, state: State) -> State:
        """Return the state of the divided features."""
        kernels = np.stack([self._rho, self._T])
        shift = self.derivative(state.shift) + self._curvature(state)
        covariance = both_sides(self, state.covariance)
        four = self._sizes[:, :, None, None] * self._sizes
        # A change of f_k(a) also changes the size by which f_i(a) is divided.
        left, right = self._parallel(state.mixed)
        both = self._parallel(left)[1]
        mixed = (state.mixed - left - right + both) * four
        return State(kernels, shift, covariance, mixed, state.squares * four)

    def derivative(self, values: Array) -> Array:
        """Return what changes (2, P, P, …) of the kernels become."""
        F, T = values
        of_T = _push(self._of_sizes, F) + _expanded(self._sizes, T) * T
        return np.stack([_push(self._slopes, F), of_T])

    def _parallel(self, mixed: Array) -> tuple[Array, Array]:
        """Return the parts of `mixed` along f_i(a), and along f_j(b)."""
        share, points = self._F * self._inverse[None] ** 2, np.arange(len(self._F))
        left = mixed[points, :, points]  # (a, ζ, b)
        right = mixed[:, points, :, points]  # (b, ξ, a)
        return (
            np.einsum("xa...,azb...->xzab...", share, left),
            np.einsum("zb...,bxa...->xzab...", share, right),
        )

    def _curvature(self, state: State) -> Array:
        """Return what second derivatives add to the shifts, and units' parts of their own size."""
        changes = _RelativeChanges(state.covariance, self._variance, self._sizes)
        of_T = self._T * changes.inverse_size - 0.5 * changes.with_T
        a, b = np.ogrid[: len(self._F), : len(self._F)]
        of_a, of_b = (values**2 for values in (self._inverse[:, None], self._inverse[None]))
        own = self._F * state.mixed[a, b, a, b] * of_a * of_b
        own = own - state.mixed[a, a, a, b] * of_a - state.mixed[b, b, a, b] * of_b
        return np.stack([changes.rho_shift(self._rho), of_T + self._sizes * own])

    def beside(self, mixed: Array, squares: Array) -> tuple[Array, Array]:
        """Return `mixed` and `squares` of units i of features, and of divided ones j."""
        _, parallel = self._parallel(mixed)
        return (mixed - parallel) * self._sizes[:, None], squares * self._sizes[:, None]


class Activation:
    """ReLU of numbers that are Gaussian given the layer below."""

    def __init__(self, kernels: Array) -> None:
        F, self._T = kernels
        self.two = two = TwoNumbers(F)
        # The derivative of E[σ'σ'] by ρ; numbers that are multiples of each other remain so.
        self._by_rho = quotient(np.ones_like(two.sine), 2.0 * math.pi * two.sine)
        self._by_rho[two.in_line] = 0.0
        of_variance = quotient(two.std[None], two.std[:, None]) * two.sine / (4.0 * math.pi)
        self._slopes = of_variance, two.slopes, np.swapaxes(of_variance, 0, 1)
        left, between, right = _of_correlation(two.variance, two.rho)
        self._of_slopes = self._by_rho * left, self._by_rho * between, self._by_rho * right

    def behind(self, state: State) -> State:
        """Return the state of the activations."""
        two, T, four = self.two, self._T, of_four_numbers(self.two)
        kernels = np.stack([two.products, two.slopes * T])
        shift = self.derivative(state.shift) + self._curvature(state)
        covariance = both_sides(self, state.covariance)
        mean, slopes = two.products, two.slopes
        covariance[0, :, :, 0] += four.products - _product(mean, mean)
        mixed = T * (four.mixed - _product(mean, slopes))
        covariance[0, :, :, 1] += mixed
        covariance[1, :, :, 0] += swapped(mixed)
        tangents = _product(T, T)
        covariance[1, :, :, 1] += tangents * (four.slopes - _product(slopes, slopes))
        return State(
            kernels,
            shift,
            covariance,
            four.mixed * T + self._left(self._right(state.mixed)),
            four.slopes * tangents + self._slopes_of(self._slopes_of(state.squares, 0), 1),
        )

    def derivative(self, values: Array) -> Array:
        """Return what changes (2, P, P, …) of the kernels become behind the activation."""
        F, T = values
        of_T = _expanded(self._T, F) * _push(self._of_slopes, F)
        of_T = of_T + _expanded(self.two.slopes, T) * T
        return np.stack([_push(self._slopes, F), of_T])

    def _curvature(self, state: State) -> Array:
        """Return what second derivatives add to the shifts.

        Units' own tangent kernels vary with their numbers: `mixed` has how.
        """
        two, T = self.two, self._T
        inverse = quotient(np.ones_like(two.stds), two.stds)
        changes = _RelativeChanges(state.covariance, two.variance, inverse)
        of_rho = 0.5 * changes.rho_variance(two.rho)
        of_sizes = two.sine * changes.difference / (16.0 * math.pi)
        products = two.stds * (of_rho * self._by_rho - of_sizes)
        curvature = (2.0 * math.pi) ** 2 * two.rho * self._by_rho**3  # of E[σ'σ'], by ρ
        slopes = self._by_rho * changes.rho_shift(two.rho) + curvature * of_rho
        a, b = np.ogrid[: len(T), : len(T)]
        together = _push(self._of_slopes, state.covariance[0, :, :, 1])[a, b, a, b]
        left, between, right = self._of_slopes
        mixed = state.mixed
        own = 2.0 * (left * mixed[a, a, a, b] + right * mixed[b, b, a, b])
        own = own + between * (mixed[a, b, a, b] + mixed[b, a, a, b])
        return np.stack([products, T * slopes + together + own])

    def _right(self, mixed: Array) -> Array:
        """Return `mixed` with σ(g_j(ζ)) σ'(g_j(b)) in the place of g_j(ζ)."""
        points = np.arange(len(mixed))
        at_b = mixed[:, points, :, points]  # (b, ξ, a)
        return self.two.slopes[:, None] * mixed + np.einsum(
            "zb...,bxa...->xzab...", self.two.of_steps, at_b
        )

    def _left(self, mixed: Array) -> Array:
        """Return `mixed` with σ(g_i(ξ)) σ'(g_i(a)) in the place of g_i(ξ)."""
        return other_way(self._right(other_way(mixed)))

    def _slopes_of(self, squares: Array, side: int) -> Array:
        """Return `squares` times the mean of two slopes, at the points of one side."""
        return squares * np.expand_dims(self.two.slopes, (1, 3) if side == 0 else (0, 2))

    def beside(self, mixed: Array, squares: Array) -> tuple[Array, Array]:
        """Return `mixed` and `squares` of units i of features, and of activations j."""
        return self._right(mixed), self._slopes_of(squares, 1)


def scaled(state: State, factor: float) -> State:
    """Return the state of units that are multiplied by the root of `factor`."""
    kernels, shift, *others = state
    square = np.square(factor)
    return State(factor * kernels, factor * shift, *(square * values for values in others))


Step: TypeAlias = Normalization | Convolution | Activation


class Linearized(Protocol):
    """A step, or the readout."""

    def derivative(self, values: Array) -> Array:
        """Return what changes (2, P, P, …) of the kernels become."""


def add_branch(below: State, branch: State, steps: list[Step], factor: float) -> State:
    """Return the state of the features behind a layer: `factor` times those below, and a branch.

    The branch is in the form behind its last weights. `steps` are what leads to it from the
    features below; there are none where the branch reads the signal itself.
    """
    passing = factor**2
    (F, T), (of_F, of_T) = below.kernels, branch.kernels
    total = features(branch)
    covariance = passing**2 * below.covariance + total.covariance
    for places in ("ac,bd", "ad,bc"):
        both = _product(F, of_F, places) + _product(of_F, F, places)
        covariance[0, :, :, 0] += passing * both
    mixed = _product(F, of_T) + _product(of_F, T)
    squares = _product(T, of_T) + _product(of_T, T)
    if steps:
        together = through(steps, below.covariance)
        covariance += passing * (together + swapped(together))
        left, right = below.mixed, below.squares
        for step in steps:
            left, right = step.beside(left, right)
        mixed, squares = mixed + left + other_way(left), squares + right + other_way(right)
    return State(
        passing * below.kernels + branch.kernels,
        passing * below.shift + branch.shift,
        covariance,
        passing**2 * below.mixed + total.mixed + passing * mixed,
        passing**2 * below.squares + total.squares + passing * squares,
    )


def through(steps: list[Step], values: Array) -> Array:
    """Return what changes (2, P, P, …) of the kernels become behind some steps."""
    for step in steps:
        values = step.derivative(values)
    return values


def both_sides(step: Linearized, covariance: Array) -> Array:
    """Return a covariance behind a step, to first order in the kernels in front of it."""
    return swapped(step.derivative(swapped(step.derivative(covariance))))


def swapped(values: Array) -> Array:
    """Return values with the two pairs of points exchanged."""
    half = (values.ndim - 1) // 2
    return np.moveaxis(values, range(half), range(half, 2 * half))


def other_way(values: Array) -> Array:
    """Return `mixed` or `squares` with the units i and j exchanged."""
    return values.swapaxes(0, 1).swapaxes(2, 3)


def _product(A: Array, B: Array, places: str = "ab,cd") -> Array:
    """Return A B with the axes abcd, where A and B have the axes of `places`."""
    one, other = places.split(",")
    return np.einsum(f"{one}...,{other}...->abcd...", A, B)


def _expanded(coefficients: Array, values: Array) -> Array:
    """Return (P, P, B) with axes between, as `values` have them."""
    between = tuple(range(2, values.ndim - 1))
    return np.expand_dims(coefficients, between)


def _push(slopes: Slopes, values: Array) -> Array:
    """Return changes of a function of F_aa, F_ab and F_bb, for changes (P, P, …) of F."""
    points = np.arange(len(values))
    at_one = values[points, points]
    left, between, right = (_expanded(slope, values) for slope in slopes)
    return left * at_one[:, None] + between * values + right * at_one[None]


def _of_correlation(variance: Array, values: Array) -> Slopes:
    """Return the derivatives of F_ab/√(F_aa F_bb), whose value is given."""
    inverse = quotient(np.ones_like(variance), variance)
    between = np.sqrt(inverse[:, None] * inverse[None])
    return -0.5 * values * inverse[:, None], between, -0.5 * values * inverse[None]


class _RelativeChanges:
    """Covariances of the relative changes of F_aa, F_ab and F_bb, each (P, P, B).

    Those of F_ab are relative to √(F_aa F_bb), and `sizes` are the inverses of these.
    """

    def __init__(self, covariance: Array, variance: Array, sizes: Array) -> None:
        FF, FT = covariance[0, :, :, 0], covariance[0, :, :, 1]
        a, b = np.ogrid[: len(FF), : len(FF)]
        inverse = quotient(np.ones_like(variance), variance)
        of_a, of_b = inverse[:, None], inverse[None]
        ab = (FF[a, a, a, b] * of_a + FF[a, b, b, b] * of_b) * sizes
        ab_ab, aa_bb = FF[a, b, a, b] * sizes**2, FF[a, a, b, b] * of_a * of_b
        both = FF[a, a, a, a] * of_a**2 + FF[b, b, b, b] * of_b**2
        self._ab, self._ab_ab = ab, ab_ab
        self._sum, self.difference = both + 2.0 * aa_bb, both - 2.0 * aa_bb
        """Variances of the sum and of the difference of both variances."""
        self.inverse_size = 0.25 * both + 0.125 * self._sum
        """The mean of second derivatives of 1/√(F_aa F_bb), over its value."""
        self.with_T = (FT[a, a, a, b] * of_a + FT[b, b, a, b] * of_b) * sizes
        """The covariance of T_ab with the sum of both variances."""

    def rho_variance(self, rho: Array) -> Array:
        """Return the variance of F_ab/√(F_aa F_bb), whose mean is `rho`."""
        return self._ab_ab - rho * self._ab + 0.25 * rho**2 * self._sum

    def rho_shift(self, rho: Array) -> Array:
        """Return what second derivatives add to the mean of F_ab/√(F_aa F_bb)."""
        return rho * self.inverse_size - 0.5 * self._ab


class Readout:
    """The head's linear layer, which reads the units of the last layer. Its points are signals."""

    def __init__(self, weights: Array, scale: float, trained: float) -> None:
        """Of `weights` (d, d), by which the kernel at pixels of two signals enters theirs."""
        self._weights, self._scale, self._trained = weights, scale, trained

    def behind(self, state: State) -> State:
        """Return the state of the outputs; in `mixed` and `squares` they are of one network."""
        kernels, shift = self.derivative(state.kernels), self.derivative(state.shift)
        covariance = both_sides(self, state.covariance)
        mixed, squares = (self._of_pairs(values) for values in (state.mixed, state.squares))
        return State(kernels, shift, covariance, mixed, squares)

    def derivative(self, values: Array) -> Array:
        """Return what changes (2, P, P, …) of the kernels become, (2, n_signals, n_signals, …)."""
        F, T = (self._sum(kernel, 0, 1) for kernel in values)
        return np.stack([F, T + self._trained * F])

    def _of_pairs(self, values: Array) -> Array:
        return self._sum(self._sum(values, 0, 2), 1, 3)

    def _sum(self, values: Array, one: int, other: int) -> Array:
        """Return sums over the pixels of signals along two axes, which then are of signals."""
        d = len(self._weights)
        moved = np.moveaxis(values, (one, other), (0, 1))
        n_signals = len(moved) // d
        pixels = moved.reshape(n_signals, d, n_signals, d, *moved.shape[2:])
        total = self._scale * np.einsum("xjzk...,jk->xz...", pixels, self._weights)
        return np.moveaxis(total, (0, 1), (one, other))
