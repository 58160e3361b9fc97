"""`Request` asks an engine for kernels, and `ScaledKernel` is its answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import Array, array_module
from ..network import Network
from .heads import n_offsets
from .work import blocks

_MIRRORED = 128
"""Rows that are mirrored at a time. More rows need more memory, fewer cost a device launches."""


@dataclass(frozen=True)
class Request:
    """The kernels that an engine is to compute.

    Attributes
    ----------
    network : Network
        The infinitely wide network. `depths` take the place of its depth; where layers have
        values of their own, it has at least as many layers as the last of them.
    head : str or int
        One of `HEADS`; the pixels along an axis of a pool (heads.py), more than 1 and
        fewer than a signal has, or than the longer axis of images; or "pixels": the kernel at every
        pixel pair.
    kinds : tuple of str
        Some of `KINDS`.
    depths : tuple of int
        Strictly increasing. The recursion passes all of them on its way to the last.
    dtype : str
        The working precision, one of `DTYPES`.
    threads : int or None
        Number of CPU threads; None is the engine's own choice.
    shares : bool
        Whether kernels of heads that average are split into the shares of the left signals' d
        pixels. Results have one more axis, (d,), over which shares add up to the kernels. A plan
        takes Z then, even where it is X.
    line_pixels : int
        Pixels of a line of images, whose pixels are those of the signals, line by line; 1 stands
        for signals, which have no lines. Filters of images have as many taps across as along lines.
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
        """True if all pixel pairs (j, j') are needed, not the pairs (j, j) alone."""
        return self.head in ("gap", "pixels")

    @property
    def pool(self) -> int:
        """The pixels of a pool along an axis, or 0. Offsets of fewer pixels alone are needed."""
        return 0 if isinstance(self.head, str) else self.head

    @property
    def meets_others(self) -> bool:
        """True if left pixels meet right pixels at other places too."""
        return self.all_pairs or self.pool > 0

    @property
    def has_sums(self) -> bool:
        """True if the head is a sum over pixels, which needs no values of each."""
        return not self.shares and (self.head in ("gap", "trace") or self.pool > 0)

    @property
    def reads_pixel_1(self) -> bool:
        """True if the head reads pixel 1 alone.

        Only the pixels that reach it count for a signal's size.
        """
        return self.head == "equivariant"

    def n_offsets(self, d: int) -> int:
        """Return how many right pixels each left pixel meets, of signals of `d` pixels."""
        return n_offsets(self.head, self.axes(d))

    def axes(self, d: int) -> tuple[int, ...]:
        """Return the axes of `d` pixels: one of signals, lines and their pixels of images."""
        return (d,) if self.line_pixels == 1 else (d // self.line_pixels, self.line_pixels)

    def pixel_axes(self, d: int) -> tuple[int, ...]:
        """Return the axes of results that pixels have, of signals of `d` pixels."""
        return (d,) * (2 if self.head == "pixels" else int(self.shares))


@dataclass(frozen=True)
class ScaledKernel:
    """Kernel values apart from their scale, which may exceed any floating-point number.

    The kernel of cases i and k at the t-th depth is
    ``values[kind][t, i, k] * left[i] * right[k] * 2**exponents[t]``, times the readout
    scale. Paired kernels (`Plan.paired`) have no axis k. Pixel pairs have two more axes
    (j, j'), shares have (j,).
    """

    values: dict[str, Array]
    left: Array
    right: Array
    exponents: tuple[int, ...]

    def mirrored(self) -> ScaledKernel:
        """Write the kernels of the cases i < k also to (k, i), in place, and return this object.

        Of pixel pairs, (j, j') becomes (j', j).
        """
        for value in self.values.values():
            xp, ones = array_module(value), (1,) * (value.ndim - 3)
            for rows in blocks(0, value.shape[1], _MIRRORED):
                if rows.start:
                    value[:, rows, : rows.start] = _turned(value[:, : rows.start, rows])
                square = value[:, rows, rows]
                below = np.tri(square.shape[1], k=-1, dtype=bool).reshape(*square.shape[1:3], *ones)
                value[:, rows, rows] = xp.where(xp.asarray(below), _turned(square), square)
        return self


def _turned(values: Array) -> Array:
    """Return kernels with both cases exchanged, and both pixels of a pair."""
    turned = values.swapaxes(1, 2)
    return turned.swapaxes(3, 4) if turned.ndim == 5 else turned
