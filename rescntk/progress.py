"""Progress of long work: a bar for a person, lines in a log, a warning before hours."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from .validation import check_flag

_FIRST_PAUSE = 5.0
"""Least seconds before the first line in a log, and between two lines.

Raising it makes fewer lines, and none for work that is done before. Chosen by taste.
"""

_SHARE = 0.05
"""Least pause between two lines in a log, as a share of the time elapsed.

Raising it makes fewer lines. Chosen by taste: about 14 lines for each tenfold elapsed time.
"""

_JUDGE_AFTER = 10.0
"""Seconds after which the time left is estimated for the warning.

Raising it makes the estimate better and the warning later. Chosen by reasoning: the engines
report many times in 10 seconds.
"""

_LONG = 3600.0
"""Seconds of work left from which on a warning is given. Raising it makes fewer warnings. Chosen
by taste: an hour."""


@contextmanager
def progress_bar(
    show: bool, total: int, unit: str = "pair", *, name: str = "rescntk", advice: str = ""
) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of units done since its last call.

    On a terminal and in a notebook tqdm draws a bar, where it is installed. Elsewhere lines are
    printed to stderr. A warning comes after the first 10 seconds if an hour or more is left.

    Parameters
    ----------
    show : bool
        Whether to report; the warning comes in both cases.
    total : int
        Work to be done, in units.
    unit : str, default "pair"
        Name of one unit of work.
    name : str, default "rescntk"
        Name of the computation.
    advice : str
        What the warning says about interruptions.
    """
    report = _Report(name, total, unit, check_flag(show, "progress"), advice)
    try:
        yield report.add
        report.add(total - report.done)
    finally:
        if report.bar is not None:
            report.bar.close()


class _Report:
    """The state of `progress_bar`."""

    def __init__(self, name: str, total: int, unit: str, show: bool, advice: str) -> None:
        self.name, self.total, self.unit, self.advice = name, total, unit, advice
        self.done, self.start, self.is_judged = 0, time.monotonic(), False
        self.bar = _tqdm(total=total, unit=unit, desc=name, unit_scale=True) if show else None
        self.prints, self.printed = show and self.bar is None, 0.0

    def add(self, done: int) -> None:
        """Count `done` finished units."""
        self.done = min(self.done + done, self.total)  # tiles compute a few pairs twice
        elapsed = time.monotonic() - self.start
        left = elapsed * (self.total - self.done) / self.done if self.done else 0.0
        if not self.is_judged and elapsed >= _JUDGE_AFTER:
            self.is_judged = True
            if left >= _LONG:
                advice = f": {self.advice}" if self.advice else ""
                warnings.warn(
                    f"{self.name}: about {_hours(left)} of work are left{advice}", stacklevel=2
                )
        if self.bar is not None:
            self.bar.update(self.done - self.bar.n)
        pause = max(_FIRST_PAUSE, _SHARE * elapsed)
        is_last = done > 0 and self.done == self.total and elapsed >= _FIRST_PAUSE
        if self.prints and (is_last or elapsed - self.printed > pause):
            self.printed = elapsed
            share = 100 * self.done / max(1, self.total)
            times = f"{_clock(elapsed)}, about {_clock(left)} left"
            text = f"{self.name}: {self.done}/{self.total} {self.unit}s, {share:.0f} %, {times}"
            print(text, file=sys.stderr, flush=True)


def _tqdm(**options: Any) -> Any:
    """Return a bar of tqdm, or None where tqdm is missing or no person looks."""
    if not (sys.stderr.isatty() or "ipykernel" in sys.modules):
        return None
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError:
        return None
    return tqdm(**options)


def _clock(seconds: float) -> str:
    """Return seconds as hours, minutes and seconds: "1:02:03"."""
    return str(timedelta(seconds=round(seconds)))


def _hours(seconds: float) -> str:
    """Return a long time in words: "2.5 hours", "3.1 days"."""
    hours = seconds / 3600
    return f"{hours:.2g} hours" if hours < 48 else f"{hours / 24:,.1f} days"
