"""Progress bars for long computations, drawn by tqdm."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..engines.work import silent


def is_open(stream: object) -> bool:
    """Return whether a stream can be written to. In a service sys.stderr may be None."""
    return stream is not None and not getattr(stream, "closed", False)


@contextmanager
def progress_bar(show: bool, total: int, unit: str = "pair") -> Iterator[Callable[[int], None]]:
    """Yield a function to be called with the number of units done since its last call.

    If `show`, tqdm draws a bar of `total` units on stderr if this can be written to. If tqdm is not
    installed, an ImportError is raised.
    """
    bar = _bar(total, unit) if show else None
    if bar is None:
        yield silent
        return
    with bar:

        def add(more: int) -> None:
            bar.update(min(more, total - bar.n))  # some pairs may be computed twice

        yield add
        add(total)


def _bar(total: int, unit: str) -> Any:
    """Return a bar of tqdm, or None if it cannot be drawn."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs tqdm: pip install tqdm") from None
    with suppress(OSError):
        return tqdm(total=total, unit=unit, unit_scale=True) if is_open(sys.stderr) else None
    return None
