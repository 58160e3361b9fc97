"""A layer of the sweep (sweep.py): a strip of rows, one pixel after another, in a pipeline.

At each pixel pair a strip carries box(D) and box(A), sums over the next layer's window. It also
carries Σ K and Σ T: sums over layers of K and T, the branch before its filter. Here
T = K̇ ⊙ A_g + (o + r) K. A layer adds both filters' sums of its branch at once: sums of three sums
of three pixels, which stay in registers. F⁰ joins box(A) once, in the first layer; no part of it is
in Σ T. With `through_memory` a layer writes its branch only: D and A are carried, and boxed before
each layer.

One pass of the loop reads pixel j + 2 and takes its √a. It computes the polynomials of pixel j + 1
and the branch of pixel j, and sums the branches up to pixel j − 1. These four chains of
instructions do not wait for one another. On an AMD EPYC a vector of a hidden layer takes 36 and 30
cycles (float64, float32); without the pipeline a tenth to a quarter more. Other branches in the
loop, or stores of the first pixels, cost another tenth: the first pixels have a loop of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...activations import _kappas, _scaled_dual, times_slope
from ..layer import branch_distance, correlate, tangent_branch, tangent_g
from .arguments import Constants, RowGroup, SideTables
from .compilation import compiled, inlined_by_llvm
from .groups import skipped
from .layers import add_doubt, keeps_root_errors, may_be_doubtful
from .substitutes import add_bias_distance, add_bias_tangent, add_to_sum, correlate_with_biases
from .vectors import (
    Numbers,
    Vector,
    align_stack,
    any_negative,
    fabs,
    load_register,
    repeat_like,
    sqrt,
    store,
    where_less,
)

AHEAD = 2
"""Pixels by which loads are ahead of the branch, and which are read beyond the last one."""

KEPT = 4
"""Pixels at the beginning of a row whose branches are kept, for the windows across its seam."""


class Window(NamedTuple):
    """The last two numbers before a pixel, and the last two sums of three numbers."""

    first: Vector
    second: Vector
    sums: Vector
    more: Vector


class Ahead(NamedTuple):
    """The numbers of a pixel as far as its √a."""

    w: Vector
    v: Vector
    root: Vector
    z: Vector
    half_g: Vector
    total: Vector
    tangent: Vector


class Before(NamedTuple):
    """The numbers of a pixel as far as its polynomials."""

    one_minus_kappa1: Vector
    turned: Vector
    z: Vector
    half_g: Vector


class State(NamedTuple):
    """Numbers that a pass of the loop leaves for the next pass."""

    ahead: Ahead
    before: Before
    D: Vector
    T: Vector
    D_window: Window
    T_window: Window
    entry: Window
    linears: Window
    doubtful: bool


class SweptLayer(NamedTuple):
    """Addresses, places and constants of a layer of a strip."""

    memory: Numbers
    roots1: Numbers
    inverses1: Numbers
    lost1: Numbers
    roots2: Numbers
    inverses2: Numbers
    lost2: Numbers  # of both sides' tables (`SideTables`)
    left: int
    right: int
    inverse: int
    lost: int  # places of the layer's tables: of the left side, and three of the right side
    left_input: int
    right_input: int
    lost_input: int  # places of the input's tables
    step: int  # numbers from one pixel to the next in the right tables
    rows: int
    first: int
    last: int  # the first pixel, and the pixel behind the last one
    D: int  # box(D).
    A: int  # box(A).
    K: int  # Σ K; w of the input before the first layer.
    T: int  # Σ T; v of the input before the first layer.
    linear: int  # F⁰.
    doubt: int  # places of the first pixel in rings.
    kept_D: int
    kept_T: int
    kept_input: int  # places of D_K, T and the input's D; with `through_memory` of the first pixels
    kept_tangent: int  # place of the input's A
    initial: Any
    p: Numbers
    r: Numbers
    strip: RowGroup  # whose biases are the same at all pixels


# -- the input's pixels


@inlined_by_llvm
def add_channels(
    strip: RowGroup, left: SideTables, right: SideTables, channel: int, number: int, first: bool
) -> None:  # fmt: skip
    """Add (û − v̂)² of some channels to the sums at the place of w."""
    memory, rows, out = strip.memory, strip.rows, strip.places.features + strip.start
    units1, step1, unit = left.units, left.unit_step, left.unit + channel * left.unit_step
    units2, step2, step = right.units, right.unit_step, right.pixel
    place = right.unit + channel * step2
    for at in range(out, out + strip.d * rows, rows):
        total = load_register(memory, at)
        if first:
            total = repeat_like(0.0, total)
        for k in range(number):
            right_vector = load_register(units2, place + k * step2)
            term = repeat_like(units1[unit + k * step1], right_vector) - right_vector
            total = total + term * term
        store(memory, at, total)
        unit, place = unit + 1, place + step


@compiled
def squared_sum(left: SideTables, right: SideTables, pixel: int, channels: int) -> Vector:
    """Return |û + v̂|² of the input's pixels."""
    unit, place = left.unit + pixel, right.unit + pixel * right.pixel
    total = repeat_like(0.0, load_register(right.units, place))
    for _ in range(channels):
        right_vector = load_register(right.units, place)
        term = repeat_like(left.units[unit], right_vector) + right_vector
        total = total + term * term
        unit, place = unit + left.unit_step, place + right.unit_step
    return total


@compiled
def write_angles(strip: RowGroup, left: SideTables, right: SideTables, opposite: float) -> None:
    """Write w = 1 − ρ and v = 1 + ρ of the input's pixels, where the first layer reads them.

    w is half the squared distance of unit vectors, at most `layers.CHANNELS` numbers each.
    """
    align_stack()
    memory, places, rows, channels = strip.memory, strip.places, strip.rows, strip.places.channels
    channel = 4 if channels >= 4 else 1
    if channels >= 4:
        add_channels(strip, left, right, 0, 4, True)
    else:
        add_channels(strip, left, right, 0, 1, True)
    while channel < channels:
        if channel + 4 <= channels:
            add_channels(strip, left, right, channel, 4, False)
            channel += 4
        else:
            add_channels(strip, left, right, channel, 1, False)
            channel += 1
    w_place, v_place = places.features + strip.start, places.tangent_branch + strip.start
    for pixel in range(strip.d):
        w = 0.5 * load_register(memory, w_place + pixel * rows)
        v = 2.0 - w
        if any_negative(opposite - w):
            v = where_less(opposite, w, 0.5 * squared_sum(left, right, pixel, channels), v)
        store(memory, w_place + pixel * rows, w)
        store(memory, v_place + pixel * rows, v)


# -- a layer


@inlined_by_llvm
def sum_windows(last: Window, number: Vector) -> tuple[Vector, Window]:
    """Return the sum of three sums of three numbers, the last of them `number`."""
    total = last.second + (last.first + number)
    box = last.more + (last.sums + total)
    return box, Window(number, last.first, total, last.sums)


@inlined_by_llvm
def load_roots(
    at: SweptLayer, pixel: int, left: int, right: int, lost: int
) -> tuple[Vector, Vector, Vector]:  # fmt: skip
    """Return √(q1/2), √(q2/2) and their difference at a pixel; tables are at three places."""
    place = pixel * at.step
    root2 = load_register(at.roots2, right + place)
    root1 = repeat_like(at.roots1[left + pixel], root2)
    h = root1 - root2
    if keeps_root_errors(at.memory):
        lost1 = repeat_like(at.lost1[left + pixel], root2)
        h = h + (lost1 - load_register(at.lost2, lost + place))
    return root1, root2, h


@inlined_by_llvm
def load_inverse(at: SweptLayer, pixel: int) -> Vector:
    """Return 1/g at a pixel."""
    inverse = load_register(at.inverses2, at.inverse + pixel * at.step)
    return inverse * at.inverses1[at.left + pixel]


@inlined_by_llvm
def look_ahead(at: SweptLayer, pixel: int, layer: Any, enters: Any) -> tuple[Ahead, Vector, Vector]:
    """Return the numbers of a pixel as far as its √a; and D and F⁰ of the input."""
    memory, place = at.memory, pixel * at.rows
    root1, root2, h = load_roots(at, pixel, at.left, at.right, at.lost)
    z, half_g = h * h, root1 * root2
    if enters is not None:
        w, v = load_register(memory, at.K + place), load_register(memory, at.T + place)
        a, b, h = load_roots(at, pixel, at.left_input, at.right_input, at.lost_input)
        g = 2.0 * (a * b)
        gw = g * w
        distance, linear = h * h + gw, g - gw
        total, tangent = distance, at.initial * linear
        inverse = load_inverse(at, pixel)
        roots = (a, b), (root1, root2)
        w, v = correlate_with_biases((w, v), at.strip, 0, roots, inverse, layer)
    else:
        distance = load_register(memory, at.D + place)
        distance = add_bias_distance(distance, at.strip, 0, layer)
        w = correlate(distance - z, load_inverse(at, pixel))
        v = 2.0 - w
        linear = tangent = total = distance
        if not keeps_root_errors(memory):
            total = fabs(h) * (root1 + root2) + distance
    root = sqrt(where_less(w, v, w, v))
    ahead = Ahead(w=w, v=v, root=root, z=z, half_g=half_g, total=total, tangent=tangent)
    return ahead, distance, linear


@inlined_by_llvm
def pass_pixel(
    at: SweptLayer, j: int, state: State, layer: Any, with_tangent: Any, through_memory: Any,
    enters: Any, begins: bool,
) -> State:  # fmt: skip
    """Take the pixels j + 2, j + 1, j and j − 1 one step further. See the head of this file.

    `begins` at the first pixels, whose windows have no left half yet.
    """
    memory, rows, doubtful = at.memory, at.rows, state.doubtful
    # Pixel j + 2.
    ahead, distance, linear = look_ahead(at, j + AHEAD, layer, enters)
    entry, linears = state.entry, state.linears
    if enters is not None:
        place = (j + AHEAD) * rows
        store(memory, at.linear + place, linear)
        if through_memory is not None:
            store(memory, at.kept_input + place, distance)
            store(memory, at.kept_tangent + place, at.initial * linear)
        else:
            if begins and j < 0:
                store(memory, at.kept_input + place, distance)
            store(memory, at.D + place - rows, entry.second + (entry.first + distance))
            box = linears.second + (linears.first + linear)
            store(memory, at.A + place - rows, at.initial * box)
            entry = Window(distance, entry.first, entry.second, entry.sums)
            linears = Window(linear, linears.first, linears.second, linears.sums)
    # Pixel j + 1.
    now, place = state.ahead, (j + 1) * rows
    if enters is None and may_be_doubtful(now.total, now.root, layer) and j + 1 < at.last:
        some = add_doubt(memory, at.doubt + place, now.total, now.root, now.half_g, layer)
        doubtful = doubtful or some
    k0, one_minus_kappa1, _ = _kappas(now.w, now.v, now.root, layer, (at.p, at.r))
    turned = now.total
    if with_tangent is not None:
        A = now.tangent
        if enters is None:
            A = load_register(memory, at.A + place)
        A = add_bias_tangent(A, at.strip, 0, layer)
        A = tangent_g(A, now.half_g, 1.0 - now.w, layer)
        turned = times_slope(k0, now.w, now.v, layer, A)
    # The windows up to pixel j − 1.
    D_window, T_box, T_window = state.D_window, state.T, state.T_window
    if through_memory is None:
        D_box, D_window = sum_windows(state.D_window, state.D)
        if with_tangent is not None:
            T_box, T_window = sum_windows(state.T_window, state.T)
        if not begins:
            write_windows(at, j - 3, D_box, T_box, layer, with_tangent)
    # Pixel j.
    before, place = state.before, j * rows
    parts = before.turned, before.one_minus_kappa1, before.turned  # only the second counts
    branch = _scaled_dual(before.half_g, parts, layer)
    D, T = branch_distance(before.z, branch.deficit, layer), state.T
    total = branch.K
    if enters is None:
        total = add_to_sum(total, load_register(memory, at.K + place), layer)
    store(memory, at.K + place, total)
    if with_tangent is not None:
        T = tangent_branch(before.turned, branch.K, layer)
        total = T
        if enters is None:
            total = add_to_sum(total, load_register(memory, at.T + place), layer)
        store(memory, at.T + place, total)
    if through_memory is not None or (begins and 0 <= j < KEPT):
        store(memory, at.kept_D + place, D)
        if with_tangent is not None:
            store(memory, at.kept_T + place, T)
    before = Before(one_minus_kappa1, turned, now.z, now.half_g)
    return State(
        ahead=ahead, before=before, D=D, T=T, D_window=D_window, T_window=T_window, entry=entry,
        linears=linears, doubtful=doubtful,
    )  # fmt: skip


@inlined_by_llvm
def write_windows(
    at: SweptLayer, pixel: int, D_box: Vector, T_box: Vector, layer: Any, with_tangent: Any
) -> None:
    """Add the sums over both filters' windows of a branch to box(D) and box(A) at a pixel."""
    memory, place = at.memory, pixel * at.rows
    D = add_to_sum(D_box, load_register(memory, at.D + place), layer)
    store(memory, at.D + place, D)
    if with_tangent is not None:
        A = add_to_sum(T_box, load_register(memory, at.A + place), layer)
        store(memory, at.A + place, A)


@compiled
def sweep_layer(
    strip: RowGroup, left: SideTables, right: SideTables, number: int, constants: Constants,
    with_tangent: Any, through_memory: Any, enters: Any,
) -> bool:  # fmt: skip
    """Take a strip through a layer. Return whether some pixel pairs are doubtful.

    `enters` is None but in the first layer, `with_tangent` if only the GPK is asked for, and
    `through_memory` if sums over windows are made in registers.
    """
    align_stack()
    layer = constants.layers[number]
    memory, places, rows, first = strip.memory, strip.places, strip.rows, skipped(strip)
    table2, start, last = number * right.step, strip.halo * strip.rows, first + strip.d
    D, A, kept_input = places.distance + start, places.tangent + start, places.other_distance
    if through_memory is not None:  # boxes lie apart from D and A
        kept_input, D = places.distance, places.other_distance + start
        A = places.tangent_scratch + start
    at = SweptLayer(
        memory=memory, roots1=left.roots, inverses1=left.inverses, lost1=left.lost,
        roots2=right.roots, inverses2=right.inverses, lost2=right.lost,
        left=left.root + number * left.step, right=right.root + table2,
        inverse=right.inverse + table2, lost=right.lost_root + table2,
        left_input=left.root, right_input=right.root, lost_input=right.lost_root,
        step=right.pixel, rows=rows, first=first, last=last, D=D, A=A,
        K=places.features + start, T=places.tangent_branch + start,
        linear=places.linear + start, doubt=places.doubt + start,
        kept_D=places.branch_distance + start, kept_T=places.K + start,
        kept_input=kept_input + start, kept_tangent=places.tangent + start,
        initial=constants.initial, p=constants.p, r=constants.r, strip=strip,
    )  # fmt: skip
    zero = repeat_like(0.0, load_register(memory, at.D))
    if enters is None:  # pixels that are read beyond the last one
        for pixel in range(last, last + AHEAD):
            store(memory, at.D + pixel * rows, load_register(memory, at.D + (last - 1) * rows))
    none = Window(zero, zero, zero, zero)
    state = State(
        ahead=Ahead(w=zero, v=zero, root=zero, z=zero, half_g=zero, total=zero, tangent=zero),
        before=Before(zero, zero, zero, zero), D=zero, T=zero, D_window=none, T_window=none,
        entry=none, linears=none, doubtful=False,
    )  # fmt: skip
    begun = min(first + KEPT + 1, last)
    for j in range(first - AHEAD, begun):
        state = pass_pixel(
            at, j, state, layer, with_tangent, through_memory, enters=enters, begins=True
        )
    for j in range(begun, last):
        state = pass_pixel(
            at, j, state, layer, with_tangent, through_memory, enters=enters, begins=False
        )
    if through_memory is None and number < len(constants.layers) - 1:
        close_rows(at, strip, state, layer, with_tangent, enters)
    return state.doubtful


@inlined_by_llvm
def close_rows(
    at: SweptLayer, strip: RowGroup, state: State, layer: Any, with_tangent: Any, enters: Any
) -> None:
    """Write the sums over the last windows, and over windows across the seam of closed rows."""
    memory, rows, d, pixels = at.memory, at.rows, at.last, 1
    if strip.closed:
        pixels += KEPT
    if strip.closed and enters is not None:  # pixels beyond the last one were read at other places
        first = load_register(memory, at.kept_input)
        second = load_register(memory, at.kept_input + 1 % d * rows)
        last, before_last = state.entry.sums, state.entry.more
        if d == 1:
            before_last = first
        store(memory, at.D + (d - 1) * rows, before_last + (last + first))
        store(memory, at.D, last + (first + second))
        for pixel in range(d - 1, d + 1):
            before, middle, after = (pixel + d - 1) % d, pixel % d, (pixel + 1) % d
            pair = load_register(memory, at.linear + middle * rows)
            pair = pair + load_register(memory, at.linear + after * rows)
            box = load_register(memory, at.linear + before * rows) + pair
            store(memory, at.A + middle * rows, at.initial * box)
    D, T, D_window, T_window = state.D, state.T, state.D_window, state.T_window
    for j in range(d, d + pixels):
        D_box, D_window = sum_windows(D_window, D)
        T_box, T_window = sum_windows(T_window, T)
        if j > KEPT:
            write_windows(at, (j - 3) % d, D_box, T_box, layer, with_tangent)
        kept = (j - d) % d * rows
        D, T = load_register(memory, at.kept_D + kept), load_register(memory, at.kept_T + kept)
