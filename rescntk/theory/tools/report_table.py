"""Tables with a row of named numbers for each depth or width, as text and as CSV files."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress, zip_longest
from os import PathLike
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from ...checks.values import check_choice

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
            The name of the column; of a part of a field both names with a dot, as "cnn.lower".

        Returns
        -------
        ndarray, (n_rows,)

        Raises
        ------
        ValueError
            If the table has no such column.
        """
        columns = self._columns()
        check_choice(name, "column", columns)
        return np.array(columns[name])

    def write_csv(self, path: str | PathLike[str] | int) -> None:
        """Write all rows to a CSV file with a header, in full precision.

        A part of a field is a column, such as cnn.lower. A field of several numbers becomes
        the columns NAME_0, NAME_1 and so on. Cells of rows that have fewer stay empty. The
        file is a path, or the descriptor of an open file, which is closed.
        """
        header, columns = list[str](), list[Iterable[object]]()
        for name, cells in self._columns().items():
            several = [cell for cell in cells if isinstance(cell, tuple)]
            header += self._names(name, max(map(len, several))) if several else [name]
            columns += zip_longest(*cells, fillvalue="") if several else [cells]
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(zip(*columns, strict=True))

    def _columns(self) -> dict[str, tuple[Any, ...]]:
        """Return all columns by name; named tuples in a field are columns of their own."""
        columns = dict[str, tuple[Any, ...]]()
        for name, cells in zip(self.rows[0]._fields, zip(*self.rows, strict=True), strict=True):
            if inner := getattr(cells[0], "_fields", ()):
                parts = zip(*cells, strict=True)
                columns |= {f"{name}.{part}": cell for part, cell in zip(inner, parts, strict=True)}
            else:
                columns[name] = cells
        return columns

    def _names(self, field: str, count: int) -> list[str]:
        """Return the names of the columns of a field that has several numbers."""
        return [f"{field}_{k}" for k in range(count)]

    def __str__(self) -> str:
        """Return the table as text, without columns in which nothing is known."""
        known = [any(value == value for value in column) for column in zip(*self.rows, strict=True)]
        head, *body = (
            "  ".join(compress(cells, known))
            for cells in aligned_cells(self.rows[0]._fields, self.rows)
        )
        return "\n".join([head, "-" * len(head), *body])


def aligned_cells(header: Iterable[str], rows: Iterable[tuple[object, ...]]) -> list[list[str]]:
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
