"""The jobs of a stored Gram: a block computed and written, in this process or by dask's workers."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .._version import __version__
from ..kernels import gram
from ..kernels.description import OPTIONS, RECURSION, network_of
from .folder import Block, Folder, checksum

_AHEAD = 2
"""Blocks handed to the scheduler for each thread: one to compute and one to go on with."""


def compute_block(path: Path, block: Block, threads: int | None) -> tuple[int, ...]:
    """Compute the missing values of a block, and write its chunks, on disk on return."""
    folder = Folder(path, writable=True, links_checked=True)
    description = folder.description
    check_version(path, description)
    is_diagonal = folder.is_symmetric and block.row == block.column
    if not block.done_height:
        folder.discard(block)
    rows, columns = folder.region(block)
    left = folder.signals("X", rows)
    right = left if is_diagonal else folder.signals("X" if folder.is_symmetric else "Z", columns)
    values = folder.read(block)
    for rows, columns in block.missing_parts(mirrored=is_diagonal):
        is_square = is_diagonal and rows == columns
        found: Any = gram(
            network_of(description),
            left[rows],
            None if is_square else right[columns],
            **{name: description[name] for name in OPTIONS},
            threads=threads,
        )
        for kind, value in found._asdict().items():
            values[kind][..., rows, columns] = value
            if is_diagonal and not is_square:
                values[kind][..., columns, rows] = value.swapaxes(-1, -2)
    folder.write(block, values)
    return (*block[:4], checksum(block, values))


def check_version(path: Path, description: dict[str, Any]) -> None:
    """Raise a ValueError if this version of rescntk computes other bits than a Gram has."""
    here = {"version": __version__, "recursion": RECURSION}
    there = {name: description[name] for name in here}
    if here != there:
        raise ValueError(f"rescntk here is {here}, expected {there} as in {path}")


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


def finished(
    client: Any, path: Path, blocks: Iterable[Block], threads: int | None
) -> Generator[tuple[int, ...], None, None]:
    """Compute blocks in this process, or on a client's workers; yield what `mark` records."""
    if client is None:
        for block in blocks:
            yield compute_block(path, block, threads)
        return
    from distributed import KilledWorker, as_completed

    waiting, futures = iter(blocks), as_completed()
    running: dict[str, Any] = {}
    try:
        while True:
            workers = client.nthreads()
            most = max(1, _AHEAD * sum(workers.values()))
            for block in islice(waiting, max(0, most - len(running))):
                future = client.submit(_on_worker, path, block, threads, workers, pure=False)
                running[future.key] = future
                futures.add(future)
            if not running:
                return
            future = next(futures)
            try:
                yield running.pop(future.key).result()
            except KilledWorker as error:
                raise RuntimeError(
                    f"a block has killed several workers, expected enough memory for one block "
                    f"each (smaller blocks take less): {error}"
                ) from error
    finally:
        client.cancel(list(running.values()))


def _on_worker(
    path: Path, block: Block, threads: int | None, workers: dict[str, int]
) -> tuple[int, ...]:
    """Compute a block on a worker, with its share of the host's cores."""
    from dask.system import CPU_COUNT
    from distributed import get_worker

    here = get_worker()
    workers = workers | {here.address: here.state.nthreads}  # it may be new
    return compute_block(path, block, threads_for_task(here.address, workers, CPU_COUNT, threads))


def threads_for_task(address: str, workers: dict[str, int], cores: int, threads: int | None) -> int:
    """Return the engine's threads for a worker's task, so that the host's cores suffice for all.

    `workers` has the number of dask's threads by address, such as "tcp://10.0.0.1:1234".
    """
    hosts = [urlsplit(worker).hostname for worker in workers]
    here = urlsplit(address).hostname
    tasks = sum(count for host, count in zip(hosts, workers.values(), strict=True) if host == here)
    most = max(1, cores // tasks)
    return most if threads is None else min(threads, most)
