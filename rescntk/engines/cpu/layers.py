"""The compiled loops of the engine "numba": all layers of some rows, their state in the cache.

A *lane* is a row of pixel pairs: a right case and an offset δ. Lanes lie side by side, pixel
after pixel, so that one flat array of d x lanes numbers holds a quantity, a shift by one pixel
is a shift by the number of lanes, and every loop runs over the whole array in vectors
(vectors.py): these are full for signals of any length. Arrays carry a halo of pixels at both
ends (rings.py) and are rounded up to whole vectors; what is computed there is never read.

All of them lie in one array, `m`, and a quantity is named by the place where it begins: a view
of an array costs two atomic operations, which took a tenth of the time.

Compiled at the first call, then cached on disk. Of LLVM's fast-math liberties only "contract"
is taken, a·b + c in one rounding: it is more accurate, and it does not change what NaN,
infinity and the order of sums mean.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload, register_jitable

from .. import polynomials
from .vectors import (
    LINE,
    WIDE,
    any_less,
    fabs,
    load,
    load_doubles,
    load_like,
    load_line,
    repeat_like,
    sqrt,
    store,
    where_less,
)  # fmt: skip

_compiled = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})

PADDING = 256
"""Arrays are rounded up to this many bytes: whole vectors of any kind."""

SHORT_FILTER = 15
"""Windows of longer filters are summed from both ends of blocks (`_taps`)."""

# What a layer's row of constants holds: its factor and half of it, what it keeps of what is
# carried and of the sum of K, 2 (i − r), o + r, the unit of ties and the largest distance at
# which there may be one, and some numbers.
FACTOR, HALF_FACTOR, KEEP, HOLD, INNER, AGAIN, TIE, NEAR, ZERO, HALF, ONE, TWO = range(12)

_p32, _p64 = map(register_jitable, (polynomials.p32, polynomials.p64))
_r32, _r64 = map(register_jitable, (polynomials.r32, polynomials.r64))


def angle(a: Any, c: Any) -> Any:
    """p(a) of a vector, with its coefficients (tools/polynomials.py)."""


def gap(a: Any, c: Any) -> Any:
    """r(a) of a vector."""


@overload(angle, strict=False)
def _choose_angle(a: Any, c: Any) -> Any:
    if a.scalar == types.float32:
        return lambda a, c: _p32(a, c)
    return lambda a, c: _p64(a, c)


@overload(gap, strict=False)
def _choose_gap(a: Any, c: Any) -> Any:
    if a.scalar == types.float32:
        return lambda a, c: _r32(a, c)
    return lambda a, c: _r64(a, c)


def coefficients(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return those of p and r in one precision."""
    bits = np.dtype(dtype).itemsize * 8
    names = f"P{bits}", f"R{bits}"
    p, r = (np.array(getattr(polynomials, name), dtype) for name in names)
    return p, r


@_compiled
def _memory(size: int, like: Any) -> Any:
    """Return zeros that begin on a cache line.

    A vector of 64 bytes that straddles two lines takes two loads. Where all lanes of a pixel
    fill whole lines none does, shifted by pixels or not.
    """
    memory = np.zeros(size + LINE // like.itemsize, like.dtype)
    skip = (-memory.ctypes.data % LINE) // like.itemsize
    return memory[skip : skip + size]


# ---------------------------------------------------------------- moving sums


@_compiled
def _spread(values: Any, case: int, table: int, d: int, lanes: int, m: Any, out: int) -> None:
    """Repeat each pixel's value over all lanes."""
    wide, line = WIDE // m.itemsize, LINE // m.itemsize
    if lanes % wide == 0:
        for j in range(d):
            several = repeat_like(values[case, table, j], load(m, out))
            for t in range(j * lanes, (j + 1) * lanes, wide):
                store(m, out + t, several)
    elif lanes % line == 0:
        for j in range(d):
            value = repeat_like(values[case, table, j], load_line(m, out))
            for t in range(j * lanes, (j + 1) * lanes, line):
                store(m, out + t, value)
    else:
        for j in range(d):
            for t in range(j * lanes, (j + 1) * lanes):
                m[out + t] = values[case, table, j]


@_compiled
def _gather(values: Any, table: int, begin: Any, m: Any, d: int, lanes: int, out: int) -> None:
    """Lay the right cases' table that begins at `table` out in lanes, each from its `begin`."""
    line = LINE // m.itemsize
    r = 0
    while r < lanes:
        end = r + 1  # neighbours in the table are copied together
        while end < lanes and begin[end] == begin[end - 1] + 1:
            end += 1
        whole = (end - r) // line * line
        for j in range(d):
            source, place = table + begin[r] + j, out + j * lanes + r
            for t in range(0, whole, line):
                store(m, place + t, load_line(values, source + t))
            for t in range(whole, end - r):
                m[place + t] = values[source + t]
        r = end


@_compiled
def _fill_halo(m: Any, ring: int, halo: int, inside: int) -> None:
    """Repeat pixels around the ring; `halo` and `inside` count numbers, not pixels."""
    step = LINE // m.itemsize
    if halo % step == 0 and halo <= inside:
        for t in range(0, halo, step):
            store(m, ring + t, load_line(m, ring + inside + t))
            store(m, ring + halo + inside + t, load_line(m, ring + halo + t))
    else:
        for t in range(halo - 1, -1, -1):
            m[ring + t] = m[ring + t + inside]
        for t in range(halo):
            m[ring + halo + inside + t] = m[ring + halo + t]


@_compiled
def _threes(m: Any, values: int, shift: int, out: int, n: int) -> None:
    """Add three numbers, each `shift` from the next."""
    for t in range(0, n, WIDE // m.itemsize):
        rest = load(m, values + shift + t) + load(m, values + 2 * shift + t)
        store(m, out + t, load(m, values + t) + rest)


@_compiled
def _add(total: Any, lost: Any, term: Any) -> Any:
    """Add a term, and what the additions before it lost (Kahan): thousands add up in float32."""
    term = term - lost
    both = total + term
    return both, (both - total) - term


@_compiled
def _from_both_ends(
    m: Any, values: int, size: int, pixels: int, lanes: int, kind: Any, step: int,
    ends: int, starts: int,
) -> None:  # fmt: skip
    """Sum blocks of `size` pixels from each pixel to the end, and from the start to each pixel.

    A window that begins inside a block is the end of this block and the start of the next one;
    one that is a block is in its last pixel's start. Lanes are summed by `step`, the length of
    `kind`.
    """
    for r in range(0, lanes, step):
        for first in range(0, pixels, size):
            last = min(first + size, pixels) - 1
            left, right = first * lanes + r, last * lanes + r
            up, down = load_like(m, values + left, kind), load_like(m, values + right, kind)
            lost_up = lost_down = up - up
            store(m, starts + left, up)
            store(m, ends + left, lost_up)
            for k in range(1, last - first + 1):  # two chains of additions at a time
                above, below = (first + k) * lanes + r, (last - k) * lanes + r
                up, lost_up = _add(up, lost_up, load_like(m, values + above, kind))
                store(m, starts + above, up)
                store(m, ends + below + lanes, down)
                down, lost_down = _add(down, lost_down, load_like(m, values + below, kind))


@_compiled
def _taps(
    m: Any, ring: int, size: int, halo: int, d: int, lanes: int, n: int, room: tuple[int, int, int]
) -> tuple[int, int, int]:
    """Return three places whose sum is that over windows of `size` pixels (of 1: the first).

    Up to SHORT_FILTER that is three windows of 1, 3 or 9 pixels, each of them three of the size
    before: the same additions at every pixel, so that a kernel does not change with the pixel
    that counts as first. Longer windows are taken from two blocks, at the same cost for any
    size. `room` is scratch space; nothing is written to the last part, which is 0.
    """
    if size == 1:
        whole = ring + halo * lanes
        return whole, whole, whole
    _fill_halo(m, ring, halo * lanes, d * lanes)
    first = ring + (halo - size // 2) * lanes
    if size == 3:
        return first, first + lanes, first + 2 * lanes
    if size > SHORT_FILTER:
        ends, starts, nothing = room
        wide, line, pixels = WIDE // m.itemsize, LINE // m.itemsize, d + size - 1
        if lanes % wide == 0:
            _from_both_ends(m, first, size, pixels, lanes, load(m, first), wide, ends, starts)
        elif lanes % line == 0:
            _from_both_ends(m, first, size, pixels, lanes, load_line(m, first), line, ends, starts)
        else:
            _from_both_ends(m, first, size, pixels, lanes, m[first], 1, ends, starts)
        return ends, starts + (size - 1) * lanes, nothing
    threes, nines, _ = room
    _threes(m, first, lanes, threes, n + (size - 3) * lanes)
    widest, width = threes, 3
    if size > 9:
        _threes(m, threes, 3 * lanes, nines, n + (size - 9) * lanes)
        widest, width = nines, 9
    rest = size - width  # 2, 4 or 6
    second, third = threes if rest > 2 else first, threes if rest > 4 else first
    return widest, second + width * lanes, third + (size - (3 if rest > 4 else 1)) * lanes


@_compiled
def _window(m: Any, taps: tuple[int, int, int], size: int, t: int) -> Any:
    """Return the sum of the taps of a filter of that size."""
    one, two, three = taps
    if size == 1:
        return load(m, one + t)
    return load(m, one + t) + (load(m, two + t) + load(m, three + t))


@_compiled
def _sum_into(m: Any, out: int, taps: tuple[int, int, int], size: int, n: int) -> None:
    """Compute sums over windows of `size` pixels."""
    for t in range(0, n, WIDE // m.itemsize):
        store(m, out + t, _window(m, taps, size, t))


@_compiled
def _carry(m: Any, state: int, taps: tuple[int, int, int], size: int, keep: Any, n: int) -> None:
    """Carry `state` past a layer whose residual branch brings the sum of `taps`."""
    for t in range(0, n, WIDE // m.itemsize):
        store(m, state + t, keep * load(m, state + t) + _window(m, taps, size, t))


# ---------------------------------------------------------------- layers


@_compiled
def _half_square(m: Any, units: tuple[int, int, int, int], sign: Any, k: Any, t: int) -> Any:
    """Return |û + sign·v̂|²/2 of the unit vectors of the input's pixels."""
    left, right, length, channels = units
    term = load(m, left + t) + sign * load(m, right + t)
    total = term * term
    for c in range(length, channels * length, length):
        term = load(m, left + c + t) + sign * load(m, right + c + t)
        total = total + term * term
    return k[HALF] * total


@_compiled
def _enter(
    m: Any, units: tuple[int, int, int, int], opposite: Any, careful: bool,
    xb: int, zb: int, start: Any, share: Any, states: tuple[int, int, int], ws: int,
    relu: bool, x1: int, z1: int, brought: tuple[int, int, int], k: Any, p: Any, r: Any, n: int,
) -> bool:  # fmt: skip
    """D, A and F of the features that enter, and what the first layer's branch brings.

    w = 1 − ρ of the input's pixels is taken from their unit vectors; v = 1 + ρ is 2 − w unless
    `careful`, then it is taken from them too where w exceeds `opposite`. Return whether some
    does. F is multiplied by `share`. erf's first layer is left to `_erf_layer`, with w.
    """
    distance, tangent, features = states
    gaps, both, source = brought
    minus, plus = k[ZERO] - k[ONE], k[ONE]
    largest = k[ZERO] * load(m, xb)
    for t in range(0, n, WIDE // m.itemsize):
        w = _half_square(m, units, minus, k, t)
        v = k[TWO] - w
        largest = where_less(largest, w, w, largest)
        if careful:
            v = where_less(opposite, w, _half_square(m, units, plus, k, t), v)
        x, z = load(m, xb + t), load(m, zb + t)
        h = x - z
        g = k[TWO] * (x * z)
        gw = g * w
        entering, tangent_g = share * (g - gw), start * (g - gw)
        store(m, distance + t, h * h + gw)
        store(m, features + t, entering)
        store(m, tangent + t, tangent_g)
        if not relu:
            store(m, ws + t, w)
            continue
        x, z = load(m, x1 + t), load(m, z1 + t)
        far, covariance, slope = _relu(x, z, w, v, k, p, r)
        store(m, gaps + t, far)
        store(m, both + t, k[HOLD] * entering + covariance)
        tangent_g = tangent_g + k[INNER] * ((x * z) * (k[ONE] - w))
        store(m, source + t, slope * tangent_g + k[AGAIN] * covariance)
    return any_less(opposite, largest)


@_compiled
def _complement(x: Any, z: Any, inverse: Any, distance: Any, k: Any) -> Any:
    """Return 1 − ρ of the pre-activations of pixel pairs from their distance.

    x and z are √(q/2) of the two pixels. A distance within its rounding error of the least
    that such norms allow is a tie (tables.TIE_UNITS); none of those above NEAR is.
    """
    h = x - z
    e = distance - h * h
    if any_less(e, k[NEAR]):
        e = where_less(k[TIE] * fabs(h) * (x + z), e, e, k[ZERO])
    w = e * inverse
    return where_less(w, k[TWO], w, k[TWO])


@_compiled
def _relu(x: Any, z: Any, w: Any, v: Any, k: Any, p: Any, r: Any) -> Any:
    """Return (distance, covariance, K̇) after a ReLU, times the layer's factor."""
    a = where_less(w, v, w, v)
    root = sqrt(a)
    k0 = root * angle(a, p)
    k1 = root * a * gap(a, r)
    kappa0 = where_less(w, v, k[ONE] - k0, k0)
    deficit = where_less(w, v, w, k[ONE]) - k1  # 1 − κ1
    h = x - z
    g = k[FACTOR] * (x * z)  # f g/2
    gw = g * deficit
    return k[HALF_FACTOR] * (h * h) + gw, g - gw, k[HALF_FACTOR] * kappa0


@_compiled
def _relu_layer(
    m: Any, xb: int, xi: int, zb: int, zi: int, near: tuple[int, int, int],
    tangents: tuple[int, int, int], size: int, want_ntk: bool,
    k: Any, p: Any, r: Any, gaps: int, both: int, source: int, n: int,
) -> None:  # fmt: skip
    """Through a layer's filter and ReLU: what the residual branch brings.

    `near` and `tangents` are the taps of D and A. `gaps` is the branch's distance, source = K̇
    (box A + (i − r) Σ) + (o + r) K, and `both` ← hold · both + K.
    """
    for t in range(0, n, WIDE // m.itemsize):
        x, z = load(m, xb + t), load(m, zb + t)
        inverse = load(m, xi + t) * load(m, zi + t)
        w = _complement(x, z, inverse, _window(m, near, size, t), k)
        far, covariance, slope = _relu(x, z, w, k[TWO] - w, k, p, r)
        store(m, gaps + t, far)
        store(m, both + t, k[HOLD] * load(m, both + t) + covariance)
        if want_ntk:
            tangent = _window(m, tangents, size, t) + k[INNER] * ((x * z) * (k[ONE] - w))
            store(m, source + t, slope * tangent + k[AGAIN] * covariance)


@_compiled
def _erf_complement(
    m: Any, xb: int, xi: int, zb: int, zi: int, distance: int, k: Any, w: int, n: int
) -> None:
    """Compute w = 1 − ρ of the pre-activations."""
    for t in range(0, n, WIDE // m.itemsize):
        x, z, inverse = load(m, xb + t), load(m, zb + t), load(m, xi + t) * load(m, zi + t)
        store(m, w + t, _complement(x, z, inverse, load(m, distance + t), k))


@_compiled
def _erf_layer(
    m: Any, xb: int, zb: int, xp: int, zp: int, xq: int, zq: int, w: int,
    covariance: int, tangent: int, gaps: int, both: int, source: int,
    unit: float, factor: float, k: Any, n: int,
) -> None:  # fmt: skip
    """Through erf (activations.Erf); `covariance` is Σ in units of `unit`."""
    number = m.dtype.type
    u, f, inner, again = number(unit), number(factor), k[HALF] * k[INNER], k[AGAIN]
    zero = number(0.0)
    two, to_angle, to_slope = number(2.0), number(2.0 / math.pi), number(4.0 / math.pi)
    for t in range(n):
        g = two * u * (m[xb + t] * m[zb + t])
        cov = u * m[covariance + t]
        above = g + cov  # a rounding error may take it below 0
        above = above if above > zero else zero
        root = math.sqrt(m[xp + t] + m[zp + t] + number(4.0) * g * m[w + t] * above)
        result = f * to_angle * math.atan2(two * cov, root)
        slope = f * u * to_slope / root
        m[both + t] = result
        m[gaps + t] = f * (m[xq + t] + m[zq + t]) - result
        m[source + t] = slope * (m[tangent + t] + inner * m[covariance + t]) + again * result


# ---------------------------------------------------------------- heads


@_compiled
def _grids(bound: float, headroom: int) -> tuple[float, float]:
    """exact_sum.grids, for one number."""
    exponent = math.frexp(bound)[1]
    return math.ldexp(1.5, exponent + headroom), math.ldexp(1.5, exponent + 2 * headroom - 53)


@_compiled
def _sum_pixels(
    m: Any, terms: int, d: int, lanes: int, coarse: Any, fine: Any, high: Any, low: Any
) -> None:
    """Add all pixels of each lane on its two grids (exact_sum.py), into `high` and `low`."""
    for r in range(0, lanes, LINE // coarse.itemsize):
        wide_grid, fine_grid = load_line(coarse, r), load_line(fine, r)
        upper = wide_grid - wide_grid
        lower = upper
        for j in range(d):
            value = load_doubles(m, terms + j * lanes + r)
            part = (value + wide_grid) - wide_grid
            upper = upper + part
            lower = lower + (((value - part) + fine_grid) - fine_grid)
        store(high, r, upper)
        store(low, r, lower)


# ---------------------------------------------------------------- rows


@_compiled
def fill(
    x_units: Any, x_root: Any, x_inverse: Any, x_extra: Any, x_bounds: Any,
    z_units: Any, z_root: Any, z_inverse: Any, z_extra: Any, z_bounds: Any,
    symmetric_from: int,
    offsets: int, lanes: int, halo: int, sizes: tuple[int, int],
    unit: Any, factor: Any, constants: Any, polynomial: tuple[Any, Any], slots: Any,
    start: float, opposite: float, relu: bool, skip: bool, want_gpk: bool, want_ntk: bool,
    summed: bool, head: int, corner: tuple[int, int], high: Any, low: Any, out: Any,
) -> None:  # fmt: skip
    """Compute kernels of all left with all right cases, all offsets, all layers.

    Parameters
    ----------
    x_units, x_root, x_inverse, x_extra : arrays
        Left tables: (case, channel, d), twice (case, layer, d), (case, layer x table, d).
    z_units, z_root, z_inverse, z_extra : arrays
        Right ones, wrapped and flat: (channel, case, d or 2d − 1), twice (layer, …), (layer x
        table, …).
    x_bounds, z_bounds : arrays
        (kind, slot, case): see `tables.SignalTables.bounds`.
    symmetric_from : int
        Only rows up to a lane group's last column, plus this, are wanted.
    unit, factor : arrays, (layers + 1,), float64
        Constants of each layer, for erf.
    constants : array, (layers + 1, 12)
        Those that vectors are multiplied by, in their precision: FACTOR … TWO.
    polynomial : two arrays
        From `coefficients`.
    slots : array, (layers + 1,)
        Which result a layer is, or −1.
    start : float
        t + r of the trained parts.
    summed : bool
        Only the sum of F over pixels is wanted, which a filter multiplies by its size: K is
        added up as it is, by the loop through the activation, to F over that size.
    head : int
        0: pixel 1; 1: sums over pixels and offsets, in `high` and `low`; 2: all pixel pairs.
    corner : (int, int)
        Where row and column 0 are in the results.
    high, low, out : arrays
        Results, (kind, slot, row, column), sums being added; `out` for pixel pairs.
    """
    number = x_root.dtype.type
    cases, _, d = x_root.shape
    per_case = d + offsets - 1
    channels, per_table = x_units.shape[1], len(z_root) // x_root.shape[1]
    columns = per_table // per_case
    depth = len(unit) - 1
    n_extra = x_extra.shape[1] // (depth + 1)
    inner_size, outer_size = sizes
    p, r = polynomial
    total_lanes = columns * offsets
    inside = d * lanes
    width = PADDING // x_root.itemsize
    n = (inside + width - 1) // width * width
    length = (n + 2 * halo * lanes + 3 * width - 1) // width * width
    # Six rings, six rooms for sums, six arrays, then tables: places in one memory.
    tables = 18 * length
    xu, zu = tables, tables + channels * length
    z_tables = tables + 2 * channels * length
    per_layer = (2 + n_extra) * length
    m = _memory(z_tables + (depth + 1) * per_layer, x_root)
    distance, tangent, features = 0, length, 2 * length
    gaps, both, source = 3 * length, 4 * length, 5 * length
    room1 = 6 * length, 7 * length, 8 * length
    room2 = 9 * length, 10 * length, 11 * length
    w, x0, xb, xi = 12 * length, 13 * length, 14 * length, 15 * length
    xp, xq, sum1, sum2 = 16 * length, 17 * length, x0, room2[1]  # for erf
    state = halo * lanes  # where the pixels begin
    distance_in, tangent_in, features_in = distance + state, tangent + state, features + state
    gaps_in, both_in, source_in = gaps + state, both + state, source + state
    sums = np.zeros((4, lanes + LINE))
    coarse, fine, high_part, low_part = sums[0], sums[1], sums[2], sums[3]
    of_lanes = np.zeros((3, lanes), np.int64)
    lane_case, lane_offset, begin = of_lanes[0], of_lanes[1], of_lanes[2]
    headroom = 1
    while 2 ** (headroom - 1) < d * offsets:
        headroom += 1
    share = outer_size if summed else 1
    if summed:
        both_in = features_in
    units, states = (xu, zu, length, channels), (distance_in, tangent_in, features_in)
    brought = gaps_in, both_in, source_in

    for group in range(0, total_lanes, lanes):
        used = min(lanes, total_lanes - group)
        for t in range(lanes):
            lane = group + min(t, used - 1)  # the last group repeats its last lane
            lane_case[t], lane_offset[t] = lane // offsets, lane % offsets
            begin[t] = lane_case[t] * per_case + lane_offset[t]
        for layer in range(depth + 1):
            at, table = z_tables + layer * per_layer, layer * per_table
            _gather(z_root, table, begin, m, d, lanes, at)
            _gather(z_inverse, table, begin, m, d, lanes, at + length)
            for e in range(n_extra):
                table = (layer * n_extra + e) * per_table
                _gather(z_extra, table, begin, m, d, lanes, at + (2 + e) * length)
        for c in range(channels):
            _gather(z_units, c * per_table, begin, m, d, lanes, zu + c * length)

        for i in range(min(cases, lane_case[lanes - 1] + symmetric_from + 1)):
            for c in range(channels):
                _spread(x_units, i, c, d, lanes, m, xu + c * length)
            _spread(x_root, i, 0, d, lanes, m, x0)
            _spread(x_root, i, 1, d, lanes, m, xb)
            for careful in (False, True):
                opposed = _enter(
                    m, units, number(opposite), careful, x0, z_tables, number(start),
                    number(1.0 / share), states, w,
                    relu, xb, z_tables + per_layer, brought, constants[1], p, r, n,
                )  # fmt: skip
                if not opposed:
                    break

            for layer in range(1, depth + 1):
                k, slot = constants[layer], slots[layer]
                size = 1 if layer == 1 else inner_size
                zb = z_tables + layer * per_layer
                zi = zb + length
                shape = halo, d, lanes, n
                if layer > 1 or not relu:
                    _spread(x_root, i, layer, d, lanes, m, xb)
                    _spread(x_inverse, i, layer, d, lanes, m, xi)
                near = _taps(m, distance, size, *shape, room1)
                tangents = near
                if want_ntk:
                    tangents = _taps(m, tangent, size, *shape, room2)
                if not relu:
                    _spread(x_extra, i, 2 * layer, d, lanes, m, xp)
                    _spread(x_extra, i, 2 * layer + 1, d, lanes, m, xq)
                    if layer > 1:
                        _sum_into(m, sum1, near, size, n)
                        _erf_complement(m, xb, xi, zb, zi, sum1, k, w, n)
                    _sum_into(m, sum1, tangents, size, n)
                    _sum_into(m, sum2, _taps(m, features, size, *shape, room1), size, n)
                    _erf_layer(
                        m, xb, zb, xp, zi + length, xq, zi + 2 * length, w, sum2, sum1,
                        *brought, unit[layer], factor[layer], k, n,
                    )  # fmt: skip
                elif layer > 1:
                    _relu_layer(
                        m, xb, xi, zb, zi, near, tangents, size, want_ntk, k, p, r, *brought, n
                    )
                if layer < depth:
                    taps = _taps(m, gaps, outer_size, *shape, room1)
                    _carry(m, distance_in, taps, outer_size, k[KEEP], n)
                if want_ntk:
                    taps = _taps(m, source, outer_size, *shape, room1)
                    _carry(m, tangent_in, taps, outer_size, k[KEEP], n)
                if not relu or (not summed and want_gpk and (skip or slot >= 0)):
                    taps = _taps(m, both, outer_size, *shape, room1)
                    _carry(m, features_in, taps, outer_size, k[KEEP], n)
                if slot < 0:
                    continue

                for kind in range(2):
                    if not (want_gpk if kind == 0 else want_ntk):
                        continue
                    at = features_in if kind == 0 else tangent_in
                    place = kind if want_gpk else 0
                    if head == 0:
                        for t in range(used):
                            high[place, slot, corner[0] + i, corner[1] + lane_case[t]] = m[at + t]
                    elif head == 2:
                        for t in range(used):
                            row, column = corner[0] + i, corner[1] + lane_case[t]
                            for j in range(d):
                                other = (j + lane_offset[t]) % d
                                out[place, slot, row, column, j, other] = m[at + j * lanes + t]
                    else:
                        last = -1.0
                        for t in range(lanes):
                            bound = x_bounds[kind, slot, i] * z_bounds[kind, slot, lane_case[t]]
                            if bound != last:  # which is rare, and the functions are slow
                                grids, last = _grids(bound, headroom), bound
                            coarse[t], fine[t] = grids
                        _sum_pixels(m, at, d, lanes, coarse, fine, high_part, low_part)
                        times = share if kind == 0 else 1
                        for t in range(used):
                            row, column = corner[0] + i, corner[1] + lane_case[t]
                            high[place, slot, row, column] += times * high_part[t]
                            low[place, slot, row, column] += times * low_part[t]
