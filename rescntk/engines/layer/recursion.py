"""The recursion over the steps of layers: of signals alone, and of the pixel pairs of two signals.

Each pixel pair (j, j') of two signals carries, with g = a b the product of both pixels' roots, ::

    U = g (1 − ρ),  U⁺ = g (1 + ρ);     deficits, sums of positive terms (merge.py);
    F, A = T + ι F;                     the two kernels, without the part of the input F⁰.
                                        ι is `NetworkConstants.carried_parts.readout`.

network_steps.py has the order of the steps of a layer; each step has its formulas in its own file.
docs/theory/deficits.md derives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...arrays import AnyArray
from .constants import NetworkConstants
from .operations import Operation, Operations
from .step import (
    BothSides,
    Kernels,
    OneSide,
    PairState,
    PairValues,
    PixelValues,
    Variances,
)


def ignore_rows(operation: Operation, rows: Iterable[PixelValues]) -> None:
    """Do nothing with the rows of an operation, which then are not computed."""


def variances_around_last_layer(
    of_layer: Callable[[int], OneSide],
    operations: Operations,
    entering: Variances,
    take: Callable[[Operation, Iterable[PixelValues]], None] = ignore_rows,
) -> tuple[Variances, Variances]:
    """Return the variances before the last layer, and behind its last operation.

    `of_layer` returns what the steps of a layer may ask; layer 0 is the input filter. `entering`
    are the variances of the input. `take` gets each operation with its rows.
    """
    features = state = entering
    for layer_number, layer_operations in enumerate((operations.input, *operations.layers)):
        features, at = state, of_layer(layer_number)
        for operation in layer_operations:
            state, rows = operation.step.variances(at, state, features)
            take(operation, rows)
    return features, state


def pairs_behind_layer(
    of_step: Callable[[Operation, PairState, PairState], BothSides],
    layer_operations: Sequence[Operation],
    features: PairState,
    in_tangent: AnyArray,
    F0: PairValues,
) -> PairState:
    """Return the pixel pairs behind a layer, from those before it.

    F and A are carried without their multiples of the input's covariance F⁰, which are added at the
    end (`by_kind`). `in_tangent` is the multiple of F⁰, `F0`, in A of the features. `of_step`
    returns what the step of an operation may ask, from the pixel pairs before it and those of the
    features.
    """
    state = features._replace(kernels=Kernels(None, None))
    if features.kernels.A is not None:
        state = state._replace(kernels=Kernels(None, features.kernels.A + in_tangent * F0))
    for operation in layer_operations:
        at = of_step(operation, state, features)
        state = operation.step.pairs(at, state, features)._replace(variances=at.variances)
    return state


def by_kind(
    constants: NetworkConstants, kernels: Kernels, input_weight: float
) -> dict[str, tuple[PairValues, float]]:
    """Return the kernel of each kind without the part of F⁰, and the weight of F⁰ in it.

    The features hold `input_weight` times F⁰.
    """
    (F, A), parts = kernels, constants.network.parts
    if A is not None and parts.readout != constants.carried_parts.readout:  # ι is 0: A is T
        A = A + F
    return {"gpk": (F, input_weight), "ntk": (A, input_weight * parts.initial)}
