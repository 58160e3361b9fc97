"""The recursion over the steps of layers: of signals alone, and of the pixel pairs of two signals.

Each pixel pair (j, j') of two signals carries, with g = a b the product of both pixels' roots, ::

    U = g (1 − ρ),  U⁺ = g (1 + ρ);     deficits, sums of positive terms (merge.py);
    F, A = T + ι F;                     the two kernels, without the part of the input F⁰.
                                        ι is `NetworkConstants.carried_parts.readout`.

One layer is (network_steps.py) ::

    norm → convolution → bias → activation → convolution → bias → skip.

Each step has its formulas in its own file. docs/theory/deficits.md derives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from .constants import NetworkConstants
from .operations import Operation, Operations
from .step import (
    BothSides,
    Kernels,
    OneSide,
    PairNumbers,
    PairState,
    PixelNumbers,
    Variances,
)


class SignalSide(Protocol):
    """Signals alone, as engines have them."""

    def of_layer(self, layer_number: int) -> OneSide:
        """Return what the steps of a layer may ask; layer 0 is the input filter."""


class PairSides(Protocol):
    """The pixel pairs of two signals, as engines have them."""

    @property
    def constants(self) -> NetworkConstants:
        """The constants of all layers."""

    def at(self, operation: Operation, before: PairState, features: PairState) -> BothSides:
        """Return what the operation's step may ask."""


def ignore_rows(operation: Operation, rows: Iterable[PixelNumbers]) -> None:
    """Do nothing with the rows of an operation, which then are not computed."""


def variances_around_last_layer(
    side: SignalSide,
    operations: Operations,
    entering: Variances,
    take: Callable[[Operation, Iterable[PixelNumbers]], None] = ignore_rows,
) -> tuple[Variances, Variances]:
    """Return the variances before the last layer, and behind its last operation.

    `entering` are the variances of the input. `take` gets each operation with its rows.
    """
    features = state = entering
    for layer_number, layer_operations in enumerate((operations.input, *operations.layers)):
        features, at = state, side.of_layer(layer_number)
        for operation in layer_operations:
            state, rows = operation.step.variances(at, state, features)
            take(operation, rows)
    return features, state


def pairs_behind_layer(
    pairs: PairSides,
    layer_operations: Sequence[Operation],
    features: PairState,
    input_weight: PairNumbers,
    F0: PairNumbers,
) -> PairState:
    """Return the pixel pairs behind a layer, from those before it.

    F and A lack F⁰. The features hold `input_weight` times F⁰, `F0`.
    """
    A = features.kernels.A
    if A is not None:
        A = A + pairs.constants.carried_parts.initial * input_weight * F0
    state = features._replace(kernels=Kernels(None, A))
    for operation in layer_operations:
        at = pairs.at(operation, state, features)
        state = operation.step.pairs(at, state, features)._replace(sides=at.sides)
    return state


def by_kind(
    constants: NetworkConstants, kernels: Kernels, input_weight: float
) -> dict[str, tuple[PairNumbers, float]]:
    """Return the kernel of each kind without the part of F⁰, and the weight of F⁰ in it.

    The features hold `input_weight` times F⁰.
    """
    (F, A), parts = kernels, constants.network.parts
    if A is not None and parts.readout != constants.carried_parts.readout:  # ι is 0: A is T
        A = A + F
    return {"gpk": (F, input_weight), "ntk": (A, input_weight * parts.initial)}
