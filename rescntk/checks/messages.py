"""How messages show values, and which line of code a warning names."""

from __future__ import annotations

import reprlib
import sys
import warnings

_MOST_CHARACTERS = 160
"""The largest number of characters of a value in a message."""

_BETWEEN = ("rescntk", "sklearn", "aeon", "joblib", "pickle")
"""Packages whose lines a warning does not name, because the user did not write them."""

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _MOST_CHARACTERS
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxset = _REPR.maxfrozenset = 8


class SignalsWarning(UserWarning):
    """Signals or labels look like something else, such as signals with their axes exchanged."""


class LeftOutWarning(UserWarning):
    """Predictions of training signals, each left out, are no better than one answer for all."""


def shown(value: object) -> str:
    """Return a value as messages show it, on one line. The middle of a long text is left out."""
    text = " ".join(_REPR.repr(value).split())
    if len(text) <= _MOST_CHARACTERS:
        return text
    half = _MOST_CHARACTERS // 2 - 1
    return f"{text[:half]}...{text[-half + 1 :]}"


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and name the nearest line outside the packages `_BETWEEN` in the stack."""
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
