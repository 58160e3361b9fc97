"""The jobs of a stored Gram: a block computed and written, in this process or by dask's workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..kernels import gram
from ..kernels.description import OPTIONS, RECURSION, network_of
from .folder import Block, Folder


def compute_block(path: Path, block: Block, threads: int | None) -> None:
    """Compute the missing values of a block, and write its chunks."""
    folder = Folder(path, writable=True, links_checked=True)
    description = folder.description
    check_version(path, description)
    is_diagonal = folder.is_symmetric and block[0] == block[1]
    rows, columns = folder.region(block)
    left = folder.signals("X", rows)
    right = left if is_diagonal else folder.signals("X" if folder.is_symmetric else "Z", columns)
    values = folder.read(block)
    for rows, columns in missing_parts(values, is_diagonal):
        is_square = is_diagonal and rows == columns
        kernels: Any = gram(
            network_of(description),
            left[rows],
            None if is_square else right[columns],
            **{name: description[name] for name in OPTIONS},
            threads=threads,
        )
        for kind, value in kernels._asdict().items():
            values[kind][..., rows, columns] = value
            if is_diagonal and not is_square:
                values[kind][..., columns, rows] = value.swapaxes(-1, -2)
    folder.write(block, values)


def missing_parts(values: dict[str, np.ndarray], mirrored: bool) -> list[tuple[slice, slice]]:
    """Return the rectangles beside the corner of a block that is known, as slices within it.

    Signals that are appended leave a known corner. If the block is `mirrored` at its diagonal, the
    part below the diagonal is left out.
    """
    lacking = [
        np.isnan(value).reshape(-1, *value.shape[-2:]).any(axis=0) for value in values.values()
    ]
    known = ~np.logical_or.reduce(lacking)
    height, width = int(known[:, 0].sum()), int(known[0].sum())
    if not known[:height, :width].all():
        height = width = 0
    old_rows, new_rows = slice(0, height), slice(height, known.shape[0])
    old_columns, new_columns = slice(0, width), slice(width, known.shape[1])
    parts = [(old_rows, new_columns), (new_rows, new_columns), (new_rows, old_columns)]
    kept = parts[: 2 if mirrored else 3]
    return [part for part in kept if all(side.stop > side.start for side in part)]


def check_version(path: Path, description: dict[str, Any]) -> None:
    """Raise a ValueError if this version of rescntk computes other bits than a Gram has."""
    this = {"version": __version__, "recursion": RECURSION}
    computed = {name: description[name] for name in this}
    if this != computed:
        raise ValueError(f"rescntk here is {this}, expected {computed} as in {path}")


def check_client(client: Any) -> None:
    """Raise a ValueError if `client` is not None, or a client of dask that runs."""
    if client is None:
        return
    from distributed import Client

    if not isinstance(client, Client) or client.asynchronous:
        raise ValueError(f"client is {client!r}, expected a dask.distributed.Client")
    if client.status != "running":
        raise ValueError(f"client is {client.status}, expected a running dask.distributed.Client")
    client.nthreads()  # raises if the scheduler is lost


def compute(
    client: Any, path: Path, blocks: list[Block], threads: int | None, tick: Callable[[int], None]
) -> None:
    """Compute blocks in this process, or on a client's workers; `tick` counts those that are done.

    Dask decides how many tasks a worker has at a time: a task has one thread, unless `threads`
    are given.
    """
    if client is None:
        for block in blocks:
            compute_block(path, block, threads)
            tick(1)
        return
    from distributed import KilledWorker, as_completed

    tasks = [
        client.submit(compute_block, path, block, threads or 1, pure=False) for block in blocks
    ]
    try:
        for task in as_completed(tasks):
            task.result()
            tick(1)
    except KilledWorker as error:
        raise RuntimeError(
            f"a block has killed several workers, expected enough memory for one block each "
            f"(smaller blocks take less): {error}"
        ) from error
    finally:
        client.cancel(tasks)
