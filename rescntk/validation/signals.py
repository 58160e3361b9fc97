"""Checks of signals (n_cases, n_channels, n_timepoints), and of signals on the multi-sphere."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import ArrayT, array_module
from ..signals import SignalList, channels_and_length, library
from .arrays import check_real, check_unmasked


def check_signals(X: ArrayT, name: str) -> ArrayT:
    """Return signals `X`, real and finite, as a float64 array.

    Parameters
    ----------
    X : array
        Signals (n_cases, n_channels, n_timepoints).
    name : str
        The argument's name in messages.
    """
    expected = "(n_cases, n_channels, n_timepoints)"
    array = check_real(X, name, expected)
    if array.ndim != 3:
        remedy = f"; for signals of one channel {name}[:, None]" if array.ndim == 2 else ""
        raise ValueError(f"{name} has shape {array.shape}, expected {expected}{remedy}")
    if 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape} with an empty axis, expected {expected}")
    return array


def check_batch(X: Any, name: str) -> Any:
    """Return a batch of signals, real and finite, as a float64 array or as a `SignalList`.

    Parameters
    ----------
    X : array (n_cases, n_channels, n_timepoints), or list or tuple of arrays
        A list has signals (n_channels, n_timepoints_i). Signals of equal length become an array.
    name : str
        The argument's name in messages.
    """
    if isinstance(X, SignalList):
        signals = list(X)
    elif isinstance(X, (list, tuple)) and (not X or any(hasattr(x, "ndim") for x in X)):
        signals = _check_list(X, name)
    else:
        return check_signals(X, name)
    if len({signal.shape[1] for signal in signals}) > 1:
        return SignalList(signals)
    return array_module(signals[0]).stack(signals)


def _check_list(X: Any, name: str) -> list[Any]:
    """Return the signals of a list as float64 arrays (n_channels, n_timepoints_i)."""
    expected = "(n_channels, n_timepoints)"
    if not X:
        raise ValueError(f"{name} is empty, expected at least one signal {expected}")
    check_unmasked(X, name, expected)
    signals: list[Any] = []
    for k, x in enumerate(X):
        signal = check_real(x, f"{name}[{k}]", expected)
        if signal.ndim != 2 or 0 in signal.shape:
            remedy = f"; a signal of one channel is {name}[{k}][None]" if signal.ndim == 1 else ""
            raise ValueError(f"{name}[{k}] has shape {signal.shape}, expected {expected}{remedy}")
        first = signals[0] if signals else signal
        if len(signal) != len(first):
            raise ValueError(
                f"{name}[{k}] has {len(signal)} channels, expected {len(first)} as in {name}[0]"
            )
        if array_module(signal) is not array_module(first):
            raise ValueError(
                f"{name}[{k}] and {name}[0] are of different array libraries, expected all NumPy "
                f"or all CuPy"
            )
        signals.append(signal)
    return signals


def check_batches(X: Any, Z: Any, head: str) -> tuple[Any, Any]:
    """Return checked batches X and Z, which match; both are lists if they differ in length.

    Parameters
    ----------
    X, Z : batches as `check_batch` takes them
        Z may be None, or the same object as X: None is then returned for Z.
    head : str
        The head that the signals are for, or "pixels". "gap" alone takes different lengths.
    """
    lists = any(isinstance(batch, (list, tuple, SignalList)) for batch in (X, Z))
    one, other = check_batch(X, "X"), None if Z is None or Z is X else check_batch(Z, "Z")
    check_one_length(one, "X", head)
    if other is None:
        return one, None
    check_one_length(other, "Z", head)
    check_match(one, other, lists and head == "gap")
    arrays = not any(isinstance(batch, SignalList) for batch in (one, other))
    if arrays and channels_and_length(one) == channels_and_length(other):
        return one, other
    return SignalList.of(one), SignalList.of(other)


def check_array(X: Any, name: str, reason: str) -> np.ndarray:
    """Return an array of signals unchanged, or refuse a list of signals of different lengths."""
    if isinstance(X, (list, SignalList)):
        lengths = [signal.shape[1] for signal in X]
        raise ValueError(
            f"{name} has signals of {min(lengths)} to {max(lengths)} timepoints, expected signals "
            f"of one length: {reason}"
        )
    array: np.ndarray = X
    return array


def check_match(X: Any, Z: Any, lists: bool = False, names: tuple[str, str] = ("X", "Z")) -> None:
    """Raise a ValueError if batches X and Z differ in library, channels or length.

    Lengths may differ if `lists` is true: if X or Z came as a list. Messages call the batches by
    `names`.
    """
    one, two = names
    if library(X) is not library(Z):
        raise ValueError(
            f"{one} and {two} are of different array libraries, expected both NumPy or both CuPy"
        )
    pairs = zip(channels_and_length(X), channels_and_length(Z), strict=True)
    for axis, (own, other) in enumerate(pairs):
        what = ("channels", "timepoints")[axis]
        if own != other and not (lists and axis):
            remedy = f"; head 'gap' takes other lengths in lists, list({two})" if axis else ""
            raise ValueError(
                f"{two} has {batch_shape(Z)}, expected {own} {what} as in {one} of "
                f"{batch_shape(X)}{remedy}"
            )


def batch_shape(X: Any) -> str:
    """Return the shape of a batch, or the channels and lengths of a list, for messages."""
    if isinstance(X, SignalList):
        return f"signals of {X.n_channels} channels and {X.lengths.min()} to {X.longest} timepoints"
    return f"shape {X.shape}"


def check_one_length(X: Any, name: str, head: str) -> None:
    """Raise a ValueError if signals of different lengths meet another head than "gap"."""
    if isinstance(X, SignalList) and head != "gap":
        kernel = "pixel_pairs takes" if head == "pixels" else f"head is {head!r}, which takes"
        raise ValueError(
            f"{kernel} signals of one length, and {name} has {batch_shape(X)}: expected one "
            f"length, or head 'gap', the mean over all pixel pairs"
        )


def check_cases(X: np.ndarray, least: int, reason: str) -> None:
    """Refuse fewer than `least` signals."""
    n = len(X)
    if n < least:
        raise ValueError(
            f"X has {n} case{'s' if n > 1 else ''}, expected at least {least}: {reason}"
        )


def check_distinct(X: np.ndarray, reason: str) -> None:
    """Refuse signals that are there twice."""
    for i in range(len(X)):
        same = np.flatnonzero((X[i + 1 :] == X[i]).all(axis=(1, 2)))
        if len(same):
            raise ValueError(
                f"X has the same signal as cases {i} and {i + 1 + same[0]}, expected different "
                f"ones: {reason}"
            )


MULTISPHERE_TOLERANCE = 2e-6
"""Largest | ‖x_j‖²/C0 − 1 | of a pixel that counts as on the multi-sphere.

Relative, of the squared norm. Raising it admits signals whose kernels theorem 4.1 misses by as
large a relative error. Chosen by rounding: pixels projected in float32 and given in float64
have errors of a few units of 1.2e-7."""


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
