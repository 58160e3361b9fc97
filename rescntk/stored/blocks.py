"""The blocks of a stored Gram: which there are, and which parts of a block are missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Block(NamedTuple):
    """A block of a Gram, one chunk of its array, and the corner of the block that is done."""

    row: int
    """Index of the block among the rows of blocks."""
    column: int
    """Index of the block among the columns of blocks."""
    height: int
    """Rows of the block; fewer than the block's size at the lower edge."""
    width: int
    """Columns of the block; fewer than the block's size at the right edge."""
    done_height: int = 0
    """The first `done_height` rows and `done_width` columns are on disk."""
    done_width: int = 0

    @property
    def is_done(self) -> bool:
        """True if all values of the block are on disk."""
        return (self.done_height, self.done_width) == (self.height, self.width)

    @property
    def pairs(self) -> int:
        """Number of values missing."""
        return self.height * self.width - self.done_height * self.done_width


class Grid(NamedTuple):
    """The cutting of a Gram of n x m values into blocks."""

    n: int
    m: int
    size: int
    symmetric: bool
    """Whether blocks below the diagonal are mirror images, not computed."""

    def blocks(self, done: dict[tuple[int, int], tuple[int, int]]) -> Iterator[Block]:
        """Yield the blocks to be computed; `done` holds the corners on disk by block."""
        for row in range(-(-self.n // self.size)):
            for column in range(row if self.symmetric else 0, -(-self.m // self.size)):
                height = min(self.size, self.n - row * self.size)
                width = min(self.size, self.m - column * self.size)
                corner = done.get((row, column), (0, 0))
                known = (min(corner[0], height), min(corner[1], width))
                yield Block(row, column, height, width, *known)


def missing_parts(block: Block, symmetric: bool) -> Iterator[tuple[slice, slice]]:
    """Yield the rectangles of a block that are not on disk, as slices within the block.

    In a symmetric diagonal block the parts below the diagonal are left out.
    """
    old_rows, new_rows = slice(0, block.done_height), slice(block.done_height, block.height)
    old_columns, new_columns = slice(0, block.done_width), slice(block.done_width, block.width)
    mirrored = symmetric and block.row == block.column
    parts = [(old_rows, new_columns), (new_rows, new_columns)]
    if not mirrored:
        parts.append((new_rows, old_columns))
    for rows, columns in parts:
        if rows.stop > rows.start and columns.stop > columns.start:
            yield rows, columns
