"""What estimators accept as signals: three axes, or two for signals of one channel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ..signals import check_signals

RESIZE = "aeon.transformations.collection.unequal_length.Resizer"
IMPUTE = "aeon.transformations.collection.SimpleImputer"


def read_signals(estimator: Any, X: Any, *, reset: bool) -> np.ndarray:
    """Return `X` as signals (n_cases, n_channels, n_timepoints), or say what is wrong with it.

    Parameters
    ----------
    estimator : estimator
        For whom. It remembers ``n_channels_`` and ``n_timepoints_``.
    X : array-like
        (n_cases, n_channels, n_timepoints), or (n_cases, n_timepoints): one channel.
    reset : bool
        Whether these signals are fitted; otherwise they must be of the shape remembered.

    Raises
    ------
    ValueError
        For unequal lengths, missing values and other shapes, with what to do about it.
    """
    signals = three_axes(X, "X")
    if signals is None:
        if reset:
            _forget(estimator)
        signals = validate_data(estimator, X, reset=reset, dtype=np.float64)[:, None, :]
    elif reset:
        _forget(estimator)
    channels, length = signals.shape[1:]
    if reset:
        estimator.n_channels_, estimator.n_timepoints_ = channels, length
    elif (channels, length) != (estimator.n_channels_, estimator.n_timepoints_):
        raise ValueError(
            f"X has {_say(channels, length)}, expected {type(estimator).__name__} to get the "
            f"same as in fit: {_say(estimator.n_channels_, estimator.n_timepoints_)}; signals "
            f"of other lengths can be resampled ({RESIZE})"
        )
    return signals


def is_flat(X: Any) -> bool:
    """Whether `X`, which `read_signals` takes, has two axes: signals of one channel."""
    return three_axes(X, "X") is None


def three_axes(X: Any, name: str) -> np.ndarray | None:
    """Return `X` checked if it has three axes, None if it is anything else than signals."""
    shapes = _shapes_of_cases(X)
    if shapes and len(shapes) > 1 and len({len(shape) for shape in shapes}) == 1:
        channels = sorted({shape[0] for shape in shapes if len(shape) == 2})
        if len(channels) > 1:
            raise ValueError(f"{name} has signals of {channels} channels, expected one number")
        lengths = sorted({shape[-1] for shape in shapes if shape})
        raise ValueError(
            f"{name} has signals of {lengths[0]} to {lengths[-1]} time points, expected one "
            f"length: pad, truncate or resample them (for example with {RESIZE})"
        )
    if not hasattr(X, "ndim"):
        if not shapes or len(next(iter(shapes))) != 2:
            return None
        X = np.asarray(X)
    if X.ndim == 3 and type(X).__module__.partition(".")[0] == "numpy":
        if X.dtype.kind == "f" and not np.isfinite(X).all():
            case = int(np.argmin(np.isfinite(X).all(axis=(1, 2))))
            raise ValueError(
                f"{name} contains NaN or infinity (first in case {case}), expected finite "
                f"numbers: fill in missing values first (for example with {IMPUTE})"
            )
        return check_signals(X.astype(np.float64) if X.dtype.kind == "O" else X, name)
    return None


def _shapes_of_cases(X: Any) -> set[tuple[int, ...]]:
    """Return the shapes of the cases of a list, a tuple or an array of objects."""
    if isinstance(X, (list, tuple)) or (isinstance(X, np.ndarray) and X.dtype == object):
        try:
            return {np.shape(case) for case in X}
        except ValueError:  # a case that is ragged itself: NumPy will say so
            return set()
    return set()


def _forget(estimator: Any) -> None:
    """Drop what scikit-learn remembers of the columns of an earlier fit."""
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(estimator, name):
            delattr(estimator, name)


def _say(channels: int, length: int) -> str:
    return f"signals of {channels} channel{'s' * (channels != 1)} × {length} time points"
