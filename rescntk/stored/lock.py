"""The lock of a stored Gram: one job at a time computes into a folder."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_START_SLACK = 5.0
"""Seconds by which two readings of a process's start may differ, when a clock is set.

Raising it takes a new process with a dead job's number for the job. Chosen by reasoning:
numbers are not used again within a few seconds.
"""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, whose file names host and process.

    The lock of a process of this host that has ended is taken over.

    Raises
    ------
    RuntimeError
        If another job holds the lock; the message names it.
    PermissionError, OSError
        If the folder cannot be written.
    """
    path = folder / "record" / "lock"
    _exchange(path, folder, {"host": socket.gethostname(), "pid": os.getpid(), "start": _start()})
    try:
        yield
    finally:
        _exchange(path, folder, None)


def _exchange(path: Path, folder: Path, mine: dict[str, Any] | None) -> None:
    """Write this job into the lock's file, or empty the file if `mine` is None."""
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+") as file:
        if fcntl is not None:  # two jobs at once: one reads after the other has written
            fcntl.flock(file, fcntl.LOCK_EX)
        holder = _read(file.read())
        if mine is not None and holder is not None and _is_alive(holder):
            raise RuntimeError(
                f"{folder} is being computed by process {holder['pid']} on {holder['host']}; "
                f"if no such job runs, delete {path}"
            )
        file.seek(0)
        file.truncate()
        if mine is not None:
            file.write(json.dumps(mine))
        file.flush()


def _read(text: str) -> dict[str, Any] | None:
    """Return the job that a lock's file names, or None; a file cut by a kill names none."""
    try:
        holder = json.loads(text)
        return {"host": holder["host"], "pid": int(holder["pid"]), "start": float(holder["start"])}
    except (ValueError, TypeError, KeyError):
        return None


def _is_alive(holder: dict[str, Any]) -> bool:
    """Return False if the process is known to have ended; of other hosts nothing is known."""
    if holder["host"] != socket.gethostname():
        return True
    try:
        process = psutil.Process(holder["pid"])
        same = abs(process.create_time() - holder["start"]) <= _START_SLACK
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _start() -> float:
    """Return the time at which this process started, in seconds."""
    return float(psutil.Process().create_time())
