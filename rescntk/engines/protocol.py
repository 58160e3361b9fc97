"""The request and the result of every engine, blocks of work, and threads that share it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from ..arrays import Array, Batch
from ..network import Network


@dataclass(frozen=True)
class Request:
    """The kernels that an engine is to compute.

    Attributes
    ----------
    network : Network
        The infinitely wide network. Its depth is ignored.
    head : str
        One of `HEADS`, or "pixels": the kernel at every pixel pair.
    kinds : tuple of str
        Some of `KINDS`.
    depths : tuple of int
        Strictly increasing. The recursion passes all of them on its way to the last.
    dtype : str
        The working precision, one of `DTYPES`.
    threads : int or None
        Number of CPU threads; None is the engine's own choice.
    copied_bytes : int
        Memory per result of one kind, at all depths, that the caller will need for copies in
        another dtype or order. 0 if the caller changes the results in place.
    shares : bool
        Whether to return kernels, of the heads "trace" and "gap", as shares of the pixels of the
        left signals: results have an axis (d,) more, over which they add up to the kernels. The
        right signals are given, also where they are the left ones.
    width : int
        Pixels of a line of images, whose pixels are those of the signals, line by line. Signals
        have lines of one pixel. Filters of images have as many taps across as along lines.
    """

    network: Network
    head: str
    kinds: tuple[str, ...]
    depths: tuple[int, ...]
    dtype: str = "float64"
    threads: int | None = None
    copied_bytes: int = 0
    shares: bool = False
    width: int = 1

    @property
    def all_pairs(self) -> bool:
        """True if all pixel pairs (j, j') are needed, not the pairs (j, j) alone."""
        return self.head in ("gap", "pixels")

    def axes(self, d: int) -> tuple[int, ...]:
        """Return the axes of `d` pixels: one of signals, lines and their pixels of images."""
        return (d,) if self.width == 1 else (d // self.width, self.width)

    def pixel_axes(self, d: int) -> tuple[int, ...]:
        """Return the axes of results that pixels have, of signals of `d` pixels."""
        return (d,) * (2 if self.head == "pixels" else int(self.shares))

    def result_bytes(self, pairs: int) -> int:
        """Return the bytes of the results of `pairs` pairs, when most of them are held.

        The engine returns the values of all kinds in float64. One kind after another is then
        copied, and a kind's values are dropped when its copy is made.
        """
        values, copied = 8 * len(self.depths) * pairs, self.copied_bytes * pairs
        return max(len(self.kinds) * values + copied, values + len(self.kinds) * copied)


@dataclass(frozen=True)
class ScaledKernel:
    """Kernel values apart from their scale, which may exceed any floating-point number.

    The kernel of cases i and k at the t-th depth is
    ``values[kind][t, i, k] * left[i] * right[k] * 2**exponents[t]``, times the readout
    scale. Paired kernels (`Engine.compute`) have no axis k. Pixel pairs have two more axes
    (j, j'), shares have (j,).
    """

    values: dict[str, Array]
    left: Array
    right: Array
    exponents: tuple[int, ...]


Tick = Callable[[int], None]
"""A function that an engine calls with the number of case pairs done since the last call."""


def silent(done: int) -> None:
    """Ignore the pairs done: the `Tick` of a call without a progress bar."""


def blocks(start: int, stop: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` that cover start … stop."""
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))


def cut(sizes: np.ndarray, most: float) -> Iterator[slice]:
    """Yield slices whose sizes add up to at most `most`, or of one number."""
    total = np.concatenate([[0], np.cumsum(sizes)])
    start = 0
    while start < len(sizes):
        stop = int(np.searchsorted(total, total[start] + most, side="right")) - 1
        stop = max(start + 1, stop)
        yield slice(start, stop)
        start = stop


_AWAKE = 0.1
"""Seconds after which a thread that waits for tasks looks whether it was interrupted.

A larger number reacts later. Some systems do not wake a waiting thread when they interrupt it. A
look takes microseconds.
"""

_thread = threading.local()  # `stop`: the flag of the pool that the thread belongs to
_NEVER = np.zeros(1, np.int64)  # the flag of threads that belong to none


@contextmanager
def pool_of(threads: int) -> Iterator[Any]:
    """Make a pool of `threads` threads with `map`, as of executors; with 0, this thread.

    With an exception in the block, such as `KeyboardInterrupt`, tasks that wait are dropped, and
    those that run end where they look at `stop_flag` next. Python raises
    KeyboardInterrupt in the main thread, between two of its steps. Compiled loops of more than a
    moment therefore belong to a pool, even of one thread.
    """
    if threads == 0:
        yield SimpleNamespace(map=map)  # runs a task when its result is asked for
        return
    stop = np.zeros(1, np.int64)
    pool = ThreadPoolExecutor(threads, initializer=lambda: setattr(_thread, "stop", stop))

    def results(function: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        waiting = deque(pool.submit(function, task) for task in tasks)
        while waiting:
            if wait([waiting[0]], _AWAKE).done:
                yield waiting.popleft().result()

    try:
        yield SimpleNamespace(map=results)
    finally:
        stop[0] = 1  # unless an exception has come, all tasks are done
        pool.shutdown(cancel_futures=True)


def stop_flag() -> np.ndarray:
    """Return an array of one number, which becomes 1 when the task of this thread is to end."""
    return getattr(_thread, "stop", _NEVER)


def check_stop() -> None:
    """End the task of this thread if its pool has ended."""
    if stop_flag()[0]:
        raise CancelledError


@dataclass(frozen=True, eq=False)
class Engine:
    """An engine computes kernels. The module of its acts is imported when first used.

    Batches are arrays of one length, or both are lists, only for the head "gap".

    Attributes
    ----------
    name : str
        As users give it.
    module : str
        The module of `compute` and `prepared`.
    why_not : callable
        The reason why it does not work here, or None.
    refuses : callable
        The reason why it does not take a request and signals, or None.
    """

    name: str
    module: str
    why_not: Callable[[], str | None] = lambda: None
    refuses: Callable[[Request, Batch], str | None] = lambda request, X: None

    def prepared(self, request: Request, X: Batch) -> Any:
        """Return signals in the form that `compute` takes at least cost, for many calls.

        It has `nbytes`. Kernels have the same bits as with the signals themselves.
        """
        return _act(self.module, "prepared")(request, X)

    def bytes_of_pair(self, request: Request, channels: int, *lengths: int) -> int:
        """Return the bytes that the least piece of work holds at a time, without results.

        It is a pair of signals of two lengths, or of one length a signal with itself.
        """
        return int(_act(self.module, "bytes_of_pair")(request, channels, *lengths))

    def compute(
        self, request: Request, X: Any, Z: Any, tick: Tick, paired: bool = False
    ) -> ScaledKernel:
        """Return the kernel of each case of `X` with each of `Z` (None: of `X`, symmetric).

        If `paired`, of each case of `X` with the same case of `Z` (None: with itself).
        """
        return cast(ScaledKernel, _act(self.module, "compute")(request, X, Z, tick, paired))


def _act(module: str, name: str) -> Callable[..., Any]:
    act: Callable[..., Any] = getattr(import_module(f"{__package__}.{module}"), name)
    return act
