"""Transformers: rows of a kernel matrix, or features for linear models."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..kernels import Kernel
from ..regression import pivoted_cholesky
from ..validation import check_depth
from .inputs import SignalEstimator, read_signals, take
from .kernel import SignalKernel


@dataclass(eq=False, repr=False)
class KernelMatrix(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SignalEstimator):
    """Turn signals into rows of the kernel matrix with the signals fitted.

    For pipelines whose last step takes a precomputed kernel, such as ``SVC(kernel="precomputed")``.

    Parameters
    ----------
    kernel : Kernel or SignalKernel, optional
        The default is ``rescntk.ResCNTK(3, normalized=True)``. A `SignalKernel` has parameters
        to search, as ``kernel__depth``, channels of flat arrays, and options of the computation.

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

    kernel: Any = None

    def fit(self, X: Any, y: Any = None) -> Any:
        """Keep the signals that others are compared with, and return the transformer itself.

        X is (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints); for the head "gap"
        also a list of (n_channels, n_timepoints_i); or images. y is ignored.
        """
        self._start(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit, and return the transformed signals, (n_cases, n_features)."""
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
        given: Any = SignalKernel() if self.kernel is None else self.kernel
        self.kernel_: Kernel = given
        self._options, self._flat_channels = dict[str, Any](), 1
        if isinstance(given, SignalKernel):
            self.kernel_, self._options = given.kernel, given.options()
            self._flat_channels = 1 if given.n_channels is None else given.n_channels
        elif not isinstance(given, Kernel):
            raise ValueError(f"kernel is {given!r}, expected a rescntk.Kernel or a SignalKernel")
        signals = self._read(X, reset=True)
        self.signals_ = take(signals, np.arange(len(signals)))  # a copy, which does not change
        return self.signals_  # the same object: half of the pairs

    def _features(self, signals: Any) -> np.ndarray:
        return np.asarray(self.kernel_(signals, self.signals_, **self._options))

    @property
    def _n_features_out(self) -> int:
        return len(self.signals_)


@dataclass(eq=False, repr=False)
class LandmarkFeatures(KernelMatrix):
    r"""Turn signals into features F with :math:`F F^\top \approx K`, for any linear model.

    n signals cost n · `n_landmarks` pairs of the kernel, not n². The features are Nyström's,
    :math:`F = K(X, S) L^{-\top}`, with landmarks S, which randomly pivoted Cholesky chooses, and
    :math:`K(S,S) = L L^\top`. They are exact between landmarks and any signals.

    Parameters
    ----------
    kernel : Kernel or SignalKernel, optional
        As for `KernelMatrix`; features are computed in float64, and have the kernel's dtype.
    n_landmarks : int, default 100
        Most landmarks, and so features; fewer where they explain all signals.
    random_state : int, RandomState or None, default 0
        Seed of the landmarks.

    Attributes
    ----------
    landmarks_ : ndarray of int, (n_landmarks,)
        Indices of the landmarks among the signals fitted.
    residual_ : float
        trace(K − F Fᵀ) / trace(K) of the fitted signals, from 0 to 1.
    signals_, kernel_, n_channels_, n_timepoints_
        As for `KernelMatrix`; the signals are the landmarks.

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

    n_landmarks: int = 100
    _: KW_ONLY
    random_state: Any = 0

    def _start(self, X: Any) -> Any:
        signals = super()._start(X)
        count = min(check_depth(self.n_landmarks, "n_landmarks"), len(signals))
        seed = int(check_random_state(self.random_state).randint(2**31))
        with warnings.catch_warnings():  # fewer landmarks are exact, up to rounding errors
            warnings.filterwarnings("ignore", "pivoted_cholesky stopped")
            low = pivoted_cholesky(self.kernel_, signals, count, seed, **self._options)
        if not len(low.landmarks):
            raise ValueError("kernel is 0 at all signals, expected some that are not 0")
        self.landmarks_, self.signals_ = low.landmarks, take(signals, low.landmarks)
        self.residual_ = low.residual / (low.residual + float((low.factor**2).sum()))
        lower = low.factor[low.landmarks]
        self._half = scipy.linalg.solve_triangular(lower, np.eye(len(lower)), lower=True).T
        return signals

    def _features(self, signals: Any) -> np.ndarray:
        K = super()._features(signals)
        return (K.astype(np.float64, copy=False) @ self._half).astype(K.dtype, copy=False)
