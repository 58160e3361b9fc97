"""The kernels' one argument, as NumPy records of the same layout as the structs of rows.h.

CuPy passes a NumPy array of one record by value ("Custom user types" in CuPy's user guide). A test
compares sizes and offsets with the C++ compiler's and NVRTC's.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

POINTER = np.uint64


@functools.cache
def packed_tables() -> np.dtype[Any]:
    """Return the layout of `PackedTables`."""
    pointers = [(name, POINTER) for name in ("roots", "units", "bounds")]
    return np.dtype([*pointers, ("cases", np.int64)], align=True)


@functools.cache
def trained(real: np.dtype[Any]) -> np.dtype[Any]:
    """Return the layout of `Trained<real>`."""
    names = ("initial", "inner_minus_readout", "outer_plus_readout")
    return np.dtype([(name, real) for name in names], align=True)


@functools.cache
def layer(real: np.dtype[Any]) -> np.dtype[Any]:
    """Return the layout of `Layer<real>`."""
    names = ("branch_scale", "skip_scale", "linear_scale", "doubt_scale", "doubt_weight")
    return np.dtype([(name, real) for name in names], align=True)


@functools.cache
def job(real: np.dtype[Any]) -> np.dtype[Any]:
    """Return the layout of `Job<real>`."""
    integers = (
        "n_slots depth features d segments inner outer offsets "
        "teams_per_pair pairs_high pairs_per_block diagonal headroom grids head linear_apart"
    )
    return np.dtype(
        [
            ("left", packed_tables()),
            ("right", packed_tables()),
            *[
                (name, POINTER)
                for name in ("layers", "slots", "steps", "results", "doubt", "doubt_weights")
            ],
            *[(name, np.int64) for name in ("rows", "columns", "above")],
            ("trained", trained(real)),
            ("opposite", real),
            ("features_scale", real),
            *[(name, np.int32) for name in integers.split()],
        ],
        align=True,
    )


def record(layout: np.dtype[Any], **fields: Any) -> np.ndarray:
    """Return an array of one record, (1,), with every field of its layout set by name.

    Raises
    ------
    TypeError
        If a field is missing or unknown.
    """
    if set(fields) != set(layout.names or ()):
        raise TypeError(f"record has the fields {sorted(fields)}, expected {layout.names}")
    made = np.zeros(1, layout)
    for name, value in fields.items():
        made[name] = value
    return made


def address(array: Any) -> int:
    """Return where an array of CuPy begins in the device's memory. The caller keeps it alive."""
    return int(array.data.ptr)
