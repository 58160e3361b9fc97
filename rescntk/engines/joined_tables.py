"""Tables of signals of different lengths: the pixels of the signals follow one another.

A tile gathers the pixels of its rows from them (`geometry.Rows.pixels`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ..activations import Pixels
from ..arrays import Array, array_module
from .deficits import Merge, RootMasses, Step
from .signal_tables import SignalTables
from .tile import Axes


class JoinedTables(NamedTuple):
    """Tables of signals of any lengths: the pixels of the signals follow one another."""

    tables: SignalTables
    """Tables of pixels are (…, pixels), tables of signals (…, cases)."""

    lengths: np.ndarray
    """(cases,)."""

    @property
    def ends(self) -> np.ndarray:
        """(cases + 1,), the places of the signals' first pixels, and the number of pixels."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def cases(self, cases: slice) -> JoinedTables:
        """Return the tables of some consecutive signals."""
        ends = self.ends
        pixels = slice(int(ends[cases.start]), int(ends[cases.stop]))
        selected = _map_tables(
            self.tables, lambda table: table[..., pixels], lambda table: table[..., cases]
        )
        return JoinedTables(selected, self.lengths[cases])

    def of_one_length(self) -> SignalTables:
        """Return the tables (…, d, cases) of signals that all have the length d."""
        d = int(self.lengths[0])

        def apart(table: Array) -> Array:
            parts: Array = table.reshape(*table.shape[:-1], -1, d).swapaxes(-1, -2)
            return parts

        return _map_tables(self.tables, apart, lambda table: table)


def join(parts: Sequence[SignalTables]) -> JoinedTables:
    """Return the joined tables of several groups of signals, each of one length."""
    lengths = [part.unit_vectors.shape[1] for part in parts]
    counts = [len(part.scale) for part in parts]

    xp = array_module(parts[0].scale)

    def flat(table: Array) -> Array:
        line: Array = table.swapaxes(-1, -2).reshape(*table.shape[:-2], -1)
        return line

    joined = _combine(
        parts,
        lambda tables: xp.concatenate([flat(table) for table in tables], axis=-1),
        lambda tables: xp.concatenate(tables, axis=-1),
    )
    return JoinedTables(joined, np.repeat(lengths, counts))


class JoinedMasses:
    """The root masses of right signals of several lengths: see `RootMasses`."""

    def __init__(self, xp: ModuleType, parts: list[RootMasses], axes: Axes) -> None:
        self._xp, self._parts, self._axes = xp, parts, axes

    def features(self, layer: int) -> Array:
        """Return the root masses of the features after a layer."""
        return self._join([part.features(layer) for part in self._parts])

    def skip(self, layer: int) -> Merge:
        """Return the merge of the identity path with the branch, before and after a layer."""
        return self._merge([part.skip(layer) for part in self._parts])

    def inner_window(self, layer: int) -> Iterator[Step]:
        """Yield the merges of the inner filter's window of features before a layer."""
        return self._steps([part.inner_window(layer) for part in self._parts])

    def outer_window(self, layer: int) -> Iterator[Step]:
        """Yield the merges of the outer filter's window of K of a layer."""
        return self._steps([part.outer_window(layer) for part in self._parts])

    def _steps(self, parts: list[Iterator[Step]]) -> Iterator[Step]:
        for steps in zip(*parts, strict=True):
            masses = self._merge([step.masses for step in steps])
            yield steps[0]._replace(masses=masses)

    def _merge(self, merges: list[Merge]) -> Merge:
        return Merge(*(self._join(list(roots)) for roots in zip(*merges, strict=True)))

    def _join(self, tables: list[Array]) -> Array:
        """Return tables (d', cases) of several lengths, with the axes of the tile."""
        flat = [table.swapaxes(0, 1).reshape(-1) for table in tables]
        return self._axes(self._xp.concatenate(flat))


def _map_tables(tables: SignalTables, pixels: Axes, cases: Axes) -> SignalTables:
    """Return tables with functions applied to tables of pixels, and to tables of signals."""
    return _combine([tables], lambda parts: pixels(parts[0]), lambda parts: cases(parts[0]))


def _combine(
    parts: Sequence[SignalTables],
    pixels: Callable[[list[Array]], Array],
    cases: Callable[[list[Array]], Array],
) -> SignalTables:
    """Return tables made of the tables of pixels, and of the tables of signals, of all parts."""
    xp = array_module(parts[0].scale)

    def bound(part: SignalTables, key: tuple[str, int]) -> Array:
        value = part.bounds[key]
        return xp.full(len(part.scale), value) if isinstance(value, float) else value

    def layer(number: int) -> Pixels:
        several = [part.layers[number] for part in parts]
        extra = zip(*(table.extra for table in several), strict=True)
        return Pixels(
            pixels([table.half_root for table in several]),
            pixels([table.inverse for table in several]),
            tuple(pixels(list(tables)) for tables in extra),
        )

    first = parts[0]
    exponents = zip(*(part.tangent_exponents for part in parts), strict=True)
    amplifications = [part.amplification for part in parts if part.amplification is not None]
    vectors = [part.vectors for part in parts if part.vectors is not None]
    return SignalTables(
        unit_vectors=pixels([part.unit_vectors for part in parts]),
        layers=[layer(number) for number in range(len(first.layers))],
        peaks=[],
        bounds={key: cases([bound(part, key) for part in parts]) for key in first.bounds},
        means=cases([part.means for part in parts]),
        scale=cases([part.scale for part in parts]),
        tangent_exponents=[cases(list(tables)) for tables in exponents],
        sizes={key: cases([part.sizes[key] for part in parts]) for key in first.sizes},
        amplification=cases(amplifications) if amplifications else None,
        vectors=pixels(vectors) if vectors else None,
    )
