"""The classifier and the regressor as sktime estimators.

Each has the parameters of the estimator of `rescntk.learn` to which it delegates its work.
sktime itself refuses missing values, with a ``ValueError``; the message is followed by a remedy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]

try:
    from sktime.classification.base import BaseClassifier
    from sktime.regression.base import BaseRegressor
except ModuleNotFoundError:
    raise ImportError("rescntk.learn.sktime needs sktime: pip install sktime") from None

from . import classifier, regressor
from ._delegating import QUICK, DelegatingClassifier, DelegatingEstimator, with_remedy
from .inputs import signals_of_cases, three_axes
from .parameters import same_parameters_as

__all__ = ["ResidualKernelClassifier", "ResidualKernelRegressor"]

_TAGS = {
    "X_inner_mtype": "df-list",
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:random_state": True,
    "property:randomness": "derandomized",
}


class HintsMixin:
    """sktime's refusals of missing values, followed by a remedy; lists of arrays accepted."""

    def _internal_convert(self, X: Any, y: Any = None) -> Any:
        if isinstance(X, (list, tuple)) and all(isinstance(case, np.ndarray) for case in X):
            signals = signals_of_cases(X, "X")
            if signals is not None:
                X = [pd.DataFrame(case.T) for case in signals]
            else:
                X = np.asarray(X) if (array := three_axes(X, "X")) is None else array
        return super()._internal_convert(X, y)  # type: ignore[misc]

    def _check_capabilities(self, metadata: Any) -> None:
        with with_remedy(missing=metadata["has_nans"]):
            super()._check_capabilities(metadata)  # type: ignore[misc]

    def _signals(self, X: list[pd.DataFrame]) -> list[np.ndarray]:
        return [case.to_numpy().T for case in X]


@same_parameters_as(classifier.ResidualKernelClassifier)
class ResidualKernelClassifier(HintsMixin, DelegatingClassifier, BaseClassifier):
    """`rescntk.learn.ResidualKernelClassifier` as a sktime classifier.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : rescntk.learn.ResidualKernelClassifier
        The fitted model, with all its attributes.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn.sktime import ResidualKernelClassifier
    >>> X = np.random.default_rng(0).standard_normal((20, 2, 12))
    >>> y = np.repeat(["up", "down"], 10)
    >>> X[10:] -= 2
    >>> ResidualKernelClassifier().fit(X, y).predict(X[[0, -1]])
    array(['up', 'down'], dtype='<U4')
    """

    _tags = _TAGS | {"capability:predict_proba": True}
    _model = classifier.ResidualKernelClassifier

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameters for sktime's checks.

        Parameters
        ----------
        parameter_set : str
            Ignored: there is one set.

        Returns
        -------
        list of dict
        """
        return [QUICK, QUICK | {"class_weight": "balanced"}]


@same_parameters_as(regressor.ResidualKernelRegressor)
class ResidualKernelRegressor(HintsMixin, DelegatingEstimator, BaseRegressor):
    """`rescntk.learn.ResidualKernelRegressor` as a sktime regressor.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : rescntk.learn.ResidualKernelRegressor
        The fitted model, with all its attributes.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn.sktime import ResidualKernelRegressor
    >>> X = np.random.default_rng(0).standard_normal((20, 2, 12))
    >>> ResidualKernelRegressor().fit(X, X[:, 0].sum(axis=1)).predict(X[:2]).shape
    (2,)
    """

    _tags = _TAGS
    _model = regressor.ResidualKernelRegressor

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameters for sktime's checks.

        Parameters
        ----------
        parameter_set : str
            Ignored: there is one set.

        Returns
        -------
        list of dict
        """
        return [QUICK, QUICK | {"first_differences": "only"}]
