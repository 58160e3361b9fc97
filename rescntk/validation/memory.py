"""Checks of memory: a call that cannot fit is refused before any work, with the figures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def free_bytes() -> int | None:
    """Return the bytes that this process can still get, or None where the system does not tell.

    The smallest limit counts: the machine, the process's address space, and its control groups,
    which containers and job schedulers set. Free swap space and cached files count as free. So
    the number is rather too large than too small.
    """
    limits = [*_limits_of_groups(), *_limits_of_machine()]
    return max(0, min(limits)) if limits else None


def _limits_of_machine() -> Iterator[int]:
    """Yield the free bytes of the machine and of the address space; all memory without psutil."""
    try:
        import psutil
    except ImportError:
        if hasattr(os, "sysconf"):
            yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return
    yield psutil.virtual_memory().available + psutil.swap_memory().free
    if hasattr(psutil, "RLIMIT_AS"):
        process = psutil.Process()
        most = process.rlimit(psutil.RLIMIT_AS)[0]
        if most != psutil.RLIM_INFINITY:
            yield most - process.memory_info().vms


_GROUPS = {
    "": ("sys/fs/cgroup", "memory.max", "anon"),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "total_rss"),
}
"""Folder, file of the limit, and count of used memory: control groups of version 2 and 1.

The count leaves out cached files, which the system drops when memory is needed.
"""


def _limits_of_groups(root: Path = Path("/")) -> Iterator[int]:
    """Yield the free bytes of this process's control group, and of the groups around it."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if controllers not in _GROUPS:
            continue
        folder, limit, used = _GROUPS[controllers]
        group = root / folder / path.lstrip("/")
        for place in (group, *group.parents):
            try:
                most = int((place / limit).read_text())
                counts = dict(line.split() for line in (place / "memory.stat").open())
                yield most - int(counts[used])
            except (OSError, ValueError, KeyError):  # no such file, or no limit: "max"
                continue
