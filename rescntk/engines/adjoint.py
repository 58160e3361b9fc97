"""The way back through all layers: derivatives of the kernels of a block of rows.

1. Forward, the block goes through the layers in deficits (deficits.py), which give sin θ of nearly
   parallel windows with all digits. Each layer keeps what the way back needs.
2. Back, the layers come in reverse order, with the adjoints of layer.py. F is (q1 + q2)/2 − D, and
   derivatives by q1 and q2 are at fixed D.

The result's own adjoint is 1; derivatives.py multiplies by the weights of pairs. Skip connections
carry the part `start` of this adjoint unchanged to the input. It is not added to F̄ and Ā of the
branches, because the mean of F⁰ over all pixel pairs may cancel (`Scaling.adds_mean`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..activations import DualInput, DualResult, Pixels
from ..arrays import Array
from ..network import Filter
from .deficits import DeficitRecursion, Masses, Parts
from .doubt import TIED
from .exact_sum import pairwise
from .layer import (
    add,
    correlate,
    correlate_adjoint,
    input_adjoint,
    lost_slope,
    tangent_branch,
    tangent_branch_adjoint,
    tangent_g_adjoint,
    times_slope_adjoint,
    times_slope_of,
)
from .signal_tables import joined_pixels

_ROOT2 = math.sqrt(2.0)


class _Passed(NamedTuple):
    """Quantities of a layer that the way back needs."""

    left: Pixels
    right: Pixels
    roots: tuple[Any, Any, Any]  # √q1, √q2 and their difference
    pair: DualInput
    branch: DualResult
    tangent_g: Any
    right_masses: Masses


class AdjointRecursion(DeficitRecursion):
    """The recursion of deficits on one block of rows, with its way back.

    Attributes
    ----------
    input : tuple of arrays
        The derivatives by the input at fixed variances, of `input_adjoint`, at the end of
        `adjoints`. Without the part of `start` where the mean of F⁰ is added to results. Vectors
        are unit vectors of pixels (`turns`); else the signals themselves, and b and b' are 0.
    sign : array or float
        −1 where δ is the sum of both vectors.
    by_alpha, by_bias : array, (left case, row, 1)
        Derivatives at fixed variances by log α² and by log β, at the end of `adjoints`.
    """

    input: tuple[Any, Any, Any, Any]

    def __init__(self, *arguments: Any, **inputs: Any) -> None:
        super().__init__(*arguments, **inputs)
        self._rests = [
            joined_pixels(signals.rests for signals in side) for side in inputs["inputs"]
        ]
        self.passed: list[_Passed] = []
        self.linear_share = getattr(self.constants[-1], "linear_share", 0.0)
        # Layer 1 correlates the pixels themselves.
        self.turns = self.scaling.input_filter.size == 1 and not self.biased
        self._kappa: Any = 0.0
        # Root masses have twice the digits: what lies below is a rounding error in any precision.
        self._tied = TIED * self.scaling.depth * float(np.finfo(np.float64).eps)
        self.sign: Any = 1.0
        self.by_alpha: Any = 0.0
        self.by_bias: Any = 0.0

    def _half_square(self, combine: Callable[[Array, Array], Array]) -> Array:
        """Return |û ± v̂|²/2 with twice the digits of unit vectors."""

        def square(k: int) -> Any:
            term = combine(self.left.axes(left[k]), self.right.axes(right[k]))
            lost = combine(self.left.axes(left_lost[k]), self.right.axes(right_lost[k]))
            return (term + lost) * (term + lost)

        (left, right), (left_lost, right_lost) = self._unit_vectors, self._rests
        return 0.5 * pairwise(square(k) for k in range(len(left)))

    def _correlate_unit_vectors(self) -> tuple[Array, Array]:
        """Return w and v of the input's windows, of which single pixels are the parts."""
        w, v = super()._correlate_unit_vectors()
        if self.scaling.input_filter.size == 1:
            return w, v
        left_root, right_root = (
            self._root(side, masses).rounded
            for side, masses in zip((self.left, self.right), self._masses, strict=True)
        )
        g = 2.0 * left_root * right_root
        window = self._merged(Parts(g * w, g * v, *self._masses), self.scaling.input_filter)
        self._masses = [window.left, window.right]
        inverse = self.left.layer(0).inverse * self.right.layer(0).inverse
        return correlate(window.deficit, inverse), correlate(window.opposite, inverse)

    def _correlate(self, layer: int, left: Pixels, right: Pixels, w: Array, v: Array) -> DualInput:
        """Return the correlations; windows without variance have ρ = 0, the mean over all ρ."""
        pair = super()._correlate(layer, left, right, w, v)
        has_variance = pair.half_g > 0
        if not has_variance.all():
            one = pair.half_g.dtype.type(1.0)
            w, v = (self.xp.where(has_variance, each, one) for each in (pair.w, pair.v))
            pair = pair._replace(w=w, v=v)
        self._at = left, right, self._roots(self._window.left, self._window.right)
        return pair

    def _roots(self, left: Masses, right: Masses) -> tuple[Any, Any, Any]:
        """Return √q of both sides and their difference, which has all its digits."""
        left_root, right_root = self._root(self.left, left), self._root(self.right, right)
        difference = (left_root.high - right_root.high) + (left_root.low - right_root.low)
        return _ROOT2 * left_root.rounded, _ROOT2 * right_root.rounded, _ROOT2 * difference

    def _add_branch(
        self, layer: int, pair: DualInput, branch: DualResult, tangent_g: Array | None
    ) -> None:
        self.passed.append(_Passed(*self._at, pair, branch, tangent_g, self._window.right))
        super()._add_branch(layer, pair, branch, tangent_g)

    def adjoints(self) -> Iterator[tuple[int, Array, Array]]:
        """Yield the layers L … 0 with the derivatives by variances of both sides, after `kernels`.

        The variances of layer 0 are |x|² of the input, times `Input.unit`.
        """
        start, initial = self._start(), self._initial if self.want_ntk else 1.0
        features: Any = 0.0
        tangent: Any = 0.0
        for number in range(len(self.passed), 0, -1):
            constants, passed = self.constants[number], self.passed.pop()
            outer, inner = self.scaling.outer_filter(number), self.scaling.inner_filter(number)
            identity = self._box_adjoint(start, outer)
            phi, beta = (self._box_adjoint(state, outer) for state in (features, tangent))
            if self.want_ntk:
                beta, identity = identity + beta, 0.0
            self._add_by_alpha(number, passed, identity, beta, phi)
            if self.biased:
                self._add_by_bias(number, start, tangent, features)
            *of_sides, Sigma, turned = self._layer(number, passed, identity, beta, phi)
            yield number, *of_sides
            if self.biased:
                bias = constants.bias_window * (2.0 * self._bias_distance * -Sigma)
                readout_bias = 2.0 * self.network.parts.readout * constants.bias_window
                bias = bias + readout_bias * self._bias_product * turned
                self.by_bias = self.by_bias + self._over_pixels(bias)
            features = add(features, self._box_adjoint(Sigma, inner), constants.skip_scale)
            tangent = add(tangent, self._box_adjoint(turned, inner), constants.skip_scale)
            start = constants.skip_scale * start
        more = initial * tangent
        if not self.scaling.adds_mean:
            more = more + initial * start
        zero, window = self.xp.zeros_like(passed.pair.w), self.scaling.input_filter
        more = self._box_adjoint(zero + more, window)
        features = self._box_adjoint(zero + features, window) + more
        if self.turns:
            roots = self._roots(*self._masses)
            w, v = passed.pair.w, passed.pair.v
            self.input = input_adjoint(features, self._kappa, w, v, roots)
            self.sign = self.xp.where(w < v, 1.0, -1.0)
        else:
            self.input = features, 0.0, features, 0.0
        yield 0, 0.5 * more, 0.5 * more  # F̄ is at fixed D already

    def _start(self) -> Array:
        """Return the derivative of a pair's kernel by the kernel at its pixel pairs."""
        rows, dtype = self.rows, self.scaling.dtype
        if self.scaling.equivariant:
            start = self.xp.zeros((rows.left, 1, len(rows.case), 1), dtype)
            start[0] = 1.0
            return start
        pixel_pairs = np.full(len(rows.case), rows.left)
        if self.request.head == "gap":
            pixel_pairs *= rows.rights[rows.case]
        return self.xp.asarray(1.0 / pixel_pairs, dtype)[:, None]

    def _box_adjoint(self, adjoint: Any, window: Filter) -> Any:
        """Return the adjoint of a box: filters are symmetric, and the box is its own adjoint."""
        if np.ndim(adjoint) < 4:  # the same for all pixels
            return window.n_taps * adjoint
        return self._box(adjoint, window)

    def _layer(
        self, number: int, passed: _Passed, identity: Any, beta: Any, phi: Any
    ) -> tuple[Any, ...]:
        """Return the derivatives by q1 and q2, Σ̄ and Ā_g of a layer.

        `beta` is box(Ā), `phi` box(F̄) without `identity`, the part that has come unchanged.
        """
        left, right, (root1, root2, difference), pair, branch, tangent_g, _ = passed
        constants, w, v = self.constants[number], pair.w, pair.v
        curvature = constants.half_factor * (1.0 - self.linear_share) / math.pi
        sine = self.xp.sqrt(w * v)
        lost = lost_slope(branch.k0, w, v, constants, self.linear_share)
        kappa: Any = 0.0
        turned: Any = 0.0
        if tangent_g is None:
            slope = times_slope_of(lost, identity, constants)
        else:
            apart = self.xp.minimum(w, v) > self._tied * self._tied
            cosecant = self.xp.where(apart, 1.0 / self.xp.where(apart, sine, 1.0), 0.0)
            inverse = left.inverse * right.inverse
            kappa = beta * times_slope_adjoint(tangent_g, inverse, cosecant, curvature)
            if number == 1 and self.turns:  # `input_adjoint` takes it
                self._kappa, kappa = kappa, 0.0
            turned = times_slope_of(lost, beta, constants)
            slope = tangent_g_adjoint(turned, constants)
        Sigma = slope + kappa + times_slope_of(lost, phi, constants)
        slope = slope - lost * phi
        curved = curvature * sine * tangent_branch_adjoint(beta, identity + phi, constants)
        along = curved + w * kappa
        of_left = correlate_adjoint(slope, along, kappa, difference, root2, left.inverse)
        of_right = correlate_adjoint(slope, along, kappa, -difference, root1, right.inverse)
        return 0.5 * of_left, 0.5 * of_right, Sigma, turned

    def _add_by_alpha(
        self, number: int, passed: _Passed, identity: Any, beta: Any, phi: Any
    ) -> None:
        """Add the part of a layer's branch, which is proportional to α²."""
        constants, branch = self.constants[number], passed.branch
        distance = (
            0.5 * constants.half_factor * (passed.roots[2] * passed.roots[2])
            + branch.branch_distance
        )
        total = identity * branch.K - phi * distance
        if passed.tangent_g is not None:
            turned = branch.times_slope(passed.tangent_g)
            total = total + beta * tangent_branch(turned, branch.K, constants)
        self.by_alpha = self.by_alpha + self._over_pixels(total)

    def _add_by_bias(self, number: int, start: Any, tangent: Any, features: Any) -> None:
        """Add the parts of the biases of a layer's branch, which are proportional to α² too."""
        constants = self.constants[number]
        product, distance = self._bias_product, self._bias_distance
        if self.want_ntk:
            total = constants.outer_plus_readout * product * (start + tangent)
        else:
            total = product * start
        total = constants.bias_branch * (total - distance * features)
        total = self._over_pixels(total)
        self.by_alpha = self.by_alpha + total
        self.by_bias = self.by_bias + 2.0 * total

    def _over_pixels(self, values: Any) -> Any:
        """Return sums over the pixels of rows, (left case, row, 1), in float64."""
        if np.ndim(values) < 4:  # the same for all pixels
            return self.rows.left * np.asarray(values, np.float64)
        return values.sum(axis=0, dtype=np.float64)
