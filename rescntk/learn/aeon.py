"""The classifiers and the regressor as estimators of aeon.

Each has the parameters of the estimator of `rescntk.learn` with its name. That one does the work,
and is the fitted attribute `model_`. By aeon's convention `n_jobs`, where there is one, is 1 by
default. `fit_predict` and `fit_predict_proba` of the classifier and the regressor return left-out
results, without further fits. `fit`, and these two methods of the classifier, take `sample_weight`
and `groups` by keyword.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self

try:
    from aeon.classification.base import BaseClassifier
    from aeon.classification.early_classification import BaseEarlyClassifier
    from aeon.regression.base import BaseRegressor
except ModuleNotFoundError:
    raise ImportError("rescntk.learn.aeon needs aeon: pip install 'rescntk[datasets]'") from None

import numpy as np
from numpy.typing import ArrayLike

from . import classifier, regressor
from .early import early_classifier
from .early.stopping import Progress, harmonic_mean
from .ensemble.settings import Settings
from .reading.class_targets import ClassWeight
from .reading.signals import Signals

__all__ = ["EarlyClassifier", "ResidualKernelClassifier", "ResidualKernelRegressor"]


class _FitWithOptions:
    """`fit` with weights and groups of signals, which aeon's own does not pass on to `_fit`."""

    _model_class: ClassVar[Any]
    """The class of the estimator that does the work."""

    __options: Mapping[str, Any] = MappingProxyType({})
    """The weights and groups of a `fit` that is running. aeon resets a model in its `fit`, but for
    attributes with two underscores in a row, as this one has on the model."""

    def fit(
        self,
        X: object,
        y: object,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the model to signals, as aeon does.

        Parameters
        ----------
        X, y
            Signals and labels or targets, as aeon takes them.
        sample_weight, groups : array, (n_cases,), optional
            As for the estimator of `rescntk.learn`.

        Returns
        -------
        Self
            The model itself.
        """
        options = {"sample_weight": sample_weight, "groups": groups}
        self.__options = {name: value for name, value in options.items() if value is not None}
        try:
            fitted: Self = super().fit(X, y)  # type: ignore[misc]
        finally:
            del self.__options
        return fitted

    def _fit(self, X: Signals, y: np.ndarray, **options: Any) -> Self:
        """Fit `model_` with some options, by default those of a `fit` that is running."""
        model = self._model_class(**self.get_params(deep=False))  # type: ignore[attr-defined]
        self.model_ = model.fit(X, y, **(options or self.__options))
        return self


@dataclass(eq=False, repr=False)
class _Wrapper(_FitWithOptions, Settings):
    """The base of the classifier and the regressor, with the parameters that they share."""

    _: KW_ONLY
    n_jobs: int | None = 1

    _tags: ClassVar = {
        "capability:multivariate": True,
        "capability:multithreading": True,
        "capability:unequal_length": True,
        "capability:train_estimate": True,
        "X_inner_type": ["np-list", "numpy3D"],
        "algorithm_type": "distance",
    }

    def __post_init__(self) -> None:
        super(Settings, self).__init__()  # aeon's constructor

    def _predict(self, X: Signals) -> np.ndarray:
        return np.asarray(self.model_.predict(X))


@dataclass(eq=False, repr=False)
class _ClassifierWrapper(_Wrapper):
    """`_Wrapper` with the parameter that only the classifier has."""

    class_weight: ClassWeight = field(default=None, kw_only=True)


class ResidualKernelClassifier(_ClassifierWrapper, BaseClassifier):
    """`rescntk.learn.ResidualKernelClassifier` as an aeon classifier.

    Examples
    --------
    >>> from aeon.datasets import load_unit_test
    >>> from rescntk.learn.aeon import ResidualKernelClassifier
    >>> model = ResidualKernelClassifier(views="fast").fit(*load_unit_test("train"))
    >>> model.score(*load_unit_test("test")) > 0.8
    True
    """

    _model_class = classifier.ResidualKernelClassifier

    def _predict_proba(self, X: Signals) -> np.ndarray:
        return self._with_absent_classes(self.model_.predict_proba(X))

    def _with_absent_classes(self, proba: np.ndarray) -> np.ndarray:
        """Return probabilities with columns of 0 for classes that had no weight in the fit."""
        spread = np.zeros((len(proba), self.n_classes_))
        spread[:, np.searchsorted(self.classes_, self.model_.classes_)] = proba
        return spread

    def _fit_predict_proba(self, X: Signals, y: np.ndarray, **options: Any) -> np.ndarray:
        """Return left-out probabilities, and those of `predict_proba` for signals without them.

        `options` are `sample_weight` and `groups`.
        """
        proba = self._fit(X, y, **options).model_.left_out_proba_
        filled = np.where(np.isnan(proba), self.model_.predict_proba(X), proba)
        return self._with_absent_classes(filled)

    def _fit_predict(self, X: Signals, y: np.ndarray, **options: Any) -> np.ndarray:
        most_probable = self._fit_predict_proba(X, y, **options).argmax(axis=1)
        return np.asarray(self.classes_[most_probable])


class ResidualKernelRegressor(_Wrapper, BaseRegressor):
    """`rescntk.learn.ResidualKernelRegressor` as an aeon regressor.

    Examples
    --------
    >>> from aeon.datasets import load_covid_3month
    >>> from rescntk.learn.aeon import ResidualKernelRegressor
    >>> X, y = load_covid_3month("train")
    >>> ResidualKernelRegressor(views="fast").fit(X[:100], y[:100]).predict(X[100:102]).shape
    (2,)
    """

    _model_class = regressor.ResidualKernelRegressor

    def _fit_predict(self, X: Signals, y: np.ndarray) -> np.ndarray:
        return np.asarray(self._fit(X, y).model_.left_out_prediction_)


class EarlyClassifier(_FitWithOptions, BaseEarlyClassifier):
    """`rescntk.learn.EarlyClassifier` as an early classifier of aeon.

    `predict` and `predict_proba` take the first time points of signals, from the first prefix on,
    and return labels and decisions. A decision says whether the label is final; labels that are not
    are -1, or "-1" if labels are texts. `update_predict` and `update_predict_proba` take more time
    points of the signals that had no decision, in the same order. A row of `state_info` has five
    whole numbers: the index of the last prefix, its number of time points, the index of the label
    in `classes_`, the number of prefixes in a row with this label, and 1 for a decision. `score`
    returns the harmonic mean of accuracy and 1 − earliness, the accuracy and the earliness.

    Examples
    --------
    >>> from aeon.datasets import load_unit_test
    >>> from rescntk.learn.aeon import EarlyClassifier
    >>> model = EarlyClassifier(n_prefixes=3, random_state=0).fit(*load_unit_test("train"))
    >>> X, y = load_unit_test("test")
    >>> labels, decisions = model.predict(X[:, :, :8])
    >>> labels, decisions = model.update_predict(X[~decisions])
    >>> decisions.all()
    np.True_
    """

    _tags: ClassVar = {"capability:multivariate": True}
    _model_class = early_classifier.EarlyClassifier

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_prefixes: int = 10,
        error: float | None = None,
        delay_cost: float | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator, self.n_prefixes = estimator, n_prefixes
        self.error, self.delay_cost, self.random_state = error, delay_cost, random_state
        super().__init__()

    def _predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._labels(self.model_._follow(self.model_._read_prefix(X)))

    def _update_predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._labels(self._continue(X))

    def _predict_proba(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._proba(self.model_._follow(self.model_._read_prefix(X)))

    def _update_predict_proba(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._proba(self._continue(X))

    def _score(self, X: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
        end = self._store(self.model_._follow(self.model_._read(X)))
        accuracy = np.mean(self.model_.classes_[end.class_indices] == y)
        earliness = np.mean(self.model_.prefixes_[end.last]) / self.model_.n_timepoints_
        return harmonic_mean(accuracy, earliness), accuracy, earliness

    def _continue(self, X: np.ndarray) -> Progress:
        """Return the progress of signals without a decision, which have more time points now."""
        signals = self.model_._read_prefix(X)
        last, times, class_indices, streaks, _ = self.state_info[self.state_info[:, 4] == 0].T
        if len(signals) != len(last):
            raise ValueError(
                f"X has {len(signals)} signals, expected the {len(last)} without a decision so "
                f"far, in the same order: reset_state_info() begins anew"
            )
        if signals.shape[2] <= times.max():
            raise ValueError(
                f"X has {signals.shape[2]} time points, expected more than {times.max()}, the "
                f"prefix that was seen: reset_state_info() begins anew"
            )
        blank = Progress.begin(len(last), len(self.model_.classes_))
        return self.model_._follow(
            signals, replace(blank, last=last, class_indices=class_indices, streaks=streaks)
        )

    def _store(self, progress: Progress) -> Progress:
        """Store the progress of signals in `state_info`, and return it."""
        times = self.model_.prefixes_[progress.last]
        columns = progress.last, times, progress.class_indices, progress.streaks, progress.final
        self.state_info = np.stack(columns, axis=1).astype(int)
        return progress

    def _labels(self, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
        """Return labels, which are -1 where they are not final, and whether they are final."""
        progress = self._store(progress)
        labels = self.model_.classes_[progress.class_indices]
        none = "-1" if isinstance(self.model_.classes_[0], str) else -1
        return np.where(progress.final, labels, none), progress.final

    def _proba(self, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
        """Return probabilities, which are -1 where labels are not final, and whether they are."""
        progress = self._store(progress)
        return np.where(progress.final[:, None], progress.proba, -1.0), progress.final
