"""Bars of tqdm for long work."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..engines.work import silent


def is_open(stream: object) -> bool:
    """Return whether sys.stderr or sys.stdout can be written to: a service may have none."""
    return stream is not None and not getattr(stream, "closed", False)


@contextmanager
def progress_bar(show: bool, total: int, unit: str = "pair") -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of units done since its last call.

    With `show`, tqdm draws a bar of `total` units to stderr, where this can be written to; without
    tqdm an ImportError is raised.
    """
    bar = _bar(total, unit) if show else None
    if bar is None:
        yield silent
        return
    with bar:

        def add(more: int) -> None:
            bar.update(min(more, total - bar.n))  # tiles compute a few pairs twice

        yield add
        add(total)


def _bar(total: int, unit: str) -> Any:
    """Return a bar of tqdm, or None where it cannot be drawn."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs tqdm: pip install tqdm") from None
    with suppress(OSError):
        return tqdm(total=total, unit=unit, unit_scale=True) if is_open(sys.stderr) else None
    return None
