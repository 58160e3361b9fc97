"""The classifier and the regressor as sktime estimators.

Each has the parameters of the estimator of `rescntk.learn` that does its work, its `model_`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

try:
    from sktime.classification.base import BaseClassifier
    from sktime.regression.base import BaseRegressor
except ModuleNotFoundError:
    raise ImportError("rescntk.learn.sktime needs sktime: pip install sktime") from None

from . import classifier, regressor
from .base import QUICK, Wrapper
from .containers import as_signals
from .parameters import ClassifierParameters, EstimatorParameters

__all__ = ["ResidualKernelClassifier", "ResidualKernelRegressor"]

_TAGS = {
    "X_inner_mtype": "df-list",
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:random_state": True,
    "property:randomness": "derandomized",
}


class _SktimeWrapper(Wrapper):
    def _internal_convert(self, X: Any, y: Any = None) -> Any:
        if isinstance(X, (list, tuple)) and all(isinstance(case, np.ndarray) for case in X):
            signals = as_signals(X, "X", lists=True)
            if isinstance(signals, list):
                X = [pd.DataFrame(case.T) for case in signals]
            else:
                X = np.asarray(X) if signals is None else signals
        return super()._internal_convert(X, y)  # type: ignore[misc]

    def _check_capabilities(self, metadata: Any) -> None:
        self._refuse_missing_values(metadata["has_nans"])
        super()._check_capabilities(metadata)  # type: ignore[misc]

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameters for sktime's checks."""
        return [QUICK, QUICK | {"first_differences": "only"}]

    def _signals(self, X: list[pd.DataFrame]) -> list[np.ndarray]:
        return [case.to_numpy().T for case in X]


class ResidualKernelClassifier(_SktimeWrapper, ClassifierParameters, BaseClassifier):
    """`rescntk.learn.ResidualKernelClassifier` as a sktime classifier.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn.sktime import ResidualKernelClassifier
    >>> X, y = np.random.default_rng(0).standard_normal((20, 2, 12)), np.arange(20) % 2
    >>> X[y == 1] -= 2
    >>> ResidualKernelClassifier(effort="fast").fit(X, y).predict(X[:4])
    array([0, 1, 0, 1])
    """

    _tags = _TAGS | {"capability:predict_proba": True}
    _model = classifier.ResidualKernelClassifier


class ResidualKernelRegressor(_SktimeWrapper, EstimatorParameters, BaseRegressor):
    """`rescntk.learn.ResidualKernelRegressor` as a sktime regressor.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn.sktime import ResidualKernelRegressor
    >>> X = np.random.default_rng(0).standard_normal((20, 2, 12))
    >>> model = ResidualKernelRegressor(effort="fast").fit(X, X[:, 0].sum(axis=1))
    >>> model.predict(X[:2]).shape
    (2,)
    """

    _tags = _TAGS
    _model = regressor.ResidualKernelRegressor
