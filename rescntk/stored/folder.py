"""The folder of a stored Gram: a Zarr group with description, signals and kernels.

Zarr writes each chunk under another name, renames it, and checks its CRC-32C when it is read: a
chunk that can be read is whole. A Gram may come from elsewhere: a link in it could lead a write to
a file outside, and a named pipe could make a call wait forever. Folders with either are refused.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

from ..arrays import Batch, SignalList
from ..kernels.description import check_description, describe_signals
from ..validation import check_depth, check_flag, check_free_memory

DESCRIPTION, LABELS = "rescntk", "labels"
"""Names of the group's attributes: what is computed, and labels of the signals by "X" and "Z"."""

FORMAT = 3
"""Version of the folder's layout, an integer."""

_SIGNALS_PER_CHUNK = 256
"""Signals in a chunk of the stored signals. A block reads a few chunks; a chunk stays small."""

_LAYOUT: Any = {"filters": None, "compressors": [Crc32cCodec()]}
"""Checksums, and no compression: last digits are random."""

_LARGEST_BLOCK = 1 << 16
"""Most rows of a block: one chunk has 17 GB in float32, for any number of signals."""

_MOST_BLOCKS = 1 << 22
"""Most blocks of a Gram. Raising it makes lists of blocks that fill the memory."""


Block = tuple[int, int]
"""Row and column of a block among the blocks: one chunk of each kind and depth."""


class Folder:
    """A group with the arrays of the kinds, and the signals X and Z.

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
        self.describe(X=described, growing=True)

    # -- blocks

    def blocks(self) -> list[Block]:
        """Return all blocks, of a symmetric Gram the upper half."""
        rows, columns = (-(-n // self.description["block"]) for n in self.shape[-2:])
        everything = np.ndindex(rows, columns)
        return [(i, k) for i, k in everything if i <= k or not self.is_symmetric]

    def missing(self) -> list[Block]:
        """Return the blocks without a file; after an interrupted `append` all that lack a value."""
        if self.description["growing"]:
            return self.unfinished()
        return [b for b in self.blocks() if not all(file.exists() for file in self._files(b))]

    def unfinished(self) -> list[Block]:
        """Return the blocks that are missing or damaged; all are read."""
        return [block for block in self.blocks() if not self.is_whole(block)]

    def is_whole(self, block: Block) -> bool:
        """Return whether a block and its mirror image can be read, without a NaN; both are read."""
        images = (self.read(image).values() for image in self.images(block))
        return not any(np.isnan(values).any() for image in images for values in image)

    def resize(self) -> None:
        """Give the arrays the described shape."""
        for array in self.arrays.values():
            if array.shape != self.shape:
                array.resize(self.shape)

    def describe(self, **changes: Any) -> None:
        """Change parts of the description, on disk too."""
        self.description = self.description | changes
        self.group.attrs[DESCRIPTION] = self.description
        self.shape, _ = layout(self.description)

    def images(self, block: Block) -> list[Block]:
        """Return the block, and its mirror image where a symmetric Gram has another block there."""
        row, column = block
        return [block] if row == column or not self.is_symmetric else [block, (column, row)]

    def region(self, block: Block) -> tuple[slice, slice]:
        """Return the rows and columns of a block."""
        size, (n, m) = self.description["block"], self.shape[-2:]
        top, left = size * block[0], size * block[1]
        return slice(top, min(top + size, n)), slice(left, min(left + size, m))

    def read(self, block: Block) -> dict[str, np.ndarray]:
        """Return the values of a block by kind, NaN where they are missing or cannot be read."""
        region = self.region(block)
        shape, values = [side.stop - side.start for side in region], {}
        for kind, array in self.arrays.items():
            values[kind] = np.full((*self.shape[:-2], *shape), np.nan, array.dtype)
            with suppress(Exception):  # Zarr's codecs raise many kinds of errors
                part = array[(..., *region)]  # smaller after an interrupted `append`
                values[kind][..., : part.shape[-2], : part.shape[-1]] = part
        return values

    def write(self, block: Block, values: dict[str, np.ndarray]) -> None:
        """Write the values of a block by kind, and its mirror image.

        Zarr can neither read nor write a damaged chunk: the files are deleted first.
        """
        for file in self._files(block):
            file.unlink(missing_ok=True)
        for image in self.images(block):
            for kind, array in self.arrays.items():
                value = values[kind] if image is block else values[kind].swapaxes(-1, -2)
                array[(..., *self.region(image))] = value

    def _files(self, block: Block) -> Iterator[Path]:
        """Yield the files of a block and its mirror image."""
        for image in self.images(block):
            for kind, array in self.arrays.items():
                for depth in np.ndindex(self.shape[:-2]):
                    yield self.path / kind / array.metadata.encode_chunk_key((*depth, *image))


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
    return check_description(description, format=check_depth, block=check_block, growing=check_flag)


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
    count = -(-n // block) * -(-m // block)
    if count > _MOST_BLOCKS:
        raise ValueError(
            f"block is {block}, which cuts {n} × {m} values into {count} blocks, expected at most "
            f"{_MOST_BLOCKS}"
        )
    width = block if Z is None else min(block, m)  # Z does not grow
    if depths is None:
        return (n, m), (block, width)
    return (len(depths), n, m), (1, block, width)


def fill(group: Any, description: dict[str, Any], X: Batch, Z: Batch | None) -> None:
    """Make the arrays of a new Gram, and write its description last."""
    for name, signals in (("X", X), ("Z", Z)):
        if signals is not None:
            store_signals(group, name, signals)
    shape, chunks = layout(description)
    options = {"shape": shape, "chunks": chunks, "dtype": description["dtype"]}
    for kind in description["kinds"]:
        group.create_array(kind, fill_value=float("nan"), **options, **_LAYOUT)
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
