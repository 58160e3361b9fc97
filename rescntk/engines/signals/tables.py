"""Tables of single signals: unit vectors, roots of variances and the coordinates of each window.

Variances (layer/variances.py) are computed in float64; their roots and coordinates are rounded
once to the working precision. Proportional signals have equal coordinates but for rare last bits,
and so differences are exact where they matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from ...arrays import Array, PixelNumbers, SignalArray, array_module
from ..layer.operations import Operation, Operations
from ..layer.variances import SignalVariances, seen_by_pixel_1
from ..request import Request
from .input import (
    Input,
    check_fraction,
    check_normalized,
    least_root,
    read_input,
    read_input_as_given,
)

_TAIL = 16
"""Numbers behind tables: vectors of this many lanes may begin at the last number."""

_LEAST_DIVISOR = 1e-300
"""Least variance that divides. A merge without variance has parts and coordinates of 0."""


@dataclass(frozen=True)
class Tables:
    """Tables of some signals of one length."""

    rows: Array
    """(n, rows, *pixels), in the working precision; `Operations` numbers the rows."""
    input: Input

    def selected(self, cases: np.ndarray | slice) -> Tables:
        """Return the tables of some of the signals."""
        return Tables(
            self.rows[cases], Input(*(array[cases] for array in vars(self.input).values()))
        )


def signal_tables(operations: Operations, request: Request, X: SignalArray, pad: int = 0) -> Tables:
    """Return the tables of signals X, (n, channels, *pixels).

    Signals are divided by their sizes if the activation is homogeneous; for the head "equivariant"
    by the size of the energy that reaches pixel 1. Rows have `pad` pixels more, which are 0.
    """
    xp, pixels = array_module(X), X.shape[2:]
    read = read_input if operations.network.homogeneous else read_input_as_given
    inputs = read(operations, request, X)
    rows = zeros((len(X), operations.n_rows, *pixels[:-1], pixels[-1] + pad), request.dtype, xp)
    inside = rows[..., : pixels[-1]]
    inside[:, : operations.n_channels] = inputs.unit

    def write(row: int, values: PixelNumbers) -> None:
        inside[:, row] = values

    write_rows(operations, request, xp, inputs, write)
    return Tables(rows, inputs)


def zeros(shape: tuple[int, ...], dtype: str, xp: ModuleType) -> Array:
    """Return zeros, behind which a vector of lanes may be read."""
    size = math.prod(shape)
    table: Array = xp.zeros(size + _TAIL, dtype)[:size].reshape(shape)
    return table


class TableRows(SignalVariances):
    """The recursion of variances, which writes the rows that each operation has.

    `write` takes a row's number and its values, (n, *pixels) in float64.
    """

    def __init__(
        self,
        operations: Operations,
        request: Request,
        xp: ModuleType,
        inputs: Input,
        write: Callable[[int, PixelNumbers], None],
    ) -> None:
        super().__init__(operations, xp, inputs.energy, inputs.bias**2, inputs.norm_root**2)
        self.request, self.least, self.write = request, least_root(request.dtype), write

    def report_norm(self, operation: Operation, before: PixelNumbers, root: PixelNumbers) -> None:
        check_normalized(before**2, self.request)
        self.write(operation.row, root)
        self.write(operation.factor_row, root / self.xp.where(before > 0, before, math.inf))

    def report_activation(
        self, operation: Operation, before: PixelNumbers, root: PixelNumbers
    ) -> None:
        self.write(operation.row, 1.0 / self.xp.maximum(before, self.least))
        if operation.has_root:
            self.write(operation.row + 1, root)

    def report_merge(
        self,
        operation: Operation,
        parts: list[PixelNumbers],
        weights: Sequence[float],
        variance: PixelNumbers,
        root: PixelNumbers,
    ) -> None:
        # Ratios of equal variances are 1: their coordinates are equal to the bit, at any size.
        positive = self.xp.maximum(variance, _LEAST_DIVISOR)
        first, *later = parts
        ratio = self.xp.sqrt(first / positive)  # a_0 / (√weight a)
        half_sum = math.sqrt(0.5) + math.sqrt(0.5 * weights[0]) * ratio  # (a + a_0) / (√2 a)
        self.write(operation.row, root)
        self.write(operation.factor_row, root * half_sum)
        divisors = {weight: half_sum * math.sqrt(2.0 / weight) for weight in {*weights[1:]} - {0.0}}
        coordinates = zip(operation.coordinate_rows, later, weights[1:], strict=True)
        for row, part, weight in coordinates:
            if weight:
                self.write(row, self.xp.sqrt(part / positive) / divisors[weight])
            else:  # a part without weight may be infinitely larger than the whole
                self.write(row, self.xp.zeros_like(part))


def write_rows(
    operations: Operations,
    request: Request,
    xp: ModuleType,
    inputs: Input,
    write: Callable[[int, PixelNumbers], None],
) -> None:
    """Write the rows of a table behind the unit vectors, or raise an OverflowError."""
    write(operations.n_channels, xp.sqrt(inputs.energy))
    features, last = TableRows(operations, request, xp, inputs, write).around_last_layer()
    net = operations.network
    if request.reads_pixel_1 and (net.norm or not net.homogeneous):
        check_pixel_1(operations, last.root, inputs, 4.0 * least_root(request.dtype))
    constants = operations.constants
    falls = constants.has_ordinary_layers if net.norm else constants.has_bias
    if falls and net.homogeneous:  # else signals keep their size
        flat = (of.variance.reshape(len(of.variance), -1) for of in (features, last))
        passing, mean = (variances.mean(axis=1) for variances in flat)
        if operations.rewritten is not None:  # operations end with the activation
            layer = constants.of_layer(operations.depth)
            of_bias = (constants.bias_root(operations.depth, is_branch=True) * inputs.bias) ** 2
            mean = layer.weights.rounded.merged(passing, mean + of_bias)
        check_fraction(mean, request, "the last layer has")


def check_pixel_1(operations: Operations, roots: PixelNumbers, inputs: Input, least: float) -> None:
    """Raise an OverflowError if pixel 1 sees signals whose variances have too few digits there.

    `roots` are of the last layer's variances, (n, *pixels).
    """
    seen = array_module(roots).asarray(seen_by_pixel_1(operations, roots.shape[1:]))
    sees_values = ((inputs.pixels != 0).any(axis=1) & seen).reshape(len(roots), -1).any(axis=1)
    if bool((sees_values & (roots.reshape(len(roots), -1)[:, 0] < least)).any()):
        raise OverflowError(
            f"pixel 1 has roots of variances below {least:.1e}, expected larger signals at the "
            f"pixels that it sees"
        )
