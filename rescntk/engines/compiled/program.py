"""`Program`: the operations of a request as records that the compiled loops read."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ...arrays import Array
from ..heads import offset_ranges, pool_count_sum
from ..layer.network_steps import (
    ending_with_activation,
    joined,
    may_have_five_taps,
    may_join,
    with_five_taps,
)
from ..layer.operations import Operation, Operations
from ..layer.skip import SkipStep
from ..layer.taps import NO_TAPS, Taps
from ..request import Request
from .records import (
    CONVOLUTION,
    FORMS,
    JOB,
    LAYER,
    OFFSET_RANGE,
    OPERATION,
    OPERATION_KINDS,
    OUTPUTS,
    copied,
    filled,
    pointer,
)

_FIVE_TAPS_DEPTH = 1000
"""The largest depth of networks with convolutions of five taps (`network_steps.with_five_taps`).

If signals are nearly equal, sums over five taps make the same rounding error in each layer. With
5000 layers, these errors of kernels added up to 2e-12; with convolutions of three taps they are
2e-13.
"""


@lru_cache(maxsize=64)
def operations_of(request: Request, channels: int, n_axes: int) -> Operations:
    """Return the operations of a request, rewritten for compiled engines where this is possible.

    The tables of signals have exactly the rows of these operations. If compiled engines lack a
    step, a NotImplementedError is raised.
    """
    network, depth = request.network, request.depths[-1]
    operations = Operations(network, depth, channels, n_axes)
    for repeated in operations.steps:
        for step in repeated.steps:
            if step.kind not in OPERATION_KINDS:
                raise NotImplementedError(f"compiled engines have no step {step.kind!r}")
    if not request.has_sums:
        return operations
    steps = ending_with_activation(operations.steps)
    if may_have_five_taps(network, operations.constants, steps) and depth <= _FIVE_TAPS_DEPTH:
        steps = with_five_taps(steps)
        if may_join(network, operations.constants, n_axes):
            steps = joined(steps)
    return replace(operations, rewritten=steps)


def count_terms(request: Request, operations: Operations) -> int:
    """Return the number of terms in the arrays of `input_terms`.

    It is the number of channels, or for shares of pooled heads this number times that of the taps
    of the input filter.
    """
    filtered = request.pool > 0 and request.shares
    taps = operations.network.input_filter.size**operations.n_axes if filtered else 1
    return operations.n_channels * taps


class RangeArrays(NamedTuple):
    """The ranges of offsets of a pooled head (heads.py), in arrays that the compiled loops read."""

    n_offset_ranges: int
    records: Array
    """(n_offset_ranges, 3) integers: the records `OffsetRange` of records.h."""
    pool_counts: Array
    """(offsets,), the numbers n(δ) of all offsets, range by range."""
    pool_count_sum: float


class Program:
    """The operations of a request as records of records.h, in arrays of the module `xp`.

    A compiled engine makes its jobs from a program (`job`).
    """

    def __init__(self, request: Request, channels: int, n_axes: int, xp: ModuleType) -> None:
        self.request, self.operations = request, operations_of(request, channels, n_axes)
        output = _output_of(request)
        # On the host, the sum over the offset −δ is computed as that over δ of exchanged signals,
        # so that K(x, z) and K(z, x) are bitwise equal.
        self._half, self._xp = request.has_sums and xp is np, xp
        self._ranges: dict[int, RangeArrays] = {}
        self._n_terms = count_terms(request, self.operations)
        operations, parts = self.operations, self.operations.constants.carried_parts
        every_operation = [*operations.input, *chain.from_iterable(operations.layers)]
        every_taps = dict.fromkeys(operation.step.taps for operation in every_operation)
        every_taps.pop(NO_TAPS, None)
        records = {
            "convolutions": _convolution_records([*every_taps], n_axes),
            "operations": self._operation_records(every_operation, [*every_taps]),
            "layers": self._layer_records(),
        }
        self.arrays = {name: xp.asarray(array.view(np.int64)) for name, array in records.items()}
        self._job = filled(
            JOB,
            bytes=JOB.itemsize,
            output=OUTPUTS.index(output),
            all_pairs=request.all_pairs,
            channels=operations.n_channels,
            n_rows=operations.n_rows,
            depth=operations.depth,
            n_input=len(operations.input),
            pool_count_sum=1.0,
            mean_pixels=1,
            terms=self._n_terms,
            n_operations=len(every_operation),
            n_convolutions=len(every_taps),
            has_U_plus=operations.constants.has_U_plus,
            with_ntk="ntk" in request.kinds,
            linear_share=operations.constants.linear_share,
            initial=parts.initial,
            inner_minus_iota=parts.inner_minus_iota,
            outer_plus_iota=parts.outer_plus_iota,
            iota=parts.iota,
            later_readout=operations.constants.later_readout,
            **{name: pointer(array) for name, array in self.arrays.items()},
        )

    def _range_arrays(self, extent: int) -> RangeArrays:
        """Return the ranges of offsets of a pooled head for signals of `extent` pixels."""
        if extent not in self._ranges:
            shape, xp, head = self.request.pixel_shape(extent), self._xp, self.request.pool
            ranges = offset_ranges(head, shape, self._half)
            fields = [
                (offset_range.line_shift, offset_range.first, len(offset_range.pool_counts))
                for offset_range in ranges
            ]
            counts = np.concatenate([offset_range.pool_counts for offset_range in ranges])
            records = xp.asarray(np.array(fields, OFFSET_RANGE).view(np.int64))
            total = float(pool_count_sum(head, shape))
            self._ranges[extent] = RangeArrays(
                len(fields), records, xp.asarray(counts.astype(np.float64)), total
            )
        return self._ranges[extent]

    def _operation_records(
        self, every_operation: list[Operation], every_taps: list[Taps]
    ) -> np.ndarray:
        """Return the records of all operations. `every_taps` are those of the convolutions."""
        operations, convolutions = self.operations, {NO_TAPS: -1}
        convolutions |= {taps: index for index, taps in enumerate(every_taps)}
        weights = operations.rounded_weights(self.request.dtype)
        records = np.zeros(len(every_operation), OPERATION)
        for name in ("row", "std_row"):
            records[name] = [getattr(operation, name) for operation in every_operation]
        steps = [operation.step for operation in every_operation]
        records["kind"] = [OPERATION_KINDS.index(step.kind) for step in steps]
        records["after_activation"] = [step.after_activation for step in steps]
        records["convolution"] = [convolutions[step.taps] for step in steps]
        for record, (step, layer_number, row, _) in zip(records, every_operation, strict=True):
            if bias_std := step.bias_std(operations.constants, layer_number):
                record["bias_variance"] = bias_std**2
            if row in weights:
                features, branch, form = weights[row]
                record["feature_weight"], record["branch_weight"] = features, branch
                record["form"] = FORMS.index(form.value)
        return records

    def _layer_records(self) -> np.ndarray:
        """Return the records of layers 1 … depth."""
        operations, depths = self.operations, self.request.depths
        first, records = len(operations.input), np.zeros(operations.depth, LAYER)
        layers = zip(records, operations.layers, strict=True)
        for layer_number, (record, layer_operations) in enumerate(layers, start=1):
            layer_constants = operations.constants.of_layer(layer_number)
            last, count = layer_operations[-1], len(layer_operations)
            record["first"], record["count"] = first, count
            record["std_row"] = -1 if isinstance(last.step, SkipStep) else last.std_row_after
            weights = layer_constants.weights.rounded
            record["feature_weight"], record["branch_weight"] = weights.features, weights.branch
            record["input_weight"] = operations.constants.input_weight(layer_number)
            record["bias_variance"] = (
                operations.constants.bias_std(layer_number, after_activation=True) ** 2
            )
            record["depth_index"] = depths.index(layer_number) if layer_number in depths else -1
            first += count
        return records

    def job(
        self,
        values: dict[str, Array],
        shape: tuple[int, int],
        extent: int,
        *,
        paired: bool,
        symmetric: bool,
    ) -> np.ndarray:
        """Return the record of a job that writes kernels to `values`, (depths, *shape, …).

        `extent` is the number of pixels of the results' pixel axes and of the longest signals. The
        engine adds the signals and its own fields (`Job` in records.h).
        """
        job = copied(self._job)
        job["cases"], job["columns"] = shape
        job["extent"], job["paired"], job["symmetric"] = extent, paired, symmetric
        pixel_shape = self.request.pixel_shape(extent)
        # Signals have the height 0.
        job["height"], job["line_pixels"] = (
            pixel_shape if len(pixel_shape) == 2 else (0, *pixel_shape)
        )
        for kind, kernels in values.items():
            job[kind] = pointer(kernels)
        if self.request.pool:
            self._add_offsets(job, extent)
        return job

    def _add_offsets(self, job: np.ndarray, extent: int) -> None:
        """Set the fields of a job that only pooled heads have."""
        range_arrays = self._range_arrays(extent)
        job["n_offset_ranges"], job["half"] = range_arrays.n_offset_ranges, self._half
        job["offset_ranges"] = pointer(range_arrays.records)
        job["pool_counts"] = pointer(range_arrays.pool_counts)
        job["pool_count_sum"] = range_arrays.pool_count_sum
        if self.request.shares:
            job["mean_pixels"] = extent
        else:
            job["terms"] = self._n_terms * extent


def _output_of(request: Request) -> str:
    """Return which `Output` of records.h a request has."""
    if request.has_sums:
        return "sums"
    if request.shares:
        return "shares"
    outputs: dict[str | int, str] = {"equivariant": "pixel 1", "pixels": "pixels"}
    if request.head not in outputs:
        raise NotImplementedError(f"compiled engines have no head {request.head!r}")
    return outputs[request.head]


def _convolution_records(every_taps: list[Taps], n_axes: int) -> np.ndarray:
    """Return the records of convolutions, or a record of zeros if there are none."""
    records = np.zeros(max(len(every_taps), 1), CONVOLUTION)
    for record, taps in zip(records, every_taps, strict=False):
        weight = Fraction(1, taps.total)
        record["n_taps"], record["dilation"] = taps.n_taps, taps.dilation
        record["axis"] = taps.axis if n_axes == 2 else 1
        record["is_triangle"] = taps.is_triangle
        record["weight"] = float(weight)
        record["weight_error"] = float(weight - Fraction(float(weight)))
    return records


cached_program = lru_cache(maxsize=64)(Program)
"""The `Program` of a request, which is made only once."""
