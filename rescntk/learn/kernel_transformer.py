"""Base class of transformers that have a kernel: its parameters, and the reading of signals."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..arrays import Array
from ..kernels import Kernel, ResCNTK
from .batches import Signals
from .inputs import read_signals
from .kernel import SignalKernel


class KernelTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A transformer with the parameters `kernel`, `engine`, `dtype` and `threads`."""

    kernel: Kernel | SignalKernel | None
    engine: str
    dtype: str
    threads: int | None
    signals_: Signals

    def set_params(self, **params: Any) -> Any:
        """Set parameters; parameters of a `SignalKernel` as ``kernel__depth`` and so on.

        Returns
        -------
        estimator
            Itself.

        Raises
        ------
        ValueError
            For an unknown parameter, or for a parameter of a kernel that is no `SignalKernel`.
        """
        kernel = params.get("kernel", self.kernel)
        inner = [name for name in params if name.startswith("kernel__")]
        if inner and not isinstance(kernel, SignalKernel):
            raise ValueError(
                f"{inner[0]} cannot be set, since kernel is {kernel!r}: expected a SignalKernel, "
                f"whose parameters can be searched"
            )
        return super().set_params(**params)

    def _read(self, X: Array) -> Signals:
        """Return the signals to be fitted; set kernel and options."""
        kernel = ResCNTK(3, normalized=True) if self.kernel is None else self.kernel
        options: dict[str, Any] = {
            "engine": self.engine,
            "dtype": self.dtype,
            "threads": self.threads,
        }
        self._flat_channels = 1
        if isinstance(kernel, SignalKernel):
            for name, default in (("engine", "auto"), ("dtype", "float64"), ("threads", None)):
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
        return self._signals(X, reset=True)

    def _read_again(self, X: Array) -> Signals:
        """Return signals to be transformed, of the shape of the fitted signals."""
        return self._signals(X, reset=False)

    def _signals(self, X: Array, *, reset: bool) -> Signals:
        return read_signals(self, X, reset=reset, n_channels=self._flat_channels, lists=True)

    @property
    def _n_features_out(self) -> int:
        return len(self.signals_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
