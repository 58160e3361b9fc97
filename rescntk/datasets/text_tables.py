"""Signals and labels in tables of text: a row for each value, or a row for each signal."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise, product
from pathlib import Path

import numpy as np

_COLUMNS = {"case_id": "case", "dim_id": "channel", "reading_id": "time"}
"""Names of sktime for columns of a table."""

_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
"""A decimal number in a table. Python's `float` also takes "1_0.8", and digits of other scripts."""

_TIME_COLUMN = re.compile(r"(.*?)([-+]?[0-9]+(?:\.[0-9]+)?)")
"""The name of a time point's column: any text, then its number."""

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
    records = _records(path)
    first = next(records, (0, []))
    names = [_COLUMNS.get(name, name) for name in first[1]]
    if {"time", "value"} & {*names} or not names:
        return _read_long(names, records, missing)
    return _read_wide(first, records, missing)


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
    if path.suffix == ".csv":
        rows = [fields for _, fields in _records(path)]
        if rows and (width := len(rows[0])) > 1:
            if rows[0].count("label") != 1:
                raise ValueError(
                    f"it has the columns {short(rows[0])}, expected a label a line, or a column "
                    f"label"
                )
            for k, fields in enumerate(rows):
                if len(fields) != width:
                    raise ValueError(
                        f"row {k} is {short(fields)}, expected as many fields as {short(rows[0])}"
                    )
            column = rows[0].index("label")
            return np.array([fields[column] for fields in rows[1:]])
        lines = [fields[0] if len(fields) == 1 else ", ".join(fields) for fields in rows]
    if len(lines) > 1 and _is_header(lines):
        lines = lines[1:]
    return np.array(lines)


def _is_header(lines: list[str]) -> bool:
    first, *others = lines
    if first.lower() in _LABEL_HEADERS:
        return first not in others
    return math.isnan(number(first)) and all(math.isfinite(number(line)) for line in others)


def number(text: str) -> float:
    """Return the decimal number that a text is, or NaN for any other text."""
    return float(text) if _NUMBER.fullmatch(text.strip()) else math.nan


# -- a row for each value


def _read_long(
    names: list[str], records: Iterator[tuple[int, list[str]]], missing: bool
) -> tuple[list[np.ndarray], np.ndarray | None]:
    counts = [names.count(name) for name in ("case", "time", "value", "channel", "label")]
    if counts[:3] != [1, 1, 1] or max(counts) > 1:
        raise ValueError(
            f"it has the columns {short(names) or 'of an empty file'}, expected a row for each "
            f"value, with columns case, time, value, and channel and label where there are "
            f"several; or a row for each signal, with columns t0, t1, …, and label"
        )
    cases: dict[str, tuple[dict[tuple[str, float], float], set[str]]] = {}
    for line, fields in records:
        row = dict(zip(names, fields, strict=False))
        time, value = (number(row.get(name, "")) for name in ("time", "value"))
        case, channel, label = (row.get(name, "") for name in ("case", "channel", "label"))
        values, labels = cases.setdefault(case, ({}, set()))
        finite = math.isfinite(time) and (
            math.isfinite(value) or (missing and row.get("value", "x").lower() in _MISSING)
        )
        if len(fields) != len(names) or not case or not finite or (channel, time) in values:
            raise ValueError(
                f"line {line} is {short(fields)}, expected {short(names)}, with a case, "
                f"finite numbers, no time of a channel twice"
            )
        values[channel, time] = value
        labels |= {label} - {""}
    channels = sorted({name for values, _ in cases.values() for name, _ in values})
    signals = []
    for case, (values, _) in cases.items():
        times = sorted({time for _, time in values})
        if values.keys() != set(product(channels, times)) and not missing:
            raise ValueError(
                f"case {short([case])} has {len(values)} values at {len(times)} times, "
                f"expected one at each time for each of the channels {short(channels)}"
            )
        rows = [[values.get((name, time), math.nan) for time in times] for name in channels]
        signals.append(np.array(rows))
    return signals, _one_label_each({case: labels for case, (_, labels) in cases.items()})


def _one_label_each(cases: dict[str, set[str]]) -> np.ndarray | None:
    """Return the label of each case, or None where there are none."""
    labelled = any(cases.values())
    for case, labels in cases.items():
        if len(labels) != labelled:
            raise ValueError(
                f"case {short([case])} has the labels [{short(map(repr, sorted(labels)))}], "
                f"expected one a case, or none"
            )
    return np.array([label for labels in cases.values() for label in labels]) if labelled else None


# -- a row for each signal


def _read_wide(
    first: tuple[int, list[str]], records: Iterator[tuple[int, list[str]]], missing: bool
) -> tuple[list[np.ndarray], np.ndarray | None]:
    names, rows = _time_columns(first[1]), list(records)
    if names is None:  # no header
        names, rows = [f"t{k}" for k in range(len(first[1]))], [first, *rows]
    known = {"case", "channel", "label"}
    times = [k for k, name in enumerate(names) if name not in known]
    signals: dict[str, dict[str, list[float]]] = {}
    labels: dict[str, set[str]] = {}
    for line, fields in rows:
        if len(fields) != len(names):
            raise ValueError(
                f"line {line} is {short(fields)}, with {len(fields)} fields, expected {len(names)}"
            )
        row = dict(zip(names, fields, strict=True))
        values = [number(fields[k]) for k in times]
        for k, value in zip(times, values, strict=True):
            if not (math.isfinite(value) or (missing and fields[k].lower() in _MISSING)):
                raise ValueError(
                    f"line {line} has {short([repr(fields[k])])} in column {short([names[k]])}, "
                    f"expected a finite number"
                )
        case = row.get("case", f"in line {line}")
        channels = signals.setdefault(case, {})
        channel = row.get("channel", "")
        if not case or channel in channels:
            raise ValueError(
                f"line {line} has case {short([repr(case)])} and channel {short([repr(channel)])}"
                f" again, expected a row for each case, or for each channel of a case"
            )
        channels[channel] = values
        labels.setdefault(case, set()).update({row.get("label", "")} - {""})
    order = sorted({name for channels in signals.values() for name in channels})
    for case, channels in signals.items():
        if len(channels) != len(order):
            raise ValueError(
                f"case {short([case])} has the channels {short(channels)}, expected {short(order)}"
            )
    found = [np.array([channels[name] for name in order]) for channels in signals.values()]
    return found, _one_label_each(labels)


def _time_columns(fields: list[str]) -> list[str] | None:
    """Return the names of the columns, or None if the first line of a table is a signal.

    A header of numbers counts 0, 1, 2, … or 1, 2, 3, …
    """
    names = [_COLUMNS.get(name, name) for name in fields]
    if names[0] == "":  # of the index that pandas writes
        names[0] = "case"
    known = [name for name in names if name in ("case", "channel", "label")]
    times = [name for name in names if name not in known]
    values = [number(name) for name in times]
    if not known and not any(map(math.isnan, values)):
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
    if not known and all(gap or value == value for gap, value in zip(gaps, values, strict=True)):
        return None
    parts = [_TIME_COLUMN.fullmatch(name) for name in times]
    numbered = [part for part in parts if part is not None]
    prefixes = {part[1] for part in numbered}
    counts = [float(part[2]) for part in numbered]
    rising = all(before < after for before, after in pairwise(counts))
    twice = len(set(known)) < len(known) or ("channel" in known and "case" not in known)
    if len(numbered) < len(times) or not times or len(prefixes) > 1 or not rising or twice:
        raise ValueError(
            f"it has the columns {short(fields)}, expected a row for each value, with columns "
            f"case, time and value; or a row for each signal, with columns of time points in "
            f"rising order, such as t0, t1, …, and label, case, and channel where there are several"
        )
    return names


# -- lines


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields of each line of a table; blank lines are left out.

    A record ends with its line: a quote that is not closed would swallow the lines after it.
    """
    for k, line in enumerate(_lines(path), 1):
        if not line:
            continue
        try:
            if line.count('"') % 2:
                raise csv.Error("a quote is not closed")
            fields = next(csv.reader([line], strict=True, skipinitialspace=True))
        except csv.Error as error:
            raise ValueError(f"line {k} is {short([line])}: {error}") from None
        yield k, [field.strip() for field in fields]


def _lines(path: Path) -> list[str]:
    """Return the lines of a text in UTF-8 without blanks around them."""
    lines = [line.strip() for line in path.read_text("utf-8-sig").split("\n")]
    for k, line in enumerate(lines, 1):
        if "\0" in line:
            raise ValueError(f"line {k} has a NUL character, expected text in UTF-8")
    return lines


def short(words: Iterable[str]) -> str:
    """Return words separated by commas for a message, cut where they are long."""
    text = ", ".join(words)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"
