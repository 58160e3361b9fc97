"""Memory: how much is free, and checks that work fits into it before it begins."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .checks.values import check_nonnegative

_ALWAYS_FREE = 2**24
"""Bytes that count as free without asking the system; importing NumPy takes more."""


def check_memory(needed: int, max_memory: object, what: str) -> None:
    """Raise a ValueError if `what` takes more than the caller's `max_memory`, in bytes."""
    limit = check_nonnegative(max_memory, "max_memory")
    if needed > limit:
        raise ValueError(
            f"{what} takes {_amount(needed)}, expected at most max_memory, which is "
            f"{_amount(limit)}"
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


_CGROUP = Path("/sys/fs/cgroup")
"""Where a container finds its limits (cgroup 2)."""


def free_bytes() -> float:
    """Return the free memory of this machine or container in bytes, infinity if unknown."""
    free = math.inf
    with suppress(OSError, IndexError):  # not Linux
        available_kilobytes = Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]
        free = 1024.0 * int(available_kilobytes)
    return min(free, _free_in_container())


def _free_in_container() -> float:
    """Return the bytes that a container's limit leaves, infinity without a limit.

    Pages of files that were not read lately count as used, and are given back when needed.
    """
    with suppress(OSError, ValueError):  # no such files, or the word "max"
        limit, used = (
            int((_CGROUP / name).read_text()) for name in ("memory.max", "memory.current")
        )
        numbers = (_CGROUP / "memory.stat").read_text().split()
        reclaimable = int(dict(zip(numbers[::2], numbers[1::2], strict=True))["inactive_file"])
        return max(0.0, float(limit - used + reclaimable))
    return math.inf
