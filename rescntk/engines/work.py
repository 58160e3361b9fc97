"""Blocks of work, pools of threads, and how a running computation is stopped."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

Task = TypeVar("Task")
"""A part of a computation, the argument of the function that a pool calls."""

Result = TypeVar("Result")
"""The result of a task, or of a step of a long computation."""

Tick = Callable[[int], None]
"""A function that an engine calls with the number of signal pairs computed since the last call."""


def silent(done: int) -> None:
    """Do nothing: the `Tick` of a call without a progress bar."""


def blocks(start: int, stop: int, size: int) -> Iterator[slice]:
    """Yield consecutive slices of at most `size` indices, from `start` to `stop`."""
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))


def cut(sizes: np.ndarray, most: float) -> Iterator[slice]:
    """Yield consecutive slices of an array of sizes; the sum of a slice is at most `most`.

    A size above `most` makes a slice of its own.
    """
    total = np.concatenate([[0], np.cumsum(sizes)])
    start = 0
    while start < len(sizes):
        stop = int(np.searchsorted(total, total[start] + most, side="right")) - 1
        stop = max(start + 1, stop)
        yield slice(start, stop)
        start = stop


def pieces(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Yield indices that cut an array of `shape` into pieces of at most `most` numbers."""
    per_row = math.prod(shape[1:])
    for rows in blocks(0, shape[0], max(1, most // max(1, per_row))):
        if per_row <= most:
            yield (rows,)
        else:
            yield from ((rows, *inner) for inner in pieces(shape[1:], most))


_WAKE_INTERVAL = 0.1
"""Seconds after which a thread that waits for tasks wakes up and notices an interrupt.

It wakes up by itself because some systems do not wake a waiting thread when they interrupt it. This
takes microseconds. A larger number would delay the reaction to Ctrl-C.
"""

_thread = threading.local()  # its attribute `stop` is the flag of the pool that owns the thread
_NEVER = np.zeros(1, np.int64)  # the flag of threads that belong to no pool


class Pool(Protocol):
    """Threads that do tasks, or the calling thread alone."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield `function` of each task, in the order of the tasks."""


class _ThisThread:
    """A `Pool` without threads. It does a task when the iterator's next result is requested."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        return map(function, tasks)


class _Threads:
    """The `Pool` of the threads of an executor."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self._executor = executor

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        waiting = deque(self._executor.submit(function, task) for task in tasks)
        while waiting:
            if wait([waiting[0]], _WAKE_INTERVAL).done:
                yield waiting.popleft().result()


@contextmanager
def pool_of(threads: int) -> Iterator[Pool]:
    """Make a pool of `threads` threads; 0 means that the calling thread does the tasks itself.

    If the block raises an exception, such as `KeyboardInterrupt`, waiting tasks are dropped, and
    running tasks end when they next look at `stop_flag`. Python can raise KeyboardInterrupt only in
    the main thread and only between two bytecode instructions. Compiled loops that run for more
    than a moment therefore need a pool, even if it has only one thread.
    """
    if threads == 0:
        yield _ThisThread()
        return
    stop = np.zeros(1, np.int64)
    executor = ThreadPoolExecutor(threads, initializer=lambda: setattr(_thread, "stop", stop))
    try:
        yield _Threads(executor)
    finally:
        stop[0] = 1  # without an exception all tasks are done, and no one reads the flag
        executor.shutdown(cancel_futures=True)


def stop_flag() -> np.ndarray:
    """Return an array of one number, which becomes 1 if the task of this thread should end."""
    return getattr(_thread, "stop", _NEVER)


def check_stop() -> None:
    """Raise CancelledError if the task of this thread should end."""
    if stop_flag()[0]:
        raise CancelledError


def until_stopped(steps: Iterable[Result]) -> Iterator[Result]:
    """Yield the items of an iterable, and call `check_stop` before each of them and at the end."""
    check_stop()
    for step in steps:
        yield step
        check_stop()


def processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "process_cpu_count"):  # from Python 3.13 on
        number = os.process_cpu_count()
    elif hasattr(os, "sched_getaffinity"):
        number = len(os.sched_getaffinity(0))
    else:
        number = os.cpu_count()
    return min(number or 1, _quota())


@cache
def _quota() -> int:
    """Return the number of processors that a container's limit of CPU time is equal to.

    Without a limit, the number is `sys.maxsize`.
    """
    with suppress(OSError, ValueError):  # there is no file of cgroup 2, or it has the word "max"
        time, period = map(int, Path("/sys/fs/cgroup/cpu.max").read_text().split())
        return max(1, math.ceil(time / period))
    return sys.maxsize
