"""Checks of single numbers: integers and finite constants."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any


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


def check_frequency(frequency: Any, name: str) -> int:
    """Return a frequency, an integer of at least 0, as an int."""
    return check_integer(frequency, name, at_least=0)


def check_constant(value: Any, name: str) -> float:
    """Return `value`, a finite number of at least 0, as a float."""
    try:
        real = not isinstance(value, str) and getattr(value, "imag", 0) == 0
        number = float(value) if real else math.nan
    except (TypeError, ValueError, OverflowError):
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
