"""The place of a stored Gram: made complete under another name, replaced, deleted, and locked."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import zarr

from ..arrays import Batch
from .folder import DESCRIPTION, fill, refuse_links

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        os.lseek(handle, 1 << 30, os.SEEK_SET)  # others may still read the names in the file
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, a file that names host and process: one job computes at a time.

    The operating system frees the lock of a process that ends. Hosts of a network file system
    may not see each other's locks: a job of another host counts as running.
    """
    path, host = folder / "lock", socket.gethostname()
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, flags, 0o666), "r+") as file:
        if (names := os.fstat(file.fileno()).st_nlink) > 1:
            raise ValueError(f"{path} has {names} names (hard links), expected 1: put a copy there")
        is_free, holder = False, {}
        with suppress(BlockingIOError, PermissionError):
            _lock(file.fileno())
            is_free = True
        with suppress(ValueError, TypeError):  # nobody, or a kill has cut the file
            holder = json.load(file) | {}
        other_host, pid = holder.get("host"), holder.get("pid")
        if not is_free or other_host not in (None, host):
            name = f"process {pid} on {other_host}" if other_host else "another process"
            raise RuntimeError(
                f"{folder} is being computed by {name}; if no such job runs, delete {path}"
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


def create(
    path: Path, description: dict[str, Any], X: Batch, Z: Batch | None, *, overwrite: bool
) -> None:
    """Make the folder of a computation, complete under another name, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new, old = _hidden(path, "new"), None
    if overwrite:
        _check_gram(path)
    try:
        fill(zarr.open_group(new, mode="w", zarr_format=3), description, X, Z)
        old = _set_aside(path) if overwrite else None
        os.rename(new, path)
    except BaseException as error:
        shutil.rmtree(new, ignore_errors=True)
        if old is None:
            raise
        with suppress(OSError):
            if not path.exists():
                os.rename(old, path)
        if old.exists() and isinstance(error, Exception):
            raise RuntimeError(f"{path} was not replaced, and is now {old}: {error}") from error
        raise
    if old is not None:
        shutil.rmtree(old)


def remove(path: str | os.PathLike[str]) -> None:
    """Delete a stored Gram, complete or not; a RuntimeError is raised while a job computes it.

    Parameters
    ----------
    path : path
        As for `open`; the arrays may be damaged. Folders without the description of a stored
        Gram, and Grams with links in them, are refused.

    Examples
    --------
    >>> from rescntk import stored
    >>> stored.remove("K.zarr")  # doctest: +SKIP
    """
    path = Path(path).resolve()
    _check_gram(path)
    shutil.rmtree(_set_aside(path))


def _check_gram(path: Path) -> None:
    """Raise a ValueError if a folder is not a Gram, of any format, or has links in it."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    refuse_links(path)
    described: Any = ()
    with suppress(Exception):  # Zarr raises many kinds of errors for damaged files
        described = zarr.open_group(path, mode="r").attrs[DESCRIPTION].keys()
    if not {"format", "recursion", "network", "X"} <= set(described):
        raise ValueError(f"{path} is not a Gram of rescntk.stored")


def _set_aside(path: Path) -> Path:
    """Return the new name of a Gram: a partly deleted folder must not look like a Gram."""
    old = _hidden(path, "old")
    with locked(path):
        if os.name != "nt":  # Windows renames no folder with an open file
            os.rename(path, old)
    if os.name == "nt":
        os.rename(path, old)
    return old


def warn_of_remains(path: Path) -> None:
    """Warn of folders that interrupted calls have left beside a Gram."""
    names = [str(place) for place in path.parent.glob(f".{path.name}.*.*") if place.is_dir()]
    if names:
        warnings.warn(
            f"{', '.join(names)}: left by a call that was interrupted, or made by one that is "
            f"still running; .old. is a Gram that was being replaced or removed. Delete what you "
            f"do not need",
            stacklevel=3,
        )


def _hidden(path: Path, state: str) -> Path:
    """Return a new name beside a folder, for a Gram in the making or one being deleted."""
    return path.with_name(f".{path.name}.{state}.{uuid4().hex}")
