"""The command line ``rescntk``: its options, and errors and warnings as one line each."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from .._version import __version__
from ..theory import depth
from ..validation import DTYPES, HEADS, KINDS
from . import commands

DEFAULT_DEPTHS = (*range(1, 11), 12, 15, 18, 22, 27, 33, 40, 48, 58, 70, 84, 100)
"""Depths of ``rescntk compare``: every depth to 10, then evenly spaced logarithms up to 100.

Twelve depths lie between 10 and 100, each 1.2 times the depth before. The largest depth sets the
time; more depths cost little, because one pass of the recursion gives all of them.
"""

ERRORS = (ValueError, OverflowError, ImportError, OSError, MemoryError, RuntimeError)
"""Errors that are reported as one line; all others are faults of the program."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, or 2 after one line of error."""
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            options.run(options)
    except ERRORS as error:
        message = " ".join(str(error).split()) or type(error).__name__
        print(f"rescntk: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("rescntk: interrupted", file=sys.stderr)
        return 130
    return 0


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line; the place in the code is of no use here."""
    print(f"rescntk: warning: {message}", file=sys.stderr, flush=True)


class _CommandParser(argparse.ArgumentParser):
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rescntk", description="Exact kernels of infinitely wide convolutional ResNets."
    )
    parser.add_argument("--version", action="version", version=f"rescntk {__version__}")
    made = parser.add_subparsers(
        title="commands", required=True, metavar="COMMAND", parser_class=_CommandParser
    )
    _add_compare(
        made.add_parser(
            "compare",
            help="condition numbers of CGPK and ResCGPK across depth",
            description="Condition numbers of CGPK and ResCGPK across depth, with their bounds: a "
            "table on the screen, compare.csv and compare.png.",
        )
    )
    _add_limits(
        made.add_parser(
            "limits",
            help="the limit of a family of kernels at infinite depth, and the rate",
            description="Check whether a family of kernels converges at infinite depth to the "
            "limit that theory predicts, and at the predicted rate: a report on the screen, "
            "limits.csv and limits.png.",
        )
    )
    _add_gram(
        made.add_parser(
            "gram",
            help="the kernel matrix of the signals in a file",
            description="Compute the kernel matrix of the signals in a file, or of the signals in "
            "one file with the signals in another. An output in .zarr is computed block by "
            "block: interrupted or killed, the same command goes on where it was. Parameters and "
            "labels are kept with the matrix: K.npy has them in K.json.",
        )
    )
    made.add_parser(
        "engines", help="the engines that can compute here, and why others cannot"
    ).set_defaults(run=commands.engines)
    return parser


def _add_compare(parser: argparse.ArgumentParser) -> None:
    _add_signals(parser, nargs="?")
    parser.add_argument(
        "--data",
        metavar="NAME",
        help=f"a data set that aeon brings along (default: {commands.DEFAULT_DATA})",
    )
    _add_depths(parser, DEFAULT_DEPTHS, "22 from 1 to 100")
    _add_network(parser)
    _add_name(parser, "head", HEADS, "trace")
    _add_files(parser)
    parser.set_defaults(run=commands.compare)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    _add_signals(parser, nargs="?")
    _add_name(parser, "family", commands.FAMILIES, "resnet")
    parser.add_argument(
        "--gamma",
        type=float,
        help="alpha is depth**-gamma, for resnet (default: 0.75) and huang-resnet (default: 1)",
    )
    parser.add_argument("--alpha", type=float, help="of resnet-fixed (default: 1)")
    parser.add_argument("--filter-size", type=int, metavar="Q", help="odd (default: 3)")
    parser.add_argument(
        "--frozen-readout", action="store_true", help="train all but the last layer, for resnet"
    )
    _add_depths(parser, depth.DEFAULT_DEPTHS, "powers of 2 from 8 to 16384, at least 6")
    _add_name(parser, "kind", KINDS, "ntk")
    _add_name(parser, "head", HEADS, "trace")
    parser.add_argument(
        "--seed", type=int, default=0, help="for the signals drawn without SIGNALS (default: 0)"
    )
    _add_files(parser)
    parser.set_defaults(run=commands.limits)


def _add_gram(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_signals(parser)
    add("others", type=Path, nargs="?", metavar="OTHERS", help="signals of the matrix's columns")
    add("--others-array", metavar="NAME", help="which array of a .npz file")
    where = "where the matrix goes: a name in .npy, .npz or .zarr"
    add("-o", "--output", type=Path, required=True, metavar="K.npy", help=where)
    add("--overwrite", action="store_true", help="replace an output that is there")
    _add_name(parser, "kind", (*KINDS, commands.BOTH), "ntk")
    _add_name(parser, "head", HEADS, "gap")
    add("--depth", type=int, default=5, help="layers (default: 5)")
    _add_network(parser)
    pixels = "pixels that layer 1 sees (default: 1)"
    add("--input-filter-size", type=int, default=1, metavar="Q", help=pixels)
    add("--no-skip", action="store_true", help="without skip connections: CGPK, CNTK")
    add("--normalized", action="store_true", help="with 1 on the diagonal")
    add("--dtype", help=f"{' or '.join(DTYPES)} (default: float64; for .zarr float32)")
    add("--engine", default="auto", help="see `rescntk engines` (default: auto)")
    group = parser.add_argument_group("for outputs in .zarr")
    group.add_argument("--block", type=int, help="rows and columns of a block (default: 1024)")
    group.add_argument("--workers", type=int, metavar="N", help="compute in N processes")
    group.add_argument(
        "--scheduler", metavar="ADDRESS", help="compute on the workers of a dask scheduler"
    )
    parser.set_defaults(run=commands.gram)


def _add_signals(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    """Add the file of signals; `nargs` is "?" where a command has signals of its own."""
    kinds = "a .npy, .npz or .ts file of signals (n_cases, n_channels, n_timepoints)"
    parser.add_argument("signals", type=Path, nargs=nargs, metavar="SIGNALS", help=kinds)
    parser.add_argument("--array", metavar="NAME", help="which array of a .npz file")


def _add_network(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--filter-size", type=int, default=3, metavar="Q", help="odd (default: 3)")
    weight = "weight of the residual branch (default: 1)"
    parser.add_argument("--alpha", type=float, default=1.0, help=weight)


def _add_name(
    parser: argparse.ArgumentParser, option: str, names: Sequence[str], default: str
) -> None:
    """Add an option with the help "a, b or c (default: a)"; the library checks the name."""
    known = f"{', '.join(names[:-1])} or {names[-1]} (default: {default})"
    parser.add_argument(f"--{option}", default=default, help=known)


def _add_depths(parser: argparse.ArgumentParser, default: Sequence[int], shown: str) -> None:
    known = f"depths, separated by commas (default: {shown})"
    parser.add_argument("--depths", type=_depths, default=default, metavar="L[,L…]", help=known)


def _add_files(parser: argparse.ArgumentParser) -> None:
    raw = "take the signals as they are; otherwise each pixel is scaled to one norm"
    parser.add_argument("--raw", action="store_true", help=raw)
    where = "where the files go (default: here)"
    parser.add_argument("--out", type=Path, default=Path(), metavar="FOLDER", help=where)


def _depths(text: str) -> tuple[int, ...]:
    """Return the integers of a text such as "1,2,4"."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of integers separated by commas"
        ) from None
