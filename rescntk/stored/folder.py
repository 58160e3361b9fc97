"""The folder of a stored Gram: description, arrays, signals, record of finished blocks."""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec
from zarr.storage import MemoryStore

from ..arrays import Batch, SignalList
from ..kernels.description import check_description, describe_signals, sealed
from ..validation import check_depth, check_free_memory
from .files import UNREADABLE, check_place, open_file, synchronize_all, walk

DESCRIPTION, LABELS = "rescntk", "labels"
"""Names of the group's attributes: what is computed, and labels of the signals by "X" and "Z"."""

FORMAT = 1
"""Version of the folder's layout, an integer."""

_SIGNALS_PER_CHUNK = 256
"""Signals in a chunk of the stored signals. A block reads a few chunks; a chunk stays small."""

LAYOUT: Any = {"fill_value": float("nan"), "filters": None, "compressors": [Crc32cCodec()]}
"""NaN where nothing is written, checksums, no compression."""

_LARGEST_BLOCK = 1 << 16
"""Most rows of a block: one chunk has 17 GB in float32, for any number of signals."""

_MOST_BLOCKS = 1 << 22
"""Most blocks of a Gram. Raising it makes lists of blocks that fill the memory."""

_SCRAP = re.compile(r"\.[0-9a-f]{32}\.partial$")
"""The end of the names under which Zarr writes files before it renames them."""


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
    """A Zarr group with the arrays of the kinds, the signals, and the record.

    It may come from elsewhere: the description, the arrays and, unless `links_checked`, the kinds
    of all files are checked. Nothing is written.
    """

    def __init__(self, path: Path, writable: bool = False, links_checked: bool = False) -> None:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist")
        self.path, self.record, place = path, path / "record" / "blocks.txt", path / "zarr.json"
        self.intact: set[Block] = set()  # blocks that a product has checked
        try:
            self.description = _read_description(path)
            self.is_symmetric = self.description["Z"] is None
            self.block_size = self.description["block"]
            self.shape, chunks = layout(self.description)
            place = self.record
            os.close(open_file(self.record, os.O_RDONLY))
            place = path
            self.scraps = [] if links_checked else self._look()
            options: Any = {"zarr_format": 3, "use_consolidated": False}
            self.group: Any = zarr.open_group(path, mode="r+" if writable else "r", **options)
            self.arrays: dict[str, Any] = {}
            for kind in self.description["kinds"]:
                place = path / kind / "zarr.json"
                self.arrays[kind] = self.group[kind]
                self._check_array(self.arrays[kind], chunks)
        except UNREADABLE as error:
            if isinstance(error, PermissionError):
                raise
            raise ValueError(
                f"{path} is not a Gram of rescntk.stored in format {FORMAT}: "
                f"{place}: {type(error).__name__}: {error}"
            ) from error

    def _look(self) -> list[str]:
        """Refuse links, and files in place of folders of chunks; return half-written files of Zarr.

        The chunks of an array with two axes are the files c/0/0, c/0/1, ….
        """
        axes = dict.fromkeys(self.description["kinds"], len(self.shape))
        for name in ("X", "Z"):
            if self.description[name] is not None:
                axes[name] = len(self._signals_shape(name)[0])
        scraps = []
        for place, is_folder in walk(self.path):
            name, *inner = place[len(os.fspath(self.path)) + 1 :].split(os.sep)
            is_chunks = bool(inner) and (inner[-1] in ("c", "zarr.json") or inner[-1].isdigit())
            if name in axes and (is_chunks or not inner):
                expected = not inner or (inner[0] == "c" and len(inner) <= axes[name])
                if is_folder != expected:
                    check_place(place, expected)
            if not is_folder and _SCRAP.search(place):
                scraps.append(place)
        return scraps

    def _check_array(self, array: Any, chunks: tuple[int, ...]) -> None:
        """Raise a ValueError if an array of kernels is not as `create` makes it."""
        # Older rectangles have square chunks. An interrupted `append` leaves fewer rows.
        widths, n = {chunks[-1], self.block_size}, array.shape[-2]
        if not any(_is_made(array, (*chunks[:-1], w), self.description["dtype"]) for w in widths):
            raise ValueError("dtype, chunks or codecs are not those of the description")
        before = *self.shape[:-2], n, n if self.is_symmetric else self.shape[-1]
        is_here = n == self.shape[-2] or (n < self.shape[-2] and self.holds("X"))
        if array.shape != before or not is_here:
            raise ValueError(f"shape is {array.shape}, expected {self.shape} as in the description")

    def _signals_shape(self, name: str) -> tuple[tuple[int, ...], int]:
        """Return the shape of the array that holds signals, and the axis along which it grows."""
        n, channels, *pixels = self.description[name]["shape"]
        if isinstance(pixels[0], list):
            return (channels, sum(pixels[0])), 1
        return (n, channels, *pixels), 0

    def signals(self, name: str, rows: slice = slice(None)) -> Batch:
        """Return signals "X" or "Z", some rows or all."""
        array, (shape, axis) = self.group[name], self._signals_shape(name)
        is_long = array.shape[axis] >= shape[axis]  # an interrupted `append` may have made more
        others = [size[:axis] + size[axis + 1 :] for size in (array.shape, shape)]
        is_small = len(array.chunks) == len(shape) and all(np.less_equal(array.chunks, shape))
        is_whole = is_long and is_small and others[0] == others[1]
        if not (is_whole and _is_made(array, array.chunks, "float64")):
            raise ValueError(f"{self.path / name} does not hold the signals of the description")
        n, *_, lengths = self.description[name]["shape"]
        start, stop, _ = rows.indices(n)
        if not isinstance(lengths, list):
            return np.asarray(array[start:stop])
        ends = np.cumsum([0, *lengths])[start : stop + 1]
        pixels = np.asarray(array[:, ends[0] : ends[-1]])
        return SignalList(np.split(pixels, ends[1:-1] - ends[0], axis=1))

    def resize(self) -> None:
        """Give the arrays the described shape, which an interrupted `append` has not done."""
        for kind, array in self.arrays.items():
            if array.shape != self.shape:
                array.resize(self.shape)
                synchronize_all(self.path / kind / "zarr.json", self.path / kind)

    def seal(self, description: dict[str, Any]) -> None:
        """Write the description with its hash, on disk on return."""
        self.description = sealed(description)
        self.keep(DESCRIPTION, self.description)

    def keep(self, attribute: str, value: dict[str, Any]) -> None:
        """Write an attribute of the group, on disk on return."""
        self.group.attrs[attribute] = value
        synchronize_all(self.path / "zarr.json", self.path)

    def holds(self, name: str) -> bool:
        """Return whether signals "X" or "Z", if any, have the hash in the description."""
        with suppress(Exception):  # as in `is_intact`
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
            synchronize_all(self.path, self.path / name, *(self.path / name).rglob("*"))

    def blocks(self) -> list[Block]:
        """Return all blocks, of a symmetric Gram the upper half, with the corners done."""
        # A kill may cut the last line: only lines with their end count.
        line = rb"^" + rb"(\d{1,9}) " * 4 + rb"(?:(\d{1,10}) )?;\n"  # some have no checksum
        with open(open_file(self.record, os.O_RDONLY), "rb") as file:
            lines = re.findall(line, file.read(), re.M)
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
        return [block for block in recorded if not self.is_intact(block, self.images(block))]

    def mark(self, blocks: Iterable[tuple[int, ...]]) -> None:
        """Record blocks (row, column, height, width, checksum) as finished, on disk on return."""
        lines = "".join("{} {} {} {} {} ;\n".format(*block) for block in blocks)
        with open(open_file(self.record, os.O_WRONLY | os.O_APPEND), "ab") as file:
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
                file.unlink(missing_ok=True)

    def _files(self, block: Block) -> list[Path]:
        """Return the chunk files of a block, of all kinds and depths."""
        return [
            self.path / kind / array.metadata.encode_chunk_key((*depth, block.row, block.column))
            for kind, array in self.arrays.items()
            for depth in np.ndindex(self.shape[:-2])
        ]

    def is_intact(self, block: Block, images: Iterable[Block]) -> bool:
        """Return whether `images`, of a block, have the checksum recorded, and no NaN."""
        corner = (..., slice(block.done_height), slice(block.done_width))
        for image in images:
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
        """Append signals, which the description, changed after them, makes valid."""
        signals = self.group["X"]
        values, axis = _pixels(X_new)
        n, *_, lengths = self.description["X"]["shape"]  # an interrupted call may have made more
        old = sum(lengths) if axis else n
        signals.resize((*signals.shape[:axis], old, *signals.shape[axis + 1 :]))
        signals.append(values, axis=axis)
        synchronize_all(self.path / "X", *(self.path / "X").rglob("*"))
        self.seal(self.description | {"X": described})
        self.shape, _ = layout(self.description)
        self.resize()


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


def read_attributes(path: Path) -> Any:
    """Return the attributes of a folder's group."""
    with open(open_file(path / "zarr.json", os.O_RDONLY), "rb") as file:
        return json.load(file)["attributes"]


def _read_description(path: Path) -> dict[str, Any]:
    """Return the checked description of a folder."""
    found = read_attributes(path)[DESCRIPTION]
    version = found.get("format") if isinstance(found, dict) else None
    if version != FORMAT:
        raise ValueError(f"its format is {version!r}")
    return check_description(found, format=check_depth, block=check_block)


def _is_made(array: Any, chunks: tuple[int, ...], dtype: str) -> bool:
    """Return whether an array has the layout that `create` gives to one of its shape."""
    options = LAYOUT | {"shape": array.shape, "chunks": chunks, "dtype": dtype}
    made = zarr.create_array(MemoryStore(), **options)
    found, expected = (each.metadata.to_dict() | {"attributes": {}} for each in (array, made))
    return bool(found == expected)


def checksum(block: Block, values: dict[str, np.ndarray]) -> int:
    """Return the CRC-32 of a block's place and values: exchanged chunks show."""
    found = zlib.crc32(f"{block.row} {block.column}".encode())
    for _, value in sorted(values.items()):
        found = zlib.crc32(np.ascontiguousarray(value, value.dtype.newbyteorder("<")).data, found)
    return found


def store_signals(group: Any, name: str, signals: Batch, **options: Any) -> None:
    """Make the array of signals "X" or "Z" in a group."""
    values, axis = _pixels(signals)
    chunks = list(values.shape)
    part = min(_SIGNALS_PER_CHUNK, len(signals))
    chunks[axis] = -(-chunks[axis] * part // len(signals))
    group.create_array(name, data=values, chunks=tuple(chunks), **LAYOUT, **options)


def _pixels(signals: Batch) -> tuple[np.ndarray, int]:
    """Return the array that holds signals, and the axis along which it grows.

    An array is (case, channel, pixel), of images (case, channel, line, pixel). The signals of a
    list follow one another: (channel, pixel).
    """
    if isinstance(signals, SignalList):
        return np.concatenate(list(signals), axis=1), 1
    return np.asarray(signals), 0
