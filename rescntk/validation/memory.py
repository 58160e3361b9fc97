"""Checks of memory: a call that cannot fit is refused before any work, with the figures."""

from __future__ import annotations

from typing import Any

from ..free_memory import free_bytes
from .numbers import check_constant


def check_memory(needed: int, max_memory: Any, what: str) -> None:
    """Raise a ValueError if `what` takes more than the caller's `max_memory`, in bytes."""
    limit = check_constant(max_memory, "max_memory")
    if needed > limit:
        raise ValueError(
            f"{what} takes {needed / 1e9:,.1f} GB, expected max_memory, {limit / 1e9:,.1f} GB, "
            f"at most"
        )


def check_free_memory(needed: int, what: str, remedy: str) -> None:
    """Raise a MemoryError if `needed` bytes are more than the free memory of this machine.

    Parameters
    ----------
    needed : int
        Bytes that the work takes at least.
    what : str
        What takes the memory, as the subject of the sentence.
    remedy : str
        What to change, the end of the message.
    """
    free = free_bytes()
    if free is not None and needed > free:
        raise MemoryError(
            f"{what} takes at least {needed / 1e9:,.1f} GB of memory, and {free / 1e9:,.1f} GB "
            f"are free: {remedy}"
        )
