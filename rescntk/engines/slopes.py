"""One layer of the recursion of sensitivity.py at pixel pairs: dual activations and tangents.

Written once for arrays and for numbers: NumPy computes it by the array; numba, where it is
installed, compiles it to one loop without arrays in between, several times faster.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays import Array
from . import polynomials


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """Return `yes` where the condition holds, otherwise `no`."""
    return np.where(condition, yes, no)


def single(relu: bool, c_v: float, q: Any, dq: Any) -> tuple[Any, Any]:
    """Return c_v E[σ(u)²] for one pixel of variance `q`, and its derivative."""
    if relu:
        return 0.5 * c_v * q, 0.5 * c_v * dq
    root = np.sqrt(1.0 + 4.0 * q)
    c = 2.0 / math.pi * c_v
    return c * np.arctan(2.0 * q / root), 2.0 * c / root * dq / (1.0 + 2.0 * q)


def layer(
    relu: bool,
    first: bool,
    ntk: bool,
    c_v: float,
    inner: float,
    outer: float,
    tie: float,
    root: Any,
    d_root: Any,
    inverse: Any,
    o_root: Any,
    d_o_root: Any,
    o_inverse: Any,
    D: Any,
    dD: Any,
    T: Any,
    dT: Any,
) -> tuple[Any, Any, Any, Any]:
    """Return what the branch brings: D_K and its derivative, B (for a GPK K) and its.

    `root` … `o_inverse` are √q, its derivative and 1/√q of the two pixels; `D`, `dD`, `T`, `dT`
    have passed the layer's filter. For the first layer `D` and `dD` are 1 − ρ and 1 + ρ.
    """
    t, dt = root - o_root, d_root - d_o_root
    g, dg = root * o_root, d_root * o_root + root * d_o_root
    if first:
        w, v = D, dD
        dw = 0.0 * w
    else:
        # w = 1 − ρ = (D − z)/g and its derivative, 0 where w is: at ρ = ±1 it stays.
        excess = D - 0.5 * t * t
        scale = inverse * o_inverse
        w = choose(excess <= tie * np.abs(t) * (root + o_root), 0.0, excess * scale)
        w = choose(w < 2.0, w, 2.0)
        dw = (dD - t * dt) * scale - w * (d_root * inverse + d_o_root * o_inverse)
        dw = choose(w > 0.0, choose(w < 2.0, dw, 0.0), 0.0)
        v = 2.0 - w
    S, dS = g * (1.0 - w), dg * (1.0 - w) - g * dw
    if relu:
        half = 0.5 * c_v
        near = w < v
        a = choose(near, w, v)
        sine = np.sqrt(a)
        k0, k1 = sine * polynomials.p64(a), sine * a * polynomials.r64(a)
        kappa0 = choose(near, 1.0 - k0, k0)
        deficit = choose(near, w, 1.0) - k1  # 1 − κ1
        moved = g * kappa0 * dw
        distance = half * (0.5 * t * t + g * deficit)
        d_distance = half * (t * dt + dg * deficit + moved)
        K, dK = half * (g - g * deficit), half * (dg - dg * deficit - moved)
        sine = sine * np.sqrt(choose(near, v, w))
        slope = half * kappa0
        d_slope = -half / math.pi * dw / choose(sine > 0.0, sine, 1.0)
    else:
        p, dp, q, dq = root * root, 2.0 * root * d_root, o_root * o_root, 2.0 * o_root * d_o_root
        one, two = 1.0 + 2.0 * p, 1.0 + 2.0 * q
        delta = one + two - 1.0 + 4.0 * g * g * w * v  # (1 + 2p)(1 + 2q) − 4S²
        d_delta = 2.0 * (dp * two + dq * one) - 8.0 * S * dS
        wide = np.sqrt(delta)
        c = 2.0 / math.pi * c_v
        K, slope = c * np.arctan2(2.0 * S, wide), 2.0 * c / wide
        dK = slope * (dS - S * (dp / one + dq / two))
        d_slope = -0.5 * slope * d_delta / delta
        own, d_own = single(relu, c_v, p, dp)
        other, d_other = single(relu, c_v, q, dq)
        distance, d_distance = 0.5 * (own + other) - K, 0.5 * (d_own + d_other) - dK
    if ntk:
        T, dT = inner * S + T, inner * dS + dT
        dK = outer * dK + d_slope * T + slope * dT
        K = outer * K + slope * T
    return distance, d_distance, K, dK


def by_arrays(
    flags: tuple[bool, bool, bool],
    constants: tuple[float, float, float, float],
    near: Array,
    other: Array,
    cases: int,
    state: Array,
) -> Array:
    """Return `layer` of all pixel pairs of a tile.

    Parameters
    ----------
    flags : (bool, bool, bool)
        `relu`, `first` and `ntk`.
    constants : (float, float, float, float)
        `c_v`, `inner`, `outer`, `tie`.
    near : array, (3, d)
        Three tables of the left case's pixels.
    other : array, (3, (d + offsets) · cases)
        The right cases' tables (`windows`).
    cases : int
        How many right cases.
    state : array, (d, 4, offsets · cases)
        `D`, `dD`, `T`, `dT`.

    Returns
    -------
    array, (d, 4, offsets · cases)
    """
    d, _, lanes = state.shape
    tables = windows(other, d, lanes, cases)
    values = layer(*flags, *constants, *near[:, :, None], *tables, *state.swapaxes(0, 1))
    return np.stack(values, axis=1)


def windows(other: Array, d: int, lanes: int, cases: int) -> Array:
    """Return tables seen from each left pixel, (tables, d, lanes), without copying them.

    `other`, (tables, (d + offsets) · cases), has the right cases' pixels one after the other,
    wrapped around: pixel j meets those from the j-th on.
    """
    strides = (other.strides[0], cases * other.strides[1], other.strides[1])
    shape = (len(other), d, lanes)
    return np.lib.stride_tricks.as_strided(other, shape, strides, writeable=False)


try:
    from numba import njit
    from numba.extending import overload, register_jitable

    @overload(choose, strict=False)
    def _choose(condition: Any, yes: Any, no: Any) -> Any:
        return lambda condition, yes, no: yes if condition else no

    for _function in (polynomials.p64, polynomials.r64, single, layer):
        register_jitable(_function)

    @njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
    def fill(flags: Any, constants: Any, near: Any, other: Any, cases: int, state: Any) -> Any:
        """Return the same as `by_arrays`, number by number."""
        relu, first, ntk = flags
        c_v, inner, outer, tie = constants
        out = np.empty_like(state)
        for j in range(state.shape[0]):
            root, d_root, inverse = near[0, j], near[1, j], near[2, j]
            for t in range(state.shape[2]):
                o = j * cases + t
                out[j, 0, t], out[j, 1, t], out[j, 2, t], out[j, 3, t] = layer(
                    relu, first, ntk, c_v, inner, outer, tie, root, d_root, inverse,
                    other[0, o], other[1, o], other[2, o],
                    state[j, 0, t], state[j, 1, t], state[j, 2, t], state[j, 3, t],
                )  # fmt: skip
        return out

except (ImportError, RuntimeError, OSError):  # as for the engine: not there, or of no use here
    fill = by_arrays
