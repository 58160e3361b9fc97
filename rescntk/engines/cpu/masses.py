"""`mass_tables`: the tables that the recursion of deficits reads (deficits.py)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...arrays import Array
from ..geometry import on_ring
from ..scaling import Scaling
from ..signal_tables import SignalTables, wrap
from .arguments import FlatTables
from .sums import piece_levels, widest_piece


def mass_tables(scaling: Scaling, tables: SignalTables, variance: Array) -> FlatTables:
    """Return the tables of signals of one length, with pixels repeated for all offsets.

    Arrays are (table, pixels of all cases). `variance` is F⁰ at x = z, j = j', (d, cases).
    """
    net, offsets = scaling.network, scaling.offsets
    wrapped = tables.wrapped(offsets)
    layers = list(scaling.variances(np, variance, with_tangent=False))

    def flat(tables: Iterable[Array]) -> np.ndarray:
        """Return tables (pixel, case) as one array (table, pixels): see `FlatTables`."""
        stacked = np.array([*tables], scaling.dtype)
        if scaling.request_head in ("gap", "pixels") and stacked.size:
            stacked = stacked.swapaxes(-1, -2)
        return stacked.reshape(len(stacked), -1) if stacked.size else stacked.reshape(0, 0)

    def roots(masses: Iterable[Array]) -> np.ndarray:
        return flat(wrap(np.sqrt(0.5 * mass), offsets) for mass in masses)

    d = scaling.d
    inner = [on_ring(net.inner_filter(layer), d) for layer in range(2, len(layers))]
    outer = [on_ring(net.outer_filter(layer), d) for layer in range(1, len(layers))]
    return FlatTables(
        units=flat(wrapped.unit_vectors),
        half_root=flat(layer.half_root for layer in wrapped.layers),
        inverse=flat(layer.inverse for layer in wrapped.layers),
        features=roots(at.features for at in layers),
        inner_pieces=roots(
            piece
            for at, taps in zip(layers[1:-1], inner, strict=True)
            for piece in pieces(at.features, *taps)
        ),
        outer_pieces=roots(
            piece
            for at, taps in zip(layers[1:], outer, strict=True)
            for piece in pieces(at.window, *taps)
        ),
    )


def join_masses(parts: Sequence[FlatTables]) -> FlatTables:
    """Join the tables of signals of each length to flat tables of all signals."""

    def join(tables: Sequence[np.ndarray]) -> np.ndarray:
        return np.ascontiguousarray(np.concatenate(tables, axis=1)).ravel()

    return FlatTables(*(join(tables) for tables in zip(*parts, strict=True)))


def pieces(mass: Array, size: int, step: int = 1) -> list[np.ndarray]:
    """Return the sums of `mass`, (d, cases), over the pieces of windows of `size` taps.

    Taps are `step` pixels apart.
    They are the pieces of `sums.moving_sum`, in its order; each lies at its first pixel.
    """
    if size == 1:
        return []

    def after(table: np.ndarray, taps: int) -> np.ndarray:
        """Return a table (pixel, case) at the pixel that lies some taps on."""
        return np.roll(table, -taps * step, axis=0)

    levels, width = [np.asarray(mass)], 1
    for _ in range(piece_levels.py_func(size)):
        last = levels[-1]
        levels.append(last + (after(last, width) + after(last, 2 * width)))
        width *= 3
    window, found = levels[-1], levels[1:]
    while True:
        level, second = widest_piece.py_func(size - width - 1)
        last_level, third = widest_piece.py_func(size - width - second)
        if width + second + third == size:
            return found
        last = after(levels[last_level], width + second)
        window = window + (after(levels[level], width) + last)
        width += second + third
        found = [*found, window]
