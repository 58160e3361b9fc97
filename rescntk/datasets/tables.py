"""Signals and labels in tables: a row for each value, or a row for each signal.

pandas splits a table into fields. The checks here stand after it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .fields import (
    MISSING,
    Dates,
    dates_of,
    lines_of,
    number,
    numbers,
    short,
    table_of,
    times_of,
    with_point,
    with_points,
)

_ROLES = {"case_id": "case", "dim_id": "channel", "reading_id": "time"}
"""Names of sktime for columns of a table."""

_KEYS = ("case", "channel", "time", "label")
"""Columns of a table that hold no values. A table with a row for each signal has no times."""

_TIME_COLUMN = re.compile(r"^(.*?)([-+]?[0-9]+(?:\.[0-9]+)?)([^0-9]*)$")
"""The name of a time point's column: a number in a text, which is common to a channel's columns."""

_LABEL_HEADERS = ("label", "labels", "class", "target", "y", "value", "group", "groups")
"""First lines of a file of labels that are a header, in small letters."""


class Table(NamedTuple):
    """Signals in a table, with their labels and cases.

    Attributes
    ----------
    X : ndarray, (n_cases, n_channels, n_timepoints), or list of ndarray
    y : ndarray, (n_cases,), or None
        Labels, as texts.
    cases : ndarray, (n_cases,), or None
        Names of the cases, as texts.
    channels : list of str, or None
        Names of several channels.
    """

    X: np.ndarray | list[np.ndarray]
    y: np.ndarray | None
    cases: np.ndarray | None
    channels: list[str] | None


def read_table(
    path: Path, missing: bool, columns: Mapping[str, str], usual: Mapping[str, str]
) -> tuple[Table, Dates]:
    """Return the signals in a table, a list of arrays (n_channels, n_timepoints_i), and its dates.

    Columns time or value make a table of a row for each time; all others have a row for each
    signal, or for each of its channels. `columns` has the names of columns in arguments of
    `load_table`, each with its argument. `usual` has columns of another table, which count where
    this table has them and `columns` does not name others. With `missing`, missing values become
    NaN.
    """
    table, separator = table_of(path)
    header = table.iloc[0].tolist() if len(table) else []
    named = {*columns.values()} - {"ignore"}
    kept = {k: v for k, v in usual.items() if k in header and v not in named}
    columns = kept | dict(columns)
    table, dates = _with_roles(table, header, columns)
    if separator != ",":
        table = with_points(table).rename(columns=with_point)
    if table.columns.isin(["time", "value"]).any() or table.empty:
        read = _read_long(table, missing)
    else:
        read = _read_wide(table, missing, bool(columns))
    return read, dates


def _with_roles(table: Any, header: list[str], columns: Mapping[str, str]) -> tuple[Any, Dates]:
    """Return a table whose columns have the names of their roles, and its first and last date.

    The first line is unchanged. Columns to ignore are left out, and so is the index of pandas where
    a column has the cases.
    """
    roles = {name: argument.removesuffix("_column") for name, argument in columns.items()}
    names = [(_ROLES | roles).get(name, name) for name in header]
    for name, argument in columns.items():
        if name not in header:
            raise ValueError(f"{argument} is {name!r}, expected one of the columns {short(header)}")
    kept = [roles.get(name) != "ignore" for name in header]
    if "case" in names and header[0] == "":
        kept[0] = False
    if any(math.isnan(number(name)) for name in header if name):  # lines may end in a separator
        kept[-1] &= header[-1] != "" or len(header) == 1 or bool((table.iloc[:, -1] != "").any())
    dated = [k for k, name in enumerate(names) if name in ("time", "ignore")]
    dates = [dates_of(table.iloc[1:, k]) for k in dated]
    table = table.set_axis(names, axis=1).loc[:, kept]
    if repeated := [name for name in _KEYS if (table.columns == name).sum() > 1]:
        raise _unexpected(header, repeated)
    return table, next(filter(None, dates), None)


def read_labels(path: Path) -> np.ndarray:
    """Return the labels in a text, a label a line, or in the column label of a ``.csv`` file.

    The first line is a header if it is label, labels, class, target, y, value, group or groups, and
    occurs once; or if it is the only line that is not a number.
    """
    lines = lines_of(path)
    while lines and not lines[-1]:
        lines.pop()
    if "" in lines:
        raise ValueError(f"line {lines.index('') + 1} is blank, expected a label in each line")
    if path.suffix == ".csv" and lines:
        table, separator = table_of(path)
        table = table if separator == "," else with_points(table)
        header = table.iloc[0].tolist()
        if len(header) > 1 and header.count("label") != 1:
            raise ValueError(
                f"it has the columns {short(header)}, expected a label a line, or a column label"
            )
        lines = table[header.index("label") if len(header) > 1 else 0].tolist()
        if "" in lines[1:]:
            line = table.index[lines.index("", 1)]
            raise ValueError(f"line {line} has no label, expected a label in each line")
        if len(header) > 1:
            return np.array(lines[1:], str)
    if len(lines) > 1 and _is_header(lines):
        lines = lines[1:]
    return np.array(lines)


def _is_header(lines: list[str]) -> bool:
    first, *later = lines
    if first.lower() in _LABEL_HEADERS:
        return first not in later
    return math.isnan(number(first)) and all(math.isfinite(number(line)) for line in later)


def _unexpected(header: list[str], unknown: Iterable[str] = ()) -> ValueError:
    """Return the error of a table whose columns are not understood, of which some are unknown."""
    names = short(map(repr, unknown)) or "other columns"
    return ValueError(
        f"it has the columns {short(header) or '(none)'}, expected a row for each time, with "
        f"columns case, time, one for each channel, or channel and value; or a row for each "
        f"signal, with columns in rising or falling order, such as t0, t1, … or x_0, x_1, …, y_0, "
        f"y_1, …; and label: label_column, case, time and ignore may name {names} "
        f"(rescntk fit --label-column, --case, --time, --ignore)"
    )


# -- a row for each time


def _read_long(table: Any, missing: bool) -> Table:
    names, header = table.columns.tolist(), [] if table.empty else table.iloc[0].tolist()
    keys = [name for name in names if name in _KEYS]
    of_values = [name for name in names if name not in _KEYS]
    if len({*names}) < len(names) or not {"case", "time"} <= {*names} or not of_values:
        raise _unexpected(header)
    if "channel" in keys and len(of_values) > 1:
        raise _unexpected(header, of_values)
    import pandas as pd

    table = table[1:]
    parts = [
        pd.DataFrame({"channel": name} | dict(table[keys]) | {"value": table[name]})
        for name in of_values
    ]
    rows = pd.concat(parts).reindex(columns=[*_KEYS, "value"], fill_value="")
    rows["time"], in_time = times_of(rows["time"])
    rows["value"], has_value = numbers(rows["value"], missing)
    good = in_time & has_value & (rows["case"] != "")
    good &= ~rows.duplicated(["case", "channel", "time"])
    if not good.all():
        line = good.idxmin()
        raise ValueError(
            f"line {line} is {short(table.loc[line])}, expected {short(header)}, with a case, "
            f"finite numbers, times or dates such as 2026-01-31 12:30 or 31.01.2026, no time "
            f"of a channel twice"
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
    cases = np.array([*rows["case"].unique()])
    return Table(signals, _one_label_each(rows), cases, _several(channels))


def _several(names: Any) -> list[str] | None:
    """Return the names of several channels, all different; else None."""
    listed = [str(name) for name in names]
    return listed if len({*listed} - {""}) == len(listed) > 1 else None


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


def _read_wide(table: Any, missing: bool, has_header: bool) -> Table:
    names = table.columns.tolist()
    if names[0] == "" and "case" not in names:  # the index of pandas
        names[0] = "case"
    laid = _places(names, table.iloc[0].tolist(), has_header)
    if laid is None:  # no header
        names = [f"t{k}" for k in range(len(names))]
        places, of_columns = np.arange(len(names))[None], [""]
    else:
        places, of_columns = laid
        table = table[1:]
    table = table.set_axis(names, axis=1)
    times = [name for name in names if name not in _KEYS]
    rows = table.reindex(columns=["channel", "label"], fill_value="")
    rows["case"] = table["case"] if "case" in names else [f"in line {k}" for k in table.index]
    values, good = numbers(table[times], missing)
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
        of_case = values[lines[channel_of[lines].argsort()]]
        signals.append(of_case[:, places].reshape(-1, places.shape[1]))
    cases = np.array([*rows["case"].unique()]) if "case" in names else None
    several = channels if len(of_columns) == 1 else of_columns if len(channels) == 1 else ()
    return Table(signals, _one_label_each(rows), cases, _several(several))


def _places(
    names: list[str], header: list[str], has_header: bool
) -> tuple[np.ndarray, list[str]] | None:
    """Return the places of each channel's time points, (n_channels, n_timepoints), and its name.

    They count columns other than case, channel and label. Without `has_header`, the first line may
    be a signal; the answer is then None.
    """
    import pandas as pd

    roles = [name for name in names if name in _KEYS]
    times = [name for name in names if name not in roles]
    if not (has_header or roles) and _is_signal(times):
        return None
    texts, channels, unknown = pd.Series(times, dtype=object), [np.arange(len(times))], list[str]()
    (counts, are_times), of_channels = times_of(texts), [""]
    if not are_times.all():
        parts = texts.str.extract(_TIME_COLUMN)
        counts, unknown = parts[1].to_numpy(float), texts[parts[1].isna()].tolist()
        indices = parts.groupby([0, 2]).indices
        named = sorted(("".join(key).strip("_- "), key) for key in indices)
        channels = [indices[key] for _, key in named]
        of_channels = [name for name, _ in named]
    n_times = max(map(len, channels), default=0)
    unknown += [times[places[0]] for places in channels if len(places) < n_times]
    if times and not unknown and ("case" in roles or "channel" not in roles):
        places = np.array(channels)
        ladders = counts[places]
        signs = {*np.sign(np.diff(ladders)).flat}
        if (ladders == ladders[0]).all() and (signs in ({1.0}, {-1.0}) or ladders.size == 1):
            return places, of_channels
    raise _unexpected(header, unknown)


def _is_signal(fields: list[str]) -> bool:
    """Return whether a first line is a signal; a header of numbers counts from 0 or from 1."""
    values = [number(field) for field in fields]
    if not any(map(math.isnan, values)):
        steps = {round(after - before, 9) for before, after in pairwise(values)}
        whole = all(field.isdecimal() for field in fields)
        if whole and values[0] in (0, 1) and steps <= {1.0} and len(values) > 1:
            return False
        step = steps.pop() if len(steps) == 1 else 0.0
        if len(values) > 2 and step != 0:
            raise ValueError(
                f"line 1 {'rises' if step > 0 else 'falls'} evenly, {short(fields)}, and may be a "
                f"header or a signal: name the columns t0, t1, …"
            )
    return all(field.lower() in MISSING or math.isfinite(number(field)) for field in fields)
