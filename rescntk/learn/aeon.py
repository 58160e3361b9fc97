"""The classifier and the regressor as aeon estimators.

Each has the parameters of the estimator of `rescntk.learn` to which it delegates its work;
by aeon's convention there is one thread unless `n_jobs` says otherwise.
aeon itself refuses missing values, with a ``ValueError``; the message is followed by a remedy.
"""

from __future__ import annotations

from typing import Any

try:
    from aeon.classification.base import BaseClassifier
    from aeon.regression.base import BaseRegressor
    from aeon.utils.validation.collection import get_type
except ModuleNotFoundError:
    raise ImportError("rescntk.learn.aeon needs aeon: pip install 'rescntk[datasets]'") from None

from . import classifier, regressor
from ._delegating import QUICK, DelegatingClassifier, DelegatingEstimator, with_remedy
from .parameters import same_parameters_as

__all__ = ["ResidualKernelClassifier", "ResidualKernelRegressor"]

_TAGS = {
    "capability:multivariate": True,
    "capability:multithreading": True,
    "capability:unequal_length": True,
    "X_inner_type": ["np-list", "numpy3D"],
    "algorithm_type": "distance",
}


class HintsMixin:
    """aeon's refusals of missing values, followed by a remedy."""

    def _check_X(self, X: Any) -> dict[str, Any]:
        get_type(X)  # refuses containers that aeon does not know
        missing = self._get_X_metadata(X)["missing_values"]  # type: ignore[attr-defined]
        with with_remedy(missing=missing):
            return super()._check_X(X)  # type: ignore[misc]


@same_parameters_as(classifier.ResidualKernelClassifier, n_jobs=1)
class ResidualKernelClassifier(HintsMixin, DelegatingClassifier, BaseClassifier):
    """`rescntk.learn.ResidualKernelClassifier` as an aeon classifier.

    Parameters
    ----------
    {parameters}

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

    _tags = _TAGS
    _model = classifier.ResidualKernelClassifier

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return QUICK


@same_parameters_as(regressor.ResidualKernelRegressor, n_jobs=1)
class ResidualKernelRegressor(HintsMixin, DelegatingEstimator, BaseRegressor):
    """`rescntk.learn.ResidualKernelRegressor` as an aeon regressor.

    Parameters
    ----------
    {parameters}

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

    _tags = _TAGS
    _model = regressor.ResidualKernelRegressor

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return QUICK
