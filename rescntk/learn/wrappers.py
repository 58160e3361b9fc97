"""What aeon's and sktime's estimators share: their work is done by `model_`, of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from .inputs import IMPUTE

QUICK: dict[str, Any] = {
    "effort": "fast",
    "depth": 1,
    "filter_size": 3,
    "input_filter_size": 1,
    "first_differences": False,
    "time_scale": 0.0,
}
"""Parameters of an average of two passes, for the checks of aeon and sktime themselves."""


class Wrapper:
    """Fit and predict by an estimator of `rescntk.learn` with the same parameters."""

    model_: Any
    _model: Any

    def _fit(self, X: Any, y: np.ndarray) -> Any:
        parameters = self.get_params(deep=False)  # type: ignore[attr-defined]
        self.model_ = self._model(**parameters).fit(self._signals(X), y)
        return self

    def _predict(self, X: Any) -> np.ndarray:
        return self.model_.predict(self._signals(X))

    def _predict_proba(self, X: Any) -> np.ndarray:
        return self.model_.predict_proba(self._signals(X))

    def _signals(self, X: Any) -> Any:
        return X


def refuse_missing_values(missing: bool) -> None:
    """Raise a ValueError with a remedy if signals have missing values."""
    if missing:
        raise ValueError(
            f"X has missing values, expected finite numbers: fill them in first ({IMPUTE})"
        )
