"""`Results`: what an engine returns, multiplied by its scale or normalized, piece by piece."""

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
"""Numbers in a piece of results: three or four such arrays fit in a second-level cache of 2 MiB."""

Diagonals: TypeAlias = Callable[[], tuple[ScaledKernel, ScaledKernel]]
"""Returns the kernels of each signal with itself, of X and of Z."""


class Results:
    """The kernels of a call in the caller's order of depths, and dtype.

    The engine's depths rise. `order` has the place of each of the caller's depths among them.
    `in_place` is True if the caller's depths are the engine's.
    """

    def __init__(self, arguments: Arguments) -> None:
        self.request, self.dtype = arguments.request, arguments.dtype
        self.order = [self.request.depths.index(depth) for depth in arguments.depths]
        self.in_place = arguments.depths == self.request.depths

    def bytes(self, n_pairs: int) -> int:
        """Return the bytes of results of pairs, and of their pixels, when most are held.

        An engine returns the values of all kinds in float64. One kind after another is copied if
        its order or dtype changes, and a kind's values are dropped when its copy is made.
        """
        changes = not self.in_place or self.dtype != np.float64
        copied = changes * self.dtype.itemsize * len(self.order) * n_pairs
        values, n_kinds = 8 * len(self.request.depths) * n_pairs, len(self.request.kinds)
        return max(n_kinds * values + copied, values + n_kinds * copied)

    def unscale(self, scaled: ScaledKernel, kind: str, diagonals: Diagonals | None = None) -> Array:
        """Return the kernels of one kind with their scale, (depths, cases, …) or of pairs.

        Without `diagonals`, `scaled` itself has the kernels of each signal with itself.
        """
        shape = scaled.values[kind].shape[1:]
        xp, cases = array_module(scaled.left), (*shape[:2], *[1] * (len(shape) - 2))
        (left, left_power), (right, right_power) = map(xp.frexp, (scaled.left, scaled.right))
        readout, readout_power = math.frexp(self.request.network.readout_scale)
        mantissas = _over_cases(readout * left, right, cases)
        powers = _over_cases(left_power, right_power, cases)
        least = float(np.finfo(self.dtype).tiny)
        below = OverflowError(
            f"the kernel falls below {self.dtype.name} at depth {self.request.depths[-1]}: "
            f"expected larger signals or readout_scale; normalized=True has no such limit"
        )
        if bool(xp.isnan(left.sum() + right.sum())):  # some are
            raise below
        # Values change below: roots of their diagonal are taken before.
        of_pairs = [] if diagonals else [self._root(_diagonal(scaled.values[kind]))] * 2

        @cache
        def roots() -> list[Array]:
            """Return √K(x,x) and √K(z,z) without their scales, (depths, cases) each."""
            if diagonals is None:
                return of_pairs
            return [self._root(side.values[kind]) for side in diagonals()]

        def scale(t: int, values: Array, piece: tuple[slice, ...], out: Array) -> None:
            a, b = (side[piece[:2]] for side in mantissas)
            factor = a * b
            x_power, z_power = (side[piece[:2]] for side in powers)
            exponents = x_power + z_power + (scaled.exponents[t] + readout_power)
            out[...] = _times(values, factor, exponents)
            small = xp.abs(out) < least  # such numbers have few digits, or are 0
            if bool(small.any()):  # which is right beside a larger √(K(x,x) K(z,z))
                left_root, right_root = (root[t] for root in roots())
                x, z = (side[piece[:2]] for side in _over_cases(left_root, right_root, cases))
                is_lost = small & (x * z > 0) & (xp.ldexp(x * z * factor, exponents) < least)
                if bool(is_lost.any()):
                    raise below

        return self._results(scaled, kind, scale, "; normalized=True has no such limit")

    def _root(self, squares: Array) -> Array:
        """Return √K(x,x), (depths, cases). Kernels at pixel pairs have the root of their trace."""
        xp = array_module(squares)
        if self.request.head == "pixels":
            squares = squares.trace(axis1=2, axis2=3) / squares.shape[-1]
        return xp.sqrt(xp.maximum(squares, 0.0))

    def normalize(
        self, scaled: ScaledKernel, kind: str, diagonals: Diagonals | None = None
    ) -> Array:
        """Return the normalized kernels of one kind, (depths, cases, cases, …), or of pairs.

        `diagonals` are as for `unscale`.
        """
        if diagonals is None:  # a copy: values are normalized in place
            left = right = _diagonal(scaled.values[kind]).copy()
        else:
            left, right = (side.values[kind] for side in diagonals())

        def correlate(t: int, values: Array, piece: tuple[slice, ...], out: Array) -> None:
            if values.ndim == 1:  # of pairs, (depths, cases)
                x, z = left[t][piece][:, None], right[t][piece][:, None]
                out[...] = correlation(values[:, None, None], x, z)[:, 0, 0]
                return
            rows, columns = (*piece, slice(None))[:2]  # shares have the axis (j,) behind
            out[...] = correlation(values.T, right[t][columns], left[t][rows]).T

        xp = array_module(left)
        finite = xp.isfinite(left).all() & xp.isfinite(right).all()
        return self._results(scaled, kind, correlate, finite=finite)

    def _results(
        self,
        scaled: ScaledKernel,
        kind: str,
        formula: Callable[[int, Array, tuple[slice, ...], Array], None],
        remedy: str = "",
        finite: bool | Array = True,
    ) -> Array:
        """Return what a formula of depth, values and index writes; `remedy` ends the OverflowError.

        The values leave `scaled`, and are changed in place where possible.
        """
        values = scaled.values.pop(kind)
        xp, shape = array_module(values), values.shape[1:]
        result = values
        if not self.in_place or values.dtype != self.dtype:
            result = xp.empty((len(self.order), *shape), dtype=self.dtype)
        # A piece costs a device some 15 launches: it gets larger pieces, at most about 64.
        most = _PIECE if xp is np else max(64 * _PIECE, math.prod(shape) // 64)
        for k, t in enumerate(self.order):
            for piece in pieces(shape, most):
                new = result[k][piece]
                with np.errstate(all="ignore"):  # infinite values are reported below
                    formula(t, values[t][piece], piece, new)
                finite = xp.isfinite(new).all() & finite
        if not bool(finite):
            below = "" if xp is np else ", or falls below it,"
            raise OverflowError(
                f"the kernel exceeds {self.dtype.name}{below} at depth {self.request.depths[-1]} "
                f"(it grows with depth and with the signals){remedy}"
            )
        return result


def _over_cases(left: Array, right: Array, cases: tuple[int, ...]) -> list[Array]:
    """Return numbers of left and of right signals, each (cases, cases, …), or of pairs."""
    if len(cases) > 1:  # else of pairs
        left, right = left.reshape(-1, 1, *cases[2:]), right.reshape(1, -1, *cases[2:])
    return [array_module(side).broadcast_to(side, cases) for side in (left, right)]


def _times(values: Array, factor: Array, exponents: Array) -> Array:
    """Return values times a factor and powers of two."""
    xp = array_module(values)
    if xp is np:  # a device would be waited for; `ldexp` takes the time of ten products
        scales, float64 = np.ldexp(factor, exponents), np.finfo(np.float64)
        if float64.tiny <= scales.min() and scales.max() <= float64.max:
            return values * scales
    return xp.ldexp(values * factor, exponents)


def _diagonal(values: Array) -> Array:
    """Return the kernels of each case with itself, (depths, cases, …): of pairs, all kernels."""
    if values.ndim == 2:
        return values
    xp = array_module(values)
    return xp.moveaxis(values.diagonal(axis1=1, axis2=2), -1, 1)


def correlation(K: ArrayT, left: Array, right: Array) -> ArrayT:
    """Return the normalized kernel K(x,z)/√(K(x,x) K(z,z)), and 0 where K(x,x) K(z,z) ≤ 0.

    `K` is finite, (..., n, m); `left` and `right` are K(x,x), (..., n), and K(z,z), (..., m).
    Rounding may have made a zero slightly negative.
    """
    xp = array_module(K)
    # K(x,x) K(z,z) may overflow where its root does not: powers of 4 are multiplied last.
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
