"""Threads that take tasks from a queue, or this thread alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol


class Pool(Protocol):
    """Run tasks in threads, or in this thread."""

    def map(self, task: Callable[..., Any], given: Iterable[Any], /) -> Iterator[Any]:
        """Yield the result of each task, in the order given."""


class _ThisThread:
    """Run each task when its result is asked for."""

    map = staticmethod(map)


def pool_of(threads: int) -> AbstractContextManager[Pool]:
    """Return a pool of `threads` threads. With one, this thread runs the tasks."""
    return ThreadPoolExecutor(threads) if threads > 1 else nullcontext(_ThisThread())
