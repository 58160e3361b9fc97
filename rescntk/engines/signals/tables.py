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
from ..layer.variances import ArraySignalContext, seen_by_pixel_1
from ..request import Request
from .input import (
    Input,
    check_fraction,
    check_normalized,
    least_std,
    read_input,
    read_input_as_given,
)

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

    If the activation is homogeneous, signals are divided by their sizes. For the head "equivariant"
    only pixels that influence pixel 1 count. Each table row ends with `pad` more pixels, which are
    0.
    """
    xp, pixels = array_module(X), X.shape[2:]
    read = read_input if operations.network.homogeneous else read_input_as_given
    with np.errstate(over="ignore", invalid="ignore"):  # found when the results are checked
        inputs = read(operations, request, X)
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
    """Arrays of signals whose features are checked against the precision of a request."""

    request: Request = field(kw_only=True)

    def check_features(self, features: Variances) -> None:
        check_normalized(features.std**2, self.request)


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
        inputs.bias,
        inputs.norm_std,
        least_std(request.dtype),
        request=request,
    )
    entering = signals.state(inputs.input_variance)
    write(operations.n_channels, entering.std)

    def write_step(operation: Operation, rows: Iterable[PixelNumbers]) -> None:
        for row, values in enumerate(rows, start=operation.row):
            write(row, values)

    features, last = variances_around_last_layer(signals.of_layer, operations, entering, write_step)
    net = operations.network
    if request.reads_pixel_1 and (net.norm or not net.homogeneous):
        # Pixels below `least_std` have a share below eps of what pixel 1 sees.
        share = math.sqrt(float(np.finfo(request.dtype).eps))
        check_pixel_1(operations, last.std, inputs, 4.0 * least_std(request.dtype) / share)
    constants = operations.constants
    may_fall = constants.has_ordinary_layers if net.norm else constants.has_bias
    if may_fall and net.homogeneous:  # in other networks signals keep their size
        flat = (of.variance.reshape(len(of.variance), -1) for of in (features, last))
        passing, mean = (variances.mean(axis=1) for variances in flat)
        if operations.rewritten is not None:  # these operations end with the last activation
            layer = constants.of_layer(operations.depth)
            of_bias = (
                constants.bias_std(operations.depth, after_activation=True) * inputs.bias
            ) ** 2
            mean = layer.weights.rounded.weighted_sum(passing, mean + of_bias)
        check_fraction(mean, request, "the last layer has")


def check_pixel_1(operations: Operations, stds: PixelNumbers, inputs: Input, least: float) -> None:
    """Raise an OverflowError if the variance at pixel 1 is too small to be accurate.

    `stds` are the standard deviations behind the last layer, (n, *pixels), and `least` is the
    smallest one that is allowed. Signals that do not influence pixel 1 are not checked.
    """
    seen = array_module(stds).asarray(seen_by_pixel_1(operations, stds.shape[1:]))
    sees_values = ((inputs.pixels != 0).any(axis=1) & seen).reshape(len(stds), -1).any(axis=1)
    if bool((sees_values & (stds.reshape(len(stds), -1)[:, 0] < least)).any()):
        raise OverflowError(
            f"pixel 1 has standard deviations below {least:.1e}, expected larger signals at the "
            f"pixels that it sees"
        )
