"""The arguments of kernels: records of the layout of the structs of rows.h, and packed tables.

CuPy passes a NumPy array of one record by value ("Custom user types" in CuPy's user guide). A test
compares sizes and offsets with the C++ compiler's and NVRTC's.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, cast

import numpy as np

from ...arrays import Array
from .launch_plan import LaunchPlan
from .signal_tables import SignalTables


@functools.cache
def layouts(dtype: str) -> dict[str, np.dtype[Any]]:
    """Return the layouts of the structs of activations.h and rows.h in a precision, by name."""

    def struct(*groups: tuple[Any, str]) -> np.dtype[Any]:
        fields = [(name, kind) for kind, names in groups for name in names.split()]
        return np.dtype(cast(Any, fields), align=True)

    real, pointer = np.dtype(dtype), np.uint64
    tables = struct((pointer, "roots units bounds"), (np.int64, "cases"))
    trained = struct((real, "inner_minus_readout outer_plus_readout"))
    return {
        "DeviceTables": tables,
        "Trained": trained,
        "Layer": struct(
            (real, "branch_scale skip_scale linear_scale linear_in_gpk linear_in_ntk"),
            (real, "doubt_scale doubt_weight tied linear_share"),
            (np.int32, "slot step"),
        ),
        "Job": struct(
            (tables, "left right"),
            (pointer, "layers results doubt doubt_weights"),
            (np.int64, "rows columns above"),
            (trained, "trained"),
            (real, "opposite"),
            (np.int32, "n_slots depth features d segments inner outer first_offset offsets"),
            (np.int32, "blocks_per_pair teams_per_pair pairs_high pairs_wide blocks_wide"),
            (np.int32, "paired headroom grids head linear_box"),
        ),
    }


def address(array: Any) -> int:
    """Return where an array of CuPy begins in the device's memory. The caller keeps it alive."""
    return int(array.data.ptr)


class DeviceTables(NamedTuple):
    """`SignalTables` as the kernels read them (rows.h).

    The thread of a segment reads the same register of the same layer as its neighbours, from
    neighbouring addresses.
    """

    roots: Array  # (cases, layers, registers · segments, 2): √(2q), or √(q/2) on the right; 1/√q.
    units: Array  # (cases, features, registers · segments): unit vectors.
    bounds: Array  # (kinds · depths asked for, cases), float64: bounds on √kernel.
    means: Array  # (channels, cases), as in `SignalTables`.
    scale: Array  # (cases,), as in `SignalTables`.

    @property
    def record(self) -> tuple[int, ...]:
        """The fields of the struct."""
        return *map(address, (self.roots, self.units, self.bounds)), len(self.scale)


def pack(xp: Any, tables: SignalTables, plan: LaunchPlan, *, right: bool = False) -> DeviceTables:
    """Pack the tables of some signals for the left or the right side of pairs.

    A right signal's rows begin at any pixel, so its segments have twice the registers. Array
    operations take all signals and layers at once.
    """
    d, registers = tables.layers.shape[2], np.arange((1 + right) * plan.pixels)
    segment, whole = np.arange(plan.segments), d - plan.segments * (plan.pixels - 1)
    begin = segment * (plan.pixels - 1) + np.minimum(segment, whole)  # as in windows.h
    order = xp.asarray(((begin + registers[:, None]) % d).ravel())  # pixel of (register, segment)
    # (root or inverse, layer, pixel, case)
    roots = xp.take(tables.layers[:2], order, axis=2).transpose(3, 1, 2, 0)
    roots = xp.ascontiguousarray(roots)
    if not right:
        roots[..., 0] *= 2.0
    bounds = tables.bounds.reshape(-1, len(tables.scale))
    units = xp.ascontiguousarray(xp.take(tables.unit_vectors, order, axis=1).transpose(2, 0, 1))
    return DeviceTables(roots, units, bounds, tables.means, tables.scale)
