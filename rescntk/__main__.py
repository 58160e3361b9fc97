"""The command line ``rescntk``, the same as ``python -m rescntk``: `compare` and `engines`."""

from __future__ import annotations

import argparse
import codecs
import os
import sys
import warnings
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from . import datasets, plots
from ._version import __version__
from .arrays import images_as_signals
from .checks.values import HEADS, check_signals
from .engines import available
from .kernels.progress import is_open
from .network import Network
from .plots.style import display_name
from .theory import conditioning, multisphere

DEFAULT_DATA = "JapaneseVowels"
"""Data set of ``rescntk compare``: 270 training signals, 12 channels, 25 time points."""

DEFAULT_DEPTHS = (*range(1, 11), 12, 15, 18, 22, 27, 33, 40, 48, 58, 70, 84, 100)
"""Depths of ``rescntk compare``: every depth to 10, then each about 1.2 times the depth before."""

_PLAIN = str.maketrans(
    {"–": "-", "−": "-", "×": "x", "…": "...", "≥": ">=", "ε": "epsilon", "α": "alpha"}
)
"""ASCII for characters that an output may not have."""

ERRORS = (ValueError, OverflowError, ImportError, OSError, MemoryError, RuntimeError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, or 2 after one line of error."""
    codecs.register_error("rescntk", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if is_open(stream) and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="rescntk")
    options = _parser().parse_args(arguments)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: _say(f"warning: {message}")
        try:
            options.run(options)
        except ERRORS as error:  # all others are faults of the program
            _say(str(error) or type(error).__name__)
            return 2
        except KeyboardInterrupt:
            _say("interrupted")
            return 130
    return 0


def engines(options: Namespace) -> None:
    """Print each engine with "ready", or with the reason why it cannot serve."""
    for name, state in available().items():
        print(f"{name:10s} {'ready' if state is True else state}")


def compare(options: Namespace) -> None:
    """Print condition numbers of CGPK and ResCGPK across depth, with their bounds.

    They are also written to compare.csv, and drawn in compare.png.
    """
    out, csv, png = options.out, options.out / "compare.csv", options.out / "compare.png"
    there = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ValueError(f"out is {out}, and {there} is a file, expected a folder")
    if not os.access(there, os.W_OK):
        raise ValueError(f"out is {out}, and {there} is not writable, expected a writable folder")
    if (csv.exists() or png.exists()) and not options.overwrite:
        raise ValueError(f"out is {out}, which has {csv.name}: --overwrite replaces its files")
    picture = plots.figure(plots.FIGURE_SIZE)
    X, name = _signals(options)
    signals, points = ("images", "pixels") if X.ndim == 4 else ("signals", "time points")
    n, channels, *size = map(str, X.shape)
    header = f"{name}: {n} {signals}, {channels} channels, {' × '.join(size)} {points}"
    table = conditioning.compare(
        Network(1, options.filter_size, alpha=options.alpha),
        X if options.raw else _projected(X, name),
        options.depths,
        kind=options.kind,
        head=options.head,
        progress=is_open(sys.stderr) and sys.stderr.isatty() and find_spec("tqdm") is not None,
    )
    ax = plots.condition_numbers(table, picture.subplots())
    ax.set_title(f"{display_name(name)}: {ax.get_title()}", fontsize="small")
    out.mkdir(parents=True, exist_ok=True)
    table.write_csv(csv)
    picture.savefig(png)
    print(f"{header}\n{table}\nwritten: {csv}, {png}")


def _signals(options: Namespace) -> tuple[np.ndarray, str]:
    """Return the signals or images that the options name, and the name of their source."""
    path, name = options.signals, options.data
    if path is None:
        return datasets.load(name or DEFAULT_DATA), name or DEFAULT_DATA
    if name is not None:
        raise ValueError("both SIGNALS and --data are given, expected one of them")
    if path.suffix != ".npy":
        raise ValueError(f"SIGNALS is {path}, expected a .npy file of one array")
    try:
        X = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:  # of a damaged file, and of one with objects
        other = "pickle" in str(error)  # NumPy's words advise to load it all the same
        reason = "it has objects, or is of another format" if other else error
        raise ValueError(f"{path} is not a readable .npy file: {reason}") from None
    return check_signals(X, "SIGNALS", images=True), path.name


def _projected(X: np.ndarray, name: str) -> np.ndarray:
    """Return signals or images with each pixel scaled to one norm: on the multi-sphere."""
    if X.shape[1] == 1:
        raise ValueError(
            f"{name} has one channel, and scaling each pixel to one norm would leave only its "
            "sign: expected more channels, or --raw"
        )
    return multisphere.project(images_as_signals(X) if X.ndim == 4 else X).reshape(X.shape)


def _parser() -> argparse.ArgumentParser:
    """Return the parser; `run` of its options is the command's function."""
    text = "Exact kernels of infinitely wide convolutional ResNets."
    parser = argparse.ArgumentParser(prog="rescntk", description=text)
    parser.add_argument("--version", action="version", version=f"rescntk {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    commands.add_parser("engines", help="engines that can compute here").set_defaults(run=engines)
    summary, text = "condition numbers of CGPK and ResCGPK across depth", str(compare.__doc__)
    command = commands.add_parser("compare", help=summary, description=" ".join(text.split()))
    command.set_defaults(run=compare)
    add = command.add_argument
    text = "an array (n_cases, n_channels, n_timepoints), or of images"
    add("signals", type=Path, nargs="?", metavar="SIGNALS.npy", help=text)
    add("--data", metavar="NAME", help=f"a data set of aeon, or Tecator (default: {DEFAULT_DATA})")
    text = "separated by commas (default: 22 from 1 to 100)"
    add("--depths", type=_depths, default=DEFAULT_DEPTHS, metavar="L[,L…]", help=text)
    add("--filter-size", type=int, default=3, metavar="Q", help="odd (default: 3)")
    add("--alpha", type=float, default=1.0, help="weight of the residual branch (default: 1)")
    text = f"{', '.join(HEADS)}, or the pixels of windows (default: trace)"
    add("--head", type=_head, default="trace", help=text)
    add("--kind", default="gpk", help="gpk, or ntk for CNTK and ResCNTK (default: gpk)")
    add(
        "--raw",
        action="store_true",
        help="keep the signals as they are; by default each time point gets one norm",
    )
    add(
        "--out",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="folder of compare.csv and compare.png (default: the current one)",
    )
    add("--overwrite", action="store_true", help="replace compare.csv and compare.png")
    return parser


def _head(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _depths(text: str) -> tuple[int, ...]:
    try:
        return tuple(map(int, text.split(",")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}, expected integers and commas") from None


def _say(words: str) -> None:
    """Print one line to stderr, where this is open."""
    with suppress(OSError):
        if is_open(sys.stderr):
            print("rescntk:", *words.split(), file=sys.stderr)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Return ASCII for what an output cannot encode, as a handler of `codecs`."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(_PLAIN)
    return text.encode("ascii", "replace").decode(), error.end


if __name__ == "__main__":
    raise SystemExit(main())
