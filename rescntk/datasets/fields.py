"""Fields of a table, as texts, and what they mean: numbers, times, missing values."""

from __future__ import annotations

import codecs
import io
import math
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

_NO_DATE = 1970
"""Year of hours without a date."""

_TO_ISO = {
    r"^([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})": r"\3-\2-\1",
    r"^([0-9]{1,2}:)": rf"{_NO_DATE}-01-01 \1",
    r"^[^0-9].*": "",  # pandas reads the word now
}
"""Dates and times of the day in the form of ISO 8601. Slashes leave day and month open."""

_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
"""A decimal number in a table. Python's `float` also takes "1_0.8", and digits of other scripts."""

_COMMA_NUMBER = re.compile(r"[-+]?[0-9]*,[0-9]+([eE][-+]?[0-9]+)?")
"""A number with a decimal comma, in a table with another separator of fields."""

_SEPARATORS = ";\t,"
"""Separators of fields: the first one in a table's first line counts. A comma may be decimal."""

MISSING = ("", "nan", "na", "?")
"""Texts of missing values, in small letters."""

_LONGEST_QUOTE = 120
"""Characters of a file that a message quotes at most. Chosen by taste."""


Dates = tuple[str, str] | None
"""The first and the last date, in ISO 8601."""


def table_of(path: Path) -> tuple[Any, str]:
    """Return the fields of a table as texts, without its blank lines, and their separator.

    Rows of the pandas.DataFrame have the numbers of their lines; the first may be a header.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise ImportError("tables need pandas: pip install 'rescntk[datasets]'") from None
    lines = {k: line for k, line in enumerate(lines_of(path), 1) if line}
    if not lines:
        return pd.DataFrame(), ","
    unquoted = {k: re.sub('"[^"]*"', "", line) for k, line in lines.items()}
    first = next(iter(unquoted.values()))
    separator = next((mark for mark in _SEPARATORS if mark in first), ",")
    for k, line in unquoted.items():
        if '"' in line:  # it would swallow the lines after it
            raise ValueError(f"line {k} is {short([lines[k]])}: a quote is not closed")
        if line.count(separator) != first.count(separator):  # pandas would fill short lines up
            fields = [field.strip() for field in lines[k].split(separator)]
            raise ValueError(
                f"line {k} is {short(fields)}, with {line.count(separator) + 1} fields, expected "
                f"{first.count(separator) + 1}"
            )
    table = pd.read_csv(
        io.StringIO("\n".join(lines.values())),
        sep=separator,
        header=None,
        dtype=str,
        keep_default_na=False,
        skipinitialspace=True,
        skip_blank_lines=False,  # such as a tab
    )
    return table.set_axis(list(lines)).apply(lambda column: column.str.strip()), separator


def with_points(table: Any) -> Any:
    """Return a table whose numbers have decimal points, not commas."""
    commas = table.map(lambda field: bool(_COMMA_NUMBER.fullmatch(field)))
    points = table.map(lambda field: "." in field and bool(_NUMBER.fullmatch(field)))
    if commas.any(axis=None) and points.any(axis=None):
        examples = [table.to_numpy(object)[kind.to_numpy()][0] for kind in (commas, points)]
        raise ValueError(
            f"it has numbers with commas and with points, {short(examples)}, expected one of them"
        )
    return table.map(with_point)


def with_point(field: str) -> str:
    return field.replace(",", ".") if _COMMA_NUMBER.fullmatch(field) else field


def lines_of(path: Path) -> list[str]:
    """Return the lines of a text without spaces around them.

    A byte order mark tells UTF-8 and UTF-16. Other texts are UTF-8, or else Windows-1252, the
    encoding of spreadsheets in Western Europe, with a warning.
    """
    content = path.read_bytes()
    marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError:
        if marked or b"\0" in content:
            raise
        text = content.decode("cp1252")
        warnings.warn(f"{path.name} is not in UTF-8, and is read as Windows-1252", stacklevel=2)
    lines = [line.strip(" \n") for line in io.StringIO(text, newline=None)]
    for k, line in enumerate(lines, 1):
        if "\0" in line:
            raise ValueError(f"line {k} has a NUL character, expected text in UTF-8")
    return lines


def short(words: Iterable[str]) -> str:
    """Return words separated by commas for a message, cut where they are long."""
    text = ", ".join(words)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


def check_channels(
    given: list[str] | None, expected: list[str] | None, what: str, owner: str
) -> None:  # fmt: skip
    """Raise a ValueError for channels with other names, or in another order, than the owner's."""
    if given and expected and given != expected:
        raise ValueError(
            f"{what} has the channels {', '.join(given)}, expected the channels of {owner}: "
            f"{', '.join(expected)}, in this order"
        )


def number(text: str) -> float:
    """Return the decimal number that a text is, or NaN for any other text."""
    return float(text) if _NUMBER.fullmatch(text.strip()) else math.nan


def numbers(texts: Any, missing: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers in fields, and whether each field is a finite number or may be missing."""
    fields = texts.to_numpy(object)
    values = np.array([number(field) for field in fields.flat], float).reshape(fields.shape)
    good = np.isfinite(values)
    if missing:
        good[~good] = [field.lower() in MISSING for field in fields[~good]]
    return values, good


def times_of(texts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return times, in seconds for dates, and whether each is a finite number or a date."""
    values, good = numbers(texts, False)
    if not good.any():
        dates = _moments(texts)
        values = np.array((dates - dates.min()).dt.total_seconds())
        good = np.isfinite(values)
    return values, good


def _moments(texts: Any) -> Any:
    """Return dates and hours as pandas' times, the texts that are neither as NaT."""
    import pandas as pd

    texts = texts.replace(_TO_ISO, regex=True)
    return pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)


def dates_of(texts: Any) -> Dates:
    """Return the first and the last date of a column; None for numbers, hours and other texts."""
    if len(texts) and math.isnan(number(texts.iloc[0])) and not numbers(texts, False)[1].any():
        dates = _moments(texts)
        if dates.notna().all() and dates.min().year > _NO_DATE:
            return str(dates.min().date()), str(dates.max().date())
    return None
