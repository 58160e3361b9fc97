"""The way of a group of rows through all layers, which keeps what the way back needs.

The layers are the same as in layers.py, in distances.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..layer import (
    dual,
    tangent_branch,
    tangent_g,
    times_slope,
)
from .arguments import (
    Constants,
    FlatTables,
    LeftPixels,
    Results,
    RowGroup,
    RowPlaces,
    Taps,
)
from .compilation import compiled
from .groups import shortened, skipped
from .heads import take_doubts
from .layer_sums import add_kernels, box_linear, box_tangent
from .layers import (
    correlate_distance,
    correlate_input,
    keeps_root_errors,
    load_roots,
    pixel_loops,
    write_own_squares,
)
from .references import addresses
from .rows import left_pixels
from .substitutes import add_bias_distance, add_bias_tangent, add_to_sum, has_biases
from .sums import add_branch, around, box, moving_sum
from .vectors import (
    align_stack,
    any_negative,
    fabs,
    load,
    load_line,
    repeat_like,
    store,
    where_less,
)
from .way import KEPT, TANGENT, RowGradients, W, Way, doubt_near, keep_branch


@compiled
def keep_input(
    group: RowGroup, left: LeftPixels, right_input: int, squares: Taps, kept: int,
    constants: Constants, way: Way,
) -> bool:  # fmt: skip
    """Compute D and F⁰ of the input; w and v = 1 + ρ of its pixels are kept (`layers.first_layer`).

    If `Way.turns`, they are there already (`keep_correlations`). Returns whether some pixel pairs
    are doubtful.
    """
    align_stack()
    memory, places, doubtful = group.memory, group.places, False
    kept_w, kept_v = kept + W * group.length, kept + TANGENT * group.length
    known_w, known_v = (kept_w, kept_v) if way.turns else (-1, -1)
    stretches, length = pixel_loops(left, group)
    for stretch in range(stretches):
        pixel = stretch * left.pixels
        for at in range(stretch * length, (stretch + 1) * length, memory.per_vector):
            out = group.start + at
            w, v, roots, h, some = correlate_input(
                group, left, right_input, squares, pixel, at, constants, None, known_w, known_v
            )
            doubtful |= some
            gw = g * w
            linear = g - gw
            store(memory, places.distance + out, h * h + gw)
            store(memory, places.linear + out, linear)
            if not way.ntk:
                store(memory, places.features + out, 0.0 * w)
                store(memory, places.K + out, 0.0 * w)
            if constants.skip:
                store(memory, places.tangent + out, 0.0 * w)
            else:
                store(memory, places.tangent + out, constants.initial * linear)
            if not way.turns:
                store(memory, kept_w + at, w)
                store(memory, kept_v + at, v)
    return doubtful


@compiled
def keep_correlations(
    group: RowGroup, case: int, constants: Constants, w_place: int, v_place: int, way: Way,
    out: RowGradients,
) -> None:  # fmt: skip
    """Write w and v = 1 + ρ of the input's pixels, from unit vectors with twice the digits."""
    align_stack()
    memory, length, line, n_left = group.memory, group.length, group.memory.per_line, out.n_left
    opposite, margin, channels = constants.nearly_opposite, constants.margin, out.n_channels
    for j in range(group.d):
        first = out.begins[case] + around(j - margin, group.d - 2 * margin)
        for at in range(j * group.rows, (j + 1) * group.rows, line):
            w = repeat_like(0.0, load_line(memory, at))
            for channel in range(channels):
                x, z = first + 2 * channel * n_left, way.right_pixels + 2 * channel * length + at
                term = repeat_like(out.left_pixels[x], w) - load_line(memory, z)
                rest = repeat_like(out.left_pixels[x + n_left], w) - load_line(memory, z + length)
                w = w + (term + rest) * (term + rest)
            w = 0.5 * w
            v = 2.0 - w
            if any_negative(opposite - w):
                other = 0.0 * w
                for channel in range(channels):
                    x = first + 2 * channel * n_left
                    z = way.right_pixels + 2 * channel * length + at
                    rest = repeat_like(out.left_pixels[x + n_left], w)
                    term = repeat_like(out.left_pixels[x], w) + load_line(memory, z)
                    rest = rest + load_line(memory, z + length)
                    other = other + (term + rest) * (term + rest)
                v = where_less(opposite, w, 0.5 * other, v)
            store(memory, w_place + at, w)
            store(memory, v_place + at, v)


@compiled
def keep_layer(
    group: RowGroup, left: LeftPixels, right_root: int, distances: Taps, tangents: Taps,
    linear: int, kept: int, known: bool, constants: Constants, layer: Any, way: Way,
) -> bool:  # fmt: skip
    """Compute a layer's branch (`layers.hidden_layer`), and keep what the way back needs.

    `linear` is the place of F⁰, as A_g takes it, and `kept` of the layer's quantities. Where they
    are `known`, w and v are taken from there.
    """
    align_stack()
    memory, places, length, doubtful = group.memory, group.places, group.length, False
    linear_scale = constants.initial * layer.linear_scale
    stretches, stretch_length = pixel_loops(left, group)
    for stretch in range(stretches):
        pixel = stretch * left.pixels
        first = stretch * stretch_length
        for at in range(first, first + stretch_length, memory.per_vector):
            out, here = group.start + at, kept + at
            root1, root2, h, inverse = load_roots(
                group, left, left.root, right_root, pixel, at, None
            )
            distance = add_bias_distance(box(memory, distances, at), group, at, layer)
            if known:
                w, v = load(memory, here + W * length), load(memory, here + TANGENT * length)
            else:
                w, v, some = correlate_distance(
                    group, out, distance, h, root1, root2, inverse, layer
                )  # fmt: skip
                doubtful |= some
                if not keeps_root_errors(memory):
                    doubtful |= doubt_near(memory, places.doubt + out, w, v, way)
            half_g = root1 * root2
            relu = dual(half_g, w, v, layer, (constants.p, constants.r))
            store(
                memory,
                places.branch_distance + out,
                layer.half_factor * (h * h) + relu.deficit,
            )
            total = A_g = distance
            if not keeps_root_errors(memory):
                total = fabs(h) * (root1 + root2) + distance
            if way.ntk:
                A_g = box(memory, tangents, at)
                if constants.skip:
                    A_g = linear_scale * load(memory, linear + at) + A_g
                A_g = add_bias_tangent(A_g, group, at, layer)
                A_g = tangent_g(A_g, half_g, 1.0 - w, layer)
                branch = tangent_branch(times_slope(relu.k0, w, v, layer, A_g), relu.K, layer)
                store(memory, places.tangent_branch + out, branch)
            else:
                K = out + (places.features if constants.summed else places.K)
                store(memory, K, add_to_sum(relu.K, load(memory, K), layer))
            keep_branch(
                memory, here, length, w, v, relu.k0, half_g, A_g, total, known, layer, way
            )  # fmt: skip
    return doubtful


@compiled
def pass_forth(
    whole: RowGroup, rows: RowPlaces, left: FlatTables, lefts: np.ndarray, case: int,
    constants: Constants, results: Results, way: Way, out: Any,
) -> None:  # fmt: skip
    """Take one left case with the rows of a group through all layers (`rows.pass_layers`)."""
    layers, inner, outer = constants.layers, constants.inner, constants.outer
    memory, places, length, depth = whole.memory, whole.places, whole.length, len(layers) - 1
    boxed, doubtful, squares = 0, False, places.squares
    if way.turns:
        w, v = way.kept + W * length, way.kept + TANGENT * length
        keep_correlations(whole, case, constants, w, v, way, out)
    elif places.left_cases > 1:
        squares += case % places.left_cases * length
    elif constants.window.size > 1:
        write_own_squares(whole, addresses(left_pixels(whole, left, lefts, case, depth + 1, 1)))
    group = addresses(shortened(whole, constants.window.size // 2))
    central = addresses(shortened(whole, constants.margin))
    for number in range(1, depth + 1):
        if constants.stop[0]:
            return
        layer = layers[number]
        step = layer.inner_step
        if number > 1:
            group = addresses(shortened(group, step * (inner.size // 2)))
        pixels = addresses(left_pixels(group, left, lefts, case, depth + 1, number))
        skip = skipped(group) * group.rows
        kept = way.kept + (number - 1) * KEPT * length + skip
        right_input = places.right_layers + skip
        right_root = right_input + 3 * number * length
        linear = places.linear + group.start
        at = places.distance + group.start
        taps = Taps(at, at, at, True)
        if number == 1:
            window = moving_sum(group, squares, constants.window, 1, places.distance_scratch, None)
            doubtful |= keep_input(group, pixels, right_input, window, kept, constants, way)
            at = places.tangent + group.start
            tangents = Taps(at, at, at, True)
        else:
            boxed = box_linear(group, constants, step, boxed)
            linear = places.linear_box + group.start
            taps = moving_sum(group, places.distance, inner, step, places.distance_scratch, None)
            tangents = box_tangent(group, constants, step, taps)
        known = number == 1 and not has_biases(layer)
        doubtful |= keep_layer(
            group, pixels, right_root, taps, tangents, linear, kept, known, constants, layer, way
        )  # fmt: skip
        group = addresses(shortened(group, layer.outer_step * (outer.size // 2)))
        if number < depth:
            add_branch(group, places.distance, places.branch_distance, outer, layer)
        add_kernels(group, central, rows, case, constants, results, layer)
    if doubtful:
        take_doubts(central, rows, case, results)
        for at in range(whole.size):
            memory[places.doubt + whole.start + at] = 0.0
