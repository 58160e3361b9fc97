"""The geometry of pixel pairs: tori, rows, and the seams where rows go on in one another.

Circular padding closes each signal to a ring. The pixel pairs (j, j') of a signal of d pixels
with a signal of d' pixels lie on the torus Z_d × Z_d'. A tap of a filter moves both pixels by
the same step, so that a window lies on a diagonal of the torus. *Rows* cut the torus along its
diagonals: ::

    row δ:   (j, (j + δ) mod d'),            j = 0 … d − 1;   δ = 0 … d' − 1
    seam:    (j + d, (j + d + δ) mod d') = (j, (j + (δ + s)) mod d'),   s = d mod d'

The second line says where row δ goes on after its last pixel: in the row whose offset is
further by the *seam* s. A halo is filled from there. A window that wraps around w times goes on
w·s further. Signals of equal length have s = 0: each row closes in itself. In general the torus
is gcd(d, d') closed rings of lcm(d, d') pixel pairs.
Several right signals lie side by side. `Rows` numbers the rows of all of them, with one length d
on the left.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ..arrays import Array, array_module
from ..network import Filter, Network
from .boxes import Seam, circular_sum, step_on_ring


def first_places(counts: np.ndarray) -> np.ndarray:
    """Return the place of the first of `counts` things of each case; cases follow one another."""
    return np.asarray(np.cumsum(counts) - counts)


def numbered(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the case and the number within the case of `counts` rows of each case."""
    case = np.repeat(np.arange(len(counts)), counts)
    return case, np.arange(len(case)) - first_places(counts)[case]


class Rows(NamedTuple):
    """Rows of left signals of one length with several right signals, side by side.

    The rows of a right signal follow one another, in the order of their offsets. In a tile rows
    have the axis 2: (pixel j, left case, row, 1).
    """

    left: int  # d, the length of the left signals.
    rights: np.ndarray  # (cases,), the lengths d' of the right signals.
    case: np.ndarray  # (rows,), the right signal of each row.
    offset: np.ndarray  # (rows,), the offset δ of each row.
    width: int = 1  # pixels of a line of images, whose offset (δ_y, δ_x) is δ_y·width + δ_x.

    @classmethod
    def of(
        cls, left: int, rights: Sequence[int] | np.ndarray, all_offsets: bool = True, width: int = 1
    ) -> Rows:
        """Return all rows of pairs of signals of these lengths, or only of offset 0."""
        lengths = np.asarray(rights, dtype=np.int64)
        counts = lengths if all_offsets else np.ones_like(lengths)
        return cls(left, lengths, *numbered(counts), width)

    @property
    def closed(self) -> bool:
        """True if every row closes in itself."""
        return bool((self.left % self.rights == 0).all())

    @property
    def pixel_pairs(self) -> np.ndarray:
        """(cases,), the number of pixel pairs of a left signal with each right signal."""
        return self.left * np.bincount(self.case, minlength=len(self.rights))

    def some(self, rows: slice) -> Rows:
        """Return some of the rows, which have to be closed; the right signals are the same."""
        return self._replace(case=self.case[rows], offset=self.offset[rows])

    def pixels(self, xp: ModuleType = np) -> Array:
        """Return the right pixel of each pixel pair, (d, rows), among all right signals' pixels."""
        length, first = self.rights[self.case], first_places(self.rights)[self.case]
        left, offset, width = xp.arange(self.left)[:, None], xp.asarray(self.offset), self.width
        line, pixel = left // width + offset // width, left % width + offset % width
        pixels: Array = line * width % xp.asarray(length) + pixel % width + xp.asarray(first)
        return pixels

    def seam(self, xp: ModuleType) -> Seam | None:
        """Return the seam of arrays of the module `xp`; None if rows are closed."""
        if self.closed:
            return None
        first, length = first_places(self.rights)[self.case], self.rights[self.case]
        after, before = ((self.offset + turn) % length for turn in (self.left, -self.left))
        return Seam(xp.asarray(first + after), xp.asarray(first + before), axis=2)

    def total(self, table: Array) -> Array:
        """Return sums over the rows of each right signal, (…, left, right case).

        `table` has the axes (…, left case, row, 1). A right signal without rows has 0.
        """
        xp = array_module(table)
        starts = np.flatnonzero(np.diff(self.case, prepend=-1))
        sums: Array = xp.zeros((*table.shape[:-2], len(self.rights)))
        present = xp.asarray(self.case[starts])
        sums[..., present] = xp.add.reduceat(table[..., 0], xp.asarray(starts), axis=table.ndim - 2)
        return sums

    def spread(self, table: Array) -> Array:
        """Return numbers of pairs of signals, (left case, right case), for each row."""
        return table[:, array_module(table).asarray(self.case), None]


def on_ring(window: Filter, length: int | None) -> Filter:
    """Return the filter with the same pixels on a closed ring, whose step is at most `length`.

    None stands for rows that go on in other rows.
    """
    return window if length is None else window._replace(step=step_on_ring(window.step, length))


_KEPT_REACHES = 256
"""The number of reaches that are kept between calls, each a single number. Raising it serves more
networks and lengths in turn."""


@lru_cache(maxsize=_KEPT_REACHES)
def longest_reach(network: Network, depth: int, ring: int | None = None) -> int:
    """Return the longest reach of a filter in layers 1 … `depth`, on a ring as in `on_ring`."""
    last = min(depth, 2) if isinstance(network.dilation, int) else depth  # layers 2 … L are alike
    return max(on_ring(window, ring).reach for window in network.replace(depth=last).filters())


@lru_cache(maxsize=_KEPT_REACHES)
def receptive_reach(network: Network, depth: int, ring: int | None = None) -> int:
    """Return the pixels on either side that an output sees of the features f⁰, as in `on_ring`."""
    network = network.replace(depth=depth)
    if ring is None:
        return network.reach()
    return sum(on_ring(window, ring).reach for window in network.filters())


def receptive_field(network: Network, depth: int, length: int, width: int = 1) -> np.ndarray:
    """Return whether each pixel of a signal, (length,), reaches the output at pixel 1.

    The receptive field of an image is a rectangle.
    """
    if width > 1:
        sides = (receptive_field(network, depth, each) for each in (length // width, width))
        return np.asarray(np.outer(*sides).ravel())
    pixels = np.arange(length)
    if network.dilation == 1:
        reach = receptive_reach(network, depth) + network.input_filter.reach
        return np.asarray(np.minimum(pixels, length - pixels) <= reach)
    reached = pixels == 0
    for window in (*network.replace(depth=depth).filters(), network.input_filter):
        if reached.all():
            break
        ways = circular_sum(reached.astype(np.float64), *on_ring(window, length))
        reached = ways > 0
    return np.asarray(reached)
