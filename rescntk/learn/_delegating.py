"""Wrappers for aeon and sktime: estimators that delegate the work to a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .inputs import IMPUTE

QUICK: dict[str, Any] = {"effort": "fast", "depth": 1}
"""Parameters of an average of few passes, for the checks of aeon and sktime themselves."""


class DelegatingEstimator:
    """An estimator of another library whose work a scikit-learn estimator does.

    Both have the same parameters (`parameters.same_parameters_as`).
    """

    model_: Any
    _model: Any

    def _fit(self, X: Any, y: np.ndarray) -> Any:
        self.model_ = self._model(**self.get_params(deep=False))  # type: ignore[attr-defined]
        self.model_.fit(self._signals(X), y)
        return self

    def _predict(self, X: Any) -> np.ndarray:
        return self.model_.predict(self._signals(X))

    def _signals(self, X: Any) -> Any:
        """Return signals in a form that the scikit-learn estimator takes."""
        return X


class DelegatingClassifier(DelegatingEstimator):
    """A delegating estimator with probabilities."""

    def _predict_proba(self, X: Any) -> np.ndarray:
        return self.model_.predict_proba(self._signals(X))


@contextmanager
def with_remedy(*, missing: bool) -> Iterator[None]:
    """Append a remedy to a library's refusal of signals that have missing values."""
    try:
        yield
    except ValueError as error:
        if not missing:
            raise
        text = " ".join(str(part).strip() for part in error.args).rstrip(".")
        raise ValueError(f"{text}: fill them in first ({IMPUTE})") from error
