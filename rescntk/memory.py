"""Memory: how much is free, and checks that work fits into it before it begins."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .validation import check_nonnegative

_ALWAYS_FREE = 2**24
"""Bytes that count as free without asking the system; importing NumPy takes more."""


def check_memory(needed: int, max_memory: object, what: str) -> None:
    """Raise a ValueError if `what` takes more than the caller's `max_memory`, in bytes."""
    limit = check_nonnegative(max_memory, "max_memory")
    if needed > limit:
        raise ValueError(
            f"{what} takes {_amount(needed)}, expected max_memory, {_amount(limit)}, at most"
        )


def is_always_free(n_bytes: float) -> bool:
    """Return whether so few bytes count as free without asking the system."""
    return n_bytes <= _ALWAYS_FREE


def check_free_memory(
    needed: float, what: str, remedy: str, room: Callable[[], float] | None = None
) -> None:
    """Raise a MemoryError if `what` takes more than the free memory: `needed` bytes at least.

    `what` is the subject of the message, `remedy` its end: what to change. `room` returns the free
    bytes of another device.
    """
    if not is_always_free(needed) and needed > (free := (room or free_bytes)()):
        raise MemoryError(
            f"{what} takes at least {_amount(needed)} of memory, and {_amount(free)} are free: "
            f"{remedy}"
        )


def _amount(n_bytes: float) -> str:
    """Return bytes in GB, or in MB below 0.05 GB."""
    return f"{n_bytes / 1e9:,.1f} GB" if n_bytes >= 5e7 else f"{n_bytes / 1e6:.3g} MB"


def free_bytes() -> float:
    """Return the free memory of this machine in bytes, infinity where it is unknown."""
    with suppress(OSError, IndexError):  # not Linux
        return 1024.0 * int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0])
    return math.inf
