"""Transformers: standardized signals, rows of a kernel matrix, or features for linear models."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array
from ..kernels import Kernel, ResCNTK
from ..regression import LandmarkMap, landmark_map
from ..regression.pivoted_cholesky import pivoted_factor
from ..validation import check_choice, check_depth, check_flag
from .containers import as_signals
from .inputs import SignalEstimator, atomic, read_signals
from .kernel import SignalKernel
from .views import Signals, each, standard_scale, take


@dataclass(kw_only=True, eq=False, repr=False)
class SignalScaler(OneToOneFeatureMixin, TransformerMixin, SignalEstimator):
    """Standardize each channel: subtract its mean, divide by its standard deviation.

    Mean and standard deviation are taken over all cases and time points of the fitted signals,
    so that cases still differ in level and amplitude. A constant channel is not divided.

    Parameters
    ----------
    with_mean, with_std : bool, default True
        Whether to subtract the mean, whether to divide by the standard deviation.
    missing : {"refuse", "interpolate"}, default "refuse"
        As for `ResidualKernelClassifier`.

    Attributes
    ----------
    mean_, scale_ : ndarray, (n_channels,)
        Subtrahend and divisor.
    n_channels_, n_timepoints_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn import SignalScaler
    >>> X = 3 + 2 * np.random.default_rng(0).standard_normal((10, 4, 50))
    >>> SignalScaler().fit_transform(X).std(axis=(0, 2)).round(6)
    array([1., 1., 1., 1.])
    """

    with_mean: bool = True
    with_std: bool = True
    missing: str = "refuse"

    @atomic
    def fit(self, X: Array, y: Any = None) -> SignalScaler:
        """Measure mean and standard deviation of each channel, and return the scaler itself.

        X is (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints), or a list of signals of
        different lengths, (n_channels, n_timepoints) each; y is ignored.
        """
        with_mean = check_flag(self.with_mean, "with_mean")
        with_std = check_flag(self.with_std, "with_std")
        signals = read_signals(self, X, reset=True)
        mean, deviation = standard_scale(signals, np.ones(len(signals)))
        self.mean_ = mean if with_mean else np.zeros(len(mean))
        self.scale_ = np.where(with_std & (deviation > 0), deviation, 1.0)
        return self

    def transform(self, X: Array) -> Signals:
        """Return standardized signals, of the shape of `X`.

        X is as for `fit`; signals of another shape are refused with a ValueError.
        """
        return self._mapped(X, lambda Z: (Z - self.mean_[:, None]) / self.scale_[:, None])

    def inverse_transform(self, X: Array) -> Signals:
        """Return the signals whose standardized version is `X`, which is as for `transform`."""
        check_is_fitted(self)
        of_standardized = copy.copy(self)
        if hasattr(self, "channel_levels_"):
            of_standardized.channel_levels_ = (self.channel_levels_ - self.mean_) / self.scale_
        scale, mean = self.scale_[:, None], self.mean_[:, None]
        return of_standardized._mapped(X, lambda Z: Z * scale + mean)

    def _mapped(self, X: Array, function: Callable[[np.ndarray], np.ndarray]) -> Signals:
        """Return `function` of each signal, (n_channels, n_timepoints), in the shape of `X`."""
        check_is_fitted(self)
        signals: Any = each(function, read_signals(self, X, reset=False))
        levels = getattr(self, "channel_levels_", None)
        axes = as_signals(X, "X", lists=True, missing=self.missing, levels=levels)
        flat = isinstance(signals, np.ndarray) and axes is None
        return signals[:, 0] if flat else signals

    def set_output(self, *, transform: str | None = None) -> SignalScaler:
        """Set the container of `transform`: "default", "pandas" or "polars"; return the scaler.

        It is for arrays of two axes. Signals of three axes, and lists, have no columns: they do
        not change.
        """
        unfitted = clone(self)  # one fitted to three axes has no columns to name
        super(SignalScaler, unfitted).set_output(transform=transform)
        self.__dict__.update(vars(unfitted))
        return self

    @available_if(lambda self: hasattr(self, "n_features_in_") or not hasattr(self, "mean_"))
    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns, (n_timepoints,), or else `input_features`.

        Signals of three axes have no columns: this method is missing then, and they stay arrays.
        """
        return super().get_feature_names_out(input_features)


@dataclass(eq=False, repr=False)
class KernelMatrix(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SignalEstimator):
    """Turn signals into rows of the kernel matrix with the signals fitted.

    For pipelines whose last step takes a precomputed kernel, such as ``SVC(kernel="precomputed")``.
    Within ``cross_val_score`` or ``GridSearchCV`` each fold fits rows and columns of its own.

    Parameters
    ----------
    kernel : Kernel or SignalKernel, optional
        The default is ``rescntk.ResCNTK(3, normalized=True)``. Parameters of a `SignalKernel`
        can be searched, as ``kernel__depth`` and so on. Its ``n_channels`` is for flat arrays.
    engine, dtype, threads
        As for calling a `Kernel`. A `SignalKernel` has its own.
    missing : {"refuse", "interpolate"}, default "refuse"
        As for `ResidualKernelClassifier`.

    Attributes
    ----------
    signals_ : ndarray, (n_cases, n_channels, n_timepoints), or list of ndarray
    kernel_ : Kernel
    n_channels_, n_timepoints_ : int

    See Also
    --------
    LandmarkFeatures : Features for linear models and many signals.
    SignalKernel : A kernel with parameters, for Gaussian processes.

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
    _: KW_ONLY
    engine: str = "auto"
    dtype: str = "float64"
    threads: int | None = None
    missing: str = "refuse"

    def set_params(self, **params: Any) -> Any:
        """Set parameters; parameters of a `SignalKernel` as ``kernel__depth`` and so on."""
        kernel = params.get("kernel", self.kernel)
        inner = [name for name in params if name.startswith("kernel__")]
        if inner and not isinstance(kernel, SignalKernel):
            raise ValueError(
                f"{inner[0]} cannot be set, since kernel is {kernel!r}: expected a SignalKernel, "
                f"whose parameters can be searched"
            )
        return super().set_params(**params)

    @atomic
    def fit(self, X: Array, y: Any = None) -> Any:
        """Keep the signals that others are compared with, and return the estimator itself.

        X is (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints); with the ``n_channels``
        of a `SignalKernel`, arrays of two axes are (n_cases, n_channels · n_timepoints). Or, for
        the head "gap", a list of signals of different lengths, (n_channels, n_timepoints) each; y
        is ignored. A ValueError or OverflowError is raised if the kernel is 0 at all landmarks, or
        exceeds the dtype: set ``normalized=True``.
        """
        self._fit(self._read(X))
        return self

    @atomic
    def fit_transform(self, X: Array, y: Any = None) -> np.ndarray:
        """Fit, and return the transformed signals, (n_cases, n_features), no pair computed twice.

        Parameters and errors are as for `fit`.
        """
        signals = self._read(X)
        return self._transform(signals, self._fit(signals))

    def transform(self, X: Array) -> np.ndarray:
        """Return the kernel with each fitted signal, or the features, (m_cases, n_features).

        X, with the numbers of channels and time points of `fit`, and errors are as for `fit`.
        """
        check_is_fitted(self)
        return self._transform(read_signals(self, X, reset=False, n_channels=self._flat_channels))

    def _read(self, X: Array) -> Any:
        """Return the signals to be fitted; set kernel and options."""
        kernel = ResCNTK(3, normalized=True) if self.kernel is None else self.kernel
        self._flat_channels = 1
        self._options = {name: getattr(self, name) for name in ("engine", "dtype", "threads")}
        if isinstance(kernel, SignalKernel):
            for name, value in self._options.items():
                if value != getattr(KernelMatrix, name):
                    raise ValueError(
                        f"{name} is {value!r}, expected it as a parameter of the SignalKernel"
                    )
            self._flat_channels = 1 if kernel.n_channels is None else kernel.n_channels
            self._options, kernel = kernel.options(), kernel.kernel
        elif not isinstance(kernel, Kernel):
            raise ValueError(f"kernel is {kernel!r}, expected a rescntk.Kernel or a SignalKernel")
        self.kernel_: Kernel = kernel
        return read_signals(self, X, reset=True, n_channels=self._flat_channels)

    def _fit(self, signals: Any) -> Any:
        """Fit, and return what spares `_transform` of the same signals some pairs, or None."""
        # A copy, so that later changes of the array do not change the fitted signals.
        self.signals_ = take(signals, np.arange(len(signals)))
        return self.signals_

    def _transform(self, signals: Any, fitted: Any = None) -> np.ndarray:
        rows = signals if fitted is None else fitted  # the same object: half of the pairs
        return self.kernel_(rows, self.signals_, **self._options)

    @property
    def _n_features_out(self) -> int:
        return len(self.signals_)


@dataclass(eq=False, repr=False)
class LandmarkFeatures(KernelMatrix):
    r"""Turn signals into features F with :math:`F F^\top \approx K`, for any linear model.

    n signals cost n · `n_landmarks` pairs of the kernel, not n² (docs/guide/scikit_learn.md).
    The features are :math:`F = K(X, S) L^{-\top}`, with landmarks S and
    :math:`K(S,S) = L L^\top`: Nyström's approximation, exact between landmarks and any signals.

    Parameters
    ----------
    kernel : Kernel or SignalKernel, optional
        As for `KernelMatrix`.
    n_landmarks : int, default 100
        Most landmarks, and so features. Redundant ones, such as equal signals, are left out.
    selection : {"pivoted", "uniform"}, default "pivoted"
        Choice of the landmarks: by randomly pivoted Cholesky, which computes the features of all
        fitted signals on its way; or with equal probability, from only the landmarks' own pairs.
    random_state : int, RandomState or None, default 0
        Seed of the landmarks.
    engine, dtype, threads, missing
        As for `KernelMatrix`; features have this dtype.

    Attributes
    ----------
    landmarks_ : ndarray of int, (n_features,)
        Indices of the landmarks among the signals fitted.
    signals_ : ndarray, (n_features, n_channels, n_timepoints)
        The landmarks; of different lengths, if the fitted signals are.
    map_ : rescntk.regression.LandmarkMap
        The function from signals to features in float64.
    residual_ : float
        trace(K − F Fᵀ) / trace(K) of the fitted signals, from 0 to 1; nan for "uniform".
    kernel_ : Kernel
    n_channels_, n_timepoints_ : int

    See Also
    --------
    KernelMatrix : The kernel matrix itself.
    rescntk.regression.pivoted_cholesky : How landmarks are chosen.

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
    selection: str = "pivoted"
    random_state: int | np.random.RandomState | None = 0

    def _fit(self, signals: Any) -> Any:
        """Choose the landmarks; return the features of the signals where they come for free."""
        count = min(check_depth(self.n_landmarks, "n_landmarks"), len(signals))
        selection = check_choice(self.selection, "selection", ("pivoted", "uniform"))
        generator, factor = check_random_state(self.random_state), None
        self.residual_ = np.nan
        if selection == "uniform":
            chosen: Any = generator.choice(len(signals), count, replace=False)
        else:
            # Fewer landmarks than asked for are exact, up to rounding errors.
            seed = generator.randint(2**31)
            chosen = pivoted_factor(self.kernel_, signals, count, seed, self._options)
            factor = chosen.factor
            total = chosen.residual + float((factor**2).sum())
            self.residual_ = chosen.residual / total if total > 0 else 0.0
        self.map_: LandmarkMap = landmark_map(self.kernel_, signals, chosen, **self._options)
        self.landmarks_, landmarks = self.map_.landmarks, self.map_.signals
        self.signals_: Signals = landmarks if isinstance(landmarks, np.ndarray) else list(landmarks)
        return factor

    def _transform(self, signals: Any, fitted: Any = None) -> np.ndarray:
        features = self.map_(signals) if fitted is None else fitted
        return features.astype(self._options["dtype"], copy=False)
