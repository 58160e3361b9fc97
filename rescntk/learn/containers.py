"""Signals from arrays, lists and tables of any library."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Set
from typing import Any

import numpy as np

from ..validation import check_depth, check_signals, check_unmasked, is_sequence
from .missing import IMPUTE, Levels, complete
from .views import Signals

RESIZE = "scipy.signal.resample, aeon's unequal_length.Resizer or sktime's TSInterpolator"
"""Tools that give signals one length, for messages."""

SHAPES = "(n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)"
"""Accepted shapes, for messages."""

_ALIKE = 0.6
"""Ratio of mean squared differences, of neighbouring channels to neighbouring time points, below
which signals look transposed. Raising it warns more often. Measured on the sets of aeon of several
channels: 1.4 to 140 for their first 2 to 39 points, .008 to .7 where transposed; 1 for noise."""

_FEWEST = 1000
"""Least numbers of signals that can look transposed. Raising it warns less often. Chosen: the ratio
above has a standard deviation of .1 for 1000 numbers of noise."""


def as_signals(
    X: Any,
    name: str,
    *,
    lists: bool,
    images: bool = False,
    missing: str | None = None,
    levels: Levels = None,
) -> Signals | None:
    """Return `X` as checked signals; None if it has fewer than three axes.

    With `lists`, signals may differ in length, and are a list. With `images`, X may have four axes.
    `missing` and `levels` are as for `complete`.
    """
    X = _of_tables(X, name)
    shape = getattr(X, "shape", None)
    has_axes = is_sequence(X) or hasattr(X, "__array__")
    if shape == () or (shape is None and (isinstance(X, Mapping | Set) or not has_axes)):
        raise ValueError(f"{name} is {reprlib.repr(X)}, expected {SHAPES}")
    if isinstance(X, (list, tuple)) and not X:
        raise ValueError(f"{name} is empty, expected {SHAPES}")
    if isinstance(X, np.ndarray) and X.dtype == object:
        X = X.tolist()  # an array of arrays
    check_unmasked(X, name, SHAPES, IMPUTE)
    different = set()
    for i, case in enumerate(X if isinstance(X, (list, tuple)) else ()):
        try:
            different.add(np.shape(case))
        except ValueError:
            raise ValueError(
                f"{name} has channels of unequal length (first in case {i}), expected one "
                f"length: pad, truncate or resample them ({RESIZE})"
            ) from None
    shapes = sorted(different)
    if len(shapes) > 1:
        if len({len(shape) for shape in shapes}) > 1:
            raise ValueError(f"{name} has cases of shapes {shapes}, expected {SHAPES}")
        channels = sorted({shape[0] for shape in shapes if len(shape) == 2})
        if len(channels) > 1:
            one = len({shape[1] for shape in shapes}) == 1
            remedy = f": signals (n_timepoints, n_channels) are [x.T for x in {name}]" * one
            raise ValueError(
                f"{name} has signals of {channels} channels, expected one number{remedy}"
            )
        if not lists or len(shapes[0]) > 2:
            lengths = [shape[-1] for shape in shapes]
            what = f"signals of {min(lengths)} to {max(lengths)} time points, expected one length"
            if len(shapes[0]) > 2:
                what = f"images of shapes {shapes[0]} to {shapes[-1]}, expected one shape"
            raise ValueError(f"{name} has {what}: pad, truncate or resample them ({RESIZE})")
        arrays = (_numbers(x, f"{name}[{i}]") for i, x in enumerate(X))
        copies = complete([np.array(x, np.float64, ndmin=2) for x in arrays], name, missing, levels)
        return [check_signals(x[None], f"{name}[{i}]")[0] for i, x in enumerate(copies)]
    axes = 1 + len(shapes[0]) if shapes else getattr(X, "ndim", 1)
    if axes < 3:
        return None
    array = _numbers(X, name)
    if axes > 3 + images:
        raise ValueError(f"{name} has shape {array.shape}, expected {SHAPES}")
    return check_signals(complete(array, name, missing, levels), name, array.ndim == 4)


def split_channels(
    flat: np.ndarray, n_channels: int, name: str, missing: str | None = None, levels: Levels = None
) -> np.ndarray:
    """Return flat signals, one channel after the other, as (n_cases, n_channels, n_timepoints)."""
    channels = check_depth(n_channels, "n_channels")
    if flat.shape[1] % channels:
        raise ValueError(
            f"{name} has {flat.shape[1]} columns, expected a multiple of n_channels = "
            f"{channels}: one channel after the other"
        )
    signals = flat.reshape(len(flat), channels, flat.shape[1] // channels)
    return check_signals(complete(signals, name, missing, levels), name)


def looks_transposed(X: Signals) -> bool:
    """Return whether signals look like (n_cases, n_timepoints, n_channels).

    They have more channels than time points, and neighbouring channels are much more alike than
    neighbouring time points. With one time point, they are much more alike than any two channels.
    """
    if not isinstance(X, np.ndarray) or X.ndim != 3 or X.shape[1] <= X.shape[2]:
        return False
    if X.size < _FEWEST:
        return False
    scaled = X / (np.abs(X).max() or 1.0)
    along_channels = np.mean(np.diff(scaled, axis=1) ** 2)
    if X.shape[2] > 1:
        return bool(along_channels < _ALIKE * np.mean(np.diff(scaled, axis=2) ** 2))
    return bool(along_channels < _ALIKE * 2 * np.mean(scaled.var(axis=1)))  # of any two channels


def _of_tables(X: Any, name: str) -> Any:
    """Return the signals of pandas' tables as lists; all else unchanged.

    A table may have rows of two indices, case and time, and a column for each channel; or a row for
    each case, with whole signals in its cells. Or a list has a table for each case.
    """
    if isinstance(X, (list, tuple)) and any(_is_table(x) for x in X):
        first = names_of_channels(X)
        for k, x in enumerate(X):
            check_channels(names_of_channels([x]), first, f"{name}[{k}]", f"{name}[0]")
        return [_values(x.sort_index()) if _is_table(x) else x for x in X]
    if not _is_table(X):
        return X
    levels = getattr(X.index, "nlevels", 1)
    if levels > 2:
        raise ValueError(f"{name} has rows of {levels} indices, expected two: case and time")
    if levels == 2:
        if not X.index.is_unique:
            twice = ", ".join(map(str, X.index[X.index.duplicated()][0]))
            raise ValueError(
                f"{name} has the row ({twice}) twice, expected one for a case and time"
            )
        return [_values(part.sort_index()) for _, part in X.groupby(level=0, sort=False)]
    cell = X.iloc[0, 0] if 0 not in X.shape else ""
    if isinstance(cell, str) or np.ndim(cell) == 0:
        return X
    return [[np.asarray(cell) for cell in row] for row in X.to_numpy()]


def names_of_channels(X: Any) -> list[str] | None:
    """Return the names of the channels of a table, or of the first of a list; None without names.

    Columns are channels; of columns with several levels the last level has the names.
    """
    table = X[0] if isinstance(X, (list, tuple)) and len(X) else X
    if not _is_table(table):
        return None
    names = [label[-1] if isinstance(label, tuple) else label for label in table.columns]
    nested = 0 not in table.shape and np.ndim(table.iloc[0, 0]) > 0
    channels = table is not X or getattr(X.index, "nlevels", 1) == 2 or nested
    named = channels and all(isinstance(label, str) for label in names)
    return names if named else None


def _is_table(X: Any) -> bool:
    return hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2


def _values(table: Any) -> np.ndarray:
    """Return a table of a row for each time point as a signal, (n_channels, n_timepoints)."""
    try:
        return table.to_numpy(dtype=np.float64, na_value=np.nan).T
    except (TypeError, ValueError):
        return table.to_numpy().T  # refused later, with its place


def _numbers(X: Any, name: str) -> np.ndarray:
    """Return `X` as a NumPy array; None becomes NaN."""
    try:
        array = np.asarray(X)
        return array.astype(np.float64) if array.dtype == object else array
    except (TypeError, ValueError, RuntimeError) as error:
        kind = f"{type(X).__module__}.{type(X).__qualname__}"
        raise ValueError(
            f"{name} is a {kind} that cannot be read as an array of numbers ({error}), expected "
            f"a NumPy array {SHAPES}: convert it first, as by X.detach().cpu().numpy() (torch) "
            f"or cupy.asnumpy(X)"
        ) from None


def check_channels(
    given: list[str] | None, expected: list[str] | None, what: str, owner: str
) -> None:
    """Raise a ValueError for channels with other names, or in another order, than the owner's."""
    if given and expected and given != expected:
        raise ValueError(
            f"{what} has the channels {', '.join(given)}, expected the channels of {owner}: "
            f"{', '.join(expected)}, in this order"
        )
