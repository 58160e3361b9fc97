"""The options of the command line's commands."""

from __future__ import annotations

import argparse
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import literature
from ._version import __version__
from .datasets import named_columns
from .network import Network
from .theory import depth
from .validation import DTYPES, HEADS, KINDS

DEFAULT_DATA = "JapaneseVowels"
"""Data set of ``rescntk compare``: 270 training signals, 12 channels, 25 time steps."""

DEFAULT_DEPTHS = (*range(1, 11), 12, 15, 18, 22, 27, 33, 40, 48, 58, 70, 84, 100)
"""Depths of ``rescntk compare``: every depth to 10, then each about 1.2 times the depth before."""

FAMILIES: dict[str, tuple[Callable[..., Network], dict[str, Any]]] = {
    "resnet": (literature.barzilai_resnet, {"gamma": 0.75, "filter_size": 3, "readout": True}),
    "resnet-fixed": (literature.barzilai_resnet, {"alpha": 1.0, "filter_size": 3}),
    "cnn": (literature.barzilai_cnn, {"filter_size": 3}),
    "huang-resnet": (literature.huang_resnet, {"gamma": 1.0}),
    "huang-ffnet": (literature.huang_ffnet, {}),
}
"""Families of ``rescntk limits``: functions that make their networks, and the options with their
defaults."""

EXAMPLES = {
    "compare": ("compare", "compare signals.ts --head gap --depths 1,10,100"),
    "limits": ("limits --gamma 0.75",),
    "gram": ("gram X.npy -o K.npy --normalized", "gram X_new.npy X.npy -o K_new.npy"),
    "fit": (
        "fit data.csv --label-column season --ignore day -o model.joblib",
        "fit X.npy --labels y.txt --effort fast -o model.joblib",
    ),
    "predict": ("predict model.joblib new.csv -o labels.csv",),
    "report": ("report model.joblib X_new.npy y_new.txt -o report.html",),
    "engines": ("engines",),
}
"""Examples of each command for its help."""

Command = Callable[[Namespace], None]


def parse(arguments: Sequence[str], summaries: Mapping[Command, str]) -> Namespace:
    """Return the options of one of the commands, which have summaries; `run` is the command.

    Its files and options come in any order: ``gram X.npy -o K.npy Z.npz``.
    """
    lines = [f"  {command.__name__:9} {summary}" for command, summary in summaries.items()]
    parser = argparse.ArgumentParser(
        prog="rescntk",
        description="Exact kernels of infinitely wide convolutional ResNets.",
        epilog="\n".join(["commands:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"rescntk {__version__}")
    names = [command.__name__ for command in summaries]
    parser.add_argument("command", choices=names, metavar="COMMAND", help="see below")
    of_command = "files and options: see rescntk COMMAND --help"
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="…", help=of_command)
    given = parser.parse_args(arguments)
    return _parsers(summaries)[given.command].parse_intermixed_args(given.arguments)


def columns_of(options: Namespace) -> dict[str, str]:
    """Return the columns of a table that options name, each with its argument."""
    return named_columns(options.label_column, options.ignore or (), options.case, options.time)


def _parsers(commands: Iterable[Command]) -> dict[str, Any]:
    """Return the parser of each command's files and options, by its name."""
    made: dict[str, argparse.ArgumentParser] = {}
    for command in commands:
        name = command.__name__
        made[name] = argparse.ArgumentParser(
            prog=f"rescntk {name}",
            description="\n".join(map(str.strip, str(command.__doc__).splitlines())),
            epilog="\n  rescntk ".join(["examples:", *EXAMPLES[name]]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made[name].set_defaults(run=command)

    def add(names: str, option: str, text: str, default: Any = None, **settings: Any) -> None:
        """Add an option to some commands; without a type it is a text, or as its default."""
        if default is not None:
            text = f"{text} (default: {default})"
            settings |= {"default": default, "type": type(default)}
        for name in names.split():
            made[name].add_argument(*option.split(), help=text, **settings)

    def one_of(names: Sequence[str]) -> str:
        """Return "a, b or c" for the help; the library checks the name."""
        return f"{', '.join(names[:-1])} or {names[-1]}"

    signals = "a .npy, .npz, .ts or .csv file of signals (n_cases, n_channels, n_timepoints)"
    images = f"{signals}; .npy or .npz also of images, with an axis (width,) more"
    trusted = "written by `rescntk fit`; open only files that you trust"
    add("predict report", "model", trusted, type=Path)
    add("gram fit predict report", "signals", images, type=Path, metavar="SIGNALS")
    add("limits", "signals", signals, type=Path, nargs="?", metavar="SIGNALS")
    add("compare", "signals", images, type=Path, nargs="?", metavar="SIGNALS")
    add("gram", "others", "signals of the matrix's columns", type=Path, nargs="?", metavar="OTHERS")
    label = "a .npy file, or a text with a label a line"
    add("report", "labels", label, type=Path, nargs="?", metavar="LABELS")
    reading = "compare limits gram fit predict report"
    add(reading, "--array", "which array of a .npz file", metavar="NAME")
    add("gram", "--others-array", "which array of a .npz file", metavar="NAME")
    where = "where the matrix goes: a name in .npy, .npz or .zarr"
    add("gram", "-o --output", where, type=Path, required=True, metavar="K.npy")
    add("fit", "-o --output", "where the model goes", type=Path, required=True, metavar="M.joblib")
    add("predict", "-o --output", "a .csv file (default: the screen)", type=Path, metavar="Y.csv")
    add("report", "-o --output", "where the page goes", type=Path, required=True, metavar="R.html")
    add(reading, "--overwrite", "replace an output", action="store_true")
    add("fit predict", "--labels", label, type=Path, metavar="FILE")
    of_signals = "which array of SIGNALS, a .npz file"
    add("fit predict report", "--labels-array", of_signals, metavar="NAME")
    add(reading, "--label-column", "labels in a table (default: label)", metavar="NAME")
    left_out = "columns of a table that are left out, separated by commas"
    add(reading, "--ignore", left_out, type=lambda names: names.split(","), metavar="A,B")
    add(reading, "--case", "cases in a table (default: case)", metavar="NAME")
    add(reading, "--time", "times in a table with a row for each", metavar="NAME")
    together = "signals of one person, machine or day, left out together: a file like --labels"
    add("fit report", "--groups", together, type=Path, metavar="FILE")
    by_class: Any = {"type": _by_class, "metavar": "A=X,B=Y"}
    add("report", "--prevalence", "share of each class in use", **by_class)
    add("report", "--cost", "cost of a wrong answer to each class (default: 1)", **by_class)
    add("fit", "--regression", "labels are numeric targets", action="store_true")
    add("fit", "--effort", "fast, default, thorough or seconds", "default")
    add("fit", "--class-weight", "balanced: all classes count alike", metavar="WEIGHT")
    add("fit", "--standardize", "each: each signal by itself; true or false", metavar="HOW")
    add("fit", "--missing", "missing values: refuse or interpolate", "refuse", metavar="HOW")
    add("fit predict report", "--threads", "default: the engine's choice", type=int, metavar="N")
    add("compare", "--data", f"a data set of aeon (default: {DEFAULT_DATA})", metavar="NAME")
    add("limits", "--family", one_of(tuple(FAMILIES)), "resnet")
    gamma = "alpha is depth**-gamma, for resnet (default: 0.75) and huang-resnet (default: 1)"
    add("limits", "--gamma", gamma, type=float)
    add("limits", "--alpha", "of resnet-fixed (default: 1)", type=float)
    add("limits", "--filter-size", "odd (default: 3)", type=int, metavar="Q")
    frozen = "train all but the last layer, for resnet"
    add("limits", "--frozen-readout", frozen, dest="readout", action="store_const", const=False)
    ladder: Any = {"type": _depths, "metavar": "L[,L…]"}
    add("compare", "--depths", "separated by commas (default: 22 from 1 to 100)", **ladder)
    powers = "separated by commas (default: powers of 2 from 8 to 16384, at least 6)"
    add("limits", "--depths", powers, **ladder)
    made["compare"].set_defaults(depths=DEFAULT_DEPTHS)
    made["limits"].set_defaults(depths=depth.DEFAULT_DEPTHS)
    add("gram", "--depth", "layers", 5)
    add("compare gram", "--filter-size", "odd", 3, metavar="Q")
    add("gram", "--input-filter-size", "pixels that layer 1 sees", 1, metavar="Q")
    add("compare gram", "--alpha", "weight of the residual branch", 1.0)
    add("gram", "--no-skip", "without skip connections: CGPK, CNTK", action="store_true")
    add("limits", "--kind", one_of(KINDS), "ntk")
    add("gram", "--kind", one_of((*KINDS, "both")), "ntk")
    add("compare limits", "--head", one_of(HEADS), "trace")
    add("gram", "--head", one_of(HEADS), "gap")
    add("gram", "--normalized", "with 1 on the diagonal", action="store_true")
    add("gram", "--dtype", f"{one_of(DTYPES)} (default: float64; for .zarr float32)")
    add("gram", "--engine", "see `rescntk engines`", "auto")

    add("limits", "--seed", "for the signals drawn without SIGNALS", 0)
    raw = "use the signals unchanged; otherwise each pixel is scaled to one norm"
    add("compare limits", "--raw", raw, action="store_true")
    add("compare limits", "--out", "where the files go", Path(), metavar="FOLDER")
    add("gram", "--block", "rows and columns of a block of .zarr (default: 1024)", type=int)
    add("gram", "--workers", "compute .zarr in N processes", type=int, metavar="N")
    add("gram", "--scheduler", "compute .zarr on a dask scheduler's workers", metavar="ADDRESS")
    return made


def _by_class(text: str) -> dict[str, float]:
    try:
        parts = [part.rpartition("=") for part in text.split(",")]
        numbers = {name: float(value) for name, _, value in parts}
        if len(numbers) == len(parts):
            return numbers
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(
        f"{text!r} is not a list of different classes with numbers, such as ill=0.1,well=0.9"
    )


def _depths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of integers separated by commas"
        ) from None
