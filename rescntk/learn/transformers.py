"""Transformers that have a kernel: rows of its matrix, or features for linear models."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array
from ..kernels import Kernel, ResCNTK
from ..regression import LandmarkMap, landmark_map
from ..regression.pivoted_cholesky import pivoted_factor
from ..validation import check_choice, check_depth
from .inputs import SignalEstimator, atomic, read_signals
from .kernel import SignalKernel
from .views import take

DEFAULTS = {"engine": "auto", "dtype": "float64", "threads": None}
"""Defaults of the options of a call of a kernel."""


@dataclass(eq=False, repr=False)
class KernelTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SignalEstimator):
    """A transformer with the parameters `kernel`, `engine`, `dtype` and `threads`."""

    kernel: Kernel | SignalKernel | None = None
    _: KW_ONLY
    engine: str = "auto"
    dtype: str = "float64"
    threads: int | None = None

    def set_params(self, **params: Any) -> Any:
        """Set parameters; parameters of a `SignalKernel` as ``kernel__depth`` and so on.

        A parameter of a kernel that is no `SignalKernel` is refused with a ValueError.
        """
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

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            With the ``n_channels`` of a `SignalKernel`, arrays of two axes are
            (n_cases, n_channels · n_timepoints). Or, for the head "gap", a list of signals of
            different lengths, (n_channels, n_timepoints) each.
        y : ignored

        Raises
        ------
        ValueError
            If the parameters or the signals are not as described, or the kernel is 0 at all
            landmarks.
        OverflowError
            If a value exceeds the dtype; a deep kernel wants ``normalized=True``.
        """
        self._fit(self._read(X))
        return self

    @atomic
    def fit_transform(self, X: Array, y: Any = None) -> np.ndarray:
        """Fit, and return the transformed signals, (n_cases, n_features).

        Parameters and errors are as for `fit`. No pair of signals is computed twice: a kernel
        matrix is exactly symmetric.
        """
        return self._fit_transform(self._read(X))

    def transform(self, X: Array) -> np.ndarray:
        """Return a row for each signal.

        Parameters
        ----------
        X : array, (m_cases, n_channels, n_timepoints) or (m_cases, n_timepoints)
            With the numbers of channels and time points of `fit`. Or a list, if `fit` had one.

        Returns
        -------
        ndarray, (m_cases, n_features)
            `KernelMatrix`: the kernel of each signal with each fitted signal.
            `LandmarkFeatures`: the features.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the signals are not as described.
        OverflowError
            If a value exceeds the dtype; a deep kernel wants ``normalized=True``.
        """
        check_is_fitted(self)
        channels = self._flat_channels
        return self._transform(read_signals(self, X, reset=False, n_channels=channels))

    def _fit(self, signals: Any) -> Any:
        raise NotImplementedError

    def _transform(self, signals: Any) -> np.ndarray:
        raise NotImplementedError

    def _fit_transform(self, signals: Any) -> np.ndarray:
        raise NotImplementedError

    def _read(self, X: Array) -> Any:
        """Return the signals to be fitted; set kernel and options."""
        kernel = ResCNTK(3, normalized=True) if self.kernel is None else self.kernel
        options = {name: getattr(self, name) for name in DEFAULTS}
        self._flat_channels = 1
        if isinstance(kernel, SignalKernel):
            for name, default in DEFAULTS.items():
                if options[name] != default:
                    raise ValueError(
                        f"{name} is {options[name]!r}, expected it as a parameter of the "
                        f"SignalKernel"
                    )
            self._flat_channels = 1 if kernel.n_channels is None else kernel.n_channels
            options = kernel.options()
            kernel = kernel.kernel
        elif not isinstance(kernel, Kernel):
            raise ValueError(f"kernel is {kernel!r}, expected a rescntk.Kernel or a SignalKernel")
        self.kernel_: Kernel = kernel
        self._options = options
        return read_signals(self, X, reset=True, n_channels=self._flat_channels)

    @property
    def _n_features_out(self) -> int:
        return len(self.signals_)


class KernelMatrix(KernelTransformer):
    """Turn signals into rows of the kernel matrix with the signals fitted.

    For pipelines whose last step takes a precomputed kernel: ``SVC(kernel="precomputed")``,
    ``KernelRidge(kernel="precomputed")``, ``KernelPCA(kernel="precomputed")`` … Within
    ``cross_val_score`` or ``GridSearchCV`` each fold fits rows and columns of its own.

    Parameters
    ----------
    kernel : Kernel or SignalKernel, optional
        The default is ``rescntk.ResCNTK(3, normalized=True)``. The parameters of a
        `SignalKernel` can be searched, as ``kernel__depth`` and so on; the parameters of a
        `Kernel` cannot. Its ``n_channels`` is the number of channels in arrays of two axes.
    engine, dtype, threads
        As for calling a `Kernel`. With a `SignalKernel` they must stay at their defaults: it has
        parameters of the same names.

    Attributes
    ----------
    signals_ : ndarray, (n_cases, n_channels, n_timepoints), or list of ndarray
        The signals fitted.
    kernel_ : Kernel
        The kernel in use.
    n_channels_, n_timepoints_ : int

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk.learn import KernelMatrix
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> X = np.random.default_rng(0).standard_normal((20, 3, 30))
    >>> y = np.arange(20) % 2
    >>> matrix = KernelMatrix(rk.ResCNTK(depth=2, normalized=True))
    >>> model = make_pipeline(matrix, SVC(kernel="precomputed", C=100.0)).fit(X, y)
    >>> model.predict(X[:4])
    array([0, 1, 0, 1])
    """

    def _fit(self, signals: Any) -> None:
        # A copy, so that later changes of the array do not change the fitted signals.
        self.signals_ = take(signals, np.arange(len(signals)))

    def _transform(self, signals: Any) -> np.ndarray:
        return self.kernel_(signals, self.signals_, **self._options)

    def _fit_transform(self, signals: Any) -> np.ndarray:
        self._fit(signals)
        return self.kernel_(self.signals_, **self._options)  # half of the pairs


@dataclass(eq=False, repr=False)
class LandmarkFeatures(KernelTransformer):
    r"""Turn signals into features F with :math:`F F^\top \approx K`, for any linear model.

    ``RidgeClassifierCV``, ``LogisticRegression``, ``LinearSVC`` … then see a table with
    `n_landmarks` columns. n signals cost n · `n_landmarks` pairs of the kernel, not n².
    Learners with ``partial_fit`` get features block by block.

    The features are :math:`F = K(X, S) L^{-\top}`, with landmarks S and
    :math:`K(S,S) = L L^\top`: Nyström's approximation. They are exact between landmarks and any
    signals. With all signals as landmarks, F Fᵀ is K.

    Parameters
    ----------
    kernel : Kernel or SignalKernel, optional
        As for `KernelMatrix`.
    n_landmarks : int, default 100
        Most landmarks, and so features. Fewer signals are all landmarks. Landmarks that others
        explain up to rounding errors, such as equal signals, are left out.
    selection : {"pivoted", "uniform"}, default "pivoted"
        Choice of the landmarks. "pivoted": randomly pivoted Cholesky, which computes the features
        of all fitted signals on its way, and `residual_`. "uniform": any signals with equal
        probability; `fit` computes the landmarks' own pairs alone.
    random_state : int, RandomState or None, default 0
        Seed of the landmarks.
    engine, dtype, threads
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
        The kernel in use.
    n_channels_, n_timepoints_ : int

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk.learn import LandmarkFeatures
    >>> from sklearn.linear_model import RidgeClassifierCV
    >>> from sklearn.pipeline import make_pipeline
    >>> X = np.random.default_rng(0).standard_normal((60, 3, 30))
    >>> y = (X[:, 0].mean(axis=1) > 0).astype(int)
    >>> features = LandmarkFeatures(rk.ResCNTK(depth=2, normalized=True), n_landmarks=20)
    >>> model = make_pipeline(features, RidgeClassifierCV()).fit(X, y)
    >>> model[0].transform(X[:4]).shape, 0 < model[0].residual_ < 0.2
    ((4, 20), True)
    """

    n_landmarks: int = 100
    _: KW_ONLY
    selection: str = "pivoted"
    random_state: int | np.random.RandomState | None = 0

    def _fit(self, signals: Any) -> np.ndarray | None:
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
        self.landmarks_, self.signals_ = self.map_.landmarks, self.map_.signals
        return factor

    def _transform(self, signals: Any) -> np.ndarray:
        return self._cast(self.map_(signals))

    def _fit_transform(self, signals: Any) -> np.ndarray:
        factor = self._fit(signals)
        return self._transform(signals) if factor is None else self._cast(factor)

    def _cast(self, features: np.ndarray) -> np.ndarray:
        """Return features in the kernel's dtype."""
        return features.astype(self._options["dtype"], copy=False)
