"""Gram matrices on disk, which one process or several compute block by block.

The files are a Zarr group with an array for each kind. Zarr writes a chunk under another name and
then renames it. A block is done when all its chunks exist and have all their bytes. So a
computation that was interrupted is resumed by computing the blocks that are not done.
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
from ..checks.messages import shown
from ..checks.values import (
    check_batches,
    check_choice,
    check_depths,
    check_dtype,
    check_flag,
    check_kinds,
    check_positive_integer,
)
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
"""What messages advise if a folder holds another computation, or none."""

_MESSAGE_LENGTH = 300
"""The largest number of characters of another library's message about a file."""


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
    """Compute a Gram matrix block by block and write it to a folder, or resume the computation.

    The values have the same bits as those of `rescntk.gram` with the same engine and dtype. If a
    call is interrupted, the same call computes the blocks that are missing. Several processes that
    make the same call share the work: each of them takes the blocks in its own random order. To
    begin again, delete the folder.

    Parameters
    ----------
    path : path
        A local folder. It may not exist yet, or be empty, or hold the same computation.
    network, X, Z, head, kinds, depths, normalized, engine, dtype
        The same as for `rescntk.gram`, but the default of `dtype` is "float32". Signals are NumPy
        arrays, or for the head "gap" lists of NumPy arrays. The engine "cuda", which is
        experimental, computes each block on the first device that the process sees
        (``CUDA_VISIBLE_DEVICES``).
    block : int, default 1024
        The number of rows and of columns of a block. A block is computed in memory, with all kinds
        and depths.
    client : dask.distributed.Client, optional
        If given, its workers compute the blocks. All of them must be able to write to the folder.
        By default this process computes them.
    progress : bool, default True
        Whether to show a progress bar of the blocks that are done.

    Returns
    -------
    StoredGram
        The whole matrix. It is on disk, and its values are read when they are needed.

    Raises
    ------
    ValueError
        If an argument is not as described, or if the folder holds another computation.
    OSError
        If the folder cannot be written, or if its disk has no room for the matrix.

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
    call: Description = {"network": network, "kinds": sorted(check_kinds(kinds))}
    call["head"] = check_head(head)
    call["depths"] = None if depths is None else check_depths(depths)
    check_flag(progress, "progress")
    call["normalized"] = check_flag(normalized, "normalized")
    call |= {"engine": engine, "dtype": check_dtype(dtype)}
    left, right = check_batches(X, Z, head)
    if array_module(left) is not np:
        raise ValueError("X and Z are CuPy arrays, expected NumPy arrays: cupy.asnumpy(X)")
    block = check_positive_integer(block, "block")
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
    """Return the Gram matrix that is stored in a folder, for reading. It may be incomplete.

    Parameters
    ----------
    path : path
        A folder that `gram` wrote. For other folders a ValueError is raised.

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
    """A Gram matrix on disk, which `gram` and `open` return.

    Both halves of a symmetric matrix are on disk. Values that are missing are read as NaN.

    Attributes
    ----------
    path : Path
        The folder.
    description : dict
        The computation: the version of rescntk, the network, the options, and the shapes and
        checksums of the signals.
    shape : tuple of int
        (n, m), or (n_depths, n, m) if `depths` were given.
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
        self.path, self._block_size, self._is_symmetric = path, size, d["Z"] is None
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
        """The blocks (row, column) that are not done yet.

        In a symmetric matrix these are on or above the diagonal.
        """
        return [block for block in self._blocks() if not self._is_done(block)]

    @property
    def complete(self) -> bool:
        """True if all blocks are done."""
        return not self.missing

    def matrix(self, kind: str | None = None, depth: int | None = None) -> LinearOperator:
        """Return the matrix of one kind and depth as a linear operator of SciPy, for ``K @ v``.

        A product is computed in float64 and reads each block once. In a symmetric matrix it reads
        only the blocks on and above the diagonal.

        Parameters
        ----------
        kind : {"gpk", "ntk"}, optional
            The kind. If only one kind is stored, it need not be given.
        depth : int, optional
            One of the depths that were given to `gram`. If none were given, it is None.

        Returns
        -------
        scipy.sparse.linalg.LinearOperator, (n, m)

        Raises
        ------
        ValueError
            If the matrix is not complete, or if there is no such kind or depth. A product raises it
            if a block no longer exists.
        """
        kinds, depths = self.description["kinds"], self.description["depths"]
        if kind is None and len(kinds) > 1:
            raise ValueError(f"{self.path} has the kinds {kinds}: give K.matrix({kinds[0]!r})")
        array = self._array(kind or kinds[0])
        if depth not in (depths or [None]):
            raise ValueError(f"depth is {shown(depth)}, expected one of {depths}")
        if missing := self.missing:
            raise ValueError(f"{self.path} lacks {len(missing)} blocks, expected none: resume it")
        first_index = (depths.index(depth),) if depths else ()

        def product(v: np.ndarray) -> np.ndarray:
            result = np.zeros((self.shape[-2], *v.shape[1:]))
            for block in self._blocks():
                rows, columns = self._region(block)
                values = np.asarray(array[(*first_index, rows, columns)], np.float64)
                if np.isnan(values).any():  # a chunk does not exist
                    raise ValueError(f"{self.path} lacks the block {block} now: resume it")
                result[rows] += values @ v[columns]
                if self._is_symmetric and block[0] != block[1]:
                    result[columns] += values.T @ v[rows]
            return result

        return LinearOperator(self.shape[-2:], matvec=product, matmat=product, dtype=np.float64)

    def __matmul__(self, v: ArrayLike) -> np.ndarray:
        """Return K v, if one kind and no `depths` are stored; else choose them by `matrix`."""
        return np.asarray(self.matrix() @ v)

    def __repr__(self) -> str:
        kinds = self.description["kinds"]
        return f"StoredGram({str(self.path)!r}, shape={self.shape}, kinds={kinds})"

    def _create_missing_arrays(self) -> None:
        """Create the arrays that do not exist yet, and check those that do.

        Blocks can be written only if the files with the metadata exist.
        """
        for kind in self.description["kinds"]:
            if not (self.path / kind / "zarr.json").exists():
                with suppress(zarr.errors.ContainsArrayError):  # another process created it
                    self._create(self.path / kind)
            self._array(kind)

    def _create(self, store: Path | dict[str, Buffer]) -> zarr.Array:
        """Create an array without values, in a folder or in memory."""
        return zarr.create_array(
            store,
            shape=self.shape,
            chunks=self._chunks,
            dtype=self.description["dtype"],
            fill_value=np.nan,
            filters=None,
            zarr_format=3,
            compressors=[zarr.codecs.Crc32cCodec()],  # last digits are random: only a checksum
        )

    @once
    def _metadata(self) -> Description:
        """The metadata of the arrays, as the installed version of zarr writes them."""
        return _metadata_of(self._create({}))

    def _array(self, kind: str | None, mode: Literal["r", "r+"] = "r") -> zarr.Array:
        """Return the array of a kind, or raise a ValueError if it is not as described."""
        kind = check_choice(kind, "kind", self.description["kinds"])
        file = self.path / kind / "zarr.json"
        try:
            array = zarr.open_array(_Files(file.parent), mode=mode, zarr_format=3)
            different = "; ".join(differences(_metadata_of(array), self._metadata))
        except PermissionError:
            raise
        except Exception as error:  # damaged files make zarr raise errors of many kinds
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
        """Return whether all chunks of a block exist and have all their bytes."""
        itemsize = np.dtype(self.description["dtype"]).itemsize
        n_bytes = math.prod(self._chunks) * itemsize + 4  # the last four are a checksum
        with suppress(FileNotFoundError, NotADirectoryError):
            return all(file.stat().st_size == n_bytes for file in self._files(block))
        return False

    def _blocks(self) -> list[tuple[int, int]]:
        """Return all blocks; in a symmetric matrix those on and above the diagonal."""
        rows, columns = (-(-n // self._block_size) for n in self.shape[-2:])
        return [(i, k) for i, k in np.ndindex(rows, columns) if i <= k or not self._is_symmetric]

    def _region(self, block: tuple[int, int]) -> list[slice]:
        """Return the rows and columns of a block."""
        return [slice(self._block_size * k, self._block_size * (k + 1)) for k in block]

    def _files(self, block: tuple[int, int]) -> Iterator[Path]:
        """Yield the files of a block's chunks. In a symmetric matrix a block has a mirror image."""
        for image in {block, block[::-1]} if self._is_symmetric else {block}:
            for depth in np.ndindex(self.shape[:-2]):
                for kind in self.description["kinds"]:
                    yield self.path.joinpath(kind, "c", *map(str, (*depth, *image)))


class _Files(zarr.storage.LocalStore):
    """The files of an array. Unlike zarr's own error, that of a damaged chunk names its file."""

    async def get(self, key: str, *arguments: Any, **options: Any) -> Buffer | None:
        """Return the content of a file, or None if there is none."""
        return self._checked(key, await super().get(key, *arguments, **options))

    def get_sync(self, key: str, *arguments: Any, **options: Any) -> Buffer | None:
        """Return the content of a file, as `get` does. Zarr calls it from version 3.4 on."""
        return self._checked(key, super().get_sync(key, *arguments, **options))

    def _checked(self, key: str, content: Buffer | None) -> Buffer | None:
        """Return the content of a file, or raise a ValueError if a chunk is damaged.

        The last bytes of a chunk must be the checksum of the others.
        """
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
    """Compute the kernel of one pair of signals, by this process or by the client's workers.

    So arguments that `kernels.gram` refuses are refused before any file is written.
    """
    compute = kernels.gram if client is None else partial(client.run, kernels.gram)
    compute(X=left[:1], Z=None if right is None else right[:1], **call)


def _begin_or_resume(folder: Path, description: Description) -> StoredGram:
    """Return the matrix in a folder. If the folder is empty or missing, begin it.

    If the folder holds another computation, a ValueError is raised.
    """
    if not folder.is_file() and all(path.suffix == ".partial" for path in folder.glob("*")):
        write_description(folder, description)
    K = StoredGram(folder)
    if phrases := differences(K.description, description):
        raise ValueError(f"{folder} holds another computation: {'; '.join(phrases)}: {_BEGIN_ANEW}")
    return K


def _check_free_disk(K: StoredGram, n_missing: int) -> None:
    """Raise an OSError if the disk has no room for the blocks that are missing."""
    d = K.description
    itemsize = len(d["kinds"]) * np.dtype(d["dtype"]).itemsize
    needed = n_missing / len(K._blocks()) * np.prod(K.shape) * itemsize
    if needed > (free := shutil.disk_usage(K.path).free):
        raise OSError(f"{K.path} needs {needed:,.0f} bytes, and its disk has {free:,} free")


def _folder(path: object) -> Path:
    """Return the absolute path of a local folder, or raise a ValueError if it is an address."""
    if not isinstance(path, (str, os.PathLike)) or re.match(r"[^/]{2,}:/", os.fspath(path)):
        raise ValueError(f"path is {shown(path)}, expected a local folder, not an address")
    return Path(path).expanduser().resolve()


def _metadata_of(array: zarr.Array) -> Description:
    """Return the metadata of an array without its attributes, which do not change its values."""
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
    """Compute blocks in this process, or by a client's workers. `tick` is called for each block."""
    if client is None:
        for block in random.SystemRandom().sample(blocks, len(blocks)):
            _compute_block(path, block, X, Z, call)
            tick(1)
        return
    from distributed import as_completed

    X, Z = client.scatter([X, Z], broadcast=True, hash=False)  # each call has its own copies
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
    """Compute the values of a block and write its chunks, unless another process already has."""
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
