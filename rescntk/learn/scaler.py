"""Per-channel standardization of signals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array
from .inputs import SignalEstimator, as_signals, atomic, read_signals
from .views import Signals, each, moderate_exponent, standard_scale


@dataclass(kw_only=True, eq=False, repr=False)
class SignalScaler(OneToOneFeatureMixin, TransformerMixin, SignalEstimator):
    """Standardize each channel: subtract its mean, divide by its standard deviation.

    Mean and standard deviation are taken over all cases and time points of the fitted signals,
    so that differences of level and amplitude between cases remain. A constant channel is not
    divided.

    Parameters
    ----------
    with_mean, with_std : bool, default True
        Whether to subtract the mean, whether to divide by the standard deviation.

    Attributes
    ----------
    mean_, scale_ : ndarray, (n_channels,)
        The mean, which is subtracted, and the divisor.
    n_channels_, n_timepoints_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn import SignalScaler
    >>> X = 3 + 2 * np.random.default_rng(0).standard_normal((10, 4, 50))
    >>> Z = SignalScaler().fit_transform(X)
    >>> bool(abs(Z.mean(axis=(0, 2))).max() < 1e-12), Z.std(axis=(0, 2)).round(6)
    (True, array([1., 1., 1., 1.]))
    """

    with_mean: bool = True
    with_std: bool = True

    @atomic
    def fit(self, X: Array, y: Any = None) -> SignalScaler:
        """Measure mean and standard deviation of each channel, and return the scaler itself.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            Or a list of signals of different lengths, (n_channels, n_timepoints) each.
        y : ignored

        Raises
        ------
        ValueError
            If the signals are not as described.
        """
        signals = read_signals(self, X, reset=True)
        exponent = moderate_exponent(signals)
        moderate = each(lambda Z: np.ldexp(Z, -exponent), signals)
        mean, deviation = standard_scale(moderate, np.ones(len(signals)))
        varies = self.with_std & (deviation > 0)
        self.mean_ = np.ldexp(mean if self.with_mean else np.zeros(len(mean)), exponent)
        self.scale_ = np.where(varies, np.ldexp(deviation, exponent), 1.0)
        return self

    def transform(self, X: Array) -> Signals:
        """Return standardized signals, of the shape of `X`.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            With the numbers of channels and time points of `fit`; or a list, if `fit` had one.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the signals are not as described.
        """
        return self._mapped(X, lambda Z: (Z - self.mean_[:, None]) / self.scale_[:, None])

    def inverse_transform(self, X: Array) -> Signals:
        """Return the signals whose standardized version is `X`.

        Parameters, result and errors are as for `transform`.
        """
        return self._mapped(X, lambda Z: Z * self.scale_[:, None] + self.mean_[:, None])

    def _mapped(self, X: Array, function: Callable[[np.ndarray], np.ndarray]) -> Signals:
        """Return `function` of each signal, (n_channels, n_timepoints), in the shape of `X`."""
        check_is_fitted(self)
        signals: Any = each(function, read_signals(self, X, reset=False))
        flat = isinstance(signals, np.ndarray) and as_signals(X, "X", lists=True) is None
        return signals[:, 0] if flat else signals

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns, (n_timepoints,): the names in the fitted table.

        If the table had no names they are `input_features`. Signals of three axes have no columns,
        and are refused with a ValueError.
        """
        check_is_fitted(self)
        if not hasattr(self, "n_features_in_"):
            raise ValueError(
                "signals of three axes have no columns: names, and other containers than "
                "NumPy's, are for X of shape (n_cases, n_timepoints)"
            )
        return super().get_feature_names_out(input_features)
