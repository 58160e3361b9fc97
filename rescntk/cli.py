"""The command line: thin."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from . import datasets, engines, plots
from ._version import __version__
from .engines.request import DTYPES, HEADS, KINDS
from .kernels import Kernel
from .network import Network
from .theory import conditioning, multisphere

# 1 … 10, then six to a factor of 2.5: points that look evenly spaced on a logarithmic axis.
DEFAULT_DEPTHS = (*range(1, 11), 12, 15, 18, 22, 27, 33, 40, 48, 58, 70, 84, 100)
DEFAULT_DATA = "JapaneseVowels"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, or 2 after one line of error."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ValueError, OverflowError, ImportError, OSError, MemoryError) as error:
        print(f"rescntk: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("rescntk: interrupted", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rescntk",
        description="Exact kernels of infinitely wide convolutional ResNets.",
    )
    parser.add_argument("--version", action="version", version=f"rescntk {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    compare = commands.add_parser(
        "compare",
        help="condition numbers of CGPK and ResCGPK across depth",
        description="Condition numbers of CGPK and ResCGPK across depth, with their bounds: a "
        "table on the screen, compare.csv and compare.png.",
    )
    _add_signals(compare, optional=True)
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
    _add_network(compare)
    compare.add_argument("--head", default="trace", help=_choices(HEADS, "trace"))
    compare.add_argument(
        "--raw",
        action="store_true",
        help="take the signals as they are; otherwise each pixel is scaled to one norm",
    )
    compare.add_argument(
        "--out",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="where the files go (default: here)",
    )
    compare.set_defaults(run=_compare)

    gram = commands.add_parser(
        "gram",
        help="the kernel matrix of the signals in a file",
        description="Compute the kernel matrix of the signals in a file.",
    )
    _add_signals(gram, optional=False)
    gram.add_argument(
        "-o", "--output", type=Path, required=True, metavar="K.npy", help="where the matrix goes"
    )
    gram.add_argument("--kind", default="ntk", help=_choices(KINDS, "ntk"))
    gram.add_argument("--head", default="gap", help=_choices(HEADS, "gap"))
    gram.add_argument("--depth", type=int, default=5, help="layers (default: 5)")
    _add_network(gram)
    gram.add_argument(
        "--input-filter-size",
        type=int,
        default=1,
        metavar="Q",
        help="pixels that layer 1 sees (default: 1)",
    )
    gram.add_argument("--no-skip", action="store_true", help="without skip connections: CGPK, CNTK")
    gram.add_argument("--normalized", action="store_true", help="with 1 on the diagonal")
    gram.add_argument("--dtype", default="float64", help=_choices(DTYPES, "float64"))
    gram.add_argument("--engine", default="auto", help="see `rescntk engines` (default: auto)")
    gram.set_defaults(run=_gram)

    listing = commands.add_parser("engines", help="what can compute here, and what cannot and why")
    listing.set_defaults(run=_engines)
    return parser


def _add_signals(parser: argparse.ArgumentParser, optional: bool) -> None:
    parser.add_argument(
        "signals",
        type=Path,
        nargs="?" if optional else None,
        metavar="SIGNALS",
        help="a .npy, .npz or .ts file of signals (n_cases, n_channels, n_timepoints)",
    )
    parser.add_argument("--array", metavar="NAME", help="which array of a .npz file")


def _add_network(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--filter-size", type=int, default=3, metavar="Q", help="odd (default: 3)")
    parser.add_argument(
        "--alpha", type=float, default=1.0, help="weight of the residual branch (default: 1)"
    )


def _choices(names: Sequence[str], default: str) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]} (default: {default})"


def _depths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of integers separated by commas"
        ) from None


def _progress() -> bool:
    """Whether to show progress: to a person, if there is something to show it with."""
    return sys.stderr.isatty() and find_spec("tqdm") is not None


def _compare(options: argparse.Namespace) -> None:
    if options.signals is not None and options.data is not None:
        raise ValueError("both SIGNALS and --data are given, expected one of them")
    if options.signals is None and options.array is not None:
        raise ValueError("--array is given without a file of named arrays")
    if options.out.exists() and not options.out.is_dir():
        raise ValueError(f"out is {options.out}, which is a file, expected a folder")
    picture = plots.figure(plots.SIZE)  # first, so that a missing library costs no time
    if options.signals is not None:
        X, name = datasets.read(options.signals, options.array), options.signals.name
    else:
        name = options.data or DEFAULT_DATA
        X = datasets.load(name)
    n_cases, n_channels, n_timepoints = X.shape
    print(f"{name}: {n_cases} signals, {n_channels} channels, {n_timepoints} time steps")
    if not options.raw:
        if n_channels == 1:
            raise ValueError(
                f"{name} has one channel, of which scaling each pixel to one norm leaves the "
                f"sign: expected more, or --raw"
            )
        X = multisphere.project(X)
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


def _gram(options: argparse.Namespace) -> None:
    if options.output.suffix != ".npy":
        raise ValueError(f"output is {options.output}, expected a name that ends in .npy")
    if not options.output.parent.is_dir():
        raise ValueError(f"output is {options.output}, expected a folder that is there")
    network = Network(
        options.depth,
        options.filter_size,
        input_filter_size=options.input_filter_size,
        skip=not options.no_skip,
        alpha=options.alpha,
    )
    kernel = Kernel(network, options.kind, options.head, options.normalized)
    X = datasets.read(options.signals, options.array)
    K = kernel(X, engine=options.engine, dtype=options.dtype, progress=_progress())
    np.save(options.output, K)
    print(f"written: {options.output}, {K.shape[0]} × {K.shape[1]} {K.dtype}, of {kernel!r}")


def _engines(options: argparse.Namespace) -> None:
    for name, state in engines.available().items():
        print(f"{name:10s} {'ready' if state is True else state}")
