"""Moving sums of a group of rows (groups.py), of numbers and of deficits."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..layer import add
from ..masses import Split, cross
from .arguments import FilterSum, RowGroup, Taps
from .compilation import compiled, inlined_by_llvm
from .groups import fill_halo
from .substitutes import has_biases
from .vectors import Numbers, Vector, load, load_like, load_register, rounded_product, store


class Masses(NamedTuple):
    """Places of u⁺ and of both sides' root masses (engines/deficits.py), and merges' numbers.

    Behind the deficit u at a place lie its root masses, divided by √2, and u⁺. A root mass may be
    the sum of two numbers (`masses.Split`).
    """

    left: int
    right: int
    opposite: int  # numbers from u to the left and the right root mass, and to u⁺.
    low: int  # numbers from the `high` of a root mass to its `low`; 0 where it is one number.
    twice: float  # twice the unit of masses, in the unit of deficits.
    tiny: float  # keeps the N of two masses 0 at 0.
    biases: int  # the place from which the biases' root masses lie as a deficit's root masses.


@compiled
def add_compensated(total: Vector, lost: Vector, term: Vector) -> tuple[Vector, Vector]:
    """Add `term` minus `lost` to `total`; return the sum and its rounding error (Kahan)."""
    term = term - lost
    new = total + term
    return new, (new - total) - term


_KEPT_SUMS = 64
"""The number of `FilterSum` that are kept between calls, each a small table. Raising it serves more
filter sizes in turn."""


@lru_cache(maxsize=_KEPT_SUMS)
def filter_sum(size: int, n_axes: int = 1) -> FilterSum:
    """Return how the taps of a filter of an odd `size` are added; on two axes for images.

    The first pieces have 3, 9, 27, … taps: each piece triples the taps. The widest piece begins
    the window, and pairs of pieces fill up the rest. The additions are the same at every pixel
    and for both signals: a kernel does not change with the pixel that counts as first.

    Images are summed along lines first, a pair of taps at a time, from the middle to the ends. The
    sums along lines then take the place of single taps.
    """
    steps: list[tuple[int, ...]] = []
    width = 1
    while 3 * width < size:
        steps.append((len(steps), width, len(steps), 2 * width, size - 3 * width))
        width *= 3
    while width < size:
        second = _widest_piece(size - width - 1)
        reached = width + 3**second
        third = _widest_piece(size - reached)
        steps.append((second, width, third, reached, 0))
        width = reached + 3**third
    line_steps = size // 2 if n_axes == 2 else 0
    lines = [(0, -k, 0, k, 0) for k in range(1, line_steps + 1)]
    table = np.array([*lines, *steps], np.int64).reshape(-1, 5)
    table[line_steps:, :4:2] += np.where(table[line_steps:, :4:2] > 0, line_steps, 0)
    return FilterSum(size, size**n_axes, line_steps, max(0, len(table) - 1), table)


def _widest_piece(size: int) -> int:
    """Return the k of the widest piece of 3^k taps that fits in `size`."""
    return max(k for k in range(size.bit_length()) if 3**k <= size)


@compiled
def moving_sum(
    group: RowGroup, ring: int, window: FilterSum, step: int, room: int,
    masses: Masses | None,
) -> Taps:  # fmt: skip
    """Return three places whose sum is the sum over a filter's taps, `step` pixels apart.

    `room` is scratch space of `pieces` quantities. With `masses`, of the ring and of the pieces
    in `room`, numbers are deficits, and sums are merges (`merged_box`).
    """
    last = ring + group.start
    if window.size == 1:
        return Taps(last, last, last, True)
    if window.line_steps > 0:
        sum_lines(group, ring, window, step, room, masses)
        ring = room + (window.line_steps - 1) * group.length
        step = ((step - 1) % (group.d // group.width) + 1) * group.width
    fill_halo(group, ring, step * (window.size // 2))
    if masses is not None:
        fill_halo(group, ring + masses.opposite, step * (window.size // 2))
    rows, length = step * group.rows, group.length
    begin = group.start - window.size // 2 * rows
    first = last = ring + begin
    room += begin
    number = window.line_steps
    while True:
        at, steps = 5 * number, window.steps
        second = first if steps[at] == 0 else room + (steps[at] - 1) * length
        third = first if steps[at + 2] == 0 else room + (steps[at + 2] - 1) * length
        taps = Taps(last, second + steps[at + 1] * rows, third + steps[at + 3] * rows, False)
        if number == window.pieces:
            return taps
        last = room + number * length
        write_box(group.memory, taps, last, group.size + steps[at + 4] * rows, masses)
        number += 1


@compiled
def sum_lines(
    group: RowGroup, ring: int, window: FilterSum, step: int, room: int, masses: Masses | None
) -> None:  # fmt: skip
    """Write sums along lines, closed to rings, to the place of the last of these steps in `room`.

    With `masses`, the sums of the other steps are written too.
    """
    memory, rows, width, last = group.memory, group.rows, group.width, window.line_steps
    ring, room, step = ring + group.start, room + group.start, step % width
    for line in range(0, group.d, width):
        x = 0
        while x < width:
            # Pixels between the line's ends have all taps on the line, and are passed at once.
            inside = last * step <= x < width - last * step
            size = (width - 2 * last * step if inside else 1) * rows
            begin, out = ring + line * rows, room + (line + x) * rows
            middle = begin + x * rows
            if masses is None:
                for at in range(0, size, memory.per_vector):
                    total = load(memory, middle + at)
                    for k in range(1, last + 1):
                        one = around(x - k * step, width) * rows
                        two = around(x + k * step, width) * rows
                        pair = load(memory, begin + one + at) + load(memory, begin + two + at)
                        total = total + pair
                    store(memory, out + (last - 1) * group.length + at, total)
            else:
                for k in range(1, last + 1):
                    one = around(x - k * step, width) * rows
                    two = around(x + k * step, width) * rows
                    taps = Taps(middle, begin + one, begin + two, False)
                    middle = out + (k - 1) * group.length
                    write_box(memory, taps, middle, size, masses)
            x += size // rows


@compiled
def around(x: int, width: int) -> int:
    """Return x modulo `width`; x is near, and a division would take longer than the sums."""
    while x < 0:
        x += width
    while x >= width:
        x -= width
    return x


@compiled
def write_box(
    memory: Numbers, taps: Taps, out: int, size: int, masses: Masses | None
) -> None:  # fmt: skip
    """Write moving sums to the place `out`; of deficits, u and u⁺ of windows."""
    if masses is None:
        for at in range(0, size, memory.per_vector):
            store(memory, out + at, box(memory, taps, at))
    elif masses.low > 0:
        merge_boxes(memory, taps, out, 0, size, masses=masses, split=True, biased=False)
    else:
        merge_boxes(memory, taps, out, 0, size, masses=masses, split=False, biased=False)


@compiled
def write_window(
    memory: Numbers, taps: Taps, out: int, begin: int, end: int, masses: Masses, layer: Any
) -> None:  # fmt: skip
    """Write u and u⁺ of an inner filter's windows and of a layer's biases, merged.

    These are the windows from the place `begin` to the place `end` after `out`.
    """
    if masses.low > 0:
        merge_boxes(
            memory, taps, out, begin, end, masses=masses, split=True, biased=has_biases(layer)
        )
    else:
        merge_boxes(
            memory, taps, out, begin, end, masses=masses, split=False, biased=has_biases(layer)
        )


@inlined_by_llvm
def merge_boxes(
    memory: Numbers, taps: Taps, out: int, begin: int, end: int, masses: Masses, split: bool,
    biased: bool,
) -> None:  # fmt: skip
    for at in range(begin, end, memory.per_register):
        merge_box(memory, taps, at, out + at, masses, split, biased=biased)


@compiled
def box(memory: Numbers, taps: Taps, at: int) -> Vector:
    """Return a moving sum at one vector of pixels."""
    return add_taps(load(memory, taps.first + at), memory, taps, at)


@compiled
def box_register(memory: Numbers, taps: Taps, at: int) -> Vector:
    """Return the same at one register of pixels.

    Merges have some fourteen numbers at hand. As vectors of `load` these would not fit in the
    registers: kernels in deficits took 1.16 times as long.
    """
    return add_taps(load_register(memory, taps.first + at), memory, taps, at)


@compiled
def add_taps(first: Vector, memory: Numbers, taps: Taps, at: int) -> Vector:
    """Return a moving sum at a vector of any length; `first` is its first part."""
    if taps.single:
        return first
    second = load_like(memory, taps.second + at, first)
    return first + (second + load_like(memory, taps.third + at, first))


@inlined_by_llvm
def merge_box(
    memory: Numbers, taps: Taps, at: int, out: int, masses: Masses, split: bool, biased: bool
) -> None:  # fmt: skip
    """Write u and u⁺ of three parts together, Σ u_p + N and Σ u⁺_p + N (Lagrange's identity).

    The root masses of all parts together lie at the place `out`. If `biased`, biases are a part
    more: their u is 0, their u⁺ twice the product of their masses.
    """
    deficit = box_register(memory, taps, at)
    opposite = box_register(memory, taps, masses.opposite + at)
    if biased or not taps.single:
        total = product_of_roots(memory, out, masses, split) + masses.tiny
        total = total + sum_of_products(memory, taps, at, masses, split)
        bias = 0.0 * total
        if biased:
            bias = product_of_roots(memory, masses.biases + at, masses, split)
            total = total + bias
        scale, squares = 1.0 / total, 0.0 * total
        if not taps.single:
            squares = squares_of_taps(memory, taps, at, masses, scale, split)
        if biased:
            place = masses.biases + at
            squares = squares + squares_beside_taps(
                memory, place, taps, at, masses, scale, split=split
            )
        N = masses.twice * total * squares
        deficit, opposite = deficit + N, opposite + N
        if biased:
            opposite = opposite + 2.0 * masses.twice * bias
    store(memory, out, deficit)
    store(memory, out + masses.opposite, opposite)


@inlined_by_llvm
def load_root(memory: Numbers, at: int, masses: Masses, split: bool) -> Vector:
    """Return a root mass, rounded."""
    root = load_register(memory, at)
    return root + load_register(memory, at + masses.low) if split else root


@inlined_by_llvm
def product_of_roots(memory: Numbers, at: int, masses: Masses, split: bool) -> Vector:
    """Return the product of both sides' root masses."""
    left = load_root(memory, at + masses.left, masses, split)
    return left * load_root(memory, at + masses.right, masses, split)


@inlined_by_llvm
def sum_of_products(memory: Numbers, taps: Taps, at: int, masses: Masses, split: bool) -> Vector:
    """Return the sum of these products over the parts of a window."""
    total = product_of_roots(memory, taps.first + at, masses, split)
    if not taps.single:
        second = product_of_roots(memory, taps.second + at, masses, split)
        total = total + (second + product_of_roots(memory, taps.third + at, masses, split))
    return total


@inlined_by_llvm
def squares_of_taps(
    memory: Numbers, taps: Taps, at: int, masses: Masses, scale: Vector, split: bool
) -> Vector:  # fmt: skip
    """Return the sum of `squared_cross` over pairs of a window's three parts."""
    first, second, third = taps.first + at, taps.second + at, taps.third + at
    squares = squared_cross(memory, first, second, masses, scale, split)
    squares = squares + squared_cross(memory, first, third, masses, scale, split)
    return squares + squared_cross(memory, second, third, masses, scale, split)


@inlined_by_llvm
def squares_beside_taps(
    memory: Numbers, place: int, taps: Taps, at: int, masses: Masses, scale: Vector, split: bool
) -> Vector:  # fmt: skip
    """Return the sum of `squared_cross` over pairs of the part at `place` and a window's part."""
    squares = squared_cross(memory, place, taps.first + at, masses, scale, split)
    if taps.single:
        return squares
    squares = squares + squared_cross(memory, place, taps.second + at, masses, scale, split)
    return squares + squared_cross(memory, place, taps.third + at, masses, scale, split)


@inlined_by_llvm
def squared_cross(
    memory: Numbers, at: int, after: int, masses: Masses, scale: Vector, split: bool
) -> Vector:  # fmt: skip
    """Return the square of (a b' − a' b) times `scale`, of the parts at two places.

    It is the same for exchanged sides.
    """
    left, right, low = masses.left, masses.right, masses.low
    a, b = load_register(memory, at + left), load_register(memory, at + right)
    c, d = load_register(memory, after + left), load_register(memory, after + right)
    if split:
        e, f = load_register(memory, at + left + low), load_register(memory, at + right + low)
        g, h = load_register(memory, after + left + low), load_register(memory, after + right + low)
        part = cross(Split(a, e), Split(b, f), Split(c, g), Split(d, h)) * scale
    else:
        part = (rounded_product(a, d) - rounded_product(c, b)) * scale
    return part * part


# -- the skip connection and the outer filter


@compiled
def add_branch(group: RowGroup, state: int, branch: int, outer: FilterSum, layer: Any) -> None:
    """state ← skip_scale · state + box(branch), of two rings."""
    scratch = group.places.distance_scratch
    add_window(group, state, branch, outer, layer.outer_step, layer.skip_scale, room=scratch)


@compiled
def add_window(
    group: RowGroup, state: int, branch: int, window: FilterSum, step: int, scale: float, room: int
) -> None:
    """state ← scale · state + box(branch), of two rings."""
    memory, state = group.memory, state + group.start
    taps = moving_sum(group, branch, window, step, room, None)
    for at in range(0, group.size, memory.per_vector):
        store(memory, state + at, add(load(memory, state + at), box(memory, taps, at), scale))


@compiled
def add_branch_deficit(
    group: RowGroup, before: int, after: int, outer: FilterSum, layer: Any, masses: Masses
) -> None:
    """Set u and u⁺ `after` the layer: the identity path merges with the window of the branch."""
    memory, places, start, step = group.memory, group.places, group.start, layer.outer_step
    parts = moving_sum(group, places.branch_distance, outer, step, places.distance_scratch, masses)
    before, after = before + start, after + start
    # Two loops: in one, LLVM would round other products.
    if masses.low > 0:
        for at in range(0, group.size, memory.per_register):
            merge_branch(
                memory, before + at, after + at, parts, at, layer, masses=masses, split=True
            )
    else:
        for at in range(0, group.size, memory.per_register):
            merge_branch(
                memory, before + at, after + at, parts, at, layer, masses=masses, split=False
            )


@inlined_by_llvm
def merge_branch(
    memory: Numbers, old: int, new: int, taps: Taps, at: int, layer: Any, masses: Masses,
    split: bool,
) -> None:  # fmt: skip
    """Write u and u⁺ of the identity path, at `old`, and of a window of the branch to `new`.

    Biases of the branch are a part of their own.
    """
    skip, half = layer.skip_scale, layer.half_factor
    total = product_of_roots(memory, new, masses, split) + layer.tiny
    total = total + skip * product_of_roots(memory, old, masses, split)
    total = total + half * sum_of_products(memory, taps, at, masses, split)
    bias = 0.0 * total
    if has_biases(layer):
        bias = product_of_roots(memory, masses.biases + at, masses, split)
        total = total + bias
    scale = 1.0 / total
    squares = skip * squares_beside_taps(memory, old, taps, at, masses, scale, split=split)
    if not taps.single:
        of_taps = squares_of_taps(memory, taps, at, masses, layer.power * scale, split)
        squares = squares + layer.half_over_squared_power * of_taps
    squares = half * squares
    if has_biases(layer):
        place = masses.biases + at
        crossed = squares_beside_taps(memory, place, taps, at, masses, scale, split=split)
        identity = squared_cross(memory, old, place, masses, scale, split)
        squares = squares + (half * crossed + skip * identity)
    N = 2.0 * total * squares
    store(memory, new, skip * load_register(memory, old) + box_register(memory, taps, at) + N)
    to_opposite = masses.opposite
    opposite = skip * load_register(memory, old + to_opposite)
    opposite = opposite + box_register(memory, taps, to_opposite + at) + N
    if has_biases(layer):
        opposite = opposite + 4.0 * bias
    store(memory, new + to_opposite, opposite)
