"""Parsers of the command line's arguments."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from .progress import say, show


class Parser(argparse.ArgumentParser):
    """Prints as all commands do; argparse ignores a full disk, and fails where help has "…"."""

    def _print_message(self, message: str, file: Any = None) -> None:
        (show if file is sys.stdout else say)(message.removesuffix("\n"))


class CommandParser(Parser):
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
