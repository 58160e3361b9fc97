"""The command line ``rescntk``: it reads options, calls the library and writes files."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from . import cli_gram, datasets, engines, plots
from ._version import __version__
from .cli_options import CommandParser, Commands, add_network, add_signals, check_writable, choices
from .theory import conditioning, depth, families, multisphere
from .validation import check_array, check_choice
from .vocabulary import HEADS, KINDS

DEFAULT_DEPTHS = (*range(1, 11), 12, 15, 18, 22, 27, 33, 40, 48, 58, 70, 84, 100)
"""Depths of ``rescntk compare``: every depth to 10, then evenly spaced logarithms up to 100.

Twelve depths lie between 10 and 100, each 1.2 times the depth before. The largest depth sets the
time; more depths cost little, because one pass of the recursion gives all of them.
"""

DEFAULT_DATA = "JapaneseVowels"
"""Data set of ``rescntk compare``: 270 training signals, 12 channels, 25 time steps."""

FAMILIES = ("resnet", "resnet-fixed", "cnn", "huang-resnet", "huang-ffnet")
"""Families of ``rescntk limits``, named as the functions of `rescntk.theory.families`."""

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
        print(f"rescntk: {_one_line(error)}", file=sys.stderr)
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


def _one_line(error: Exception) -> str:
    """Return the message of an error on one line; the name of the error if there is none."""
    return " ".join(str(error).split()) or type(error).__name__


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rescntk",
        description="Exact kernels of infinitely wide convolutional ResNets.",
    )
    parser.add_argument("--version", action="version", version=f"rescntk {__version__}")
    commands = parser.add_subparsers(
        title="commands", required=True, metavar="COMMAND", parser_class=CommandParser
    )
    _add_compare(commands)
    _add_limits(commands)
    cli_gram.add(commands)
    listing = commands.add_parser(
        "engines", help="the engines that can compute here, and why others cannot"
    )
    listing.set_defaults(run=_engines)
    return parser


def _add_compare(commands: Commands) -> None:
    compare = commands.add_parser(
        "compare",
        help="condition numbers of CGPK and ResCGPK across depth",
        description="Condition numbers of CGPK and ResCGPK across depth, with their bounds: a "
        "table on the screen, compare.csv and compare.png.",
    )
    add_signals(compare, optional=True)
    compare.add_argument(
        "--data",
        metavar="NAME",
        help=f"a data set that aeon brings along (default: {DEFAULT_DATA})",
    )
    compare.add_argument(
        "--depths",
        type=_depths,
        default=DEFAULT_DEPTHS,
        metavar="L[,L…]",
        help="depths, separated by commas (default: 22 from 1 to 100)",
    )
    add_network(compare)
    compare.add_argument("--head", default="trace", help=choices(HEADS, "trace"))
    _add_raw(compare)
    _add_out(compare)
    compare.set_defaults(run=_compare)


def _add_limits(commands: Commands) -> None:
    limits = commands.add_parser(
        "limits",
        help="the limit of a family of kernels at infinite depth, and the rate",
        description="Check whether a family of kernels converges at infinite depth to the limit "
        "that theory predicts, and at the predicted rate: a report on the screen, limits.csv and "
        "limits.png.",
    )
    add_signals(limits, optional=True)
    limits.add_argument("--family", default="resnet", help=choices(FAMILIES, "resnet"))
    limits.add_argument(
        "--gamma",
        type=float,
        help="alpha is depth**-gamma, for resnet (default: 0.75) and huang-resnet (default: 1)",
    )
    limits.add_argument("--alpha", type=float, help="of resnet-fixed (default: 1)")
    limits.add_argument("--filter-size", type=int, metavar="Q", help="odd (default: 3)")
    limits.add_argument(
        "--frozen-readout", action="store_true", help="train all but the last layer, for resnet"
    )
    limits.add_argument(
        "--depths",
        type=_depths,
        default=depth.DEFAULT_DEPTHS,
        metavar="L[,L…]",
        help="at least 6 depths (default: powers of 2 from 8 to 16384)",
    )
    limits.add_argument("--kind", default="ntk", help=choices(KINDS, "ntk"))
    limits.add_argument("--head", default="trace", help=choices(HEADS, "trace"))
    limits.add_argument(
        "--seed", type=int, default=0, help="for the signals drawn without SIGNALS (default: 0)"
    )
    _add_raw(limits)
    _add_out(limits)
    limits.set_defaults(run=_limits)


def _add_raw(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--raw",
        action="store_true",
        help="take the signals as they are; otherwise each pixel is scaled to one norm",
    )


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="where the files go (default: here)",
    )


def _depths(text: str) -> tuple[int, ...]:
    """Return the integers of a text such as "1,2,4"."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of integers separated by commas"
        ) from None


def _progress() -> bool:
    """Return whether to show progress: to a person at a terminal, where tqdm is installed."""
    return sys.stderr.isatty() and find_spec("tqdm") is not None


def _compare(options: argparse.Namespace) -> None:
    if options.signals is not None and options.data is not None:
        raise ValueError("both SIGNALS and --data are given, expected one of them")
    if options.signals is None and options.array is not None:
        raise ValueError("--array is given without a file of named arrays")
    _check_out(options, "compare.csv", "compare.png")
    picture = plots.figure(plots.SIZE)  # first: a missing matplotlib is found before computing
    if options.signals is not None:
        X, name = datasets.read(options.signals, options.array), options.signals.name
    else:
        name = options.data or DEFAULT_DATA
        X = datasets.load(name)
    lengths = sorted({signal.shape[1] for signal in X})
    steps = str(lengths[0]) if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
    print(f"{name}: {len(X)} signals, {len(X[0])} channels, {steps} time steps")
    X = _projected(X, name, options)
    table = conditioning.compare(
        X,
        options.depths,
        options.filter_size,
        options.alpha,
        options.head,
        progress=_progress(),
    )
    print(table)
    options.out.mkdir(parents=True, exist_ok=True)
    table.write_csv(options.out / "compare.csv")
    ax = plots.condition_numbers(table, picture.subplots())
    ax.set_title(f"{name}: {ax.get_title()}", fontsize="small")
    picture.savefig(options.out / "compare.png")
    print(f"written: {options.out / 'compare.csv'}, {options.out / 'compare.png'}")


def _check_out(options: argparse.Namespace, *names: str) -> None:
    """Raise a ValueError if files of these names cannot be written to the folder of results."""
    if os.path.isfile(options.out):
        raise ValueError(f"out is {options.out}, which is a file, expected a folder")
    for name in names:
        check_writable(options.out / name, "out", options.signals)


def _projected(
    X: np.ndarray | list[np.ndarray], name: str, options: argparse.Namespace
) -> np.ndarray | list[np.ndarray]:
    """Return the signals projected to the multi-sphere, or unchanged with --raw."""
    if options.raw:
        return X
    if len(X[0]) == 1:
        raise ValueError(
            f"{name} has one channel, of which scaling each pixel to one norm leaves the "
            f"sign: expected more, or --raw"
        )
    return multisphere.project(X)


def _limits(options: argparse.Namespace) -> None:
    if options.signals is None and (options.array is not None or options.raw):
        raise ValueError("--array and --raw are about SIGNALS, which are not given")
    _check_out(options, "limits.csv", "limits.png")
    family = _family(options)
    picture = plots.figure(plots.SIZE)  # first: a missing matplotlib is found before computing
    X = None
    if options.signals is not None:
        name = options.signals.name
        signals = _projected(datasets.read(options.signals, options.array), name, options)
        X = check_array(signals, name, "the limits are about signals of one length")
    report = depth.check(
        family,
        X,
        depths=options.depths,
        kind=options.kind,
        head=options.head,
        rng=options.seed,
        progress=_progress(),
    )
    print(report)
    options.out.mkdir(parents=True, exist_ok=True)
    report.write_csv(options.out / "limits.csv")
    plots.limit_distances(report, ax=picture.subplots())
    picture.savefig(options.out / "limits.png")
    print(f"written: {options.out / 'limits.csv'}, {options.out / 'limits.png'}")


def _family(options: argparse.Namespace) -> families.Family:
    """Return the family that the options name, or refuse options that the family does not have."""
    known: dict[str, tuple[Callable[..., families.Family], dict[str, Any]]] = {
        "resnet": (families.resnet, {"gamma": 0.75, "filter_size": 3, "frozen_readout": False}),
        "resnet-fixed": (families.resnet_fixed, {"alpha": 1.0, "filter_size": 3}),
        "cnn": (families.cnn, {"filter_size": 3}),
        "huang-resnet": (families.huang_resnet, {"gamma": 1.0}),
        "huang-ffnet": (families.huang_ffnet, {}),
    }
    make, settings = known[check_choice(options.family, "family", FAMILIES)]
    for name in ("gamma", "alpha", "filter_size", "frozen_readout"):
        given = getattr(options, name)
        if given is None or given is False:
            continue
        if name not in settings:
            raise ValueError(f"--{name.replace('_', '-')} is not about the family {options.family}")
        settings[name] = given
    if settings.pop("frozen_readout", False):
        settings["readout"] = False
    return make(**settings)


def _engines(options: argparse.Namespace) -> None:
    for name, state in engines.available().items():
        print(f"{name:10s} {'ready' if state is True else state}")
