"""Wrappers for aeon and sktime: estimators that delegate the work to a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone

from .inputs import IMPUTE, RESIZE

QUICK: dict[str, Any] = {
    "depth": 1,
    "filter_size": 3,
    "input_filter_size": 3,
    "standardize": False,
    "constant": False,
}
"""Parameters of a search with few passes, for the checks of aeon and sktime themselves."""


class DelegatingEstimator:
    """An estimator whose parameter ``model`` does the work.

    aeon and sktime read the parameters of a wrapper from the signature of its ``__init__``. The
    parameters of the search are not repeated there: they are reached as ``model__depth`` and so
    on.
    """

    model: Any
    model_: Any
    _default: Any

    def _fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        model = self._default() if self.model is None else clone(self.model)
        self.model_ = model.fit(X, y)
        return self

    def _predict(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict(X)


class DelegatingClassifier(DelegatingEstimator):
    """A delegating estimator with probabilities."""

    def _predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(X)


@contextmanager
def with_remedy(*, missing: bool, resize: bool) -> Iterator[None]:
    """Append a remedy to a library's refusal of signals.

    Parameters
    ----------
    missing : bool
        Whether the signals have missing values: they must be filled in.
    resize : bool
        Whether the signals have several lengths, or another length than in ``fit``.
    """
    try:
        yield
    except ValueError as error:
        remedies = []
        if missing:
            remedies.append(f"fill them in first ({IMPUTE})")
        if resize:
            remedies.append(f"pad, truncate or resample signals to one length ({RESIZE})")
        if not remedies:
            raise
        text = " ".join(str(part).strip() for part in error.args)
        raise ValueError(f"{text.rstrip('.')}: {'; '.join(remedies)}") from error
