"""`Request`, which kernels an engine is to compute, and `ScaledKernel`, the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, array_module
from ..network import Network
from .heads import n_offsets
from .work import blocks

_MIRRORED_ROWS = 128
"""The number of rows of the kernel matrix that are mirrored at a time. A larger number needs more
memory, and a smaller one needs more launches on a GPU."""


@dataclass(frozen=True)
class Request:
    """The kernels that an engine is to compute.

    Attributes
    ----------
    network : Network
        The infinitely wide network. Its depth is ignored in favour of `depths`. If its layers have
        different parameters, it must have at least as many layers as the largest of `depths`.
    head : str or int
        One of `HEADS`; or the number of pixels of a pool along an axis (heads.py), which is more
        than 1 and less than the length of the signals, or of the longer axis of images; or
        "pixels", which asks for the kernel at every pixel pair.
    kinds : tuple of str
        One or more of `KINDS`.
    depths : tuple of int
        The depths for which kernels are returned, strictly increasing. They are computed in one
        pass through the layers.
    dtype : str
        The working precision, one of `DTYPES`.
    threads : int or None
        The number of CPU threads. If None, the engine chooses it.
    shares : bool
        Whether kernels of heads that average over pixels are split into one share for each of the d
        pixels of the left signal. Then results have one more axis, (d,), and the sum over it is the
        kernel. In this case plans must be given Z, even if it is X.
    line_pixels : int
        The number of pixels of a line of an image, or 1 for signals. The pixels of an image are
        stored as those of a signal, line by line. Filters of images have as many taps across lines
        as along lines.
    """

    network: Network
    head: str | int
    kinds: tuple[str, ...]
    depths: tuple[int, ...]
    dtype: str = "float64"
    threads: int | None = None
    shares: bool = False
    line_pixels: int = 1

    @property
    def all_pairs(self) -> bool:
        """True if all pixel pairs (j, j') are needed."""
        return self.head in ("gap", "pixels")

    @property
    def pool(self) -> int:
        """The number of pixels of a pool along an axis, or 0 if the head has no pools."""
        return 0 if isinstance(self.head, str) else self.head

    @property
    def has_offsets(self) -> bool:
        """True if pixel pairs (j, j + δ) with offsets δ other than 0 are needed."""
        return self.all_pairs or self.pool > 0

    @property
    def has_sums(self) -> bool:
        """True if the results are sums over pixels."""
        return not self.shares and (self.head in ("gap", "trace") or self.pool > 0)

    @property
    def reads_pixel_1(self) -> bool:
        """True if the head reads only pixel 1.

        Then the size of a signal depends only on the pixels that influence pixel 1.
        """
        return self.head == "equivariant"

    def n_offsets(self, d: int) -> int:
        """Return for how many right pixels the pair with each left pixel is needed.

        Signals have `d` pixels.
        """
        return n_offsets(self.head, self.pixel_shape(d))

    def pixel_shape(self, d: int) -> tuple[int, ...]:
        """Return the shape of `d` pixels: (d,) for signals, (lines, pixels per line) for images."""
        return (d,) if self.line_pixels == 1 else (d // self.line_pixels, self.line_pixels)

    def result_pixel_shape(self, d: int) -> tuple[int, ...]:
        """Return the shape of the pixel axes of the results; most heads have none.

        Signals have `d` pixels.
        """
        return (d,) * (2 if self.head == "pixels" else int(self.shares))


@dataclass(frozen=True)
class ScaledKernel:
    """Kernel values and, separately, their scales, which may exceed the range of float64.

    The kernel of cases i and k at the t-th depth is
    ``values[kind][t, i, k] * left[i] * right[k] * 2**exponents[t]``, times the readout
    scale of the network. Paired kernels (`Plan.paired`) have no axis k. For the head "pixels" the
    values have two more axes (j, j'), and shares have one more axis (j,).
    """

    values: dict[str, Array]
    left: Array
    right: Array
    exponents: tuple[int, ...]

    def mirrored(self) -> ScaledKernel:
        """Copy the kernels of the cases i < k to (k, i), in place, and return this object.

        If the values have axes of pixel pairs, (j, j') is copied to (j', j).
        """
        for value in self.values.values():
            xp, ones = array_module(value), (1,) * (value.ndim - 3)
            for rows in blocks(0, value.shape[1], _MIRRORED_ROWS):
                if rows.start:
                    value[:, rows, : rows.start] = _turned(value[:, : rows.start, rows])
                square = value[:, rows, rows]
                below = np.tri(square.shape[1], k=-1, dtype=bool).reshape(*square.shape[1:3], *ones)
                value[:, rows, rows] = xp.where(xp.asarray(below), _turned(square), square)
        return self


def _turned(values: Array) -> Array:
    """Return kernels with the axes of both cases exchanged, and those of both pixels if any."""
    turned = values.swapaxes(1, 2)
    return turned.swapaxes(3, 4) if turned.ndim == 5 else turned
