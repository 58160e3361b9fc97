"""The jobs of a stored Gram: a block computed and written, in this process or by dask's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from .._version import __version__
from ..description import RECURSION, network_of
from ..kernels import gram
from .blocks import Block, missing_parts
from .folder import Folder

_AHEAD = 2
"""Blocks handed to the scheduler for each thread of the workers.

Raising it hides longer delays between scheduler and workers, and cancels more on an error.
Chosen by reasoning: a worker needs one block to compute and one to go on with.
"""


def compute_block(path: Path, block: Block, threads: int | None) -> None:
    """Compute the missing values of a block, and write its chunks, on disk on return.

    The signals are read from the folder: 2·block of them.
    """
    folder = Folder(path, writable=True)
    description = folder.description
    here = {"version": __version__, "recursion": RECURSION}
    if any(description[name] != value for name, value in here.items()):
        there = {name: description[name] for name in here}
        raise ValueError(f"rescntk here is {here}, expected {there} as in {path}")
    symmetric = folder.grid.symmetric
    diagonal = symmetric and block.row == block.column
    _, rows, columns = folder.region(block)
    left = folder.signals("X", rows)
    right = left if diagonal else folder.signals("X" if symmetric else "Z", columns)
    values = _with_corner(folder, block)
    for rows, columns in missing_parts(block, symmetric):
        same = diagonal and rows == columns
        found: Any = gram(
            network_of(description),
            left[rows],
            None if same else right[columns],
            head=description["head"],
            kinds=description["kinds"],
            depths=description["depths"],
            normalized=description["normalized"],
            engine=description["engine"],
            dtype=description["dtype"],
            threads=threads,
        )
        for kind, value in found._asdict().items():
            values[kind][..., rows, columns] = value
            if diagonal and not same:
                values[kind][..., columns, rows] = value.swapaxes(-1, -2)
    folder.write(block, values)
    if symmetric and not diagonal:
        mirror = {kind: value.swapaxes(-1, -2) for kind, value in values.items()}
        folder.write(transposed(block), mirror)


def transposed(block: Block) -> Block:
    """Return the mirror image of a block."""
    return Block(
        block.column, block.row, block.width, block.height, block.done_width, block.done_height
    )


def run_here(
    path: Path, blocks: Iterable[Block], threads: int | None, finish: Callable[[Block], None]
) -> None:
    """Compute blocks one after the other in this process."""
    for block in blocks:
        compute_block(path, block, threads)
        finish(block)


def run_on(
    client: Any,
    path: Path,
    blocks: Iterable[Block],
    threads: int | None,
    finish: Callable[[Block], None],
) -> None:
    """Compute blocks on the workers of a dask.distributed.Client.

    The scheduler moves indices alone: workers read signals and write chunks themselves. It gives
    the blocks of a lost worker to other workers.
    """
    from distributed import KilledWorker, as_completed

    waiting, running = iter(blocks), {}
    finished = as_completed()

    def submit(block: Block, slots: dict[str, int]) -> None:
        future = client.submit(_on_worker, path, block, threads, slots, pure=False)
        running[future.key] = (block, future)
        finished.add(future)

    def refill() -> None:
        slots = threads_by_host(client.nthreads())
        most = max(1, _AHEAD * sum(slots.values()))
        while len(running) < most and (block := next(waiting, None)) is not None:
            submit(block, slots)

    refill()
    try:
        for future in finished:
            try:
                future.result()
            except KilledWorker as error:
                raise RuntimeError(
                    f"a block has killed several workers, expected enough memory for one block "
                    f"each (smaller blocks take less): {error}"
                ) from error
            finish(running.pop(future.key)[0])
            refill()
    finally:
        client.cancel([future for _, future in running.values()])


def threads_by_host(workers: dict[str, int]) -> dict[str, int]:
    """Return the number of dask's threads on each host, given the number of each worker."""
    found: dict[str, int] = {}
    for address, count in workers.items():
        found[host(address)] = found.get(host(address), 0) + count
    return found


def host(address: str) -> str:
    """Return the host of a worker's address, such as "tcp://10.0.0.1:1234"."""
    return urlsplit(address).hostname or address


def threads_for_task(cores: int, tasks: int, threads: int | None) -> int:
    """Return the engine's threads for one of `tasks` at a time, so that cores suffice for all."""
    most = max(1, cores // max(1, tasks))
    return most if threads is None else min(threads, most)


def _on_worker(path: Path, block: Block, threads: int | None, slots: dict[str, int]) -> None:
    """Compute a block on a worker, with its share of the host's cores."""
    from dask.system import CPU_COUNT
    from distributed import get_worker

    worker = get_worker()
    tasks = max(slots.get(host(worker.address), 0), worker.state.nthreads)
    compute_block(path, block, threads_for_task(CPU_COUNT, tasks, threads))


def _with_corner(folder: Folder, block: Block) -> dict[str, np.ndarray]:
    """Return arrays for a block's values by kind, with the values on disk in their corner."""
    shape = (*folder.shape[:-2], block.height, block.width)
    dtype = folder.description["dtype"]
    values = {kind: np.empty(shape, dtype) for kind in folder.description["kinds"]}
    if block.done_height:
        for kind, corner in folder.read_corner(block).items():
            values[kind][..., : block.done_height, : block.done_width] = corner
    return values


def intact(folder: Folder, blocks: Iterable[Block]) -> Iterator[tuple[Block, bool]]:
    """Yield the blocks with values on disk, and whether all their checksums are right."""
    for block in blocks:
        if block.done_height:
            mirrored = folder.grid.symmetric and block.row != block.column
            images = [block, transposed(block)] if mirrored else [block]
            yield block, all(folder.is_intact(image) for image in images)
