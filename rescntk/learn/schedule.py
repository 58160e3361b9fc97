"""Time of passes: which passes are affordable, how long they will take, and how far they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .batches import Signals, lengths, take
from .passes import Pass

_AFFORDABLE = 5e11
"""Pixel pairs times layers that the passes of an effort may cost together. Beyond it the passes
of least value are left out. Raising it averages more passes over many signals. Chosen as about ten
minutes on two cores, at the 1.1 ns of benchmarks/results/cpu.md for float64."""

_ALWAYS = 3
"""Passes that are always made, whatever they cost: signals with differences, signals with time,
and differences. Raising it costs time with many signals. Chosen as the least number that has all
three."""

_SHORTER = (1, 2, 4, 8)
"""Factors by which many signals are shortened until the first passes are affordable. A factor of 2
takes a quarter of the time. Chosen: eighths of 128 time points are short already."""

_TRIED = 5e6
"""Pixel pairs times layers of a first try, by which the time of all passes is estimated. Raising
it makes the estimate better and later. Chosen: the try takes some 10 ms."""


def affordable(plan: Callable[[int], Sequence[Pass]], X: Signals, n_landmarks: int) -> list[Pass]:
    """Return the first passes, at least three, that are affordable together for signals X.

    Where three passes are too many, signals are shortened to a half, a quarter or an eighth.

    Parameters
    ----------
    plan : callable
        Returns the passes over signals that are shortened by a factor.
    X : signals
    n_landmarks : int
    """
    for shorter in _SHORTER:
        passes = plan(shorter)
        total = np.cumsum([amount_of_work(one, X, n_landmarks) for one in passes])
        if total[:_ALWAYS].max() <= _AFFORDABLE:
            break
    return [one for i, one in enumerate(passes) if i < _ALWAYS or total[i] <= _AFFORDABLE]


def amount_of_work(one: Pass, X: Signals, n_landmarks: int) -> float:
    """Return the pixel pairs, times layers, of a pass over signals X with some landmarks."""
    n, m = len(X), n_landmarks
    n_pairs = n * (n + 1) / 2 if m == n else n * m
    return one.work(n_pairs, float(lengths(X).mean()))


def in_time(
    passes: Sequence[Pass],
    X: Signals,
    n_landmarks: int,
    limit: float,
    say: Callable[[str], None] | None,
    options: dict[str, Any],
) -> Iterator[Pass]:
    """Yield the passes that are expected to end within a limit, one after another.

    Parameters
    ----------
    passes : sequence of Pass
    X : signals
    n_landmarks : int
    limit : float
        Seconds; may be infinite. The first pass is always yielded.
    say : callable or None
        What takes a line of text: the time of all passes, before they start, and each pass.
    options : dict
        Options of a call of a kernel.
    """
    start = time.perf_counter()
    works = [amount_of_work(one, X, n_landmarks) for one in passes]
    if say:
        seconds = _try(passes[0], X, options) * sum(works)
        say(f"about {seconds:.2g} s")
    done = 0.0
    for number, (one, work) in enumerate(zip(passes, works, strict=True), 1):
        begin = time.perf_counter()
        if done and (begin - start) * (1 + work / done) > limit:
            if say:
                say(f"[{number}/{len(passes)}] {one.describe()}: left out, out of time")
            continue
        yield one
        done += work
        if say:
            now = time.perf_counter()
            rest = (now - start) / done * sum(works[number:])
            say(
                f"[{number}/{len(passes)}] {one.describe()}: {now - begin:.1f} s, "
                f"about {rest:.2g} s left"
            )


def _try(one: Pass, X: Signals, options: dict[str, Any]) -> float:
    """Return the seconds that a pixel pair and layer takes, on a few signals."""
    pairs = _TRIED / one.work(1, float(lengths(X).mean()))
    few = take(X, np.arange(min(len(X), int(np.sqrt(2 * pairs)) + 2)))
    signals = one.view.fit(few)(few)
    one.kernel(signals, **options)  # what these signals need is compiled, or loaded
    begin = time.perf_counter()
    one.kernel(signals, **options)
    return (time.perf_counter() - begin) / amount_of_work(one, few, len(few))
