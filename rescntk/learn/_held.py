"""What the estimators for aeon and for sktime share: each holds one of scikit-learn's kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone

from .inputs import IMPUTE, RESIZE

# Few passes, for those libraries' own checks.
QUICK: dict[str, Any] = {
    "depth": 1,
    "filter_size": 3,
    "input_filter_size": 3,
    "standardize": False,
    "constant": False,
}

_REMEDIES = {
    "missing": f"fill them in first ({IMPUTE})",
    "length": f"pad, truncate or resample signals to one length ({RESIZE})",
}


class Held:
    """An estimator whose parameter ``model`` does the work."""

    model: Any
    model_: Any
    _default: Any

    def _fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        model = self._default() if self.model is None else clone(self.model)
        self.model_ = model.fit(X, y)
        return self

    def _predict(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict(X)


class HeldClassifier(Held):
    """The same with probabilities."""

    def _predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(X)


@contextmanager
def advice() -> Iterator[None]:
    """Append what to do to a library's refusals of missing values and unequal lengths."""
    try:
        yield
    except ValueError as error:
        text = " ".join(str(part).strip() for part in error.args)
        remedies = [remedy for word, remedy in _REMEDIES.items() if word in text]
        if not remedies:
            raise
        raise ValueError(f"{text.rstrip('.')}: {'; '.join(remedies)}") from error
