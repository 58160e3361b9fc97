"""`Cases`: consecutive signals of a batch, with their tables in the layouts of the compiled loops.

A batch is an array, or a list from the longest to the shortest signal. Equal lengths are together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...arrays import Array
from ..geometry import first_places, numbered
from ..scaling import Scaling
from ..signal_tables import SignalTables, read_input, signal_tables, wrap
from .arguments import FlatTables, LeftCases, RowPlaces
from .masses import join_masses, mass_tables

if TYPE_CHECKING:
    from .run import NumbaRun


class OneLength(NamedTuple):
    """Signals of one length, (cases, channels, d), with their tables."""

    scaling: Scaling
    signals: Array
    tables: SignalTables


class Cases:
    """The cases from `start` on of a batch: signals and tables.

    Parameters
    ----------
    run : NumbaRun
        The request.
    start : int
        The place of the first case in the batch.
    signals : sequence of arrays, each (cases, channels, d)
        The signals, an array for each length.
    tables : sequence of SignalTables, optional
        Their tables, if they are known.
    """

    def __init__(
        self,
        run: NumbaRun,
        start: int,
        signals: Sequence[Array],
        tables: Sequence[SignalTables] | None = None,
    ) -> None:
        self.start, self._run, self._lock = start, run, Lock()
        scalings = [run.scaling(some.shape[2]) for some in signals]
        if tables is None:  # unit vectors of windows are made where they are read alone
            windows = run.window == 0
            given = zip(scalings, signals, strict=True)
            tables = [signal_tables(scaling, some, windows=windows) for scaling, some in given]
        self.parts = [OneLength(*part) for part in zip(scalings, signals, tables, strict=True)]
        counts = [len(some) for some in signals]
        self.lengths = np.repeat([part.scaling.d for part in self.parts], counts)
        self.offsets = np.repeat([part.scaling.offsets for part in self.parts], counts)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def stop(self) -> int:
        """The case of the batch behind the last one."""
        return self.start + len(self)

    @cached_property
    def scale(self) -> Array:
        """(cases,), the numbers by which the signals were divided."""
        return np.concatenate([part.tables.scale for part in self.parts])

    @cached_property
    def means(self) -> Array:
        """(channels, cases), the means of `SignalTables.means`."""
        return np.concatenate([part.tables.means for part in self.parts], axis=1)

    @cached_property
    def left(self) -> FlatTables:
        """The left tables. Open rows have the pixels of the margin too."""
        margin = self._run.margin

        def arrange(table: np.ndarray) -> np.ndarray:
            by_case = table.transpose(2, 0, 1)
            if margin:
                d = table.shape[1]
                by_case = by_case[..., np.arange(-margin, d + margin) % d]
            return by_case.ravel()

        return self._pack(arrange, 0)

    @cached_property
    def left_cases(self) -> LeftCases:
        """The places of the cases in the left tables; lengths are numbered from the longest."""
        pixels = self.lengths + 2 * self._run.margin
        length = np.cumsum(np.diff(self.lengths, prepend=self.lengths[0]) != 0)
        return LeftCases(first_places(pixels), pixels, length)

    @cached_property
    def right(self) -> FlatTables:
        """The right tables, with the pixels that all offsets meet."""

        def arrange(table: np.ndarray) -> np.ndarray:
            offsets = self._run.scaling(table.shape[1]).offsets
            flat = wrap(table, offsets).swapaxes(1, 2)
            return flat.reshape(len(table), -1)

        return self._pack(arrange, 1)

    def rows(self, cases: np.ndarray, offsets: np.ndarray, group_rows: int) -> RowPlaces:
        """Return the rows of some cases in the right tables, `offsets` for each."""
        return self._rows(cases, offsets, group_rows, self._begins(self.offsets), 1)

    def rows_of_masses(
        self, cases: np.ndarray, offsets: np.ndarray, group_rows: int, right: bool
    ) -> RowPlaces:
        """Return the rows of some cases in the tables of root masses; left rows have offset 0."""
        if self._run.all_offsets:
            begins, stride = self._begins(self.offsets), 1
        else:  # cases lie side by side
            begins, stride = np.arange(len(self)), len(self)
        return self._rows(cases, offsets, group_rows, begins, stride, right)

    def _rows(
        self,
        cases: np.ndarray,
        offsets: np.ndarray,
        group_rows: int,
        begins: np.ndarray,
        stride: int,
        right: bool = True,
    ) -> RowPlaces:
        place, offset = numbered(offsets)
        number = len(place)
        filled = np.minimum(np.arange(-(-number // group_rows) * group_rows), number - 1)
        place, offset = place[filled], offset[filled] * right
        lengths = self.lengths[cases[place]]
        first = (offset - self._run.margin) % lengths
        return RowPlaces(number, place, begins[cases[place]], first, lengths, stride)

    @property
    def masses(self) -> FlatTables:
        """The tables for the recursion of deficits, of all windows; made when first asked for."""
        with self._lock:
            return self._masses

    @cached_property
    def _masses(self) -> FlatTables:
        return join_masses([self._mass_tables(part) for part in self.parts])

    def _mass_tables(self, part: OneLength) -> FlatTables:
        given = read_input(part.scaling, part.signals)
        tables = replace(part.tables, unit_vectors=given.unit_vectors)
        return mass_tables(part.scaling, tables, given.variance)

    def _begins(self, offsets: np.ndarray) -> np.ndarray:
        """Return where cases begin in tables of pixels repeated for all offsets."""
        return first_places(self.lengths + offsets - 1)

    def _pack(self, arrange: Callable[[np.ndarray], np.ndarray], axis: int) -> FlatTables:
        """Arrange tables (table, pixel, case) of each length, and join them along an axis."""
        dtype = self._run.request.dtype

        def join(parts: Sequence[Array]) -> np.ndarray:
            arrays = [arrange(np.asarray(part, dtype)) for part in parts]
            joined = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=axis)
            return np.ascontiguousarray(joined).ravel()

        layers = [part.tables.layers for part in self.parts]
        return FlatTables(
            units=join([self._pixel_vectors(part) for part in self.parts]),
            half_root=join([np.array([at.half_root for at in part], dtype) for part in layers]),
            inverse=join([np.array([at.inverse for at in part], dtype) for part in layers]),
            **dict.fromkeys(("features", "inner_pieces", "outer_pieces"), np.empty(0, dtype)),
        )

    def _pixel_vectors(self, part: OneLength) -> Array:
        """Return the vectors of the input's pixels that `FlatTables.units` holds.

        Unit vectors, or the pixels' vectors for sums of half their squared distances over a window.
        """
        window, tables = self._run.window, part.tables
        if window == 0:
            return tables.unit_vectors
        factor = np.sqrt(0.5 * part.scaling.input_scale / window)
        scale = np.asarray(tables.scale)
        divisors = np.where((scale > 0) & np.isfinite(scale), scale, np.inf)
        vectors = np.asarray(part.signals, np.float64).transpose(1, 2, 0) / divisors
        return np.asarray(vectors * factor)


class Part(NamedTuple):
    """Some of `cases`, from the place `start` to `stop` among them."""

    cases: Cases
    start: int
    stop: int

    @classmethod
    def whole(cls, cases: Cases) -> Part:
        """Return all of the cases."""
        return cls(cases, 0, len(cases))

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def here(self) -> slice:
        """The places among the cases."""
        return slice(self.start, self.stop)

    @property
    def batch(self) -> slice:
        """The places in the batch."""
        return slice(self.cases.start + self.start, self.cases.start + self.stop)

    @property
    def lengths(self) -> np.ndarray:
        """(cases,), the lengths of the signals."""
        return self.cases.lengths[self.here]

    @property
    def left_cases(self) -> LeftCases:
        """Where the cases lie in the left tables; lengths are counted from the first one."""
        first, pixels, length = (table[self.here] for table in self.cases.left_cases)
        return LeftCases(first, pixels, length - length[0])
