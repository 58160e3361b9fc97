"""The recursion over the steps of all layers, for single signals and for pixel pairs.

For a single signal the recursion computes the variances of its pixels. For two signals it computes
the following numbers at each pixel pair (j, j'), where a² and b² are the variances of the two
pixels, ρ is their correlation and g = a b, ::

    U = g (1 − ρ),  U⁺ = g (1 + ρ);     the deficits, sums of terms that are not negative (merge.py)
    F, A = T + ι F;                     the two kernels, without their multiples of F⁰;
                                        ι is 1 or 0 (`CarriedParts`).

F⁰ is the covariance of the input. network_steps.py defines the order of the steps of a layer, and
the file of each step contains its formulas. docs/theory/deficits.md derives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...arrays import AnyArray
from .network_constants import NetworkConstants
from .operations import Operation, Operations
from .step import (
    Kernels,
    PairContext,
    PairState,
    PairValues,
    PixelValues,
    SignalContext,
    Variances,
)


def ignore_rows(operation: Operation, rows: Iterable[PixelValues]) -> None:
    """Ignore the rows of an operation. Since `rows` is not iterated, they are not computed."""


def variances_around_last_layer(
    context_of_layer: Callable[[int], SignalContext],
    operations: Operations,
    entering: Variances,
    use_rows: Callable[[Operation, Iterable[PixelValues]], None] = ignore_rows,
) -> tuple[Variances, Variances]:
    """Return the variances before the last layer, and those after its last operation.

    `context_of_layer` returns the `SignalContext` of the layer with a number; layer 0 is the input
    filter. `entering` are the variances of the input. `use_rows` is called with each operation and
    its rows.
    """
    features = state = entering
    for layer_number, layer_operations in enumerate((operations.input, *operations.layers)):
        features, context = state, context_of_layer(layer_number)
        for operation in layer_operations:
            state, rows = operation.step.variances(context, state, features)
            use_rows(operation, rows)
    return features, state


def pairs_after_layer(
    context_of_step: Callable[[Operation, PairState, PairState], PairContext],
    layer_operations: Sequence[Operation],
    features: PairState,
    in_tangent: AnyArray,
    F0: PairValues,
) -> PairState:
    """Return the state of the pixel pairs after a layer; `features` is their state before it.

    F and A are carried without their multiples of F⁰, the covariance of the input. These are added
    at the end (`by_kind`). The activation needs the whole A: `in_tangent` is the multiple of F⁰,
    `F0`, that is missing in A of the features. `context_of_step` returns the `PairContext` of an
    operation, from the state before the operation and that of the features.
    """
    state = features._replace(kernels=Kernels(None, None))
    if features.kernels.A is not None:
        state = state._replace(kernels=Kernels(None, features.kernels.A + in_tangent * F0))
    for operation in layer_operations:
        context = context_of_step(operation, state, features)
        state = operation.step.pairs(context, state, features)._replace(variances=context.variances)
    return state


def by_kind(
    constants: NetworkConstants, kernels: Kernels, input_weight: float
) -> dict[str, tuple[PairValues, float]]:
    """Return, for each kind, the kernel without its multiple of F⁰, and this multiple.

    `input_weight` is the weight of F⁰ in the features.
    """
    (F, A), parts = kernels, constants.network.parts
    if A is not None and constants.later_readout:  # ι is 0, so A is T
        A = A + F
    return {"gpk": (F, input_weight), "ntk": (A, input_weight * parts.initial)}
