"""`Results`: an engine's kernels, multiplied by their scales or normalized, piece by piece."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import TypeAlias

import numpy as np

from ..arrays import Array, ArrayT, array_module
from ..engines.request import ScaledKernel
from ..engines.work import pieces
from .arguments import Arguments

_PIECE = 1 << 16
"""The number of kernels in a piece of results. Three or four arrays of this size fit into a
second-level cache of 2 MiB."""

Diagonals: TypeAlias = Callable[[], tuple[ScaledKernel, ScaledKernel]]
"""A function that returns the kernels of each signal of X with itself, and those of Z."""


class Results:
    """The kernels of a call, with the depths in the caller's order and in the caller's dtype.

    The depths of the engine's kernels increase. `depth_indices` has the index of each of the
    caller's depths among them. `keeps_depths` is True if both are the same.
    """

    def __init__(self, arguments: Arguments) -> None:
        self.request, self.dtype = arguments.request, arguments.dtype
        self.depth_indices = [self.request.depths.index(depth) for depth in arguments.depths]
        self.keeps_depths = arguments.depths == self.request.depths

    def peak_bytes(self, n_pairs: int) -> int:
        """Return the peak memory of the results in bytes.

        `n_pairs` is the number of signal pairs, times that of pixel pairs if the results have pixel
        axes. An engine returns the values of all kinds in float64. If the order of depths or the
        dtype changes, one kind after the other is copied, and its values are freed after its copy
        is made.
        """
        changes = not self.keeps_depths or self.dtype != np.float64
        copied = changes * self.dtype.itemsize * len(self.depth_indices) * n_pairs
        values, n_kinds = 8 * len(self.request.depths) * n_pairs, len(self.request.kinds)
        return max(n_kinds * values + copied, values + n_kinds * copied)

    def unscale(self, scaled: ScaledKernel, kind: str, diagonals: Diagonals | None = None) -> Array:
        """Return the kernels of one kind, multiplied by their scales: (depths, cases, cases, …).

        Paired kernels have the shape (depths, cases). If `diagonals` is None, the kernels of each
        signal with itself are among the kernels of `scaled`.
        """
        shape = scaled.values[kind].shape[1:]
        xp, cases = array_module(scaled.left), (*shape[:2], *[1] * (len(shape) - 2))
        (left, left_power), (right, right_power) = map(xp.frexp, (scaled.left, scaled.right))
        readout, readout_power = math.frexp(self.request.network.readout_scale)
        mantissas = _over_cases(readout * left, right, cases)
        powers = _over_cases(left_power, right_power, cases)
        least = float(np.finfo(self.dtype).tiny)
        underflow = OverflowError(
            f"the kernel falls below {self.dtype.name} at depth {self.request.depths[-1]}: "
            f"expected larger signals or readout_scale; normalized=True has no such limit"
        )
        if bool(xp.isnan(left.sum() + right.sum())):  # some scale is out of range
            raise underflow
        # The roots of the diagonal are computed first, because the values are changed in place.
        own_roots = [] if diagonals else [self._root(_diagonal(scaled.values[kind]))] * 2

        @cache
        def roots() -> list[Array]:
            """Return √K(x,x) and √K(z,z) without their scales, (depths, cases) each."""
            if diagonals is None:
                return own_roots
            return [self._root(side.values[kind]) for side in diagonals()]

        def multiply(t: int, values: Array, piece: tuple[slice, ...], out: Array) -> None:
            a, b = (side[piece[:2]] for side in mantissas)
            factor = a * b
            x_power, z_power = (side[piece[:2]] for side in powers)
            exponents = x_power + z_power + (scaled.exponents[t] + readout_power)
            out[...] = _times(values, factor, exponents)
            # Numbers below `least` have few digits or are 0. This is no error if √(K(x,x) K(z,z))
            # is larger.
            small = xp.abs(out) < least
            if bool(small.any()):
                left_root, right_root = (root[t] for root in roots())
                x, z = (side[piece[:2]] for side in _over_cases(left_root, right_root, cases))
                is_lost = small & (x * z > 0) & (xp.ldexp(x * z * factor, exponents) < least)
                if bool(is_lost.any()):
                    raise underflow

        return self._write(scaled, kind, multiply, "; normalized=True has no such limit")

    def _root(self, squares: Array) -> Array:
        """Return √K(x,x), (depths, cases), from `squares`, the kernels K(x,x).

        For the head "pixels" it is the root of the mean of the kernels at the pixels j = j'.
        """
        xp = array_module(squares)
        if self.request.head == "pixels":
            squares = squares.trace(axis1=2, axis2=3) / squares.shape[-1]
        return xp.sqrt(xp.maximum(squares, 0.0))

    def normalize(
        self, scaled: ScaledKernel, kind: str, diagonals: Diagonals | None = None
    ) -> Array:
        """Return the normalized kernels of one kind, in the shape of the result of `unscale`.

        `diagonals` is explained there.
        """
        if diagonals is None:  # the diagonal is copied, because values are normalized in place
            left = right = _diagonal(scaled.values[kind]).copy()
        else:
            left, right = (side.values[kind] for side in diagonals())

        def correlate(t: int, values: Array, piece: tuple[slice, ...], out: Array) -> None:
            if values.ndim == 1:  # paired kernels
                x, z = left[t][piece][:, None], right[t][piece][:, None]
                out[...] = correlation(values[:, None, None], x, z)[:, 0, 0]
                return
            rows, columns = (*piece, slice(None))[:2]  # shares have a third axis (j,)
            out[...] = correlation(values.T, right[t][columns], left[t][rows]).T

        xp = array_module(left)
        finite = xp.isfinite(left).all() & xp.isfinite(right).all()
        return self._write(scaled, kind, correlate, finite=finite)

    def _write(
        self,
        scaled: ScaledKernel,
        kind: str,
        formula: Callable[[int, Array, tuple[slice, ...], Array], None],
        remedy: str = "",
        finite: bool | Array = True,
    ) -> Array:
        """Return the results that `formula` writes, or raise an OverflowError.

        `formula` is called for each piece of the results, with the index of its depth, the values
        of the piece, its index, and the array to which it writes. The values are removed from
        `scaled` and changed in place if possible. If `finite` is False or a result is not finite,
        the error is raised, whose message ends with `remedy`.
        """
        values = scaled.values.pop(kind)
        xp, shape = array_module(values), values.shape[1:]
        result = values
        if not self.keeps_depths or values.dtype != self.dtype:
            result = xp.empty((len(self.depth_indices), *shape), dtype=self.dtype)
        # On a GPU each piece needs some 15 launches. So its pieces are larger, and their number is
        # about 64 at most.
        most = _PIECE if xp is np else max(64 * _PIECE, math.prod(shape) // 64)
        for k, t in enumerate(self.depth_indices):
            for piece in pieces(shape, most):
                new = result[k][piece]
                with np.errstate(all="ignore"):  # infinite values are reported below
                    formula(t, values[t][piece], piece, new)
                finite = xp.isfinite(new).all() & finite
        if not bool(finite):
            or_below = "" if xp is np else ", or falls below it,"
            raise OverflowError(
                f"the kernel exceeds {self.dtype.name}{or_below} at depth "
                f"{self.request.depths[-1]} (it grows with depth and with the signals){remedy}"
            )
        return result


def _over_cases(left: Array, right: Array, cases: tuple[int, ...]) -> list[Array]:
    """Return numbers of left and of right signals, both broadcast to the shape `cases`.

    This is (cases, cases, …), or (cases,) for paired kernels.
    """
    if len(cases) > 1:
        left, right = left.reshape(-1, 1, *cases[2:]), right.reshape(1, -1, *cases[2:])
    return [array_module(side).broadcast_to(side, cases) for side in (left, right)]


def _times(values: Array, factor: Array, exponents: Array) -> Array:
    """Return values · factor · 2^exponents."""
    xp = array_module(values)
    # `ldexp` takes as long as ten products. On a GPU the test would have to wait for the device.
    if xp is np:
        scales, float64 = np.ldexp(factor, exponents), np.finfo(np.float64)
        if float64.tiny <= scales.min() and scales.max() <= float64.max:
            return values * scales
    return xp.ldexp(values * factor, exponents)


def _diagonal(values: Array) -> Array:
    """Return the kernels of each case with itself, (depths, cases, …): all of paired kernels."""
    if values.ndim == 2:
        return values
    xp = array_module(values)
    return xp.moveaxis(values.diagonal(axis1=1, axis2=2), -1, 1)


def correlation(K: ArrayT, left: Array, right: Array) -> ArrayT:
    """Return the normalized kernel K(x,z)/√(K(x,x) K(z,z)), and 0 where K(x,x) K(z,z) ≤ 0.

    `K` is finite, (..., n, m); `left` and `right` are K(x,x), (..., n), and K(z,z), (..., m).
    They may be slightly negative if a zero was rounded.
    """
    xp = array_module(K)
    # K(x,x) K(z,z) may overflow although its root does not. So powers of 4 are multiplied last.
    left, left_powers = _mantissas(left, xp)
    right, right_powers = _mantissas(right, xp)
    product = left[..., :, None] * right[..., None, :]
    root = xp.sqrt(xp.where(product > 0, product, 1.0))
    root = xp.ldexp(root, left_powers[..., :, None] + right_powers[..., None, :])
    return xp.where(product > 0, K / root, 0.0)


def _mantissas(values: Array, xp: ModuleType) -> tuple[Array, Array]:
    """Return m and p such that max(values, 0) = 4**p · m exactly, with m in [½, 2) or 0."""
    values = xp.maximum(values, 0.0)
    powers = xp.frexp(values)[1] // 2
    return xp.ldexp(values, -2 * powers), powers
