"""The engines: how rows are computed, each in a file of its own.

One table, name → module and reason. An engine has two functions, ``gram`` and ``diagonal``,
that take a `Request` and give a `Scaled`.
"""

from __future__ import annotations

from typing import Any

from ..network import check_choice
from . import reference
from .request import Request, Scaled

__all__ = ["Request", "Scaled", "available", "choose"]


def _always() -> None:
    return None


def _not_yet(what: str) -> Any:
    return lambda: f"not part of this version: {what}"


# name: (module, why it cannot serve here: None or a sentence)
_ENGINES: dict[str, tuple[Any, Any]] = {
    "reference": (reference, _always),
    "numba": (None, _not_yet("the compiled CPU engine is still to be written")),
    "cuda": (None, _not_yet("the fused GPU engine is still to be written")),
}


def available() -> dict[str, bool | str]:
    """Return every engine's name with True, or with the reason why it cannot serve here.

    Examples
    --------
    >>> import rescntk
    >>> rescntk.engines.available()["reference"]
    True
    """
    return {name: why() or True for name, (_, why) in _ENGINES.items()}


def choose(name: str) -> Any:
    """Return the engine of that name; "auto" is the fastest that can serve.

    Raises
    ------
    ValueError
        If there is no engine of that name, or it cannot serve here: with the reason.
    """
    check_choice(name, "engine", ["auto", *_ENGINES])
    if name == "auto":
        return reference
    module, why = _ENGINES[name]
    reason = why()
    if reason:
        serving = [other for other, state in available().items() if state is True]
        raise ValueError(
            f"engine is {name!r}, which cannot serve here: {reason}; "
            f"these can: {', '.join(map(repr, serving))}"
        )
    return module
