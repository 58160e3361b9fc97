"""Signals, labels, weights and groups as scikit-learn's users give them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from ...checks.labels import check_groups, check_known, check_labels, distinct
from ...checks.messages import SignalsWarning, shown, warn
from ...checks.values import (
    check_batch,
    check_positive_integer,
    check_rectangular,
    check_shape,
    check_unmasked,
)
from .cases import Cases, different_cases
from .signals import Signals, exponents_of
from .tables import (
    check_cells,
    check_columns,
    check_container,
    check_index_order,
    check_no_label_column,
    check_numbers,
    check_padding,
    check_rows,
    continued_row,
    is_table,
    looks_transposed,
    numbering_column,
    overlapping_row,
)

_SHAPE = "(n_cases, n_channels, n_timepoints)"

_LEAST_WEIGHT = 1e-12
"""Weight above which a signal counts, in units of the largest: sums lose most digits of less."""

_LABELS_AS_TEXTS = {
    bytes: "[label.decode() for label in y]",
    Enum: "[label.name for label in y]",
}
"""Expressions that make texts of labels that scikit-learn cannot score, by their kinds."""


class GivenSignals(NamedTuple):
    """Signals that a user gave, checked, and what is known of their columns."""

    signals: Signals
    columns: list[Hashable] | None
    """The names of a table's columns; None for arrays and lists."""
    has_columns: bool
    """Whether each time point was a column, of a table or of an array of two axes."""

    @property
    def shape(self) -> tuple[int, int | tuple[int, int] | None]:
        """Number of channels, and of time points: None for a list, two numbers for images."""
        axes = self.signals.shape[2:] if isinstance(self.signals, np.ndarray) else (None,)
        return len(self.signals[0]), axes[0] if len(axes) == 1 else axes


def read_signals(X: object, *, n_channels: int | None = None, images: bool = False) -> GivenSignals:
    """Return `X` as signals.

    Columns of tables and of arrays of two axes are points of `n_channels` channels, one channel
    after the other. With `images`, X may have four axes.
    """
    check_unmasked(X, "X", _SHAPE)
    columns = check_columns(X) if is_table(X) else None
    if not columns and getattr(X, "ndim", 3 if isinstance(X, (list, tuple)) else 2) >= 3:
        return GivenSignals(_as_signals(X, images), None, has_columns=False)
    if columns is None:
        check_numbers(X, "X")
    flat = check_array(X, dtype=np.float64, order="C", ensure_all_finite=False, input_name="X")
    if not columns:
        check_padding(flat[:, None])
    check_cells(flat, X)
    return GivenSignals(split_channels(flat, n_channels, "X"), columns, has_columns=True)


def read_training_signals(
    X: object, *, n_channels: int | None = None, images: bool = False
) -> GivenSignals:
    """Return `X` as `read_signals` does, for a fit.

    Warn of a column that seems to number the signals, and of axes that seem exchanged.
    """
    given = read_signals(X, n_channels=n_channels, images=images)
    _warn_of_shape(given)
    return given


def split_channels(flat: np.ndarray, n_channels: int | None, name: str) -> np.ndarray:
    """Return flat signals, one channel after the other, as (n_cases, n_channels, n_timepoints)."""
    n_channels = 1 if n_channels is None else n_channels
    if flat.shape[1] % check_positive_integer(n_channels, "n_channels"):
        raise ValueError(
            f"{name} has {flat.shape[1]} columns, expected a multiple of n_channels = {n_channels}"
        )
    return flat.reshape(len(flat), n_channels, -1)


def check_shape_of_fit(given: GivenSignals, fitted: tuple[object, object]) -> None:
    """Raise a ValueError unless signals have the `GivenSignals.shape` of those of a fit.

    After a fit to a list, signals of any length are accepted.
    """
    shape = given.shape
    if shape[0] != fitted[0] or fitted[1] not in (None, shape[1]):
        swapped = "; X.swapaxes(1, 2) has these axes" if shape[::-1] == fitted else ""
        raise ValueError(
            f"X has signals of {shape[0]} channels × {shape[1] or 'several'} time points, expected "
            f"{fitted[0]} channels × {fitted[1] or 'several'} time points as in fit{swapped}"
        )


def check_columns_of_fit(given: GivenSignals, fitted: list[Hashable] | None) -> None:
    """Raise a ValueError if tables, the given one and that of a fit, have different columns."""
    columns = given.columns
    if columns and fitted and columns != fitted:
        if list(map(str, columns)) == list(map(str, fitted)):
            raise ValueError(
                f"X has the column {shown(columns[0])}, expected {shown(fitted[0])} as in fit: "
                f"give the names of columns as numbers in both tables, or as texts in both"
            )
        raise ValueError("X has columns of other names, or in another order, than in fit")


def check_first_columns_of_fit(given: GivenSignals, fitted: list[Hashable] | None) -> None:
    """Raise a ValueError if a table does not have the first columns of the table of a fit."""
    columns = given.columns
    if columns and fitted and columns != fitted[: len(columns)]:
        raise ValueError(
            f"X has the columns {shown(columns)}, expected the first of those in fit, in their "
            f"order: {shown(fitted[: len(columns)])}"
        )


def _warn_of_shape(given: GivenSignals) -> None:
    """Warn of a column that seems to number the signals, and of signals that look transposed."""
    signals, columns, has_columns = given
    if not isinstance(signals, np.ndarray):
        return
    flat = signals.reshape(len(signals), -1)
    if has_columns and (place := numbering_column(flat)) is not None:
        warn(
            f"column {shown(columns[place] if columns else place)} of X has a different whole "
            f"number in each row, and is read as a time point: drop it if it numbers signals",
            SignalsWarning,
        )
    if looks_transposed(signals):
        warn(
            f"X of shape {signals.shape} looks transposed, expected {_SHAPE}, which "
            f"X.swapaxes(1, 2) has",
            SignalsWarning,
        )


def _as_signals(X: object, images: bool) -> Signals:
    """Return `X` as checked signals: an array of three axes, or a list for different lengths."""
    if isinstance(X, (list, tuple)):
        if any(map(is_table, X)):
            raise ValueError(
                "X is a list of tables, expected arrays (n_channels, n_timepoints): with a row for "
                "each time point, [x.to_numpy().T for x in X]"
            )
        check_index_order(_parts(X, "X"))
        X = [check_rectangular(x, f"X[{k}]", "numbers") for k, x in enumerate(X)]
        if len({x.shape for x in X}) > 1:
            return list(check_batch([np.atleast_2d(x) for x in X], "X"))
    array = check_rectangular(X, "X", _SHAPE)
    check_numbers(array, "X")
    if array.dtype == object:
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"X has objects, expected numbers {_SHAPE}: {error}") from None
    array = array[:, None] if array.ndim == 2 else array
    check_padding(array)
    return np.ascontiguousarray(check_batch(array, "X", images))


def _parts(X: Sequence[object], name: str) -> Iterator[tuple[str, object]]:
    """Yield the signals of a list with their names, and the channels of those that are lists."""
    for k, x in enumerate(X):
        if isinstance(x, (list, tuple)) and any(hasattr(part, "ndim") for part in x):
            yield from _parts(x, f"{name}[{k}]")
        else:
            yield f"{name}[{k}]", x


def _check_labels_or_targets(y: object) -> None:
    """Raise a ValueError if y is None, a masked array, or a table that is not in memory."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    check_unmasked(y, "y", "or labels, one a case,")
    check_container(y, "y")


def read_targets(y: ArrayLike) -> np.ndarray:
    """Return targets as finite numbers in float64, (n_signals,) or (n_signals, n_targets)."""
    _check_labels_or_targets(y)
    check_known(y, "y")
    check_numbers(y, "y")
    try:
        numbers: np.ndarray = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    except TypeError as refusal:
        raise ValueError(f"y has objects, expected numbers: {refusal}") from None
    return numbers


def read_labels(y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return the different labels of y, in order, and the index of each signal's label."""
    _check_labels_or_targets(y)
    labels = check_labels(y, "y")
    if labels.shape[1:] == (1,):
        warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape of "
            "y to (n_samples, ), for example using ravel().",
            DataConversionWarning,
        )
    labels = column_or_1d(labels)
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y contains NaN or infinity, expected a label for each signal")
    if labels.dtype.kind in "OS" and not all(isinstance(label, str) for label in labels):
        kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
        remedies = [text for kind, text in _LABELS_AS_TEXTS.items() if isinstance(labels[0], kind)]
        raise ValueError(
            f"Unknown label type: y has objects of kinds {kinds}, which scikit-learn cannot score, "
            f"expected numbers or texts: give {(*remedies, 'y.astype(int) or y.astype(str)')[0]}"
        )
    check_classification_targets(labels)
    return distinct(labels, "y")


def _warn_of_windows(signals: np.ndarray) -> None:
    """Warn of signals that overlap with the signal before, or continue it."""
    remedy = "scores are too optimistic unless groups names each signal's recording, or part of it"
    what = "as windows of one recording do"
    if (row := overlapping_row(signals)) is not None:
        warn(f"signals {row} and {row + 1} of X overlap, {what}: {remedy}", SignalsWarning)
    elif (row := continued_row(signals)) is not None:
        found = f"signals {row} and {row + 1} of X, and others, continue each other"
        warn(f"{found}, {what}: {remedy}", SignalsWarning)


def _warn_of_target(
    signals: np.ndarray, y_numbers: np.ndarray, y: object, columns: list[Hashable] | None
) -> None:
    """Warn of a time point that equals a target in all signals, or the index of the class."""
    labels, targets = np.asarray(y).reshape(len(y_numbers), -1), [*y_numbers.T]
    if labels.dtype.kind in "biuf":
        targets += [*labels.T]
    for target in targets:
        is_equal = (signals == target[:, None, None]).all(axis=0)
        if is_equal.any() and (target != target[0]).any():
            place = int(np.flatnonzero(is_equal)[0])  # all channels one after the other
            channel, point = divmod(place, signals.shape[2])
            what = f"time point {point} of channel {channel}"
            if columns:
                what = f"column {shown(columns[place])}"
            warn(
                f"{what} of X equals y in all signals: drop it if it is what y was read from",
                SignalsWarning,
            )
            return


def read_cases(
    X: object,
    y: object,
    y_numbers: np.ndarray,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    is_used: bool | np.ndarray = True,
) -> tuple[GivenSignals, Cases]:
    """Return all signals that were given to a fit, and their different cases.

    Cases have the `y_numbers`, (n_signals, n_columns): indices of labels, or targets. They were
    read from `y`, which serves only error messages and warnings. Signals have a case where
    `is_used` is true, by default all.
    """
    _check_together(X, y=y, sample_weight=sample_weight, groups=groups)
    check_rows(X, len(y_numbers))
    given = read_training_signals(X)
    check_consistent_length(given.signals, y_numbers)
    if isinstance(given.signals, np.ndarray):
        _warn_of_target(given.signals, y_numbers, y, given.columns)
        if groups is None:
            _warn_of_windows(given.signals)
    weights = _read_weights(sample_weight, is_used, len(y_numbers))
    group_numbers = None if groups is None else _read_groups(groups, weights)
    cases = different_cases(given.signals, y_numbers, weights, group_numbers)
    if cases.n_groups == 1:  # `check_groups` has refused a single group
        raise ValueError("X has n_samples=1 up to copies, expected two signals that differ")
    return given, cases


def _check_together(X: object, **arguments: object) -> None:
    """Raise a ValueError if X or other arguments of a fit are no containers, or do not match."""
    for name, values in {"X": X, **arguments}.items():
        check_container(values, name)
    check_index_order({"X": X, **arguments}.items())
    check_no_label_column(X, **arguments)


def _read_weights(
    sample_weight: ArrayLike | None, is_used: bool | np.ndarray, n: int
) -> np.ndarray:
    """Return the weights of n signals, in some unit; they are 0 for signals without a case."""
    given = np.ones(n) if sample_weight is None else sample_weight
    weights = np.where(is_used, check_shape(given, "sample_weight", (n,)), 0.0)
    if weights.min() < 0:
        raise ValueError(f"sample_weight has {weights.min():.3g}, expected numbers of at least 0")
    if not weights.any():
        raise ValueError("sample_weight or class_weight is zero for all, expected some above")
    weights = np.ldexp(weights, -exponents_of(weights))
    return np.where(weights > _LEAST_WEIGHT * weights.max(), weights, 0.0)


def _read_groups(groups: ArrayLike, weights: np.ndarray) -> np.ndarray:
    """Return the numbers of the groups of signals, (n_signals,); 0 for signals of weight 0."""
    counted = np.flatnonzero(weights)
    numbers = np.zeros(len(weights), dtype=np.intp)
    numbers[counted] = check_groups(groups, len(weights), counted)
    return numbers
