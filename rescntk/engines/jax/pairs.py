"""The recursion of a pair of signals in JAX, from variances, which are differentiated too."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial, reduce
from itertools import groupby
from math import frexp
from operator import add, mul
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from numpy.typing import DTypeLike

from ...arrays import AnyArray
from ..heads import places_of, pool_pixels, pool_weights
from ..layer.constants import LayerConstants
from ..layer.means import compensated_sum, from_the_middle, pooled, weighted_mean
from ..layer.operations import Operation, Operations
from ..layer.recursion import Deficits, Kernels, Recursion, by_kind, mapped
from ..layer.weights import RoundedWeights
from ..layer.window import Window
from .numbers import k0_of, k1_of, normal, read_scaled, safe_quotient, safe_root, scaled


class Signal(NamedTuple):
    """A signal (channels, *pixels), divided by a power of two.

    The power is near the largest of its values, its biases and its normalized features, 1. Where
    layer 1 forgets sizes (`NetworkConstants.forgets_size`), it is near the largest value. Then
    biases and normalized features stand undivided beside the divided signal.
    """

    unit: jax.Array
    """(channels, *pixels), each pixel's vector divided by its norm."""
    pixels: jax.Array
    """(channels, *pixels), times the root of the input's scale: products of pixels are F⁰."""
    means: jax.Array
    """(channels,), the means over pixels; of pooled heads (channels, *pixels), over pools."""
    energy: jax.Array
    """(*pixels), F⁰ of single pixels at x = z."""
    exponent: jax.Array
    """(), of the power of two by which kernels are multiplied; 0 where layer 1 forgets sizes."""
    bias: jax.Array
    """(), the largest standard deviation of biases, divided by 2^exponent."""
    norm_root: jax.Array
    """(), the root of normalized features: 1, divided by 2^exponent."""


def read_signal(operations: Operations, head: str | int, x: jax.Array) -> Signal:
    """Return a signal (channels, *pixels) as the recursion takes it."""
    network, forgets = operations.network, operations.constants.forgets_size
    mantissa, bias_exponent = frexp(operations.constants.largest_bias)
    values, exponents = normal(lax.stop_gradient(x))
    none = -(2**14)
    exponents = jnp.where(values == 0, none, jnp.frexp(values)[1] - 1 + exponents)
    beside = max(bias_exponent - 1 if mantissa else none, 0 if network.norm else none)
    exponent = jnp.maximum(exponents.max(), none if forgets else beside)
    exponent = jnp.where(exponent == none, 0, exponent)
    x = read_scaled(x, -exponent)
    exponent = jnp.zeros_like(exponent) if forgets else exponent
    bias = scaled(jnp.asarray(mantissa, x.dtype), bias_exponent - exponent)
    norm = scaled(jnp.ones((), x.dtype), -exponent)
    squares = (x * x).sum(axis=0)
    input_scale = network.factor_of_input(len(x))
    unit = safe_quotient(x, safe_root(squares)[None])
    flat, root = x.reshape(len(x), -1), input_scale**0.5
    sums = (
        compensated_sum(flat, jnp) if operations.constants.has_weak_branches else flat.sum(axis=1)
    )
    means = root * sums / flat.shape[1]
    if not isinstance(head, str):
        means = root * pooled(x, pool_pixels(head, x.shape[1:]), jnp)
    return Signal(unit, root * x, means, input_scale * squares, exponent, bias, norm)


class State(NamedTuple):
    """The deficits of a pair of signals, and the variances of both. Merges change all of them."""

    variances: tuple[jax.Array, jax.Array]
    """Variances of both signals' pixels, (*pixels) each. They are differentiated too."""
    deficits: Deficits


class LayerNumbers(NamedTuple):
    """Numbers of a layer that a scan over layers reads. JAX compiles without knowing them."""

    input_weight: jax.Array
    """The weight of F⁰ in the features before the layer."""
    inner_bias: jax.Array
    """The root of the variance of biases before the activation, at a signal of size 1."""
    outer_bias: jax.Array
    """The same behind the activation."""
    feature_weight: jax.Array
    """f, the weight of the features in the skip connection."""
    branch_weight: jax.Array
    """b, the weight of the branch."""


def _numbers_of_layers(operations: Operations, dtype: DTypeLike) -> LayerNumbers:
    """Return the numbers of layers 1 … depth, (depth,) each."""
    rows, constants = [], operations.constants
    for layer_number in range(1, operations.depth + 1):
        layer_constants = constants.of_layer(layer_number)
        biases = (
            constants.bias_root(layer_number),
            constants.bias_root(layer_number, is_branch=True),
        )
        f, b, _ = layer_constants.weights.rounded
        rows.append((constants.input_weight(layer_number - 1), *biases, f, b))
    return LayerNumbers(*jnp.asarray(rows, dtype).T)


def _what_is_compiled(
    operations: Operations, layer_operations: tuple[Operation, ...]
) -> tuple[Hashable, ...]:
    """Return what layers of one scan have in common: the form of their sum, and all steps."""
    form = operations.constants.of_layer(layer_operations[0].layer_number).weights.form
    return form, *((operation.kind, operation.window) for operation in layer_operations)


class Pair:
    """The pixel pairs of two signals of one network, with a head.

    Arrays of pixel pairs have the axes (*pixels, *pixels') for the head "gap", (offsets, *pixels)
    for pooled heads, and (*pixels) for others.
    """

    def __init__(self, operations: Operations, head: str | int, x: Signal, z: Signal) -> None:
        self.operations, self.head, self.x, self.z = operations, head, x, z
        self.n_axes = operations.n_axes

    def kernels(self, kinds: tuple[str, ...]) -> list[jax.Array]:
        """Return the kernels of each kind with their head, without scale and growth."""
        operations = self.operations
        state, F0 = self.enter()
        zeros, numbers = jnp.zeros_like(F0), _numbers_of_layers(operations, F0.dtype)

        def passed(
            layer_operations: tuple[Operation, ...],
            carried: tuple[State, Kernels],
            numbers: LayerNumbers,
        ) -> tuple[tuple[State, Kernels], None]:
            constants = operations.constants.of_layer(layer_operations[0].layer_number)
            layer = PairLayer(self, constants, numbers)
            behind = layer.behind_layer(layer_operations, *carried, numbers.input_weight, F0)
            return behind, None

        carried = state, Kernels(zeros, zeros if "ntk" in kinds else None)
        carried, _ = passed(operations.layers[0], carried, _part(numbers, 0))
        for _, group in groupby(operations.layers[1:], partial(_what_is_compiled, operations)):
            alike = list(group)
            first = alike[0][0].layer_number - 1
            layer = jax.checkpoint(partial(passed, alike[0]), prevent_cse=False)
            carried, _ = lax.scan(layer, carried, _part(numbers, slice(first, first + len(alike))))
        input_weight = operations.constants.input_weight(operations.depth)
        weighted = by_kind(operations.constants, carried[1], input_weight)
        return [self.with_head(*weighted[kind], F0) for kind in kinds]

    def enter(self) -> tuple[State, jax.Array]:
        """Return the state of the input, and F⁰."""
        x, z = self.x, self.z
        variances, F0 = (x.energy, z.energy), self.over_channels(mul, x.pixels, z.pixels)
        g, deficits = self.product(variances), []
        for sign in (-1.0, 1.0):
            half = self.over_channels(lambda u, v, s=sign: 0.5 * (u + s * v) ** 2, x.unit, z.unit)
            # Where g is 0, deficits are 0, and ± F⁰ has their derivatives.
            deficits.append(g * half + jnp.where(g > 0, 0.0, sign * F0))
        state = State(variances, Deficits(*deficits))
        for operation in self.operations.input:
            state = self.window(operation, state)
            F0 = self.mean(operation.window, F0)
        return state, F0

    def window(self, operation: Operation, state: State) -> State:
        (variances, deficits), window = state, operation.window
        parts = [self.taps(m, window) for m in variances]
        means = State(
            (self.mean(window, variances[0]), self.mean(window, variances[1])),
            mapped(partial(self.mean, window), deficits),
        )
        return self.merged(means, parts, window.weights)

    def merged(
        self, state: State, parts: Sequence[Sequence[jax.Array]], weights: Sequence[AnyArray]
    ) -> State:
        """Return a merged state: the variances of `state`, and its deficits with what a merge adds.

        `parts` are the variances that each side merges; they have the `weights`.
        """
        sums, coordinates = [], []
        for side, total in zip(parts, state.variances, strict=True):
            # 1 where all are equal
            ratios = (safe_root(safe_quotient(part, total)) for part in side)
            first, *later = (w**0.5 * ratio for w, ratio in zip(weights, ratios, strict=True))
            sums.append(safe_root(total) * (1.0 + first))
            coordinates.append([other / (1.0 + first) for other in later])
        pairs = (self.sides(u, v) for u, v in zip(*coordinates, strict=True))
        N = 0.5 * mul(*self.sides(*sums)) * reduce(add, [(u - v) ** 2 for u, v in pairs])
        return State(state.variances, mapped(lambda u: u + N, state.deficits))

    def taps(self, values: jax.Array, window: Window) -> list[jax.Array]:
        """Return the values at the taps of a window, the middle one first."""
        sides = values.ndim // self.n_axes if isinstance(self.head, str) else 1
        axes = [window.axis - self.n_axes * side for side in range(1, 1 + sides)]
        return from_the_middle([jnp.roll(values, [-k] * len(axes), axes) for k in window.offsets])

    def mean(self, window: Window, values: jax.Array) -> jax.Array:
        """Return the means over the taps of a window."""
        return weighted_mean(self.taps(values, window), window.weights)

    def sides(self, p: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return arrays of both sides' pixels that broadcast to the pixel pairs."""
        if not isinstance(self.head, str):
            return p, q.ravel()[places_of(self.head, q.shape)]
        return (p[(..., *[None] * self.n_axes)] if self.head == "gap" else p), q

    def product(self, variances: jax.Array) -> jax.Array:
        """Return g = a b of the pixel pairs, the product of the roots of variances."""
        return mul(*self.sides(*map(safe_root, variances)))

    def over_channels(
        self, function: Callable[..., jax.Array], p: jax.Array, q: jax.Array
    ) -> jax.Array:
        """Return the sum over channels of a function of both sides' pixels."""
        return jax.vmap(lambda *channels: function(*self.sides(*channels)))(p, q).sum(axis=0)

    def with_head(self, kernel: jax.Array, input_weight: float, F0: jax.Array) -> jax.Array:
        """Return a kernel with its head, to which `input_weight` times F⁰, `F0`, is added."""
        if self.head in ("trace", "equivariant"):
            kernel = kernel + input_weight * F0
            return kernel.mean() if self.head == "trace" else kernel.ravel()[0]
        if not isinstance(self.head, str):
            weights = jnp.asarray(pool_weights(self.head, kernel.shape[1:]), kernel.dtype)
            kernel = jnp.tensordot(weights, kernel, 1)
        elif self.head != "gap":
            raise NotImplementedError(f"JAX has no head {self.head!r}")
        means = self.x.means * self.z.means  # the mean of F⁰ may be 0
        return kernel.mean() + input_weight * means.sum(axis=0).mean()


class PairLayer(Pair, Recursion[State]):
    """A layer of the recursion of a pair of signals (rescntk/engines/layer/recursion.py).

    JAX compiles it once for all layers of one scan. Features and branch are added in one form in
    all of them, as `constants` tell; `numbers` differ.
    """

    def __init__(self, pair: Pair, constants: LayerConstants, numbers: LayerNumbers) -> None:
        super().__init__(pair.operations, pair.head, pair.x, pair.z)
        self.trained = pair.operations.constants.carried_parts
        self.constants, self.numbers = constants, numbers

    def norm(self, operation: Operation, state: State) -> tuple[State, jax.Array]:
        roots = self.x.norm_root, self.z.norm_root
        pairs = list(zip(roots, state.variances, strict=True))
        factor = mul(*self.sides(*(safe_quotient(n, safe_root(m)) for n, m in pairs)))
        left, right = (jnp.where(m > 0, n**2, 0.0) for n, m in pairs)
        return State((left, right), mapped(partial(mul, factor), state.deficits)), factor

    def activate(
        self, operation: Operation, state: State, A: jax.Array | None
    ) -> tuple[State, Kernels]:
        variances, deficits = state
        linear_share, g = self.operations.constants.linear_share, self.product(variances)
        w, v = mapped(lambda u: jnp.where(g > 0, safe_quotient(u, g), 1.0), deficits)
        w = w - lax.stop_gradient(jnp.maximum(w - 2.0, 0.0))
        v = 2.0 - w if v is None else v
        is_positive, a = w < v, jnp.where(w < v, w, v)
        k0, k1 = k0_of(a), k1_of(a)
        less, lost = jnp.where(is_positive, w, 1.0) - k1, jnp.where(is_positive, k0, 1.0 - k0)
        less, more = less + linear_share * (w - less), 2.0 - less + linear_share * (v - 2.0 + less)
        sigma = jnp.where(g > 0, 0.0, -deficits.U)  # 0, with the derivatives of Σ
        half = 0.5 * (1.0 + linear_share) * sigma  # the odd part of K; its even part has none
        K, U, opposite = g - g * less + half, g * less - half, g * more + half
        branch = Deficits(U, opposite if self.operations.constants.has_opposite else None)
        if A is None:
            return State(variances, branch), Kernels(K, None)
        if c := self.trained.inner_minus_readout:
            A = A + c * (g * jnp.where(is_positive, 1.0 - w, v - 1.0) + sigma)
        M = A - (1.0 - linear_share) * lost * A + self.trained.outer_plus_readout * K
        return State(variances, branch), Kernels(K, M)

    def bias(self, operation: Operation, state: State) -> tuple[State, jax.Array]:
        variances, deficits = state
        root = self.numbers.outer_bias if operation.is_branch else self.numbers.inner_bias
        a, b = root * self.x.bias, root * self.z.bias
        parts = [[variances[0], a**2], [variances[1], b**2]]
        left, right = (m + of_bias for m, of_bias in parts)
        deficits = mapped(add, deficits, Deficits(0.0 * a * b, 2.0 * a * b))
        return self.merged(State((left, right), deficits), parts, [1.0, 1.0]), a * b

    def skip(
        self, operation: Operation, features: State, branch: State
    ) -> tuple[State, RoundedWeights]:
        weights = self.constants.weights.rounded
        if not self.operations.constants.has_like_layers:
            f, b = self.numbers.feature_weight, self.numbers.branch_weight
            weights = RoundedWeights(f, b, weights.form)
        parts = list(zip(features.variances, branch.variances, strict=True))
        left, right = (weights.merged(*side) for side in parts)
        deficits = mapped(weights.merged, features.deficits, branch.deficits)
        of_parts = weights.features, weights.branch
        return self.merged(State((left, right), deficits), parts, of_parts), weights


def _part(numbers: LayerNumbers, layers: int | slice) -> LayerNumbers:
    """Return the numbers of one layer, or of several."""
    return LayerNumbers(*(values[layers] for values in numbers))
