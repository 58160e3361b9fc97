"""Checks of the parameters of estimators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..validation import check_choice, check_integer, check_positive


def check_effort(value: Any, name: str, choices: tuple[str, ...]) -> str | float:
    """Return an effort: one of the words, or a positive number of seconds as a float."""
    if isinstance(value, str):
        return check_choice(value, name, choices)
    try:
        return check_positive(value, name)
    except (TypeError, ValueError):
        words = ", ".join(map(repr, choices))
        raise ValueError(
            f"{name} is {value!r}, expected one of {words} or a positive number of seconds"
        ) from None


def check_first_differences(value: Any, name: str) -> bool | str:
    """Return True, False or "only"."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str) and value == "only":
        return value
    raise ValueError(f"{name} is {value!r}, expected True, False or 'only'")


def check_landmarks(value: Any, name: str) -> int | str | None:
    """Return a number of landmarks, "all", or None."""
    if value is None or (isinstance(value, str) and value == "all"):
        return value
    if isinstance(value, str):
        raise ValueError(f"{name} is {value!r}, expected None, 'all' or an integer of at least 2")
    return check_integer(value, name, at_least=2)


def check_jobs(value: Any, name: str) -> int | None:
    """Return None, a positive number of threads, or a negative number as of scikit-learn."""
    if value is None:
        return None
    jobs = check_integer(value, name)
    if jobs == 0:
        raise ValueError(f"{name} is 0, expected None, a positive number, or -1 for all cores")
    return jobs


def check_class_weight(value: Any, name: str) -> Mapping[Any, float] | str | None:
    """Return None, "balanced", or a mapping of classes to weights of at least 0."""
    if value is None or isinstance(value, Mapping):
        return value
    return check_choice(value, name, ("balanced",))
