"""Features of signals for linear models: a kernel, by its columns at a few landmarks."""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array
from ..kernels import Kernel
from ..regression import LandmarkMap, landmark_map, pivoted_cholesky
from ..validation import check_choice, check_depth
from .atomic import atomic
from .batches import Signals
from .kernel import SignalKernel
from .kernel_transformer import KernelTransformer

SELECTIONS = ("pivoted", "uniform")
"""Ways to choose landmarks: randomly pivoted Cholesky, or any signals with equal probability."""


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
        The default is ``rescntk.ResCNTK(3, normalized=True)``. The parameters of a
        `SignalKernel` can be searched, as ``kernel__depth`` and so on; the parameters of a
        `Kernel` cannot. Its ``n_channels`` is the number of channels in arrays of two axes.
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
        As for calling a `Kernel`; features have this dtype. With a `SignalKernel` they must stay
        at their defaults: it has parameters of the same names.

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
    >>> from sklearn.linear_model import RidgeClassifierCV, SGDClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X = np.random.default_rng(0).standard_normal((60, 3, 30))
    >>> y = (X[:, 0].mean(axis=1) > 0).astype(int)
    >>> features = LandmarkFeatures(rk.ResCNTK(depth=2, normalized=True), n_landmarks=20)
    >>> model = make_pipeline(features, RidgeClassifierCV()).fit(X, y)
    >>> model[0].transform(X[:4]).shape, 0 < model[0].residual_ < 0.2
    ((4, 20), True)

    A stream of signals:

    >>> features = features.set_params(selection="uniform").fit(X)
    >>> model = SGDClassifier()
    >>> for rows in (slice(0, 30), slice(30, 60)):
    ...     model = model.partial_fit(features.transform(X[rows]), y[rows], classes=[0, 1])
    """

    def __init__(
        self,
        kernel: Kernel | SignalKernel | None = None,
        n_landmarks: int = 100,
        *,
        selection: str = "pivoted",
        random_state: int | np.random.RandomState | None = 0,
        engine: str = "auto",
        dtype: str = "float64",
        threads: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_landmarks = n_landmarks
        self.selection = selection
        self.random_state = random_state
        self.engine = engine
        self.dtype = dtype
        self.threads = threads

    @atomic
    def fit(self, X: Array, y: Any = None) -> LandmarkFeatures:
        """Choose the landmarks.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            With the ``n_channels`` of a `SignalKernel`, arrays of two axes are
            (n_cases, n_channels · n_timepoints).
            Or a list of signals of different lengths, (n_channels, n_timepoints) each.
        y : ignored

        Returns
        -------
        LandmarkFeatures
            Itself.

        Raises
        ------
        ValueError
            If parameters or signals are not as described, or the kernel is 0 at all landmarks.
        OverflowError
            If a value exceeds the dtype; a deep kernel wants ``normalized=True``.
        """
        self._choose(self._read(X))
        return self

    @atomic
    def fit_transform(self, X: Array, y: Any = None) -> np.ndarray:
        """Choose the landmarks, and return the features of the signals.

        With ``selection="pivoted"`` this costs no more than `fit` alone.

        Parameters
        ----------
        X, y
            As for `fit`.

        Returns
        -------
        ndarray, (n_cases, n_features)

        Raises
        ------
        ValueError, OverflowError
            As by `fit`.
        """
        signals = self._read(X)
        factor = self._choose(signals)
        return self._features(signals) if factor is None else self._cast(factor)

    def transform(self, X: Array) -> np.ndarray:
        """Return the features of signals.

        Parameters
        ----------
        X : array, (m_cases, n_channels, n_timepoints) or (m_cases, n_timepoints)
            With the numbers of channels and time points of `fit`. Or a list, if `fit` had one.

        Returns
        -------
        ndarray, (m_cases, n_features)

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
        return self._features(self._read_again(X))

    def _choose(self, given: Signals) -> np.ndarray | None:
        """Choose the landmarks; return the features of the signals where they come for free."""
        signals: Any = given
        count = min(check_depth(self.n_landmarks, "n_landmarks"), len(signals))
        selection = check_choice(self.selection, "selection", SELECTIONS)
        generator, factor = check_random_state(self.random_state), None
        self.residual_ = np.nan
        if selection == "uniform":
            chosen: Any = generator.choice(len(signals), count, replace=False)
        else:
            with warnings.catch_warnings():
                # Fewer landmarks than asked for are exact, up to rounding errors.
                warnings.filterwarnings("ignore", "pivoted_cholesky stopped at rank")
                seed = generator.randint(2**31)
                chosen = pivoted_cholesky(self.kernel_, signals, count, seed=seed, **self._options)
            factor = chosen.factor
            total = chosen.residual + float((factor**2).sum())
            self.residual_ = chosen.residual / total if total > 0 else 0.0
        self.map_: LandmarkMap = landmark_map(self.kernel_, signals, chosen, **self._options)
        self.landmarks_, self.signals_ = self.map_.landmarks, self.map_.signals
        return factor

    def _features(self, signals: Signals) -> np.ndarray:
        return self._cast(self.map_(cast(Any, signals)))

    def _cast(self, features: np.ndarray) -> np.ndarray:
        """Return features in the kernel's dtype."""
        return features.astype(self._options["dtype"], copy=False)
