"""One thread for BLAS while an estimator works, also if several Python threads use estimators."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = Lock()
_users = 0  # number of running blocks of `one_blas_thread`, of all Python threads
_before: list[int] = []  # number of threads of each library before the first of these blocks


@cache
def _libraries() -> list[Any]:
    """Return the controller of each BLAS library; to find them takes 20 ms."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS have one thread for the time of a block; blocks in several threads may overlap.

    Most libraries have one number of threads for the process. The first block sets it to 1, and the
    last one restores what the first one found. Blocks between find 1, and must not restore it.
    Where each Python thread has its own number, as with OpenMP, each block restores what it found.

    Several threads are no faster on two idle cores: a fit of 600 signals took 2.2 s with one and
    2.6 s with two. On busy cores the threads wait for each other: the fit took 4 s with one
    and 23 s with two, and the eigenvectors of 1,000 signals .3 s and 8 s.
    """
    global _users, _before
    with _lock:
        counts = [library.num_threads for library in _libraries()]
        _before = _before if _users else counts
        _users += 1
    try:
        with _lock:
            for library in _libraries():
                _set_threads(library, 1)
        yield
    finally:
        with _lock:
            _users -= 1
            for library, count, first_count in zip(_libraries(), counts, _before, strict=True):
                if _has_own_numbers(library):
                    _set_threads(library, count)
                elif not _users and library.num_threads == 1:  # else others have set it since
                    _set_threads(library, first_count)


def _has_own_numbers(library: Any) -> bool:
    """Return whether a library has a number of threads for each Python thread."""
    has_openmp = getattr(library, "threading_layer", "") == "openmp"
    return has_openmp and bool(library.internal_api == "openblas")


def _set_threads(library: Any, count: int) -> None:
    """Set a library's number of threads, from any Python thread.

    In threadpoolctl 3.8 only the Python thread that has set a number first may set others, until
    this is cleared.
    """
    clear = getattr(library, "clear_controlling_thread", lambda force: None)
    clear(force=True)
    library.set_num_threads(count)
    clear(force=True)
