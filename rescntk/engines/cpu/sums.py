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

from ..layer import add
from .arguments import FilterSum, RowGroup, RowPlaces, Taps
from .compilation import compiled
from .vectors import (
    LINE_BYTES,
    VECTOR_BYTES,
    Numbers,
    Vector,
    load,
    load_line,
    numbers_of,
    repeat_like,
    store,
)


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
def padded_size(numbers: int, itemsize: int) -> int:
    width = VECTOR_BYTES // itemsize
    return (numbers + width - 1) // width * width


@compiled
def shortened(group: RowGroup, pixels: int, itemsize: int) -> RowGroup:
    """Return the group without `pixels` pixels at both ends, if rows are open.

    A filter of this reach has all of its taps there.
    """
    if group.closed:
        return group
    d, rows = group.d - 2 * pixels, group.rows
    start = group.start + pixels * rows
    return RowGroup(d, rows, group.halo, start, padded_size(d * rows, itemsize), False)


@compiled
def repeat_over_rows(
    memory: Numbers, out: int, values: Numbers, table: int, group: RowGroup
) -> None:
    """Copy the left table at `table`, (d,), to every row."""
    line, rows = LINE_BYTES // memory.itemsize, group.rows
    if rows % line == 0:
        for j in range(group.d):
            value = repeat_like(values[table + j], load_line(memory, out))
            for at in range(j * rows, (j + 1) * rows, line):
                store(memory, out + at, value)
    else:
        for j in range(group.d):
            for at in range(j * rows, (j + 1) * rows):
                memory[out + at] = values[table + j]


@compiled
def gather_rows(
    memory: Numbers, out: int, values: Numbers, table: int, rows: RowPlaces, group: RowGroup
) -> None:
    line, number = LINE_BYTES // memory.itemsize, group.rows
    row = 0
    while row < number:
        period, start = rows.period[row], rows.begin[row] + rows.offset[row]
        end, step = row + 1, 1  # neighbours in the table, or equal rows, are copied together
        if end < number:
            step = rows.begin[end] + rows.offset[end] - start
        while (
            end < number
            and 0 <= step <= 1
            and rows.period[end] == period
            and rows.begin[end] + rows.offset[end] == start + (end - row) * step
        ):
            end += 1
        whole = (end - row) // line * line
        pixel = rows.offset[row]
        for j in range(group.d):
            source = table + rows.begin[row] + pixel * rows.stride
            target = out + j * number + row
            if step == 0:
                value = values[source]
                several = repeat_like(value, load_line(memory, out))
                for at in range(0, whole, line):
                    store(memory, target + at, several)
                for at in range(whole, end - row):
                    memory[target + at] = value
            else:
                for at in range(0, whole, line):
                    store(memory, target + at, load_line(values, source + at))
                for at in range(whole, end - row):
                    memory[target + at] = values[source + at]
            pixel += 1
            if pixel == period:
                pixel = 0
        row = end


@compiled
def fill_halo(memory: Numbers, ring: int, group: RowGroup, reach: int) -> None:
    """Repeat the pixels of a ring in `reach` pixels of its halo at both ends, if rows are closed.

    Open rows go on in their own pixels, and no halo of theirs counts.
    """
    if not group.closed:
        return
    inside, halo = group.d * group.rows, reach * group.rows
    first, step = ring + group.start, LINE_BYTES // memory.itemsize
    low, high = first - halo, first + inside
    if halo % step == 0 and halo <= inside:
        for at in range(0, halo, step):
            store(memory, low + at, load_line(memory, low + inside + at))
            store(memory, high + at, load_line(memory, first + at))
    else:
        for at in range(halo - 1, -1, -1):
            memory[low + at] = memory[low + inside + at]
        for at in range(halo):
            memory[high + at] = memory[first + at]


@compiled
def write_box(memory: Numbers, taps: Taps, out: int, size: int) -> None:
    for at in range(0, size, VECTOR_BYTES // memory.itemsize):
        store(memory, out + at, box(memory, taps, at))


@compiled
def add_compensated(total: Vector, lost: Vector, term: Vector) -> tuple[Vector, Vector]:
    """Add `term` minus `lost` to `total`; return the sum and its rounding error (Kahan)."""
    term = term - lost
    new = total + term
    return new, (new - total) - term


def filter_sum(size: int) -> FilterSum:
    """Return how the taps of a filter of an odd `size` are added.

    The first pieces have 3, 9, 27, … taps, each three times the one before. The widest one begins
    the window, and pairs of pieces fill up the rest. The additions are the same at every pixel
    and for both signals: a kernel does not change with the pixel that counts as first.
    """
    steps, width, levels = [], 1, 0
    while 3 * width < size:
        steps.append((levels, width, levels, 2 * width, size - 3 * width))
        width, levels = 3 * width, levels + 1
    while width < size:
        second = _widest_piece(size - width - 1)
        reached = width + 3**second
        third = _widest_piece(size - reached)
        steps.append((second, width, third, reached, 0))
        width = reached + 3**third
    table = np.array(steps, np.int64).reshape(-1, 5)
    return FilterSum(size, levels, max(0, len(table) - 1), table)


def _widest_piece(size: int) -> int:
    """Return the k of the widest piece of 3^k taps that fits in `size`."""
    return max(k for k in range(size.bit_length()) if 3**k <= size)


@compiled
def address_of_sum(window: FilterSum) -> FilterSum:
    return FilterSum(window.size, window.levels, window.pieces, numbers_of(window.steps))


@compiled
def taps_of_step(
    window: FilterSum, number: int, last: int, first: int, rows: int, room: int, length: int
) -> Taps:
    """Return the places of the three parts that a step adds.

    `last` is the place of the sum so far, and `first` that of the first tap. Pieces lie in `room`,
    `length` apart. Neighbouring taps are `rows` numbers apart.
    """
    at, steps = 5 * number, window.steps
    second = first if steps[at] == 0 else room + (steps[at] - 1) * length
    third = first if steps[at + 2] == 0 else room + (steps[at + 2] - 1) * length
    return Taps(last, second + steps[at + 1] * rows, third + steps[at + 3] * rows, False)


@compiled
def moving_sum(
    memory: Numbers, ring: int, window: FilterSum, step: int, group: RowGroup, room: int,
    length: int,
) -> Taps:  # fmt: skip
    """Return three places whose sum is the sum over a filter's taps, `step` pixels apart.

    `room` is scratch space of `levels` + 1 quantities, `length` apart.
    """
    last = ring + group.start
    if window.size == 1:
        return Taps(last, last, last, True)
    rows = step * group.rows
    fill_halo(memory, ring, group, step * (window.size // 2))
    last -= window.size // 2 * rows
    first = last
    for number in range(window.pieces):
        taps = taps_of_step(window, number, last, first, rows, room, length)
        last = room + min(number, window.levels) * length
        write_box(memory, taps, last, group.size + window.steps[5 * number + 4] * rows)
    return taps_of_step(window, window.pieces, last, first, rows, room, length)


@compiled
def box(memory: Numbers, taps: Taps, at: int) -> Vector:
    """Return a moving sum at one vector of pixels."""
    if taps.single:
        return load(memory, taps.first + at)
    rest = load(memory, taps.second + at) + load(memory, taps.third + at)
    return load(memory, taps.first + at) + rest


@compiled
def add_branch(memory: Numbers, state: int, scale: float, taps: Taps, size: int) -> None:
    """state ← scale · state + box(branch): the skip connection and the outer filter."""
    for at in range(0, size, VECTOR_BYTES // memory.itemsize):
        store(memory, state + at, add(load(memory, state + at), box(memory, taps, at), scale))
