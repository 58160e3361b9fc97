"""`SortedSignals`: one side of a Gram, from the longest signal to the shortest, with its tables.

A tile gathers the pixels of its rows from tables in which the signals' pixels follow one another
(`geometry.Rows.pixels`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..activations import Pixels
from ..arrays import Array, Batch, Run, SignalList, array_module
from .scaling import Scaling
from .signal_tables import Input, SignalTables, read_input, signal_tables


class Scalings(Protocol):
    """Gives the constants of the layers for signals of a length."""

    def __call__(self, length: int, /) -> Scaling: ...


class JoinedTables(NamedTuple):
    """Tables of signals of any lengths: the pixels of the signals follow one another."""

    tables: SignalTables
    """Tables of pixels are (…, pixels), tables of signals (…, cases)."""

    lengths: np.ndarray
    """(cases,)."""

    def cases(self, cases: slice) -> JoinedTables:
        """Return the tables of some consecutive signals."""
        ends = np.concatenate([[0], np.cumsum(self.lengths)])
        pixels = slice(int(ends[cases.start]), int(ends[cases.stop]))
        selected = self.tables.mapped(
            lambda table: table[..., pixels], lambda table: table[..., cases]
        )
        return JoinedTables(selected, self.lengths[cases])

    def of_one_length(self) -> SignalTables:
        """Return the tables (…, d, cases) of signals that all have the length d."""
        d = int(self.lengths[0])

        def apart(table: Array) -> Array:
            parts: Array = table.reshape(*table.shape[:-1], -1, d).swapaxes(-1, -2)
            return parts

        return self.tables.mapped(apart, lambda table: table)


class SortedSignals:
    """Signals from the longest to the shortest, equal lengths together.

    Attributes
    ----------
    order : array, (cases,), int
        The signals' places in the batch.
    lengths : array, (cases,), int
    scale, exponents : array, (cases,) and (depths, cases)
        The scale and the tangents' exponents of each signal, by its place in the batch; known
        where tables were made.
    """

    def __init__(self, signals: Batch, scaling: Scalings, depths: tuple[int, ...]) -> None:
        if isinstance(signals, SignalList):
            self.order, self._runs, xp = signals.order, signals.runs(), signals.xp
        else:
            self.order, self._runs = np.arange(len(signals)), [Run(0, signals)]
            xp = array_module(signals)
        self.lengths = np.repeat(
            [run.length for run in self._runs], [len(run.signals) for run in self._runs]
        )
        self._scaling, self._depths, self._xp = scaling, depths, xp
        self.scale = xp.empty(len(self.order))
        self.exponents = xp.zeros((len(depths), len(self.order)), dtype=np.int64)

    def tables(self, cases: np.ndarray) -> JoinedTables:
        """Return the tables of signals by their places (`_parts`)."""
        joined = join([signal_tables(*part) for part in self._parts(cases)])
        here = self._xp.asarray(self.order[cases])
        self.scale[here] = joined.tables.scale
        joined.tables.write_exponents(self._depths, self.exponents, here)
        return joined

    def inputs(self, cases: np.ndarray) -> list[tuple[Scaling, Input]]:
        """Return the input's pixels of the signals of each length (`_parts`)."""
        return [(scaling, read_input(scaling, some)) for scaling, some in self._parts(cases)]

    def _parts(self, cases: np.ndarray) -> Iterator[tuple[Scaling, Array]]:
        """Yield the signals of each length, of the places `cases`: the longest come first."""
        for run in self._runs:
            inside = cases[(cases >= run.start) & (cases < run.stop)] - run.start
            if len(inside):
                consecutive = bool((np.diff(inside) == 1).all())
                some = slice(int(inside[0]), int(inside[-1]) + 1)
                signals = run.signals[some if consecutive else self._xp.asarray(inside)]
                yield self._scaling(run.length), signals


def join(parts: Sequence[SignalTables]) -> JoinedTables:
    """Return the joined tables of several groups of signals, each of one length."""
    lengths = [part.unit_vectors.shape[1] for part in parts]
    xp = array_module(parts[0].scale)

    def flat(table: Array) -> Array:
        line: Array = table.swapaxes(-1, -2).reshape(*table.shape[:-2], -1)
        return line

    def joined(tables: Iterable[Array | float]) -> Array:
        """Return tables of signals one after the other; a number stands for equal numbers."""
        arrays = [
            xp.full(len(part.scale), table) if isinstance(table, float) else table
            for part, table in zip(parts, tables, strict=True)
        ]
        whole: Array = xp.concatenate(arrays, axis=-1)
        return whole

    flats = [part.mapped(flat, lambda table: table) for part in parts]
    first = flats[0]
    amplifications = [part.amplification for part in flats if part.amplification is not None]
    vectors = [part.vectors for part in flats if part.vectors is not None]
    tables = SignalTables(
        unit_vectors=joined(part.unit_vectors for part in flats),
        layers=[
            _join_pixels(joined, tables) for tables in zip(*(p.layers for p in flats), strict=True)
        ],
        bounds={key: joined(part.bounds[key] for part in flats) for key in first.bounds},
        means=joined(part.means for part in flats),
        scale=joined(part.scale for part in flats),
        tangent_exponents=[
            joined(tables) for tables in zip(*(p.tangent_exponents for p in flats), strict=True)
        ],
        sizes={key: joined(part.sizes[key] for part in flats) for key in first.sizes},
        amplification=joined(amplifications) if amplifications else None,
        vectors=joined(vectors) if vectors else None,
    )
    return JoinedTables(tables, np.repeat(lengths, [len(part.scale) for part in parts]))


def _join_pixels(joined: Callable[[Iterable[Array]], Array], tables: Sequence[Pixels]) -> Pixels:
    extra = zip(*(table.extra for table in tables), strict=True)
    return Pixels(
        joined(table.half_root for table in tables),
        joined(table.inverse for table in tables),
        tuple(joined(several) for several in extra),
    )
