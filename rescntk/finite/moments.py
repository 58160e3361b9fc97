r"""Moments of an activation of Gaussian numbers: one, or two of given covariance, (1,) or (3,).

Signals are 0 and 1, and both 0 where there is one; σ is the activation, σ' its slope, and "the
pair" is the last signal after the first. Covariances S stand in the order 00, 01, 11.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import TypeAlias

import jax
import jax.numpy as jnp

Number: TypeAlias = jax.Array | float


class Linear:
    """σ(z) = z: Isserlis' theorem."""

    def __init__(self, S: jax.Array) -> None:
        self.S, self.size = S, 1 + len(S) // 2
        self.entries = list(combinations_with_replacement(range(self.size), 2))

    def products(self) -> jax.Array:
        """Return E[σ_e σ_f] of all entries, in the order of S."""
        return self.S

    def slopes(self) -> Number:
        """Return E[σ'σ'] of the pair."""
        return 1.0

    def slopes_squared(self) -> Number:
        """Return E[σ'²σ'²] of the pair."""
        return 1.0

    def own_slopes(self) -> Number:
        """Return the product of E[σ'²] of both."""
        return 1.0

    def four(self, e: int, f: int, g: int, h: int) -> Number:
        """Return E[σ_e σ_f σ_g σ_h]."""
        S = self.S
        return S[e + f] * S[g + h] + S[e + g] * S[f + h] + S[e + h] * S[f + g]

    def mixed(self, e: int, f: int) -> Number:
        """Return E[σ_e σ_f σ'σ'], σ' of the pair."""
        return self.S[e + f]

    def steps(self) -> tuple[jax.Array, jax.Array]:
        """Return E[∂_g(σ_e σ')], (e, g), with σ' of the pair's first signal, and of its last."""
        return jnp.eye(self.size), jnp.eye(self.size)

    def mixed_matrix(self) -> jax.Array:
        """Return E[σ_e σ_f σ'σ'], (e, f)."""
        signals = range(self.size)
        return jnp.array([[self.mixed(e, f) for f in signals] for e in signals])

    def noise(self, trained: Number, theta: jax.Array, pair: int) -> jax.Array:
        """Return the covariance of all σ_e σ_f, and of the pair's `trained` σσ + Θ σ'σ'."""
        means = self.products()
        S = jnp.array([[self.four(*one, *other) for other in self.entries] for one in self.entries])
        S = S - jnp.outer(means, means)
        slopes = theta * jnp.array([self.mixed(*one) for one in self.entries])
        slopes = slopes - theta * self.slopes() * means
        beside = trained * S[pair] + slopes
        variance = theta**2 * (self.slopes_squared() - self.slopes() ** 2)
        variance = variance + trained * (2.0 * beside[pair] - S[pair, pair])
        return jnp.block([[S, beside[:, None]], [beside[None], variance]])


class Rectified(Linear):
    """σ(z) = max(z, 0): moments of two are those of arc-cosine kernels (Cho and Saul 2009)."""

    def __init__(self, S: jax.Array) -> None:
        super().__init__(S)
        if self.size == 1:
            return
        r, s = jnp.sqrt(S[0]), jnp.sqrt(S[2])
        cosine = S[1] / (r * s)
        sine = jnp.sqrt((1.0 - cosine) * (1.0 + cosine)) / (2.0 * jnp.pi)
        both = (jnp.pi - jnp.arccos(cosine)) / (2.0 * jnp.pi)
        one = sine + both * cosine  # E[σσ], of variances 1
        square = both + cosine * sine  # E[σ² σ'σ']
        self.both, self.one, self.step = both, r * s * one, (s / r * sine, r / s * sine)
        self.squares = (S[0] * square, S[2] * square)
        cube = r * s * (2.0 * one + cosine * square)
        even = S[0] * S[2] * (3.0 * sine * cosine + both * (1.0 + 2.0 * cosine**2))
        self.fourth = 1.5 * S[0] ** 2, S[0] * cube, even, S[2] * cube, 1.5 * S[2] ** 2

    def products(self) -> jax.Array:
        if self.size == 1:
            return 0.5 * self.S
        return jnp.array([0.5 * self.S[0], self.one, 0.5 * self.S[2]])

    def slopes(self) -> Number:
        return 0.5 if self.size == 1 else self.both

    def slopes_squared(self) -> Number:
        return self.slopes()

    def own_slopes(self) -> Number:
        return 0.25

    def four(self, e: int, f: int, g: int, h: int) -> Number:
        return 1.5 * self.S[0] ** 2 if self.size == 1 else self.fourth[e + f + g + h]

    def mixed(self, e: int, f: int) -> Number:
        if self.size == 1:
            return 0.5 * self.S[0]
        return self.one if e != f else self.squares[e]

    def steps(self) -> tuple[jax.Array, jax.Array]:
        if self.size == 1:
            return 0.5 * jnp.eye(1), 0.5 * jnp.eye(1)
        first = jnp.array([[0.5, 0.0], [self.step[0], self.both]])
        return first, jnp.array([[self.both, self.step[1]], [0.0, 0.5]])
