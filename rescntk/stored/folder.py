"""The folder of a stored Gram: arrays, record of finished blocks, writes that last, lock."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

from ..arrays import Batch, SignalList
from ..kernels.description import describe_signals

DESCRIPTION, LABELS = "rescntk", "labels"
"""Names of the group's attributes: what is computed, and labels of the signals by "X" and "Z"."""

FORMAT = 1
"""Version of the folder's layout, an integer."""

_SIGNALS_PER_CHUNK = 256
"""Signals in a chunk of the stored signals. A block reads a few chunks; a chunk stays small."""

_LAYOUT: Any = {"fill_value": float("nan"), "filters": None, "compressors": [Crc32cCodec()]}
"""NaN where nothing is written, checksums, no compression."""

_UNREADABLE = OSError, LookupError, AttributeError, TypeError, ValueError, RecursionError
"""Errors of reading a file that is missing, damaged or of another kind."""


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
    checksum: int = -1
    """`checksum` of the values done, -1 in a record of before."""

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
        self.path, self.record, place = path, path / "record" / "blocks.txt", path / "zarr.json"
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
            if not all(type(count) is int and count > 0 for count in (n, m, self.block_size)):
                raise ValueError(f"its shape is {n} × {m} in blocks of {self.block_size}")
            self.arrays: dict[str, Any] = {}
            for kind in self.description["kinds"]:
                place = path / kind / "zarr.json"
                self.arrays[kind] = self.group[kind]
            place = self.record
            place.open("rb").close()
        except _UNREADABLE as error:
            if isinstance(error, PermissionError):
                raise
            raise ValueError(
                f"{path} is not a Gram of rescntk.stored in format {FORMAT}: "
                f"{place}: {type(error).__name__}: {error}"
            ) from error
        for kind, array in self.arrays.items():
            if writable and array.shape != self.shape:  # an interrupted `append` leaves another
                array.resize(self.shape)
                synchronize_all(path / kind / "zarr.json", path / kind)

    def signals(self, name: str, rows: slice = slice(None)) -> Batch:
        """Return signals "X" or "Z", some rows or all."""
        array = self.group[name]
        n, *_, lengths = self.description[name]["shape"]
        start, stop, _ = rows.indices(n)
        if not isinstance(lengths, list):
            return np.asarray(array[start:stop])
        ends = np.cumsum([0, *lengths])[start : stop + 1]
        pixels = np.asarray(array[:, ends[0] : ends[-1]])
        return SignalList(np.split(pixels, ends[1:-1] - ends[0], axis=1))

    def keep(self, attribute: str, value: dict[str, Any]) -> None:
        """Write the description or the labels, on disk on return."""
        self.group.attrs[attribute] = value
        synchronize_all(self.path / "zarr.json", self.path)

    def holds(self, name: str) -> bool:
        """Return whether signals "X" or "Z", if any, have the hash in the description."""
        with suppress(Exception):  # as in `_is_intact`
            described = self.description[name]
            return described is None or describe_signals(self.signals(name)) == described
        return False

    def check_signals(self, known: dict[str, Any]) -> None:
        """Repair signals that are damaged on disk from the `known` "X" and "Z", or refuse them."""
        for name in ("X", "Z"):
            if self.holds(name):
                continue
            described = name in known and describe_signals(known[name])
            if described != self.description[name]:
                raise ValueError(f"{self.path / name} is damaged: stored.gram mends it from {name}")
            _store(self.group, name, known[name], overwrite=True)
            synchronize_all(self.path, self.path / name, *(self.path / name).rglob("*"))

    def blocks(self) -> list[Block]:
        """Return all blocks, of a symmetric Gram the upper half, with the corners done."""
        # A kill may cut the last line: only lines with their end count.
        line = rb"^" + rb"(\d{1,9}) " * 4 + rb"(?:(\d{1,10}) )?;\n"  # some have no checksum
        lines = re.findall(line, self.record.read_bytes(), re.M)
        numbers = ([int(number or -1) for number in line] for line in lines)
        done = {(row, column): state for row, column, *state in numbers}  # the last line counts
        found, size, (n, m) = [], self.block_size, self.shape[-2:]
        for row in range(-(-n // size)):
            for column in range(row if self.is_symmetric else 0, -(-m // size)):
                shape = min(size, n - row * size), min(size, m - column * size)
                height, width, known = done.get((row, column), (0, 0, -1))
                corner = min(height, shape[0]), min(width, shape[1])
                found.append(Block(row, column, *shape, *corner, known))
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
        return [block for block in recorded if not self._is_intact(block)]

    def mark(self, blocks: Iterable[tuple[int, ...]]) -> None:
        """Record blocks (row, column, height, width, checksum) as finished, on disk on return."""
        lines = "".join("{} {} {} {} {} ;\n".format(*block) for block in blocks)
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
                synchronize_all(file, *file.parents[: len(self.shape) + 1])  # up to the array

    def discard(self, block: Block) -> None:
        """Delete a block and its mirror image: Zarr can neither read nor write a damaged chunk."""
        for image in self.images(block):
            for file in self._files(image):
                _check_file(file)
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
        for image in self.images(block):
            try:
                found = self.read(image)
            except Exception:  # Zarr's codecs raise many kinds of errors for files cut short
                return False
            if image is not block:
                found = {kind: value.swapaxes(-1, -2) for kind, value in found.items()}
            values = {kind: value[corner] for kind, value in found.items()}
            is_known = block.checksum in (-1, checksum(block, values))
            if not is_known or any(np.isnan(value).any() for value in values.values()):
                return False
        return True

    def grow(self, X_new: Batch, described: dict[str, Any]) -> None:
        """Append signals; the description, which is changed last, makes them valid."""
        signals = self.group["X"]
        values, axis = _pixels(X_new)
        n, *_, lengths = self.description["X"]["shape"]  # an interrupted call may have made more
        old = sum(lengths) if axis else n
        signals.resize((*signals.shape[:axis], old, *signals.shape[axis + 1 :]))
        signals.append(values, axis=axis)
        synchronize_all(self.path / "X", *(self.path / "X").rglob("*"))
        self.keep(DESCRIPTION, {**self.description, "X": described})


def create(
    path: Path, description: dict[str, Any], X: Batch, Z: Batch | None, *, overwrite: bool
) -> None:
    """Make the folder of a computation: complete under another name, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = hidden(path)
    try:
        group = zarr.open_group(new, mode="w", zarr_format=3)
        for name, signals in (("X", X), ("Z", Z)):
            if signals is not None:
                _store(group, name, signals)
        depths, block = description["depths"], description["block"]
        shape, chunks = [len(X), len(X if Z is None else Z)], [block, block]
        if depths is not None:
            shape, chunks = [len(depths), *shape], [1, *chunks]
        options = _LAYOUT | {"shape": shape, "chunks": chunks, "dtype": description["dtype"]}
        for kind in description["kinds"]:
            group.create_array(kind, **options)
        group.create_group("record")
        (new / "record" / "blocks.txt").touch()
        group.attrs[DESCRIPTION] = description
        synchronize_all(new, *new.rglob("*"))
        old = _set_aside(path) if overwrite and path.exists() else None
        os.rename(new, path)
        synchronize_all(path.parent)
        if old is not None:
            shutil.rmtree(old)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def remove(path: str | os.PathLike[str]) -> None:
    """Delete a stored Gram, complete or not; a RuntimeError is raised while a job computes it.

    Parameters
    ----------
    path : path
        As for `open`, and damaged records do not matter. Folders without the description of a
        stored Gram are left alone.

    Examples
    --------
    >>> from rescntk import stored
    >>> stored.remove("K.zarr")  # doctest: +SKIP
    """
    shutil.rmtree(_set_aside(Path(path).resolve()))


def _set_aside(path: Path) -> Path:
    """Give a Gram another name, and return it: a folder of which a part is deleted is no Gram."""
    described = None
    with suppress(*_UNREADABLE):
        described = json.loads((path / "zarr.json").read_bytes())["attributes"][DESCRIPTION]
        described = {"format", "recursion", "network", "X"} <= described.keys()
    if not described:
        Folder(path)  # says what it is not
    if (path / "record" / "lock").is_file():  # else no job holds it
        with locked(path):
            pass
    return path.rename(hidden(path))


def hidden(path: Path) -> Path:
    """Return a new name beside a folder: what is under it is no Gram yet, or no more."""
    return path.with_name(f".{path.name}.{uuid4().hex}")


def synchronize_all(*paths: Path) -> None:
    """Wait until files, and folders' lists of files, are on disk."""
    for path in paths:
        if path.is_dir() and os.name == "nt":  # Windows cannot open folders
            continue
        handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def checksum(block: Block, values: dict[str, np.ndarray]) -> int:
    """Return the CRC-32 of a block's place and values: exchanged chunks show."""
    found = zlib.crc32(f"{block.row} {block.column}".encode())
    for _, value in sorted(values.items()):
        found = zlib.crc32(np.ascontiguousarray(value, value.dtype.newbyteorder("<")).data, found)
    return found


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise ValueError(f"{path} is a folder, expected a file: delete it")


def _store(group: Any, name: str, signals: Batch, **options: Any) -> None:
    values, axis = _pixels(signals)
    chunks = list(values.shape)
    part = min(_SIGNALS_PER_CHUNK, len(signals))
    chunks[axis] = -(-chunks[axis] * part // len(signals))
    group.create_array(name, data=values, chunks=tuple(chunks), **_LAYOUT, **options)


def _pixels(signals: Batch) -> tuple[np.ndarray, int]:
    """Return the array that holds signals, and the axis along which it grows.

    An array is (case, channel, pixel), of images (case, channel, line, pixel). The signals of a
    list follow one another: (channel, pixel).
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
    _check_file(path)
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+") as file:
        is_free, other_host, pid = False, None, None
        with suppress(BlockingIOError, PermissionError):
            _take(file.fileno())
            is_free = True
        with suppress(*_UNREADABLE):  # nobody, or a kill has cut the file
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
