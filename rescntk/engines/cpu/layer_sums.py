"""Sums of F, A and F⁰ around a layer's branch, in distances and in deficits alike."""

from __future__ import annotations

from typing import Any

from .arguments import Constants, Results, RowGroup, RowPlaces, Taps
from .compilation import compiled
from .heads import write_results
from .sums import add_branch, moving_sum, write_box


@compiled
def box_linear(group: RowGroup, constants: Constants, step: int, boxed: int) -> int:
    """Sum F⁰ over the inner filter's windows, where A needs it and its sums have other steps.

    `boxed` is the step of the sums so far; the new one is returned.
    """
    if not (constants.skip and constants.ntk) or step == boxed:
        return boxed
    memory, places = group.memory, group.places
    taps = moving_sum(group, places.linear, constants.inner, step, places.tangent_scratch, None)
    write_box(memory, taps, places.linear_box + group.start, group.size, None)
    return step


@compiled
def box_tangent(group: RowGroup, constants: Constants, step: int, unused: Taps) -> Taps:
    """Return the taps of the sums of A over the inner filter's windows, or `unused` ones."""
    if not constants.ntk:
        return unused
    places = group.places
    return moving_sum(group, places.tangent, constants.inner, step, places.tangent_scratch, None)


@compiled
def add_kernels(
    group: RowGroup, central: RowGroup, rows: RowPlaces, case: int, constants: Constants,
    results: Results, layer: Any,
) -> None:  # fmt: skip
    """Add a layer's branch to F and to A, and write the results of a depth asked for."""
    places, outer = group.places, constants.outer
    if constants.gpk and not constants.summed and (constants.skip or layer.slot >= 0):
        add_branch(group, places.features, places.K, outer, layer)
    if constants.ntk:
        add_branch(group, places.tangent, places.tangent_branch, outer, layer)
    if layer.slot >= 0:
        write_results(central, rows, case, layer.slot, constants, results, layer)
