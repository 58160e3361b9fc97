"""Progress of long work: a bar on a terminal, lines in a log, a warning before hours of work."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from .validation import check_flag

_FIRST_PAUSE = 5.0
"""Least seconds before the first line in a log, and between two lines.

Raising it makes fewer lines, and none for work that is done before. Chosen by taste.
"""

_SHARE = 0.05
"""Least pause between two lines in a log, as a share of the time elapsed.

Raising it makes fewer lines. Chosen by taste: about 14 lines for each tenfold elapsed time.
"""

_REDRAW = 0.1
"""Least seconds between two drawings of a line on a terminal. Chosen by taste."""

_JUDGE_AFTER = 10.0
"""Seconds after which the time left is estimated for the warning.

Raising it makes the estimate better and the warning later. Chosen by reasoning: the engines
report many times in 10 seconds.
"""

_LONG = 3600.0
"""Seconds of work left from which on a warning is given. Raising it makes fewer warnings. Chosen
by taste: an hour."""


class Progress:
    """Report finished work to stderr, with an estimate of the time left.

    Without `show` nothing is reported. In both cases a warning comes after the first 10 seconds
    if an hour or more of work is left.

    Parameters
    ----------
    name : str
        Name of the computation in each line.
    total : int
        Work to be done, in units.
    unit : str, default "pair"
        Name of one unit of work.
    blocks : int, optional
        Number of blocks that the work consists of: lines count blocks instead of units. In a
        log the first and the last block have a line, however short the work is.
    show : bool, default True
        Whether to report.
    advice : str
        What the warning says about interruptions.
    """

    def __init__(
        self,
        name: str,
        total: int,
        unit: str = "pair",
        *,
        blocks: int | None = None,
        show: bool = True,
        advice: str = "",
    ) -> None:
        self.name, self.total, self.unit, self.blocks = name, total, unit, blocks
        self.show, self.advice = show, advice
        self.calls, self.done = 0, 0
        self.start = self.last = time.monotonic()
        self._judged = self._is_drawn = False

    def add(self, done: int) -> None:
        """Count `done` finished units, or one finished block of this size."""
        self.calls += 1
        self.done = min(self.done + done, self.total)  # tiles compute a few pairs twice
        now = time.monotonic()
        if not self._judged and now - self.start >= _JUDGE_AFTER:
            self._judged = True
            self._judge(now - self.start)
        if self.show:
            self._report(now, self.done == self.total)

    def finish(self) -> None:
        """Count all units that are left."""
        if self.done < self.total:
            self.add(self.total - self.done)

    def line(self, elapsed: float) -> str:
        """Return a line such as "K.zarr: 3 of 12 blocks, 25 %, 0:00:10, about 0:00:30 left"."""
        count = f"{self.done}/{self.total} {self.unit}s"
        if self.blocks is not None:
            count = f"{self.calls} of {self.blocks} blocks"
        share = self.done / self.total if self.total else 1.0
        times = [_clock(elapsed), f"about {_clock(self._left(elapsed))} left"]
        return ", ".join([f"{self.name}: {count}", f"{100 * share:.0f} %", *times])

    def _report(self, now: float, end: bool) -> None:
        """Draw the line on a terminal, or print a line into a log when it is time for one."""
        if sys.stderr.isatty():
            if end or not self._is_drawn or now - self.last >= _REDRAW:
                text = f"\r{self.line(now - self.start)} "
                print(text, end="\n" if end else "", file=sys.stderr, flush=True)
                self._is_drawn, self.last = True, now
            return
        elapsed = now - self.start
        edge = end or (self.blocks is not None and self.calls == 1)
        is_short = self.blocks is None and elapsed < _FIRST_PAUSE
        if now - self.last > max(_FIRST_PAUSE, _SHARE * elapsed) or (edge and not is_short):
            print(self.line(elapsed), file=sys.stderr, flush=True)
            self.last = now

    def _judge(self, elapsed: float) -> None:
        """Warn if much work is left."""
        left = self._left(elapsed)
        if left >= _LONG:
            advice = f": {self.advice}" if self.advice else ""
            warnings.warn(
                f"{self.name}: about {_hours(left)} of work are left{advice}", stacklevel=2
            )

    def _left(self, elapsed: float) -> float:
        """Return the estimate of the seconds left, from the mean speed so far."""
        return elapsed * (self.total - self.done) / self.done if self.done else 0.0


def _clock(seconds: float) -> str:
    """Return seconds as hours, minutes and seconds: "1:02:03"."""
    return str(timedelta(seconds=round(seconds)))


def _hours(seconds: float) -> str:
    """Return a long time in words: "2.5 hours", "3.1 days"."""
    hours = seconds / 3600
    return f"{hours:.2g} hours" if hours < 48 else f"{hours / 24:,.1f} days"


@contextmanager
def progress_bar(
    show: bool, total: int, unit: str = "pair", advice: str = ""
) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of units done since its last call.

    The bar is tqdm's on a terminal and in a notebook, where tqdm is installed. Elsewhere lines
    are printed.
    """
    if check_flag(show, "progress") and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        try:
            from tqdm.auto import tqdm
        except ModuleNotFoundError:
            pass
        else:
            judge = Progress("rescntk", total, unit, show=False, advice=advice)
            with tqdm(total=total, unit=unit, unit_scale=True) as bar:

                def tick(done: int) -> None:
                    judge.add(done)
                    bar.update(judge.done - bar.n)

                yield tick
                bar.update(total - bar.n)
            return
    report = Progress("rescntk", total, unit, show=show, advice=advice)
    yield report.add
    report.finish()
