"""Make, replace and delete the folder of a stored Gram: at any time it is complete or absent."""

from __future__ import annotations

import os
import re
import shutil
import warnings
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import zarr

from ..arrays import Batch
from ..kernels.description import sealed
from .files import UNREADABLE, locked, synchronize_all, walk
from .folder import DESCRIPTION, LAYOUT, Folder, layout, read_attributes, store_signals


def create(
    path: Path, description: dict[str, Any], X: Batch, Z: Batch | None, *, overwrite: bool
) -> os.stat_result:
    """Make the folder of a computation, complete under another name, then renamed.

    Its status is returned, by which a job recognizes the folder that it has made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new, old = _hidden(path, "new"), _hidden(path, "old")
    if overwrite:
        _check_gram(path)
    try:
        group = zarr.open_group(new, mode="w", zarr_format=3)
        for name, signals in (("X", X), ("Z", Z)):
            if signals is not None:
                store_signals(group, name, signals)
        shape, chunks = layout(description)
        options = LAYOUT | {"shape": shape, "chunks": chunks, "dtype": description["dtype"]}
        for kind in description["kinds"]:
            group.create_array(kind, **options)
        group.create_group("record")
        (new / "record" / "blocks.txt").touch()
        group.attrs[DESCRIPTION] = sealed(description)
        synchronize_all(new, *new.rglob("*"))
        made = new.stat()
        if overwrite:
            _set_aside(path, old)
        os.rename(new, path)
    except BaseException as error:
        shutil.rmtree(new, ignore_errors=True)
        with suppress(OSError):
            if not path.exists():
                old.rename(path)
        if old.exists() and isinstance(error, Exception):
            raise RuntimeError(f"{path} was not replaced, and is now {old}: {error}") from error
        raise
    synchronize_all(path.parent)
    if overwrite:
        shutil.rmtree(old)
    return made


def remove(path: str | os.PathLike[str]) -> None:
    """Delete a stored Gram, complete or not; a RuntimeError is raised while a job computes it.

    Parameters
    ----------
    path : path
        As for `open`, and damaged records do not matter. Folders without the description of a
        stored Gram, and Grams with links in them, are refused.

    Examples
    --------
    >>> from rescntk import stored
    >>> stored.remove("K.zarr")  # doctest: +SKIP
    """
    path = Path(path).resolve()
    _check_gram(path)
    old = _hidden(path, "old")
    _set_aside(path, old)
    shutil.rmtree(old)


def _check_gram(path: Path) -> None:
    """Raise a ValueError if a folder is not a Gram, of any format, or has links in it."""
    described: Any = ()
    with suppress(*UNREADABLE):
        described = read_attributes(path)[DESCRIPTION].keys()
    if not {"format", "recursion", "network", "X"} <= set(described):
        Folder(path)  # raises with the reason
    for _ in walk(path):
        pass


def _set_aside(path: Path, old: Path) -> None:
    """Give a Gram another name: a partly deleted folder must not look like a Gram."""
    is_locked = os.path.lexists(path / "record" / "lock")  # else no job holds it
    with locked(path) if is_locked else nullcontext():
        if os.name != "nt":  # Windows renames no folder with an open file
            path.rename(old)
    if os.name == "nt":
        path.rename(old)


def warn_of_remains(path: Path) -> None:
    """Warn of folders that interrupted calls have left beside a Gram."""
    name = re.compile(re.escape(f".{path.name}.") + r"((new|old)\.)?[0-9a-f]{32}")
    found = [place for place in path.parent.glob(".*") if name.fullmatch(place.name)]
    if found:
        warnings.warn(
            f"{', '.join(map(str, found))}: left by a call that was interrupted, or made by one "
            f"that is still running; .old. is a Gram that was being replaced or removed. Delete "
            f"what you do not need",
            stacklevel=3,
        )


def _hidden(path: Path, state: str) -> Path:
    """Return a new name beside a folder, for a Gram in the making or one being deleted."""
    return path.with_name(f".{path.name}.{state}.{uuid4().hex}")
