"""The command line ``rescntk``, the same as ``python -m rescntk``.

Commands read files, call the library and write files. Errors and warnings are one line each.
"""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from . import datasets, kernels, plots
from .arrays import images_as_signals
from .datasets import fields
from .engines import available
from .network import Network
from .parsers import DEFAULT_DATA, FAMILIES, Command, columns_of, parse
from .plots.style import shown_name
from .progress import has_terminal, say, show
from .theory import conditioning, depth, multisphere
from .theory.limits import Family
from .validation import DTYPES, KINDS, check_array, check_choice, check_integer

ERRORS = (ValueError, OverflowError, ImportError, OSError, MemoryError, RuntimeError)
"""Errors that are reported as one line; all others are faults of the program."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, or 2 after one line of error."""
    _open_streams()
    try:
        try:
            options = parse(sys.argv[1:] if arguments is None else arguments, COMMANDS)
        except SystemExit:  # argparse loses the errors of its own help and version
            show("", end="")
            raise
        # A bar of tqdm is for a user at a terminal.
        options.progress = has_terminal() and find_spec("tqdm") is not None
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            options.run(options)
    except ERRORS as error:
        say(f"rescntk: {_line(error) or type(error).__name__}")
        return 2
    except KeyboardInterrupt:
        say("rescntk: interrupted")
        return 130
    finally:
        _close_broken_streams()
    return 0


def _open_streams() -> None:
    """Make stdout and stderr streams that take any text, also where they are closed.

    What the encoding of stdout lacks becomes an escape. Errors of stdout wait until it is flushed.
    """
    for number in range(3):  # a file that takes the number of a closed stream gets its messages
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)  # a flush will fail
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace", write_through=False)


def _close_broken_streams() -> None:
    """Close stdout or stderr if it has lost text: Python would try again, and exit with 120."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            try:
                if stream is not None:
                    stream.flush()
            except OSError:
                stream.close()


def _line(words: object) -> str:
    """Return a text as one line."""
    return " ".join(str(words).split())


def _show_warning(message: Warning | str, *place: Any, **unused: Any) -> None:
    """Print a warning as one line, without its place in the code."""
    say(f"rescntk: warning: {_line(message)}")


# ---------------------------------------------------------------- commands


def engines(options: Namespace) -> None:
    """Print each engine with "ready", or with the reason why it cannot serve."""
    states = available().items()
    show("\n".join(f"{name:10s} {'ready' if state is True else state}" for name, state in states))


def compare(options: Namespace) -> None:
    """Print condition numbers of CGPK and ResCGPK across depth, with their bounds.

    They are also written to compare.csv, and drawn in compare.png.
    """
    if options.signals is not None and options.data is not None:
        raise ValueError("both SIGNALS and --data are given, expected one of them")
    if options.signals is None and options.array is not None:
        raise ValueError(f"--array is {options.array!r} without SIGNALS, expected a .npz file")
    picture = _picture(options, "compare")
    if options.signals is not None:
        X, name = _read(options, options.signals, options.array).X, options.signals.name
    else:
        name = options.data or DEFAULT_DATA
        X = datasets.load(name)
    lengths = sorted({signal.shape[1] for signal in X})
    steps = str(lengths[0]) if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
    counted = "signals", f"{steps} time steps"
    if X[0].ndim == 3:
        counted = "images", f"{steps} × {X[0].shape[2]} pixels"
    header = f"{name}: {len(X)} {counted[0]}, {len(X[0])} channels, {counted[1]}"
    table = conditioning.compare(
        _projected(X, name, options),
        options.depths,
        options.filter_size,
        options.alpha,
        options.head,
        progress=options.progress,
    )
    ax = plots.condition_numbers(table, picture.subplots())
    ax.set_title(f"{shown_name(name)}: {ax.get_title()}", fontsize="small")
    _write(table, picture, options.out / "compare", f"{header}\n{table}")


def limits(options: Namespace) -> None:
    """Check a family of kernels against its predicted limit at infinite depth, and the rate.

    The report is printed, and written to limits.csv and limits.png.
    """
    if options.signals is None and (options.array is not None or options.raw):
        raise ValueError("--array or --raw is given without SIGNALS, expected SIGNALS too")
    picture = _picture(options, "limits")
    family = _family(options)
    X = None
    if options.signals is not None:
        name = options.signals.name
        signals = _projected(_read(options, options.signals, options.array).X, name, options)
        X = check_array(signals, name, "limits are checked on signals of one length")
    report = depth.check(
        family,
        X,
        depths=options.depths,
        kind=options.kind,
        head=options.head,
        rng=check_integer(options.seed, "seed", at_least=0),
        progress=options.progress,
    )
    plots.limit_distances(report, ax=picture.subplots())
    _write(report, picture, options.out / "limits", str(report))


def gram(options: Namespace) -> None:
    """Write the kernel matrix of the signals in a file, or between the signals of two files.

    An output in .zarr is computed block by block: after an interruption the same command resumes
    where it stopped. Parameters and labels are kept with the matrix: K.npy has them in K.json.
    """
    output, suffix = options.output, options.output.suffix
    _check_output(options)
    kind = check_choice(options.kind, "kind", (*KINDS, "both"))
    network = Network(
        options.depth,
        options.filter_size,
        input_filter_size=options.input_filter_size,
        skip=not options.no_skip,
        alpha=options.alpha,
    )
    if options.others is None and options.others_array is not None:
        raise ValueError(
            "--others-array is given without OTHERS, expected OTHERS, a .npz file, too"
        )
    tables = {"X": _read(options, options.signals, options.array)}
    if options.others is not None:
        tables["Z"] = _read(options, options.others, options.others_array)
        both = options.others.name, options.signals.name
        fields.check_channels(tables["Z"].channels, tables["X"].channels, *both)
    labels = {name: read.y.tolist() for name, read in tables.items() if read.y is not None}
    default = "float32" if suffix == ".zarr" else "float64"
    call: dict[str, Any] = {
        "network": network,
        "X": tables["X"].X,
        "Z": tables["Z"].X if "Z" in tables else None,
        "head": options.head,
        "kinds": KINDS if kind == "both" else (kind,),
        "normalized": options.normalized,
        "dtype": check_choice(options.dtype or default, "dtype", DTYPES),
        "engine": options.engine,
    }
    if suffix == ".zarr":
        from .stored import gram as stored_gram

        K: Any = stored_gram(output, **{name: call[name] for name in call if name != "engine"})
    else:
        matrices: Any = kernels.gram(**call, progress=True)
        K, parameters = matrices[0], {"network": repr(network), "labels": labels}
        with ExitStack() as files:  # all complete before one takes its name
            file = files.enter_context(datasets.replacing(output))
            if suffix == ".npy":
                np.save(file, K)
                file.flush()
                beside = files.enter_context(datasets.replacing(output.with_suffix(".json")))
                beside.write(f"{json.dumps(parameters, indent=1)}\n".encode())
            else:
                arrays = {f"labels_{name}": values for name, values in labels.items()}
                np.savez(file, parameters=json.dumps(parameters), **matrices._asdict(), **arrays)
    show(f"written: {output}, {K.shape[0]} × {K.shape[1]} {call['dtype']}")


def fit(options: Namespace) -> None:
    """Fit a classifier, or a regressor, to the signals in a file, and write it to a file.

    Labels are in a .ts file, in the column label of a .csv file, or in --labels.
    """
    import_module("rescntk.learn.command").fit(options)


def predict(options: Namespace) -> None:
    """Print or write a table: label, probability and novelty of each signal in a file.

    A regressor has value, deviation and novelty.
    """
    import_module("rescntk.learn.command").predict(options)


def report(options: Namespace) -> None:
    """Write a page in HTML about a fitted model's answers to the signals in a file.

    Labels are in the file of signals, in LABELS, or in an array of SIGNALS.
    """
    import_module("rescntk.learn.command").report(options)


COMMANDS: dict[Command, str] = {
    compare: "condition numbers of CGPK and ResCGPK across depth",
    limits: "the limit of a family of kernels at infinite depth, and the rate",
    gram: "the kernel matrix of the signals in a file",
    fit: "a classifier or regressor of the signals in a file",
    predict: "labels or values of new signals, by a fitted model",
    report: "a page about a fitted model's answers to labelled signals",
    engines: "the engines that can compute here, and why others cannot",
}
"""The commands, each with a summary for the help."""


# ---------------------------------------------------------------- compare, limits and gram


def _read(options: Namespace, path: Path, array: str | None) -> datasets.Table:
    """Return the signals in a file; of a table, with the columns that the options name."""
    return datasets.read_file(path, array, False, columns_of(options))[0]


def _picture(options: Namespace, name: str) -> Any:
    """Return an empty figure before the work, if matplotlib is there and files can be written."""
    if os.path.isfile(options.out):
        raise ValueError(f"out is {options.out}, which is a file, expected a folder")
    for suffix in (".csv", ".png"):
        path = options.out / f"{name}{suffix}"
        datasets.check_writable(path, "out", options.signals)
        if path.exists():
            datasets.check_output(path, suffix, options.overwrite)
    return plots.figure(plots.SIZE)


def _family(options: Namespace) -> Family:
    """Return the family that the options name, or refuse options that it does not have."""
    name = check_choice(options.family, "family", FAMILIES)
    make, defaults = FAMILIES[name]
    settings = dict(defaults)
    for parameter in ("gamma", "alpha", "filter_size", "readout"):
        value = getattr(options, parameter)
        if value is not None and parameter not in defaults:
            option = parameter.replace("_", "-").replace("readout", "frozen-readout")
            raise ValueError(f"--{option} is not a parameter of the family {name}, expected none")
        settings |= {} if value is None else {parameter: value}
    gamma, readout = settings.pop("gamma", 0.0), settings.pop("readout", True)
    network = make(1, **settings)
    return Family(network if readout else network.replace(trained=("inner", "outer")), gamma)


def _projected(X: Any, name: str, options: Namespace) -> Any:
    """Return the signals projected to the multi-sphere, or unchanged with --raw."""
    if len(X[0]) == 1 and not options.raw:
        raise ValueError(
            f"{name} has one channel, and scaling each pixel to one norm would leave only its "
            f"sign: expected more channels, or --raw"
        )
    if options.raw:
        return X
    if X[0].ndim == 3:  # images, pixel by pixel
        return multisphere.project(images_as_signals(X)).reshape(X.shape)
    return multisphere.project(X)


def _write(table: Any, picture: Any, path: Path, text: str) -> None:
    """Write a table and its picture, then print a text and the names of the files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    csv, png = Path(f"{path}.csv"), Path(f"{path}.png")
    with datasets.replacing(csv) as file, datasets.replacing(png) as drawing:
        table.write_csv(os.dup(file.fileno()))  # the name may be another file by now
        picture.savefig(drawing, format="png")
    show(f"{text}\nwritten: {csv}, {png}")


# ---------------------------------------------------------------- gram


def _check_output(options: Namespace) -> None:
    """Raise a ValueError if the output cannot be written, or is there and must stay."""
    output, suffix = options.output, options.output.suffix
    if suffix not in (".npy", ".npz", ".zarr"):
        raise ValueError(f"output is {output}, expected a name that ends in .npy, .npz or .zarr")
    if suffix == ".zarr":
        if not output.parent.is_dir():
            raise ValueError(f"output is {output}, expected a folder that is there")
        return
    for name in ("block", "workers", "scheduler"):
        if getattr(options, name) is not None:
            raise ValueError(f"--{name} is given with output {output}, expected output in .zarr")
    files = [output] if suffix == ".npz" else [output, output.with_suffix(".json")]
    for file in files:
        datasets.check_output(file, file.suffix, options.overwrite, options.signals, options.others)
    if suffix == ".npy" and options.kind == "both":
        raise ValueError(f"output is {output}, which holds one kind: both go into .npz or .zarr")


if __name__ == "__main__":
    raise SystemExit(main())
