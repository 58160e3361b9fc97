"""The classifier and the regressor as aeon estimators.

Each has the parameters of the estimator of `rescntk.learn` that does its work: the fitted
attribute `model_`. By aeon's convention `n_jobs` is 1 by default.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Self

try:
    from aeon.classification.base import BaseClassifier
    from aeon.regression.base import BaseRegressor
except ModuleNotFoundError:
    raise ImportError("rescntk.learn.aeon needs aeon: pip install 'rescntk[datasets]'") from None

import numpy as np

from . import classifier, regressor
from .inputs import Settings, Signals

__all__ = ["ResidualKernelClassifier", "ResidualKernelRegressor"]


@dataclass(eq=False, repr=False)
class _Wrapper(Settings):
    """The common part of the two estimators."""

    _: KW_ONLY
    n_jobs: int | None = 1

    _tags: ClassVar = {
        "capability:multivariate": True,
        "capability:multithreading": True,
        "capability:unequal_length": True,
        "X_inner_type": ["np-list", "numpy3D"],
        "algorithm_type": "distance",
    }
    _model: ClassVar[Any]

    def __post_init__(self) -> None:
        super(Settings, self).__init__()  # aeon's constructor

    def _fit(self, X: Signals, y: np.ndarray) -> Self:
        self.model_ = self._model(**self.get_params(deep=False)).fit(X, y)  # type: ignore[attr-defined]
        return self

    def _predict(self, X: Signals) -> np.ndarray:
        return np.asarray(self.model_.predict(X))


@dataclass(eq=False, repr=False)
class _WithClasses(_Wrapper):
    class_weight: dict | str | None = field(default=None, kw_only=True)


class ResidualKernelClassifier(_WithClasses, BaseClassifier):
    """`rescntk.learn.ResidualKernelClassifier` as an aeon classifier.

    Examples
    --------
    >>> from aeon.datasets import load_unit_test
    >>> from rescntk.learn.aeon import ResidualKernelClassifier
    >>> model = ResidualKernelClassifier(views="fast").fit(*load_unit_test("train"))
    >>> model.score(*load_unit_test("test")) > 0.8
    True
    """

    _model = classifier.ResidualKernelClassifier

    def _predict_proba(self, X: Signals) -> np.ndarray:
        return np.asarray(self.model_.predict_proba(X))


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

    _model = regressor.ResidualKernelRegressor
