"""Tables of signals in the order in which the kernels read them.

The array code of all engines (signal_tables.py) makes the tables on the device. Packing copies
them to (case, layer, register, segment): the thread of a segment reads the same register of
the same layer as its neighbours, from neighbouring addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays import Array
from ...vocabulary import KINDS
from ..signal_tables import SignalTables
from .launch import Launch
from .records import address


@dataclass(frozen=True)
class Side:
    """The role of signals in a pair.

    Attributes
    ----------
    copies : int
        A right signal's rows begin at any pixel, so its segments have twice the registers.
    root_scale : float
        The kernels read √(2q) of a left and √(q/2) of a right signal: 2 or 1 times √(q/2).
    """

    copies: int
    root_scale: float

    def registers(self, launch: Launch) -> int:
        """Return the registers of a segment."""
        return self.copies * launch.pixels


LEFT, RIGHT = Side(1, 2.0), Side(2, 1.0)


@dataclass(frozen=True)
class PackedTables:
    """`SignalTables` as the kernels read them: `PackedTables` in rows.h.

    Attributes
    ----------
    roots : array, (cases, layers, registers * segments, 2)
        √(2q) or √(q/2) (`Side.root_scale`), and 1/√q.
    units : array, (cases, features, registers * segments)
        Unit vectors.
    bounds : array, (kinds * depths, cases), float64
        Bounds on √kernel as in `SignalTables`, at the depths asked for.
    means : array, (channels, cases), float64
        Means of the channels as in `SignalTables`.
    scale : array, (cases,), float64
        Number by which each signal was divided.
    """

    roots: Array
    units: Array
    bounds: Array
    means: Array
    scale: Array

    @property
    def record(self) -> tuple[int, ...]:
        """The fields of `PackedTables` in rows.h."""
        arrays = (self.roots, self.units, self.bounds)
        return *map(address, arrays), len(self.scale)


def segment_order(launch: Launch, d: int, registers: int) -> np.ndarray:
    """Return the pixel of each (register, segment), flat: begin(segment) + register, mod d."""
    begin = np.arange(launch.segments) * d // launch.segments
    return ((begin + np.arange(registers)[:, None]) % d).ravel()


def pack(
    xp: Any, tables: SignalTables, launch: Launch, side: Side, depths: tuple[int, ...]
) -> PackedTables:
    """Pack the tables of some signals for one side.

    Array operations take all signals and layers at once; only the bounds take an operation for
    each depth that is asked for.
    """
    cases, d, layers = len(tables.scale), tables.unit_vectors.shape[1], tables.layers
    order = xp.asarray(segment_order(launch, d, side.registers(launch)))
    roots = xp.empty((cases, len(layers), len(order), 2), dtype=tables.unit_vectors.dtype)
    for k, table in enumerate(([p.half_root for p in layers], [p.inverse for p in layers])):
        roots[..., k] = xp.take(xp.stack(table), order, axis=1).transpose(2, 0, 1)
    if side.root_scale != 1.0:
        roots[..., 0] *= side.root_scale
    bounds = xp.empty((len(KINDS) * len(depths), cases))
    for k, key in enumerate((kind, depth) for kind in KINDS for depth in depths):
        bounds[k] = tables.bounds[key]
    units = xp.take(tables.unit_vectors, order, axis=1).transpose(2, 0, 1)
    return PackedTables(
        roots=roots,
        units=xp.ascontiguousarray(units),
        bounds=bounds,
        means=tables.means,
        scale=tables.scale,
    )


def bytes_of_side(tables_per_pixel: int, launch: Launch, side: Side, itemsize: int) -> int:
    """Return the memory of one signal's packed tables, in bytes."""
    return side.registers(launch) * launch.segments * itemsize * tables_per_pixel
