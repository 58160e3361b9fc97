"""`mass_tables`: the tables that the recursion of deficits reads (deficits.py)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...arrays import Array
from ..scaling import Scaling
from ..signal_tables import Input, wrap
from .records import MassTables, PackedTables
from .sums import piece_levels, widest_piece


def mass_tables(scaling: Scaling, flat: PackedTables, signals: Input, offsets: int) -> MassTables:
    """Return the tables of signals whose other tables are `flat`."""
    net = scaling.network
    layers = list(scaling.variances(np, signals.variance, with_tangent=False))

    def stack(masses: Iterable[Array]) -> np.ndarray:
        """Return √(mass/2) of tables (d, cases) as a flat table."""
        roots = [wrap(np.sqrt(0.5 * mass).astype(scaling.dtype), offsets).T for mass in masses]
        return np.ascontiguousarray(roots, scaling.dtype).ravel()

    inner, outer = net.filter_size, net.outer_filter_size
    return MassTables(
        flat.units,
        flat.half_root,
        flat.inverse,
        stack(at.features for at in layers),
        stack(piece for at in layers[1:-1] for piece in pieces(at.features, inner)),
        stack(piece for at in layers[1:] for piece in pieces(at.window, outer)),
    )


def pieces(mass: Array, size: int) -> list[np.ndarray]:
    """Return the sums of `mass`, (d, cases), over the pieces of windows of `size` pixels.

    They are the pieces of `sums.moving_sum`, in its order; each lies at its first pixel.
    """
    if size == 1:
        return []
    levels, width = [np.asarray(mass)], 1
    for _ in range(piece_levels.py_func(size)):
        last = levels[-1]
        levels.append(last + (np.roll(last, -width, axis=0) + np.roll(last, -2 * width, axis=0)))
        width *= 3
    window, found = levels[-1], levels[1:]
    while True:
        level, second = widest_piece.py_func(size - width - 1)
        last_level, third = widest_piece.py_func(size - width - second)
        if width + second + third == size:
            return found
        last = np.roll(levels[last_level], -(width + second), axis=0)
        window = window + (np.roll(levels[level], -width, axis=0) + last)
        width += second + third
        found = [*found, window]
