"""Kernel matrices as a step of a pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array
from ..kernels import Kernel
from .atomic import atomic
from .batches import Signals, take
from .kernel import SignalKernel
from .kernel_transformer import KernelTransformer


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

    Parameters are searched where the kernel is a `SignalKernel`:

    >>> from rescntk.learn import SignalKernel
    >>> from sklearn.model_selection import GridSearchCV
    >>> model = make_pipeline(KernelMatrix(SignalKernel()), SVC(kernel="precomputed"))
    >>> grid = {"kernelmatrix__kernel__depth": [1, 2], "svc__C": [1.0, 100.0]}
    >>> sorted(GridSearchCV(model, grid, cv=2).fit(X, y).best_params_)
    ['kernelmatrix__kernel__depth', 'svc__C']
    """

    def __init__(
        self,
        kernel: Kernel | SignalKernel | None = None,
        *,
        engine: str = "auto",
        dtype: str = "float64",
        threads: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.engine = engine
        self.dtype = dtype
        self.threads = threads

    @atomic
    def fit(self, X: Array, y: Any = None) -> KernelMatrix:
        """Keep the signals.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_timepoints)
            With the ``n_channels`` of a `SignalKernel`, arrays of two axes are
            (n_cases, n_channels · n_timepoints). Or, for the head "gap", a list of signals of
            different lengths, (n_channels, n_timepoints) each.
        y : ignored

        Returns
        -------
        KernelMatrix
            Itself.

        Raises
        ------
        ValueError
            If the kernel, its options or the signals are not as described.
        """
        self._keep(X)
        return self

    @atomic
    def fit_transform(self, X: Array, y: Any = None) -> np.ndarray:
        """Keep the signals, and return their kernel matrix K, (n_cases, n_cases).

        Only half of the pairs are computed.

        Parameters
        ----------
        X, y
            As for `fit`.

        Returns
        -------
        ndarray, (n_cases, n_cases)
            Exactly symmetric.

        Raises
        ------
        ValueError
            As by `fit`.
        OverflowError
            If a value exceeds the dtype; a deep kernel wants ``normalized=True``.
        """
        self._keep(X)
        return self._matrix(None)

    def transform(self, X: Array) -> np.ndarray:
        """Return the kernel of each signal with each fitted signal, (m_cases, n_cases).

        Parameters
        ----------
        X : array, (m_cases, n_channels, n_timepoints) or (m_cases, n_timepoints)
            With the numbers of channels and time points of `fit`.

        Returns
        -------
        ndarray, (m_cases, n_cases)

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
        return self._matrix(self._read_again(X))

    def _keep(self, X: Array) -> None:
        """Set kernel, options and signals."""
        # A copy, so that later changes of the array do not change the fitted signals.
        signals = self._read(X)
        self.signals_ = take(signals, np.arange(len(signals)))

    def _matrix(self, signals: Signals | None) -> np.ndarray:
        pair: Any = (self.signals_,) if signals is None else (signals, self.signals_)
        return self.kernel_(*pair, **self._options)
