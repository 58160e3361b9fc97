"""The recursion of one pair of signals in JAX.

Variances and rows of both signals are computed with the pair, so that JAX differentiates them too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from itertools import groupby
from math import frexp
from operator import mul
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from numpy.typing import DTypeLike

from ...lazy import once
from ...network.activations import Activation, activation_of
from ..heads import pool_pixels, pool_weights, right_pixels
from ..layer.constants import LayerConstants
from ..layer.means import compensated_sum, from_the_middle, pooled, weighted_mean
from ..layer.operations import Operation, Operations
from ..layer.recursion import by_kind, pairs_after_layer
from ..layer.step import (
    Deficits,
    DualPairs,
    Kernels,
    PairContext,
    PairState,
    Variances,
    mapped,
)
from ..layer.taps import Taps
from ..layer.weights import RoundedWeights
from .numbers import k0_of, k1_of, normal, read_scaled, safe_quotient, safe_root, scaled


class Signal(NamedTuple):
    """A signal (channels, *pixels), divided by a power of two.

    The power is near the largest number among the absolute values of the signal, the standard
    deviation of the biases, and 1, that of normalized features. If layer 1 forgets sizes
    (`NetworkConstants.forgets_size`), the power is near the largest absolute value of the signal,
    and biases and normalized features are not divided by it.
    """

    unit: jax.Array
    """(channels, *pixels), each pixel's vector divided by its norm."""
    scaled: jax.Array
    """(channels, *pixels), the divided signal, multiplied by the square root of the network's input
    scale. The inner products of pixels over channels are F⁰ before the input filter."""
    means: jax.Array
    """The means of `scaled`: (channels,), over all pixels, or for pooled heads (channels, *pixels),
    over the pool of each pixel."""
    input_variance: jax.Array
    """(*pixels), the variance of each pixel, F⁰ at x = z, before the input filter."""
    exponent: jax.Array
    """(), an exponent: kernels must be multiplied by this power of two of each signal. It is 0 if
    layer 1 forgets sizes."""
    bias: jax.Array
    """(), the largest standard deviation of biases, divided by 2^exponent."""
    norm_std: jax.Array
    """(), the standard deviation of normalized features, which is 1, divided by 2^exponent."""


def read_signal(operations: Operations, head: str | int, x: jax.Array) -> Signal:
    """Return the `Signal` of an array (channels, *pixels)."""
    network, forgets = operations.network, operations.constants.forgets_size
    mantissa, bias_exponent = frexp(operations.constants.largest_bias)
    values, exponents = normal(lax.stop_gradient(x))
    zero_exponent = -(2**14)  # stands for the number 0
    exponents = jnp.where(values == 0, zero_exponent, jnp.frexp(values)[1] - 1 + exponents)
    least_of_bias = bias_exponent - 1 if mantissa else zero_exponent
    least_of_norm = 0 if network.norm else zero_exponent
    least = zero_exponent if forgets else max(least_of_bias, least_of_norm)
    exponent = jnp.maximum(exponents.max(), least)
    exponent = jnp.where(exponent == zero_exponent, 0, exponent)
    x = read_scaled(x, -exponent)
    exponent = jnp.zeros_like(exponent) if forgets else exponent
    bias = scaled(jnp.asarray(mantissa, x.dtype), bias_exponent - exponent)
    norm_std = scaled(jnp.ones((), x.dtype), -exponent)
    squares = (x * x).sum(axis=0)
    input_scale = network.factor_of_input(len(x))
    unit = safe_quotient(x, safe_root(squares)[None])
    flat, root = x.reshape(len(x), -1), input_scale**0.5
    sums = (
        compensated_sum(jnp, flat) if operations.constants.needs_exact_means else flat.sum(axis=1)
    )
    means = root * sums / flat.shape[1]
    if not isinstance(head, str):
        means = root * pooled(jnp, x, pool_pixels(head, x.shape[1:]))
    return Signal(
        unit=unit,
        scaled=root * x,
        means=means,
        input_variance=input_scale * squares,
        exponent=exponent,
        bias=bias,
        norm_std=norm_std,
    )


class LayerNumbers(NamedTuple):
    """The numbers by which the layers of one scan differ.

    They are arrays, so that JAX compiles the layers once for all values.
    """

    input_weight: jax.Array
    """The weight of F⁰ in the features before the layer."""
    inner_bias: jax.Array
    """`NetworkConstants.bias_std` of the biases before the activation."""
    outer_bias: jax.Array
    """`NetworkConstants.bias_std` of the biases after the activation."""
    feature_weight: jax.Array
    """f, the weight of the features in the skip connection."""
    branch_weight: jax.Array
    """b, the weight of the branch."""

    def selected(self, layers: int | slice) -> LayerNumbers:
        """Return the numbers of one layer, or of several layers, from those of all layers."""
        return LayerNumbers(*(values[layers] for values in self))


def _numbers_of_layers(operations: Operations, dtype: DTypeLike) -> LayerNumbers:
    """Return the numbers of layers 1 … depth, as arrays (depth,)."""
    constants, every_layer = operations.constants, []
    for layer_number in range(1, operations.depth + 1):
        weights = constants.of_layer(layer_number).weights.rounded
        every_layer.append(
            LayerNumbers(
                input_weight=constants.input_weight(layer_number - 1),
                inner_bias=constants.bias_std(layer_number),
                outer_bias=constants.bias_std(layer_number, after_activation=True),
                feature_weight=weights.features,
                branch_weight=weights.branch,
            )
        )
    return LayerNumbers(*jnp.asarray(every_layer, dtype).T)


def _compilation_key(
    operations: Operations, layer_operations: tuple[Operation, ...]
) -> tuple[Hashable, ...]:
    """Return what is compiled into a scan, and therefore must be equal for all of its layers.

    These are the steps of a layer, the form of the sum at its end, and which weights are 0.
    """
    features, branch, form = operations.constants.of_layer(layer_operations[0].layer_number).weights
    return form, not features, not branch, *(operation.step for operation in layer_operations)


class _Carried(NamedTuple):
    """A `PairState` without standard deviations, which a scan carries from layer to layer.

    Standard deviations are computed anew in each layer, which is faster than to carry them.
    """

    deficits: Deficits
    kernels: Kernels
    variances: tuple[tuple[jax.Array, jax.Array | None], ...]
    """The variances of both signals, and their rounding errors."""

    @classmethod
    def of(cls, state: PairState) -> _Carried:
        """Return the carried arrays of a state."""
        variances = tuple((side.variance, side.rounding_error) for side in state.variances)
        return cls(state.deficits, state.kernels, variances)

    def state(self) -> PairState:
        """Return the state with standard deviations."""
        sides = (Variances(*side, std=safe_root(side[0])) for side in self.variances)
        return PairState(self.deficits, self.kernels, tuple(sides))


class SignalPair:
    """Two signals whose kernels are computed, for one network and one head.

    Arrays of pixel pairs have the shape (*pixels, *pixels') for the head "gap", (offsets, *pixels)
    for pooled heads, and (*pixels) for other heads.
    """

    def __init__(self, operations: Operations, head: str | int, x: Signal, z: Signal) -> None:
        self.operations, self.head, self.x, self.z = operations, head, x, z
        self.n_axes = operations.n_axes

    def kernels(self, kinds: tuple[str, ...]) -> list[jax.Array]:
        """Return the kernel of each kind with the head applied.

        The scales of the signals and the divisors of the layers are not included.
        """
        operations = self.operations
        state, F0 = self.enter()
        zeros, numbers = jnp.zeros_like(F0), _numbers_of_layers(operations, F0.dtype)

        def after_layer(
            layer_operations: tuple[Operation, ...], before: _Carried, numbers: LayerNumbers
        ) -> tuple[_Carried, None]:
            in_tangent = operations.constants.carried_parts.initial * numbers.input_weight
            context_of_step = PairLayer(self, numbers).context_of
            features = before.state()
            after = pairs_after_layer(context_of_step, layer_operations, features, in_tangent, F0)
            return _Carried.of(after), None

        state = state._replace(kernels=Kernels(zeros, zeros if "ntk" in kinds else None))
        carried, _ = after_layer(operations.layers[0], _Carried.of(state), numbers.selected(0))
        for _, group in groupby(operations.layers[1:], partial(_compilation_key, operations)):
            alike = list(group)
            first = alike[0][0].layer_number - 1
            layer = jax.checkpoint(partial(after_layer, alike[0]), prevent_cse=False)
            carried, _ = lax.scan(
                layer, carried, numbers.selected(slice(first, first + len(alike)))
            )
        input_weight = operations.constants.input_weight(operations.depth)
        weighted = by_kind(operations.constants, carried.kernels, input_weight)
        return [self.with_head(*weighted[kind], F0) for kind in kinds]

    def enter(self) -> tuple[PairState, jax.Array]:
        """Return the state of the pixel pairs before layer 1, and F⁰."""
        x, z = self.x, self.z
        F0 = self.sum_over_channels(mul, x.scaled, z.scaled)
        sides = self.exact_variances(x.input_variance), self.exact_variances(z.input_variance)
        g, deficits = self.product(sides), []
        for sign in (-1.0, 1.0):
            half = self.sum_over_channels(
                lambda u, v, s=sign: 0.5 * (u + s * v) ** 2, x.unit, z.unit
            )
            # Where g is 0, F⁰ is 0 too. There ± F⁰ is the deficit, 0, with the right derivatives.
            deficits.append(g * half + jnp.where(g > 0, 0.0, sign * F0))
        state = PairState(Deficits(*deficits), Kernels(F0, None), sides)
        # The input filter has neither biases nor a skip connection.
        layer = PairLayer(self, LayerNumbers(*jnp.zeros(len(LayerNumbers._fields))))
        for operation in self.operations.input:
            context = layer.context_of(operation, state, state)
            state = operation.step.pairs(context, state, state)._replace(
                variances=context.variances
            )
        return state, state.kernels.F

    def exact_variances(self, variance: jax.Array) -> Variances:
        """Return `Variances` whose rounding errors are 0, or None in networks without biases."""
        rounding_error = 0.0 * variance if self.operations.constants.has_bias else None
        return Variances(variance, rounding_error, safe_root(variance))

    def at_taps(self, values: jax.Array, taps: Taps, n_sides: int) -> list[jax.Array]:
        """Return one array for each tap, the middle tap first: the values at this tap.

        A tap moves the last `n_sides` groups of pixel axes.
        """
        axes = [taps.axis - self.n_axes * side for side in range(1, 1 + n_sides)]
        return from_the_middle([jnp.roll(values, [-k] * len(axes), axes) for k in taps.offsets])

    def mean(self, taps: Taps, values: jax.Array) -> jax.Array:
        """Return the weighted means over the taps. A tap moves both pixels of a pair."""
        n_sides = values.ndim // self.n_axes if isinstance(self.head, str) else 1
        return weighted_mean(self.at_taps(values, taps, n_sides), taps.weights)

    def as_pairs(self, p: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return arrays of the pixels of the left and the right signal in the form of pixel pairs.

        Both arrays broadcast to the shape of the pixel pairs.
        """
        if not isinstance(self.head, str):
            return p, q.ravel()[right_pixels(self.head, q.shape)]
        return (p[(..., *[None] * self.n_axes)] if self.head == "gap" else p), q

    def product(self, sides: tuple[Variances, ...]) -> jax.Array:
        """Return g = a b at the pixel pairs, where a² and b² are the variances of both pixels."""
        return mul(*self.as_pairs(*(side.std for side in sides)))

    def sum_over_channels(
        self, function: Callable[..., jax.Array], p: jax.Array, q: jax.Array
    ) -> jax.Array:
        """Return the sum over channels of `function` at the pixel pairs of `p` and `q`."""
        return jax.vmap(lambda *channels: function(*self.as_pairs(*channels)))(p, q).sum(axis=0)

    def with_head(self, kernel: jax.Array, input_weight: float, F0: jax.Array) -> jax.Array:
        """Return `kernel` + `input_weight` · `F0` with the head applied."""
        if self.head in ("trace", "equivariant"):
            kernel = kernel + input_weight * F0
            return kernel.mean() if self.head == "trace" else kernel.ravel()[0]
        if not isinstance(self.head, str):
            weights = jnp.asarray(pool_weights(self.head, kernel.shape[1:]), kernel.dtype)
            kernel = jnp.tensordot(weights, kernel, 1)
        elif self.head != "gap":
            raise NotImplementedError(f"JAX has no head {self.head!r}")
        means = self.x.means * self.z.means  # their sum is the mean of F⁰, which may be 0
        return kernel.mean() + input_weight * means.sum(axis=0).mean()


class PairLayer:
    """A layer of a pair of signals, or the input filter, which uses none of the `numbers`.

    The contexts of both signals and of the pair ask it for the numbers of the layer. JAX compiles
    it once for all layers of a scan; these layers differ only in their `numbers`.
    """

    def __init__(self, pair: SignalPair, numbers: LayerNumbers) -> None:
        self.pair, self.constants, self.numbers = pair, pair.operations.constants, numbers

    def context_of(
        self, operation: Operation, before: PairState, features: PairState
    ) -> JaxPairContext:
        """Return the `PairContext` of the operation's step."""
        return JaxPairContext(self, operation, before, features)

    def bias_std(self, after_activation: bool) -> jax.Array:
        """Return `NetworkConstants.bias_std` of the layer."""
        return self.numbers.outer_bias if after_activation else self.numbers.inner_bias

    def layer_constants(self, layer_number: int) -> LayerConstants:
        """Return the constants of a layer, if all layers of the network have the same.

        A scan is compiled for its first layer alone; what differs in others is in `numbers`.
        """
        if not self.constants.has_equal_constants:
            raise NotImplementedError("layers of one scan may have other constants")
        return self.constants.of_layer(layer_number)

    def weights(self, layer_number: int) -> RoundedWeights:
        """Return the weights of features and branch of a layer.

        They are numbers if all layers have the same constants, else arrays. A weight of 0 is always
        a number, and then it is 0 in all layers of the scan.
        """
        weights = self.constants.of_layer(layer_number).weights
        if self.constants.has_equal_constants:
            return weights.rounded
        features = self.numbers.feature_weight if weights.features else 0.0
        branch = self.numbers.branch_weight if weights.branch else 0.0
        return RoundedWeights(features, branch, weights.form)


class JaxSignalContext:
    """The `SignalContext` of one signal, with derivatives at 0 too."""

    xp = jnp
    least_std = 0.0  # no limit is needed: `JaxPairContext.dual` does not read the row 1/a

    def __init__(self, pair_layer: PairLayer, layer_number: int, signal: Signal) -> None:
        self.pair_layer, self.layer_number, self.signal = pair_layer, layer_number, signal

    @property
    def activation(self) -> Activation:
        return activation_of(self.pair_layer.pair.operations.network)

    @property
    def layer_constants(self) -> LayerConstants:
        return self.pair_layer.layer_constants(self.layer_number)

    @property
    def layer_weights(self) -> RoundedWeights:
        return self.pair_layer.weights(self.layer_number)

    def sqrt(self, values: jax.Array) -> jax.Array:
        return safe_root(values)

    def positive(self, values: jax.Array) -> jax.Array:
        return jnp.where(values > 0, values, 1.0)

    def at_taps(self, values: jax.Array, taps: Taps) -> list[jax.Array]:
        return self.pair_layer.pair.at_taps(values, taps, n_sides=1)

    def bias_variance(self, after_activation: bool) -> jax.Array:
        return (self.pair_layer.bias_std(after_activation) * self.signal.bias) ** 2

    def norm_std(self) -> jax.Array:
        return self.signal.norm_std

    def exact_variances(self, variance: jax.Array) -> Variances:
        return self.pair_layer.pair.exact_variances(variance)

    def check_features(self, values: object) -> None:
        """Do nothing: values are not checked in JAX."""

    check_preactivations = check_activated = check_features


class JaxPairContext:
    """The implementation of `step.PairContext` that computes rows when the step asks for them."""

    def __init__(
        self, pair_layer: PairLayer, operation: Operation, before: PairState, features: PairState
    ) -> None:
        self.pair_layer, self.pair, self.before = pair_layer, pair_layer.pair, before
        self.constants, self.layer_number = pair_layer.constants, operation.layer_number
        signals = zip((self.pair.x, self.pair.z), before.variances, features.variances, strict=True)
        (left, self._left_rows), (right, self._right_rows) = (
            operation.step.variances(
                JaxSignalContext(pair_layer, self.layer_number, signal), *sides
            )
            for signal, *sides in signals
        )
        self.variances = left, right

    @once
    def rows(self) -> list[tuple[jax.Array, jax.Array]]:
        """The step's rows of the left and the right signal, which broadcast to the pixel pairs."""
        pairs = zip(self._left_rows, self._right_rows, strict=True)
        return [self.pair.as_pairs(*row) for row in pairs]

    def row(self, index: int) -> tuple[jax.Array, jax.Array]:
        return self.rows[index]

    @property
    def layer_constants(self) -> LayerConstants:
        return self.pair_layer.layer_constants(self.layer_number)

    @property
    def weights(self) -> RoundedWeights:
        return self.pair_layer.weights(self.layer_number)

    def mean(self, taps: Taps, values: jax.Array) -> jax.Array:
        return self.pair.mean(taps, values)

    def bias_product(self, after_activation: bool) -> jax.Array:
        std = self.pair_layer.bias_std(after_activation)
        return (std * self.pair.x.bias) * (std * self.pair.z.bias)

    def dual(self, deficits: Deficits, inner_variance: float | None) -> DualPairs:
        if inner_variance is not None:
            raise NotImplementedError("JAX has only the formulas of ReLU")
        # These are the formulas of `activations.Relu`, in a form whose derivatives are right even
        # where g is 0, and where the two pixels are equal or opposite.
        linear_share, g = self.constants.linear_share, self.pair.product(self.before.variances)
        w, v = mapped(lambda u: jnp.where(g > 0, safe_quotient(u, g), 1.0), deficits)
        w = w - lax.stop_gradient(jnp.maximum(w - 2.0, 0.0))
        v = 2.0 - w if v is None else v
        is_positive, a = w < v, jnp.where(w < v, w, v)
        k0, k1 = k0_of(a), k1_of(a)
        less, lost = jnp.where(is_positive, w, 1.0) - k1, jnp.where(is_positive, k0, 1.0 - k0)
        less, more = less + linear_share * (w - less), 2.0 - less + linear_share * (v - 2.0 + less)
        sigma = jnp.where(g > 0, 0.0, -deficits.U)  # this is 0, with the derivatives of Σ at g = 0
        # The odd part of K at g = 0. The derivatives of its even part are 0 there.
        half = 0.5 * (1.0 + linear_share) * sigma

        def times_slope(A: jax.Array) -> jax.Array:
            return A - (1.0 - linear_share) * lost * A

        def covariance() -> jax.Array:
            return g * jnp.where(is_positive, 1.0 - w, v - 1.0) + sigma

        branch_deficits = Deficits(g * less - half, g * more + half)
        return DualPairs(g - g * less + half, branch_deficits, times_slope, covariance)

    def by_pieces(
        self, function: Callable[[PairContext, PairState], PairState], state: PairState
    ) -> PairState:
        """Return ``function(self, state)``, computed for all pixel pairs at once."""
        return function(self, state)
