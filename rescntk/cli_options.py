"""Options and checks that commands of the command line share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[CommandParser]"


class CommandParser(argparse.ArgumentParser):
    """Takes a command's files and options in any order: ``gram X.npy -o K.npy Z.npy``."""

    _is_inside = False  # Python 3.11 parses mixed orders by parsing twice

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return the options, and the arguments that are none, as argparse does."""
        if self._is_inside:
            return super().parse_known_args(args, namespace)
        self._is_inside = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_inside = False


def add_signals(parser: argparse.ArgumentParser, optional: bool) -> None:
    """Add the file of signals; `optional` where a command has signals of its own."""
    parser.add_argument(
        "signals",
        type=Path,
        nargs="?" if optional else None,
        metavar="SIGNALS",
        help="a .npy, .npz or .ts file of signals (n_cases, n_channels, n_timepoints)",
    )
    parser.add_argument("--array", metavar="NAME", help="which array of a .npz file")


def add_network(parser: argparse.ArgumentParser) -> None:
    """Add the parameters of a network that all commands have."""
    parser.add_argument("--filter-size", type=int, default=3, metavar="Q", help="odd (default: 3)")
    parser.add_argument(
        "--alpha", type=float, default=1.0, help="weight of the residual branch (default: 1)"
    )


def choices(names: Sequence[str], default: str) -> str:
    """Return names with their default, for help: "a, b or c (default: a)"."""
    return f"{', '.join(names[:-1])} or {names[-1]} (default: {default})"


def check_writable(path: Path, name: str, *inputs: Path | None) -> None:
    """Raise a ValueError if a file cannot be written; nothing is left behind.

    Parameters
    ----------
    path : Path
        The file. Folders above it that are missing are made for the test, and removed.
    name : str
        The option's name in messages.
    *inputs : Path or None
        Files of signals, which must not be overwritten.
    """
    made: list[Path] = []
    try:
        check_no_input(path, name, *inputs)
        target = path.resolve()  # a link to a file that is not there stays a link
        for folder in reversed(target.parents):
            if not folder.exists():
                folder.mkdir()
                made.append(folder)
        there = target.exists()
        with target.open("ab"):
            pass
        if not there:
            made.append(target)
    except OSError as error:
        raise ValueError(
            f"{name} is {path}, which cannot be written: {error.strerror or error}"
        ) from None
    finally:
        for new in reversed(made):
            new.rmdir() if new.is_dir() else new.unlink()


def check_no_input(path: Path, name: str, *inputs: Path | None) -> None:
    """Raise a ValueError if a file is one of the files of signals, or a link to one."""
    for signals in inputs:
        if signals is not None and path.exists() and signals.exists() and path.samefile(signals):
            raise ValueError(f"{name} is {path}, the file of signals, expected another file")
