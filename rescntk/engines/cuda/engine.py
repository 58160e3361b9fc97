"""The engine "cuda": the recursion of ReLU networks as one kernel for the GPU, through CuPy.

The kernel takes rows of pixel pairs through all layers at once (rows.cu). Signals are taken in
blocks whose tables fit into memory, as by the engine "cpu" (program.py); a tile of the pairs of two
blocks is one launch (launch_plan.py).

The current device computes. Signals of another device were copied to it when they were checked.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

from ...arrays import Array, array_module, channels_and_length
from ...network import ALL_FIELDS
from ..compiled.program import operations_of
from ..compiled.records import filled
from ..compiled.signals import BlockTables, Signals, moved, row_bytes
from ..engine import Engine
from ..request import Request, ScaledKernel
from ..work import Tick, blocks, silent
from . import compiler, selfcheck
from .launch_plan import CUTS, LAUNCH, TABLE_BYTES, TABLE_SHARE, LaunchPlan

_WHOLE_SHARE = 0.75
"""Share of the free memory that CuPy's results may have: the rest is for tables and tiles."""


class CudaEngine(Engine):
    """Rows of pixel pairs on an NVIDIA GPU, for arrays of NumPy and CuPy and ReLU networks."""

    name = "cuda"
    fields = ALL_FIELDS
    activations = frozenset(("relu",))
    arrays = frozenset(("numpy", "cupy"))
    lists = False

    def why_not(self) -> str | None:
        if "cupy" not in sys.modules and find_spec("cupy") is None:
            return (
                "CuPy is not installed: pip install 'rescntk[cuda12]' or 'rescntk[cuda13]', "
                "whichever the GPU's driver takes"
            )
        try:
            return self._why_not(import_module("cupy"))
        except ImportError as error:  # a CuPy that does not fit this NumPy or this machine
            return f"CuPy does not work here: {' '.join(str(error).split())}"

    def _why_not(self, cupy: ModuleType) -> str | None:
        """Return the reason why the engine cannot serve with this CuPy, or None."""
        runtime = cupy.cuda.runtime
        try:
            count = runtime.getDeviceCount()
        except runtime.CUDARuntimeError as error:
            return f"no CUDA device: {' '.join(str(error).split())}"
        if not count:
            return "no CUDA device"
        try:
            cupy.cuda.nvrtc.getVersion()
        except (RuntimeError, ImportError) as error:
            return (
                "no NVRTC to compile kernels with: pip install 'rescntk[cuda12]' or "
                "'rescntk[cuda13]', or a CUDA toolkit "
                f"({' '.join(str(error).split())})"
            )
        return selfcheck.failure(cupy, self)

    def is_fast(self, request: Request, n_pixels: int) -> bool:
        """Return whether signals of `n_pixels` pixels fit on the current device."""
        with suppress(ValueError):
            operations = operations_of(request, 1, len(request.axes(n_pixels)))
            LaunchPlan(request, n_pixels, operations, compiler.device_limits())
            return True
        return False

    def bytes_of_pair(self, request: Request, channels: int, *lengths: int) -> int:
        operations = operations_of(request, channels, len(request.axes(lengths[0])))
        behind = max(lanes for _, lanes, _ in CUTS[request.dtype]) if request.meets_others else 0
        return operations.n_rows * sum(row_bytes(request, length, behind) for length in lengths)

    def _compute(self, request: Request, X: Any, Z: Any, tick: Tick, paired: bool) -> ScaledKernel:
        try:
            return _Run(request, X, Z, paired).scaled(tick)
        except Exception as error:
            if selfcheck.loses_device(error):
                error.add_note(selfcheck.RESTART)
            raise


class _Run:
    """The kernels of one request, tile by tile."""

    def __init__(self, request: Request, X: Array, Z: Array | None, paired: bool) -> None:
        self.xp, self.request, self.paired = import_module("cupy"), request, paired
        self.home = np if array_module(X) is np else self.xp  # where results belong
        self.symmetric = Z is None and not paired
        channels, d = channels_and_length(X)
        operations = operations_of(request, channels, len(request.axes(d)))
        self.plan = LaunchPlan(request, d, operations, compiler.device_limits())
        self.free = compiler.free_bytes(self.xp)

        def signals(batch: Array) -> Signals:
            # Beside many pixel pairs tables cost little: NumPy spares hundreds of launches.
            of_offsets, lanes = self.plan.of_offsets, self.plan.lanes
            return Signals(
                request, batch, lanes=1 if of_offsets else lanes, behind=lanes * of_offsets,
                most_bytes=min(int(TABLE_SHARE * self.free), TABLE_BYTES),
                xp=self.xp, maker=np if of_offsets else self.xp,
            )  # fmt: skip

        self.left = signals(X)
        self.right = self.left if Z is None else signals(Z)
        shape = len(request.depths), len(X), 1 if paired else len(self.right)
        axes = request.pixel_axes(d)
        if self.home is not np:
            needed = request.result_bytes(int(np.prod(shape[1:] + axes)))
            most = int(_WHOLE_SHARE * self.free)
            if needed > most:
                raise ValueError(
                    f"X and Z have results that need {needed} bytes, expected at most {most}, "
                    "three quarters of what is free on the device; for NumPy arrays they are "
                    "kept in the host's memory"
                )
        self.values = {kind: self.home.zeros(shape + axes) for kind in request.kinds}

    def scaled(self, tick: Tick) -> ScaledKernel:
        """Compute all tiles; of a symmetric Gram those on and above the diagonal."""
        for rows in self.left.blocks:
            left = self.left.tables(rows)
            for columns in [rows] if self.paired else self.right.blocks:
                if not self.symmetric or columns.start >= rows.start:
                    same = self.left is self.right and rows == columns
                    right = left if same else self.right.tables(columns)
                    self._tiles((left, rows), (right, columns), tick)
        scales = (moved(side.scale, self.home) for side in (self.left, self.right))
        values = self.values
        if self.paired:
            values = {kind: value[:, :, 0] for kind, value in values.items()}
        return self.left.operations.scaled(self.request.depths, values, *scales)

    def _tiles(
        self, left: tuple[BlockTables, slice], right: tuple[BlockTables, slice], tick: Tick
    ) -> None:
        """Compute the pairs of two blocks of signals."""
        (tables, rows), (other_tables, columns) = left, right
        n, m = rows.stop - rows.start, columns.stop - columns.start
        height, width = self.plan.tile(n, 1 if self.paired else m, self.free)
        on_diagonal = self.symmetric and rows == columns
        if on_diagonal:  # one grid of tiles for both sides
            height = width = width if height == n else min(height, width)
        for some in blocks(0, n, height):
            for others in [some] if self.paired else blocks(0, m, width):
                if on_diagonal and others.stop <= some.start:
                    continue
                self._launch((tables, rows.start, some), (other_tables, columns.start, others))
                if tick is not silent:  # of pairs that are computed, not only queued
                    self.xp.cuda.get_current_stream().synchronize()
                tick((some.stop - some.start) * (1 if self.paired else others.stop - others.start))

    def _launch(
        self, left: tuple[BlockTables, int, slice], right: tuple[BlockTables, int, slice]
    ) -> None:
        """Launch the kernel of one tile, and put its results to their places."""
        (tables, row, rows), (others, column, columns) = left, right
        plan, request, d = self.plan, self.request, self.left.longest
        shape = rows.stop - rows.start, 1 if self.paired else columns.stop - columns.start
        sizes = (plan.parts, len(request.depths), *shape, *request.pixel_axes(d))
        parts = {kind: self.xp.zeros(sizes) for kind in request.kinds}
        on_diagonal = self.symmetric and row == column and rows == columns
        job = self.left.program.job(parts, *shape, d, self.paired, on_diagonal)
        job["left"], job["right"] = tables.side(False), others.side(others.lanes > 1)
        job["first_left"], job["last_left"] = rows.start, rows.stop
        job["first_right"], job["last_right"] = columns.start, columns.stop
        # Results are of the tile alone.
        launch = filled(
            LAUNCH, job=job, first_row=-rows.start, first_column=-columns.start,
            threads=plan.threads, teams=plan.teams, units=plan.units, slots=len(request.depths),
            row_bytes=plan.row_bytes,
        )  # fmt: skip
        kernel = compiler.compiled(self.xp.cuda.runtime.getDevice(), plan.name)
        grid = (plan.blocks(rows, columns, self.paired),)
        kernel(
            grid, (plan.threads * plan.teams,), (launch,), shared_mem=plan.teams * plan.row_bytes
        )
        i = slice(row + rows.start, row + rows.stop)
        k = slice(0, 1) if self.paired else slice(column + columns.start, column + columns.stop)
        for kind, part in parts.items():
            sums = part[0]
            for unit in range(1, plan.parts):
                sums += part[unit]
            sums = moved(sums, self.home)
            self.values[kind][:, i, k] = sums
