"""Tables of single signals: unit vectors, and the rows of each step (layer/step.py).

The rows of a table are computed in float64, and then rounded to the working precision. Proportional
signals have equal coordinates, except for rare differences in the last bit. So the differences of
coordinates are exact where small errors would matter most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import ModuleType

import numpy as np

from ...arrays import Array, PixelNumbers, SignalArray, array_module
from ..layer.operations import Operation, Operations
from ..layer.recursion import variances_around_last_layer
from ..layer.step import Variances
from ..request import Request
from .checks import (
    check_activated,
    check_last_layer,
    check_normalized,
    check_pixel_1,
    check_preactivations,
    least_std,
)
from .context import ArraySignalContext
from .input import Input, read_input

_TAIL = 16
"""The number of unused entries after a table. A vector of this many lanes may be read from the last
number of the table on."""


@dataclass(frozen=True)
class Tables:
    """Tables of some signals of one length."""

    rows: Array
    """(n, rows, *pixels), in the working precision. `Operation` has the numbers of the rows."""
    input: Input

    def selected(self, cases: np.ndarray | slice) -> Tables:
        """Return the tables of some of the signals."""
        return Tables(
            self.rows[cases], Input(*(array[cases] for array in vars(self.input).values()))
        )


def signal_tables(operations: Operations, request: Request, X: SignalArray, pad: int = 0) -> Tables:
    """Return the tables of signals X, (n, channels, *pixels).

    Each table row ends with `pad` more pixels, which are 0. Signals whose kernels would be
    inaccurate raise an OverflowError (checks.py).
    """
    xp, pixels = array_module(X), X.shape[2:]
    with np.errstate(over="ignore", invalid="ignore"):  # found when the results are checked
        inputs = read_input(operations, request, X)
        shape = len(X), operations.n_rows, *pixels[:-1], pixels[-1] + pad
        rows = zeros(shape, request.dtype, xp)
        inside = rows[..., : pixels[-1]]
        inside[:, : operations.n_channels] = inputs.unit

        def write(row: int, values: PixelNumbers) -> None:
            inside[:, row] = values

        write_rows(operations, request, xp, inputs, write)
    return Tables(rows, inputs)


def zeros(shape: tuple[int, ...], dtype: str, xp: ModuleType) -> Array:
    """Return an array of zeros, after whose end a vector of lanes may be read."""
    size = math.prod(shape)
    table: Array = xp.zeros(size + _TAIL, dtype)[:size].reshape(shape)
    return table


@dataclass(eq=False)
class CheckedSignalContext(ArraySignalContext):
    """An `ArraySignalContext` that refuses signals with inaccurate kernels (checks.py)."""

    request: Request = field(kw_only=True)

    def check_features(self, features: Variances) -> None:
        check_normalized(features.std**2, self.request)

    def check_preactivations(self, variance: PixelNumbers) -> None:
        check_preactivations(self.operations, self.layer_number, variance, self.input_variance)

    def check_activated(self, variance: PixelNumbers) -> None:
        check_activated(self.layer_number, variance)


def write_rows(
    operations: Operations,
    request: Request,
    xp: ModuleType,
    inputs: Input,
    write: Callable[[int, PixelNumbers], None],
) -> None:
    """Write all rows of a table but the unit vectors, or raise an OverflowError.

    `write` is called with the number of a table row and its values, (n, *pixels) in float64.
    """
    signals = CheckedSignalContext(
        operations,
        xp,
        inputs.input_variance,
        bias=inputs.bias,
        normalized_std=inputs.norm_std,
        least_std=least_std(request.dtype),
        request=request,
    )
    entering = signals.exact_variances(inputs.input_variance)
    write(operations.n_channels, entering.std)

    def write_step(operation: Operation, rows: Iterable[PixelNumbers]) -> None:
        for row, values in enumerate(rows, start=operation.row):
            write(row, values)

    features, last = variances_around_last_layer(signals.of_layer, operations, entering, write_step)
    check_pixel_1(operations, request, inputs.scaled, last)
    check_last_layer(operations, request, inputs.bias, features, last)
