"""The engine "cuda": the recursion of ReLU networks on a GPU, through CuPy.

One GPU kernel computes strips of pixel pairs through all layers (strips.cu). As in the engine
"cpu", signals are divided into blocks whose tables fit into memory (compiled/tabled_signals.py).
The pairs of two blocks are divided into tiles, and each tile is one launch (launch_plan.py).

The computation runs on the current device. Signals on another device are copied to the current one
before they come here, when they are checked.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import numpy as np

from ...arrays import Array, Batch, array_module, channels_and_length, moved
from ...network.parameters import KERNEL_FIELDS
from ..compiled.program import operations_of
from ..compiled.records import filled
from ..compiled.tabled_signals import BlockTables, TabledSignals, bytes_to_hold, over_blocks
from ..engine import Engine, Plan
from ..request import Request, ScaledKernel
from ..work import Tick, blocks, silent
from . import compiler, selfcheck
from .launch_plan import LAUNCH, TABLE_BYTES, TABLE_SHARE, LaunchPlan, cached_launch_plan

_RESULT_SHARE = 0.75
"""The fraction of the device's free memory that CuPy arrays of results may occupy. The rest is for
tables and tiles."""


class CudaEngine(Engine[Batch]):
    """The engine for NVIDIA GPUs, for NumPy and CuPy arrays and ReLU networks."""

    name = "cuda"
    known_fields = KERNEL_FIELDS
    activations = frozenset(("relu",))
    arrays = frozenset(("numpy", "cupy"))
    auto_arrays = frozenset(("cupy",))
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
        """Return the reason why the engine does not work with this CuPy, or None if it does."""
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

    def refuses(self, request: Request, X: Batch) -> str | None:
        if reason := super().refuses(request, X):
            return reason
        try:
            self._launch_plan(request, X)
        except ValueError as error:  # no launch fits on the current device
            return str(error)
        return None

    def _launch_plan(self, request: Request, X: Batch) -> LaunchPlan:
        """Return the shape of launches on the current device, or raise a ValueError."""
        channels, d = channels_and_length(X)
        operations = operations_of(request, channels, len(request.pixel_shape(d)))
        return cached_launch_plan(request, d, operations, compiler.device_limits())

    def plan(
        self,
        request: Request,
        X: Batch,
        Z: Batch | None = None,
        paired: bool = False,
    ) -> CudaPlan:
        return CudaPlan(request, X, Z, paired, self._launch_plan(request, X))


class CudaPlan(Plan):
    """The plan of the engine "cuda": blocks of signals, and a launch for each tile of pairs."""

    def __init__(
        self,
        request: Request,
        X: Batch,
        Z: Batch | None,
        paired: bool,
        launches: LaunchPlan,
    ) -> None:
        d = channels_and_length(X)[1]
        super().__init__(request, X, Z, paired, (d, d))
        self.xp, self.launches = import_module("cupy"), launches
        self.result_xp = np if array_module(X) is np else self.xp  # the array module of the results
        self.free = compiler.free_bytes(self.xp)

        def signals(batch: Batch) -> TabledSignals:
            # Where there are many pixel pairs per signal, tables take little of the time. NumPy
            # then makes them, which saves hundreds of launches.
            lanes_are_offsets, lanes = launches.lanes_are_offsets, launches.lanes
            return TabledSignals(
                request,
                batch,
                n_interleaved=1 if lanes_are_offsets else lanes,
                padding=lanes * lanes_are_offsets,
                most_bytes=min(int(TABLE_SHARE * self.free), TABLE_BYTES),
                xp=self.xp,
                maker=np if lanes_are_offsets else self.xp,
            )

        self.left = signals(X)
        self.right = self.left if Z is None else signals(Z)

    @property
    def peak_bytes(self) -> float:
        if not self.launches.lanes_are_offsets:  # tables are made on the device
            return 0.0
        return bytes_to_hold(self.left, self.right)

    def room_for_results(self) -> float:
        return super().room_for_results() if self.result_xp is np else _RESULT_SHARE * self.free

    def _compute(self, tick: Tick) -> ScaledKernel:
        try:
            return self._scaled(tick)
        except Exception as error:
            if selfcheck.loses_device(error):
                error.add_note(selfcheck.RESTART)
            raise

    def _scaled(self, tick: Tick) -> ScaledKernel:
        """Compute all tiles; if the kernel matrix is symmetric, those on and above its diagonal."""
        shape = (len(self.request.depths), *self.result_shape)
        values = {kind: self.result_xp.zeros(shape) for kind in self.request.kinds}

        def compute(left: BlockTables, rows: slice, right: BlockTables, columns: slice) -> None:
            self._tiles(values, (left, rows), (right, columns), tick)

        scales = over_blocks(self.left, self.right, self.paired, self.symmetric, compute)
        left, right = (moved(scale, self.result_xp) for scale in scales)
        return self.left.operations.scaled_kernel(self.request.depths, values, left, right)

    def _tiles(
        self,
        values: dict[str, Array],
        left: tuple[BlockTables, slice],
        right: tuple[BlockTables, slice],
        tick: Tick,
    ) -> None:
        """Compute the pairs of a left and a right block, and write their kernels to `values`."""
        (left_tables, rows), (right_tables, columns) = left, right
        n, m = rows.stop - rows.start, columns.stop - columns.start
        most_rows, most_columns = self.launches.tile(n, 1 if self.paired else m, self.free)
        on_diagonal = self.symmetric and rows == columns
        if on_diagonal:  # rows and columns are divided at the same indices
            most_columns = most_columns if most_rows == n else min(most_rows, most_columns)
            most_rows = most_columns
        for lefts in blocks(0, n, most_rows):
            for rights in [lefts] if self.paired else blocks(0, m, most_columns):
                if on_diagonal and rights.stop <= lefts.start:
                    continue
                symmetric = on_diagonal and lefts == rights
                tile = self._launch((left_tables, lefts), (right_tables, rights), symmetric)
                i = slice(rows.start + lefts.start, rows.start + lefts.stop)
                k = slice(columns.start + rights.start, columns.start + rights.stop)
                for kind, kernels in tile.items():
                    if self.paired:
                        values[kind][:, i] = kernels[:, :, 0]
                    else:
                        values[kind][:, i, k] = kernels
                if tick is not silent:  # `tick` is to count pairs that are computed, not queued
                    self.xp.cuda.get_current_stream().synchronize()
                n_rights = 1 if self.paired else rights.stop - rights.start
                tick((lefts.stop - lefts.start) * n_rights)

    def _launch(
        self,
        left: tuple[BlockTables, slice],
        right: tuple[BlockTables, slice],
        symmetric: bool,
    ) -> dict[str, Array]:
        """Compute a tile in one launch, and return its kernels by kind, (depths, rows, columns, …).

        If the tile is `symmetric`, only those on and above its diagonal are valid.
        """
        (left_tables, rows), (right_tables, columns) = left, right
        plan, request, d = self.launches, self.request, self.left.longest
        shape = rows.stop - rows.start, 1 if self.paired else columns.stop - columns.start
        partial_shape = (
            plan.n_partial_sums,
            len(request.depths),
            *shape,
            *request.result_pixel_shape(d),
        )
        parts = {kind: self.xp.zeros(partial_shape) for kind in request.kinds}
        job = self.left.program.job(parts, shape, d, paired=self.paired, symmetric=symmetric)
        job["left"], job["right"] = (
            left_tables.side(False),
            right_tables.side(right_tables.n_interleaved > 1),
        )
        job["first_left"], job["end_left"] = rows.start, rows.stop
        job["first_right"], job["end_right"] = columns.start, columns.stop
        # The arrays of results hold this tile only, so that its first row and column are 0.
        launch = filled(
            LAUNCH,
            job=job,
            first_row=-rows.start,
            first_column=-columns.start,
            threads=plan.threads,
            teams=plan.teams,
            blocks_per_pair=plan.blocks_per_pair,
            n_depths=len(request.depths),
            team_bytes=plan.team_bytes,
        )
        kernel = compiler.compiled(self.xp.cuda.runtime.getDevice(), plan.name)
        grid = (plan.blocks(rows, columns, self.paired),)
        kernel(
            grid, (plan.threads * plan.teams,), (launch,), shared_mem=plan.teams * plan.team_bytes
        )
        for part in parts.values():
            for k in range(1, plan.n_partial_sums):
                part[0] += part[k]
        return {kind: moved(part[0], self.result_xp) for kind, part in parts.items()}
