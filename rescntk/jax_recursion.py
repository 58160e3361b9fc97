"""The recursion of a pair of signals in JAX, from variances, which are differentiated too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import groupby
from math import frexp
from operator import add, mul
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from .engines.heads import places_of, pool_weights, widths_of
from .engines.means import compensated_sum, from_the_middle, past_skip, pooled, weighted_mean
from .engines.operations import Operation, Operations
from .engines.recursion import Recursion
from .engines.windows import Window
from .jax_numbers import k0_of, k1_of, normal, read_scaled, safe_quotient, safe_root, scaled


class Signal(NamedTuple):
    """A signal (channels, *pixels), divided by a power of two near its largest value."""

    unit: jax.Array  # (channels, *pixels), pixels divided by their norms;
    pixels: jax.Array  # (channels, *pixels), the products of which are F⁰;
    means: jax.Array  # (channels,), their means over pixels; (channels, *pixels) over windows;
    energy: jax.Array  # (*pixels), F⁰ of single pixels at x = z;
    exponent: jax.Array  # of the power of two: kernels are homogeneous;
    bias: jax.Array  # the largest standard deviation of biases, divided by the power;
    norm: jax.Array  # 1, divided by the power.


def read_signal(operations: Operations, head: str | int, x: jax.Array) -> Signal:
    network, forgets = operations.network, operations.constants.forgets_size
    mantissa, of_bias = frexp(operations.constants.largest_bias)
    values, exponents = normal(lax.stop_gradient(x))
    none = -(2**14)
    exponents = jnp.where(values == 0, none, jnp.frexp(values)[1] - 1 + exponents)
    beside = max(of_bias - 1 if mantissa else none, 0 if network.norm else none)
    exponent = jnp.maximum(exponents.max(), none if forgets else beside)
    exponent = jnp.where(exponent == none, 0, exponent)
    x = read_scaled(x, -exponent)
    exponent = jnp.zeros_like(exponent) if forgets else exponent
    bias = scaled(jnp.asarray(mantissa, x.dtype), of_bias - exponent)
    norm = scaled(jnp.ones((), x.dtype), -exponent)
    squares = (x * x).sum(axis=0)
    factor = network.factor_of_input(len(x))
    unit = safe_quotient(x, safe_root(squares)[None])
    flat, root = x.reshape(len(x), -1), factor**0.5
    sums = compensated_sum(flat, jnp) if operations.constants.is_weak else flat.sum(axis=1)
    means = root * sums / flat.shape[1]
    if not isinstance(head, str):
        means = root * pooled(x, widths_of(head, x.shape[1:]), jnp)
    return Signal(unit, root * x, means, factor * squares, exponent, bias, norm)


State: TypeAlias = tuple[list[jax.Array], list[jax.Array]]
"""Masses, which are differentiated too, and deficits."""


def _scanned_constants(operations: Operations) -> list[list[float]]:
    """Return the constants that a scan over layers takes, of each layer."""
    rows, every = [], operations.constants
    for layer in range(1, operations.depth + 1):
        constants, roots = every.of_layer(layer), (False, True)
        biases = [every.bias(layer, is_branch) for is_branch in roots]
        weights = constants.feature_factor, constants.branch_factor
        rows.append([every.input_factor(layer - 1), *biases, *weights])
    return rows


def _what_is_compiled(operations: Operations, of_layer: tuple[Operation, ...]) -> list[Any]:
    """Return what layers of one scan have in common."""
    constants = operations.constants.of_layer(of_layer[0].layer)
    order = bool(constants.feature_factor), constants.feature_factor < constants.branch_factor
    return [order, *((operation.kind, operation.window) for operation in of_layer)]


class Pair(Recursion[State]):
    """The recursion of a pair of signals (rescntk/engines/recursion.py).

    Masses are variances of both signals' pixels, two arrays (*pixels). Arrays of pixel pairs have
    the axes (*pixels, *pixels') for the head "gap", (offsets, *pixels) for pooled heads, and
    (*pixels) for others.
    """

    def __init__(self, operations: Operations, head: str | int, x: Signal, z: Signal) -> None:
        self.operations, self.head, self.x, self.z = operations, head, x, z
        self.parts, self.n_axes = operations.network.carried_parts, operations.n_axes

    def kernels(self, kinds: tuple[str, ...]) -> list[jax.Array]:
        """Return the kernels of each kind with their head, without scale and growth."""
        operations = self.operations
        state, self.linear = self.enter()
        carried = state, [jnp.zeros_like(self.linear)] * (1 + ("ntk" in kinds))
        constants = jnp.asarray(_scanned_constants(operations), self.linear.dtype)
        carried, _ = self.scanned(operations.layers[0], carried, constants[0])
        for _, of_layers in groupby(operations.layers[1:], partial(_what_is_compiled, operations)):
            alike = list(of_layers)
            layer = jax.checkpoint(partial(self.scanned, alike[0]), prevent_cse=False)
            first = alike[0][0].layer - 1
            carried, _ = lax.scan(layer, carried, constants[first : first + len(alike)])
        input_factor = operations.constants.input_factor(operations.depth)
        parts, (F, *tangent) = operations.network.parts, carried[1]
        multiples = {"gpk": input_factor, "ntk": input_factor * parts.initial}
        if parts.readout != self.parts.readout:  # A is T
            tangent = [A + F for A in tangent]
        of_kinds = dict(zip(multiples, [F, *tangent], strict=False))
        return [self.with_head(of_kinds[kind], multiples[kind]) for kind in kinds]

    def enter(self) -> tuple[State, jax.Array]:
        """Return the masses and the deficits, U and U⁺, of the input, and F⁰."""
        x, z = self.x, self.z
        masses, linear = [x.energy, z.energy], self.over_channels(mul, x.pixels, z.pixels)
        g, deficits = self.product(masses), []
        for sign in (-1.0, 1.0):
            half = self.over_channels(lambda u, v, s=sign: 0.5 * (u + s * v) ** 2, x.unit, z.unit)
            # Where g is 0, deficits are 0, and ± F⁰ has their derivatives.
            deficits.append(g * half + jnp.where(g > 0, 0.0, sign * linear))
        for operation in self.operations.input:
            masses, deficits = self.window(operation, (masses, deficits))
            linear = self.mean(linear, operation.window)
        return (masses, deficits), linear

    def scanned(
        self, of_layer: tuple[Operation, ...], carried: Any, constants: Any
    ) -> tuple[Any, None]:
        """Return masses and deficits, and F and A, behind a layer."""
        state, kernels = carried
        input_factor, *self.bias_roots, self.feature_weight, self.branch_weight = constants
        self.constants = self.operations.constants.of_layer(of_layer[0].layer)
        return self.layer(of_layer, state, kernels, input_factor), None

    def norm(self, operation: Operation, state: State) -> tuple[State, jax.Array]:
        masses, deficits = state
        norms = self.x.norm, self.z.norm
        roots = [safe_quotient(n, safe_root(m)) for n, m in zip(norms, masses, strict=True)]
        masses = [jnp.where(m > 0, n**2, 0.0) for n, m in zip(norms, masses, strict=True)]
        factor = mul(*self.sides(*roots))
        return (masses, [factor * u for u in deficits]), factor

    def activate(
        self, operation: Operation, state: State, tangent: list[jax.Array]
    ) -> tuple[State, list[jax.Array]]:
        masses, deficits = state
        linear_part, g = self.operations.constants.linear_share, self.product(masses)
        w, *opposite = (jnp.where(g > 0, safe_quotient(u, g), 1.0) for u in deficits)
        w = w - lax.stop_gradient(jnp.maximum(w - 2.0, 0.0))
        v = opposite[0] if opposite else 2.0 - w
        near, a = w < v, jnp.where(w < v, w, v)
        k0, k1 = k0_of(a), k1_of(a)
        less, lost = jnp.where(near, w, 1.0) - k1, jnp.where(near, k0, 1.0 - k0)
        less, more = less + linear_part * (w - less), 2.0 - less + linear_part * (v - 2.0 + less)
        sigma = jnp.where(g > 0, 0.0, -deficits[0])  # 0, with the derivatives of Σ
        half = 0.5 * (1.0 + linear_part) * sigma  # the odd part of K; its even part has none
        K, branch = g - g * less + half, [g * less - half, g * more + half]
        if tangent:
            tangent = tangent[0]
            if c := self.parts.inner_minus_readout:
                tangent += c * (g * jnp.where(near, 1.0 - w, v - 1.0) + sigma)
            M = tangent - (1.0 - linear_part) * lost * tangent + self.parts.outer_plus_readout * K
            tangent = [M]
        return (masses, branch[: 1 + self.operations.constants.has_opposite]), [K, *tangent]

    def merged(
        self, masses: Any, weights: Sequence[float], wholes: list[Any], deficits: list[Any]
    ) -> State:
        """Return merged masses and deficits: `wholes`, and `deficits` with what a merge adds.

        `masses` are the parts of both sides, which have the weights.
        """
        sums, coordinates = [], []
        for parts, total in zip(masses, wholes, strict=True):
            # 1 where all are equal
            ratios = (safe_root(safe_quotient(part, total)) for part in parts)
            first, *later = (w**0.5 * ratio for w, ratio in zip(weights, ratios, strict=True))
            sums.append(safe_root(total) * (1.0 + first))
            coordinates.append([other / (1.0 + first) for other in later])
        pairs = (self.sides(u, v) for u, v in zip(*coordinates, strict=True))
        N = 0.5 * mul(*self.sides(*sums)) * reduce(add, [(u - v) ** 2 for u, v in pairs])
        return wholes, [deficit + N for deficit in deficits]

    def window(self, operation: Operation, state: State) -> State:
        (masses, deficits), window = state, operation.window
        parts, wholes = ([of(m, window) for m in masses] for of in (self.taps, self.mean))
        return self.merged(parts, window.weights, wholes, [self.mean(u, window) for u in deficits])

    def bias(self, operation: Operation, state: State) -> tuple[State, jax.Array]:
        masses, deficits = state
        root = self.bias_roots[operation.is_branch]
        a, b = root * self.x.bias, root * self.z.bias
        both = [[m, a_or_b**2] for m, a_or_b in zip(masses, (a, b), strict=True)]
        deficits = [u + c * a * b for u, c in zip(deficits, (0.0, 2.0), strict=False)]
        return self.merged(both, [1.0, 1.0], [m + q for m, q in both], deficits), a * b

    def skip(
        self, operation: Operation, features: State, branch: State
    ) -> tuple[State, tuple[float, float]]:
        weights = self.constants.feature_factor, self.constants.branch_factor
        if not self.operations.constants.has_like_layers:
            weights = self.feature_weight, self.branch_weight
        masses, deficits = (
            [self.past_skip(*pair, weights) for pair in zip(*sides, strict=False)]
            for sides in zip(features, branch, strict=True)
        )
        both = [[*pair] for pair in zip(features[0], branch[0], strict=True)]
        return self.merged(both, weights, masses, deficits), weights

    def past_skip(
        self, features: jax.Array, branch: jax.Array, weights: tuple[float, float]
    ) -> jax.Array:
        feature_weight, branch_weight = weights
        if not isinstance(feature_weight, jax.Array):
            return past_skip(features, branch, feature_weight, branch_weight)
        # JAX does not know the weights, but which of them is greater.
        if not self.constants.feature_factor:
            return branch_weight * branch
        if self.constants.feature_factor < self.constants.branch_factor:
            return branch + feature_weight * (features - branch)
        return features + branch_weight * (branch - features)

    def taps(self, values: jax.Array, window: Window) -> list[jax.Array]:
        """Return the values at the taps of a window, the middle one first."""
        sides = values.ndim // self.n_axes if isinstance(self.head, str) else 1
        axes = [window.axis - self.n_axes * side for side in range(1, 1 + sides)]
        return from_the_middle([jnp.roll(values, [-k] * len(axes), axes) for k in window.offsets])

    def mean(self, values: jax.Array, window: Window) -> jax.Array:
        """Return the means over the taps of a merge."""
        return weighted_mean(self.taps(values, window), window.weights)

    def sides(self, p: jax.Array, q: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return arrays of both sides' pixels that broadcast to the pixel pairs."""
        if not isinstance(self.head, str):
            return p, q.ravel()[places_of(self.head, q.shape)]
        return (p[(..., *[None] * self.n_axes)] if self.head == "gap" else p), q

    def product(self, masses: jax.Array) -> jax.Array:
        """Return g = a b of the pixel pairs, the product of the roots of masses."""
        return mul(*self.sides(*map(safe_root, masses)))

    def over_channels(
        self, function: Callable[..., jax.Array], p: jax.Array, q: jax.Array
    ) -> jax.Array:
        """Return the sum over channels of a function of both sides' pixels."""
        return jax.vmap(lambda *channels: function(*self.sides(*channels)))(p, q).sum(axis=0)

    def with_head(self, kernel: jax.Array, of_linear: float) -> jax.Array:
        """Return a kernel with its head, to which `of_linear` times F⁰ is added."""
        if self.head in ("trace", "equivariant"):
            kernel = kernel + of_linear * self.linear
            return kernel.mean() if self.head == "trace" else kernel.ravel()[0]
        if not isinstance(self.head, str):
            weights = jnp.asarray(pool_weights(self.head, kernel.shape[1:]), kernel.dtype)
            kernel = jnp.tensordot(weights, kernel, 1)
        elif self.head != "gap":
            raise NotImplementedError(f"JAX has no head {self.head!r}")
        means = self.x.means * self.z.means  # the mean of F⁰ may be 0
        return kernel.mean() + of_linear * means.sum(axis=0).mean()
