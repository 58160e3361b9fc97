"""Transformers of scikit-learn: rows of a kernel matrix, features of landmarks, and views."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..checks.messages import shown
from ..checks.values import check_choice, check_positive_integer
from ..kernels import Kernel
from ..regression import pivoted_cholesky
from .base import SignalEstimator, fitting
from .reading.inputs import read_signals, read_training_signals
from .reading.signals import Signals, scaled, take, unit_exponent
from .signal_kernel import SignalKernel
from .views.view import View


@dataclass(eq=False, repr=False)
class KernelMatrix(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SignalEstimator):
    """Turn signals into rows of the kernel matrix with the signals fitted.

    It serves pipelines whose last step takes a precomputed kernel, such as
    ``SVC(kernel="precomputed")``.

    Parameters
    ----------
    kernel : Kernel or SignalKernel, optional
        The default is ``rescntk.ResCNTK(3, normalized=True)``. A `SignalKernel` has parameters that
        searches set, such as ``kernel__depth``; it knows the number of channels of flat arrays, and
        how kernels are computed.

    Attributes
    ----------
    signals_ : ndarray, (n_cases, n_channels, n_timepoints), or list of ndarray
        The signals given to `fit`.
    kernel_ : Kernel or SignalKernel
        A copy of the kernel, as it was at `fit`.
    n_channels_, n_timepoints_ : int
        Number of channels and of time points of the signals. For images `n_timepoints_` is (height,
        width), and for a list it is None.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk.learn import KernelMatrix
    >>> X = np.random.default_rng(0).standard_normal((20, 3, 30))
    >>> KernelMatrix(rk.ResCNTK(depth=2, normalized=True)).fit(X[:15]).transform(X).shape
    (20, 15)
    """

    kernel: Kernel | SignalKernel | None = None

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Keep the signals with which `transform` compares others.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            Or images (n_cases, n_channels, height, width), or a table of numbers, or for the head
            "gap" a list of signals (n_channels, n_timepoints_i).
        y : object, optional
            Ignored.

        Returns
        -------
        KernelMatrix or LandmarkFeatures
            The transformer itself.

        Raises
        ------
        ValueError
            For missing values, and for a `kernel` of another type.
        """
        with fitting(self) as fresh:
            fresh._fit(X)
        return self

    def fit_transform(self, X: ArrayLike, y: object = None) -> np.ndarray:
        """Fit to signals, and return them transformed; half of the pairs are computed.

        Parameters
        ----------
        X, y
            As for `fit`.

        Returns
        -------
        ndarray, (n_cases, n_features)
            As `transform` returns them.

        Raises
        ------
        ValueError
            For what `fit` refuses.
        """
        with fitting(self) as fresh:
            features = fresh._features(fresh._fit(X))
        return features

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Return the kernel of signals with each fitted signal, or the features.

        Parameters
        ----------
        X : array, (m_cases, …), table or list
            Signals as for `fit`, with the same number of channels and, unless `fit` was given a
            list, the same number of time points.

        Returns
        -------
        ndarray, (m_cases, n_features)
            In the kernel's dtype, with a column for each fitted signal, or each landmark.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, and for missing values.
        NotFittedError
            Before `fit`.
        """
        return self._features(self._read(X))

    def _read(self, X: object) -> Signals:
        """Return X as checked signals or images, of the shape of those in `fit`."""
        check_is_fitted(self, "n_channels_")
        given = read_signals(X, n_channels=self._n_flat_channels, images=True)
        return self._checked(X, given)

    @property
    def _n_flat_channels(self) -> int | None:
        """The number of channels of flat arrays, which a `SignalKernel` may have."""
        return getattr(self.kernel_, "n_channels", None)

    def _fit(self, X: ArrayLike) -> Signals:
        """Set the fitted attributes, and return the signals as `_features` takes them."""
        kernel = SignalKernel() if self.kernel is None else self.kernel
        if not isinstance(kernel, Kernel | SignalKernel):
            raise ValueError(
                f"kernel is {shown(kernel)}, expected a rescntk.Kernel or a SignalKernel"
            )
        self.kernel_ = clone(kernel, safe=False)
        given = read_training_signals(X, n_channels=self._n_flat_channels, images=True)
        self._remember(X, given)
        # A copy, since the caller may change X.
        self.signals_ = take(given.signals, np.arange(len(given.signals)))
        # The kernel of an object with itself computes half of the pairs.
        return self.signals_

    def _features(self, signals: Signals) -> np.ndarray:
        """Return the features of checked signals, (n_cases, n_features)."""
        return np.asarray(self.kernel_(signals, self.signals_))

    @property
    def _n_features_out(self) -> int:
        return len(self.signals_)


@dataclass(eq=False, repr=False)
class LandmarkFeatures(KernelMatrix):
    r"""Turn signals into features F with :math:`F F^\top \approx K`, for any linear model.

    n signals cost n · `n_landmarks` pairs of the kernel instead of n². The features are Nyström's,
    :math:`F = K(X, S) L^{-\top}`, with landmarks S that randomly pivoted Cholesky chooses, and
    :math:`K(S,S) = L L^\top`. Between landmarks and any signals, the products of features are the
    kernel, up to rounding errors.

    Parameters
    ----------
    kernel : Kernel or SignalKernel, optional
        The default is ``rescntk.ResCNTK(3, normalized=True)``. Features are computed in float64,
        and returned in the kernel's dtype.
    n_landmarks : int, default 100
        Maximum number of landmarks, and so of features. There are fewer if these explain all
        signals.
    random_state : int, RandomState or None, default 0
        Seed of the landmarks.

    Attributes
    ----------
    landmark_indices_ : ndarray of int, (n_features,)
        Indices of the landmarks among the signals fitted.
    residual_ : float
        trace(K − F Fᵀ) / trace(K) of the fitted signals, from 0 to 1.
    signals_, kernel_, n_channels_, n_timepoints_
        As for `KernelMatrix`, but `signals_` are the landmarks.

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
    random_state: int | np.random.RandomState | None = 0

    def _fit(self, X: ArrayLike) -> Signals:
        signals = super()._fit(X)
        count = min(check_positive_integer(self.n_landmarks, "n_landmarks"), len(signals))
        seed = int(check_random_state(self.random_state).randint(2**31))
        with warnings.catch_warnings():
            # That fewer landmarks explain all signals is no reason to warn.
            warnings.filterwarnings("ignore", "pivoted_cholesky stopped")
            approximation = pivoted_cholesky(self.kernel_, signals, count, seed)
        pivots, factor, residual = (
            approximation.pivots,
            approximation.factor,
            approximation.residual,
        )
        if not len(pivots):
            raise ValueError("kernel is 0 at all signals, expected some that are not 0")
        self.landmark_indices_, self.signals_ = pivots, take(signals, pivots)
        self.residual_ = residual / (residual + float((factor**2).sum()))
        lower = factor[pivots]
        self._inverse_factor = scipy.linalg.solve_triangular(
            lower, np.eye(len(lower)), lower=True
        ).T
        return signals

    def _features(self, signals: Signals) -> np.ndarray:
        K = super()._features(signals)
        return np.asarray(K @ self._inverse_factor, K.dtype)


@dataclass(eq=False, repr=False)
class ViewTransformer(TransformerMixin, SignalEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Turn signals into what the network of a view sees.

    `fit` measures the scales of the view.

    Parameters
    ----------
    view : View, optional
        The default is ``View()``.

    Attributes
    ----------
    view_ : View
        The view at `fit`.
    n_channels_, n_timepoints_ : int
        Number of channels and of time points of the signals; if they are a list, `n_timepoints_`
        is None.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn import View, ViewTransformer
    >>> X = np.random.default_rng(0).standard_normal((20, 2, 200))
    >>> ViewTransformer(View(standardize="channel", length=50)).fit_transform(X).shape
    (20, 3, 50)
    """

    view: View | None = None

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Measure the scales of signals.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            Or a table of numbers, or a list of signals (n_channels, n_timepoints_i).
        y : object, optional
            Ignored.

        Returns
        -------
        ViewTransformer
            The transformer itself.

        Raises
        ------
        ValueError
            For missing values, signals that the view cannot take, and a `view` of another type.
        """
        with fitting(self) as fresh:
            fresh._fit(X)
        return self

    def _fit(self, X: ArrayLike) -> None:
        """Set the fitted attributes."""
        view = View() if self.view is None else self.view
        if not isinstance(view, View):
            raise ValueError(f"view is {shown(view)}, expected a View or None")
        given = read_training_signals(X)
        exponent = unit_exponent(given.signals)
        signals = scaled(given.signals, exponent)
        pipeline, _ = view.pipeline(signals).fit_and_transform(signals, np.ones(len(signals)))
        self._remember(X, given)
        self.view_, self._exponent, self._pipeline = view, exponent, pipeline

    def transform(self, X: ArrayLike) -> Signals:
        """Return signals as the network sees them: more channels, fewer points.

        Parameters
        ----------
        X : array, table or list
            Signals as for `fit`, with the same number of channels and, unless `fit` was given a
            list, the same number of time points.

        Returns
        -------
        ndarray, (n_cases, n_seen_channels, n_points), or a list of (n_seen_channels, n_points_i)
            Numbers in the units that `fit` has measured.

        Raises
        ------
        ValueError
            For signals of another shape than in `fit`, for missing values, and for values that
            leave float64 in the units of `fit`.
        NotFittedError
            Before `fit`.
        """
        signals = self._read(X)
        return self._pipeline.transform(scaled(signals, self._exponent))

    def set_output(self, *, transform: str | None = None) -> Self:
        """Accept the kind of output that a pipeline sets for all its steps, and ignore it.

        This step returns arrays or lists whatever is set, since tables have two axes, and signals
        three.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default None
            Kind of tables that other steps return.

        Returns
        -------
        ViewTransformer
            The transformer itself.

        Raises
        ------
        ValueError
            For other kinds.
        """
        if transform is not None:
            check_choice(transform, "transform", ("default", "pandas", "polars"))
        return self
