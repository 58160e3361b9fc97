"""Progress of long work: a bar in a terminal, lines in a log, a warning if it takes hours.

The first units may wait for compilation: the time left is measured from their end on.

`say` prints lines that may be lost, `show` prints results, which may not. `warn` names the caller.
"""

from __future__ import annotations

import errno
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from threading import Timer
from typing import Any

from .validation import check_flag

_FIRST_PAUSE = 5.0
"""Least seconds before the first line in a log, and between two lines. Chosen by taste."""

_SHARE = 0.05
"""Least pause between two lines in a log, as a share of the time elapsed. Chosen by taste."""

_JUDGE_AFTER = 10.0
"""Seconds after the first call when the time left is judged. Raising it delays the warning.
Chosen: engines report many times by then."""

_LONG = 3600.0
"""Seconds of work left above which a warning is given: an hour, chosen by taste."""

_PACKAGE = f"{Path(__file__).parent}{os.sep}"


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the first caller outside of this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def say(*words: Any, stream: str = "stderr") -> None:
    """Print a line about work in progress, even where ``sys.stderr`` is closed, full or None."""
    file = getattr(sys, stream)
    if file is not None:  # print would take None for stdout
        with suppress(OSError, ValueError):
            print(encodable(" ".join(map(str, words)), file), file=file, flush=True)


def show(text: str, end: str = "\n") -> None:
    """Print a result to stdout, after files are written. If it is lost, raise an OSError."""
    try:
        print(text, end=end, flush=True)
    except OSError as error:
        reason = "it is closed" if error.errno == errno.EBADF else error.strerror or error
        raise OSError(
            f"standard output cannot be written: {reason}; output files are complete"
        ) from None


def encodable(text: str, file: Any = None) -> str:
    """Return a text with escapes for what a stream, or UTF-8 without one, cannot encode."""
    encoding = getattr(file, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def has_terminal() -> bool:
    """Return whether a person can read stderr."""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # of None, and of a closed stream
        return False


def in_notebook() -> bool:
    """Return whether this process runs the cells of a notebook; others may import its kernel."""
    module = sys.modules.get("ipykernel.kernelapp")
    return module is not None and bool(module.IPKernelApp.initialized())


@contextmanager
def announced(text: str, after: float) -> Iterator[None]:
    """Print a line to stderr if the block takes longer than `after` seconds."""
    timer = Timer(after, say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def progress_bar(
    show: bool, total: int, unit: str = "pair", *, name: str = "rescntk", advice: str = ""
) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of units done since its last call.

    On a terminal and in a notebook tqdm draws a bar, where it is installed. Elsewhere lines are
    printed to stderr. A warning comes 10 seconds after the first call if an hour or more is left.

    The bar or the lines need `show`; the warning does not, and ends with `advice` on
    interruptions. `total` is the work in units called `unit`; `name` is the computation.
    """
    prints = check_flag(show, "progress")
    bar = _tqdm(total=total, unit=unit, desc=name, unit_scale=True) if show else None
    done, start, printed, is_judged = 0, time.monotonic(), 0.0, False
    first: tuple[int, float] | None = None  # units done by the first call, and its second

    def add(more: int) -> None:
        nonlocal done, printed, is_judged, first
        before, done = done, min(done + more, total)  # tiles compute a few pairs twice
        elapsed = time.monotonic() - start
        if first is None:
            first = done, elapsed
            if bar is not None:
                bar.initial = bar.n = before = done
                bar.unpause()
        measured, seconds = done - first[0], elapsed - first[1]
        left = seconds * (total - done) / measured if measured else 0.0
        if not is_judged and measured and seconds >= _JUDGE_AFTER:
            is_judged = True
            if left >= _LONG:
                hours = left / 3600
                work = f"{hours:.2g} hours" if hours < 48 else f"{hours / 24:,.1f} days"
                losses = f": {advice}" if advice else ""
                warnings.warn(f"{name}: about {work} of work are left{losses}", stacklevel=2)
        if bar is not None:
            with suppress(OSError):  # of a terminal that was closed
                bar.update(done - before)
            return
        pause = max(_FIRST_PAUSE, _SHARE * elapsed)
        is_last = more > 0 and done == total and elapsed >= _FIRST_PAUSE
        if prints and (is_last or elapsed - printed > pause):
            printed = elapsed
            counts = f"{done}/{total} {unit}s, {100 * done / max(1, total):.0f} %"
            passed, to_come = (timedelta(seconds=round(each)) for each in (elapsed, left))
            end = f", about {to_come} left" if measured or done == total else ""
            say(f"{name}: {counts}, {passed}{end}")

    try:
        yield add
        add(total - done)
    finally:
        if bar is not None:
            with suppress(OSError):
                bar.close()


def _tqdm(**options: Any) -> Any:
    """Return a bar of tqdm, or None without tqdm, a terminal and a notebook."""
    if not (has_terminal() or in_notebook()):
        return None
    try:
        from tqdm.auto import tqdm

        return tqdm(**options)
    except (ModuleNotFoundError, OSError):  # OSError: of a terminal that was closed
        return None
