"""Functions of JAX arrays that are differentiable where the formulas as written are not.

They handle subnormal numbers, square roots at 0, and the dual activation of ReLU.
"""

from __future__ import annotations

from math import pi

import jax
import jax.numpy as jnp
from jax import lax

from ..compiled.polynomials import D32, D64, R32, R64


def scaled(values: jax.Array, exponent: jax.Array) -> jax.Array:
    """Return values · 2^exponent.

    It is multiplied by two powers, one after the other, because 2^exponent may leave the range of
    the data type.
    """
    limits, one = jnp.finfo(values.dtype), jnp.ones((), values.dtype)
    for part in (exponent // 2, exponent - exponent // 2):
        values = values * jnp.ldexp(one, jnp.clip(part, limits.minexp, limits.maxexp - 1))
    return values


def normal(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return numbers y, none of them subnormal, and exponents e such that x = y · 2^e.

    XLA treats subnormal numbers as 0. Here they are read by their bits: a subnormal number is an
    integer, which its bits represent, times the smallest subnormal number.
    """
    limits = jnp.finfo(x.dtype)
    bits = lax.bitcast_convert_type(x, jnp.dtype(f"int{limits.bits}"))
    size = bits & jnp.iinfo(bits.dtype).max
    subnormal = size < 1 << limits.nmant
    values = jnp.where(subnormal, jnp.where(bits < 0, -size, size).astype(x.dtype), x)
    return values, jnp.where(subnormal, limits.minexp - limits.nmant, 0)


@jax.custom_jvp
def read_scaled(x: jax.Array, exponent: jax.Array) -> jax.Array:
    """Return x · 2^exponent, where x may be subnormal."""
    values, exponents = normal(x)
    return scaled(values, exponents + exponent)


read_scaled.defjvp(
    lambda primals, tangents: (read_scaled(*primals), scaled(tangents[0], primals[1]))
)


def safe_root(values: jax.Array) -> jax.Array:
    """Return √values. The derivative at 0 is taken to be 0."""
    return jnp.where(values > 0, jnp.sqrt(jnp.where(values > 0, values, 1.0)), 0.0)


def safe_quotient(values: jax.Array, by: jax.Array) -> jax.Array:
    """Return values / by, and 0 where `by` is 0."""
    return jnp.where(by > 0, values, 0.0) / jnp.where(by > 0, by, 1.0)


@jax.custom_jvp
def k0_of(a: jax.Array) -> jax.Array:
    """Return arccos(ρ)/π for a = 1 − ρ in [0, 1]."""
    return (2.0 / pi) * jnp.arctan(safe_root(a) / jnp.sqrt(2.0 - a))


@k0_of.defjvp
def k0_jvp(primals: jax.Array, tangents: jax.Array) -> jax.Array:
    # Pixels with a smaller a are equal up to rounding errors.
    differ = primals[0] > (8.0 * jnp.finfo(primals[0].dtype).eps) ** 2
    a = jnp.where(differ, primals[0], 1.0)
    slope = jnp.where(differ, 1.0 / (pi * jnp.sqrt(a * (2.0 - a))), 0.0)
    return k0_of(*primals), slope * tangents[0]


@jax.custom_jvp
def k1_of(a: jax.Array) -> jax.Array:
    """Return κ1(ρ) − ρ for a = 1 − ρ in [0, 1]. Its derivative by a is `k0_of`."""
    R, D = (R64, D64) if a.dtype == jnp.float64 else (R32, D32)
    return a * safe_root(a) * jnp.polyval(R, 1.0 - a) / jnp.polyval(D, 1.0 - a)


k1_of.defjvp(lambda primals, tangents: (k1_of(*primals), k0_of(*primals) * tangents[0]))
