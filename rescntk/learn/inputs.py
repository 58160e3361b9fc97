"""Signals of the shape of `fit`, their weights, and cases without repetitions."""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from sklearn import exceptions
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from .._version import __version__
from .containers import check_channels
from ..progress import warn
from ..validation import check_choice, check_shape, is_sequence
from .containers import (
    RESIZE,
    SHAPES,
    as_signals,
    looks_transposed,
    names_of_channels,
    split_channels,
)
from .missing import INTERPOLATE, MISSING, channel_levels
from .views import Signals, take

_RANGE = 1e12
"""Largest ratio of two weights above 0. A larger ratio leaves fewer digits to the light signals: at
1e14 leave-one-out errors are of no use, at 1e30 decisions are NaN (16 signals, 12 time points)."""

_BLOCKS = 10
"""Blocks of the file that are left out in turn. Raising it leaves smaller blocks out, which hide
less. Chosen by custom, not measured."""

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
        tags.input_tags.allow_nan = getattr(self, "missing", None) == INTERPOLATE
        return tags


def read_signals(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    n_channels: int = 1,
    images: bool = False,
    sample_weight: Any = None,
) -> Any:
    """Return `X` as signals, or raise a ValueError with a remedy.

    X has three axes; or two, (n_cases, n_channels · n_timepoints), with one channel after the
    other; or is a list of signals of different lengths; or, with `images`, has four axes; or is a
    table of pandas. Missing values are treated as ``estimator.missing`` says. With `reset`, in an
    `atomic` fit, the estimator remembers ``n_channels_`` and ``n_timepoints_``: None for different
    lengths, (height, width) for images. Elsewhere signals must have this shape. With `reset`, dead
    channels get weighted means of the others.
    """
    missing = check_choice(estimator.missing, "missing", MISSING)
    levels: Any = partial(_levels, sample_weight=sample_weight)
    if not reset:
        levels = getattr(estimator, "channel_levels_", None)
    signals: Any = as_signals(X, "X", lists=True, images=images, missing=missing, levels=levels)
    if signals is None:
        options = {"reset": reset, "dtype": np.float64, "ensure_all_finite": False}
        try:
            flat = validate_data(estimator, X, **options)
        except ValueError as error:
            columns = np.shape(X)[1:]
            if np.ndim(X) == 1 and len(X):
                raise ValueError(
                    f"X has shape {np.shape(X)}, expected {SHAPES}. Reshape your data: a single "
                    f"signal is X[:1], not X[0]"
                ) from None
            if str(error).startswith("could not convert"):
                raise ValueError(f"X has texts ({error}), expected numbers {SHAPES}") from None
            if reset or columns in ((), (getattr(estimator, "n_features_in_", None),)):
                raise
            message = f"{error}: signals of other lengths can be resampled ({RESIZE})"
            raise ValueError(message) from None
        signals = split_channels(flat, n_channels, "X", missing, levels)
    channels, length = len(signals[0]), getattr(signals, "shape", (0, 0, None))[2:]
    length = length if len(length) == 2 else length[0]
    if reset:
        estimator.n_channels_, estimator.n_timepoints_ = channels, length
        sizes = [x.shape[-1] for x in signals]
        estimator._shortest, estimator._longest = min(sizes), max(sizes)
        if missing == INTERPOLATE:
            estimator.channel_levels_ = levels(signals, "X")
        estimator.channel_names_ = _channel_names(estimator, X, channels)
        if looks_transposed(signals):
            warn(
                f"X has {_in_words(channels, length)} and looks transposed: expected {SHAPES}; "
                f"signals (n_cases, n_timepoints, n_channels) are X.swapaxes(1, 2)",
            )
    elif channels != estimator.n_channels_ or estimator.n_timepoints_ not in (length, None):
        lengths = [x.shape[1] for x in signals] if length is None else ()
        given = f"{min(lengths)} to {max(lengths)}" if lengths else length
        raise ValueError(
            f"X has {_in_words(channels, given)}, expected {type(estimator).__name__} to get the "
            f"same as in fit: {_in_words(estimator.n_channels_, estimator.n_timepoints_)}"
            f"{_remedy(estimator, X, channels, length)}"
        )
    if not reset:
        check_channels(names_of_channels(X), estimator.channel_names_, "X", "fit")
    return signals


def _levels(X: Signals, name: str, sample_weight: Any) -> np.ndarray:
    kept, weights = positive_weights(sample_weight, len(X))
    return channel_levels(take(X, kept), name, weights)


def _channel_names(estimator: Any, X: Any, n_channels: int) -> list[str] | None:
    """Return the names of the channels: the estimator's ``channel_names``, or a table's."""
    given = getattr(estimator, "channel_names", None)
    if given is None:
        return names_of_channels(X)
    names = list(given) if is_sequence(given) else [given]
    texts = all(isinstance(name, str) for name in names)
    if not texts or len(set(names)) != n_channels or len(names) != n_channels:
        raise ValueError(
            f"channel_names is {given!r}, expected {n_channels} different texts, one a channel"
        )
    return names


def _remedy(estimator: Any, X: Any, channels: int, length: Any) -> str:
    """Return what to do with signals of a shape that differs from the shape of `fit`."""
    fitted, shape = (estimator.n_channels_, estimator.n_timepoints_), getattr(X, "shape", ())
    axes = fitted[1] if isinstance(fitted[1], tuple) else (fitted[1],)
    if shape[:1] == fitted[:1] and (shape[1:] == axes or (len(shape) == 2 and axes == (None,))):
        return "; a single signal is X[:1], not X[0]"
    if channels != fitted[0]:
        transposed = length == fitted[0] and fitted[1] in (channels, None)
        return "; X looks transposed, X.swapaxes(1, 2) has these axes" if transposed else ""
    if isinstance(length, tuple) or isinstance(fitted[1], tuple):
        return ""
    refit = ""
    if length is None:
        refit = "a fit on a list of signals that differ in length can predict any length, and "
    return f"; {refit}signals of other lengths can be resampled ({RESIZE})"


def _in_words(channels: int, length: Any) -> str:
    what, unit = ("images", "pixels") if isinstance(length, tuple) else ("signals", "time points")
    number = "any number of" if length is None else length
    return f"{what} of {channels} channel{'s' * (channels != 1)} × {number} {unit}"


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
    error_weights: np.ndarray
    """Weights of squared errors, (n_cases,), by which passes and penalties are chosen."""
    places: np.ndarray
    """Place among the cases of each signal given, of weight above 0."""
    blocks: np.ndarray
    """Number of each case's block of the file, (n_cases,): a tenth of each class, of the targets'
    sequence, or of the groups."""
    groups: np.ndarray | None = None
    """Number of each case's group, (n_cases,). Copies in two groups are two cases."""


def find_cases(
    X: Signals,
    targets: np.ndarray,
    weights: np.ndarray,
    groups: np.ndarray | None = None,
    *,
    classes: bool = False,
) -> DistinctCases:
    """Return the different cases among signals X with targets (n_signals, n_outputs).

    With `classes` the targets are labels, and each block of the file has a tenth of each class.
    """
    values = (np.asarray(x, dtype=np.float64) + 0.0 for x in X)  # 0.0 for -0.0
    contents = (repr((x.shape, x.dtype.str)).encode() + x.tobytes() for x in values)
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
    groups, targets = None if groups is None else groups[first], targets[first]
    blocks = _blocks_of_file(first, targets[:, 0] if classes else None, groups)
    weights = sums / sums.mean()
    return DistinctCases(
        signals=take(X, first),
        targets=targets,
        weights=weights,
        error_weights=weights,
        places=places,
        blocks=blocks,
        groups=groups,
    )


def _blocks_of_file(
    first: np.ndarray, labels: np.ndarray | None, groups: np.ndarray | None
) -> np.ndarray:
    """Return the number of each case's block, from 0 to 9, by its place in the file, (n_cases,).

    A class is cut into ten parts in the order of the file, so that files sorted by class have all
    classes in each block. Groups stay whole. Files that leave one block are cut without labels.
    """
    n, blocks = len(first), np.zeros(len(first), dtype=np.intp)
    if groups is not None:
        begin = np.full(groups.max() + 1, n)
        np.minimum.at(begin, groups, np.argsort(np.argsort(first)))
        first, labels = begin[groups], None
    for label in [None] if labels is None else np.unique(labels):
        members = np.arange(n) if label is None else np.flatnonzero(labels == label)
        before = np.searchsorted(np.sort(first[members]), first[members])
        blocks[members] = before * _BLOCKS // len(members)
    if labels is not None and blocks.max() == 0:
        return _blocks_of_file(first, None, groups)
    return blocks


def positive_weights(
    sample_weight: Any, n: int, name: str = "sample_weight"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of n signals that have positive weight, and weights: 1 by default."""
    if sample_weight is None:
        return np.arange(n), np.ones(n)
    weights = check_shape(sample_weight, name, f"({n},)", lambda s: s == (n,))
    least, most = weights.min(), weights.max()
    if least < 0 or most == 0:
        raise ValueError(
            f"{name} has values from {least:.3g} to {most:.3g}, expected numbers of at "
            f"least 0, and not all zero"
        )
    kept = np.flatnonzero(weights)
    least = weights[kept].min()
    if most / _RANGE > least:
        raise ValueError(
            f"{name} has values from {least:.3g} to {most:.3g} above 0, expected a ratio of at "
            f"most {_RANGE:.0e} (a weight of 0 leaves a signal out)"
        )
    return kept, weights[kept]
