"""Bars of tqdm for long work, and warnings that name the caller's line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .validation import check_flag


@contextmanager
def progress_bar(show: bool, total: int, unit: str = "pair") -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of units done since its last call.

    With `show`, tqdm draws a bar of `total` units; without tqdm an ImportError is raised.
    """
    if not check_flag(show, "progress"):
        yield lambda more: None
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


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the first caller outside of this package."""
    level, frame, package = 1, sys._getframe(), Path(__file__).parent
    while frame.f_back is not None and Path(frame.f_code.co_filename).is_relative_to(package):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def say(*words: Any) -> None:
    """Print a line to stderr."""
    print(*words, file=sys.stderr, flush=True)
