"""Wrappers for aeon and sktime: estimators that delegate the work to a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .inputs import IMPUTE, RESIZE

QUICK: dict[str, Any] = {"effort": "fast", "depth": 1}
"""Parameters of an average of few passes, for the checks of aeon and sktime themselves."""


class DelegatingEstimator:
    """An estimator of another library whose work a scikit-learn estimator does.

    Both have the same parameters (`parameters.same_parameters_as`).
    """

    model_: Any
    _model: Any

    def _fit(self, X: Any, y: np.ndarray) -> Any:
        self.model_ = self._model(**self.get_params(deep=False)).fit(X, y)  # type: ignore[attr-defined]
        return self

    def _predict(self, X: Any) -> np.ndarray:
        return self.model_.predict(X)


class DelegatingClassifier(DelegatingEstimator):
    """A delegating estimator with probabilities."""

    def _predict_proba(self, X: Any) -> np.ndarray:
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
