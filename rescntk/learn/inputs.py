"""Signals, labels, weights and groups as scikit-learn's users give them."""

from __future__ import annotations

import warnings
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.utils.validation import column_or_1d, validate_data

from ..validation import check_depth, check_shape, check_signals, check_unmasked

Signals: TypeAlias = np.ndarray | list[np.ndarray]
"""Signals (n_cases, n_channels, n_timepoints), or a list of (n_channels, n_timepoints_i)."""

SHAPES = (
    "(n_cases, n_channels, n_timepoints), (n_cases, n_timepoints), or a list of arrays "
    "(n_channels, n_timepoints_i)"
)
"""Accepted shapes, for messages."""

_RANGE = 1e12
"""Largest ratio of two weights above 0; a larger one leaves the light cases no digits."""

_ALIKE, _FEWEST = 0.6, 1000
"""Signals of more channels than time points look transposed, if neighbouring channels differ by
less than this ratio of what neighbouring time points do: mean squares over 1000 numbers or more.
Sets of aeon have 1.4 to 140, transposed .008 to .7, noise has 1."""


def take(X: Signals, cases: np.ndarray) -> Signals:
    """Return copies of some signals, by their indices."""
    return X[cases] if isinstance(X, np.ndarray) else [X[i].copy() for i in cases]


def read_signals(estimator: Any, X: Any, *, reset: bool, n_channels: int = 1) -> Signals:
    """Return `X` as signals; with `reset` the estimator remembers their shape, else it is checked.

    Tables and arrays of two axes go through scikit-learn's `validate_data`, which remembers and
    compares the names of columns. Names that are no texts are compared here. Their columns are
    `n_channels`, one after the other.
    """
    columns = None
    if _is_frame(X):
        _check_columns(X)
        columns = list(X.columns)
    if columns is not None or np.ndim(X if hasattr(X, "ndim") else 0) == 2 or _is_flat(X):
        flat = validate_data(estimator, X, reset=reset, dtype=np.float64)
        signals: Signals = split_channels(flat, n_channels, "X")
    else:
        signals = as_signals(X, "X")
    channels = len(signals[0])
    length = signals.shape[2] if isinstance(signals, np.ndarray) else None
    if reset:
        estimator.n_channels_, estimator.n_timepoints_ = channels, length
        estimator._columns = columns
        if channels > 1 and isinstance(signals, np.ndarray) and _looks_transposed(signals):
            warnings.warn(
                f"X has {channels} channels of {length} time point{'s' * (length != 1)} and looks "
                f"transposed: expected {SHAPES}. Signals (n_cases, n_timepoints, n_channels) are "
                f"X.swapaxes(1, 2)",
                stacklevel=4,
            )
        return signals
    expected = estimator.n_channels_, estimator.n_timepoints_
    if channels != expected[0] or expected[1] not in (None, length):
        given = f"{channels} channels × {'several' if length is None else length} time points"
        remedy = ""
        if (length, channels) == expected:
            remedy = "; X looks transposed, X.swapaxes(1, 2) has these axes"
        elif channels == expected[0]:
            remedy = "; a fit on a list of signals of different lengths can predict any length"
        raise ValueError(
            f"X has signals of {given}, expected {expected[0]} channels × {expected[1]} time "
            f"points as in fit{remedy}"
        )
    known = getattr(estimator, "_columns", None)
    if columns is not None and known is not None and columns != known:
        raise ValueError(
            "X has columns of other names, or in another order, than in fit: X[columns] with the "
            "columns of fit has them in order"
        )
    return signals


def as_signals(X: Any, name: str) -> Signals:
    """Return `X` as checked signals: an array of three axes, or a list for different lengths."""
    check_unmasked(X, name, SHAPES)
    if isinstance(X, (list, tuple)):
        for k, case in enumerate(X):
            if hasattr(case, "columns"):
                kind = f"{type(case).__module__.partition('.')[0]}.{type(case).__name__}"
                raise ValueError(
                    f"{name}[{k}] is a {kind}, expected an array (n_channels, n_timepoints): with "
                    f"a row for each time point, [x.to_numpy().T for x in {name}]"
                )
        cases = [_numbers(case, f"{name}[{k}]") for k, case in enumerate(X)]
        ranks = {case.ndim for case in cases}
        if cases and ranks <= {1, 2} and len({case.shape for case in cases}) > 1:
            signals = [check_signals(np.atleast_2d(case)[None], f"{name}[{k}]")[0]
                       for k, case in enumerate(cases)]  # fmt: skip
            channels = sorted({len(x) for x in signals})
            if len(channels) > 1:
                raise ValueError(
                    f"{name} has signals of {channels} channels, expected one number: signals "
                    f"(n_timepoints, n_channels) are [x.T for x in {name}]"
                )
            return [x.copy() for x in signals]
    array = _numbers(X, name)
    if array.ndim == 2:
        array = array[:, None]
    if array.ndim != 3:
        single = "; a single signal is X[:1], not X[0]" if array.ndim == 1 else ""
        raise ValueError(f"{name} has shape {array.shape}, expected {SHAPES}{single}")
    return np.asarray(check_signals(array, name))


def split_channels(flat: np.ndarray, n_channels: int, name: str) -> np.ndarray:
    """Return flat signals, one channel after the other, as (n_cases, n_channels, n_timepoints)."""
    if flat.shape[1] % check_depth(n_channels, "n_channels"):
        raise ValueError(
            f"{name} has {flat.shape[1]} columns, expected a multiple of n_channels = "
            f"{n_channels}: one channel after the other"
        )
    return flat.reshape(len(flat), n_channels, -1)


def _numbers(X: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(X)
        array = array.astype(np.float64) if array.dtype == object else array
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{name} is a {type(X).__name__} that is no array of numbers ({error}), expected "
            f"{SHAPES}"
        ) from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {array.dtype}, expected real numbers {SHAPES}")
    return array


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns") and hasattr(X, "shape")


def _is_flat(X: Any) -> bool:
    """Return whether X is no array of three axes, nor a list of signals: scikit-learn reads it."""
    if isinstance(X, (list, tuple)):
        return not any(hasattr(case, "columns") or np.ndim(case[0] if len(case) else 0)
                       for case in X if hasattr(case, "__len__")) and (
            len({np.shape(case) for case in X}) <= 1)  # fmt: skip
    return not hasattr(X, "ndim") or X.ndim < 2


def _check_columns(X: Any) -> None:
    """Raise a ValueError for a table of several levels, or with a column that has no numbers."""
    index = getattr(X, "index", None)
    if getattr(X.columns, "nlevels", 1) > 1:
        raise ValueError(
            "X has columns of two levels, expected one: with the channel first, the signals are "
            "X.to_numpy().reshape(len(X), n_channels, -1)"
        )
    if getattr(index, "nlevels", 1) > 1:
        raise ValueError(
            "X has rows of two levels, expected a row for each signal: with the case first and "
            "the time second, the signals are "
            "X.to_numpy().reshape(n_cases, n_timepoints, -1).swapaxes(1, 2)"
        )
    for name in X.columns:
        column = X[name]
        values = np.asarray(column)
        try:
            kind = values.astype(np.float64).dtype.kind if values.dtype.kind == "O" else ""
        except (TypeError, ValueError):
            kind = "O"
        if values.dtype.kind not in "biufO" or kind == "O":
            raise ValueError(
                f"X has the column {name!r} of dtype {getattr(column, 'dtype', values.dtype)}, "
                f"expected numbers: leave it out, X.drop(columns=[{name!r}])"
            )


def _looks_transposed(X: np.ndarray) -> bool:
    """Return whether signals look like (n_cases, n_timepoints, n_channels)."""
    if X.shape[2] == 1:
        return True
    if X.shape[1] <= X.shape[2] or X.size < _FEWEST:
        return False
    scaled = X / (np.abs(X).max() or 1.0)
    squares = [np.mean(np.diff(scaled, axis=k) ** 2) for k in (1, 2)]
    return bool(squares[0] < _ALIKE * squares[1])


def check_order(**given: Any) -> None:
    """Raise a ValueError if pandas' tables have the same index in different orders."""
    first: tuple[str, Any] | None = None
    for name, values in given.items():
        index = getattr(values, "index", None)
        if index is None or not hasattr(index, "equals"):
            continue
        if first is None:
            first = name, index
        elif not index.equals(first[1]) and sorted(index) == sorted(first[1]):
            raise ValueError(
                f"{name} has the index of {first[0]} in another order: give "
                f"{name}.loc[{first[0]}.index]"
            )


def check_given(y: Any) -> None:
    """Raise a ValueError if y is None or a masked array."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    check_unmasked(y, "y", "or labels, one a case,")


def read_labels(y: Any, name: str = "y") -> np.ndarray:
    """Return labels (n_cases,) of a kind that NumPy sorts; members of an Enum stay as they are."""
    check_given(y)
    array = np.asarray(y)  # NumPy's StringDType has no place in scikit-learn's checks
    labels = column_or_1d(np.array(array.tolist()) if array.dtype.kind == "T" else y, warn=True)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y contains NaN or infinity, expected a label for each signal")
    return labels


def distinct(labels: np.ndarray, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the different labels in order, and the place of each label among them."""
    if labels.dtype == object and all(isinstance(label, Enum) for label in labels):
        members = sorted(set(labels), key=lambda label: (type(label).__name__, label.name))
        values = np.empty(len(members), dtype=object)
        values[:] = members
        return values, np.array([members.index(label) for label in labels])
    try:
        values, places = np.unique(labels, return_inverse=True)
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels.flat}))
        raise ValueError(f"{name} has labels of kinds {kinds}, expected one kind") from None
    return values, places.reshape(-1)


def positive_weights(
    sample_weight: Any, n: int, name: str = "sample_weight"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of n cases that have positive weight, and weights: 1 by default."""
    if sample_weight is None:
        return np.arange(n), np.ones(n)
    weights = check_shape(sample_weight, name, f"({n},)", lambda s: s == (n,))
    kept = np.flatnonzero(weights)
    if not len(kept):
        raise ValueError(f"{name} has only zero weights, expected some above zero")
    least, most = weights.min(), weights.max()
    if least < 0 or most / _RANGE > weights[kept].min():
        raise ValueError(
            f"{name} has values from {least:.3g} to {most:.3g}, expected numbers of at least 0, "
            f"and those above 0 within a factor of {_RANGE:.0e}"
        )
    return kept, weights[kept] / weights[kept].mean()


class Cases(NamedTuple):
    """Signals with targets, weights and groups, each different case once, in a fixed order."""

    signals: Signals
    targets: np.ndarray
    """(n_cases, n_outputs)"""
    weights: np.ndarray
    """Sums over copies, (n_cases,), of mean 1."""
    groups: np.ndarray | None
    """Number of each case's group, (n_cases,)."""


def distinct_cases(
    X: Signals, targets: np.ndarray, weights: np.ndarray, groups: np.ndarray | None
) -> Cases:
    """Return the different cases: a case that is left out must not have a copy that is not.

    They are sorted by their numbers, so that the order of the signals plays no part.
    """
    contents = np.empty(len(X), dtype=object)
    contents[:] = [(np.asarray(x, np.float64) + 0.0).tobytes() for x in X]  # 0.0 for -0.0
    columns = [np.unique(contents, return_inverse=True)[1], *targets.T]
    columns += [] if groups is None else [groups]
    rows = np.column_stack(columns)
    _, first, places = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    sums = np.bincount(places.reshape(-1), weights)
    groups = None if groups is None else groups[first]
    return Cases(take(X, first), targets[first], sums / sums.mean(), groups)
