"""A network as a list of operations: the steps of all layers, with the rows of tables they read.

The rows of all steps are numbered in their order. Weights of features and branch are in
constants.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from ...arrays import Array
from ...lazy import once
from ...network import Network
from ..request import ScaledKernel
from .constants import NetworkConstants
from .network_steps import NetworkSteps, steps_of
from .step import Step
from .weights import RoundedWeights

_TAP_BYTES = 1500
"""Bytes of a tap of the largest convolution, an object of Python in a list."""

_OPERATION_BYTES = 220
"""Bytes of an operation, with its numbers and its record."""

_LAYER_BYTES, _UNLIKE_LAYER_BYTES = 270, 3500
"""Bytes of a layer's weights and its record; and of one that has constants of its own, whose exact
fractions with normalization take most."""


class Operation(NamedTuple):
    """A step in its layer, with the numbers of the rows that it reads."""

    step: Step
    layer_number: int
    """The layer, from 1 on; 0 of the input filter."""
    row: int
    """The first of its rows."""
    root_row: int
    """The row of the roots before the operation, which an earlier one has written."""

    @property
    def root_row_behind(self) -> int:
        """The row of the roots behind the operation."""
        place = self.step.root_place
        return self.root_row if place is None else self.row + place


@dataclass(frozen=True)
class Operations:
    """The operations of a network on signals (`n_axes` 1) or images (2), and their constants.

    Tables begin with `n_channels` rows of unit vectors and the root of each pixel's energy.
    """

    network: Network
    depth: int
    n_channels: int
    n_axes: int = 1
    rewritten: NetworkSteps | None = None
    """The steps, where they are not the network's own."""

    @once
    def steps(self) -> NetworkSteps:
        """The steps of layers, from the input filter on."""
        return self.rewritten or steps_of(self.network, self.depth, self.n_axes)

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
        """The number of rows of a signal's table, at any depth at no cost."""
        rows = self.n_channels + 1
        for layers in self.steps:
            rows += layers.n_layers * sum(step.n_rows for step in layers.steps)
        return rows

    @once
    def object_bytes(self) -> float:
        """Bytes of the objects of Python that describe the network, beside arrays."""
        every_step = (step for layers in self.steps for step in layers.steps)
        most_taps = max((step.taps.n_taps for step in every_step), default=0)
        n_operations = sum(layers.n_layers * len(layers.steps) for layers in self.steps)
        layer_bytes = _LAYER_BYTES if self.constants.has_like_layers else _UNLIKE_LAYER_BYTES
        operation_bytes = _OPERATION_BYTES * n_operations
        return _TAP_BYTES * most_taps + operation_bytes + layer_bytes * self.depth

    @once
    def _numbered(self) -> tuple[tuple[Operation, ...], ...]:
        """The operations of layers 0 … L, with the numbers of their rows."""
        row, root_row, numbered = self.n_channels + 1, self.n_channels, []
        repeated = (repeat(layers.steps, layers.n_layers) for layers in self.steps)
        for layer_number, steps in enumerate(chain.from_iterable(repeated)):
            operations = []
            for step in steps:
                operation = Operation(step, layer_number, row, root_row)
                operations.append(operation)
                row, root_row = row + step.n_rows, operation.root_row_behind
            numbered.append(tuple(operations))
        return tuple(numbered)

    @once
    def constants(self) -> NetworkConstants:
        """The constants of all layers."""
        return NetworkConstants(self.network, self.depth)

    def scaled(
        self, depths: tuple[int, ...], values: dict[str, Array], left: Array, right: Array
    ) -> ScaledKernel:
        """Return kernels with the sizes of signals and the divisors of layers, changed in place."""
        powers = [(1.0, 0)] * len(depths)
        if self.network.homogeneous:
            powers = [self.constants.total_divisor(depth) for depth in depths]
        for value in values.values():
            for t, (mantissa, _) in enumerate(powers):
                value[t] *= mantissa
        return ScaledKernel(values, left, right, tuple(exponent for _, exponent in powers))


@lru_cache(maxsize=64)
def rounded_weights(operations: Operations, dtype: str) -> dict[int, RoundedWeights]:
    """Return the weights of features and branch in a precision, by the row of their merge.

    One rounded weight for all L layers would multiply kernels by up to (1 + eps)^L. So a weight is
    rounded up in some layers and down in others: its product over layers keeps its digits.
    """
    roundings: dict[Fraction, Iterator[float]] = {}

    def rounded(weight: Fraction) -> float:
        return next(roundings.setdefault(weight, _roundings(weight, dtype)))

    weights = {}
    for operation in chain(operations.input, *operations.layers):
        if operation.layer_number:
            layer = operations.constants.of_layer(operation.layer_number)
            if of_step := operation.step.weights(layer):
                features, branch, form = of_step
                weights[operation.row] = RoundedWeights(rounded(features), rounded(branch), form)
    return weights


def _roundings(weight: Fraction, dtype: str) -> Iterator[float]:
    """Yield a weight, rounded up or down so that the product of all that was yielded is nearest."""
    nearest = np.dtype(dtype).type(float(weight))
    if nearest < np.finfo(dtype).tiny:
        yield from repeat(float(nearest))
    near = (nearest, np.nextafter(nearest, np.float32(0)), np.nextafter(nearest, np.float32(2)))
    errors = {float(value): float(Fraction(float(value)) / weight - 1) for value in near}
    total = 0.0
    while True:
        value = min(errors, key=lambda value: abs(total + errors[value]))
        total += errors[value]
        yield value
