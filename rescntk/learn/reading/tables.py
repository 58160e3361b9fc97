"""Tables, series and arrays as files give them: which contents are numbers, and which are refused.

Guesses about what a file meant are here: separators, decimal commas, saved indices, transposed
signals. An error or a warning names the remedy, and tests read such files.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Set
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ...checks.messages import shown
from ...checks.values import check_rectangular
from .signals import exponents_of

_CALLS_TO_MEMORY = {"collect": "collect()", "compute": "compute()", "column_names": "to_pandas()"}
"""Attributes of tables that are not in memory, and the call that returns one in memory."""

_COMPARED_ROWS = 40
"""Maximum number of rows whose ends are compared with the beginnings of the next rows."""

_MISSING = "missing values"
_DATES = (datetime.date, np.datetime64)
_DURATIONS = (datetime.timedelta, np.timedelta64)


def is_table(X: object) -> bool:
    """Return whether X is a table: its columns have names."""
    return hasattr(type(X), "columns")  # polars warns if a lazy table itself is asked


def check_container(values: object, name: str) -> None:
    """Raise a ValueError if `values` is sparse, no sequence, or a table that is not in memory."""
    if issparse(values):
        raise ValueError(f"{name} is sparse, expected a dense array: give {name}.toarray()")
    if isinstance(values, Mapping | Set | Iterator):
        remedy = f"list({name}.values())" if isinstance(values, Mapping) else f"list({name})"
        raise ValueError(
            f"{name} is a {type(values).__name__}, expected an array, a list or a table: give "
            f"{remedy}"
        )
    calls = [
        call for attribute, call in _CALLS_TO_MEMORY.items() if hasattr(type(values), attribute)
    ]
    if is_table(values) and calls:
        kind = f"{type(values).__module__.partition('.')[0]}.{type(values).__name__}"
        raise ValueError(
            f"{name} is a {kind}, expected an array, a list, or a table of pandas or polars: "
            f"give {name}.{calls[0]}"
        )


def check_columns(X: Any) -> list[Hashable]:
    """Return a table's columns; refuse several levels, a saved index, and cells without numbers."""
    check_container(X, "X")
    _check_names_of_columns(X)
    for name in X.columns:
        _check_column(X, name)
    return list(X.columns)


def _check_names_of_columns(X: Any) -> None:
    """Raise a ValueError unless the columns of a table are time points by their names."""
    if len(X.columns) == 1 and (separator := re.search(r"[;\t]", str(X.columns[0]))):
        raise ValueError(
            f"X has the one column {shown(X.columns[0])}, expected one for each time point: read "
            f"the file with sep={separator[0]!r}"
        )
    if getattr(X.columns, "nlevels", 1) > 1:
        raise ValueError(
            "X has columns of two levels, expected one: with channels in the first level and times "
            "in the second, the signals are "
            "X.sort_index(axis=1).to_numpy().reshape(len(X), n_channels, -1)"
        )
    saved = [name for name in X.columns if re.fullmatch(r"(?i)unnamed: \d+|index|", str(name))]
    if saved and len(saved) < len(X.columns):  # a file may lack all names
        raise ValueError(
            f"X has the column {shown(saved[0])}, a saved index, expected time points alone: read "
            f"the file with index_col=0, or drop the column"
        )
    if not len(X.columns):
        raise ValueError("X has no columns, expected one for each time point")
    kinds = [isinstance(name, str) for name in X.columns]
    if any(kinds) and not all(kinds):
        text, other = X.columns[kinds.index(True)], X.columns[kinds.index(False)]
        raise ValueError(
            f"X has the columns {shown(other)} and {shown(text)}, expected names of one kind: give "
            f"numbers or texts by X.columns.astype"
        )
    name, times = Counter(X.columns).most_common(1)[0]
    if times > 1:
        raise ValueError(
            f"X has the column {shown(name)} {times} times, expected different names: give "
            f"X.to_numpy()"
        )


def _check_column(X: Any, name: Hashable) -> None:
    """Raise a ValueError unless a column of a table has only numbers."""
    column = X[name]
    values = np.asarray(column)
    if str(getattr(column, "dtype", "")).startswith("Sparse"):
        raise ValueError(
            f"X has the sparse column {shown(name)}, expected dense ones: give X.sparse.to_dense()"
        )
    what, remedy = _non_numeric_content(values, f"X[{shown(name)}]")
    if what == _MISSING:
        raise _cell_refused(X, list(map(_is_missing, values)).index(True), name, "NaN")
    if str(getattr(column, "dtype", "")) == "category":
        what, remedy = "categories", "drop it, or give its categories as numbers by astype"
    elif (values.ndim > 1 and not is_table(column)) or what == "signals":
        rows = "X.rows()" if hasattr(X, "rows") else "X.to_numpy()"
        what, remedy = "signals", f"signals in cells are [np.stack(row) for row in {rows}]"
    if what:
        dtype = f" of dtype {column.dtype}" if hasattr(column, "dtype") else ""
        raise ValueError(f"X has the column {shown(name)}{dtype}, expected numbers: {remedy}")


def check_numbers(values: object, name: str) -> None:
    """Raise a ValueError if an array or series has texts, dates, durations or signals in cells.

    NumPy reads some of them as numbers: texts of digits, and times as nanoseconds.
    """
    check_container(values, name)
    array = np.asarray(check_rectangular(values, name, "numbers"))
    what, remedy = _non_numeric_content(array, name)
    if what == "signals":
        as_list = f"{name}.to_pylist()" if hasattr(values, "to_pylist") else f"list({name})"
        raise ValueError(
            f"{name} has shape {array.shape} and a signal in each entry, expected an array, or a "
            f"list for different lengths: give {as_list}"
        )
    if what:
        raise ValueError(f"{name} has {what}, expected numbers: {remedy}")


def _non_numeric_content(values: np.ndarray, name: str) -> tuple[str, str]:
    """Return what an array has in the place of numbers, and the remedy.

    Both are empty texts if it has numbers.
    """
    kind = values.dtype.kind
    if kind in "biuf" or not values.size:
        return "", ""
    if kind == "c":
        what = f"dtype {values.dtype} (Complex data not supported)"  # as scikit-learn says it
        return what, "give real and imaginary parts as two channels"
    if kind == "V":
        remedy = f"give {name}.astype(np.float64)"
        if values.dtype.names:  # as genfromtxt returns columns with names
            remedy = f"give numpy.lib.recfunctions.structured_to_unstructured({name})"
        return f"dtype {values.dtype}", remedy
    for value in values.flat if kind == "O" else values.flat[:1]:
        if isinstance(value, _DURATIONS):
            return f"durations, such as {value}", f"give {name} / np.timedelta64(1, 's')"
        if isinstance(value, _DATES):
            return (
                f"dates, such as {value}",
                f"durations since the first are ({name} - {name}.min()) / np.timedelta64(1, 's')",
            )
        if isinstance(value, str | bytes):
            return f"texts, such as {shown(str(value))}", _remedy_of_texts(values, name)
        if np.ndim(value):
            return "signals", ""
        if _is_missing(value):
            return _MISSING, "fill gaps along time, or leave out cases without a value"
    return "", ""


def _is_missing(value: object) -> bool:
    """Return whether a value is NA of pandas, which NumPy cannot read."""
    return type(value).__name__ == "NAType"


def _remedy_of_texts(values: np.ndarray, name: str) -> str:
    """Return what to do about texts among numbers."""
    texts = [value for value in values.flat if isinstance(value, str)]
    words = [text for text in texts if not _is_number(text)]
    if commas := [text for text in words if _is_number(text.replace(",", ""))]:
        comma = shown(str(commas[0]))
        return f"{comma} has a comma, read the file with decimal=',' or thousands=','"
    if texts and not words:
        return "texts of digits become numbers by astype(float)"
    if name == "y":
        return "ResidualKernelClassifier predicts labels"
    if words and len(words) < values.size:
        return f"where {shown(str(words[0]))} is a gap, read the file with na_values"
    return "leave texts out"


def _is_number(text: str) -> bool:
    """Return whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_cells(flat: np.ndarray, X: object) -> None:
    """Raise a ValueError that names the first cell of X without a finite number.

    `flat` has the numbers of X, an array or a table, (n_cases, n_columns).
    """
    good = np.isfinite(flat)
    if not good.all():
        row, column = np.argwhere(~good)[0]
        name = list(X.columns)[column] if is_table(X) else int(column)  # type: ignore[attr-defined]
        raise _cell_refused(X, row, name, "infinity" if np.isinf(flat[row, column]) else "NaN")


def _cell_refused(X: object, row: int, column: Hashable, what: str) -> ValueError:
    """Return the error for a cell that has no finite number."""
    remedy = ""
    if what != "infinity":
        fill = "interpolate(axis=1, limit_direction='both')"
        how = f"as X.{fill} does" if hasattr(X, "loc") else f"as {fill} of pandas does"
        remedy = f": fill gaps along time first, {how}"
    return ValueError(
        f"X contains {what} in row {row}, column {shown(column)}, expected numbers{remedy}"
    )


def numbering_column(flat: np.ndarray) -> int | None:
    """Return the column that seems to number the cases of `flat`, (n_cases, n_columns), or None.

    It has a different whole number in each row. They rise or fall from row to row, or no other
    column has only whole numbers. Fewer than ten rows may be so by chance.
    """
    n_cases, n_columns = flat.shape
    if n_cases < 10 or n_columns < 3:
        return None
    whole = np.flatnonzero((flat == np.round(flat)).all(axis=0))  # columns of whole numbers
    for column in whole[:10]:
        steps = np.sign(np.diff(flat[:, column]))
        in_order = steps.all() and abs(steps.sum()) == n_cases - 1
        is_only_one = len(whole) == 1 and len(np.unique(flat[:, column])) == n_cases
        if in_order or is_only_one:
            return int(column)
    return None


def overlapping_row(X: np.ndarray) -> int | None:
    """Return an index of signals, (n_cases, n_channels, d), whose end begins the next signal.

    At least half of the compared rows have such ends, of four time points or more that are not all
    equal: they are windows of one recording that overlap. Otherwise this returns None.
    """
    rows = range(min(len(X) - 1, _COMPARED_ROWS))
    found = [row for row in rows if _overlap(X[row], X[row + 1])]
    return found[0] if len(found) >= 2 and 2 * len(found) >= len(rows) else None


def _overlap(one: np.ndarray, following: np.ndarray) -> bool:
    """Return whether the end of a signal, (n_channels, d), is the beginning of the following one.

    Ends of less than four time points do not count, nor those whose time points are all equal.
    """
    d = one.shape[1]
    changes = (following != following[:, :1]).any(axis=0)
    if not changes.any():
        return False
    change = int(changes.argmax())
    begins = np.arange(1, d - max(3, change))
    # Few candidates are left for the comparison of all points, also in signals that repeat.
    for point in (0, change, *(1 << k for k in range(d.bit_length() - 1))):
        inside = np.minimum(begins + point, d - 1)
        same = (one[:, inside] == following[:, [point]]).all(axis=0)
        begins = begins[same | (begins + point >= d)]
    return any(np.array_equal(one[:, begin:], following[:, : d - begin]) for begin in begins)


def check_rows(X: Any, n: int) -> None:
    """Raise a ValueError if a table or an array of two axes has n columns, and not n rows."""
    shape = np.array(getattr(X, "shape", ()))
    if len(shape) == 2 and shape[0] != n and shape[1] == n:
        raise ValueError(
            f"X has {shape[0]} rows and {shape[1]} columns, and y has {n} entries, expected a row "
            f"for each signal: give X.transpose()"
        )


def check_padding(X: np.ndarray) -> None:
    """Raise a ValueError if the only NaN of signals are at their ends, in all channels alike.

    X has the shape (n_cases, n_channels, n_timepoints).
    """
    if X.ndim != 3 or X.dtype.kind != "f" or not (missing := np.isnan(X)).any():
        return
    missing_points = missing.any(axis=1)
    first_missing = missing_points.argmax(axis=1)  # 0 also where nothing is missing
    is_padded = missing_points[:, -1]
    tails = is_padded[:, None] & (np.arange(X.shape[2]) >= first_missing[:, None])
    if (missing == tails[:, None]).all() and (first_missing[is_padded] > 0).all():
        raise ValueError(
            "X has NaN at the ends of signals, as signals of different lengths are padded, "
            "expected a list of signals (n_channels, n_timepoints_i) without them, such as "
            "[x[:, ~np.isnan(x).any(axis=0)] for x in X]"
        )


def looks_transposed(X: np.ndarray) -> bool:
    """Return whether signals look like (n_cases, n_timepoints, n_channels).

    They do if they change less from channel to channel than from time point to time point. The
    ratio of mean squared differences, channels over time points, is 1.4 to 140 for sets of aeon,
    and 1 for noise.
    """
    if X.shape[2:] == (1,):
        return X.shape[1] > 1
    if X.ndim > 3 or X.shape[1] <= X.shape[2] or X.size < 1000:
        return False
    squares = [np.mean(np.diff(X / (np.abs(X).max() or 1.0), axis=k) ** 2) for k in (1, 2)]
    return bool(squares[0] < 0.6 * squares[1])


def check_index_order(named_values: Iterable[tuple[str, object]]) -> None:
    """Raise a ValueError if two objects of pandas have the same index in different orders.

    Objects come with their names in messages.
    """
    firsts = dict[frozenset[tuple[Any, int]], tuple[str, Any]]()
    last: Any = None
    for name, values in named_values:
        index: Any = getattr(values, "index", None)
        if not hasattr(index, "equals") or (last is not None and index.equals(last)):
            continue
        last = index
        entries = frozenset(Counter(index).items())
        first_name, first_index = firsts.setdefault(entries, (name, index))
        if not index.equals(first_index):
            raise ValueError(
                f"{name} has the index of {first_name} in another order: give "
                f"{name}.loc[{first_name}.index]"
            )


def check_no_label_column(X: Any, **arguments: Any) -> None:
    """Raise a ValueError if a table of signals has a column of labels, weights or groups too.

    Such a column has the name of an argument, a series or a column of a table. Names that are no
    texts, such as numbers, may be alike by chance: then the values are compared too.
    """
    if not is_table(X):
        return
    names = list(X.columns)
    for argument, values in arguments.items():
        several = is_table(values)
        for name in values.columns if several else [getattr(values, "name", None)]:
            if name is None or name not in names:
                continue
            values_of_argument = values[name] if several else values
            if isinstance(name, str) or np.array_equal(
                np.asarray(X[name]), np.asarray(values_of_argument)
            ):
                column = names[names.index(name)]  # a series may have its name as a scalar of NumPy
                raise ValueError(
                    f"X has the column {shown(column)}, which is {argument}, expected time points "
                    f"alone: drop it from X"
                )


def continued_row(X: np.ndarray) -> int | None:
    """Return an index of signals, (n_cases, n_channels, d), whose end the next signal continues.

    In at least a quarter of the compared rows, and at least eight, the next signal begins nearer to
    where the signal ends than any other does: they are windows of one recording, one after the
    other. If signals come in any order, this is so for about one row; if they come in order of
    their classes, for about one row of each class. Otherwise this returns None.
    """
    compared = X[:_COMPARED_ROWS]
    points = np.concatenate([compared[:-1, :, -1], compared[:, :, 0]])
    points = np.ldexp(points, -exponents_of(points))  # squares of their deviations are in float64
    ends, starts = points[: len(compared) - 1], points[len(compared) - 1 :]
    deviations = points.std(axis=0)
    varies = deviations > 0
    distances = np.zeros((len(ends), len(starts)))
    channels = ends.T[varies], starts.T[varies], deviations[varies]
    for end, start, deviation in zip(*channels, strict=True):
        distances += np.abs(end[:, None] - start) / deviation
    rows = np.arange(len(ends))
    to_next = distances[rows, rows + 1]
    distances[rows, rows] = distances[rows, rows + 1] = np.inf
    continued = np.flatnonzero(to_next < distances.min(axis=1))
    return int(continued[0]) if len(continued) >= max(8, len(rows) / 4) else None
