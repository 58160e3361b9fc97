"""`Program`: the operations of a request as records, for both compiled engines."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from types import ModuleType

import numpy as np

from ...arrays import Array
from ..heads import all_shared, runs
from ..operations import Operations, rounded_weights
from ..order import ending_with_activation, joined, may_have_five_taps, may_join, with_five_taps
from ..request import Request
from ..windows import Window
from .records import (
    JOB,
    LAYER,
    OPERATION,
    OPERATION_KINDS,
    OUTPUTS,
    RUN,
    WINDOW,
    copied,
    filled,
    pointer,
)

_FIVE_TAPS_DEPTH = 1000
"""Largest depth of networks that merge five taps at a time (`order.with_five_taps`).

Sums of five taps of nearly equal signals round alike in all layers. Kernels of 5000 layers erred by
2e-12; with windows of three taps they err by 2e-13.
"""


def _has_sums(request: Request) -> bool:
    """Return whether a head is a sum over pixels, which needs no values of each."""
    return not request.shares and (request.head in ("gap", "trace") or request.pool > 0)


@lru_cache(maxsize=64)
def operations_of(request: Request, channels: int, n_axes: int) -> Operations:
    """Return the operations of a request's program, whose rows are all that tables have."""
    network, depth = request.network, request.depths[-1]
    operations = Operations(network, depth, channels, n_axes)
    if not _has_sums(request):
        return operations
    order = ending_with_activation(operations.order)
    if may_have_five_taps(network) and depth <= _FIVE_TAPS_DEPTH:
        order = with_five_taps(order)
        if may_join(network, operations.constants, n_axes):
            order = joined(order)
    return replace(operations, rewritten=order)


def n_terms(request: Request, operations: Operations) -> int:
    """Return the number of terms of `linear_terms`, for each pixel of pooled windows.

    Shares of pooled heads have a term for each tap of the input filter.
    """
    filtered = request.pool > 0 and request.shares
    taps = operations.network.input_filter.size**operations.n_axes if filtered else 1
    return operations.n_channels * taps


class Program:
    """The operations of a request as records of records.h, in arrays of the module `xp`."""

    def __init__(self, request: Request, channels: int, n_axes: int, xp: ModuleType) -> None:
        sums = _has_sums(request)
        self.request = request
        self.operations = operations_of(request, channels, n_axes)
        of_pixels: dict[str | int, str] = {"equivariant": "pixel 1", "pixels": "pixels"}
        output = "sums" if sums else "shares" if request.shares else of_pixels.get(request.head)
        if output is None:
            raise NotImplementedError(f"compiled engines have no head {request.head!r}")
        windows: dict[Window, int] = {}
        records = self._operation_records(windows)
        self.arrays = {
            "windows": xp.asarray(_window_records(windows, n_axes).view(np.int64)),
            "operations": xp.asarray(records.view(np.int64)),
            "layers": xp.asarray(self._layer_records().view(np.int64)),
        }
        # The host sums an offset −δ as the offset δ of exchanged signals. So K(x, z) has the bits
        # of K(z, x).
        self._turns, self._xp = sums and xp is np, xp
        self._runs: dict[int, tuple[int, Array, Array, float]] = {}
        self._n_terms = n_terms(request, self.operations)
        operations, parts = self.operations, request.network.carried_parts
        self._job = filled(
            JOB,
            bytes=JOB.itemsize,
            output=OUTPUTS.index(output),
            all_pairs=request.all_pairs,
            channels=operations.n_channels,
            n_rows=operations.n_rows,
            depth=operations.depth,
            n_input=len(operations.input),
            all_shared=1.0,
            places=1,
            terms=self._n_terms,
            n_operations=len(records),
            n_windows=len(windows),
            has_opposite=operations.constants.has_opposite,
            with_ntk="ntk" in request.kinds,
            linear_share=operations.constants.linear_share,
            initial=parts.initial,
            inner_minus_readout=parts.inner_minus_readout,
            outer_plus_readout=parts.outer_plus_readout,
            readout=parts.readout,
            later_readout=request.network.parts.readout - parts.readout,
            **{name: pointer(array) for name, array in self.arrays.items()},
        )

    def _runs_of(self, extent: int) -> tuple[int, Array, Array, float]:
        """Return the number of runs, the runs, and the windows of their offsets, one and all."""
        if extent not in self._runs:
            axes, xp = self.request.axes(extent), self._xp
            of_lines = runs(self.request.pool, axes, self._turns)
            records = np.array([(run.lines, run.first, len(run.shared)) for run in of_lines], RUN)
            shared = np.concatenate([run.shared for run in of_lines]).astype(np.float64)
            arrays = xp.asarray(records.view(np.int64)), xp.asarray(shared)
            self._runs[extent] = len(records), *arrays, float(all_shared(self.request.pool, axes))
        return self._runs[extent]

    def _operation_records(self, windows: dict[Window, int]) -> np.ndarray:
        """Return the records of all operations; `windows` gets the number of each."""
        operations = self.operations
        of_all = [*operations.input, *chain.from_iterable(operations.layers)]
        weights = rounded_weights(operations, self.request.dtype)
        records = np.zeros(len(of_all), OPERATION)
        for name in ("row", "root", "is_branch"):
            records[name] = [getattr(operation, name) for operation in of_all]
        records["kind"] = [OPERATION_KINDS.index(operation.kind) for operation in of_all]
        records["window"] = [
            -1 if operation.window is None else windows.setdefault(operation.window, len(windows))
            for operation in of_all
        ]
        for record, operation in zip(records, of_all, strict=True):
            if operation.kind == "bias":
                root = operations.constants.bias(operation.layer, operation.is_branch)
                record["product"] = root**2
            elif operation.row in weights:
                record["feature_weight"], record["branch_weight"] = weights[operation.row]
        return records

    def _layer_records(self) -> np.ndarray:
        """Return the records of layers 1 … depth."""
        operations, depths = self.operations, self.request.depths
        first, records = len(operations.input), np.zeros(operations.depth, LAYER)
        for number, (record, of_layer) in enumerate(
            zip(records, operations.layers, strict=True), start=1
        ):
            constants, last = operations.constants.of_layer(number), of_layer[-1]
            record["first"], record["count"] = first, len(of_layer)
            if last.kind == "skip":
                record["root"] = -1
            else:
                record["root"] = last.root if last.kind == "activation" else last.row
            record["feature_weight"], record["branch_weight"] = (
                constants.feature_factor,
                constants.branch_factor,
            )
            record["input_factor"] = operations.constants.input_factor(number)
            record["product"] = operations.constants.bias(number, is_branch=True) ** 2
            record["report"] = depths.index(number) if number in depths else -1
            first += len(of_layer)
        return records

    def job(
        self,
        values: dict[str, Array],
        cases: int,
        columns: int,
        extent: int,
        paired: bool,
        symmetric: bool,
    ) -> np.ndarray:
        """Return a job that writes to `values`, (depths, cases, columns, …)."""
        *height, width = self.request.axes(extent)  # signals have no height
        job = copied(self._job)
        fields: dict[str, object] = {"cases": cases, "columns": columns, "extent": extent}
        fields |= {"symmetric": symmetric, "paired": paired, "height": sum(height), "width": width}
        if self.request.pool:
            number, of_lines, shared, all_windows = self._runs_of(extent)
            fields |= {"n_runs": number, "turns": self._turns, "all_shared": all_windows}
            fields |= {"runs": pointer(of_lines), "shared": pointer(shared)}
            if self.request.shares:
                fields["places"] = extent
            else:
                fields["terms"] = self._n_terms * extent
        for name, value in (fields | {kind: pointer(K) for kind, K in values.items()}).items():
            job[name] = value
        return job


def _window_records(windows: dict[Window, int], n_axes: int) -> np.ndarray:
    """Return the records of windows, or one of zeros where there is none."""
    records = np.zeros(max(len(windows), 1), WINDOW)
    for record, window in zip(records, windows, strict=False):
        weight = Fraction(1, window.total)
        record["n_taps"], record["dilation"] = window.n_taps, window.dilation
        record["axis"] = window.axis if n_axes == 2 else 1
        record["is_triangle"] = window.is_triangle
        record["weight"] = float(weight)
        record["rest"] = float(weight - Fraction(float(weight)))
    return records


program = lru_cache(maxsize=64)(Program)
