"""Kernels as scikit-learn's models call them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from ..arrays import Array
from ..checks.messages import warn
from ..checks.values import check_real
from ..derivative import alpha_derivative, has_alpha_derivative
from ..kernels import Kernel
from ..kernels.arguments import check_kernel_network
from ..network import Network
from .reading.inputs import split_channels
from .reading.tables import check_columns, is_table
from .views.kernels import KernelOptions


class SignalKernel(SklearnKernel):
    r"""A kernel of an infinitely wide convolutional network for scikit-learn.

    ``SVC(kernel=SignalKernel(…))`` takes signals of three axes. Other models, such as
    ``GaussianProcessRegressor``, take flat arrays (n_cases, n_channels · n_timepoints), one channel
    after the other: ``X.reshape(len(X), -1)``. Sums and products with other kernels are kernels.

    Gaussian processes learn α, the weight of the residual branch, from the marginal likelihood.
    Each step of the optimizer takes five kernel matrices.

    Parameters
    ----------
    network : Network, optional
        The infinitely wide network, by default ``Network(depth=3)``.
    kind : {"gpk", "ntk"}, default "ntk"
        Gaussian process kernel or neural tangent kernel.
    head : {"gap", "trace", "equivariant"} or int, default "gap"
        The readout, as for `rescntk.Kernel`.
    normalized : bool, default True
        Whether kernels of signals with themselves are 1.
    alpha_bounds : (float, float) or "fixed", default (0.01, 10.0)
        Bounds between which α is learned. It is fixed if the network has no skip connections, or
        if `rescntk.derivative.alpha_derivative` does not take it.
    n_channels : int, optional
        Number of channels of flat arrays. Without it they are read as one channel, with a warning.
    engine, dtype, threads : default "auto", "float64" and all
        As for calling a `rescntk.Kernel`.
    **parameters
        Parameters of `rescntk.Network`, such as ``depth=2``, which replace those of `network`.
        Searches set them by these names.

    Raises
    ------
    ValueError
        For a `network` that is no `rescntk.Network`, and for parameters that it refuses.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.learn import SignalKernel
    >>> from sklearn.svm import SVC
    >>> X, y = np.random.default_rng(0).standard_normal((20, 3, 30)), np.arange(20) % 2
    >>> SVC(kernel=SignalKernel(depth=2), C=100.0).fit(X, y).predict(X[:4])
    array([0, 1, 0, 1])
    >>> SignalKernel(depth=2).set_params(alpha=0.5).network.alpha
    0.5
    """

    def __init__(
        self,
        network: Network | None = None,
        *,
        kind: str = "ntk",
        head: str | int = "gap",
        normalized: bool = True,
        alpha_bounds: tuple[float, float] | str = (1e-2, 1e1),
        n_channels: int | None = None,
        engine: str = "auto",
        dtype: str = "float64",
        threads: int | None = None,
        **parameters: Any,
    ) -> None:
        self.network = _changed(Network(3) if network is None else network, parameters)
        self.kind = kind
        self.head = head
        self.normalized = normalized
        self.alpha_bounds = alpha_bounds
        self.n_channels = n_channels
        self.engine = engine
        self.dtype = dtype
        self.threads = threads

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default True
            Whether the parameters of the network are returned too.

        Returns
        -------
        dict
        """
        network_parameters = _parameters(self.network) if deep else {}
        return network_parameters | super().get_params()

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the kernel and of its network.

        Parameters
        ----------
        **params
            Parameters by name. Parameters of the network replace those of a `network` that is given
            with them.

        Returns
        -------
        SignalKernel
            The kernel itself.

        Raises
        ------
        ValueError
            For unknown names, and for parameters that `rescntk.Network` refuses.
        """
        names = [name for name in _parameters(self.network) if name in params]
        network_parameters = {name: params.pop(name) for name in names}
        super().set_params(**params)
        self.network = _changed(self.network, network_parameters)
        return self

    @property
    def kernel(self) -> Kernel:
        """The `rescntk.Kernel` whose matrices are computed."""
        return Kernel(self.network, self.kind, self.head, self.normalized)

    def options(self) -> KernelOptions:
        """Return ``engine``, ``dtype`` and ``threads``, with which the kernel is called.

        Returns
        -------
        dict
        """
        return {"engine": self.engine, "dtype": self.dtype, "threads": self.threads}

    @property
    def hyperparameter_alpha(self) -> Hyperparameter:
        """The hyperparameter log α, which Gaussian processes learn between `alpha_bounds`.

        A ValueError is raised if α is 0 and not fixed.
        """
        alpha, *_ = self.network.values_of("alpha")
        is_learned = all(self.network.values_of("skip")) and has_alpha_derivative(self.network)
        bounds = self.alpha_bounds if is_learned else "fixed"
        learned = Hyperparameter("alpha", "numeric", bounds)
        if not (learned.fixed or alpha > 0):
            raise ValueError(
                f"alpha is {self.network.alpha!r}, expected a positive number, or "
                f"alpha_bounds='fixed'"
            )
        return learned

    def __call__(
        self, X: Array, Y: Array | None = None, eval_gradient: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Return the kernel matrix K and, with `eval_gradient`, its derivative ∂K/∂log α.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_channels · n_timepoints)
            Or images, and for the head "gap" lists of signals, as for a `rescntk.Kernel`.
        Y : array, (m_cases, …), optional
            By default X: then half of the pairs are computed.
        eval_gradient : bool, default False
            Whether the derivative is returned too, which needs Y to be None. If α is learned, the
            derivative and K come from `rescntk.derivative.alpha_derivative`, in float64.

        Returns
        -------
        K : ndarray, (n_cases, m_cases)
        derivative : ndarray, (n_cases, n_cases, 1)
            Returned only with `eval_gradient`; (n_cases, n_cases, 0) if α is fixed.

        Raises
        ------
        ValueError
            For signals that a `rescntk.Kernel` refuses, flat arrays whose columns are no multiple
            of `n_channels`, a derivative with Y, and a learned α that is 0.
        """
        kernel, signals = self.kernel, self._signals(X, "X")
        columns = None if Y is None or Y is X else self._signals(Y, "Y")
        if eval_gradient and Y is not None:
            raise ValueError("Y is given, expected eval_gradient without it")
        if eval_gradient and not self.hyperparameter_alpha.fixed:
            K, by_alpha = alpha_derivative(
                kernel, signals, engine=self.engine, threads=self.threads
            )
            return K, (self.network.alpha * by_alpha)[:, :, None]
        K = kernel(signals, columns, **self.options())
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def diag(self, X: Array) -> np.ndarray:
        """Return the kernel of each signal with itself.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints) or (n_cases, n_channels · n_timepoints)

        Returns
        -------
        ndarray, (n_cases,)

        Raises
        ------
        ValueError
            For signals that calling the kernel refuses.
        """
        return self.kernel.diag(self._signals(X, "X"), **self.options())

    def is_stationary(self) -> bool:
        """Return whether the kernel depends only on the differences of signals.

        Returns
        -------
        bool
            False.
        """
        return False

    def __repr__(self) -> str:
        defaults = type(self)(filter_size=self.network.filter_size).get_params() | {
            "filter_size": 3
        }
        changed = [
            f"{name}={value:.6g}" if isinstance(value, float) else f"{name}={value!r}"
            for name, value in self.get_params().items()
            if name != "network"
            and not np.array_equal(value, defaults[name])  # bounds may be arrays
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _signals(self, X: Array, name: str) -> np.ndarray:
        """Return flat arrays and tables as signals, and all else as it is: the kernel checks it."""
        if is_table(X):
            check_columns(X)
        elif getattr(X, "ndim", 3) != 2:
            return X
        if self.n_channels is None:
            warn(
                f"{name} of shape {np.shape(X)} is flat, and is read as signals of one channel: "
                f"give n_channels (n_channels=1 confirms one)",
            )
        flat = check_real(X, name, "(n_cases, n_channels · n_timepoints)")
        return split_channels(flat, self.n_channels, name)


def _parameters(network: Network) -> dict[str, Any]:
    """Return a network's parameters by name."""
    return {field.name: getattr(network, field.name) for field in fields(Network)}


def _changed(network: Network, parameters: dict[str, Any]) -> Network:
    """Return the network with some parameters replaced; the same one without any."""
    check_kernel_network(network)
    return network.replace(**parameters) if parameters else network
