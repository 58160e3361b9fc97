"""The command ``rescntk gram``: a kernel matrix of signals in files, kept with its parameters."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from . import datasets
from .cli_options import (
    Commands,
    add_network,
    add_signals,
    check_no_input,
    check_writable,
    choices,
)
from .kernels import gram
from .kernels.description import describe
from .network import Network
from .validation import check_choice, check_depth
from .vocabulary import DTYPES, HEADS, KINDS

SUFFIXES = (".npy", ".npz", ".zarr")
"""Kinds of outputs: one array, named arrays, and a Gram of `rescntk.stored`."""

BOTH = "both"
"""Value of ``--kind`` for both kinds of kernel."""


def add(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser(
        "gram",
        help="the kernel matrix of the signals in a file",
        description="Compute the kernel matrix of the signals in a file, or of the signals in one "
        "file with the signals in another. An output in .zarr is computed block by block: "
        "interrupted or killed, the same command goes on where it was. Parameters and labels are "
        "kept with the matrix: K.npy has them in K.json.",
    )
    add_signals(parser, optional=False)
    parser.add_argument(
        "others", type=Path, nargs="?", metavar="OTHERS", help="signals of the matrix's columns"
    )
    parser.add_argument("--others-array", metavar="NAME", help="which array of a .npz file")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="K.npy",
        help="where the matrix goes: a name in .npy, .npz or .zarr",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an output that is there")
    parser.add_argument("--kind", default="ntk", help=choices((*KINDS, BOTH), "ntk"))
    parser.add_argument("--head", default="gap", help=choices(HEADS, "gap"))
    parser.add_argument("--depth", type=int, default=5, help="layers (default: 5)")
    add_network(parser)
    parser.add_argument(
        "--input-filter-size",
        type=int,
        default=1,
        metavar="Q",
        help="pixels that layer 1 sees (default: 1)",
    )
    parser.add_argument(
        "--no-skip", action="store_true", help="without skip connections: CGPK, CNTK"
    )
    parser.add_argument("--normalized", action="store_true", help="with 1 on the diagonal")
    parser.add_argument(
        "--dtype", help=f"{' or '.join(DTYPES)} (default: float64; for .zarr float32)"
    )
    parser.add_argument("--engine", default="auto", help="see `rescntk engines` (default: auto)")
    _add_stored(parser)
    parser.set_defaults(run=run)


def _add_stored(parser: argparse.ArgumentParser) -> None:
    """Add the options of outputs in .zarr."""
    only = parser.add_argument_group("for outputs in .zarr")
    only.add_argument("--block", type=int, help="rows and columns of a block (default: 1024)")
    only.add_argument("--workers", type=int, metavar="N", help="compute in N processes")
    only.add_argument(
        "--scheduler", metavar="ADDRESS", help="compute on the workers of a dask scheduler"
    )


class Job(NamedTuple):
    """The checked arguments of the command."""

    output: Path
    network: Network
    X: np.ndarray | list[np.ndarray]
    Z: np.ndarray | list[np.ndarray] | None
    labels: dict[str, list[Any]]
    """Labels by "X" and "Z"; empty where the files have none"""
    kernel: dict[str, Any]
    """Head, kinds, normalized, dtype and engine, as for `rescntk.gram`"""


def run(options: argparse.Namespace) -> None:
    """Compute the matrix, and write it."""
    output, suffix = options.output, options.output.suffix
    if suffix not in SUFFIXES:
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
        check_writable(file, "output", options.signals, options.others)
    for file in files:
        if file.exists() and not (options.overwrite or _agrees(f"{file} exists: replace it?")):
            raise ValueError(f"output is {file}, which exists: --overwrite replaces it")
    job = _job(options, "float64")
    if suffix == ".npy" and len(job.kernel["kinds"]) > 1:
        raise ValueError(f"output is {output}, which holds one kind: both go into .npz or .zarr")
    results = gram(job.network, job.X, job.Z, **job.kernel, progress=True)
    matrices = dict(zip(job.kernel["kinds"], results, strict=True))
    _SAVERS[suffix](job, matrices)
    shape, dtype = matrices[job.kernel["kinds"][0]].shape, job.kernel["dtype"]
    print(f"written: {output}, {shape[0]} × {shape[1]} {dtype}, of {job.network!r}")


def _job(options: argparse.Namespace, dtype: str) -> Job:
    """Read the signals, and check the arguments; `dtype` is the default."""
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
    given = {"X": X_labels, "Z": Z_labels}
    kernel = {
        "head": options.head,
        "kinds": KINDS if kind == BOTH else (kind,),
        "normalized": options.normalized,
        "dtype": check_choice(options.dtype or dtype, "dtype", DTYPES),
        "engine": options.engine,
    }
    labels = {name: found.tolist() for name, found in given.items() if found is not None}
    return Job(options.output, network, X, Z, labels, kernel)


# ---------------------------------------------------------------- .npy and .npz


def _parameters(job: Job) -> dict[str, Any]:
    """Return what the matrix depends on, and the labels, in JSON's types."""
    described = describe(job.network, job.X, job.Z, depths=None, **job.kernel)
    return described | {"labels": job.labels}


def _save_npy(job: Job, matrices: dict[str, np.ndarray]) -> None:
    """Write the matrix to K.npy, and the parameters to K.json."""
    text = json.dumps(_parameters(job), indent=1) + "\n"
    (matrix,) = matrices.values()
    with _replacing(job.output) as file:
        np.save(file, matrix)
    with _replacing(job.output.with_suffix(".json")) as file:
        file.write(text.encode())


def _save_npz(job: Job, matrices: dict[str, np.ndarray]) -> None:
    """Write the matrices by kind, the text `parameters`, and `labels_X`, `labels_Z` if any."""
    arrays: dict[str, Any] = {"parameters": json.dumps(_parameters(job))} | matrices
    arrays |= {f"labels_{name}": np.array(values) for name, values in job.labels.items()}
    with _replacing(job.output) as file:
        np.savez(file, **arrays)


_SAVERS: dict[str, Callable[[Job, dict[str, np.ndarray]], None]] = {
    ".npy": _save_npy,
    ".npz": _save_npz,
}


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the name `path` once it is complete."""
    path = path.resolve()  # a link stays a link
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _agrees(question: str) -> bool:
    """Return whether a person at a terminal says yes; False where there is no terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# ---------------------------------------------------------------- .zarr


def _store(options: argparse.Namespace) -> None:
    """Compute a Gram of `rescntk.stored`, or go on with it."""
    from . import stored

    output = options.output
    check_no_input(output, "output", options.signals, options.others)
    block = 1024 if options.block is None else check_depth(options.block, "block")
    job = _job(options, "float32")
    if options.overwrite and output.exists():
        stored.remove(output)
    with _client(options) as client:
        K = stored.gram(output, job.network, job.X, job.Z, block=block, client=client, **job.kernel)
    K.label(job.labels)
    print(f"written: {output}, {K.shape[0]} × {K.shape[1]} {job.kernel['dtype']}, of {K.network!r}")


@contextmanager
def _client(options: argparse.Namespace) -> Iterator[Any]:
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
