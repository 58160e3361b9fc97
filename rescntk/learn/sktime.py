"""The classifier and the regressor as sktime wants them.

Thin: each holds one of scikit-learn's kind (`rescntk.learn`) as its parameter ``model``, whose
own parameters are reached as ``model__depth`` and so on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

try:
    from sktime.classification.base import BaseClassifier
    from sktime.regression.base import BaseRegressor
except ModuleNotFoundError:
    raise ImportError("rescntk.learn.sktime needs sktime: pip install sktime") from None

from . import estimators

_TAGS = {
    "X_inner_mtype": "numpy3D",
    "capability:multivariate": True,
    "capability:random_state": False,
}

# Few passes, for sktime's own checks.
_QUICK = {
    "depth": 1,
    "filter_size": 3,
    "input_filter_size": 3,
    "standardize": False,
    "constant": False,
}


class ResidualKernelClassifier(BaseClassifier):
    """`rescntk.learn.ResidualKernelClassifier` as a sktime classifier.

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
    >>> import numpy as np
    >>> from rescntk.learn.sktime import ResidualKernelClassifier
    >>> X = np.random.default_rng(0).standard_normal((20, 2, 12))
    >>> y = np.repeat(["up", "down"], 10)
    >>> X[10:] -= 2
    >>> ResidualKernelClassifier().fit(X, y).predict(X[[0, -1]])
    array(['up', 'down'], dtype='<U4')
    """

    _tags = _TAGS | {"capability:predict_proba": True}

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
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameters for sktime's checks."""
        quick = estimators.ResidualKernelClassifier(cv=2, **_QUICK)  # type: ignore[arg-type]
        ridge = estimators.ResidualKernelClassifier(readout="ridge", **_QUICK)  # type: ignore[arg-type]
        return [{"model": quick}, {"model": ridge}]


class ResidualKernelRegressor(BaseRegressor):
    """`rescntk.learn.ResidualKernelRegressor` as a sktime regressor.

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
    >>> import numpy as np
    >>> from rescntk.learn.sktime import ResidualKernelRegressor
    >>> X = np.random.default_rng(0).standard_normal((20, 2, 12))
    >>> ResidualKernelRegressor().fit(X, X[:, 0].sum(axis=1)).predict(X[:2]).shape
    (2,)
    """

    _tags = _TAGS

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
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return parameters for sktime's checks."""
        quick = estimators.ResidualKernelRegressor(**_QUICK)  # type: ignore[arg-type]
        trace = estimators.ResidualKernelRegressor(head="trace", **_QUICK)  # type: ignore[arg-type]
        return [{"model": quick}, {"model": trace}]
