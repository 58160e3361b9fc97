"""Progress of a stored computation: one changing line on a terminal, lines in a log."""

from __future__ import annotations

import sys
import time
from datetime import timedelta

_FIRST_PAUSE = 5.0
"""Least seconds between two lines in a log. Raising it makes fewer lines. Chosen by taste."""

_SHARE = 0.05
"""Least pause between two lines in a log, as a share of the time elapsed.

Raising it makes fewer lines. Chosen by taste: about 14 lines for each tenfold elapsed time.
"""


class Progress:
    """Report finished blocks to stderr, with an estimate of the time left.

    Parameters
    ----------
    name : str
        Name of the computation in each line.
    blocks, pairs : int
        Number of blocks and of values to be computed.
    show : bool
        Whether to report.
    """

    def __init__(self, name: str, blocks: int, pairs: int, show: bool) -> None:
        self.name, self.blocks, self.pairs, self.show = name, blocks, pairs, show
        self.finished, self.finished_pairs = 0, 0
        self.start = self.last = time.monotonic()

    def add(self, pairs: int) -> None:
        """Count a finished block of `pairs` values."""
        self.finished += 1
        self.finished_pairs += pairs
        if not self.show:
            return
        now = time.monotonic()
        elapsed, end = now - self.start, self.finished == self.blocks
        if sys.stderr.isatty():
            print(f"\r{self.line(elapsed)} ", end="\n" if end else "", file=sys.stderr, flush=True)
        elif end or self.finished == 1 or now - self.last > max(_FIRST_PAUSE, _SHARE * elapsed):
            print(self.line(elapsed), file=sys.stderr, flush=True)
            self.last = now

    def line(self, elapsed: float) -> str:
        """Return a line such as "K.zarr: 3 of 12 blocks, 25 %, 0:00:10, about 0:00:30 left"."""
        share = self.finished_pairs / self.pairs
        left = elapsed * (1.0 - share) / share
        times = [str(timedelta(seconds=round(seconds))) for seconds in (elapsed, left)]
        return (
            f"{self.name}: {self.finished} of {self.blocks} blocks, {100 * share:.0f} %, "
            f"{times[0]}, about {times[1]} left"
        )
