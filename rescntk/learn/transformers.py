"""Transformers: rows of a kernel matrix, or features for linear models."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..arrays import rounding_unit
from ..kernels import ResCNTK
from ..regression import pivoted_cholesky
from ..validation import check_choice, check_depth
from .base import SignalEstimator
from .inputs import read_signals, take
from .kernel import SignalKernel


class KernelMatrix(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SignalEstimator):
    """Turn signals into rows of the kernel matrix with the signals fitted.

    For pipelines whose last step takes a precomputed kernel, such as ``SVC(kernel="precomputed")``.

    Parameters
    ----------
    kernel : Kernel or SignalKernel, optional
        The default is ``rescntk.ResCNTK(3, normalized=True)``. Parameters of a `SignalKernel`
        can be searched, as ``kernel__depth`` and so on; its `n_channels` is for flat arrays, and
        its `engine`, `dtype` and `threads` compute: ``SignalKernel.of(kernel, dtype="float32")``.

    Attributes
    ----------
    signals_ : ndarray, (n_cases, n_channels, n_timepoints), or list of ndarray
    kernel_ : Kernel
    n_channels_, n_timepoints_ : int

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk.learn import KernelMatrix
    >>> X = np.random.default_rng(0).standard_normal((20, 3, 30))
    >>> KernelMatrix(rk.ResCNTK(depth=2, normalized=True)).fit(X[:15]).transform(X).shape
    (20, 15)
    """

    def __init__(self, kernel: Any = None) -> None:
        self.kernel = kernel

    def fit(self, X: Any, y: Any = None) -> Any:
        """Keep the signals that others are compared with, and return the transformer itself.

        X is (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints); or, for the head
        "gap", a list of signals (n_channels, n_timepoints_i); or images (n_cases, n_channels,
        height, width). y is ignored.
        """
        self._start(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit, and return the transformed signals, (n_cases, n_features); no pair is done twice."""
        return self._features(self._start(X))

    def transform(self, X: Any) -> np.ndarray:
        """Return the kernel with each fitted signal, or the features, (m_cases, n_features).

        X has the shape of signals in `fit`; else a ValueError is raised.
        """
        check_is_fitted(self)
        return self._features(self._read(X, reset=False))

    def _read(self, X: Any, reset: bool) -> Any:
        return read_signals(self, X, reset=reset, n_channels=self._flat_channels, images=True)

    def _start(self, X: Any) -> Any:
        """Set the kernel, keep signals, and return the signals to be transformed."""
        given = ResCNTK(3, normalized=True) if self.kernel is None else self.kernel
        given = given if isinstance(given, SignalKernel) else SignalKernel.of(given)
        self.kernel_, self._options = given.kernel, given.options()
        self._flat_channels = 1 if given.n_channels is None else given.n_channels
        return self._keep(self._read(X, reset=True))

    def _keep(self, signals: Any) -> Any:
        self.signals_ = take(signals, np.arange(len(signals)))  # a copy, which does not change
        return self.signals_  # the same object: half of the pairs

    def _features(self, signals: Any) -> np.ndarray:
        return np.asarray(self.kernel_(signals, self.signals_, **self._options))

    @property
    def _n_features_out(self) -> int:
        return len(self.signals_)


class LandmarkFeatures(KernelMatrix):
    r"""Turn signals into features F with :math:`F F^\top \approx K`, for any linear model.

    n signals cost n · `n_landmarks` pairs of the kernel, not n². The features are
    :math:`F = K(X, S) V \Lambda^{-1/2}`, with landmarks S and :math:`K(S,S) = V \Lambda V^\top`:
    Nyström's approximation, exact between landmarks and any signals. Eigenvalues of rounding
    errors are left out.

    Parameters
    ----------
    kernel : Kernel or SignalKernel, optional
        As for `KernelMatrix`; features are computed in float64, and have the kernel's dtype.
    n_landmarks : int, default 100
        Most landmarks, and so features.
    selection : {"pivoted", "uniform"}, default "pivoted"
        Choice of the landmarks: by randomly pivoted Cholesky, or with equal probability.
    random_state : int, RandomState or None, default 0
        Seed of the landmarks.

    Attributes
    ----------
    landmarks_ : ndarray of int, (n_landmarks,)
        Indices of the landmarks among the signals fitted.
    signals_ : ndarray, (n_landmarks, n_channels, n_timepoints), or list of ndarray
        The landmarks.
    residual_ : float
        trace(K − F Fᵀ) / trace(K) of the fitted signals, from 0 to 1; nan for "uniform".
    kernel_, n_channels_, n_timepoints_
        As for `KernelMatrix`.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk.learn import LandmarkFeatures
    >>> X = np.random.default_rng(0).standard_normal((60, 3, 30))
    >>> features = LandmarkFeatures(rk.ResCNTK(depth=2, normalized=True), n_landmarks=20).fit(X)
    >>> features.transform(X[:4]).shape, 0 < features.residual_ < 0.2
    ((4, 20), True)
    """

    def __init__(
        self, kernel: Any = None, n_landmarks: int = 100, *, selection: str = "pivoted",
        random_state: Any = 0,
    ) -> None:  # fmt: skip
        super().__init__(kernel)
        self.n_landmarks = n_landmarks
        self.selection = selection
        self.random_state = random_state

    def _keep(self, signals: Any) -> Any:
        count = min(check_depth(self.n_landmarks, "n_landmarks"), len(signals))
        selection = check_choice(self.selection, "selection", ("pivoted", "uniform"))
        generator, self.residual_ = check_random_state(self.random_state), np.nan
        if selection == "uniform":
            self.landmarks_ = generator.choice(len(signals), count, replace=False)
        else:
            seed = int(generator.randint(2**31))
            with warnings.catch_warnings():  # fewer landmarks are exact, up to rounding errors
                warnings.filterwarnings("ignore", "pivoted_cholesky stopped")
                low = pivoted_cholesky(self.kernel_, signals, count, seed, **self._options)
            self.landmarks_, total = low.landmarks, low.residual + float((low.factor**2).sum())
            self.residual_ = low.residual / total if total > 0 else 0.0
        self.signals_ = take(signals, self.landmarks_)
        K = np.zeros((1, 1))
        if len(self.signals_):
            K = self.kernel_(self.signals_, **self._options)
        values, V = scipy.linalg.eigh(K.astype(np.float64), driver="evd")
        resolved = values > len(K) * rounding_unit(K) * values[-1]
        if not resolved.any():
            raise ValueError("kernel is 0 at all landmarks, expected signals that are not 0")
        self._half = V[:, resolved] / np.sqrt(values[resolved])
        return signals

    def _features(self, signals: Any) -> np.ndarray:
        features = super()._features(signals).astype(np.float64, copy=False) @ self._half
        return features.astype(self._options["dtype"], copy=False)

    @property
    def _n_features_out(self) -> int:
        return self._half.shape[1]
