"""The compiled loops of the engine "numba": all layers of some rows, their state in the cache.

A *lane* is a row of pixel pairs: a right case and an offset δ. Lanes lie side by side, pixel
after pixel, so that one flat array of d x lanes numbers holds a quantity, a shift by one pixel
is a shift by the number of lanes, and every loop runs over the whole array: the processor's
vectors are full for signals of any length. Arrays carry a halo of pixels at both ends
(rings.py) and are rounded up to whole vectors; what is computed there is never read.

Compiled at the first call, then cached on disk. Of LLVM's fast-math liberties only "contract"
is taken, a·b + c in one rounding: it is more accurate, and it does not change what NaN,
infinity and the order of sums mean.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

from . import polynomials

_compiled = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})

WIDTH = 64
"""Arrays are rounded up to this many numbers: whole vectors, unrolled, of any processor."""


def _angle(a: Any) -> Any:
    """p(a) in the precision of a (tools/polynomials.py)."""
    return polynomials.angle64(a)


def _gap(a: Any) -> Any:
    """r(a) in the precision of a."""
    return polynomials.gap64(a)


@overload(_angle)
def _overload_angle(a: Any) -> Any:
    return polynomials.angle32 if a == types.float32 else polynomials.angle64


@overload(_gap)
def _overload_gap(a: Any) -> Any:
    return polynomials.gap32 if a == types.float32 else polynomials.gap64


@_compiled
def _aligned(rows: int, length: int, like: Any) -> Any:
    """Return zeros (rows, length) that begin on a cache line.

    A vector of 64 bytes that straddles two lines takes two loads. Where all lanes of a pixel
    fill whole lines none does, shifted by pixels or not.
    """
    itemsize = like.itemsize
    memory = np.zeros(rows * length + 64 // itemsize, like.dtype)
    skip = (-memory.ctypes.data % 64) // itemsize
    return memory[skip : skip + rows * length].reshape(rows, length)


# ---------------------------------------------------------------- loops over flat arrays


@_compiled
def _spread(values: Any, lanes: int, out: Any) -> None:
    """Repeat each pixel's value over all lanes."""
    for j in range(len(values)):
        value = values[j]
        for r in range(lanes):
            out[j * lanes + r] = value


@_compiled
def _spread_two(values: Any, others: Any, lanes: int, out: Any, other: Any) -> None:
    """The same for two tables at once."""
    for j in range(len(values)):
        value, second = values[j], others[j]
        for r in range(lanes):
            out[j * lanes + r] = value
            other[j * lanes + r] = second


@_compiled
def _add(a: Any, b: Any, out: Any, n: int) -> None:
    for t in range(n):
        out[t] = a[t] + b[t]


@_compiled
def _fold(values: Any, rest: Any, n: int) -> None:
    for t in range(n):
        values[t] += rest[t]


@_compiled
def _fill_halo(ring: Any, halo: int, inside: int) -> None:
    """Repeat pixels around the ring; `halo` and `inside` count numbers, not pixels."""
    for t in range(halo - 1, -1, -1):
        ring[t] = ring[t + inside]
    for t in range(halo):
        ring[halo + inside + t] = ring[halo + t]


@_compiled
def _taps(ring: Any, size: int, halo: int, d: int, lanes: int, n: int, room: Any) -> Any:
    """Return three arrays whose sum is that over windows of `size` pixels (of 1: the first).

    Sums over windows of 2, 4, 8 … pixels come from one another by one addition
    (rings.moving_sum). Sizes with two or three binary digits 1, such as 3, 5, 7, 9, 11, 13 and
    17, leave the last two additions to whoever needs the sum; of a size 2^k + 1 the larger part
    is taken as two halves. Other sizes are summed here, and come with two arrays of zeros.
    `room` is scratch space for three arrays.
    """
    digits, rest = 0, size
    while rest:
        digits += rest & 1
        rest >>= 1
    if size == 1:
        whole = ring[halo * lanes :]
        return whole, whole, whole
    _fill_halo(ring, halo * lanes, d * lanes)
    first = ring[(halo - size // 2) * lanes :]
    second, third, doubled = first, first, first
    held, last = -1, -1  # which rows of `room` are in use
    count, offset, width = n + (size - 1) * lanes, 1, 1
    while True:
        if digits == 2 and 2 * width + 1 == size:
            return first, doubled[lanes:], doubled[(1 + width) * lanes :]
        free = 0
        while free in (held, last):
            free += 1
        count -= width * lanes
        _add(doubled, doubled[width * lanes :], room[free], count)
        doubled, last = room[free], free
        width *= 2
        if not size & width:
            continue
        part = doubled[offset * lanes :]
        offset += width
        if offset == size:
            third = part
            break
        if held < 0:
            second, held = part, last
        else:  # a fourth term and more
            _fold(second, part, n)
    return first, second, third


@_compiled
def _sum_into(
    out: Any, ring: Any, size: int, halo: int, d: int, lanes: int, n: int, room: Any
) -> None:
    """Compute sums over windows of `size` pixels."""
    out[:n] = 0
    _carry(out, ring, size, halo, d, lanes, 0.0, n, room)


@_compiled
def _carry_one(state: Any, branch: Any, keep: float, n: int) -> None:
    """State ← keep · state + branch, for filters of size 1."""
    k = state.dtype.type(keep)
    for t in range(n):
        state[t] = k * state[t] + branch[t]


@_compiled
def _carry_three(state: Any, one: Any, two: Any, three: Any, keep: float, n: int) -> None:
    """The same for longer filters, whose sum is in three parts."""
    k = state.dtype.type(keep)
    for t in range(n):
        state[t] = k * state[t] + (one[t] + (two[t] + three[t]))


@_compiled
def _carry(
    state: Any, ring: Any, size: int, halo: int, d: int, lanes: int, keep: float, n: int, room: Any
) -> None:
    """Carry `state` past a layer whose residual branch brings `ring`, before its filter."""
    one, two, three = _taps(ring, size, halo, d, lanes, n, room)
    if size == 1:
        _carry_one(state, one, keep, n)
    else:
        _carry_three(state, one, two, three, keep, n)


@_compiled
def _square_gaps(x: Any, z: Any, sign: float, out: Any, n: int) -> None:
    """Add (x − sign·z)²/2 to `out`."""
    s, half = out.dtype.type(sign), out.dtype.type(0.5)
    for t in range(n):
        difference = x[t] - s * z[t]
        out[t] += half * difference * difference


@_compiled
def _plus_gaps(
    x: Any, z: Any, opposite: float, lanes: int, w: Any, v: Any, xb: Any, sums: Any, n: int
) -> None:
    """Take v = 1 + ρ from sums of unit vectors where w exceeds `opposite`."""
    sums[:n] = 0
    for c in range(len(z)):
        _spread(x[c], lanes, xb)
        _square_gaps(xb, z[c], -1.0, sums, n)
    limit = w.dtype.type(opposite)
    for t in range(n):
        v[t] = sums[t] if w[t] > limit else v[t]


@_compiled
def _start(xb: Any, zb: Any, w: Any, distance: Any, features: Any, n: int) -> None:
    """D and F of the features that enter, from w = 1 − ρ."""
    two = w.dtype.type(2.0)
    for t in range(n):
        h = xb[t] - zb[t]
        g = two * (xb[t] * zb[t])
        gw = g * w[t]
        distance[t] = h * h + gw
        features[t] = g - gw


@_compiled
def _complement(x: Any, z: Any, inverse: Any, sums: Any, tie: Any, two: Any) -> Any:
    """Return 1 − ρ of the pre-activations of one pixel pair from their distance.

    x and z are √(q/2) of the two pixels. A distance within its rounding error of the least
    that such norms allow is a tie (tables.TIE_UNITS).
    """
    h = x - z
    e = sums - h * h
    away = abs(h)
    e = e if e > tie * away * (x + z) else two - two
    w = e * inverse
    return w if w < two else two


@_compiled
def _relu(x: Any, z: Any, w: Any, v: Any, one: Any, half_f: Any, f: Any) -> Any:
    """Return (distance, covariance, K̇) after a ReLU, times the layer's factor."""
    near = w < v
    a = w if near else v
    s = math.sqrt(a)
    k0 = s * _angle(a)
    k1 = s * a * _gap(a)
    k0_far = one - k0
    kappa0 = k0_far if near else k0
    deficit_near = w - k1
    deficit_far = one - k1
    deficit = deficit_near if near else deficit_far  # 1 − κ1
    h = x - z
    g = f * (x * z)  # f g/2
    gw = g * deficit
    return half_f * (h * h) + gw, g - gw, half_f * kappa0


@_compiled
def _relu_ntk(
    xb: Any, xi: Any, zb: Any, zi: Any, d1: Any, d2: Any, d3: Any, a1: Any, a2: Any, a3: Any,
    gap: Any, both: Any, source: Any, three: bool,
    factor: float, sigma: float, again: float, tie: float, n: int,
) -> None:  # fmt: skip
    """Through a layer's filter and ReLU, for both kernels: what the residual branch brings.

    d and a are the taps of D and A; one of them, or `three`. source = K̇ (box A + sigma Σ) +
    again K.
    """
    number = gap.dtype.type
    one, two, unit = number(1.0), number(2.0), number(2.0 * tie)
    f, half_f = number(factor), number(0.5 * factor)
    i_minus_r, o_plus_r = number(2.0 * sigma), number(again)
    if three:
        for t in range(n):
            x, z = xb[t], zb[t]
            distance = d1[t] + (d2[t] + d3[t])
            w = _complement(x, z, xi[t] * zi[t], distance, unit, two)
            gap[t], k, slope = _relu(x, z, w, two - w, one, half_f, f)
            sums = a1[t] + (a2[t] + a3[t])
            both[t] = k
            source[t] = slope * (sums + i_minus_r * ((x * z) * (one - w))) + o_plus_r * k
    else:
        for t in range(n):
            x, z = xb[t], zb[t]
            w = _complement(x, z, xi[t] * zi[t], d1[t], unit, two)
            gap[t], k, slope = _relu(x, z, w, two - w, one, half_f, f)
            both[t] = k
            source[t] = slope * (a1[t] + i_minus_r * ((x * z) * (one - w))) + o_plus_r * k


@_compiled
def _relu_gpk(
    xb: Any, xi: Any, zb: Any, zi: Any, d1: Any, d2: Any, d3: Any,
    gap: Any, both: Any, three: bool, factor: float, tie: float, n: int,
) -> None:  # fmt: skip
    """The same for the Gaussian process kernel alone."""
    number = gap.dtype.type
    one, two, unit = number(1.0), number(2.0), number(2.0 * tie)
    f, half_f = number(factor), number(0.5 * factor)
    if three:
        for t in range(n):
            x, z = xb[t], zb[t]
            distance = d1[t] + (d2[t] + d3[t])
            w = _complement(x, z, xi[t] * zi[t], distance, unit, two)
            gap[t], both[t], _ = _relu(x, z, w, two - w, one, half_f, f)
    else:
        for t in range(n):
            x, z = xb[t], zb[t]
            w = _complement(x, z, xi[t] * zi[t], d1[t], unit, two)
            gap[t], both[t], _ = _relu(x, z, w, two - w, one, half_f, f)


@_compiled
def _relu_first(
    xb: Any, zb: Any, w: Any, v: Any, sums: Any, gap: Any, both: Any, source: Any,
    factor: float, sigma: float, again: float, n: int,
) -> None:  # fmt: skip
    """The same for layer 1, which has no filter and is given w = 1 − ρ and v = 1 + ρ."""
    number = gap.dtype.type
    one, f, half_f = number(1.0), number(factor), number(0.5 * factor)
    i_minus_r, o_plus_r = number(2.0 * sigma), number(again)
    for t in range(n):
        x, z = xb[t], zb[t]
        gap[t], k, slope = _relu(x, z, w[t], v[t], one, half_f, f)
        both[t] = k
        source[t] = slope * (sums[t] + i_minus_r * ((x * z) * (one - w[t]))) + o_plus_r * k


@_compiled
def _erf_complement(
    xb: Any, xi: Any, zb: Any, zi: Any, sums: Any, tie: float, w: Any, n: int
) -> None:
    """W = 1 − ρ of the pre-activations."""
    number = w.dtype.type
    two, unit = number(2.0), number(2.0 * tie)
    for t in range(n):
        w[t] = _complement(xb[t], zb[t], xi[t] * zi[t], sums[t], unit, two)


@_compiled
def _erf_ntk(
    xb: Any, zb: Any, xp: Any, zp: Any, xq: Any, zq: Any, w: Any, covariance: Any, sums: Any,
    gap: Any, both: Any, source: Any,
    unit: float, factor: float, sigma: float, again: float, n: int,
) -> None:  # fmt: skip
    """Through erf (activations.Erf); `covariance` is Σ in units of `unit`."""
    number = w.dtype.type
    u, f, s, o = number(unit), number(factor), number(sigma), number(again)
    zero = number(0.0)
    two, to_angle, to_slope = number(2.0), number(2.0 / math.pi), number(4.0 / math.pi)
    for t in range(n):
        g = two * u * (xb[t] * zb[t])
        cov = u * covariance[t]
        above = g + cov  # a rounding error may take it below 0
        above = above if above > zero else zero
        root = math.sqrt(xp[t] + zp[t] + number(4.0) * g * w[t] * above)
        k = f * to_angle * math.atan2(two * cov, root)
        slope = f * u * to_slope / root
        both[t] = k
        gap[t] = f * (xq[t] + zq[t]) - k
        source[t] = slope * (sums[t] + s * covariance[t]) + o * k


# ---------------------------------------------------------------- heads


@_compiled
def _grids(bound: float, headroom: int) -> tuple[float, float]:
    """exact_sum.grids, for one number."""
    exponent = math.frexp(bound)[1]
    return math.ldexp(1.5, exponent + headroom), math.ldexp(1.5, exponent + 2 * headroom - 53)


@_compiled
def _split(terms: Any, coarse: float, fine: float, high: Any, low: Any, n: int) -> None:
    """exact_sum.split, on one grid for all lanes."""
    for t in range(n):
        value = np.float64(terms[t])
        upper = (value + coarse) - coarse
        high[t] = upper
        low[t] = ((value - upper) + fine) - fine


@_compiled
def _split_lanes(
    terms: Any, coarse: Any, fine: Any, high: Any, low: Any, d: int, lanes: int
) -> None:
    """exact_sum.split, on a grid for each lane."""
    for j in range(d):
        for r in range(lanes):
            value = np.float64(terms[j * lanes + r])
            upper = (value + coarse[r]) - coarse[r]
            high[j * lanes + r] = upper
            low[j * lanes + r] = ((value - upper) + fine[r]) - fine[r]


@_compiled
def _sum_pixels(values: Any, d: int, lanes: int) -> None:
    """Add all pixels into the first, halving; exact, so that the order is of no consequence."""
    while d > 1:
        half = d // 2
        d -= half
        _fold(values, values[d * lanes :], half * lanes)


# ---------------------------------------------------------------- rows


@_compiled
def fill(
    x_units: Any, x_root: Any, x_inverse: Any, x_extra: Any, x_bounds: Any,
    z_units: Any, z_root: Any, z_inverse: Any, z_extra: Any, z_bounds: Any,
    rows: tuple[int, int], columns: tuple[int, int], symmetric_from: int,
    d: int, offsets: int, lanes: int, halo: int, sizes: tuple[int, int],
    unit: Any, factor: Any, keep: Any, slots: Any,
    start: float, sigma: float, again: float, tie: float, opposite: float,
    relu: bool, skip: bool, want_gpk: bool, want_ntk: bool, head: int,
    corner: tuple[int, int], high: Any, low: Any, out: Any,
) -> None:  # fmt: skip
    """Compute kernels of left cases `rows` with right cases `columns`, all offsets, all layers.

    Parameters
    ----------
    x_units, x_root, x_inverse, x_extra : arrays
        Left tables: (case, channel, d), twice (case, layer, d), (case, layer, table, d).
    z_units, z_root, z_inverse, z_extra : arrays
        Right ones, wrapped: (channel, 2d − 1 or d, case), twice (layer, …, case), (layer,
        table, …, case).
    x_bounds, z_bounds : arrays
        (kind, slot, case): see `tables.Side.bounds`.
    symmetric_from : int
        Only rows up to a lane group's last column, plus this, are wanted.
    unit, factor, keep, slots : arrays, (layers + 1,)
        Constants of each layer; slots: which result a layer is, or −1.
    start, sigma, again : float
        t + r, i − r and o + r of the trained parts.
    head : int
        0: pixel 1; 1: sums over pixels and offsets, in `high` and `low`; 2: all pixel pairs.
    corner : (int, int)
        Where row and column 0 are in the results.
    high, low, out : arrays
        Results, (kind, slot, row, column), sums being added; `out` for pixel pairs.
    """
    number = x_root.dtype.type
    depth = len(unit) - 1
    channels = z_units.shape[0]
    n_extra = z_extra.shape[1]
    inner_size, outer_size = sizes
    total_lanes = (columns[1] - columns[0]) * offsets
    inside = d * lanes
    n = (inside + WIDTH - 1) // WIDTH * WIDTH
    length = (n + 2 * halo * lanes + 2 * WIDTH - 1) // WIDTH * WIDTH
    scratch = _aligned(20, length, x_root)
    distance, tangent, features = scratch[0], scratch[1], scratch[2]
    gap, both, source = scratch[3], scratch[4], scratch[5]
    w, v, xb, xi, xp, xq = (
        scratch[6], scratch[7], scratch[8], scratch[9], scratch[10], scratch[11]
    )  # fmt: skip
    sum1, sum2, room = scratch[12], scratch[13], scratch[14:]
    zb, zi = _aligned(depth + 1, n, x_root), _aligned(depth + 1, n, x_root)
    ze = np.zeros((depth + 1, n_extra, n), x_root.dtype)
    zu = _aligned(channels, n, x_root)
    parts = _aligned(2, n, np.zeros(1))
    high_part, low_part = parts[0], parts[1]
    coarse, fine = np.zeros(lanes), np.zeros(lanes)
    lane_case, lane_offset = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
    headroom = 1
    while 2 ** (headroom - 1) < d * offsets:
        headroom += 1
    state = halo * lanes  # where the pixels begin
    distance_in, tangent_in, features_in = distance[state:], tangent[state:], features[state:]
    gap_in, both_in, source_in = gap[state:], both[state:], source[state:]
    room1, room2 = room[:3], room[3:]

    for group in range(0, total_lanes, lanes):
        used = min(lanes, total_lanes - group)
        for r in range(lanes):
            lane = group + min(r, used - 1)  # the last group repeats its last lane
            lane_case[r] = columns[0] + lane // offsets
            lane_offset[r] = lane % offsets
        for r in range(lanes):
            k, o = lane_case[r], lane_offset[r]
            for layer in range(depth + 1):
                for j in range(d):
                    zb[layer, j * lanes + r] = z_root[layer, j + o, k]
                    zi[layer, j * lanes + r] = z_inverse[layer, j + o, k]
                    for e in range(n_extra):
                        ze[layer, e, j * lanes + r] = z_extra[layer, e, j + o, k]
            for c in range(channels):
                for j in range(d):
                    zu[c, j * lanes + r] = z_units[c, j + o, k]

        last = min(rows[1], lane_case[lanes - 1] + symmetric_from + 1)
        for i in range(rows[0], last):
            # Layer 0: w and v of the input's pixels, from sums and differences of unit vectors.
            w[:n] = 0
            for c in range(channels):
                _spread(x_units[i, c], lanes, xb)
                _square_gaps(xb, zu[c], 1.0, w, n)
            opposed = False
            for t in range(n):
                v[t] = number(2.0) - w[t]
                opposed |= w[t] > number(opposite)
            if opposed:
                _plus_gaps(x_units[i], zu, opposite, lanes, w, v, xb, sum1, n)
            _spread(x_root[i, 0], lanes, xb)
            _start(xb, zb[0], w, distance_in, features_in, n)
            for t in range(n):
                tangent_in[t] = number(start) * features_in[t]

            for layer in range(1, depth + 1):
                slot = slots[layer]
                gain = factor[layer] * unit[layer]
                if layer == 1 and relu:
                    _spread(x_root[i, layer], lanes, xb)
                    _relu_first(
                        xb, zb[1], w, v, tangent_in, gap_in, both_in,
                        source_in, gain, sigma, again, n,
                    )  # fmt: skip
                elif relu:
                    _spread_two(x_root[i, layer], x_inverse[i, layer], lanes, xb, xi)
                    d1, d2, d3 = _taps(distance, inner_size, halo, d, lanes, n, room1)
                    if want_ntk:
                        a1, a2, a3 = _taps(tangent, inner_size, halo, d, lanes, n, room2)
                        _relu_ntk(
                            xb, xi, zb[layer], zi[layer], d1, d2, d3, a1, a2, a3,
                            gap_in, both_in, source_in, inner_size > 1,
                            gain, sigma, again, tie, n,
                        )  # fmt: skip
                    else:
                        _relu_gpk(
                            xb, xi, zb[layer], zi[layer], d1, d2, d3,
                            gap_in, both_in, inner_size > 1, gain, tie, n,
                        )  # fmt: skip
                else:
                    size = 1 if layer == 1 else inner_size
                    _spread_two(x_root[i, layer], x_inverse[i, layer], lanes, xb, xi)
                    _spread_two(x_extra[i, layer, 0], x_extra[i, layer, 1], lanes, xp, xq)
                    if layer > 1:
                        _sum_into(sum1, distance, size, halo, d, lanes, n, room)
                        _erf_complement(xb, xi, zb[layer], zi[layer], sum1, tie, w, n)
                    _sum_into(sum1, tangent, size, halo, d, lanes, n, room)
                    _sum_into(sum2, features, size, halo, d, lanes, n, room)
                    _erf_ntk(
                        xb, zb[layer], xp, ze[layer, 0], xq, ze[layer, 1], w, sum2, sum1,
                        gap_in, both_in, source_in,
                        unit[layer], factor[layer], sigma, again, n,
                    )  # fmt: skip
                past = (outer_size, halo, d, lanes, keep[layer], n, room)
                if layer < depth:
                    _carry(distance_in, gap, *past)
                if want_ntk:
                    _carry(tangent_in, source, *past)
                if not relu or (want_gpk and (skip or slot >= 0)):
                    _carry(features_in, both, *past)
                if slot < 0:
                    continue

                for kind in range(2):
                    if not (want_gpk if kind == 0 else want_ntk):
                        continue
                    values = features_in if kind == 0 else tangent_in
                    place = kind if want_gpk else 0
                    if head == 0:
                        for r in range(used):
                            high[place, slot, corner[0] + i, corner[1] + lane_case[r]] = values[r]
                    elif head == 2:
                        for r in range(used):
                            k, o, row = lane_case[r], lane_offset[r], corner[0] + i
                            for j in range(d):
                                out[place, slot, row, corner[1] + k, j, (j + o) % d] = values[
                                    j * lanes + r
                                ]
                    else:
                        same = True
                        for r in range(lanes):
                            bound = x_bounds[kind, slot, i] * z_bounds[kind, slot, lane_case[r]]
                            coarse[r], fine[r] = _grids(bound, headroom)
                            same = same and coarse[r] == coarse[0]
                        if same:
                            _split(values, coarse[0], fine[0], high_part, low_part, n)
                        else:
                            _split_lanes(values, coarse, fine, high_part, low_part, d, lanes)
                        _sum_pixels(high_part, d, lanes)
                        _sum_pixels(low_part, d, lanes)
                        for r in range(used):
                            row, column = corner[0] + i, corner[1] + lane_case[r]
                            high[place, slot, row, column] += high_part[r]
                            low[place, slot, row, column] += low_part[r]
