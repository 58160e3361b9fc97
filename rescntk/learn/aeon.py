"""The classifier and the regressor as aeon wants them.

Thin: each holds one of scikit-learn's kind (`rescntk.learn`) as its parameter ``model``, whose
own parameters are reached as ``model__depth`` and so on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

try:
    from aeon.classification.base import BaseClassifier
    from aeon.regression.base import BaseRegressor
except ModuleNotFoundError:
    raise ImportError("rescntk.learn.aeon needs aeon: pip install 'rescntk[datasets]'") from None

from . import estimators

# Few passes, for aeon's own checks.
_QUICK = {
    "depth": 1,
    "filter_size": 3,
    "input_filter_size": 3,
    "standardize": False,
    "constant": False,
}


class ResidualKernelClassifier(BaseClassifier):
    """`rescntk.learn.ResidualKernelClassifier` as an aeon classifier.

    Parameters
    ----------
    model : rescntk.learn.ResidualKernelClassifier, optional
        The default is that classifier with its defaults.

    Attributes
    ----------
    model_ : rescntk.learn.ResidualKernelClassifier
        The model fitted, with all that it tells of itself.

    Examples
    --------
    >>> from aeon.datasets import load_unit_test
    >>> from rescntk.learn.aeon import ResidualKernelClassifier
    >>> X, y = load_unit_test("train")
    >>> X_test, y_test = load_unit_test("test")
    >>> ResidualKernelClassifier().fit(X, y).score(X_test, y_test) > 0.8
    True
    """

    _tags = {"capability:multivariate": True, "algorithm_type": "distance"}  # noqa: RUF012

    def __init__(self, model: estimators.ResidualKernelClassifier | None = None) -> None:
        self.model = model
        super().__init__()

    def _fit(self, X: np.ndarray, y: np.ndarray) -> ResidualKernelClassifier:
        model = estimators.ResidualKernelClassifier() if self.model is None else clone(self.model)
        self.model_ = model.fit(X, y)
        return self

    def _predict(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict(X)

    def _predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(X)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"model": estimators.ResidualKernelClassifier(cv=2, **_QUICK)}  # type: ignore[arg-type]


class ResidualKernelRegressor(BaseRegressor):
    """`rescntk.learn.ResidualKernelRegressor` as an aeon regressor.

    Parameters
    ----------
    model : rescntk.learn.ResidualKernelRegressor, optional
        The default is that regressor with its defaults.

    Attributes
    ----------
    model_ : rescntk.learn.ResidualKernelRegressor
        The model fitted, with all that it tells of itself.

    Examples
    --------
    >>> from aeon.datasets import load_covid_3month
    >>> from rescntk.learn.aeon import ResidualKernelRegressor
    >>> X, y = load_covid_3month("train")
    >>> ResidualKernelRegressor().fit(X[:40], y[:40]).predict(X[40:42]).shape
    (2,)
    """

    _tags = {"capability:multivariate": True, "algorithm_type": "distance"}  # noqa: RUF012

    def __init__(self, model: estimators.ResidualKernelRegressor | None = None) -> None:
        self.model = model
        super().__init__()

    def _fit(self, X: np.ndarray, y: np.ndarray) -> ResidualKernelRegressor:
        model = estimators.ResidualKernelRegressor() if self.model is None else clone(self.model)
        self.model_ = model.fit(X, y)
        return self

    def _predict(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict(X)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"model": estimators.ResidualKernelRegressor(**_QUICK)}  # type: ignore[arg-type]
