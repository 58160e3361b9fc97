"""The classifier and the regressor as sktime wants them.

Thin: each holds one of scikit-learn's kind (`rescntk.learn`) as its parameter ``model``, whose
own parameters are reached as ``model__depth`` and so on. What sktime checks of signals it refuses
itself, with a ``ValueError`` to which is added what to do: missing values have to be filled in,
unequal lengths resampled, before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    from sktime.classification.base import BaseClassifier
    from sktime.regression.base import BaseRegressor
except ModuleNotFoundError:
    raise ImportError("rescntk.learn.sktime needs sktime: pip install sktime") from None

from . import estimators
from ._held import QUICK, Held, HeldClassifier, advice
from .inputs import three_axes

_TAGS = {
    "X_inner_mtype": "numpy3D",
    "capability:multivariate": True,
    "capability:random_state": False,
}


class _Said:
    """sktime's refusals of signals, with what to do about them."""

    def _internal_convert(self, X: Any, y: Any = None) -> Any:
        if isinstance(X, (list, tuple)) and all(isinstance(case, np.ndarray) for case in X):
            X = np.asarray(X) if (signals := three_axes(X, "X")) is None else signals
        return super()._internal_convert(X, y)  # type: ignore[misc]

    def _check_capabilities(self, metadata: Any) -> None:
        with advice():
            super()._check_capabilities(metadata)  # type: ignore[misc]


class ResidualKernelClassifier(_Said, HeldClassifier, BaseClassifier):
    """`rescntk.learn.ResidualKernelClassifier` as a sktime classifier.

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
    >>> import numpy as np
    >>> from rescntk.learn.sktime import ResidualKernelClassifier
    >>> X = np.random.default_rng(0).standard_normal((20, 2, 12))
    >>> y = np.repeat(["up", "down"], 10)
    >>> X[10:] -= 2
    >>> ResidualKernelClassifier().fit(X, y).predict(X[[0, -1]])
    array(['up', 'down'], dtype='<U4')
    """

    _tags = _TAGS | {"capability:predict_proba": True}
    _default = estimators.ResidualKernelClassifier

    def __init__(self, model: estimators.ResidualKernelClassifier | None = None) -> None:
        self.model = model
        super().__init__()

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
        quick = estimators.ResidualKernelClassifier(cv=2, **QUICK)
        ridge = estimators.ResidualKernelClassifier(readout="ridge", **QUICK)
        return [{"model": quick}, {"model": ridge}]


class ResidualKernelRegressor(_Said, Held, BaseRegressor):
    """`rescntk.learn.ResidualKernelRegressor` as a sktime regressor.

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
    >>> import numpy as np
    >>> from rescntk.learn.sktime import ResidualKernelRegressor
    >>> X = np.random.default_rng(0).standard_normal((20, 2, 12))
    >>> ResidualKernelRegressor().fit(X, X[:, 0].sum(axis=1)).predict(X[:2]).shape
    (2,)
    """

    _tags = _TAGS
    _default = estimators.ResidualKernelRegressor

    def __init__(self, model: estimators.ResidualKernelRegressor | None = None) -> None:
        self.model = model
        super().__init__()

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
        quick = estimators.ResidualKernelRegressor(**QUICK)
        trace = estimators.ResidualKernelRegressor(head="trace", **QUICK)
        return [{"model": quick}, {"model": trace}]
