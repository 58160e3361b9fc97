"""The classifier and the regressor as aeon wants them.

Thin: each holds one of scikit-learn's kind (`rescntk.learn`) as its parameter ``model``, whose
own parameters are reached as ``model__depth`` and so on. What aeon checks of signals it refuses
itself, with a ``ValueError`` to which is added what to do: missing values have to be filled in,
unequal lengths resampled, before.
"""

from __future__ import annotations

from typing import Any

try:
    from aeon.classification.base import BaseClassifier
    from aeon.regression.base import BaseRegressor
except ModuleNotFoundError:
    raise ImportError("rescntk.learn.aeon needs aeon: pip install 'rescntk[datasets]'") from None

from . import estimators
from ._held import QUICK, Held, HeldClassifier, advice


class _Said:
    """aeon's refusals of signals, with what to do about them."""

    def _check_X(self, X: Any) -> dict[str, Any]:
        with advice():
            return super()._check_X(X)  # type: ignore[misc]

    def _check_shape(self, X: Any) -> None:
        with advice():
            super()._check_shape(X)  # type: ignore[misc]


class ResidualKernelClassifier(_Said, HeldClassifier, BaseClassifier):
    """`rescntk.learn.ResidualKernelClassifier` as an aeon classifier.

    Parameters
    ----------
    model : rescntk.learn.ResidualKernelClassifier, optional
        The default is that classifier with its defaults. The parameters of one that is given are
        reached as ``model__depth`` and so on.

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
    _default = estimators.ResidualKernelClassifier

    def __init__(self, model: estimators.ResidualKernelClassifier | None = None) -> None:
        self.model = model
        super().__init__()

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"model": estimators.ResidualKernelClassifier(cv=2, **QUICK)}


class ResidualKernelRegressor(_Said, Held, BaseRegressor):
    """`rescntk.learn.ResidualKernelRegressor` as an aeon regressor.

    Parameters
    ----------
    model : rescntk.learn.ResidualKernelRegressor, optional
        The default is that regressor with its defaults. The parameters of one that is given are
        reached as ``model__depth`` and so on.

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
    _default = estimators.ResidualKernelRegressor

    def __init__(self, model: estimators.ResidualKernelRegressor | None = None) -> None:
        self.model = model
        super().__init__()

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"model": estimators.ResidualKernelRegressor(**QUICK)}
