"""The classifier and the regressor as aeon estimators.

Each has the parameters of the estimator of `rescntk.learn` that does its work. By aeon's
convention there is one thread unless `n_jobs` says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

try:
    from aeon.classification.base import BaseClassifier
    from aeon.regression.base import BaseRegressor
    from aeon.utils.validation.collection import get_type
except ModuleNotFoundError:
    raise ImportError("rescntk.learn.aeon needs aeon: pip install 'rescntk[datasets]'") from None

from . import classifier, regressor
from .estimator_parameters import ClassifierParameters, EstimatorParameters
from .wrappers import QUICK, Wrapper, refuse_missing_values

__all__ = ["ResidualKernelClassifier", "ResidualKernelRegressor"]


_TAGS = {
    "capability:multivariate": True,
    "capability:multithreading": True,
    "capability:unequal_length": True,
    "X_inner_type": ["np-list", "numpy3D"],
    "algorithm_type": "distance",
}


class _AeonWrapper(Wrapper):
    _tags = _TAGS

    def _check_X(self, X: Any) -> dict[str, Any]:
        get_type(X)  # refuses containers that aeon does not know
        refuse_missing_values(self._get_X_metadata(X)["missing_values"])  # type: ignore[attr-defined]
        return super()._check_X(X)  # type: ignore[misc]

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return QUICK


@dataclass(kw_only=True, eq=False, repr=False)
class ResidualKernelClassifier(_AeonWrapper, ClassifierParameters, BaseClassifier):
    """`rescntk.learn.ResidualKernelClassifier` as an aeon classifier.

    It has all parameters of `rescntk.learn.ResidualKernelClassifier`.

    Parameters
    ----------
    n_jobs : int or None, default 1
        Number of threads.

    Attributes
    ----------
    model_ : rescntk.learn.ResidualKernelClassifier
        The fitted model, with all its attributes.

    Examples
    --------
    >>> from aeon.datasets import load_unit_test
    >>> from rescntk.learn.aeon import ResidualKernelClassifier
    >>> X, y = load_unit_test("train")
    >>> X_test, y_test = load_unit_test("test")
    >>> ResidualKernelClassifier().fit(X, y).score(X_test, y_test) > 0.8
    True
    """

    n_jobs: int | None = 1

    _model = classifier.ResidualKernelClassifier


@dataclass(kw_only=True, eq=False, repr=False)
class ResidualKernelRegressor(_AeonWrapper, EstimatorParameters, BaseRegressor):
    """`rescntk.learn.ResidualKernelRegressor` as an aeon regressor.

    It has all parameters of `rescntk.learn.ResidualKernelRegressor`.

    Parameters
    ----------
    n_jobs : int or None, default 1
        Number of threads.

    Attributes
    ----------
    model_ : rescntk.learn.ResidualKernelRegressor
        The fitted model, with all its attributes.

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
