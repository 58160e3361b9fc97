"""Signals and labels in tables: a row for each value, or a row for each signal.

pandas splits a table into fields. The checks here stand after it.
"""

from __future__ import annotations

import codecs
import io
import math
import re
import warnings
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

_ROLES = {"case_id": "case", "dim_id": "channel", "reading_id": "time"}
"""Names of sktime for columns of a table."""

_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
"""A decimal number in a table. Python's `float` also takes "1_0.8", and digits of other scripts."""

_COMMA_NUMBER = re.compile(r"[-+]?[0-9]*,[0-9]+([eE][-+]?[0-9]+)?")
"""A number with a decimal comma, in a table with another separator of fields."""

_TIME_COLUMN = re.compile(r"(.*?)([-+]?[0-9]+(?:\.[0-9]+)?)")
"""The name of a time point's column: any text, then its number."""

_SEPARATORS = ";\t,"
"""Separators of fields: the first one in a table's first line counts. A comma may be decimal."""

_MISSING = ("", "nan", "na", "?")
"""Texts of missing values, in small letters."""

_LABEL_HEADERS = ("label", "labels", "class", "target", "y", "value", "group", "groups")
"""First lines of a file of labels that are a header, in small letters."""

_LONGEST_QUOTE = 120
"""Characters of a file that a message quotes at most. Chosen by taste."""


def read_signals(path: Path, missing: bool) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Return the signals in a table, (n_channels, n_timepoints_i) each, and their labels or None.

    The columns case, time and value make a table of a row for each value; all others have a row
    for each signal, or for each of its channels. With `missing`, missing values become NaN.
    """
    table = _fields(path)
    names = [_ROLES.get(name, name) for name in table.iloc[0]] if len(table) else []
    if {"time", "value"} & {*names} or not names:
        return _read_long(table[1:].set_axis(names, axis=1), missing)
    return _read_wide(table, names, missing)


def read_labels(path: Path) -> np.ndarray:
    """Return the labels in a text, a label a line, or in the column label of a ``.csv`` file.

    The first line is a header if it is label, labels, class, target, y, value, group or groups, and
    occurs once; or if it is the only line that is not a number.
    """
    lines = _lines(path)
    while lines and not lines[-1]:
        lines.pop()
    if "" in lines:
        raise ValueError(f"line {lines.index('') + 1} is blank, expected a label in each line")
    if path.suffix == ".csv" and lines:
        table = _fields(path)
        header = table.iloc[0].tolist()
        if len(header) > 1:
            if header.count("label") != 1:
                raise ValueError(
                    f"it has the columns {short(header)}, expected a label a line, or a column "
                    f"label"
                )
            return np.array(table.iloc[1:, header.index("label")].tolist(), str)
        lines = table[0].tolist()
    if len(lines) > 1 and _is_header(lines):
        lines = lines[1:]
    return np.array(lines)


def _is_header(lines: list[str]) -> bool:
    first, *later = lines
    if first.lower() in _LABEL_HEADERS:
        return first not in later
    return math.isnan(number(first)) and all(math.isfinite(number(line)) for line in later)


def number(text: str) -> float:
    """Return the decimal number that a text is, or NaN for any other text."""
    return float(text) if _NUMBER.fullmatch(text.strip()) else math.nan


def _numbers(texts: Any, missing: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers in fields, and whether each field is a finite number or may be missing."""
    fields = texts.to_numpy(object)
    values = np.array([number(field) for field in fields.flat], float).reshape(fields.shape)
    good = np.isfinite(values)
    if missing:
        good[~good] = [field.lower() in _MISSING for field in fields[~good]]
    return values, good


# -- a row for each value


def _read_long(table: Any, missing: bool) -> tuple[list[np.ndarray], np.ndarray | None]:
    names = table.columns.tolist()
    counts = [names.count(name) for name in ("case", "time", "value", "channel", "label")]
    if counts[:3] != [1, 1, 1] or max(counts) > 1:
        raise ValueError(
            f"it has the columns {short(names) or 'of an empty file'}, expected a row for each "
            f"value, with columns case, time, value, and channel and label where there are "
            f"several; or a row for each signal, with columns t0, t1, …, and label"
        )
    rows = table.reindex(columns=["case", "channel", "label"], fill_value="")
    rows["time"], in_time = _numbers(table["time"], False)
    rows["value"], has_value = _numbers(table["value"], missing)
    good = in_time & has_value & (rows["case"] != "")
    good &= ~rows.duplicated(["case", "channel", "time"])
    if not good.all():
        line = good.idxmin()
        raise ValueError(
            f"line {line} is {short(table.loc[line])}, expected {short(names)}, with a case, "
            f"finite numbers, no time of a channel twice"
        )
    channel_of, channels = rows["channel"].factorize(sort=True)
    time, value, signals = rows["time"].to_numpy(), rows["value"].to_numpy(), []
    for case, lines in _lines_of_cases(rows):
        times, columns = np.unique(time[lines], return_inverse=True)
        signal = np.full((len(channels), len(times)), np.nan)
        signal[channel_of[lines], columns] = value[lines]
        if len(lines) < signal.size and not missing:
            raise ValueError(
                f"case {short([case])} has {len(lines)} values at {len(times)} times, "
                f"expected one at each time for each of the channels {short(channels)}"
            )
        signals.append(signal)
    return signals, _one_label_each(rows)


def _lines_of_cases(rows: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each case, in the order of the file, and the places of its rows."""
    places = rows.groupby("case").indices
    for case in rows["case"].unique():
        yield case, places[case]


def _one_label_each(rows: Any) -> np.ndarray | None:
    """Return the label of each case, from the columns case and label; None where there are none."""
    labels = rows["label"].to_numpy(object)
    labelled, of_cases = (labels != "").any(), list[str]()
    for case, lines in _lines_of_cases(rows):
        of_case = sorted({*labels[lines]} - {""})
        if len(of_case) != labelled:
            raise ValueError(
                f"case {short([case])} has the labels [{short(map(repr, of_case))}], "
                f"expected one a case, or none"
            )
        of_cases += of_case
    return np.array(of_cases) if labelled else None


# -- a row for each signal


def _read_wide(
    table: Any, names: list[str], missing: bool
) -> tuple[list[np.ndarray], np.ndarray | None]:
    columns = _time_columns(names)
    if columns is None:  # no header
        columns = [f"t{k}" for k in range(len(names))]
    else:
        table = table[1:]
    table = table.set_axis(columns, axis=1)
    times = [name for name in columns if name not in ("case", "channel", "label")]
    rows = table.reindex(columns=["channel", "label"], fill_value="")
    rows["case"] = table["case"] if "case" in columns else [f"in line {k}" for k in table.index]
    values, good = _numbers(table[times], missing)
    if not good.all():
        row, column = np.argwhere(~good)[0]
        raise ValueError(
            f"line {table.index[row]} has {short([repr(table[times].iloc[row, column])])} in "
            f"column {short([times[column]])}, expected a finite number"
        )
    again = rows.duplicated(["case", "channel"]) | (rows["case"] == "")
    if again.any():
        line = again.idxmax()
        case, channel = (short([repr(rows[name][line])]) for name in ("case", "channel"))
        raise ValueError(
            f"line {line} has case {case} and channel {channel} again, expected a row for each "
            f"case, or for each channel of a case"
        )
    channel_of, channels = rows["channel"].factorize(sort=True)
    signals = []
    for case, lines in _lines_of_cases(rows):
        if len(lines) < len(channels):
            given = short(channels[channel_of[lines]])
            raise ValueError(
                f"case {short([case])} has the channels {given}, expected {short(channels)}"
            )
        signals.append(values[lines[channel_of[lines].argsort()]])
    return signals, _one_label_each(rows)


def _time_columns(fields: list[str]) -> list[str] | None:
    """Return the names of the columns, or None if the first line of a table is a signal.

    A header of numbers counts 0, 1, 2, … or 1, 2, 3, …
    """
    names = ["case" if k == 0 and name == "" else name for k, name in enumerate(fields)]  # pandas'
    roles = [name for name in names if name in ("case", "channel", "label")]
    times = [name for name in names if name not in roles]
    values = [number(name) for name in times]
    if not roles and not any(map(math.isnan, values)):
        steps = {round(after - before, 9) for before, after in pairwise(values)}
        whole = all(name.isdecimal() for name in times)
        if whole and values[0] in (0, 1) and steps <= {1.0} and len(values) > 1:
            return names
        if len(values) > 2 and len(steps) == 1 and steps.pop() > 0:
            raise ValueError(
                f"line 1 rises evenly, {short(fields)}, and may be a header or a signal: name the "
                f"columns t0, t1, …"
            )
        return None
    gaps = [name.lower() in _MISSING for name in times]
    if not roles and all(gap or value == value for gap, value in zip(gaps, values, strict=True)):
        return None
    parts = [_TIME_COLUMN.fullmatch(name) for name in times]
    numbered = [part for part in parts if part is not None]
    prefixes = {part[1] for part in numbered}
    counts = [float(part[2]) for part in numbered]
    rising = all(before < after for before, after in pairwise(counts))
    twice = len(set(roles)) < len(roles) or ("channel" in roles and "case" not in roles)
    if len(numbered) < len(times) or not times or len(prefixes) > 1 or not rising or twice:
        raise ValueError(
            f"it has the columns {short(fields)}, expected a row for each value, with columns "
            f"case, time and value; or a row for each signal, with columns of time points in "
            f"rising order, such as t0, t1, …, and label, case, and channel where there are several"
        )
    return names


# -- fields and lines


def _fields(path: Path) -> Any:
    """Return the fields of a table as texts, without its blank lines.

    Rows of the pandas.DataFrame have the numbers of their lines; the first may be a header.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise ImportError("tables need pandas: pip install 'rescntk[datasets]'") from None
    lines = {k: line for k, line in enumerate(_lines(path), 1) if line}
    if not lines:
        return pd.DataFrame()
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
    )
    table = table.set_axis(list(lines)).apply(lambda column: column.str.strip())
    return table if separator == "," else _with_points(table)


def _with_points(table: Any) -> Any:
    """Return a table whose numbers have decimal points, not commas."""
    commas = table.map(lambda field: bool(_COMMA_NUMBER.fullmatch(field)))
    points = table.map(lambda field: "." in field and bool(_NUMBER.fullmatch(field)))
    if commas.any(axis=None) and points.any(axis=None):
        examples = [table.to_numpy(object)[kind.to_numpy()][0] for kind in (commas, points)]
        raise ValueError(
            f"it has numbers with commas and with points, {short(examples)}, expected one of them"
        )
    return table.mask(commas, table.map(lambda field: field.replace(",", ".")))


def _lines(path: Path) -> list[str]:
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
