"""Free memory of this machine, as far as the operating system tells.

The smallest of several limits counts: the machine's memory, the limits of control groups (which
containers and job schedulers set), and the process's own limit of address space.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")
"""Folder that holds proc and sys; a test puts its own there."""

_UNLIMITED = 2**60
"""Bytes from which on a limit counts as none; control groups of version 1 write nearly 2**63."""


def free_bytes() -> int | None:
    """Return the number of bytes that this process can still get, or None if nobody knows.

    Free swap space counts as free memory, and so do the files that the system keeps in memory.
    So the number is rather too large than too small.
    """
    known = [free for free in _limits() if free is not None]
    return max(0, min(known)) if known else None


def _limits() -> Iterator[int | None]:
    """Yield the free bytes within each limit; None for a limit that is unknown or none."""
    table = _table(_ROOT / "proc/meminfo")
    swap = 1024 * table.get("SwapFree", 0)
    if "MemAvailable" in table:
        yield 1024 * table["MemAvailable"] + swap
    else:
        yield _by_psutil() or _by_sysconf()
    for folder, names in _control_groups():
        yield _within(folder, *names, swap)
    yield _address_space()


def _table(path: Path) -> dict[str, int]:
    """Return the first number on each line of a file by the line's first word; {} if unreadable."""
    table = {}
    for line in _text(path).splitlines():
        words = line.replace(":", " ").split()
        if len(words) > 1 and words[1].isdigit():
            table[words[0]] = int(words[1])
    return table


def _text(path: Path) -> str:
    """Return the text of a file, "" if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    """Return the number in a file; None if it holds another word or is not there."""
    text = _text(path).strip()
    return int(text) if text.isdigit() else None


def _by_psutil() -> int | None:
    """Return the available bytes by psutil, None where it is not installed."""
    try:
        import psutil
    except ImportError:
        return None
    try:
        return int(psutil.virtual_memory().available + psutil.swap_memory().free)
    except Exception:  # on an unusual system nothing is known, and nothing refused
        return None


def _by_sysconf() -> int | None:
    """Return the bytes of all memory by the POSIX function sysconf, None where it has no answer."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    return total if total > 0 else None


_VERSION_2 = ("memory.max", "memory.current", ("inactive_file", "active_file"))
_VERSION_1 = (
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_inactive_file", "total_active_file"),
)


def _control_groups() -> Iterator[tuple[Path, tuple[str, str, tuple[str, ...]]]]:
    """Yield the folders of this process's control groups and their ancestors, with file names."""
    for line in _text(_ROOT / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            mount, names = _ROOT / "sys/fs/cgroup", _VERSION_2
        elif "memory" in controllers.split(","):
            mount, names = _ROOT / "sys/fs/cgroup/memory", _VERSION_1
        else:
            continue
        own = mount / path.lstrip("/")
        for folder in (own, *own.parents):
            yield folder, names
            if folder == mount:
                break


def _within(folder: Path, limit: str, usage: str, cached: tuple[str, ...], swap: int) -> int | None:
    """Return the free bytes within one control group, None if it has no limit."""
    most, used = _number(folder / limit), _number(folder / usage)
    if most is None or used is None or most >= _UNLIMITED:
        return None
    stat = _table(folder / "memory.stat")
    return most - used + sum(stat.get(name, 0) for name in cached) + swap


def _address_space() -> int | None:
    """Return the free bytes of the process's address space, None if it has no limit."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    except (ImportError, AttributeError, OSError, ValueError):
        return None
    used = _table(_ROOT / "proc/self/status").get("VmSize")
    if limit == resource.RLIM_INFINITY or used is None:
        return None
    return int(limit) - 1024 * used
