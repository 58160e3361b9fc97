"""The commands of ``rescntk``: each reads files, calls the library and writes files."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from .. import datasets, kernels, plots
from ..engines import available
from ..kernels.description import describe
from ..network import Network
from ..theory import conditioning, depth, families, multisphere
from ..validation import DTYPES, KINDS, check_array, check_choice, check_depth

Signals: TypeAlias = np.ndarray | list[np.ndarray]

DEFAULT_DATA = "JapaneseVowels"
"""Data set of ``rescntk compare``: 270 training signals, 12 channels, 25 time steps."""

FAMILIES = ("resnet", "resnet-fixed", "cnn", "huang-resnet", "huang-ffnet")
"""Families of ``rescntk limits``, named as the functions of `rescntk.theory.families`."""

BOTH = "both"
"""Value of ``--kind`` for both kinds of kernel."""


def engines(options: Namespace) -> None:
    """Print each engine with "ready", or with the reason why it cannot serve."""
    for name, state in available().items():
        print(f"{name:10s} {'ready' if state is True else state}")


# ---------------------------------------------------------------- compare and limits


def compare(options: Namespace) -> None:
    """Print and draw the condition numbers of CGPK and ResCGPK across depth."""
    if options.signals is not None and options.data is not None:
        raise ValueError("both SIGNALS and --data are given, expected one of them")
    if options.signals is None and options.array is not None:
        raise ValueError("--array is given without a file of named arrays")
    _check_out(options, "compare")
    picture = plots.figure(plots.SIZE)  # first: a missing matplotlib is found before computing
    if options.signals is not None:
        X, name = datasets.read(options.signals, options.array), options.signals.name
    else:
        name = options.data or DEFAULT_DATA
        X = datasets.load(name)
    lengths = sorted({signal.shape[1] for signal in X})
    steps = str(lengths[0]) if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
    print(f"{name}: {len(X)} signals, {len(X[0])} channels, {steps} time steps")
    table = conditioning.compare(
        _projected(X, name, options),
        options.depths,
        options.filter_size,
        options.alpha,
        options.head,
        progress=_is_watched(),
    )
    print(table)
    ax = plots.condition_numbers(table, picture.subplots())
    ax.set_title(f"{name}: {ax.get_title()}", fontsize="small")
    _write(table, picture, options.out / "compare")


def limits(options: Namespace) -> None:
    """Print and draw the distances of a family's kernels from their limit at infinite depth."""
    if options.signals is None and (options.array is not None or options.raw):
        raise ValueError("--array and --raw are about SIGNALS, which are not given")
    _check_out(options, "limits")
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
        progress=_is_watched(),
    )
    print(report)
    plots.limit_distances(report, ax=picture.subplots())
    _write(report, picture, options.out / "limits")


def _family(options: Namespace) -> families.Family:
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
        value = getattr(options, name)
        if value is None or value is False:
            continue
        if name not in settings:
            raise ValueError(f"--{name.replace('_', '-')} is not about the family {options.family}")
        settings[name] = value
    if settings.pop("frozen_readout", False):
        settings["readout"] = False
    return make(**settings)


def _check_out(options: Namespace, name: str) -> None:
    """Raise a ValueError if the table and the picture cannot be written."""
    if os.path.isfile(options.out):
        raise ValueError(f"out is {options.out}, which is a file, expected a folder")
    for suffix in (".csv", ".png"):
        _check_writable(options.out / f"{name}{suffix}", "out", options.signals)


def _projected(X: Signals, name: str, options: Namespace) -> Signals:
    """Return the signals projected to the multi-sphere, or unchanged with --raw."""
    if options.raw:
        return X
    if len(X[0]) == 1:
        raise ValueError(
            f"{name} has one channel, of which scaling each pixel to one norm leaves the "
            f"sign: expected more, or --raw"
        )
    return multisphere.project(X)


def _is_watched() -> bool:
    """Return whether a person at a terminal would see a bar of tqdm."""
    return sys.stderr.isatty() and find_spec("tqdm") is not None


def _write(table: Any, picture: Any, path: Path) -> None:
    """Write a table and its picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table.write_csv(f"{path}.csv")
    picture.savefig(f"{path}.png")
    print(f"written: {path}.csv, {path}.png")


# ---------------------------------------------------------------- gram


def gram(options: Namespace) -> None:
    """Compute a kernel matrix, and write it with its parameters and labels."""
    output, suffix = options.output, options.output.suffix
    if suffix not in (".npy", ".npz", ".zarr"):
        raise ValueError(f"output is {output}, expected a name that ends in .npy, .npz or .zarr")
    if not output.parent.is_dir():
        raise ValueError(f"output is {output}, expected a folder that is there")
    if suffix == ".zarr":
        _store(options)
        return
    for name in ("block", "workers", "scheduler"):
        if getattr(options, name) is not None:
            raise ValueError(f"--{name} is for outputs in .zarr, and output is {output}")
    files = [output] if suffix == ".npz" else [output, output.with_suffix(".json")]
    for file in files:
        _check_writable(file, "output", options.signals, options.others)
    for file in files:
        if file.exists() and not (options.overwrite or _agrees(f"{file} exists: replace it?")):
            raise ValueError(f"output is {file}, which exists: --overwrite replaces it")
    network, X, Z, labels, kernel = _arguments(options, "float64")
    if suffix == ".npy" and len(kernel["kinds"]) > 1:
        raise ValueError(f"output is {output}, which holds one kind: both go into .npz or .zarr")
    results = kernels.gram(network, X, Z, **kernel, progress=True)
    parameters = describe(network, X, Z, depths=None, **kernel) | {"labels": labels}
    if suffix == ".npy":
        with _replacing(output) as file:
            np.save(file, results[0])
        with _replacing(output.with_suffix(".json")) as file:
            file.write(f"{json.dumps(parameters, indent=1)}\n".encode())
    else:
        arrays: dict[str, Any] = dict(zip(kernel["kinds"], results, strict=True))
        arrays |= {f"labels_{name}": np.array(values) for name, values in labels.items()}
        with _replacing(output) as file:
            np.savez(file, parameters=json.dumps(parameters), **arrays)
    _report(output, results[0].shape, kernel["dtype"], network)


def _store(options: Namespace) -> None:
    """Compute a Gram of `rescntk.stored`, or go on with it."""
    from .. import stored

    output = options.output
    _check_no_input(output, "output", options.signals, options.others)
    block = 1024 if options.block is None else check_depth(options.block, "block")
    network, X, Z, labels, kernel = _arguments(options, "float32")
    if options.overwrite and output.exists():
        stored.remove(output)
    with _client(options) as client:
        K = stored.gram(output, network, X, Z, block=block, client=client, **kernel)
    K.label(labels)
    _report(output, K.shape, kernel["dtype"], network)


def _arguments(
    options: Namespace, dtype: str
) -> tuple[Network, Signals, Signals | None, dict[str, list[Any]], dict[str, Any]]:
    """Return network, X, Z, labels by "X" and "Z", and options of `rescntk.gram`, checked.

    `dtype` is the default of ``--dtype``. Labels are there where the files have some.
    """
    kind = check_choice(options.kind, "kind", (*KINDS, BOTH))
    network = Network(
        options.depth,
        options.filter_size,
        input_filter_size=options.input_filter_size,
        skip=not options.no_skip,
        alpha=options.alpha,
    )
    X, X_labels = datasets.read_labelled(options.signals, options.array)
    Z, Z_labels = None, None
    if options.others is not None:
        Z, Z_labels = datasets.read_labelled(options.others, options.others_array)
    elif options.others_array is not None:
        raise ValueError("--others-array is given without OTHERS")
    pairs = (("X", X_labels), ("Z", Z_labels))
    labels = {name: found.tolist() for name, found in pairs if found is not None}
    kernel = {
        "head": options.head,
        "kinds": KINDS if kind == BOTH else (kind,),
        "normalized": options.normalized,
        "dtype": check_choice(options.dtype or dtype, "dtype", DTYPES),
        "engine": options.engine,
    }
    return network, X, Z, labels, kernel


@contextmanager
def _client(options: Namespace) -> Iterator[Any]:
    """Yield a client of dask for ``--workers`` or ``--scheduler``; None for this process."""
    if options.workers is not None and options.scheduler is not None:
        raise ValueError("both --workers and --scheduler are given, expected one of them")
    if options.workers is None and options.scheduler is None:
        yield None
        return
    from distributed import Client, LocalCluster

    if options.scheduler is not None:
        with Client(options.scheduler, timeout=30) as client:
            yield client
        return
    workers, cores = check_depth(options.workers, "workers"), os.cpu_count() or 1
    if workers > cores:
        raise ValueError(f"workers is {workers}, expected at most the cores of this host, {cores}")
    # Any free port: the usual one is taken where another cluster runs, which gives a warning.
    quiet: dict[str, Any] = {"dashboard_address": ":0", "scheduler_kwargs": {"dashboard": False}}
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, **quiet) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _report(output: Path, shape: tuple[int, ...], dtype: str, network: Network) -> None:
    print(f"written: {output}, {shape[0]} × {shape[1]} {dtype}, of {network!r}")


def _agrees(question: str) -> bool:
    """Return whether a person at a terminal says yes; False where there is no terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# ---------------------------------------------------------------- files


def _check_writable(path: Path, name: str, *inputs: Path | None) -> None:
    """Raise a ValueError if a file cannot be written; nothing is left behind.

    Parameters
    ----------
    path : Path
        The file; folders above it may be missing.
    name : str
        The option's name in messages.
    *inputs : Path or None
        Files of signals, which must not be overwritten.
    """
    try:
        _check_no_input(path, name, *inputs)
        target = path.resolve()  # a link to a file that is not there stays a link
        if target.exists():
            target.open("ab").close()
        else:
            folder = next(folder for folder in target.parents if folder.exists())
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ValueError(
            f"{name} is {path}, which cannot be written: {error.strerror or error}"
        ) from None


def _check_no_input(path: Path, name: str, *inputs: Path | None) -> None:
    """Raise a ValueError if a file is one of the files of signals, or a link to one."""
    for signals in inputs:
        if signals is not None and path.exists() and signals.exists() and path.samefile(signals):
            raise ValueError(f"{name} is {path}, the file of signals, expected another file")


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the name `path` once it is complete."""
    path = path.resolve()  # a link stays a link
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
