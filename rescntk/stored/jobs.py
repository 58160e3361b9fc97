"""The jobs of a stored Gram: a block computed and written, in this process or by dask's workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .._version import __version__
from ..kernels import gram
from ..kernels.description import OPTIONS, RECURSION, network_of
from .folder import Block, Folder

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
    is_diagonal = folder.is_symmetric and block.row == block.column
    is_mirrored = folder.is_symmetric and not is_diagonal
    if not block.done_height:
        for image in [block, block.transposed()] if is_mirrored else [block]:
            folder.discard(image)
    rows, columns = folder.region(block)
    left = folder.signals("X", rows)
    right = left if is_diagonal else folder.signals("X" if is_mirrored else "Z", columns)
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
    if is_mirrored:
        mirror = {kind: value.swapaxes(-1, -2) for kind, value in values.items()}
        folder.write(block.transposed(), mirror)


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

    waiting = iter(blocks)
    running: dict[str, tuple[Block, Any]] = {}
    finished = as_completed()

    def refill() -> None:
        slots = threads_by_host(client.nthreads())
        most = max(1, _AHEAD * sum(slots.values()))
        while len(running) < most and (block := next(waiting, None)) is not None:
            future = client.submit(_on_worker, path, block, threads, slots, pure=False)
            running[future.key] = (block, future)
            finished.add(future)

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


def threads_by_host(workers: dict[str, int]) -> Counter[str]:
    """Return the number of dask's threads on each host, given the number of each worker."""
    found: Counter[str] = Counter()
    for address, count in workers.items():
        found[_host(address)] += count
    return found


def threads_for_task(cores: int, tasks: int, threads: int | None) -> int:
    """Return the engine's threads for one of `tasks` at a time, so that cores suffice for all."""
    most = max(1, cores // max(1, tasks))
    return most if threads is None else min(threads, most)


def _on_worker(path: Path, block: Block, threads: int | None, slots: Counter[str]) -> None:
    """Compute a block on a worker, with its share of the host's cores."""
    from dask.system import CPU_COUNT
    from distributed import get_worker

    worker = get_worker()
    tasks = max(slots[_host(worker.address)], worker.state.nthreads)
    compute_block(path, block, threads_for_task(CPU_COUNT, tasks, threads))


def _host(address: str) -> str:
    """Return the host of a worker's address, such as "tcp://10.0.0.1:1234"."""
    return urlsplit(address).hostname or address
