"""Tables with a row of named numbers for each depth or width, as text and as CSV files."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress
from os import PathLike
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ..validation import check_choice

RowT = TypeVar("RowT", bound=NamedTuple)
"""The type of a table's rows."""


@dataclass(frozen=True)
class ReportTable(Generic[RowT]):
    """A table of at least one row, a named tuple each; iterating gives the rows."""

    rows: tuple[RowT, ...]

    def __iter__(self) -> Iterator[RowT]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> np.ndarray:
        """Return a field of all rows.

        Parameters
        ----------
        name : str
            The name of the column.

        Returns
        -------
        ndarray, (n_rows,)

        Raises
        ------
        ValueError
            If the table has no such column.
        """
        check_choice(name, "column", self.rows[0]._fields)
        return np.array([getattr(row, name) for row in self.rows])

    def write_csv(self, path: str | PathLike[str] | int) -> None:
        """Write all rows to a CSV file with a header, in full precision.

        The file is a path, or the descriptor of an open file, which is closed.
        """
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.rows[0]._fields)
            writer.writerows(self.rows)

    def __str__(self) -> str:
        """Return the table as text, without columns in which nothing is known."""
        known = [any(value == value for value in column) for column in zip(*self.rows, strict=True)]
        head, *body = (
            "  ".join(compress(cells, known)) for cells in texts(self.rows[0]._fields, self.rows)
        )
        return "\n".join([head, "-" * len(head), *body])


def texts(header: Iterable[str], rows: Iterable[tuple[object, ...]]) -> list[list[str]]:
    """Return header and rows as text; the cells of a column are equally wide."""
    lines = [list(header), *([_text(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [list(map(str.rjust, cells, widths)) for cells in lines]


def _text(value: object) -> str:
    """Return a number in four digits, integers in all digits, NaN as a dash."""
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    if isinstance(value, int):
        return str(value)
    assert isinstance(value, float)
    if math.isnan(value):
        return "–"
    return f"{value:.4g}" if value < 1e5 else f"{value:.3e}"
