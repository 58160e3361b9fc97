"""`KernelCall`: the arguments of a call on their way to an engine, the results on their way back.

Arguments are checked. Results are multiplied by their scale, or normalized, piece by piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cache, lru_cache
from types import ModuleType
from typing import Any, cast

import numpy as np

from .. import engines
from ..arrays import (
    Array,
    ArrayT,
    Batch,
    SignalList,
    array_module,
    channels_and_length,
    images_as_signals,
    pixel_axes,
)
from ..engines.constants import check_growth
from ..engines.pooling import pooled_head
from ..engines.request import Request, ScaledKernel
from ..engines.work import pieces
from ..messages import shown
from ..network import OF_LAYERS, Network, check_kernel_network
from ..validation import (
    check_batches,
    check_depths,
    check_dtype,
    check_flag,
    check_free_memory,
    check_kinds,
    check_positive_integer,
)
from .prepared import PreparedKernel, PreparedSignals
from .progress import progress_bar

_PIECE = 1 << 16
"""Numbers in a piece of results: three or four such arrays fit in a second-level cache of 2 MiB."""

_FEW_NUMBERS = 1 << 16
"""Pixels times layers of X up to which its tables serve for two passes, of a normalized kernel.

More take more memory, 5 MB at this number; with fewer, a call of few signals makes them twice.
"""


@contextmanager
def default_errors() -> Iterator[None]:
    """Compute under NumPy's default handling of floating-point errors; also a decorator.

    Underflow is ordinary in the engines: ``np.errstate(all="raise")`` must not stop them.
    """
    with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
        yield


@lru_cache(maxsize=64)
def check_constants(
    network: Network, kinds: tuple[str, ...], deepest: int, dtype: np.dtype
) -> None:
    """Raise a ValueError if a layer lacks constants, or the dtype numbers for the NTK."""
    for name in sorted(OF_LAYERS):
        values = network.values_of(name)
        if 1 < len(values) < deepest:
            raise ValueError(
                f"network has {name} {shown(values)}, and depths has {deepest}: expected "
                f"depths of at most {len(values)}, or one {name} for all layers"
            )
    if "ntk" not in kinds:
        return
    layers = [network.layer(k) for k in range(1, (1 if network.is_uniform else deepest) + 1)]
    least = 2**32 * float(np.finfo(dtype).tiny)
    gain = max(layer.branch_gain for layer in layers)
    if network.parts.initial == 0 and 0 < gain < least:
        raise ValueError(
            f"network has the branch gain {gain:.3g} and trains "
            f"only {' and '.join(network.trained)}, expected a gain of at least {least:.2g}: "
            f"{dtype.name} does not resolve this tangent kernel for smaller gains"
        )
    if network.trained != ("input",) or network.norm or not network.has_bias:
        return
    if not network.homogeneous:
        return
    logs = [math.log(check_growth(layer)) for layer in layers]
    growth = math.exp(math.fsum(logs) / len(logs))
    if growth < 1.0 and deepest * math.log(growth) < math.log(least):
        most = int(math.log(least) / math.log(growth))
        raise ValueError(
            f"network has biases, trains the input alone, and has {deepest} layers, expected "
            f"at most {most}: each multiplies its tangent kernel by at most {growth:.3g}, "
            f"and {dtype.name} does not resolve smaller ones"
        )


class KernelCall:
    """A checked call for the kernels of one network, with one head, on some signals.

    X and Z are arrays or lists of arrays. Z may also be None, `PreparedSignals` or a
    `PreparedKernel`. With `shares` (`Request.shares`), Z is set even where it is X. Images become
    signals of all their pixels, line by line. `paired` and `names` are as for `check_batches`.

    `axes` are the axes of pixels: (d,) of a signal, (h, w) of an image. `depths` are in the
    caller's order. An engine computes each depth once, in rising order: `order` has the places of
    `depths` there, and `in_place` is True if both agree. `sides` are X and Z for the engine.
    """

    def __init__(
        self, network: Network, X: Any, Z: Any, *, head: str | int, kinds: Iterable[str],
        depths: Iterable[int] | None, engine: str, dtype: str, threads: int | None,
        progress: bool = False, shares: bool = False, paired: bool = False,
        names: tuple[str, str] = ("X", "Z"),
    ) -> None:  # fmt: skip
        check_kernel_network(network)
        self.network = network
        self.kinds = check_kinds(kinds)
        self.depths = (network.depth,) if depths is None else check_depths(depths)
        self.dtype = np.dtype(check_dtype(dtype))
        check_constants(network, self.kinds, max(self.depths), self.dtype)
        kept = Z.signals if isinstance(Z, PreparedKernel) else Z
        self._kept = kept if isinstance(kept, PreparedSignals) else None
        if self._kept is not None:
            Z = cast(Any, X if self._kept.is_same(X) and not paired else self._kept.batch)
        batches = check_batches(X, Z, head, paired, names)
        self.axes = pixel_axes(batches[0])
        self.X, self.Z = map(images_as_signals, batches)
        if self.Z is None and shares:
            self.Z = self.X
        threads = None if threads is None else check_positive_integer(threads, "threads")
        ladder = tuple(sorted(set(self.depths)))
        self.order = [ladder.index(depth) for depth in self.depths]
        self.in_place = self.depths == ladder
        as_float64 = self.in_place and self.dtype == np.float64
        copied = 0 if as_float64 else self.dtype.itemsize * len(self.order)
        # Activations that are not homogeneous have float64 always (docs/theory/recursion.md).
        working = self.dtype.name if network.homogeneous else "float64"
        # An image of one line, or of one column, is a signal.
        width = self.axes[1] if len(self.axes) == 2 and min(self.axes) > 1 else 1
        self.request = Request(
            network=network, head=pooled_head(head, self.axes), kinds=self.kinds, depths=ladder,
            dtype=working, threads=threads, copied_bytes=copied, shares=shares, width=width,
        )  # fmt: skip
        if self._kept is not None:
            self._kept.check_call(self.request, self.dtype.name)
        self.progress = check_flag(progress, "progress")
        self._check_windows()
        signals = self.X
        if isinstance(self.X, SignalList) and self.Z is not None:
            signals = SignalList([*self.X, *self.Z])
        self.engine = engines.choose(engine, self.request, signals)
        self._check_pair()
        self.sides: list[Any] = [self.X, self.Z]
        if self._kept is not None:
            self._kept.check_engine(self.engine)
            if isinstance(self._kept.call.X, SignalList) != isinstance(signals, SignalList):
                self._kept = None  # lists and arrays have tables of their own
            elif not shares:
                self.sides[0 if self.Z is None else 1] = self._kept.tables

    @property
    def length(self) -> int:
        """Number of time points of the longest signal."""
        batches = [self.X] if self.Z is None else [self.X, self.Z]
        return max(channels_and_length(batch)[1] for batch in batches)

    def _check_windows(self) -> None:
        """Raise a MemoryError if a filter has more taps than there is memory for.

        Tables have a number for each tap, and to find the factors of a larger number takes hours.
        """
        itemsize, n_axes = (
            np.dtype(self.request.dtype).itemsize,
            len(self.request.axes(self.length)),
        )
        for layer, name in ((1, "input_filter_size"), (1, "outer_filter_size"), (2, "filter_size")):
            sizes = self.network.values_of(name) if layer <= self.request.depths[-1] else (1,)
            size = max(sizes)
            window = f"{name} {size}: a window of layer {layer}"
            check_free_memory(size**n_axes * itemsize, window, f"give a smaller {name}")

    def _check_pair(self) -> None:
        """Raise a MemoryError if the tables of a pair exceed the free memory of this machine."""
        if array_module(self.X) is not np:  # a device's memory is the engine's affair
            return
        sides = [self.X] if self.Z is None else [self.X, self.Z]
        channels, lengths = (
            channels_and_length(self.X)[0],
            [channels_and_length(s)[1] for s in sides],
        )
        names = "filter_size", "outer_filter_size"
        size = max(max(self.network.values_of(name)) for name in names)
        check_free_memory(
            self.engine.bytes_of_pair(self.request, channels, *lengths),
            f"depth {self.request.depths[-1]} for signals of {self.length} timepoints and filters "
            f"of {size}",
            "give a smaller depth, shorter filters or signals",
        )

    def check_memory(self) -> None:
        """Raise a MemoryError if the Gram matrix exceeds the free memory of this machine."""
        if array_module(self.X) is not np:  # a device's memory is the engine's affair
            return
        n, m = len(self.X), len(self.X if self.Z is None else self.Z)
        axes = [n, m]
        if self.request.shares:
            axes += [channels_and_length(self.X)[1]]
        elif self.request.head == "pixels":
            axes += [self.length] * 2
        kinds = " and ".join(kind.upper() for kind in self.kinds)
        depths = f", at {len(self.depths)} depths," * (len(self.depths) > 1)
        check_free_memory(
            self.request.result_bytes(math.prod(axes)),
            f"the {kinds}, {' × '.join(map(str, axes))} numbers{depths}",
            "give fewer signals, kinds or depths at a time: gram(network, X[:k], X) has k rows",
        )

    def gram(self) -> ScaledKernel:
        """Return the kernels of each case of X with each of Z; of X with itself if Z is None."""
        n, m = len(self.X), len(self.X if self.Z is None else self.Z)
        pairs = n * (n + 1) // 2 if self.Z is None else n * m
        left, right = self.sides
        with progress_bar(self.progress, pairs) as tick:
            return self.engine.compute(self.request, left, right, tick)

    def paired(self, X: Any, Z: Batch | None, progress: bool = False) -> ScaledKernel:
        """Return the kernels K(x_i, z_i) of the signals of X and Z; K(x_i, x_i) if Z is None."""
        request = replace(self.request, shares=False) if self.request.shares else self.request
        with progress_bar(progress, len(X), "signal" if Z is None else "pair") as tick:
            return self.engine.compute(request, X, Z, tick, paired=True)

    def diagonals(self) -> list[ScaledKernel]:
        """Return the kernels of each signal with itself, of X and of Z; they normalize."""
        numbers = len(self.X) * self.length * (self.request.depths[-1] + 1)
        if self.sides[0] is self.X and not self.request.shares and numbers <= _FEW_NUMBERS:
            self.sides[0] = self.engine.prepared(self.request, self.X)  # for `gram` too
        kept = None if self._kept is None else self._kept.diagonal
        return [self.paired(self.sides[0], None), kept or self.paired(self.sides[1], None)]

    def prepared(self, given: Any, with_diagonal: bool) -> PreparedSignals:
        """Return copies of X with the engine's tables, as Z of other calls; `given` is X itself."""
        if isinstance(self.X, SignalList):
            batch = signals = SignalList([signal.copy() for signal in self.X])
        else:
            signals = self.X.copy()
            batch = signals.reshape(*signals.shape[:2], *self.axes)
            if isinstance(given, (list, tuple, SignalList)) and len(self.axes) == 1:
                batch = SignalList.of(signals)  # lists of one length take other lengths too
        tables = self.engine.prepared(self.request, signals)
        diagonal = self.paired(tables, None) if with_diagonal else None
        call = copy(self)
        call.X, call.sides = signals, [signals, None]  # not another copy in float64
        return PreparedSignals(batch, given, tables, diagonal, call)

    def again(self, X: Array, Z: PreparedSignals) -> KernelCall:
        """Return the same call on an array X and prepared signals; nothing is checked again."""
        call = copy(self)
        call.X, call.Z, call._kept = images_as_signals(X), self.X, Z
        call.sides = [call.X, Z.tables]
        return call

    def results(self, normalized: bool) -> dict[str, Array]:
        """Return the kernels by kind, (depths, n, m)."""
        self.check_memory()
        kernels: dict[str, Array] = {}
        diagonals = self.diagonals() if normalized and self.Z is not None else []
        scaled = self.gram()
        for kind in self.kinds:
            if not normalized:
                kernels[kind] = self.unscale(scaled, kind)
                continue
            if diagonals:
                of_X, of_Z = (each.values[kind] for each in diagonals)
            else:  # a copy: values are normalized in place
                of_X = of_Z = scaled.values[kind].diagonal(axis1=1, axis2=2).copy()
            kernels[kind] = self.normalize(scaled, kind, of_X, of_Z)
        return kernels

    def unscale(self, scaled: ScaledKernel, kind: str) -> Array:
        """Return the kernels of one kind with their scale, (depths, cases, …) or of pairs."""
        shape = scaled.values[kind].shape[1:]
        xp, cases = array_module(scaled.left), (*shape[:2], *[1] * (len(shape) - 2))

        def of_cases(left: Array, right: Array) -> list[Array]:
            if len(cases) > 1:  # else of pairs
                left, right = left.reshape(-1, 1, *cases[2:]), right.reshape(1, -1, *cases[2:])
            return [xp.broadcast_to(side, cases) for side in (left, right)]

        (left, left_power), (right, right_power) = map(xp.frexp, (scaled.left, scaled.right))
        readout, of_readout = math.frexp(self.network.readout_scale)
        mantissas, powers = of_cases(readout * left, right), of_cases(left_power, right_power)
        of_float64, least = np.finfo(np.float64), float(np.finfo(self.dtype).tiny)
        below = OverflowError(
            f"the kernel falls below {self.dtype.name} at depth {max(self.depths)}: expected "
            f"larger signals or readout_scale; normalized=True has no such limit"
        )
        if bool(xp.isnan(left.sum() + right.sum())):  # some are
            raise below
        roots = self._own_roots(scaled, kind)

        def product(values: Array, factor: Array, exponents: Array) -> Array:
            if xp is np:  # a device would be waited for; `ldexp` takes the time of ten products
                whole = np.ldexp(factor, exponents)
                if of_float64.tiny <= whole.min() and whole.max() <= of_float64.max:
                    return values * whole
            return xp.ldexp(values * factor, exponents)

        def scale(t: int, values: Array, piece: tuple[slice, ...], out: Array) -> None:
            a, b = (each[piece[:2]] for each in mantissas)
            factor = a * b
            of_left, of_right = (each[piece[:2]] for each in powers)
            exponents = of_left + of_right + (scaled.exponents[t] + of_readout)
            out[...] = product(values, factor, exponents)
            small = xp.abs(out) < least  # such numbers have few digits, or are 0
            if bool(small.any()):  # which is right beside a larger √(K(x,x) K(z,z))
                x, z = (each[piece[:2]] for each in of_cases(*(each[t] for each in roots())))
                is_lost = small & (x * z > 0) & (xp.ldexp(x * z * factor, exponents) < least)
                if bool(is_lost.any()):
                    raise below

        return self._results(scaled, kind, scale, "; normalized=True has no such limit")

    def _own_roots(self, scaled: ScaledKernel, kind: str) -> Callable[[], list[Array]]:
        """Return a function for √K(x,x) and √K(z,z) without their scales, (depths, cases) each.

        Kernels at pixel pairs have the root of their trace. Values may change before it is called.
        """
        xp, values = array_module(scaled.left), scaled.values[kind]

        def root(own: Array) -> Array:
            if self.request.head == "pixels":
                own = own.trace(axis1=2, axis2=3) / own.shape[-1]
            return xp.sqrt(xp.maximum(own, 0.0))

        if self.Z is not None:
            return cache(lambda: [root(each.values[kind]) for each in self.diagonals()])
        if values.ndim > 2:  # else of pairs
            values = xp.moveaxis(values.diagonal(axis1=1, axis2=2), -1, 1)
        known = [root(values)] * 2
        return lambda: known

    def normalize(self, scaled: ScaledKernel, kind: str, left: Array, right: Array) -> Array:
        """Return the normalized kernels of one kind, (depths, cases, cases, …), or of pairs.

        `left` and `right` are the kernels K(x,x) and K(z,z) without their scales, (depths, cases).
        """

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
        self, scaled: ScaledKernel, kind: str,
        formula: Callable[[int, Array, tuple[slice, ...], Array], None], remedy: str = "",
        finite: bool | Array = True,
    ) -> Array:  # fmt: skip
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
                f"the kernel exceeds {self.dtype.name}{below} at depth {max(self.depths)} "
                f"(it grows with depth and with the signals){remedy}"
            )
        return result


@default_errors()
def mean_again(X: Array, Z: PreparedSignals) -> Array:
    """Return the mean of the normalized kernels, of all kinds and depths, of X and Z: (n, m).

    X is a finite float64 array with the channels and pixels of the array of Z: nothing is checked.
    """
    call = Z.call.again(X, Z)
    call.check_memory()
    (of_X, of_Z), values = call.diagonals(), call.gram().values
    kernels = [correlation(K, of_X.values[kind], of_Z.values[kind]) for kind, K in values.items()]
    return sum(kernels[1:], start=kernels[0]).mean(axis=0) / len(kernels)


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
