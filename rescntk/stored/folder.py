"""The folder of a stored Gram: its arrays, its record of finished blocks, writes that last."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

from ..signals import Batch, SignalList
from .blocks import Block, Grid

ATTRIBUTE = "rescntk"
"""Name of the group's attribute that holds the description."""

LABELS = "labels"
"""Name of the group's attribute that holds labels of the signals."""

FORMAT = 1
"""Version of the folder's layout, an integer."""

_SIGNALS_PER_CHUNK = 256
"""Signals in a chunk of the stored signals. A block reads a few chunks; a chunk stays small."""


class Folder:
    """A Zarr group with the arrays of the kinds, the signals, and the record.

    Parameters
    ----------
    path : Path
    writable : bool
        Whether arrays may be changed.
    """

    def __init__(self, path: Path, writable: bool) -> None:
        self.path = path
        self.group = zarr.open_group(path, mode="r+" if writable else "r", zarr_format=3)
        self.description = self._described()
        self.record = path / "record" / "blocks.txt"

    def _described(self) -> dict[str, Any]:
        """Return the description, which is on disk."""
        attributes: Any = self.group.attrs
        return dict(attributes[ATTRIBUTE])

    @property
    def grid(self) -> Grid:
        """The cutting into blocks."""
        X, Z = self.description["X"], self.description["Z"]
        n = X["shape"][0]
        m = n if Z is None else Z["shape"][0]
        return Grid(n, m, self.description["block"], Z is None)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of each kind's array: (n, m) or (n_depths, n, m)."""
        depths = self.description["depths"]
        return (*(() if depths is None else (len(depths),)), self.grid.n, self.grid.m)

    def arrays(self) -> dict[str, Any]:
        """Return the array of each kind."""
        return {kind: self.group[kind] for kind in self.description["kinds"]}

    def signals(self, name: str, rows: slice = slice(None)) -> Batch:
        """Return signals "X" or "Z", some rows or all."""
        array: Any = self.group[name]
        n, _, lengths = self.description[name]["shape"]
        start, stop, _ = rows.indices(n)
        if not isinstance(lengths, list):
            return np.asarray(array[start:stop])
        ends = np.cumsum([0, *lengths])[start : stop + 1]
        pixels = np.asarray(array[:, ends[0] : ends[-1]])
        return SignalList(np.split(pixels, ends[1:-1] - ends[0], axis=1))

    def labels(self) -> dict[str, list[Any]]:
        """Return the labels of the signals by "X" and "Z"; empty if there are none."""
        attributes: Any = self.group.attrs
        return dict(attributes.get(LABELS, {}))

    def keep_labels(self, labels: dict[str, list[Any]]) -> None:
        """Write the labels of the signals, on disk before it returns."""
        self.group.attrs[LABELS] = labels
        synchronize(self.path / "zarr.json")

    # ------------------------------------------------ the record of finished blocks

    def done(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return the corner on disk of each recorded block; the last line of a block counts."""
        found = {}
        for line in self.record.read_text().splitlines(keepends=True):
            words = line.split()
            # A kill may cut the last line: only lines with their end count.
            if line.endswith(";\n") and len(words) == 5 and all(map(str.isdigit, words[:4])):
                row, column, height, width = map(int, words[:4])
                found[row, column] = (height, width)
        return found

    def mark(self, blocks: Iterable[tuple[int, int, int, int]]) -> None:
        """Record blocks (row, column, height, width) as finished, on disk before it returns."""
        lines = "".join("{} {} {} {} ;\n".format(*block) for block in blocks)
        with open(self.record, "ab") as file:
            # A new line first: the last line may have been cut by a kill.
            file.write(b"\n" + lines.encode())
            file.flush()
            os.fsync(file.fileno())

    # ------------------------------------------------ blocks

    def region(self, block: Block, done: bool = False) -> tuple[Any, ...]:
        """Return the index of a block, or of its corner on disk, in the arrays."""
        size = self.description["block"]
        height, width = block[4:6] if done else block[2:4]
        top, left = block.row * size, block.column * size
        return (..., slice(top, top + height), slice(left, left + width))

    def files(self, block: Block) -> list[Path]:
        """Return the chunk files of a block, of all kinds and depths."""
        found = []
        depths = self.description["depths"]
        for kind, array in self.arrays().items():
            for depth in [()] if depths is None else [(t,) for t in range(len(depths))]:
                key = array.metadata.encode_chunk_key((*depth, block.row, block.column))
                found.append(self.path / kind / key)
        return found

    def read_corner(self, block: Block) -> dict[str, np.ndarray]:
        """Return the values on disk of a block by kind; an error if a checksum is wrong."""
        region = self.region(block, done=True)
        return {kind: np.asarray(array[region]) for kind, array in self.arrays().items()}

    def write(self, block: Block, values: dict[str, np.ndarray]) -> None:
        """Write the values of a block by kind, on disk before it returns."""
        if not block.done_height:  # a damaged chunk could not be read by Zarr, nor written
            for file in self.files(block):
                file.unlink(missing_ok=True)
        for kind, array in self.arrays().items():
            array[self.region(block)] = values[kind]
        for file in self.files(block):
            synchronize(file)
            synchronize(file.parent)

    def is_intact(self, block: Block) -> bool:
        """Return True if the values on disk of a block have their checksums and no NaN."""
        try:
            values = self.read_corner(block)
        except Exception:  # Zarr's codecs raise many kinds of errors for files cut short
            return False
        return not any(np.isnan(value).any() for value in values.values())

    # ------------------------------------------------ growth

    def fit_arrays(self) -> None:
        """Give each array the shape of the description; an interrupted `grow` leaves another."""
        for array in self.arrays().values():
            if array.shape != self.shape:
                array.resize(self.shape)

    def grow(self, X_new: Batch, described: dict[str, Any]) -> None:
        """Append signals; the description, which is changed last, makes them valid."""
        signals: Any = self.group["X"]
        values, axis = _pixels(X_new)
        _, _, lengths = self.description["X"]["shape"]  # an interrupted call may have made more
        old = sum(lengths) if axis else self.description["X"]["shape"][0]
        shape = list(signals.shape)
        shape[axis] = old + values.shape[axis]
        signals.resize(tuple(shape))
        signals[(slice(None),) * axis + (slice(old, None),)] = values
        for file in (self.path / "X").rglob("*"):
            synchronize(file)
        self.group.attrs[ATTRIBUTE] = {**self.description, "X": described}
        synchronize(self.path / "zarr.json")
        self.description = self._described()
        self.fit_arrays()


def create(path: Path, description: dict[str, Any], X: Batch, Z: Batch | None) -> None:
    """Make the folder of a computation: complete under another name, then renamed.

    Raises
    ------
    OSError
        If the folder cannot be written, or a folder of the name has appeared in the meantime.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        new.chmod(0o777 & ~_umask())
        group = zarr.open_group(new, mode="w", zarr_format=3)
        for name, signals in (("X", X), ("Z", Z)):
            if signals is not None:
                values, axis = _pixels(signals)
                chunks = list(values.shape)
                part = min(_SIGNALS_PER_CHUNK, len(signals))
                chunks[axis] = -(-chunks[axis] * part // len(signals))
                _new_array(group, name, values.shape, tuple(chunks), "float64")[...] = values
        depths, block = description["depths"], description["block"]
        shape = (len(X), len(X if Z is None else Z))
        for kind in description["kinds"]:
            front = () if depths is None else (len(depths),)
            of_kind = (*(1 for _ in front), block, block)
            _new_array(group, kind, (*front, *shape), of_kind, description["dtype"])
        group.create_group("record")
        (new / "record" / "blocks.txt").touch()
        group.attrs[ATTRIBUTE] = description
        for file in new.rglob("*"):
            synchronize(file)
        os.rename(new, path)
        synchronize(path.parent)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _pixels(signals: Batch) -> tuple[np.ndarray, int]:
    """Return the array that holds signals, and the axis along which it grows.

    An array is (case, channel, pixel). The signals of a list follow one another: (channel, pixel).
    """
    if isinstance(signals, SignalList):
        return np.concatenate(list(signals), axis=1), 1
    return np.asarray(signals), 0


def synchronize(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on disk."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _new_array(group: Any, name: str, shape: Any, chunks: Any, dtype: str) -> Any:
    """Return a new array with NaN where nothing is written, checksums, and no compression."""
    return group.create_array(
        name,
        shape=shape,
        chunks=chunks,
        dtype=dtype,
        fill_value=float("nan"),
        filters=None,
        compressors=[Crc32cCodec()],
    )


def _umask() -> int:
    """Return the process's mask of permissions, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
