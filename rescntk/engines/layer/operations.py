"""A network as a list of operations: the steps of all layers, with the table rows that they use.

Each signal has a table with one row of numbers, one per pixel, for each quantity that the steps
need. The table rows are numbered in the order of the steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, repeat
from typing import NamedTuple

from ...arrays import Array
from ...lazy import once
from ...network import Network
from ..request import ScaledKernel
from .activation import ActivationStep
from .network_constants import NetworkConstants
from .network_steps import NetworkSteps, steps_of
from .step import Step
from .variance_bounds import VarianceBounds
from .weights import RoundedWeights, rounded_in_turn

_TAP_BYTES = 1500
"""Bytes of the Python objects for one tap of the largest convolution."""

_OPERATION_BYTES = 220
"""Bytes of an operation, with its numbers and its record."""

_LAYER_BYTES, _UNLIKE_LAYER_BYTES = 270, 3500
"""Bytes of the weights and the record of a layer. The second number is for layers with constants of
their own; the exact fractions of networks with normalization need most of it."""


class Operation(NamedTuple):
    """A step of one layer, with the numbers of the table rows that it uses."""

    step: Step
    layer_number: int
    """The number of the layer, from 1 on; 0 for the input filter."""
    row: int
    """The number of the step's first row."""
    std_row: int
    """The number of the row that holds the square roots of the variances before the step. It is a
    row of an earlier step."""

    @property
    def std_row_after(self) -> int:
        """The number of the row that holds the square roots of the variances after the step."""
        index = self.step.std_index
        return self.std_row if index is None else self.row + index


@dataclass(frozen=True)
class Operations:
    """The operations of a network for signals (`n_axes` 1) or images (`n_axes` 2).

    A table begins with `n_channels` rows of unit vectors and one row with the standard
    deviation of each pixel.
    """

    network: Network
    depth: int
    n_channels: int
    n_axes: int = 1
    rewritten: NetworkSteps | None = None
    """The rewritten steps of a compiled engine, or None for the steps of the network."""

    @once
    def steps(self) -> NetworkSteps:
        """The steps of all layers, from the input filter on."""
        return self.rewritten or steps_of(self.network, self.depth, self.n_axes)

    @property
    def end_with_activation(self) -> bool:
        """True if the last step is an activation (`network_steps.ending_with_activation`)."""
        return isinstance(self.steps[-1].steps[-1], ActivationStep)

    @once
    def input(self) -> tuple[Operation, ...]:
        """The convolutions of the input filter."""
        return self._numbered[0]

    @once
    def layers(self) -> tuple[tuple[Operation, ...], ...]:
        """The operations of layers 1 … L."""
        return self._numbered[1:]

    @once
    def n_rows(self) -> int:
        """The number of rows of a signal's table, computed without a list of all operations."""
        rows = self.n_channels + 1
        for repeated in self.steps:
            rows += repeated.n_layers * sum(step.n_rows for step in repeated.steps)
        return rows

    @once
    def object_bytes(self) -> float:
        """Bytes of the Python objects that describe the network, without arrays."""
        every_step = (step for repeated in self.steps for step in repeated.steps)
        most_taps = max((step.taps.n_taps for step in every_step), default=0)
        n_operations = sum(repeated.n_layers * len(repeated.steps) for repeated in self.steps)
        layer_bytes = _LAYER_BYTES if self.constants.has_equal_constants else _UNLIKE_LAYER_BYTES
        operation_bytes = _OPERATION_BYTES * n_operations
        return _TAP_BYTES * most_taps + operation_bytes + layer_bytes * self.depth

    @once
    def _numbered(self) -> tuple[tuple[Operation, ...], ...]:
        """The operations of layers 0 … L, with the numbers of their table rows."""
        row, std_row, numbered = self.n_channels + 1, self.n_channels, []
        layer_steps = (repeat(repeated.steps, repeated.n_layers) for repeated in self.steps)
        for layer_number, steps in enumerate(chain.from_iterable(layer_steps)):
            operations = []
            for step in steps:
                operation = Operation(step, layer_number, row, std_row)
                operations.append(operation)
                row, std_row = row + step.n_rows, operation.std_row_after
            numbered.append(tuple(operations))
        return tuple(numbered)

    @once
    def constants(self) -> NetworkConstants:
        """The constants of the network."""
        return NetworkConstants(self.network, self.depth)

    @once
    def bounds(self) -> VarianceBounds:
        """The bounds of the network's variances."""
        return VarianceBounds(self.constants)

    # The cache keeps these objects alive, as those of engines do (B019).
    @lru_cache(maxsize=64)  # noqa: B019
    def rounded_weights(self, dtype: str) -> dict[int, RoundedWeights]:
        """Return the weights of features and branch of all layers, rounded to `dtype`.

        The keys are the numbers of the first table row of the merges that use the weights
        (`Operation.row`).
        """
        exact = {}
        for operation in chain.from_iterable(self.layers):
            layer_constants = self.constants.of_layer(operation.layer_number)
            if weights := operation.step.weights(layer_constants):
                exact[operation.row] = weights
        return dict(zip(exact, rounded_in_turn(exact.values(), dtype), strict=True))

    def scaled_kernel(
        self, depths: tuple[int, ...], values: dict[str, Array], left: Array, right: Array
    ) -> ScaledKernel:
        """Return the kernels with the scales of signals and the divisors of layers.

        `values` are the kernels of signals and layers after these divisions; they are changed in
        place. `left` and `right` are the scales of the signals.
        """
        powers = [(1.0, 0)] * len(depths)
        if self.network.homogeneous:
            powers = [self.constants.total_divisor(depth) for depth in depths]
        for value in values.values():
            for t, (mantissa, _) in enumerate(powers):
                value[t] *= mantissa
        return ScaledKernel(values, left, right, tuple(exponent for _, exponent in powers))
