"""The folder of a stored Gram: a Zarr group with description, signals, kernels, finished blocks.

Zarr writes each chunk under another name, renames it, and checks its CRC-32C when it is read: a
chunk that can be read is whole. A Gram may come from elsewhere: a link in it could lead a write to
a file outside, and a named pipe could make a call wait forever. Folders with either are refused.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

from ..arrays import Batch, SignalList
from ..kernels.description import check_description, describe_signals
from ..validation import check_depth, check_free_memory

DESCRIPTION, LABELS = "rescntk", "labels"
"""Names of the group's attributes: what is computed, and labels of the signals by "X" and "Z"."""

FORMAT = 2
"""Version of the folder's layout, an integer."""

_SIGNALS_PER_CHUNK = 256
"""Signals in a chunk of the stored signals. A block reads a few chunks; a chunk stays small."""

_LAYOUT: Any = {"filters": None, "compressors": [Crc32cCodec()]}
"""Checksums, and no compression: last digits are random."""

_LARGEST_BLOCK = 1 << 16
"""Most rows of a block: one chunk has 17 GB in float32, for any number of signals."""

_MOST_BLOCKS = 1 << 22
"""Most blocks of a Gram. Raising it makes lists of blocks that fill the memory."""

_MARKS = 4096
"""Blocks of a row whose marks share a file, of 32 kB. A mark rewrites it; more make it longer."""


class Block(NamedTuple):
    """A block of a Gram: one chunk of each kind and depth, and its corner that is on disk."""

    row: int
    column: int  # its place among the blocks
    height: int
    width: int  # fewer than the block's size at the lower and the right edge
    done_height: int = 0
    done_width: int = 0

    @property
    def is_done(self) -> bool:
        return (self.done_height, self.done_width) == (self.height, self.width)

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
    """A group with the arrays of the kinds, the signals X and Z, and the finished blocks `done`.

    Nothing is written unless asked for. Links are looked for unless they are known to be absent.
    """

    def __init__(self, path: Path, writable: bool = False, links_checked: bool = False) -> None:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        self.path = path
        if not links_checked:
            refuse_links(path)
        try:
            mode: Any = "r+" if writable else "r"
            self.group: Any = zarr.open_group(
                path, mode=mode, zarr_format=3, use_consolidated=False
            )
            self.description = read_description(self.group)
            self.is_symmetric = self.description["Z"] is None
            self.shape, chunks = layout(self.description)
            self.arrays = {kind: self.group[kind] for kind in self.description["kinds"]}
            self._done = self.group["done"]
            for kind, array in self.arrays.items():
                self._check_array(kind, array, chunks)
        except Exception as error:  # Zarr raises many kinds of errors for damaged files
            if isinstance(error, PermissionError):
                raise
            raise ValueError(
                f"{path} is not a Gram of rescntk.stored in format {FORMAT}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _check_array(self, kind: str, array: Any, chunks: tuple[int, ...]) -> None:
        """Raise a ValueError unless an array fits the description.

        An interrupted `append` leaves fewer rows and columns than are described.
        """
        made = (array.chunks, array.dtype.name, array.metadata.codecs[-1].to_dict()["name"])
        expected = (chunks, self.description["dtype"], "crc32c")
        fits = len(array.shape) == len(self.shape) and all(map(int.__le__, array.shape, self.shape))
        if made != expected or not fits or (array.shape != self.shape and not self.holds("X")):
            raise ValueError(
                f"{kind} has shape {array.shape}, and chunks, dtype and last codec {made}, "
                f"expected {self.shape} and {expected}"
            )

    # -- signals

    def signals(self, name: str, rows: slice = slice(None)) -> Batch:
        """Return signals "X" or "Z", some rows or all."""
        array, (n, *_, lengths) = self.group[name], self.description[name]["shape"]
        start, stop, _ = rows.indices(n)
        if not isinstance(lengths, list):
            return np.asarray(array[start:stop])
        ends = np.cumsum([0, *lengths])[start : stop + 1]
        pixels = np.asarray(array[:, ends[0] : ends[-1]])
        return SignalList(np.split(pixels, ends[1:-1] - ends[0], axis=1))

    def holds(self, name: str) -> bool:
        """Return whether signals "X" or "Z", if any, have the hash in the description."""
        with suppress(Exception):
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
                raise ValueError(
                    f"{self.path / name} is damaged: stored.gram repairs it from {name}"
                )
            store_signals(self.group, name, known[name], overwrite=True)

    def grow(self, X_new: Batch, described: dict[str, Any]) -> None:
        """Append signals, which the description, changed after them, makes valid."""
        signals = self.group["X"]
        values, axis = _pixels(X_new)
        n, *_, lengths = self.description["X"]["shape"]  # an interrupted call may have made more
        old = sum(lengths) if axis else n
        signals.resize((*signals.shape[:axis], old, *signals.shape[axis + 1 :]))
        signals.append(values, axis=axis)
        self.description = self.description | {"X": described}
        self.group.attrs[DESCRIPTION] = self.description
        self.shape, _ = layout(self.description)

    # -- blocks

    def blocks(self) -> list[Block]:
        """Return all blocks, of a symmetric Gram the upper half, with their corners on disk."""
        size, (n, m) = self.description["block"], self.shape[-2:]
        counts = -(-n // size), -(-m // size)
        done = np.zeros((*counts, 2), int)
        rows, columns = (min(pair) for pair in zip(counts, self._done.shape, strict=False))
        done[:rows, :columns] = self._done[:rows, :columns]
        return [
            Block(row, column, *shape, *map(min, shape, done[row, column].tolist()))
            for row in range(counts[0])
            for column in range(row if self.is_symmetric else 0, counts[1])
            for shape in [(min(size, n - row * size), min(size, m - column * size))]
        ]

    def resize(self) -> None:
        """Give the arrays the described shape."""
        for array in self.arrays.values():
            if array.shape != self.shape:
                array.resize(self.shape)
        counts = _counts(self.description)
        if self._done.shape[:2] != counts:
            self._done.resize((*counts, 2))

    def mark(self, block: Block, height: int, width: int) -> None:
        """Note which corner of a block is on disk."""
        self._done[block.row, block.column] = height, width

    def images(self, block: Block) -> list[Block]:
        """Return the block, and its mirror image where a symmetric Gram has another block there."""
        if not self.is_symmetric or block.row == block.column:
            return [block]
        row, column, height, width, *done = block
        return [block, Block(column, row, width, height, *reversed(done))]

    def region(self, block: Block) -> tuple[slice, slice]:
        """Return the rows and columns of a block."""
        top, left = (self.description["block"] * place for place in block[:2])
        return slice(top, top + block.height), slice(left, left + block.width)

    def read(self, block: Block) -> dict[str, np.ndarray]:
        """Return the values of a block by kind, NaN where they are missing."""
        region = (..., *self.region(block))
        return {kind: np.array(array[region]) for kind, array in self.arrays.items()}

    def write(self, block: Block, values: dict[str, np.ndarray]) -> None:
        """Write the values of a block by kind, and its mirror image."""
        for image in self.images(block):
            for kind, array in self.arrays.items():
                value = values[kind] if image is block else values[kind].swapaxes(-1, -2)
                array[(..., *self.region(image))] = value

    def discard(self, block: Block) -> None:
        """Delete a block and its mirror image: Zarr can neither read nor write a damaged chunk."""
        for image in self.images(block):
            for kind, array in self.arrays.items():
                for depth in np.ndindex(self.shape[:-2]):
                    key = array.metadata.encode_chunk_key((*depth, *image[:2]))
                    (self.path / kind / key).unlink(missing_ok=True)

    def damaged(self) -> list[Block]:
        """Return the blocks on disk that cannot be read, or have a NaN; all are read."""
        return [block for block in self.blocks() if block.done_height and self._is_damaged(block)]

    def _is_damaged(self, block: Block) -> bool:
        try:
            return any(
                bool(np.isnan(values[..., : image.done_height, : image.done_width]).any())
                for image in self.images(block)
                for values in self.read(image).values()
            )
        except Exception:  # Zarr's codecs raise many kinds of errors
            return True


def refuse_links(root: Path) -> None:
    """Raise a ValueError at anything in a folder that is no folder and no regular file."""
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            place = Path(folder, name)
            plain = place.is_file() or place.is_dir()
            if place.is_symlink() or not (plain or not place.exists()):
                raise ValueError(
                    f"{place} is a link, or no file: a stored Gram has regular files and folders"
                )


def read_description(group: Any) -> dict[str, Any]:
    """Return the checked description of a group."""
    description = dict(group.attrs[DESCRIPTION])
    if description.get("format") != FORMAT:
        raise ValueError(
            f"its format is {description.get('format')!r}, of another version of rescntk: "
            f"begin it anew"
        )
    return check_description(description, format=check_depth, block=check_block)


def check_block(block: Any, name: str = "block") -> int:
    """Return the rows and columns of a block, an integer from 1 to 65536."""
    block = check_depth(block, name)
    if block > _LARGEST_BLOCK:
        raise ValueError(f"{name} is {block}, expected at most {_LARGEST_BLOCK}")
    return block


def check_memory(description: dict[str, Any]) -> None:
    """Raise a MemoryError if a chunk exceeds the memory: it is read and written whole."""
    _, chunks = layout(description)
    # A chunk and the values in it, measured when chunks were read and written.
    needed = 2 * math.prod(chunks) * np.dtype(description["dtype"]).itemsize
    what = f"a block of {description['block']} rows and columns"
    check_free_memory(needed, what, "begin a Gram with a smaller block")


def layout(description: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and chunks of a description's arrays."""
    X, Z, depths, block = (description[name] for name in ("X", "Z", "depths", "block"))
    n, m = X["shape"][0], (Z or X)["shape"][0]
    count = math.prod(_counts(description))
    if count > _MOST_BLOCKS:
        raise ValueError(
            f"block is {block}, which cuts {n} × {m} values into {count} blocks, expected at most "
            f"{_MOST_BLOCKS}"
        )
    width = block if Z is None else min(block, m)  # Z does not grow
    if depths is None:
        return (n, m), (block, width)
    return (len(depths), n, m), (1, block, width)


def _counts(description: dict[str, Any]) -> tuple[int, int]:
    """Return the numbers of blocks of a column and of a row."""
    X, Z, block = (description[name] for name in ("X", "Z", "block"))
    return -(-X["shape"][0] // block), -(-(Z or X)["shape"][0] // block)


def fill(group: Any, description: dict[str, Any], X: Batch, Z: Batch | None) -> None:
    """Make the arrays of a new Gram, and write its description last."""
    for name, signals in (("X", X), ("Z", Z)):
        if signals is not None:
            store_signals(group, name, signals)
    shape, chunks = layout(description)
    options = {"shape": shape, "chunks": chunks, "dtype": description["dtype"]}
    for kind in description["kinds"]:
        group.create_array(kind, fill_value=float("nan"), **options, **_LAYOUT)
    counts = _counts(description)
    marks: Any = {"shape": (*counts, 2), "chunks": (1, _MARKS, 2), "dtype": "int32"}
    group.create_array("done", fill_value=0, **marks, **_LAYOUT)
    group.attrs[DESCRIPTION] = description


def store_signals(group: Any, name: str, signals: Batch, **options: Any) -> None:
    """Make the array of signals "X" or "Z" in a group."""
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
