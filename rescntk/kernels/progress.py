"""Bars of tqdm for long work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..engines.protocol import silent
from ..validation import check_flag


@contextmanager
def progress_bar(show: bool, total: int, unit: str = "pair") -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of units done since its last call.

    With `show`, tqdm draws a bar of `total` units; without tqdm an ImportError is raised.
    """
    if not check_flag(show, "progress"):
        yield silent
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs tqdm: pip install tqdm") from None
    with tqdm(total=total, unit=unit, unit_scale=True) as bar:

        def add(more: int) -> None:
            bar.update(min(more, total - bar.n))  # tiles compute a few pairs twice

        yield add
        add(total)
