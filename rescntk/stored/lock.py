"""The lock of a stored Gram: one job at a time computes into a folder."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> None:
        os.lseek(handle, 1 << 30, os.SEEK_SET)  # others may still read the names in the file
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, a file that names host and process.

    The operating system frees the lock of a process that ends. Hosts of a network file system
    may not see each other's locks: a job of another host counts as running.

    RuntimeError if another job holds the lock, OSError if the folder cannot be written.
    """
    path, host = folder / "record" / "lock", socket.gethostname()
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+") as file:
        try:
            _take(file.fileno())
            is_free = True
        except (BlockingIOError, PermissionError):
            is_free = False
        other_host, pid = _holder(file)
        if not is_free or other_host not in (None, host):
            raise RuntimeError(
                f"{folder} is being computed by process {pid} on {other_host}; "
                f"if no such job runs, delete {path}"
            )
        _write(file, json.dumps({"host": host, "pid": os.getpid()}))
        try:
            yield
        finally:
            _write(file, "")
            if sys.platform != "win32":
                fcntl.flock(file, fcntl.LOCK_UN)  # children that this process forked hold it, too


def _holder(file: TextIO) -> tuple[Any, Any]:
    """Return host and pid that a lock's file names; None and None if a kill has cut the file."""
    try:
        file.seek(0)
        holder = json.load(file)
        return holder["host"], holder["pid"]
    except (KeyError, TypeError, ValueError):
        return None, None


def _write(file: TextIO, text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()
