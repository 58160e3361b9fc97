"""Checks of the arguments of `rescntk.theory`: depths, pixels, frequencies, points, signals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..validation import check_depth, check_flag, check_integer, check_shape


def check_cases(X: np.ndarray, least: int, reason: str) -> None:
    """Refuse fewer than `least` signals."""
    if len(X) < least:
        cases = "1 case" if len(X) == 1 else f"{len(X)} cases"
        raise ValueError(f"X has {cases}, expected at least {least}: {reason}")


def check_vector(values: Any, name: str) -> np.ndarray:
    """Return `values` as a vector of real numbers."""
    return check_shape(values, name, "(n,)", lambda shape: len(shape) == 1)


def check_dot_products(t: np.ndarray, complement: bool) -> np.ndarray:
    """Return 1 − t, in [0, 2], of dot products `t`, which hold 1 − t if `complement` is true."""
    complement = check_flag(complement, "complement")
    low, high = (0.0, 2.0) if complement else (-1.0, 1.0)
    slack = 8 * np.finfo(np.float64).eps  # a dot product of unit vectors is rounded
    if not bool(((t >= low - slack) & (t <= high + slack)).all()):
        raise ValueError(
            f"t has values from {t.min()} to {t.max()}, "
            f"expected {'complements of ' if complement else ''}dot products in [{low}, {high}]"
        )
    t = np.clip(t, low, high)
    return t if complement else 1.0 - t


def check_samples(values: Any) -> np.ndarray:
    """Return samples of functions on the circle, two or more each, as an array (..., n_samples)."""
    return check_shape(values, "values", "(..., n_samples)", lambda s: len(s) > 0 and s[-1] > 1)


def check_points(angles: Any, targets: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the angles of points on the circle and the values there, two vectors of one length."""
    angles, targets = check_vector(angles, "angles"), check_vector(targets, "targets")
    if angles.shape != targets.shape:
        raise ValueError(f"targets has shape {targets.shape}, expected {angles.shape}")
    return angles, targets


MOST_PIXELS = 2**27
"""Most pixels of a receptive field: one float64 array takes 1 GiB."""


def check_length(n_timepoints: Any) -> int:
    """Return the length of a receptive field, from 1 to `MOST_PIXELS`, as an int."""
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
    try:
        given = tuple(max_frequency)
    except TypeError:
        given = (max_frequency,) * d
    if len(given) != d:
        raise ValueError(
            f"max_frequency is {max_frequency!r}, expected an integer or one for each of {d} pixels"
        )
    return tuple(check_integer(k, "max_frequency", at_least=0) for k in given)


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
    if not given:
        raise ValueError("pixels is empty, expected at least one set of pixels")
    sets, shifts = [check_pixel_set(some, pixels, d) for some in given], tuple(shifts)
    for chosen in sets:
        if not any({(p + shift) % d for p in chosen} <= field for shift in shifts):
            raise ValueError(
                f"pixels has {sorted(chosen)}, expected some of the receptive field's, "
                f"{sorted(field)}: the kernel does not depend on others"
            )
    return sets
