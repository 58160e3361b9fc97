"""Gram matrices on disk: computed block by block, resumed, by one process or many.

The files are a Zarr group with an array for each kind. Zarr writes a chunk under another name and
renames it. A block is done when all its chunks are there, with all their bytes.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

try:
    import google_crc32c
    import zarr
except ImportError:
    raise ImportError("rescntk.stored needs zarr: pip install 'rescntk[stored]'") from None

from .. import kernels
from .._version import __version__
from ..arrays import Batch, array_module
from ..checks import values as validation
from ..checks.messages import shown
from ..engines.heads import check_head
from ..engines.work import Tick
from ..kernels.progress import progress_bar
from ..lazy import once
from ..memory import check_free_memory
from ..network import Network
from .description import (
    Description,
    check_description,
    describe_call,
    differences,
    write_description,
)

if TYPE_CHECKING:
    from distributed import Client
    from zarr.abc.buffer import Buffer

__all__ = ["StoredGram", "gram", "open"]

_BEGIN_ANEW = "give another folder, or delete this one, and call stored.gram again"
"""The remedy where a folder holds another computation, or none."""

_MESSAGE_LENGTH = 300
"""Maximum number of characters of a message about a file."""


def gram(
    path: str | os.PathLike[str],
    network: Network,
    X: np.ndarray | Sequence[np.ndarray],
    Z: np.ndarray | Sequence[np.ndarray] | None = None,
    *,
    head: str | int = "gap",
    kinds: Iterable[str] = ("gpk", "ntk"),
    depths: Iterable[int] | None = None,
    normalized: bool = False,
    engine: str = "auto",
    dtype: str = "float32",
    block: int = 1024,
    client: Client | None = None,
    progress: bool = True,
) -> StoredGram:
    """Compute a Gram matrix into a folder block by block, or go on with the computation there.

    The values have the bits of `rescntk.gram` with the same engine and dtype. After an interruption
    the same call computes the blocks that are missing. Several processes that make the same call
    share the work: each takes the blocks in an order of its own. To begin anew, delete the folder.

    Parameters
    ----------
    path : path
        A local folder: new, empty, or of the same computation.
    network, X, Z, head, kinds, depths, normalized, engine, dtype
        As for `rescntk.gram`; signals are NumPy arrays, or lists of them for the head "gap". The
        engine "cuda", experimental, takes each block to the device that a process sees first
        (``CUDA_VISIBLE_DEVICES``), and back.
        The default dtype is float32 here.
    block : int, default 1024
        Rows and columns of a block. A block is computed in memory, with all kinds and depths.
    client : dask.distributed.Client, optional
        Compute on its workers, which share the folder; by default this process computes.
    progress : bool, default True
        Whether to draw a bar of finished blocks.

    Returns
    -------
    StoredGram
        The whole matrix, on disk; its parts are read where they are asked for.

    Raises
    ------
    ValueError
        If an argument is not as described, or the folder holds a computation that differs.
    OSError
        If the folder cannot be written, or its disk has no room for the matrix.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from rescntk import Network, stored
    >>> X = np.random.default_rng(0).standard_normal((10, 2, 8))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     K = stored.gram(f"{folder}/K.zarr", Network(depth=2), X, progress=False)
    ...     K.complete, K.ntk[:].shape, (K.matrix("ntk") @ np.ones(10)).shape
    (True, (10, 10), (10,))
    """
    folder = _folder(path)
    call: Description = {"network": network, "kinds": sorted(validation.check_kinds(kinds))}
    call["head"] = check_head(head)
    call["depths"] = None if depths is None else validation.check_depths(depths)
    validation.check_flag(progress, "progress")
    call["normalized"] = validation.check_flag(normalized, "normalized")
    call |= {"engine": engine, "dtype": validation.check_dtype(dtype)}
    left, right = validation.check_batches(X, Z, head)
    if array_module(left) is not np:
        raise ValueError("X and Z are CuPy arrays, expected NumPy arrays: cupy.asnumpy(X)")
    block = validation.check_positive_integer(block, "block")
    if client is not None and (getattr(client, "status", 0) != "running" or client.asynchronous):
        raise ValueError(f"client is {shown(client)}, expected a running dask.distributed.Client")
    _try_one_pair(left, right, call, client)
    K = _begin_or_resume(folder, describe_call(call, left, right, block))
    if missing := K.missing:
        _check_free_disk(K, len(missing))
    K._create_missing_arrays()
    if missing:
        with progress_bar(progress, len(missing), "block") as tick:
            _compute(folder, missing, left, left if right is None else right, call, client, tick)
    return K


def open(path: str | os.PathLike[str]) -> StoredGram:
    """Return the Gram stored in a folder, complete or not, for reading.

    Parameters
    ----------
    path : path
        A folder made by `gram`; another one is refused with a ValueError.

    Returns
    -------
    StoredGram

    Examples
    --------
    >>> from rescntk import stored
    >>> K = stored.open("K.zarr")  # doctest: +SKIP
    """
    return StoredGram(_folder(path))


class StoredGram:
    """A Gram matrix on disk; made by `gram` and `open`.

    Both halves of a symmetric matrix are on disk, and missing values are NaN.

    Attributes
    ----------
    path : Path
    description : dict
        The computation: version, network, options, shapes and checksums of the signals.
    shape : (n, m) or (n_depths, n, m)
    """

    def __init__(self, path: Path) -> None:
        file = path / "zarr.json"
        try:
            self.description = d = check_description(json.loads(file.read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            says = f"{type(error).__name__}: {str(error)[:_MESSAGE_LENGTH]}"
            raise ValueError(
                f"{file} is not a Gram of rescntk.stored: {says}: {_BEGIN_ANEW}"
            ) from None
        depths, size = d["depths"], d["block"]
        shape = d["X"]["shape"][0], (d["Z"] or d["X"])["shape"][0]
        blocks = math.prod(-(-n // size) for n in shape)
        check_free_memory(128 * blocks, f"the list of blocks of {file}", "take larger ones")
        self.path, self._size, self._is_symmetric = path, size, d["Z"] is None
        self.shape = shape if depths is None else (len(depths), *shape)
        self._chunks = (1,) * (len(self.shape) - 2) + tuple(min(size, n) for n in shape)

    @property
    def gpk(self) -> zarr.Array:
        """The Gaussian process kernel, a zarr.Array."""
        return self._array("gpk")

    @property
    def ntk(self) -> zarr.Array:
        """The neural tangent kernel, a zarr.Array."""
        return self._array("ntk")

    @property
    def missing(self) -> list[tuple[int, int]]:
        """The blocks (row, column) not yet done; of a symmetric Gram the upper half."""
        return [block for block in self._blocks() if not self._is_done(block)]

    @property
    def complete(self) -> bool:
        """True if all blocks are done."""
        return not self.missing

    def matrix(self, kind: str | None = None, depth: int | None = None) -> LinearOperator:
        """Return the matrix of one kind and depth as a linear operator of SciPy, for ``K @ v``.

        A product reads each block once, of a symmetric Gram only the upper half, and computes in
        float64.

        Parameters
        ----------
        kind : {"gpk", "ntk"}, optional
            May be left out where the Gram has one kind.
        depth : int, optional
            One of the depths that were asked for; left out where none were.

        Returns
        -------
        scipy.sparse.linalg.LinearOperator, (n, m)

        Raises
        ------
        ValueError
            If the Gram is not complete, or lacks the kind or the depth. A product raises it too, if
            a block has vanished since.
        """
        kinds, depths = self.description["kinds"], self.description["depths"]
        if kind is None and len(kinds) > 1:
            raise ValueError(f"{self.path} has the kinds {kinds}: give K.matrix({kinds[0]!r})")
        array = self._array(kind or kinds[0])
        if depth not in (depths or [None]):
            raise ValueError(f"depth is {shown(depth)}, expected one of {depths}")
        if missing := self.missing:
            raise ValueError(f"{self.path} lacks {len(missing)} blocks, expected none: resume it")
        place = (depths.index(depth),) if depths else ()

        def product(v: np.ndarray) -> np.ndarray:
            result = np.zeros((self.shape[-2], *v.shape[1:]))
            for block in self._blocks():
                rows, columns = self._region(block)
                values = np.asarray(array[(*place, rows, columns)], np.float64)
                if np.isnan(values).any():  # values of a chunk that is not there
                    raise ValueError(f"{self.path} lacks the block {block} now: resume it")
                result[rows] += values @ v[columns]
                if self._is_symmetric and block[0] != block[1]:
                    result[columns] += values.T @ v[rows]
            return result

        return LinearOperator(self.shape[-2:], matvec=product, matmat=product, dtype=np.float64)

    def __matmul__(self, v: ArrayLike) -> np.ndarray:
        """Return K v for a Gram of one kind without `depths`; `matrix` chooses among several."""
        return np.asarray(self.matrix() @ v)

    def __repr__(self) -> str:
        kinds = self.description["kinds"]
        return f"StoredGram({str(self.path)!r}, shape={self.shape}, kinds={kinds})"

    def _create_missing_arrays(self) -> None:
        """Make the arrays that are not there yet, and check all: values need their metadata."""
        for kind in self.description["kinds"]:
            if not (self.path / kind / "zarr.json").exists():
                with suppress(zarr.errors.ContainsArrayError):  # another process was first
                    self._create(self.path / kind)
            self._array(kind)

    def _create(self, store: Path | dict[str, Buffer]) -> zarr.Array:
        """Make an array without values in a folder, or in memory."""
        return zarr.create_array(
            store,
            shape=self.shape,
            chunks=self._chunks,
            dtype=self.description["dtype"],
            fill_value=np.nan,
            filters=None,
            zarr_format=3,
            compressors=[zarr.codecs.Crc32cCodec()],  # last digits are random
        )

    @once
    def _metadata(self) -> Description:
        """The metadata of arrays of this Gram, as the installed version of zarr writes them."""
        return _metadata_of(self._create({}))

    def _array(self, kind: str | None, mode: Literal["r", "r+"] = "r") -> zarr.Array:
        """Return the array of a kind, or refuse one that is not as the description has it."""
        kind = validation.check_choice(kind, "kind", self.description["kinds"])
        file = self.path / kind / "zarr.json"
        try:
            array = zarr.open_array(_Files(file.parent), mode=mode, zarr_format=3)
            different = "; ".join(differences(_metadata_of(array), self._metadata))
        except PermissionError:
            raise
        except Exception as error:  # zarr has no error of its own for damaged files
            different = f"{type(error).__name__}: {error}"
        if different:
            state, delete = "is not there", ""
            if file.exists():
                state = f"is damaged: {different[:_MESSAGE_LENGTH]}"
                delete = "delete it, and "
            raise ValueError(
                f"{file} {state}: expected the file that stored.gram writes: {delete}call "
                f"stored.gram again"
            )
        return array

    def _is_done(self, block: tuple[int, int]) -> bool:
        """Return whether all chunks of a block are there, with all their bytes."""
        itemsize = np.dtype(self.description["dtype"]).itemsize
        n_bytes = math.prod(self._chunks) * itemsize + 4  # with their checksum
        with suppress(FileNotFoundError, NotADirectoryError):
            return all(file.stat().st_size == n_bytes for file in self._files(block))
        return False

    def _blocks(self) -> list[tuple[int, int]]:
        """Return all blocks, of a symmetric Gram the upper half."""
        rows, columns = (-(-n // self._size) for n in self.shape[-2:])
        return [(i, k) for i, k in np.ndindex(rows, columns) if i <= k or not self._is_symmetric]

    def _region(self, block: tuple[int, int]) -> list[slice]:
        """Return the rows and columns of a block."""
        return [slice(self._size * k, self._size * (k + 1)) for k in block]

    def _files(self, block: tuple[int, int]) -> Iterator[Path]:
        """Yield the chunks of a block, and of its mirror image in a symmetric Gram."""
        for image in {block, block[::-1]} if self._is_symmetric else {block}:
            for depth in np.ndindex(self.shape[:-2]):
                for kind in self.description["kinds"]:
                    yield self.path.joinpath(kind, "c", *map(str, (*depth, *image)))


class _Files(zarr.storage.LocalStore):
    """The files of an array. An error names a damaged chunk, which zarr's own does not."""

    async def get(self, key: str, *arguments: Any, **options: Any) -> Buffer | None:
        """Return the content of a file, or None if there is none."""
        return self._checked(key, await super().get(key, *arguments, **options))

    def get_sync(self, key: str, *arguments: Any, **options: Any) -> Buffer | None:
        """Return the content of a file as `get` does: zarr 3.4 reads so."""
        return self._checked(key, super().get_sync(key, *arguments, **options))

    def _checked(self, key: str, content: Buffer | None) -> Buffer | None:
        """Return the content of a file; refuse a chunk whose last bytes are not its checksum."""
        if content is not None and key.startswith("c/"):
            values = content.as_numpy_array()
            checksum = google_crc32c.value(values[:-4]).to_bytes(4, "little")
            if values[-4:].tobytes() != checksum:
                raise ValueError(
                    f"{self.root / key} is damaged, expected values with their checksum: delete "
                    "it, and call stored.gram again"
                )
        return content


def _try_one_pair(
    left: Batch, right: Batch | None, call: Description, client: Client | None
) -> None:
    """Compute one pair where blocks will be: it checks network and engine before a file is made."""
    compute = kernels.gram if client is None else partial(client.run, kernels.gram)
    compute(X=left[:1], Z=None if right is None else right[:1], **call)


def _begin_or_resume(folder: Path, description: Description) -> StoredGram:
    """Return the Gram of a folder: a new one where it is empty; refuse another computation."""
    if not folder.is_file() and all(path.suffix == ".partial" for path in folder.glob("*")):
        write_description(folder, description)
    K = StoredGram(folder)
    if phrases := differences(K.description, description):
        raise ValueError(f"{folder} holds another computation: {'; '.join(phrases)}: {_BEGIN_ANEW}")
    return K


def _check_free_disk(K: StoredGram, n_missing: int) -> None:
    """Raise an OSError if a disk has no room for the missing blocks of a Gram."""
    d = K.description
    itemsize = len(d["kinds"]) * np.dtype(d["dtype"]).itemsize
    needed = n_missing / len(K._blocks()) * np.prod(K.shape) * itemsize
    if needed > (free := shutil.disk_usage(K.path).free):
        raise OSError(f"{K.path} needs {needed:,.0f} bytes, and its disk has {free:,} free")


def _folder(path: object) -> Path:
    """Return the path of a local folder, made absolute, or refuse an address."""
    if not isinstance(path, (str, os.PathLike)) or re.match(r"[^/]{2,}:/", os.fspath(path)):
        raise ValueError(f"path is {shown(path)}, expected a local folder, not an address")
    return Path(path).expanduser().resolve()


def _metadata_of(array: zarr.Array) -> Description:
    """Return the metadata of an array, but for attributes, which change no value."""
    return array.metadata.to_dict() | {"attributes": {}}


def _compute(
    path: Path,
    blocks: list[tuple[int, int]],
    X: Batch,
    Z: Batch,
    call: Description,
    client: Client | None,
    tick: Tick,
) -> None:
    """Compute blocks in this process, or on a client's workers; `tick` counts them."""
    if client is None:
        for block in random.SystemRandom().sample(blocks, len(blocks)):
            _compute_block(path, block, X, Z, call)
            tick(1)
        return
    from distributed import as_completed

    X, Z = client.scatter([X, Z], broadcast=True, hash=False)  # copies with keys of their own
    call = call | {"threads": 1}
    tasks = [client.submit(_compute_block, path, block, X, Z, call, pure=False) for block in blocks]
    try:
        for task in as_completed(tasks):
            task.result()
            tick(1)
    finally:
        client.cancel(tasks)


def _compute_block(
    path: Path, block: tuple[int, int], X: Batch, Z: Batch, call: Description
) -> None:
    """Compute the values of a block and write its chunks, unless another process has done so."""
    K = StoredGram(path)
    if (expected := K.description["version"]) != __version__:
        raise ValueError(f"a worker has rescntk {__version__}, expected {expected} as in {path}")
    if K._is_done(block):
        return
    rows, columns = K._region(block)
    right = None if K._is_symmetric and block[0] == block[1] else Z[columns]
    values = kernels.gram(X=X[rows], Z=right, **call)
    for kind, value in zip(call["kinds"], values, strict=True):
        array = K._array(kind, "r+")
        array[..., rows, columns] = value
        if K._is_symmetric:
            array[..., columns, rows] = value.swapaxes(-1, -2)
