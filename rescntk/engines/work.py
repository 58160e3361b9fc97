"""Blocks of work, threads that share it, and progress."""

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
"""A part of a computation, as a pool's function takes it."""

Result = TypeVar("Result")
"""What a task, or a step of a long computation, returns."""

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


def pieces(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Yield the indices of pieces of at most `most` numbers that cover an array of `shape`."""
    per_row = math.prod(shape[1:])
    for rows in blocks(0, shape[0], max(1, most // max(1, per_row))):
        if per_row <= most:
            yield (rows,)
        else:
            yield from ((rows, *inner) for inner in pieces(shape[1:], most))


_WAKE_INTERVAL = 0.1
"""Seconds after which a thread that waits for tasks looks whether it was interrupted.

A larger number reacts later. Some systems do not wake a waiting thread when they interrupt it. A
look takes microseconds.
"""

_thread = threading.local()  # `stop`: the flag of the pool that the thread belongs to
_NEVER = np.zeros(1, np.int64)  # the flag of threads that belong to none


class Pool(Protocol):
    """Threads, or this thread alone, which do tasks."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield the results of a function of each task, in the order of the tasks."""


class _ThisThread:
    """The `Pool` that does a task when its result is asked for."""

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        return map(function, tasks)


class _Threads:
    """The `Pool` of an executor."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self._executor = executor

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        waiting = deque(self._executor.submit(function, task) for task in tasks)
        while waiting:
            if wait([waiting[0]], _WAKE_INTERVAL).done:
                yield waiting.popleft().result()


@contextmanager
def pool_of(threads: int) -> Iterator[Pool]:
    """Make a pool of `threads` threads with `map`, as of executors; with 0, this thread.

    With an exception in the block, such as `KeyboardInterrupt`, tasks that wait are dropped, and
    those that run end where they look at `stop_flag` next. Python raises
    KeyboardInterrupt in the main thread, between two of its steps. Compiled loops of more than a
    moment therefore belong to a pool, even of one thread.
    """
    if threads == 0:
        yield _ThisThread()
        return
    stop = np.zeros(1, np.int64)
    executor = ThreadPoolExecutor(threads, initializer=lambda: setattr(_thread, "stop", stop))
    try:
        yield _Threads(executor)
    finally:
        stop[0] = 1  # unless an exception has come, all tasks are done
        executor.shutdown(cancel_futures=True)


def stop_flag() -> np.ndarray:
    """Return an array of one number, which becomes 1 when the task of this thread is to end."""
    return getattr(_thread, "stop", _NEVER)


def check_stop() -> None:
    """End the task of this thread if its pool has ended."""
    if stop_flag()[0]:
        raise CancelledError


def until_stopped(steps: Iterable[Result]) -> Iterator[Result]:
    """Yield the results of steps, with `check_stop` before each."""
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
    """Return how many processors a container's limit of time is worth, or many without one."""
    with suppress(OSError, ValueError):  # no file of cgroup 2, or the word "max"
        time, period = map(int, Path("/sys/fs/cgroup/cpu.max").read_text().split())
        return max(1, math.ceil(time / period))
    return sys.maxsize
