"""One call: arguments checked on their way to an engine, results scaled on their way back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import engines
from .engines.request import DTYPES, KINDS, Request, Scaled
from .network import Network, check_choice, check_depth, check_flag
from .signals import array_module, check_signals

Array = Any


class Call:
    """A checked call for the kernels of one network, with one head, on some signals."""

    def __init__(
        self,
        network: Network,
        X: Array,
        Z: Array | None,
        head: str,
        kinds: Iterable[str],
        depths: Iterable[int] | None,
        engine: str,
        dtype: str,
        threads: int | None,
    ) -> None:
        check_network(network)
        self.network = network
        self.kinds = _check_kinds(kinds)
        self.depths = (network.depth,) if depths is None else check_depths(depths)
        self.dtype = np.dtype(_check_dtype(dtype))
        self.X = check_signals(X, "X")
        self.Z = None if Z is None or Z is X else check_signals(Z, "Z")
        if self.Z is not None:
            check_match(self.X, self.Z)
        self.engine = engines.choose(engine, network, self.X)
        threads = None if threads is None else check_depth(threads, "threads")
        ladder = tuple(sorted(set(self.depths)))
        self.request = Request(network, head, self.kinds, ladder, self.dtype.name, threads)

    def gram(self, progress: bool) -> Scaled:
        n, m = len(self.X), len(self.X if self.Z is None else self.Z)
        pairs = n * (n + 1) // 2 if self.Z is None else n * m
        with progress_bar(progress, pairs) as tick:
            return self._in_order(self.engine.gram(self.request, self.X, self.Z, tick))

    def diagonal(self, progress: bool, signals: Array | None = None) -> Scaled:
        signals = self.X if signals is None else signals
        with progress_bar(progress, len(signals)) as tick:
            return self._in_order(self.engine.diagonal(self.request, signals, tick))

    def _in_order(self, scaled: Scaled) -> Scaled:
        """Return the depths in the order in which they were asked for."""
        ladder = self.request.depths
        if self.depths == ladder:
            return scaled
        order = [ladder.index(depth) for depth in self.depths]
        values = {kind: value[order] for kind, value in scaled.values.items()}
        exponents = tuple(scaled.exponents[t] for t in order)
        return Scaled(values, scaled.left, scaled.right, exponents)

    def unscale(self, scaled: Scaled, kind: str, left: Array, right: Array) -> Array:
        """Return values, (depths, ...), times their scale, or say that they do not fit."""
        values = scaled.values[kind]
        xp = array_module(values)
        left, left_power = xp.frexp(left)
        right, right_power = xp.frexp(right)
        powers = xp.asarray(scaled.exponents, dtype=np.int32).reshape(-1, *[1] * (values.ndim - 1))
        powers = powers + (left_power + right_power)
        with np.errstate(over="ignore"):
            result = xp.ldexp(values * (left * right * self.network.readout_scale), powers)
            result = result.astype(self.dtype, copy=False)
        self.check_finite(result, remedy="; normalized=True has no such limit")
        return result

    def check_finite(self, *results: Array, remedy: str = "") -> None:
        """Raise OverflowError if a result is not finite; `remedy` is for ReLU networks."""
        if all(bool(array_module(result).isfinite(result).all()) for result in results):
            return
        if self.network.activation != "relu":
            remedy = ""
        raise OverflowError(
            f"the kernel exceeds {self.dtype.name} at depth {max(self.depths)} (it grows with "
            f"depth and with the signals){remedy}"
        )


def check_match(X: Array, Z: Array) -> None:
    """Say so if X and Z are not signals of the same kind."""
    if array_module(X) is not array_module(Z):
        raise ValueError(
            "X and Z are of different array libraries, expected both NumPy or both CuPy"
        )
    for axis, what in ((1, "channels"), (2, "timepoints")):
        if X.shape[axis] != Z.shape[axis]:
            raise ValueError(
                f"Z has shape {Z.shape}, expected {X.shape[axis]} {what} as in X of shape {X.shape}"
            )


def check_network(network: Any) -> None:
    if not isinstance(network, Network):
        raise ValueError(f"network is {network!r}, expected a rescntk.Network")


def _check_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for kind in kinds:
        check_choice(kind, "kinds", KINDS)
    if not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(f"kinds is {kinds!r}, expected one or both of {KINDS}")
    return kinds


def _check_dtype(dtype: Any) -> str:
    """Return the name of "float64" or "float32", however NumPy's users say it."""
    try:
        return check_choice(np.dtype(dtype).name, "dtype", DTYPES)
    except (TypeError, ValueError):
        return check_choice(dtype, "dtype", DTYPES)


def check_depths(depths: Iterable[int]) -> tuple[int, ...]:
    try:
        given = tuple(depths)
    except TypeError:
        raise ValueError(f"depths is {depths!r}, expected a sequence of integers") from None
    if not given:
        raise ValueError("depths is empty, expected at least one depth")
    return tuple(check_depth(depth, "depths") for depth in given)


@contextmanager
def progress_bar(show: bool, total: int, unit: str = "pair") -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how many more pairs are done."""
    if not check_flag(show, "progress"):
        yield lambda done: None
        return
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError:
        raise ImportError("progress=True needs tqdm: pip install 'rescntk[plot]'") from None
    with tqdm(total=total, unit=unit, unit_scale=True) as bar:
        # Tiles on the diagonal compute a few pairs twice.
        yield lambda done: bar.update(min(done, total - bar.n))
        bar.update(total - bar.n)
