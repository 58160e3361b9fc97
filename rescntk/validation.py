"""Checks of arguments: each returns the argument in the form wanted, or raises a ValueError.

A message names the argument, says what came and what was expected.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from .arrays import Array, ArrayT, array_module, rounding_unit
from .vocabulary import DTYPES, KINDS, PARTS

_MOST_PIXELS = 2**27
"""Most pixels of a receptive field; a larger number allows arrays of more than 1 GiB.

Chosen by reasoning: one float64 array of 2**27 numbers takes 1 GiB.
"""

# ---------------------------------------------------------------- numbers


def check_integer(value: Any, name: str, at_least: int | None = None) -> int:
    """Return `value`, a Python or NumPy integer of at least `at_least`, as an int."""
    expected = "an integer" if at_least is None else f"an integer of at least {at_least}"
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or (at_least is not None and number < at_least):
        raise ValueError(f"{name} is {value!r}, expected {expected}")
    return number


def check_depth(value: Any, name: str = "depth") -> int:
    """Return `value`, an integer of at least 1, as an int."""
    return check_integer(value, name, at_least=1)


def check_depths(depths: Iterable[int]) -> tuple[int, ...]:
    """Return one or more depths, integers of at least 1, as a tuple of ints."""
    try:
        given = tuple(depths)
    except TypeError:
        raise ValueError(f"depths is {depths!r}, expected a sequence of integers") from None
    if not given:
        raise ValueError("depths is empty, expected at least one depth")
    return tuple(check_depth(depth, "depths") for depth in given)


def check_filter_size(value: Any, name: str) -> int:
    """Return `value`, a positive odd integer, as an int."""
    number = check_integer(value, name)
    if number < 1 or number % 2 == 0:
        raise ValueError(f"{name} is {value!r}, expected a positive odd integer")
    return number


def check_length(n_timepoints: Any) -> int:
    """Return the length of a receptive field, an integer from 1 to 2**27, as an int."""
    d = check_depth(n_timepoints, "n_timepoints")
    if d > _MOST_PIXELS:
        raise ValueError(
            f"n_timepoints is {d}, which would take {8 * d / 2**30:.3g} GiB: "
            f"expected at most {_MOST_PIXELS}"
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


def check_frequency(frequency: Any, name: str) -> int:
    """Return a frequency, an integer of at least 0, as an int."""
    return check_integer(frequency, name, at_least=0)


def check_constant(value: Any, name: str) -> float:
    """Return `value`, a finite number of at least 0, as a float."""
    try:
        real = not isinstance(value, str) and getattr(value, "imag", 0) == 0
        number = float(value) if real else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{name} is {value!r}, expected a finite number of at least 0")
    return number


def check_positive(value: Any, name: str) -> float:
    """Return `value`, a finite number above 0, as a float."""
    number = check_constant(value, name)
    if number == 0.0:
        raise ValueError(f"{name} is {value!r}, expected a positive number")
    return number


# ---------------------------------------------------------------- flags and names


def check_flag(value: Any, name: str) -> bool:
    """Return `value`, a Python or NumPy boolean, as a bool."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ValueError(f"{name} is {value!r}, expected True or False")


def check_choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """Return `value`, one of `choices`; the message lists all of them."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(map(repr, choices))}")
    return value


def check_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return one kind of kernel, or several different ones, as a tuple of names."""
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for kind in kinds:
        check_choice(kind, "kinds", KINDS)
    if not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(f"kinds is {kinds!r}, expected one or both of {KINDS}")
    return kinds


def check_dtype(dtype: Any) -> str:
    """Return the name of a working precision, given as a name, a type or a NumPy dtype."""
    try:
        return check_choice(np.dtype(dtype).name, "dtype", DTYPES)
    except (TypeError, ValueError):
        return check_choice(dtype, "dtype", DTYPES)


def check_trained(trained: Iterable[str]) -> tuple[str, ...]:
    """Return the trained parts of a network, in the order of `vocabulary.PARTS`."""
    if isinstance(trained, str):
        trained = (trained,)
    try:
        given = list(trained)
    except TypeError:
        raise ValueError(f"trained is {trained!r}, expected some of {PARTS}") from None
    for part in given:
        check_choice(part, "trained", PARTS)
    return tuple(part for part in PARTS if part in given)


# ---------------------------------------------------------------- networks and kernels


def check_network(network: Any) -> None:
    """Raise a ValueError if `network` is not a `Network`."""
    from .network import Network  # network.py checks its own arguments with this module

    if not isinstance(network, Network):
        raise ValueError(f"network is {network!r}, expected a rescntk.Network")


def check_kernel(kernel: Any) -> None:
    """Raise a ValueError if `kernel` cannot be called: a `Network`, say."""
    if not callable(kernel):
        raise ValueError(f"kernel is {kernel!r}, expected a rescntk.Kernel or another callable")


# ---------------------------------------------------------------- arrays


def check_real(values: Any, name: str, expected: str, finite: bool = True) -> Any:
    """Return `values`, real numbers, as a float64 array.

    Parameters
    ----------
    values : array_like
    name : str
        The argument's name in messages.
    expected : str
        The rest of "expected real numbers …" in messages: "(n, n)" or "of at least 0", say.
    finite : bool, default True
        Whether infinity is refused besides NaN.
    """
    xp = array_module(values)
    try:
        array = xp.asarray(values)
    except ValueError:
        raise ValueError(
            f"{name} is not a rectangular array, expected real numbers {expected}"
        ) from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {array.dtype}, expected real numbers {expected}")
    array = array.astype(np.float64, copy=False)
    good = xp.isfinite(array) if finite else ~xp.isnan(array)
    if not bool(good.all()):
        first = np.unravel_index(int(xp.argmin(good.reshape(-1))), array.shape)
        what = "NaN or infinity" if finite else "NaN"
        where = f" (first at {[int(k) for k in first]})" if array.ndim else ""
        raise ValueError(
            f"{name} of shape {array.shape} contains {what}{where}, "
            f"expected real numbers {expected}"
        )
    return array


def check_nonnegative(values: Any, name: str, shape: str, finite: bool = True) -> np.ndarray:
    """Return `values`, one number or a vector of numbers of at least 0, as a float64 array."""
    expected = f"of at least 0, one or {shape}"
    array = check_real(values, name, expected, finite)
    if array.ndim > 1 or array.size == 0 or (array < 0).any():
        raise ValueError(f"{name} is {values!r}, expected numbers {expected}")
    return array


def check_symmetric(A: Any, name: str) -> np.ndarray:
    """Return `A`, a symmetric matrix, as a float64 array.

    Parameters
    ----------
    A : array_like, (n, n)
        Real, finite, and symmetric up to √eps times its largest entry, with the eps of its
        dtype.
    name : str
        The argument's name in messages.
    """
    given, A = A, check_real(A, name, "(n, n)")
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.size == 0:
        raise ValueError(f"{name} has shape {A.shape}, expected (n, n)")
    if np.abs(A - A.T).max() > np.sqrt(rounding_unit(given)) * np.abs(A).max():
        raise ValueError(f"{name} of shape {A.shape} is not symmetric")
    return A


def check_targets(y: Any, n: int) -> np.ndarray:
    """Return targets `y` of n signals, (n,) or (n, n_targets), as a float64 array."""
    expected = f"({n},) or ({n}, n_targets)"
    y = check_real(y, "y", expected)
    if y.ndim not in (1, 2) or len(y) != n or y.size == 0:
        raise ValueError(f"y has shape {y.shape}, expected {expected}")
    return y


def check_dot_products(t: np.ndarray, complement: bool) -> np.ndarray:
    """Return the complements 1 − t, in [0, 2], of dot products `t`.

    If `complement` is true, `t` holds the complements already.
    """
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


# ---------------------------------------------------------------- signals


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


def check_match(X: Array, Z: Array) -> None:
    """Raise a ValueError if signals X and Z differ in library, channels or length."""
    if array_module(X) is not array_module(Z):
        raise ValueError(
            "X and Z are of different array libraries, expected both NumPy or both CuPy"
        )
    for axis, what in ((1, "channels"), (2, "timepoints")):
        if X.shape[axis] != Z.shape[axis]:
            raise ValueError(
                f"Z has shape {Z.shape}, expected {X.shape[axis]} {what} as in X of shape {X.shape}"
            )


# ------------------------------------------------ ladders of depths, sets of signals, correlations


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
    return ladder


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
