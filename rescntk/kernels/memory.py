"""The memory of a call: asked for here alone, before the work."""

from __future__ import annotations

import math

from ..engines.engine import Plan
from ..validation import check_free_memory, is_always_free
from .results import Results


def check_plan(plan: Plan, results: Results) -> None:
    """Raise a MemoryError if results, or what a plan holds beside them, exceed the free memory."""
    of_results, of_plan = results.bytes(math.prod(plan.result_axes)), plan.bytes
    if is_always_free(max(of_results, of_plan)):
        return
    request, network = plan.request, plan.request.network
    kinds, n_depths = " and ".join(map(str.upper, request.kinds)), len(results.order)
    axes = " × ".join(map(str, plan.result_axes))
    check_free_memory(
        of_results,
        f"the {kinds}, {axes} numbers{f', at {n_depths} depths,' * (n_depths > 1)}",
        "give fewer signals, kinds or depths at a time: gram(network, X[:k], X) has k rows",
        plan.room_for_results,
    )
    names = "filter_size", "outer_filter_size", "input_filter_size"
    size = max(max(network.values_of(name)) for name in names)
    check_free_memory(
        of_plan,
        f"depth {request.depths[-1]} for signals of {max(plan.lengths)} timepoints and filters of "
        f"{size}",
        "give a smaller depth, shorter filters or signals",
    )
