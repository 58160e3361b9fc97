"""The folder of a stored Gram: arrays, record of finished blocks, writes that last, lock."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

from ..arrays import Batch, SignalList

DESCRIPTION, LABELS = "rescntk", "labels"
"""Names of the group's attributes: what is computed, and labels of the signals by "X" and "Z"."""

FORMAT = 1
"""Version of the folder's layout, an integer."""

_SIGNALS_PER_CHUNK = 256
"""Signals in a chunk of the stored signals. A block reads a few chunks; a chunk stays small."""


class Block(NamedTuple):
    """A block of a Gram, one chunk of its array, and the corner of the block that is done."""

    row: int
    """Index of the block among the rows of blocks."""
    column: int
    height: int
    """Rows of the block; fewer than the block's size at the lower edge."""
    width: int
    done_height: int = 0
    """The first `done_height` rows and `done_width` columns are on disk."""
    done_width: int = 0

    @property
    def pairs(self) -> int:
        """Number of values missing."""
        return self.height * self.width - self.done_height * self.done_width

    def missing_parts(self, mirrored: bool) -> list[tuple[slice, slice]]:
        """Return the rectangles that are not on disk, as slices within the block.

        If the block is `mirrored` at its diagonal, a part below the diagonal is left out.
        """
        old_rows, new_rows = slice(0, self.done_height), slice(self.done_height, self.height)
        old_columns, new_columns = slice(0, self.done_width), slice(self.done_width, self.width)
        parts = [(old_rows, new_columns), (new_rows, new_columns), (new_rows, old_columns)]
        kept = parts[: 2 if mirrored else 3]
        return [part for part in kept if all(side.stop > side.start for side in part)]


class Folder:
    """A Zarr group with the arrays of the kinds, the signals, and the record."""

    def __init__(self, path: Path, writable: bool = False) -> None:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        self.path, self.record = path, path / "record" / "blocks.txt"
        try:
            self.group: Any = zarr.open_group(path, mode="r+" if writable else "r", zarr_format=3)
            description: Any = self.group.attrs[DESCRIPTION]
            self.description: dict[str, Any] = dict(description)
            if self.description["format"] != FORMAT:
                raise ValueError(f"its format is {self.description['format']}")
            X, Z, depths = (self.description[name] for name in ("X", "Z", "depths"))
            self.is_symmetric = Z is None
            n, m = X["shape"][0], (Z or X)["shape"][0]
            self.shape = (*(() if depths is None else (len(depths),)), n, m)
            self.block_size = self.description["block"]
            self.arrays: dict[str, Any] = {
                kind: self.group[kind] for kind in self.description["kinds"]
            }
        except (FileNotFoundError, NotADirectoryError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is not a Gram of rescntk.stored in format {FORMAT}"
            ) from error
        for array in self.arrays.values():
            if writable and array.shape != self.shape:  # an interrupted `append` leaves another
                array.resize(self.shape)

    def signals(self, name: str, rows: slice = slice(None)) -> Batch:
        """Return signals "X" or "Z", some rows or all."""
        array = self.group[name]
        n, _, lengths = self.description[name]["shape"]
        start, stop, _ = rows.indices(n)
        if not isinstance(lengths, list):
            return np.asarray(array[start:stop])
        ends = np.cumsum([0, *lengths])[start : stop + 1]
        pixels = np.asarray(array[:, ends[0] : ends[-1]])
        return SignalList(np.split(pixels, ends[1:-1] - ends[0], axis=1))

    def keep(self, attribute: str, value: dict[str, Any]) -> None:
        """Write the description or the labels, on disk on return."""
        self.group.attrs[attribute] = value
        synchronize(self.path / "zarr.json")

    def blocks(self) -> list[Block]:
        """Return all blocks, of a symmetric Gram the upper half, with the corners done."""
        # A kill may cut the last line: only lines with their end count.
        lines = re.findall(rb"^(\d+) (\d+) (\d+) (\d+) ;\n", self.record.read_bytes(), re.M)
        numbers = (map(int, line) for line in lines)
        done = {(row, column): corner for row, column, *corner in numbers}  # the last line counts
        found, size, (n, m) = [], self.block_size, self.shape[-2:]
        for row in range(-(-n // size)):
            for column in range(row if self.is_symmetric else 0, -(-m // size)):
                shape = min(size, n - row * size), min(size, m - column * size)
                corner = np.minimum(done.get((row, column), (0, 0)), shape).tolist()
                found.append(Block(row, column, *shape, *corner))
        return found

    def images(self, block: Block) -> list[Block]:
        """Return the block, and its mirror image where a symmetric Gram has another block there."""
        if not self.is_symmetric or block.row == block.column:
            return [block]
        done = block.done_width, block.done_height
        return [block, Block(block.column, block.row, block.width, block.height, *done)]

    def damaged(self) -> list[Block]:
        """Return the recorded blocks with a wrong checksum or a NaN on disk; all are read."""
        recorded = (block for block in self.blocks() if block.done_height)
        return [block for block in recorded if not all(map(self._is_intact, self.images(block)))]

    def mark(self, blocks: Iterable[tuple[int, int, int, int]]) -> None:
        """Record blocks (row, column, height, width) as finished, on disk on return."""
        lines = "".join("{} {} {} {} ;\n".format(*block) for block in blocks)
        with open(self.record, "ab") as file:
            # A new line first: the last line may have been cut by a kill.
            file.write(b"\n" + lines.encode())
            file.flush()
            os.fsync(file.fileno())

    def region(self, block: Block) -> tuple[slice, slice]:
        """Return the rows and columns of a block."""
        top, left = block.row * self.block_size, block.column * self.block_size
        return slice(top, top + block.height), slice(left, left + block.width)

    def read(self, block: Block) -> dict[str, np.ndarray]:
        """Return the values of a block by kind, NaN where they are missing."""
        region = (..., *self.region(block))
        return {kind: np.array(array[region]) for kind, array in self.arrays.items()}

    def write(self, block: Block, values: dict[str, np.ndarray]) -> None:
        """Write the values of a block by kind, and its mirror image, on disk on return."""
        for image in self.images(block):
            for kind, array in self.arrays.items():
                value = values[kind] if image is block else values[kind].swapaxes(-1, -2)
                array[(..., *self.region(image))] = value
            for file in self._files(image):
                synchronize(file)
                synchronize(file.parent)

    def discard(self, block: Block) -> None:
        """Delete a block and its mirror image: Zarr can neither read nor write a damaged chunk."""
        for image in self.images(block):
            for file in self._files(image):
                file.unlink(missing_ok=True)

    def _files(self, block: Block) -> list[Path]:
        """Return the chunk files of a block, of all kinds and depths."""
        return [
            self.path / kind / array.metadata.encode_chunk_key((*depth, block.row, block.column))
            for kind, array in self.arrays.items()
            for depth in np.ndindex(self.shape[:-2])
        ]

    def _is_intact(self, block: Block) -> bool:
        corner = (..., slice(block.done_height), slice(block.done_width))
        try:
            return not any(np.isnan(value[corner]).any() for value in self.read(block).values())
        except Exception:  # Zarr's codecs raise many kinds of errors for files cut short
            return False

    def grow(self, X_new: Batch, described: dict[str, Any]) -> None:
        """Append signals; the description, which is changed last, makes them valid."""
        signals = self.group["X"]
        values, axis = _pixels(X_new)
        n, _, lengths = self.description["X"]["shape"]  # an interrupted call may have made more
        old = sum(lengths) if axis else n
        shape = list(signals.shape)
        shape[axis] = old + values.shape[axis]
        signals.resize(tuple(shape))
        signals[(slice(None),) * axis + (slice(old, None),)] = values
        for file in (self.path / "X").rglob("*"):
            synchronize(file)
        self.keep(DESCRIPTION, {**self.description, "X": described})


def create(path: Path, description: dict[str, Any], X: Batch, Z: Batch | None) -> None:
    """Make the folder of a computation: complete under another name, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = hidden(path)
    try:
        group = zarr.open_group(new, mode="w", zarr_format=3)
        # NaN where nothing is written, checksums, no compression.
        options: Any = {"fill_value": float("nan"), "filters": None, "compressors": [Crc32cCodec()]}
        for name, signals in (("X", X), ("Z", Z)):
            if signals is not None:
                values, axis = _pixels(signals)
                chunks = list(values.shape)
                part = min(_SIGNALS_PER_CHUNK, len(signals))
                chunks[axis] = -(-chunks[axis] * part // len(signals))
                group.create_array(name, data=values, chunks=tuple(chunks), **options)
        depths, block = description["depths"], description["block"]
        shape, chunks = [len(X), len(X if Z is None else Z)], [block, block]
        if depths is not None:
            shape, chunks = [len(depths), *shape], [1, *chunks]
        options |= {"shape": shape, "chunks": chunks, "dtype": description["dtype"]}
        for kind in description["kinds"]:
            group.create_array(kind, **options)
        group.create_group("record")
        (new / "record" / "blocks.txt").touch()
        group.attrs[DESCRIPTION] = description
        for file in new.rglob("*"):
            synchronize(file)
        os.rename(new, path)
        synchronize(path.parent)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def hidden(path: Path) -> Path:
    """Return a new name beside a folder: what is under it is no Gram yet, or no more."""
    return path.with_name(f".{path.name}.{uuid4().hex}")


def synchronize(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on disk."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _pixels(signals: Batch) -> tuple[np.ndarray, int]:
    """Return the array that holds signals, and the axis along which it grows.

    An array is (case, channel, pixel). The signals of a list follow one another: (channel, pixel).
    """
    if isinstance(signals, SignalList):
        return np.concatenate(list(signals), axis=1), 1
    return np.asarray(signals), 0


if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> None:
        os.lseek(handle, 1 << 30, os.SEEK_SET)  # others may still read the names in the file
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, a file that names host and process: one job computes at a time.

    The operating system frees the lock of a process that ends. Hosts of a network file system
    may not see each other's locks: a job of another host counts as running.
    """
    path, host = folder / "record" / "lock", socket.gethostname()
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+") as file:
        is_free, other_host, pid = False, None, None
        with suppress(BlockingIOError, PermissionError):
            _take(file.fileno())
            is_free = True
        with suppress(KeyError, TypeError, ValueError):  # nobody, or a kill has cut the file
            file.seek(0)
            holder = json.load(file)
            other_host, pid = holder["host"], holder["pid"]
        if not is_free or other_host not in (None, host):
            raise RuntimeError(
                f"{folder} is being computed by process {pid} on {other_host}; "
                f"if no such job runs, delete {path}"
            )

        file.seek(0)
        file.truncate()
        file.write(json.dumps({"host": host, "pid": os.getpid()}))
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
            if sys.platform != "win32":
                fcntl.flock(file, fcntl.LOCK_UN)  # children that this process forked hold it, too
