"""Write files safely: checked before long work, complete before they take their name."""

from __future__ import annotations

import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ..progress import has_terminal


def check_writable(path: Path, name: str, *inputs: Path | None) -> None:
    """Raise a ValueError if a file cannot be written, or is one of the command's inputs."""
    try:
        for given in inputs:
            if given and path.exists() and given.exists() and path.samefile(given):
                raise ValueError(f"{name} is {path}, an input, expected another file")
        target = path.resolve()  # a link to a file that is not there stays a link
        if target.exists() and not (target.is_file() or target.is_dir()):  # not /dev/null, as root
            raise ValueError(f"{name} is {path}, a pipe or a device, expected a file")
        if target.exists():
            target.open("ab").close()
        else:
            folder = next(folder for folder in target.parents if folder.exists())
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ValueError(
            f"{name} is {path}, which cannot be written: {error.strerror or error}"
        ) from None


def check_output(path: Path, suffix: str, overwrite: bool, *inputs: Path | None) -> None:
    """Raise a ValueError as `check_writable`, for a wrong suffix or folder, or if a file must stay.

    Without `overwrite`, a user at a terminal is asked.
    """
    if path.suffix != suffix:
        raise ValueError(f"output is {path}, expected a name that ends in {suffix}")
    if not path.parent.is_dir():
        raise ValueError(f"output is {path}, expected a folder that is there")
    check_writable(path, "output", *inputs)
    if path.exists() and not overwrite:
        answer = ""
        if has_terminal() and sys.stdin is not None and sys.stdin.isatty():
            print(f"{path} exists: replace it? [y/N] ", end="", file=sys.stderr, flush=True)
            answer = sys.stdin.readline().strip().lower()
        if answer not in ("y", "yes"):
            raise ValueError(
                f"output is {path}, which exists, expected a new name: --overwrite replaces it"
            )


class _NotWritten(OSError):
    """An error that names the file which cannot be written."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the name `path` once it is complete."""
    path = path.resolve()  # a link stays a link
    # No other process has the name, though two containers have the same process ids. "x" creates
    # the file, and follows no link that stands there. The name is no longer than it may be.
    part, is_mine = path.with_name(f".{secrets.token_hex(8)}{path.suffix}"), False
    try:
        with part.open("xb") as file:
            is_mine = True
            yield file
        part.replace(path)
    except BaseException as error:
        if is_mine:
            part.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, _NotWritten):
            raise _NotWritten(f"{path} cannot be written: {error.strerror or error}") from None
        raise
