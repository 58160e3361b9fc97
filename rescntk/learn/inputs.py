"""Reading of signals: arrays of three axes, of two axes for one channel, lists of signals."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ..validation import check_depth, check_signals, check_unmasked

RESIZE = "scipy.signal.resample, aeon's unequal_length.Resizer or sktime's TSInterpolator"
"""Tools that give signals one length, for messages."""

IMPUTE = "numpy.interp, aeon's collection.SimpleImputer or sktime's Imputer"
"""Tools that fill in missing values, for messages."""

UNNEST = "sktime.datatypes.convert_to(X, 'numpy3D') or np.array([list(row) for row in X.values])"
"""Ways from a nested table to an array, for messages."""

_SHAPES = "(n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)"
"""Accepted shapes, for messages."""


def read_signals(
    estimator: Any, X: Any, *, reset: bool, n_channels: int = 1, lists: bool = False
) -> Any:
    """Return `X` as signals, or say what is wrong with it.

    Parameters
    ----------
    estimator : estimator
        Reader of the signals. It remembers ``n_channels_`` and ``n_timepoints_``, which is None
        for signals of different lengths.
    X : array-like
        (n_cases, n_channels, n_timepoints); or (n_cases, n_channels · n_timepoints) with one
        channel after the other; or a list of signals of different lengths.
    reset : bool
        True in ``fit`` (an `atomic` method); False elsewhere, where signals must have the
        remembered shape.
    n_channels : int, default 1
        Number of channels in arrays of two axes.
    lists : bool, default False
        Whether signals may have different lengths.

    Returns
    -------
    ndarray, (n_cases, n_channels, n_timepoints), or list of ndarray, (n_channels, n_timepoints)

    Raises
    ------
    ValueError
        For missing values, masked arrays, tables of whole signals and other shapes, and for
        unequal lengths unless they are accepted; with a remedy.
    """
    lists = lists and (reset or estimator.n_timepoints_ is None)
    signals: Any = signals_of_cases(X, "X") if lists else None
    if signals is None:
        signals = three_axes(X, "X")
    if signals is None:
        signals = split_channels(_read_flat(estimator, X, reset), n_channels, "X")
    channels, length = len(signals[0]), getattr(signals, "shape", (0, 0, None))[2]
    if reset:
        estimator.n_channels_, estimator.n_timepoints_ = channels, length
    elif channels != estimator.n_channels_ or estimator.n_timepoints_ not in (length, None):
        raise ValueError(
            f"X has {_say(channels, length)}, expected {type(estimator).__name__} to get the "
            f"same as in fit: {_say(estimator.n_channels_, estimator.n_timepoints_)}; signals "
            f"of other lengths can be resampled ({RESIZE})"
        )
    return signals


def signals_of_cases(X: Any, name: str) -> list[np.ndarray] | None:
    """Return a list of signals of different lengths, checked; None for anything else."""
    _refuse_nested(X, name)
    X = _as_list(X)
    shapes = _shapes_of_cases(X, name)
    axes, channels = {len(shape) for shape in shapes}, {shape[:-1] for shape in shapes}
    if len(shapes) < 2 or axes not in ({1}, {2}) or len(channels) > 1:
        return None
    check_unmasked(X, name, _SHAPES, IMPUTE)
    signals = []
    for i, case in enumerate(X):
        signal = np.atleast_2d(_as_numbers(case, f"{name}[{i}]")).astype(np.float64)
        if not np.isfinite(signal).all():
            raise _missing(name, i)
        signals.append(check_signals(signal[None], f"{name}[{i}]")[0])
    return signals


def is_flat(X: Any) -> bool:
    """Return whether `X`, in a form that `read_signals` takes, has two axes: one channel."""
    return signals_of_cases(X, "X") is None and _count_axes(_as_list(X), "X") < 3


def three_axes(X: Any, name: str) -> np.ndarray | None:
    """Return `X` as checked signals if it has three axes, None if it has fewer axes."""
    _refuse_nested(X, name)
    X = _as_list(X)
    check_unmasked(X, name, _SHAPES, IMPUTE)
    axes = _count_axes(X, name)
    if axes < 3:
        return None
    array = _as_numbers(X, name)
    if axes > 3:
        raise ValueError(f"{name} has shape {array.shape}, expected {_SHAPES}")
    _check_finite(array, name)
    return check_signals(array, name)


def split_channels(flat: np.ndarray, n_channels: int, name: str) -> np.ndarray:
    """Return flat signals, one channel after the other, as (n_cases, n_channels, n_timepoints)."""
    channels = check_depth(n_channels, "n_channels")
    _check_finite(flat, name)
    if flat.shape[1] % channels:
        raise ValueError(
            f"{name} has {flat.shape[1]} columns, expected a multiple of n_channels = "
            f"{channels}: one channel after the other"
        )
    return flat.reshape(len(flat), channels, -1)


def _read_flat(estimator: Any, X: Any, reset: bool) -> np.ndarray:
    """Return a table as scikit-learn reads it; a refusal of another length gets a remedy."""
    options = {"reset": reset, "dtype": np.float64, "ensure_all_finite": False}
    try:
        return validate_data(estimator, X, **options)
    except ValueError as error:
        if reset or _count_columns(X) in (None, getattr(estimator, "n_features_in_", None)):
            raise
        raise ValueError(f"{error}: signals of other lengths can be resampled ({RESIZE})") from None


def _count_columns(X: Any) -> int | None:
    """Return the number of columns of a table, None if `X` does not have two axes."""
    shape = np.shape(X)
    return shape[1] if len(shape) == 2 else None


def _as_list(X: Any) -> Any:
    """Return an array of arrays as a list of arrays, anything else unchanged."""
    return X.tolist() if isinstance(X, np.ndarray) and X.dtype == object else X


def _count_axes(X: Any, name: str) -> int:
    """Return the number of axes; refuse a list whose cases differ in shape."""
    if hasattr(X, "ndim"):
        return int(X.ndim)
    shapes = _shapes_of_cases(X, name)
    if len(shapes) > 1:
        _refuse(shapes, name)
    return 1 + len(next(iter(shapes), ()))


def _shapes_of_cases(X: Any, name: str) -> set[tuple[int, ...]]:
    """Return the shapes of the cases in a list or tuple, none for other containers."""
    shapes = set()
    if isinstance(X, (list, tuple)):
        for i, case in enumerate(X):
            try:
                shapes.add(tuple(np.shape(case)))
            except ValueError:
                raise ValueError(
                    f"{name} has channels of unequal length (first in case {i}), expected one "
                    f"length: pad, truncate or resample them ({RESIZE})"
                ) from None
    return shapes


def _refuse_nested(X: Any, name: str) -> None:
    """Raise a ValueError if `X` is a table (pandas) whose cells are whole signals."""
    if hasattr(X, "iloc") and np.ndim(X) == 2 and 0 not in X.shape:
        cell = X.iloc[0, 0]
        if not isinstance(cell, str) and np.ndim(cell) > 0:
            raise ValueError(
                f"{name} is a nested table, whose cells hold whole signals, expected an array "
                f"{_SHAPES}: convert it first ({UNNEST})"
            )


def _refuse(shapes: set[tuple[int, ...]], name: str) -> None:
    """Raise a ValueError that says in which axis the shapes of cases differ."""
    if len({len(shape) for shape in shapes}) > 1:
        raise ValueError(f"{name} has cases of shapes {sorted(shapes)}, expected {_SHAPES}")
    channels = sorted({shape[0] for shape in shapes if len(shape) == 2})
    if len(channels) > 1:
        raise ValueError(f"{name} has signals of {channels} channels, expected one number")
    lengths = sorted({shape[-1] for shape in shapes})
    raise ValueError(
        f"{name} has signals of {lengths[0]} to {lengths[-1]} time points, expected one "
        f"length: pad, truncate or resample them ({RESIZE})"
    )


def _as_numbers(X: Any, name: str) -> np.ndarray:
    """Return `X` as a NumPy array; None becomes NaN."""
    try:
        array = np.asarray(X)
        return array.astype(np.float64) if array.dtype == object else array
    except (TypeError, ValueError, RuntimeError) as error:
        kind = f"{type(X).__module__}.{type(X).__qualname__}"
        raise ValueError(
            f"{name} is a {kind} that cannot be read as an array of numbers ({error}), expected "
            f"a NumPy array {_SHAPES}: convert it first, as by X.detach().cpu().numpy() (torch) "
            f"or cupy.asnumpy(X)"
        ) from None


def _check_finite(array: np.ndarray, name: str) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        good = np.isfinite(array).reshape(len(array), -1).all(axis=1)
        raise _missing(name, int(np.argmin(good)))


def _missing(name: str, case: int) -> ValueError:
    """Return the refusal of signals that are not finite."""
    return ValueError(
        f"{name} contains NaN or infinity (first in case {case}), expected finite numbers: fill "
        f"in missing values first ({IMPUTE})"
    )


def _say(channels: int, length: int | None) -> str:
    number = "any number of" if length is None else length
    return f"signals of {channels} channel{'s' * (channels != 1)} × {number} time points"
