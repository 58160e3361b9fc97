"""The tables of one side's signals, in the layouts of the compiled loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from threading import RLock

import numpy as np

from ...arrays import Array, Batch, SignalList
from ..geometry import first_places, numbered, on_ring
from ..scaling import Scaling
from ..signal_tables import SignalTables, read_input, signal_tables
from .arguments import FlatTables, LeftCases, RowPlaces
from .plan import Plan
from .sums import filter_sum

Layout = Callable[[np.ndarray], np.ndarray]


class OrderedSignals:
    """Signals of X or of Z, from the longest to the shortest, equal lengths together.

    Attributes
    ----------
    order : array (cases,), int
        Their places in the batch.
    lengths : array (cases,), int
    scale : array (cases,)
        The numbers by which signals were divided, in the order of the batch.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.scale: Array = np.empty(len(batch))
        if isinstance(batch, SignalList):
            self.order = batch.order
            self.lengths = batch.lengths[self.order]
        else:
            self.order = np.arange(len(batch))
            self.lengths = np.full(len(batch), batch.shape[2])

    def __len__(self) -> int:
        return len(self.order)

    def of_each_length(self, cases: slice) -> list[Array]:
        """Return some of the signals: an array (cases, channels, d) for each length."""
        if isinstance(self._batch, SignalList):
            return [run.signals for run in self._batch[self.order[cases]].runs()]
        return [self._batch[cases]]


class SignalBlock:
    """Consecutive signals with their tables, which are made when they are first asked for.

    Parameters
    ----------
    plan : Plan
    signals : OrderedSignals
        All signals of the side.
    cases : slice
        The places of the block among them.
    tables : list of SignalTables, optional
        The tables of each length, if they are known.
    """

    def __init__(
        self,
        plan: Plan,
        signals: OrderedSignals,
        cases: slice,
        tables: list[SignalTables] | None = None,
    ) -> None:
        self.cases, self._plan, self._signals, self._lock = cases, plan, signals, RLock()
        self.lengths, self.places = signals.lengths[cases], signals.order[cases]
        self.offsets = plan.offsets(self.lengths)
        self._tables = tables
        self._made: dict[str, FlatTables] = {}

    def __len__(self) -> int:
        return len(self.lengths)

    def contains(self, cases: slice) -> bool:
        return self.cases.start <= cases.start and cases.stop <= self.cases.stop

    def part(self, cases: slice) -> Part:
        """Return some of the cases, by their places among all signals of the side.

        Cases of one length become a block, which takes a part of known tables or makes its own.
        """
        start, stop = cases.start - self.cases.start, cases.stop - self.cases.start
        if not self._plan.closed or cases == self.cases:
            return Part(self, start, stop)
        known = self._tables and [self._tables[0].cases(slice(start, stop))]
        return Part(SignalBlock(self._plan, self._signals, cases, known), 0, stop - start)

    def made(self) -> SignalBlock:
        """Return the block after its tables are made, of which parts then take theirs."""
        _ = self.tables
        return self

    @cached_property
    def _each_length(self) -> list[tuple[Scaling, Array]]:
        signals = self._signals.of_each_length(self.cases)
        return [(self._plan.scaling(some.shape[2]), some) for some in signals]

    @property
    def tables(self) -> list[SignalTables]:
        """The tables of each length, without unit vectors of windows that are not read."""
        with self._lock:
            if self._tables is None:
                windows = self._plan.window == 0
                made = [signal_tables(*both, windows=windows) for both in self._each_length]
                self._signals.scale[self.places] = np.concatenate([each.scale for each in made])
                self._tables = made
            return self._tables

    @cached_property
    def means(self) -> Array:
        """(channels, cases), the means of `SignalTables.means`."""
        return np.concatenate([each.means for each in self.tables], axis=1)

    @cached_property
    def left_cases(self) -> LeftCases:
        """The places of the cases in the left tables; lengths are numbered from the longest."""
        pixels = self.lengths + 2 * self._plan.margin
        length = np.cumsum(np.diff(self.lengths, prepend=self.lengths[0]) != 0)
        return LeftCases(first_places(pixels), pixels, length)

    def rows(
        self, cases: np.ndarray, counts: np.ndarray, group_rows: int, right: bool = True
    ) -> RowPlaces:
        """Return rows of some cases, `counts` for each, in the right tables or those of masses.

        Rows on the left side have the offset 0.
        """
        row_case, offset = numbered(counts)
        number = len(row_case)
        filled = np.minimum(np.arange(-(-number // group_rows) * group_rows), number - 1)
        row_case, offset = row_case[filled], offset[filled] * right
        if self._plan.all_offsets:
            begins, stride = first_places(self.lengths + self.offsets - 1), 1
        else:  # cases lie side by side
            begins, stride = np.arange(len(self)), len(self)
        places = cases[row_case]
        lengths = self.lengths[places]
        first = (offset - self._plan.margin) % lengths
        return RowPlaces(number, row_case, begins[places], first, lengths, stride)

    @property
    def left(self) -> FlatTables:
        """The left tables. Open rows have the pixels of the margin too."""
        return self._once("left", lambda: self._pack(self._left_layout))

    @property
    def right(self) -> FlatTables:
        """The right tables, with the pixels that all offsets meet."""
        return self._once("right", lambda: self._pack(self._right_layout))

    @property
    def masses(self) -> FlatTables:
        """The tables for the recursion of deficits, laid out like the right ones."""
        return self._once("masses", self._pack_masses)

    def _once(self, name: str, make: Callable[[], FlatTables]) -> FlatTables:
        """Return tables that the first thread to ask for them makes."""
        with self._lock:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]

    def _left_layout(self, table: np.ndarray) -> np.ndarray:
        margin, d = self._plan.margin, table.shape[1]
        by_case = table.transpose(2, 0, 1)
        if margin:
            by_case = by_case[..., np.arange(-margin, d + margin) % d]
        return by_case.ravel()

    def _right_layout(self, table: np.ndarray) -> np.ndarray:
        if self._plan.all_offsets:
            d = table.shape[1]
            table = table[:, np.arange(2 * d - 1) % d].swapaxes(1, 2)
        return table.reshape(len(table), table.shape[1] * table.shape[2])

    def _pack(self, layout: Layout) -> FlatTables:
        units = [
            self._window_vectors(*both, tables) if self._plan.window else tables.unit_vectors
            for both, tables in zip(self._each_length, self.tables, strict=True)
        ]
        return self._flat_tables(layout, units)

    def _pack_masses(self) -> FlatTables:
        parts = []
        for scaling, signals in self._each_length:
            pixels, net, d = read_input(scaling, signals), scaling.network, scaling.d
            layers = list(scaling.variances(np, pixels.variance, with_tangent=False))
            inner = [
                piece
                for number, before in enumerate(layers[1:-1], start=2)
                for piece in pieces(before.features, *on_ring(net.inner_filter(number), d))
            ]
            outer = [
                piece
                for number, at in enumerate(layers[1:], start=1)
                for piece in pieces(at.window, *on_ring(net.outer_filter(number), d))
            ]
            shape = -1, d, len(signals)
            masses = [at.features for at in layers], inner, outer
            roots = [np.sqrt(0.5 * np.array(of).reshape(shape)) for of in masses]
            parts.append((pixels.unit_vectors, *roots))
        return self._flat_tables(self._right_layout, *zip(*parts, strict=True))

    def _flat_tables(
        self, layout: Layout, units: Sequence[Array], *masses: Sequence[Array]
    ) -> FlatTables:
        """Return tables (table, pixel, case) of each length as flat arrays."""
        dtype = self._plan.dtype

        def join(parts: Sequence[Array]) -> np.ndarray:
            arrays = [layout(np.asarray(part, dtype)) for part in parts]
            joined = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-1)
            return np.ascontiguousarray(joined).ravel()

        half_root, inverse = (join([each.layers[k] for each in self.tables]) for k in range(2))
        of_masses = [join(parts) for parts in masses] or [np.empty(0, dtype)] * 3
        return FlatTables(join(units), half_root, inverse, *of_masses)

    def _window_vectors(self, scaling: Scaling, signals: Array, tables: SignalTables) -> Array:
        """Return pixels' vectors, whose half squared distances are summed over a window."""
        factor = np.sqrt(0.5 * scaling.input_scale / self._plan.window)
        scale = np.asarray(tables.scale)
        divisors = np.where((scale > 0) & np.isfinite(scale), scale, np.inf)
        vectors = np.asarray(signals, np.float64).transpose(1, 2, 0) / divisors
        return np.asarray(vectors * factor)


class Part:
    """Some cases of a block, from the place `start` to `stop` in it.

    Attributes
    ----------
    here, cases : slice
        Their places in the block, and among all signals of the side.
    places : array (cases,), int
        Their places in the batch.
    lengths, offsets : array (cases,), int
        Lengths, and rows of pairs with the cases on the right.
    """

    def __init__(self, block: SignalBlock, start: int, stop: int) -> None:
        self.block, self.start, self.here = block, start, slice(start, stop)
        self.cases = slice(block.cases.start + start, block.cases.start + stop)
        self.places, self.lengths = block.places[self.here], block.lengths[self.here]
        self.offsets = block.offsets[self.here]

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def means(self) -> Array:
        return self.block.means[:, self.here]

    @property
    def left_cases(self) -> LeftCases:
        """Where the cases lie in the left tables; lengths are counted from the first one."""
        first, pixels, length = (table[self.here] for table in self.block.left_cases)
        return LeftCases(first, pixels, length - length[0])


def pieces(mass: Array, size: int, step: int = 1) -> list[np.ndarray]:
    """Return the sums of `mass`, (d, cases), over the pieces of a filter (`sums.filter_sum`).

    Taps are `step` pixels apart. Each piece lies at its first pixel.
    """
    window = filter_sum(size)
    found = [np.asarray(mass)]
    for second, second_tap, third, third_tap, _ in window.steps[: window.pieces].tolist():
        parts = (found[second], second_tap), (found[third], third_tap)
        one, other = (np.roll(part, -tap * step, axis=0) for part, tap in parts)
        found.append(found[-1] + (one + other))
    return found[1:]
