"""The base of estimators of signals: tags, pickles, a fit in one step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.base import BaseEstimator

from .._version import __version__
from ..checks.messages import warn

if TYPE_CHECKING:
    from sklearn.utils import Tags


EstimatorT = TypeVar("EstimatorT", bound=BaseEstimator)


class SignalEstimator(BaseEstimator):
    """An estimator that takes signals of two or three axes."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_rescntk_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        version = state.pop("_rescntk_version", "(unknown)")
        if version.split(".")[:2] != __version__.split(".")[:2]:
            warn(
                f"this {type(self).__name__} is of rescntk {version}, and rescntk {__version__} is "
                "here: it may predict other values, or none; fit it again",
            )
        super().__setstate__(state)


@contextmanager
def fitting(estimator: EstimatorT) -> Iterator[EstimatorT]:
    """Yield a copy to be fitted; at the end the estimator takes all attributes of it, in one step.

    A fit that ends early, by Ctrl-C or an error, leaves the estimator as it was before.
    """
    fresh = copy(estimator)
    yield fresh
    estimator.__dict__ = vars(fresh)
