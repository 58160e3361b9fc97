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
on the left. Images will have two axes of pixels: a row becomes a plane, and δ a pair of offsets.
Each axis has a torus, and a seam, of its own. `Rows.following` will be one permutation of the
planes for each axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ..arrays import Array, array_module
from ..network import Filter, Network
from .boxes import Seam, circular_sum, step_on_ring

__all__ = [
    "OFFSETS",
    "Filter",
    "RowAxis",
    "Rows",
    "Torus",
    "longest_reach",
    "on_ring",
    "receptive_field",
    "receptive_reach",
]


class Torus(NamedTuple):
    """The pixel pairs of a signal of `left` = d pixels with a signal of `right` = d' pixels."""

    left: int
    right: int

    @property
    def pixel_pairs(self) -> int:
        """d·d', the number of pixel pairs."""
        return self.left * self.right

    @property
    def seam(self) -> int:
        """s = d mod d': the change of the offset where a row goes on; 0 where rows are closed."""
        return self.left % self.right

    @property
    def rings(self) -> int:
        """gcd(d, d'), the number of closed rings of rows."""
        return math.gcd(self.left, self.right)

    @property
    def rows_per_ring(self) -> int:
        """d'/gcd(d, d'), the number of rows of a closed ring."""
        return self.right // self.rings

    @property
    def ring_length(self) -> int:
        """lcm(d, d'), the number of pixel pairs of a closed ring."""
        return self.left * self.rows_per_ring

    def pixel(self, j: int, offset: int) -> int:
        """Return j' = (j + δ) mod d', the right pixel that row δ pairs with the left pixel j."""
        return (j + offset) % self.right

    def following(self, offset: int, rounds: int = 1) -> int:
        """Return the offset at which row δ goes on after `rounds` rounds (back, if negative)."""
        return (offset + rounds * self.left) % self.right


def first_places(counts: np.ndarray) -> np.ndarray:
    """Return the place of the first of `counts` things of each case; cases follow one another."""
    return np.asarray(np.cumsum(counts) - counts)


def numbered(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the case and the number within the case of `counts` rows of each case."""
    case = np.repeat(np.arange(len(counts)), counts)
    return case, np.arange(len(case)) - first_places(counts)[case]


class Rows(NamedTuple):
    """All rows of left signals of one length with several right signals, side by side.

    The rows of a right signal follow one another, in the order of their offsets.
    """

    left: int
    """d, the length of the left signals."""

    rights: np.ndarray
    """(cases,), the lengths d' of the right signals."""

    case: np.ndarray
    """(rows,), the right signal of each row."""

    offset: np.ndarray
    """(rows,), the offset δ of each row."""

    first: np.ndarray
    """(cases,), the row of offset 0 of each right signal."""

    following: np.ndarray
    """(rows,), the row that goes on after a row's last pixel."""

    preceding: np.ndarray
    """(rows,), the row that ends before a row's first pixel."""

    @classmethod
    def of(cls, left: int, rights: Sequence[int] | np.ndarray) -> Rows:
        """Return the rows of left signals of `left` pixels with right signals of given lengths."""
        lengths = np.asarray(rights, dtype=np.int64)
        first, (case, offset) = first_places(lengths), numbered(lengths)
        after, before = ((offset + turn) % lengths[case] for turn in (left, -left))
        return cls(left, lengths, case, offset, first, first[case] + after, first[case] + before)

    @property
    def closed(self) -> bool:
        """True if every row closes in itself."""
        return bool((self.left % self.rights == 0).all())

    @property
    def pixel_pairs(self) -> np.ndarray:
        """(cases,), the number d·d' of pixel pairs of a left signal with each right signal."""
        return self.left * self.rights

    def pixels(self) -> np.ndarray:
        """Return the right pixel of each pixel pair, (d, rows), among all right signals' pixels.

        The pixels of the right signals follow one another.
        """
        inside = (np.arange(self.left)[:, None] + self.offset) % self.rights[self.case]
        return np.asarray(self.first[self.case] + inside)

    def seam(self, xp: ModuleType, axis: int) -> Seam | None:
        """Return the seam of arrays of the module `xp` with rows along `axis`; None if closed."""
        if self.closed:
            return None
        return Seam(xp.asarray(self.following), xp.asarray(self.preceding), axis)

    def axis(self, xp: ModuleType) -> RowAxis:
        """Return the axis of the rows in tiles of the module `xp`."""
        return RowAxis(self.seam(xp, 2), xp.asarray(self.case), xp.asarray(self.first))


class RowAxis(NamedTuple):
    """The axis of rows in a tile, (pixel j, left case, row, right case).

    Right cases of one length share an axis of offsets δ. Right cases of several lengths have
    their rows side by side, and the axis of right cases has length 1 (`Rows`).
    """

    seam: Seam | None = None
    """Where rows go on; None: in themselves."""

    case: Array | None = None
    """(rows,), the right case of each row."""

    first: Array | None = None
    """(right cases,), the first row of each right case."""

    def total(self, table: Array) -> Array:
        """Return sums over the rows of each right case, from (left case, row, right case)."""
        if self.first is None:
            summed: Array = table.sum(axis=1)
            return summed
        parts: Array = array_module(table).add.reduceat(table[..., 0], self.first, axis=1)
        return parts

    def spread(self, table: Array) -> Array:
        """Return numbers of pairs, (left case, 1, right case), for each row."""
        return table if self.case is None else table[..., 0, self.case][..., None]


OFFSETS = RowAxis()
"""Rows that are offsets, the same for all right cases, and that close in themselves."""


def on_ring(window: Filter, length: int | None) -> Filter:
    """Return the filter whose taps lead to the same pixels of a closed ring of `length` pixels.

    Its step is at most `length`. None stands for rows that go on in other rows.
    """
    return window if length is None else window._replace(step=step_on_ring(window.step, length))


def longest_reach(network: Network, depth: int, ring: int | None = None) -> int:
    """Return the longest reach of a filter in layers 1 … `depth`: the halo of a row in pixels.

    `ring` is the length of rows that close in themselves (`on_ring`).
    """
    last = min(depth, 2) if isinstance(network.dilation, int) else depth  # layers 2 … L are alike
    layers = range(1, last + 1)
    filters = [f(layer) for layer in layers for f in (network.inner_filter, network.outer_filter)]
    return max(on_ring(window, ring).reach for window in filters)


def receptive_reach(network: Network, depth: int) -> int:
    """Return the pixels on either side that an output sees of the features f⁰."""
    return network.replace(depth=depth).reach()


def receptive_field(network: Network, depth: int, length: int) -> np.ndarray:
    """Return whether each pixel of a signal, (length,), reaches the output at pixel 1."""
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
