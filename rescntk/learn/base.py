"""The base of estimators of signals: tags, pickles, the shape of a fit, a fit in one step."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from .._version import __version__
from ..checks.messages import warn
from .reading.inputs import (
    GivenSignals,
    check_columns_of_fit,
    check_shape_of_fit,
    read_signals,
)
from .reading.signals import Signals

if TYPE_CHECKING:
    from sklearn.utils import Tags


EstimatorT = TypeVar("EstimatorT", bound=BaseEstimator)


class SignalEstimator(BaseEstimator):
    """An estimator that takes signals of two or three axes.

    `fit` of a subclass calls `_remember`, and other methods read their signals by `_read`.
    """

    n_channels_: int
    n_timepoints_: int | tuple[int, int] | None
    _columns: list[Hashable] | None
    """The names of the columns of a table that `fit` was given."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def _remember(self, X: object, given: GivenSignals) -> None:
        """Remember the shape and the columns of X, the signals of `fit`, which `_read` compares."""
        self.n_channels_, self.n_timepoints_ = given.shape
        self._columns = given.columns
        # scikit-learn sets two attributes for tables: those of an earlier fit are deleted.
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        if given.has_columns:
            validate_data(self, X, skip_check_array=True)

    def _read(self, X: object) -> Signals:
        """Return X as checked signals, of the shape and the columns of those in `fit`."""
        check_is_fitted(self, "n_channels_")
        return self._checked(X, read_signals(X))

    def _checked(self, X: object, given: GivenSignals) -> Signals:
        """Return the signals of X, or raise a ValueError if those in `fit` had another shape."""
        if given.has_columns:
            validate_data(self, X, reset=False, skip_check_array=True)
        check_shape_of_fit(given, (self.n_channels_, self.n_timepoints_))
        check_columns_of_fit(given, self._columns)
        return given.signals

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_rescntk_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        version = state.pop("_rescntk_version", "(unknown)")
        if version.split(".")[:2] != __version__.split(".")[:2]:
            warn(
                f"this {type(self).__name__} was saved by rescntk {version}, and is loaded by "
                f"rescntk {__version__}: its predictions may differ or fail; fit it again",
            )
        super().__setstate__(state)


@contextmanager
def fitting(estimator: EstimatorT) -> Iterator[EstimatorT]:
    """Yield a copy of an estimator to be fitted, whose attributes the estimator takes at the end.

    It takes all of them in one step: a fit that ends early, by Ctrl-C or an error, leaves the
    estimator as it was before.
    """
    fresh = copy(estimator)
    yield fresh
    estimator.__dict__ = vars(fresh)
