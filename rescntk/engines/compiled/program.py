"""`Program`: the operations of a request as records, for both compiled engines."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from types import ModuleType

import numpy as np

from ...arrays import Array
from ..pooling import all_shared, runs
from ..request import Request
from ..windows import Operation, Operations, Window, rounded_weights
from .records import HEADS, JOB, LAYER, RUN, WINDOW, copied, filled, pointer

_JOINED_DEPTH = 1000
"""Deepest networks whose layers are joined (`Operations.joined`). Sums of five taps round alike in
layers of nearly equal signals: 5000 layers have erred by 2e-12, and by 2e-13 window by window."""


def _has_sums(request: Request) -> bool:
    """Return whether a head is a sum over pixels, which needs no values of each."""
    return not request.shares and (request.head in ("gap", "trace") or request.pool > 0)


@lru_cache(maxsize=64)
def operations_of(request: Request, channels: int, n_axes: int) -> Operations:
    """Return the operations of a request's program, whose rows are all that tables have."""
    sums, depth = _has_sums(request), request.depths[-1]
    operations = Operations(request.network, depth, channels, n_axes, ends_early=sums)
    joined = sums and operations.may_join and depth <= _JOINED_DEPTH
    return replace(operations, joined=joined, fused=joined and operations.may_fuse)


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
        self.request, depth = request, request.depths[-1]
        self.operations = operations_of(request, channels, n_axes)
        of_pixels: dict[str | int, str] = {"equivariant": "pixel 1", "pixels": "pixels"}
        head = "sums" if sums else "shares" if request.shares else of_pixels.get(request.head)
        if head is None:
            raise NotImplementedError(f"compiled engines have no head {request.head!r}")
        self._windows: dict[Window, int] = {}
        self._operations: list[tuple[int, int]] = []
        for operation in self.operations.input:
            self._add(operation)
        layers = np.zeros(depth, LAYER)
        for number, record in enumerate(layers, start=1):
            self._fill(record, number)
        windows = np.zeros(max(len(self._windows), 1), WINDOW)
        for record, window in zip(windows, self._windows, strict=False):
            weight = Fraction(1, window.total)
            record["n_taps"], record["dilation"] = window.n_taps, window.dilation
            record["axis"] = window.axis if n_axes == 2 else 1
            record["is_triangle"] = window.is_triangle
            record["weight"] = float(weight)
            record["rest"] = float(weight - Fraction(float(weight)))
        self.arrays = {
            "windows": xp.asarray(windows.view(np.int64)),
            "operations": xp.asarray(np.array(self._operations or [(0, 0)], np.int64)),
            "layers": xp.asarray(layers.view(np.int64)),
        }
        # On the host −δ is summed as δ of exchanged signals: K(x, z) has the bits of K(z, x).
        self._turns, self._xp = sums and xp is np, xp
        self._runs: dict[int, tuple[int, Array, Array, float]] = {}
        self._n_terms = n_terms(request, self.operations)
        operations, parts = self.operations, request.network.parts.carried
        self._job = filled(
            JOB, bytes=JOB.itemsize, head=HEADS.index(head), all_pairs=request.all_pairs,
            channels=operations.n_channels, n_rows=operations.n_rows, depth=operations.depth,
            n_input=len(operations.input), all_shared=1.0, places=1, terms=self._n_terms,
            n_operations=len(self._operations), n_windows=len(self._windows),
            has_opposite=operations.constants.has_opposite, with_ntk="ntk" in request.kinds,
            linear_share=operations.constants.linear_share, initial=parts.initial,
            inner_minus_readout=parts.inner_minus_readout,
            outer_plus_readout=parts.outer_plus_readout, readout=parts.readout,
            later_readout=request.network.parts.readout - parts.readout,
            **{name: pointer(array) for name, array in self.arrays.items()},
        )  # fmt: skip

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

    def _add(self, operation: Operation) -> None:
        window = self._windows.setdefault(operation.window, len(self._windows))
        self._operations.append((operation.row, window))

    def _fill(self, record: np.ndarray, number: int) -> None:
        """Fill the record of a layer."""
        operations, request = self.operations, self.request
        for name in ("norm", "inner_bias", "outer_bias", "skip", "joined", "report"):
            record[name] = -1
        record["inner"] = len(self._operations)
        record["enters"] = operations.joined and not operations.fused
        for operation in operations.layers[number - 1]:
            side = "outer" if operation.is_branch else "inner"
            if operation.kind == "window":
                if record[f"n_{side}"] == 0:
                    record[side] = len(self._operations)
                record[f"n_{side}"] += 1
                self._add(operation)
            elif operation.kind == "activation":
                record["root"], record["inverse"] = operation.root, operation.row
            elif operation.kind == "bias":
                record[f"{side}_bias"] = operation.row
            else:
                record[operation.kind] = operation.row
                if operation.kind != "norm":
                    weights = rounded_weights(operations, request.dtype)[operation.row]
                    record["keep"], record["share"] = weights
        last = operations.layers[number - 1][-1]
        record["features"] = last.root if last.kind == "activation" else last.row
        constants = operations.constants.of_layer(number)
        record["sum_keep"], record["sum_share"] = constants.keep, constants.share
        record["kept"] = operations.constants.passed(number)
        for side in ("inner", "outer"):
            record[f"{side}_product"] = operations.constants.bias(number, side == "outer") ** 2
        if number in request.depths:
            record["report"] = request.depths.index(number)

    def job(
        self, values: dict[str, Array], cases: int, columns: int, extent: int, paired: bool,
        symmetric: bool,
    ) -> np.ndarray:  # fmt: skip
        """Return a job that writes to `values`, (depths, cases, columns, …)."""
        *height, width = self.request.axes(extent)  # signals have no height
        job = copied(self._job)
        fields: dict[str, object] = {"cases": cases, "columns": columns, "extent": extent}
        fields |= {"symmetric": symmetric, "paired": paired, "height": sum(height), "width": width}
        if self.request.pool:
            number, of_lines, shared, whole = self._runs_of(extent)
            fields |= {"n_runs": number, "turns": self._turns, "all_shared": whole}
            fields |= {"runs": pointer(of_lines), "shared": pointer(shared)}
            if self.request.shares:
                fields["places"] = extent
            else:
                fields["terms"] = self._n_terms * extent
        for name, value in (fields | {kind: pointer(K) for kind, K in values.items()}).items():
            job[name] = value
        return job


program = lru_cache(maxsize=64)(Program)
