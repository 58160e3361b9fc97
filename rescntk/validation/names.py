"""Checks of flags and of words from the vocabularies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..vocabulary import DTYPES, KINDS


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


def check_kernel(kernel: Any) -> None:
    """Raise a ValueError if `kernel` cannot be called: a `Network`, say."""
    if not callable(kernel):
        raise ValueError(f"kernel is {kernel!r}, expected a rescntk.Kernel or another callable")
