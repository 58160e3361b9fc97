"""Signals in any of their forms, their weights, and cases without repetitions."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from sklearn import exceptions
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from .._version import __version__
from ..validation import check_depth, check_shape, check_signals, check_unmasked
from .views import Signals, take

RESIZE = "scipy.signal.resample, aeon's unequal_length.Resizer or sktime's TSInterpolator"
"""Tools that give signals one length, for messages."""

IMPUTE = "numpy.interp, aeon's collection.SimpleImputer or sktime's Imputer"
"""Tools that fill in missing values, for messages."""

_SHAPES = "(n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)"
"""Accepted shapes, for messages."""

_RANGE = 1e12
"""Largest ratio of two weights above 0. A larger ratio leaves fewer digits to the light signals: at
1e14 leave-one-out errors are of no use, at 1e30 decisions are NaN (16 signals, 12 time points)."""

_VERSION = "_rescntk_version"
"""Name of the version in the state of an estimator that is written."""

F = TypeVar("F", bound=Callable[..., Any])


def atomic(fit: F) -> F:
    """Decorate a method that fits an estimator: all fitted attributes are set at once, at its end.

    The method runs on a copy of the estimator without fitted attributes, whose names end in "_".
    A fit that is interrupted or refused therefore leaves the estimator as it was.
    """

    @wraps(fit)
    def run(self: Any, *arguments: Any, **options: Any) -> Any:
        fresh = copy.copy(self)
        kept = (name for name in vars(self) if name.startswith("_") or not name.endswith("_"))
        fresh.__dict__ = {name: vars(self)[name] for name in kept}
        result = fit(fresh, *arguments, **options)
        self.__dict__ = vars(fresh)
        return self if result is fresh else result

    return cast(F, run)


class InconsistentVersionWarning(exceptions.InconsistentVersionWarning):
    """Warning that an estimator comes from a file of another version of rescntk."""

    def __str__(self) -> str:
        return (
            f"this {self.estimator_name} was written by version {self.original_sklearn_version} of "
            f"rescntk, and is read by version {self.current_sklearn_version}: it may fail or give "
            "other results, fit it again"
        )


class SignalEstimator(BaseEstimator):
    """An estimator that takes signals of three axes. Its files have the version of rescntk."""

    def __getstate__(self) -> dict[str, Any]:
        return dict(super().__getstate__(), **{_VERSION: __version__})

    def __setstate__(self, state: dict[str, Any]) -> None:
        written = state.pop(_VERSION, "unknown")
        if written != __version__:
            warning = InconsistentVersionWarning(
                estimator_name=type(self).__name__,
                current_sklearn_version=__version__,
                original_sklearn_version=written,
            )
            warnings.warn(warning, stacklevel=2)
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def read_signals(
    estimator: Any, X: Any, *, reset: bool, n_channels: int = 1, images: bool = False
) -> Any:
    """Return `X` as signals, or raise a ValueError with a remedy.

    X has three axes; or two, (n_cases, n_channels · n_timepoints), with one channel after the
    other; or is a list of signals of different lengths; or, with `images`, has four axes. With
    `reset`, in an `atomic` fit, the estimator remembers ``n_channels_`` and ``n_timepoints_``: None
    for different lengths, (height, width) for images. Elsewhere signals must have this shape.
    """
    lists = reset or estimator.n_timepoints_ is None
    signals: Any = as_signals(X, "X", lists=lists, images=images)
    if signals is None:
        options = {"reset": reset, "dtype": np.float64, "ensure_all_finite": False}
        try:
            flat = validate_data(estimator, X, **options)
        except ValueError as error:
            columns = np.shape(X)[1:]
            if reset or columns in ((), (getattr(estimator, "n_features_in_", None),)):
                raise
            message = f"{error}: signals of other lengths can be resampled ({RESIZE})"
            raise ValueError(message) from None
        signals = split_channels(flat, n_channels, "X")
    channels, length = len(signals[0]), getattr(signals, "shape", (0, 0, None))[2:]
    length = length if len(length) == 2 else length[0]
    if reset:
        estimator.n_channels_, estimator.n_timepoints_ = channels, length
    elif channels != estimator.n_channels_ or estimator.n_timepoints_ not in (length, None):
        raise ValueError(
            f"X has {_in_words(channels, length)}, expected {type(estimator).__name__} to get the "
            f"same as in fit: {_in_words(estimator.n_channels_, estimator.n_timepoints_)}; "
            f"signals of other lengths can be resampled ({RESIZE})"
        )
    return signals


def _in_words(channels: int, length: Any) -> str:
    what, unit = ("images", "pixels") if isinstance(length, tuple) else ("signals", "time points")
    number = "any number of" if length is None else length
    return f"{what} of {channels} channel{'s' * (channels != 1)} × {number} {unit}"


def as_signals(X: Any, name: str, *, lists: bool, images: bool = False) -> Signals | None:
    """Return `X` as checked signals; None if it has fewer than three axes.

    With `lists`, signals may differ in length, and are a list. With `images`, X may have four axes.
    """
    if hasattr(X, "iloc") and np.ndim(X) == 2 and 0 not in X.shape:
        cell = X.iloc[0, 0]
        if not isinstance(cell, str) and np.ndim(cell) > 0:
            raise ValueError(
                f"{name} is a nested table, whose cells hold whole signals, expected an array "
                f"{_SHAPES}: convert it first (sktime.datatypes.convert_to(X, 'numpy3D') or "
                f"np.array([list(row) for row in X.values]))"
            )
    if isinstance(X, np.ndarray) and X.dtype == object:
        X = X.tolist()  # an array of arrays
    check_unmasked(X, name, _SHAPES, IMPUTE)
    found = set()
    for i, case in enumerate(X if isinstance(X, (list, tuple)) else ()):
        try:
            found.add(np.shape(case))
        except ValueError:
            raise ValueError(
                f"{name} has channels of unequal length (first in case {i}), expected one "
                f"length: pad, truncate or resample them ({RESIZE})"
            ) from None
    shapes = sorted(found)
    if len(shapes) > 1:
        if len({len(shape) for shape in shapes}) > 1:
            raise ValueError(f"{name} has cases of shapes {shapes}, expected {_SHAPES}")
        channels = sorted({shape[0] for shape in shapes if len(shape) == 2})
        if len(channels) > 1:
            raise ValueError(f"{name} has signals of {channels} channels, expected one number")
        if not lists or len(shapes[0]) > 2:
            lengths = [shape[-1] for shape in shapes]
            what = f"signals of {min(lengths)} to {max(lengths)} time points, expected one length"
            if len(shapes[0]) > 2:
                what = f"images of shapes {shapes[0]} to {shapes[-1]}, expected one shape"
            raise ValueError(f"{name} has {what}: pad, truncate or resample them ({RESIZE})")
        arrays = (_numbers(x, f"{name}[{i}]") for i, x in enumerate(X))
        copies = [np.array(x, np.float64, ndmin=2) for x in arrays]
        return [_checked(x[None], name, i)[0] for i, x in enumerate(copies)]
    axes = 1 + len(shapes[0]) if shapes else getattr(X, "ndim", 1)
    if axes < 3:
        return None
    array = _numbers(X, name)
    if axes > 3 + images:
        raise ValueError(f"{name} has shape {array.shape}, expected {_SHAPES}")
    return _checked(array, name)


def split_channels(flat: np.ndarray, n_channels: int, name: str) -> np.ndarray:
    """Return flat signals, one channel after the other, as (n_cases, n_channels, n_timepoints)."""
    channels = check_depth(n_channels, "n_channels")
    if flat.shape[1] % channels:
        raise ValueError(
            f"{name} has {flat.shape[1]} columns, expected a multiple of n_channels = "
            f"{channels}: one channel after the other"
        )
    return _checked(flat.reshape(len(flat), channels, -1), name)


def _numbers(X: Any, name: str) -> np.ndarray:
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


def _checked(array: np.ndarray, name: str, case: int | None = None) -> np.ndarray:
    """Return signals in float64; the refusal of missing values names the first case."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        good = np.isfinite(array).reshape(len(array), -1).all(axis=1)
        first = int(np.argmin(good)) if case is None else case
        raise ValueError(
            f"{name} contains NaN or infinity (first in case {first}), expected finite numbers: "
            f"fill in missing values first ({IMPUTE})"
        )
    return check_signals(array, name if case is None else f"{name}[{case}]", array.ndim == 4)


class DistinctCases(NamedTuple):
    """Signals with their targets and weights, each different pair of signal and target once.

    A case has the sum of its copies' weights: leaving it out leaves out all copies. Cases are
    sorted by digests of the signals, then by targets: the order of the signals plays no part.
    """

    signals: Signals
    targets: np.ndarray
    """(n_cases, n_outputs)"""
    weights: np.ndarray
    """(n_cases,): positive, with mean 1."""
    places: np.ndarray
    """Place among the cases of each signal given, of weight above 0."""
    groups: np.ndarray | None = None
    """Number of each case's group, (n_cases,). Copies in two groups are two cases."""


def find_cases(
    X: Signals, targets: np.ndarray, weights: np.ndarray, groups: np.ndarray | None = None
) -> DistinctCases:
    """Return the different cases among signals X with targets (n_signals, n_outputs)."""
    contents = (repr((x.shape, x.dtype.str)).encode() + x.tobytes() for x in X)
    digests = np.array([hashlib.blake2b(data, digest_size=16).digest() for data in contents])
    # Among equal signals the targets decide, so that no unit of the targets changes the order.
    rows = np.column_stack([np.unique(digests, return_inverse=True)[1], targets])
    if groups is not None:
        groups = np.unique(groups, return_inverse=True)[1].reshape(-1)
        rows = np.column_stack([rows, groups])
    _, first, places = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    places = places.reshape(-1)
    # Divided by a power of two, so that sums are finite and digits stay.
    sums = np.bincount(places, np.ldexp(weights, -np.frexp(weights.max())[1]))
    groups = None if groups is None else groups[first]
    return DistinctCases(take(X, first), targets[first], sums / sums.mean(), places, groups)


def of_positive_weight(
    X: Signals, y: Any, sample_weight: Any
) -> tuple[Signals, np.ndarray, np.ndarray]:
    """Return the signals, targets and weights of positive weight; weights are 1 by default."""
    if sample_weight is None:
        return X, y, np.ones(len(X))
    n = len(X)
    weights = check_shape(sample_weight, "sample_weight", f"({n},)", lambda s: s == (n,))
    least, most = weights.min(), weights.max()
    if least < 0 or most == 0:
        raise ValueError(
            f"sample_weight has values from {least:.3g} to {most:.3g}, expected numbers of at "
            f"least 0, and not all zero"
        )
    kept = np.flatnonzero(weights)
    least = weights[kept].min()
    if most / _RANGE > least:
        raise ValueError(
            f"sample_weight has values from {least:.3g} to {most:.3g} above 0, expected a ratio "
            f"of at most {_RANGE:.0e} (a weight of 0 leaves a signal out)"
        )
    return take(X, kept), y[kept], weights[kept]
