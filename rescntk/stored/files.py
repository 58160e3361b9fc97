"""Files of a stored Gram: regular files and folders only, what is on disk, and the lock.

A Gram may come from elsewhere. A link in it could lead a write to a file outside. A named pipe
could make a call wait forever. Both are refused before anything is opened for writing.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

UNREADABLE = OSError, LookupError, AttributeError, TypeError, ValueError, RecursionError
"""Errors of reading a file that is missing, damaged or of another kind."""

_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
"""Flags of all files opened here: a link is not followed, a named pipe is not waited for."""

_NAMES = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFREG: "a file",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}


def check_place(path: str | os.PathLike[str], is_folder: bool) -> None:
    """Raise a ValueError if there is something at `path` other than a regular file, or a folder."""
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    expected = stat.S_IFDIR if is_folder else stat.S_IFREG
    if kind != expected:
        raise ValueError(
            f"{os.fspath(path)} is {_NAMES.get(kind, 'a device')}, expected {_NAMES[expected]}: "
            f"a stored Gram has regular files and folders only"
        )


def walk(root: Path) -> Iterator[tuple[str, bool]]:
    """Yield the path of all files and folders under a folder, and whether it is a folder.

    A ValueError is raised at a link, and at anything else.
    """
    folders = [os.fspath(root)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder:
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):  # or another job has removed it
                    check_place(entry.path, is_folder=False)
                yield entry.path, is_folder


def open_file(path: Path, flags: int) -> int:
    """Open a regular file in a folder of a Gram, and return its handle."""
    check_place(path.parent, is_folder=True)
    check_place(path, is_folder=False)
    handle = os.open(path, flags | _FLAGS, 0o666)
    if flags & (os.O_WRONLY | os.O_RDWR) and (names := os.fstat(handle).st_nlink) > 1:
        os.close(handle)
        raise ValueError(f"{path} has {names} names (hard links), expected 1: put a copy there")
    return handle


def synchronize_all(*paths: Path) -> None:
    """Wait until files, and folders' lists of files, are on disk."""
    for path in paths:
        if path.is_dir() and os.name == "nt":  # Windows cannot open folders
            continue
        handle = os.open(path, _FLAGS | (os.O_RDONLY if path.is_dir() else os.O_RDWR))
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
    """Hold the lock of a folder, a file that names host and process: one job computes at a time.

    The operating system frees the lock of a process that ends. Hosts of a network file system
    may not see each other's locks: a job of another host counts as running.
    """
    path, host = folder / "record" / "lock", socket.gethostname()
    with open(open_file(path, os.O_RDWR | os.O_CREAT), "r+") as file:
        is_free, other_host, pid = False, None, None
        with suppress(BlockingIOError, PermissionError):
            _take(file.fileno())
            is_free = True
        with suppress(*UNREADABLE):  # nobody, or a kill has cut the file
            file.seek(0)
            holder = json.load(file)
            other_host, pid = holder["host"], holder["pid"]
        if not is_free or other_host not in (None, host):
            holder = f"process {pid} on {other_host}" if other_host else "another process"
            raise RuntimeError(
                f"{folder} is being computed by {holder}; if no such job runs, delete {path}"
            )
        if not (path.exists() and os.path.samestat(os.fstat(file.fileno()), os.stat(path))):
            raise RuntimeError(f"{folder} was deleted or replaced by another job")
        file.seek(0)
        file.truncate()
        file.write(json.dumps({"host": host, "pid": os.getpid()}))
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
            if sys.platform != "win32":
                fcntl.flock(file, fcntl.LOCK_UN)  # children that this process forked hold it, too
