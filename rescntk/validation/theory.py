"""Checks of the arguments of `rescntk.theory`: depths, pixels, frequencies, samples."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from .numbers import check_depth, check_depths, check_frequency, check_integer

MOST_LAYERS = 10**8
"""Most layers of a ladder of depths; a larger number allows longer computations.

One layer takes 50 µs of processor time for the six signals that `theory.depth.check` draws (AMD
EPYC, depths 16,384 and 200,000): 10**8 layers take an hour and a half.
"""


def check_ladder(depths: Iterable[int], least: int, ratio: float) -> tuple[int, ...]:
    """Return `least` depths or more, each at least `ratio` times the previous depth."""
    ladder = check_depths(depths)
    if len(ladder) < least:
        raise ValueError(
            f"depths is {ladder!r}, expected at least {least}: an exponent needs slopes, "
            f"and its uncertainty how they change"
        )
    for low, high in pairwise(ladder):
        if high < ratio * low:
            raise ValueError(
                f"depths has {low} and then {high}, expected each at least {ratio:g} times as much"
            )
    if ladder[-1] > MOST_LAYERS:
        raise ValueError(f"depths has {ladder[-1]}, expected at most {MOST_LAYERS} layers")
    return ladder


MOST_PIXELS = 2**27
"""Most pixels of a receptive field; a larger number allows arrays of more than 1 GiB.

Chosen by reasoning: one float64 array of 2**27 numbers takes 1 GiB.
"""


def check_length(n_timepoints: Any) -> int:
    """Return the length of a receptive field, an integer from 1 to `MOST_PIXELS`, as an int."""
    d = check_depth(n_timepoints, "n_timepoints")
    if d > MOST_PIXELS:
        raise ValueError(
            f"n_timepoints is {d}, which would take {8 * d / 2**30:.3g} GiB: "
            f"expected at most {MOST_PIXELS}"
        )
    return d


MOST_AXES = 32
"""Most pixels of a tensor grid: NumPy's arrays have at most 32 axes before version 2."""


def check_pixels(n_timepoints: Any) -> int:
    """Return the pixels of a tensor grid, an integer from 1 to `MOST_AXES`, as an int."""
    d = check_depth(n_timepoints, "n_timepoints")
    if d > MOST_AXES:
        raise ValueError(
            f"n_timepoints is {d}, expected at most {MOST_AXES}, an array's axes (an output "
            f"depends on its receptive field alone: a ring just longer serves as well)"
        )
    return d


def check_channels(n_channels: Any) -> int:
    """Return the number of channels on the multi-sphere, an integer of at least 2, as an int."""
    number = check_integer(n_channels, "n_channels")
    if number < 2:
        raise ValueError(
            f"n_channels is {n_channels!r}, expected at least 2: on the multi-sphere a pixel of "
            f"one channel is a sign, and has no frequencies beyond 1"
        )
    return number


def check_frequencies(max_frequency: Any, d: int) -> tuple[int, ...]:
    """Return the highest frequency of each of `d` pixels, given one integer or `d`."""
    name = "max_frequency"
    try:
        given = tuple(max_frequency)
    except TypeError:
        given = (max_frequency,) * d
    if len(given) != d:
        raise ValueError(
            f"{name} is {max_frequency!r}, expected an integer or one for each of {d} pixels"
        )
    return tuple(check_frequency(k, name) for k in given)


def check_pixel_set(pixels: Any, given: Any, d: int) -> frozenset[int]:
    """Return one set of pixels of a ring of `d`; an error names `given`."""
    try:
        chosen = frozenset(check_integer(pixel, "pixels") % d for pixel in pixels)
    except TypeError:
        raise ValueError(f"pixels is {given!r}, expected sets of integers") from None
    if not chosen:
        raise ValueError(f"pixels is {given!r}, expected at least one pixel")
    return chosen


def check_pixel_sets(
    pixels: Any, field: frozenset[int], shifts: Iterable[int], d: int
) -> list[frozenset[int]]:
    """Return sets of pixels, each in the receptive field `field` after one of the `shifts`."""
    try:
        given = list(pixels)
    except TypeError:
        raise ValueError(f"pixels is {pixels!r}, expected sets of integers") from None
    sets = [check_pixel_set(some, pixels, d) for some in given]
    shifts = tuple(shifts)
    for chosen in sets:
        if not any({(p + shift) % d for p in chosen} <= field for shift in shifts):
            raise ValueError(
                f"pixels has {sorted(chosen)}, expected some of the receptive field's, "
                f"{sorted(field)}: the kernel does not depend on others"
            )
    if not sets:
        raise ValueError("pixels is empty, expected at least one set of pixels")
    return sets


def check_cutoff(cutoff: Any, limit: int, n_samples: int) -> np.ndarray:
    """Return cut-off frequencies as an array of integers from 0 to `limit`."""
    last = np.asarray(cutoff)
    if last.dtype.kind not in "iu" or last.size == 0 or last.min() < 0 or last.max() > limit:
        raise ValueError(
            f"cutoff is {cutoff!r}, expected integers from 0 to {limit} for values of "
            f"{n_samples} samples"
        )
    return last


def check_fit_range(first: Any, last: Any, values: Any) -> tuple[int, int]:
    """Return the first and last frequency of a fit to the spectrum of one function's samples."""
    first, last = check_depth(first, "first"), check_integer(last, "last")
    if np.ndim(values) != 1 or not first < last <= len(values) // 2:
        raise ValueError(
            f"first and last are {first} and {last}, expected first < last below half the samples "
            f"of one function; values has shape {np.shape(values)}"
        )
    return first, last
