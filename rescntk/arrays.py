"""`Array`, the common type of NumPy's and CuPy's arrays, and operations on either.

The engine "numba" compiles `sqrt`, `smaller`, `within`, `where_less` and `rounded_product` for
vectors (engines/cpu/layers.py), so that a formula in these operations and + − * / is written once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np


@runtime_checkable
class Array(Protocol):
    """An array of NumPy or CuPy, by the methods that this library uses."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def T(self) -> Any: ...

    def __float__(self) -> float: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...

    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...
    def __neg__(self) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...

    def all(self) -> Any: ...
    @property
    def max(self) -> Callable[..., Any]: ...
    @property
    def sum(self) -> Callable[..., Any]: ...
    @property
    def astype(self) -> Callable[..., Any]: ...
    @property
    def min(self) -> Callable[..., Any]: ...
    @property
    def diagonal(self) -> Callable[..., Any]: ...
    def copy(self) -> Any: ...
    @property
    def reshape(self) -> Callable[..., Any]: ...
    @property
    def take(self) -> Callable[..., Any]: ...
    def swapaxes(self, axis1: int, axis2: int, /) -> Any: ...
    @property
    def transpose(self) -> Callable[..., Any]: ...


ArrayT = TypeVar("ArrayT", bound=Array)
"""The array type that an argument and a result share: NumPy in, NumPy out."""


def array_module(array: object) -> ModuleType:
    """Return the module cupy for CuPy's arrays, else numpy; this never imports CuPy."""
    name = type(array).__module__.partition(".")[0]
    return sys.modules[name] if name == "cupy" else np


def sqrt(x: Any) -> Any:
    return array_module(x).sqrt(x)


def smaller(a: Any, b: Any) -> Any:
    return array_module(a).minimum(a, b)


def within(x: Any, least: float, most: float) -> Any:
    """Return x, or the end of [least, most] that is nearest."""
    return array_module(x).clip(x, least, most)


def where_less(a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return x where a < b, and y elsewhere."""
    less = a < b
    return array_module(less).where(less, x, y)


def rounded_product(a: Any, b: Any) -> Any:
    """Return a·b, rounded before it is added to anything: compilers do not contract it."""
    return a * b


def rounding_unit(values: Any) -> float:
    """Return eps of the dtype of `values`, at least the eps of float64; ask before casting."""
    dtype = np.asarray(values).dtype
    own = float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0
    return max(own, float(np.finfo(np.float64).eps))


def resolution(eigenvalues: np.ndarray, eps: float) -> float:
    """Return n·eps·λ_max, below which eigenvalues of an (n, n) matrix are rounding errors.

    `eps` is the rounding unit of the numbers in the matrix (`rounding_unit`).
    """
    return len(eigenvalues) * eps * float(np.abs(eigenvalues).max())
