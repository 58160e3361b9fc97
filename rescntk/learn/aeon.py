"""The classifier and the regressor as aeon estimators.

Each has the parameters of the estimator of `rescntk.learn` that does its work: the fitted
attribute `model_`. By aeon's convention `n_jobs` is 1 by default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

try:
    from aeon.classification.base import BaseClassifier
    from aeon.regression.base import BaseRegressor
    from aeon.utils.validation.collection import get_type
except ModuleNotFoundError:
    raise ImportError("rescntk.learn.aeon needs aeon: pip install 'rescntk[datasets]'") from None

from . import classifier, regressor
from .base import QUICK, Wrapper
from .parameters import ClassifierParameters, EstimatorParameters

__all__ = ["ResidualKernelClassifier", "ResidualKernelRegressor"]


class _AeonWrapper(Wrapper):
    _tags: ClassVar = {
        "capability:multivariate": True,
        "capability:multithreading": True,
        "capability:unequal_length": True,
        "X_inner_type": ["np-list", "numpy3D"],
        "algorithm_type": "distance",
    }

    def _check_X(self, X: Any) -> dict[str, Any]:
        get_type(X)  # refuses containers that aeon does not support
        self._refuse_missing_values(self._get_X_metadata(X)["missing_values"])  # type: ignore[attr-defined]
        return super()._check_X(X)  # type: ignore[misc]

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return QUICK


@dataclass(kw_only=True, eq=False, repr=False)
class ResidualKernelClassifier(_AeonWrapper, ClassifierParameters, BaseClassifier):
    """`rescntk.learn.ResidualKernelClassifier` as an aeon classifier.

    Examples
    --------
    >>> from aeon.datasets import load_unit_test
    >>> from rescntk.learn.aeon import ResidualKernelClassifier
    >>> model = ResidualKernelClassifier(effort="fast").fit(*load_unit_test("train"))
    >>> model.score(*load_unit_test("test")) > 0.8
    True
    """

    n_jobs: int | None = 1

    _model = classifier.ResidualKernelClassifier


@dataclass(kw_only=True, eq=False, repr=False)
class ResidualKernelRegressor(_AeonWrapper, EstimatorParameters, BaseRegressor):
    """`rescntk.learn.ResidualKernelRegressor` as an aeon regressor.

    Examples
    --------
    >>> from aeon.datasets import load_covid_3month
    >>> from rescntk.learn.aeon import ResidualKernelRegressor
    >>> X, y = load_covid_3month("train")
    >>> ResidualKernelRegressor(effort="fast").fit(X[:40], y[:40]).predict(X[40:42]).shape
    (2,)
    """

    n_jobs: int | None = 1

    _model = regressor.ResidualKernelRegressor
