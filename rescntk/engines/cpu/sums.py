"""Memory, halos and moving sums of a group of rows.

A *row* is a ring of pixel pairs: a right case and an offset δ. Rows lie side by side, pixel after
pixel: one flat array of d · rows numbers holds a quantity. A shift by one pixel is a shift by the
number of rows. Every loop runs over the whole array in full vectors, for signals of any length.

A ring repeats some of its pixels at both ends, the halo. Arrays are rounded up to whole vectors;
numbers after the last pixel are never read as results.

All quantities lie in one array, `memory`, and each is named by the place where it begins. Views
would be slower: each view of an array costs two atomic operations. With a view of each quantity
the atomic operations took a tenth of the time (AMD EPYC Zen 5).
"""

from __future__ import annotations

import numpy as np

from .compilation import compiled
from .records import Group, Taps
from .vectors import (
    LINE_BYTES,
    VECTOR_BYTES,
    Vector,
    load,
    load_like,
    load_line,
    repeat_like,
    store,
)

SHORT_FILTER = 15
"""Longest filter, in pixels, whose moving sums are three windows of 1, 3 or 9 pixels.

It cannot be raised: 15 = 9 + 3 + 3 is the longest sum of three such windows. Longer filters are
summed in blocks: 17 pixels cost 8 % more time than 15 in float64, and 4 % in float32 (GAP, d =
100, AMD EPYC Zen 5).
"""


@compiled
def aligned_zeros(size: int, like: np.ndarray) -> np.ndarray:
    """Return `size` zeros that begin on a cache line, of the dtype of `like`.

    A vector of 64 bytes that straddles two lines takes two loads. No vector does where all rows
    of a pixel fill whole lines, shifted by pixels or not.
    """
    memory = np.zeros(size + LINE_BYTES // like.itemsize, like.dtype)
    skip = (-memory.ctypes.data % LINE_BYTES) // like.itemsize
    return memory[skip : skip + size]


@compiled
def repeat_over_rows(
    memory: np.ndarray, out: int, values: np.ndarray, case: int, table: int, group: Group
) -> None:
    """Copy the left table values[case, table], (d,), to every row."""
    vector, line = VECTOR_BYTES // memory.itemsize, LINE_BYTES // memory.itemsize
    rows = group.rows
    if rows % vector == 0:
        for j in range(group.d):
            several = repeat_like(values[case, table, j], load(memory, out))
            for at in range(j * rows, (j + 1) * rows, vector):
                store(memory, out + at, several)
    elif rows % line == 0:
        for j in range(group.d):
            value = repeat_like(values[case, table, j], load_line(memory, out))
            for at in range(j * rows, (j + 1) * rows, line):
                store(memory, out + at, value)
    else:
        for j in range(group.d):
            for at in range(j * rows, (j + 1) * rows):
                memory[out + at] = values[case, table, j]


@compiled
def gather_rows(
    memory: np.ndarray, out: int, values: np.ndarray, table: int, begin: np.ndarray, group: Group
) -> None:
    """Copy the right table at `table` to rows, each from its `begin` in the table."""
    line, rows = LINE_BYTES // memory.itemsize, group.rows
    row = 0
    while row < rows:
        end = row + 1  # neighbours in the table are copied together
        while end < rows and begin[end] == begin[end - 1] + 1:
            end += 1
        whole = (end - row) // line * line
        for j in range(group.d):
            source, target = table + begin[row] + j, out + j * rows + row
            for at in range(0, whole, line):
                store(memory, target + at, load_line(values, source + at))
            for at in range(whole, end - row):
                memory[target + at] = values[source + at]
        row = end


@compiled
def fill_halo(memory: np.ndarray, ring: int, group: Group) -> None:
    """Repeat the pixels of a ring in its halo at both ends."""
    halo, inside = group.start, group.d * group.rows
    step = LINE_BYTES // memory.itemsize
    if halo % step == 0 and halo <= inside:
        for at in range(0, halo, step):
            store(memory, ring + at, load_line(memory, ring + inside + at))
            store(memory, ring + halo + inside + at, load_line(memory, ring + halo + at))
    else:
        for at in range(halo - 1, -1, -1):
            memory[ring + at] = memory[ring + at + inside]
        for at in range(halo):
            memory[ring + halo + inside + at] = memory[ring + halo + at]


@compiled
def add_threes(memory: np.ndarray, values: int, shift: int, out: int, size: int) -> None:
    """Add three numbers, each `shift` places from the next, for `size` places."""
    for at in range(0, size, VECTOR_BYTES // memory.itemsize):
        rest = load(memory, values + shift + at) + load(memory, values + 2 * shift + at)
        store(memory, out + at, load(memory, values + at) + rest)


@compiled
def add_compensated(total: Vector, lost: Vector, term: Vector) -> tuple[Vector, Vector]:
    """Add `term` minus `lost` to `total`; return the sum and its rounding error (Kahan).

    Without compensation, hundreds of terms in float32 lose more than a kernel may err by.
    """
    term = term - lost
    new = total + term
    return new, (new - total) - term


@compiled
def add_blocks(
    memory: np.ndarray, values: int, size: int, pixels: int, rows: int, kind: Vector, step: int,
    ends: int, starts: int,
) -> None:  # fmt: skip
    """Sum blocks of `size` pixels from each pixel to the end, and from the start to each pixel.

    `starts` at a pixel receives the sum from the start of its block to the pixel. `ends` at a
    pixel receives the sum from the pixel to the end of its block, or 0 where a block starts. A
    moving sum of `size` pixels is `ends` at its first pixel plus `starts` at its last pixel.
    `step` is the length of `kind`, the vector or number in which rows are summed.
    """
    for row in range(0, rows, step):
        for first in range(0, pixels, size):
            last = min(first + size, pixels) - 1
            left, right = first * rows + row, last * rows + row
            up, down = (
                load_like(memory, values + left, kind),
                load_like(memory, values + right, kind),
            )
            lost_up = lost_down = up - up
            store(memory, starts + left, up)
            store(memory, ends + left, lost_up)
            for k in range(1, last - first + 1):  # two chains of additions at a time
                above, below = (first + k) * rows + row, (last - k) * rows + row
                up, lost_up = add_compensated(up, lost_up, load_like(memory, values + above, kind))
                store(memory, starts + above, up)
                store(memory, ends + below + rows, down)
                down, lost_down = add_compensated(
                    down, lost_down, load_like(memory, values + below, kind)
                )


@compiled
def moving_sum(
    memory: np.ndarray, ring: int, size: int, group: Group, room: tuple[int, int, int]
) -> Taps:
    """Return three places whose sum is the sum over the window of `size` pixels at each pixel.

    Up to SHORT_FILTER the three places are windows of 1, 3 or 9 pixels, each the sum of three
    smaller windows. The additions are the same at every pixel: a kernel does not change with
    the pixel that counts as first. Longer windows are sums of two parts of blocks, at the same
    cost for any size.

    `room` is scratch space. Nothing is written to its third part, which stays 0.
    """
    if size == 1:
        pixels = ring + group.start
        return Taps(pixels, pixels, pixels, True)
    rows = group.rows
    fill_halo(memory, ring, group)
    first = ring + group.start - size // 2 * rows
    if size == 3:
        return Taps(first, first + rows, first + 2 * rows, False)
    if size > SHORT_FILTER:
        ends, starts, zeros = room
        sum_blocks(memory, first, size, group, ends, starts)
        return Taps(ends, starts + (size - 1) * rows, zeros, False)
    threes, nines, _ = room
    add_threes(memory, first, rows, threes, group.size + (size - 3) * rows)
    widest, width = threes, 3
    if size > 9:
        add_threes(memory, threes, 3 * rows, nines, group.size + (size - 9) * rows)
        widest, width = nines, 9
    rest = size - width  # 2, 4 or 6
    second, third = threes if rest > 2 else first, threes if rest > 4 else first
    return Taps(
        widest, second + width * rows, third + (size - (3 if rest > 4 else 1)) * rows, False
    )


@compiled
def sum_blocks(
    memory: np.ndarray, values: int, size: int, group: Group, ends: int, starts: int
) -> None:
    """Call `add_blocks` with the longest vectors that the rows fill."""
    vector, line = VECTOR_BYTES // memory.itemsize, LINE_BYTES // memory.itemsize
    pixels, rows = group.d + size - 1, group.rows
    if rows % vector == 0:
        kind = load(memory, values)
        add_blocks(memory, values, size, pixels, rows, kind, vector, ends, starts)
    elif rows % line == 0:
        kind = load_line(memory, values)
        add_blocks(memory, values, size, pixels, rows, kind, line, ends, starts)
    else:
        add_blocks(memory, values, size, pixels, rows, memory[values], 1, ends, starts)


@compiled
def box(memory: np.ndarray, taps: Taps, at: int) -> Vector:
    """Return a moving sum at one vector of pixels."""
    if taps.single:
        return load(memory, taps.first + at)
    rest = load(memory, taps.second + at) + load(memory, taps.third + at)
    return load(memory, taps.first + at) + rest


@compiled
def add_branch(memory: np.ndarray, state: int, scale: float, taps: Taps, size: int) -> None:
    """state ← scale · state + box(branch): the skip connection and the outer filter."""
    for at in range(0, size, VECTOR_BYTES // memory.itemsize):
        store(memory, state + at, scale * load(memory, state + at) + box(memory, taps, at))
