"""Checks of the arguments of `rescntk.theory`: depths, pixels, frequencies, points, signals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..validation import (
    check_depth,
    check_flag,
    check_integer,
    check_real,
    check_shape,
    check_signals,
)


def check_cases(X: np.ndarray, least: int, reason: str) -> None:
    """Refuse fewer than `least` signals."""
    if len(X) < least:
        cases = "1 case" if len(X) == 1 else f"{len(X)} cases"
        raise ValueError(f"X has {cases}, expected at least {least}: {reason}")


MULTISPHERE_TOLERANCE = 2e-6
"""Largest | ‖x_j‖²/C0 − 1 | of a pixel that counts as on the multi-sphere: pixels projected in
float32 and given in float64 have errors of a few units of 1.2e-7."""


def multisphere_error(X: np.ndarray) -> float:
    """Return the largest | ‖x_j‖²/C0 − 1 | over the pixels of signals."""
    return float(np.abs((X * X).mean(axis=1) - 1.0).max())


def check_on_multisphere(X: Any, name: str) -> np.ndarray:
    """Return `X` as an array of signals on the multi-sphere, or say by how much it is off."""
    X = check_signals(X, name)
    worst = multisphere_error(X)
    if worst > MULTISPHERE_TOLERANCE:
        raise ValueError(
            f"{name} of shape {X.shape} is not on the multi-sphere: a pixel's squared norm is off "
            f"by {worst:.2g} of n_channels, expected none (multisphere.project makes it so)"
        )
    return X


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


def check_correlations(t: Any) -> np.ndarray:
    """Return `t` as a float64 array of correlations in [-1, 1]."""
    values = check_real(t, "t", "in [-1, 1]")
    if values.size == 0 or not (np.abs(values) <= 1.0).all():
        raise ValueError(f"t is {t!r}, expected correlations in [-1, 1]")
    return values


def check_layers(depth: Any) -> np.ndarray:
    """Return a depth, or an array of depths, as float64 integers of at least 1."""
    layers = check_real(depth, "depth", "that are integers of at least 1")
    if layers.size == 0 or not ((layers >= 1) & (layers == np.floor(layers))).all():
        raise ValueError(f"depth is {depth!r}, expected integers of at least 1")
    return layers


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
