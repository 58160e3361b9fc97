"""Checks of memory: a call that cannot fit is refused before any work, with the figures."""

from __future__ import annotations

from typing import Any

from ..free_memory import free_bytes
from .numbers import check_constant

_ALWAYS_FREE = 2**24
"""Bytes that count as free without asking the system: less than importing NumPy takes.

Raising it saves small calls the 0.4 ms that asking takes (EPYC with 2 cores, quiet), but may let
a larger call fail without a sentence.
"""


def check_memory(needed: int, max_memory: Any, what: str) -> None:
    """Raise a ValueError if `what` takes more than the caller's `max_memory`, in bytes."""
    limit = check_constant(max_memory, "max_memory")
    if needed > limit:
        raise ValueError(
            f"{what} takes {_amount(needed)}, expected max_memory, {_amount(limit)}, at most"
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
    free = free_bytes() if needed > _ALWAYS_FREE else None
    if free is not None and needed > free:
        raise MemoryError(
            f"{what} takes at least {_amount(needed)} of memory, and {_amount(free)} are free: "
            f"{remedy}"
        )


def _amount(n_bytes: float) -> str:
    """Return bytes in GB, or in MB below 0.05 GB."""
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 5e7 else f"{n_bytes / 1e6:.3g} MB"
