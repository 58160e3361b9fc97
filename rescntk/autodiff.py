"""Kernels in JAX and PyTorch, whose automatic differentiation goes through them.

The engines compute the kernel matrix and its gradients (``Kernel.vjp``), on the CPU. JAX and
PyTorch see one step with a known derivative.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .kernels import Kernel
from .kernels.gradients import signal_gradients
from .validation import DTYPES, check_dtype

__all__ = ["for_jax", "for_torch"]


def for_jax(
    kernel: Kernel, *, engine: str = "auto", dtype: str | None = None, threads: int | None = None
) -> Callable[..., Any]:
    """Return `kernel` as a function of JAX arrays, which ``jax.grad`` goes through.

    The function takes X and Z, as `kernel` does, or X alone. ``jax.jit`` and ``jax.vmap`` go
    through it too. It has first derivatives in reverse mode: JAX refuses forward mode and second
    derivatives.

    Parameters
    ----------
    kernel : Kernel
        Any kernel that has ``Kernel.vjp``.
    engine, threads
        As for calling the kernel. Engines get NumPy arrays, from any device.
    dtype : {"float64", "float32"}, optional
        Precision of the computation, by default that of the signals. Results have the precision of
        the signals: JAX has float64 where ``jax_enable_x64`` is set.

    Raises
    ------
    ImportError
        If JAX is not installed.
    ValueError
        If `kernel` has no gradients with these options. From the function: if arrays are not
        signals of float32 or float64, or as for calling the kernel. Under ``jax.jit``, JAX raises
        ``JaxRuntimeError`` with the same message for what only numbers show, such as NaN.

    Examples
    --------
    >>> import jax
    >>> import jax.numpy as jnp
    >>> import rescntk as rk
    >>> X = jnp.sin(jnp.arange(60.0) ** 2).reshape(5, 2, 6)
    >>> matrix = rk.autodiff.for_jax(rk.ResCNTK(depth=3))
    >>> jax.jit(jax.grad(lambda X: matrix(X).sum()))(X).shape
    (5, 2, 6)
    """
    try:
        import jax
    except ImportError:
        raise ImportError("for_jax needs jax: pip install 'rescntk[finite]'") from None
    calls = _Calls(kernel, engine, dtype, threads)

    def like(array: Any) -> Any:
        return None if array is None else jax.ShapeDtypeStruct(array.shape, array.dtype)

    def matrix(X: Any, Z: Any) -> Any:
        shape = len(X), len(X if Z is None else Z)
        result = jax.ShapeDtypeStruct(shape, jax.numpy.result_type(*_both(X, Z)))
        return jax.pure_callback(calls.matrix, result, X, Z, vmap_method="sequential")

    def forward(X: Any, Z: Any) -> Any:
        return matrix(X, Z), (X, Z)

    def backward(signals: Any, weights: Any) -> Any:
        results = tuple(map(like, signals))
        return jax.pure_callback(
            calls.gradients, results, *signals, weights, vmap_method="sequential"
        )

    differentiable = jax.custom_vjp(matrix)
    differentiable.defvjp(forward, backward)

    def function(X: Any, Z: Any = None) -> Any:
        return differentiable(*_signals(jax.numpy.asarray, X, Z))

    return function


def for_torch(
    kernel: Kernel, *, engine: str = "auto", dtype: str | None = None, threads: int | None = None
) -> Callable[..., Any]:
    """Return `kernel` as a function of PyTorch tensors, which ``backward`` goes through.

    The function takes X and Z, as `kernel` does, or X alone. The result is on the device of X.
    PyTorch refuses second derivatives and forward mode.

    Parameters
    ----------
    kernel, engine, dtype, threads
        As for `for_jax`.

    Raises
    ------
    ImportError
        If PyTorch is not installed.
    ValueError
        If `kernel` has no gradients with these options. From the function: if tensors are not
        signals of float32 or float64, or as for calling the kernel.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> import rescntk as rk
    >>> X = torch.randn(5, 2, 6, requires_grad=True)  # doctest: +SKIP
    >>> matrix = rk.autodiff.for_torch(rk.ResCNTK(depth=3))  # doctest: +SKIP
    >>> matrix(X).sum().backward()  # doctest: +SKIP
    >>> X.grad.shape  # doctest: +SKIP
    torch.Size([5, 2, 6])
    """
    try:
        import torch
    except ImportError:
        raise ImportError("for_torch needs torch: pip install 'rescntk[torch]'") from None
    calls = _Calls(kernel, engine, dtype, threads)

    def numbers(tensor: Any) -> Any:
        return None if tensor is None else tensor.detach().cpu().numpy()

    def tensor(array: Any, like: Any) -> Any:
        return None if array is None else torch.from_numpy(array).to(like.device)

    class Gradients(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, X: Any, Z: Any, weights: Any) -> Any:
            of_x, of_z = calls.gradients(*map(numbers, (X, Z, weights)))
            return tensor(of_x, X), tensor(of_z, Z)

        @staticmethod
        def backward(ctx: Any, *weights: Any) -> Any:
            raise NotImplementedError("kernels have first derivatives only")

    class Matrix(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, X: Any, Z: Any) -> Any:
            ctx.save_for_backward(X, Z)
            return tensor(calls.matrix(numbers(X), numbers(Z)), X)

        @staticmethod
        def backward(ctx: Any, weights: Any) -> Any:
            return Gradients.apply(*ctx.saved_tensors, weights)

    def function(X: Any, Z: Any = None) -> Any:
        return Matrix.apply(*_signals(torch.as_tensor, X, Z))

    return function


class _Calls:
    """The calls of a kernel and of its `vjp` with the same options, on arrays of any library."""

    def __init__(self, kernel: Kernel, engine: str, dtype: str | None, threads: int | None) -> None:
        if not isinstance(kernel, Kernel):
            raise ValueError(f"kernel is {kernel!r}, expected a rescntk.Kernel")
        self.kernel, self.dtype = kernel, dtype if dtype is None else check_dtype(dtype)
        self.options: dict[str, Any] = {"engine": engine, "threads": threads}
        # The smallest call refuses kernels and options that have no gradients.
        one = np.ones((1, 1, 1), self.dtype or DTYPES[0])
        self.gradients(one, None, one[0])

    def matrix(self, X: Any, Z: Any) -> np.ndarray:
        """Return the kernel matrix, in the precision of the signals."""
        X, Z, dtype = self._arrays(X, Z)
        K = self.kernel(X, Z, dtype=self.dtype or dtype.name, **self.options)
        return K.astype(dtype, copy=False)

    def gradients(self, X: Any, Z: Any, weights: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the derivatives by X and by Z, each in its precision."""
        X, Z, dtype = self._arrays(X, Z)
        of_x, of_z = signal_gradients(
            self.kernel, X, Z, np.asarray(weights), dtype=self.dtype or dtype.name, **self.options
        )
        of_z = None if Z is None else of_z.astype(Z.dtype, copy=False)
        return of_x.astype(X.dtype, copy=False), of_z

    @staticmethod
    def _arrays(X: Any, Z: Any) -> tuple[np.ndarray, Any, np.dtype]:
        """Return NumPy arrays, and the precision of both together."""
        X, Z = (None if each is None else np.asarray(each) for each in (X, Z))
        return X, Z, np.result_type(*_both(X, Z))


def _both(X: Any, Z: Any) -> list[Any]:
    return [X] if Z is None else [X, Z]


def _signals(convert: Callable[[Any], Any], X: Any, Z: Any) -> tuple[Any, Any]:
    """Return arrays of shapes and types of signals; JAX knows both while it traces."""
    arrays: list[Any] = []
    for name, given in zip("XZ", _both(X, Z), strict=False):
        try:
            array = convert(given)
        except (TypeError, ValueError, RuntimeError):
            raise ValueError(
                f"{name} is {reprlib.repr(given)}, expected an array of numbers"
            ) from None
        if array.ndim not in (3, 4):
            raise ValueError(
                f"{name} has shape {tuple(array.shape)}, expected signals "
                f"(n_cases, n_channels, n_timepoints) or images (…, height, width)"
            )
        dtype = str(array.dtype).removeprefix("torch.")
        if dtype not in DTYPES:
            raise ValueError(f"{name} has dtype {dtype}, expected float32 or float64")
        arrays.append(array)
    shapes = [tuple(array.shape) for array in arrays]
    if shapes[0][1:] != shapes[-1][1:]:
        raise ValueError(
            f"X and Z have shapes {shapes[0]} and {shapes[1]}, expected the same channels and "
            f"time points"
        )
    return arrays[0], arrays[1] if len(arrays) > 1 else None
