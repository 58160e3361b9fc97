"""`Array`, the common type of NumPy's and CuPy's arrays, and operations on either."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

import numpy as np

Array: TypeAlias = np.ndarray
"""An array of NumPy, or of CuPy, whose methods have the same names."""

SignalArray: TypeAlias = Array
"""Signals of one length, or images: (n, channels, *pixels)."""

PixelNumbers: TypeAlias = Array
"""A number of each pixel of some signals: (n, *pixels)."""

SignalNumbers: TypeAlias = Array
"""A number of each signal: (n,)."""

AnyArray: TypeAlias = Any
"""An array of NumPy, CuPy or JAX."""

ArrayT = TypeVar("ArrayT")
"""The array type that an argument and a result share: NumPy in, NumPy out."""


def array_module(array: object) -> ModuleType:
    """Return the module cupy for CuPy's arrays and lists of them, else numpy.

    This never imports CuPy.
    """
    array = array[0] if isinstance(array, SignalList) else array
    name = type(array).__module__.partition(".")[0]
    return sys.modules[name] if name == "cupy" else np


def moved(array: Array, xp: ModuleType) -> Array:
    """Return an array as one of the module `xp`."""
    source = array_module(array)
    if source is xp:
        return array
    return source.asnumpy(array) if xp is np else xp.asarray(array)


def rounding_unit(values: object) -> float:
    """Return eps of the dtype of `values`, at least the eps of float64.

    Call it before the values are cast.
    """
    dtype = np.asarray(values).dtype
    eps = float(np.finfo(dtype).eps) if dtype.kind == "f" else 0.0
    return max(eps, float(np.finfo(np.float64).eps))


def resolution(eigenvalues: np.ndarray, eps: float) -> float:
    """Return n·eps·λ_max, below which eigenvalues of an (n, n) matrix are rounding errors.

    `eps` is the rounding unit of the numbers in the matrix (`rounding_unit`).
    """
    return len(eigenvalues) * eps * float(np.abs(eigenvalues).max())


class SignalList:
    """Signals of different lengths, checked: arrays (n_channels, n_timepoints_i) in float64.

    An index gives one array. A slice, or an array of indices, gives another list. It is no
    `Sequence`, because `isinstance` is several times slower for an abstract base class.
    """

    def __init__(self, signals: Sequence[Array]) -> None:
        self._signals = list(signals)
        self.lengths = np.array([signal.shape[1] for signal in self._signals])

    @classmethod
    def of(cls, X: Array | SignalList) -> SignalList:
        """Return a batch as a list of its signals."""
        return X if isinstance(X, SignalList) else cls(list(X))

    @property
    def n_channels(self) -> int:
        """Number of channels of each signal."""
        return self._signals[0].shape[0]

    @property
    def longest(self) -> int:
        """Number of time points of the longest signal."""
        return int(self.lengths.max())

    def __len__(self) -> int:
        return len(self._signals)

    def __iter__(self) -> Iterator[Array]:
        return iter(self._signals)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return SignalList(self._signals[index])
        if np.ndim(index) == 0:
            return self._signals[index]
        return SignalList([self._signals[int(k)] for k in np.arange(len(self))[index]])

    @property
    def nbytes(self) -> int:
        """Bytes of all signals."""
        return sum(signal.nbytes for signal in self._signals)


Batch: TypeAlias = Array | SignalList
"""Checked signals: an array (n_cases, n_channels, n_timepoints), or a list of any lengths.

Images are an array (n_cases, n_channels, height, width), which engines take as signals.
"""


def channels_and_length(X: Batch) -> tuple[int, int]:
    """Return the numbers of channels, and of pixels of an image or of the longest signal."""
    if isinstance(X, SignalList):
        return X.n_channels, X.longest
    return X.shape[1], math.prod(X.shape[2:])


def lengths_of(X: Batch) -> np.ndarray:
    """Return the number of pixels of each signal or image, (n,)."""
    return X.lengths if isinstance(X, SignalList) else np.full(len(X), math.prod(X.shape[2:]))


def pixel_shape(X: Batch) -> tuple[int, ...]:
    """Return the shape of the pixels: (d,) of signals, (h, w) of images.

    In a list of signals, d is the number of pixels of the longest one.
    """
    return (X.longest,) if isinstance(X, SignalList) else X.shape[2:]


def images_as_signals(X: Any) -> Any:
    """Return images as signals of their pixels, line by line; signals and None are unchanged."""
    images = X is not None and not isinstance(X, SignalList) and X.ndim == 4
    return X.reshape(*X.shape[:2], -1) if images else X
