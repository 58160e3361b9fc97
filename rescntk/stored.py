"""Gram matrices on disk: computed block by block, resumed, by one process or many.

The files are a Zarr group with an array for each kind. Zarr writes a chunk under another name and
renames it: a chunk that is there is whole. A block is done when all its chunks are there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

try:
    import zarr
except ImportError:
    raise ImportError("rescntk.stored needs zarr: pip install 'rescntk[stored]'") from None

from . import kernels, validation
from ._version import __version__
from .arrays import Batch, SignalList, library
from .kernels.progress import progress_bar
from .network import Network

__all__ = ["StoredGram", "gram", "open"]


def gram(
    path: str | os.PathLike[str], network: Network, X: np.ndarray | Sequence[np.ndarray],
    Z: np.ndarray | Sequence[np.ndarray] | None = None, *, head: str = "gap",
    kinds: Iterable[str] = ("gpk", "ntk"), depths: Iterable[int] | None = None,
    normalized: bool = False, dtype: str = "float32", block: int = 1024, client: Any = None,
    progress: bool = True,
) -> StoredGram:  # fmt: skip
    """Compute a Gram matrix into a folder block by block, or go on with the computation there.

    The values are bit for bit the values of `rescntk.gram`. After an interruption the same call
    computes the blocks that are missing. To begin anew, delete the folder.

    Parameters
    ----------
    path : path
        A local folder: new, empty, or of the same computation.
    network, X, Z, head, kinds, depths, normalized, dtype
        As for `rescntk.gram`; signals are NumPy arrays, or lists of them for the head "gap".
    block : int, default 1024
        Rows and columns of a block. A block is computed in memory, with all kinds and depths.
    client : dask.distributed.Client, optional
        Compute on its workers, which share the folder; by default this process computes.
    progress : bool, default True
        Whether to draw a bar of finished blocks.

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
    call: dict[str, Any] = {"network": network, "kinds": sorted(validation.check_kinds(kinds))}
    call["head"] = validation.check_choice(head, "head", validation.HEADS)
    call["depths"] = None if depths is None else validation.check_depths(depths)
    call["normalized"] = validation.check_flag(normalized, "normalized")
    call["dtype"] = validation.check_dtype(dtype)
    left, right = validation.check_batches(X, Z, head)
    if library(left) is not np:
        raise ValueError("X and Z are CuPy arrays, expected NumPy arrays: cupy.asnumpy(X)")
    block = validation.check_depth(block, "block")
    if client is not None and (getattr(client, "status", 0) != "running" or client.asynchronous):
        raise ValueError(f"client is {client!r}, expected a running dask.distributed.Client")
    # One pair checks the network with these options, before a file is written.
    kernels.gram(X=left[:1], Z=None if right is None else right[:1], **call)
    description = call | {"version": __version__, "network": asdict(network), "block": block}
    description |= {"X": _describe(left), "Z": None if right is None else _describe(right)}
    description = json.loads(json.dumps(description))  # tuples become lists
    if not folder.is_file() and not any(folder.glob("*")):
        zarr.open_group(folder, mode="a", zarr_format=3, attributes={"rescntk": description})
    K = StoredGram(folder)
    if different := _differences(K.description, description):
        raise ValueError(f"{folder} holds another computation: {'; '.join(different)}")
    if missing := K.missing:
        share, free = len(missing) / len(K._blocks()), shutil.disk_usage(folder).free
        needed = share * np.prod(K.shape) * len(call["kinds"]) * np.dtype(call["dtype"]).itemsize
        if needed > free:
            raise OSError(f"{folder} needs {needed:,.0f} bytes, and its disk has {free:,} free")
        group = zarr.open_group(folder, mode="r+", zarr_format=3)
        for kind in call["kinds"]:
            group.require_array(
                kind, shape=K.shape, chunks=K._chunks, dtype=call["dtype"], fill_value=np.nan,
                filters=None, compressors=[zarr.codecs.Crc32cCodec()],  # last digits are random
            )  # fmt: skip
        with progress_bar(progress, len(missing), "block") as tick:
            _compute(folder, missing, left, left if right is None else right, call, client, tick)
    return K


def open(path: str | os.PathLike[str]) -> StoredGram:
    """Return the Gram stored in a folder, complete or not, for reading.

    Parameters
    ----------
    path : path
        A folder made by `gram`; another one is refused with a ValueError.

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
        try:
            group = json.loads((path / "zarr.json").read_text("utf-8"))
            self.description: dict[str, Any] = group["attributes"]["rescntk"]
            X, Z, depths, size = (self.description[key] for key in ("X", "Z", "depths", "block"))
            shape = X["shape"][0], (Z or X)["shape"][0]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not a Gram of rescntk.stored: {error!r}") from None
        self.path, self._size, self._is_symmetric = path, size, Z is None
        self.shape = shape if depths is None else (len(depths), *shape)
        self._chunks = (1,) * (len(self.shape) - 2) + tuple(min(size, n) for n in shape)

    @property
    def gpk(self) -> Any:
        """The Gaussian process kernel, a zarr.Array."""
        return self._array("gpk")

    @property
    def ntk(self) -> Any:
        """The neural tangent kernel, a zarr.Array."""
        return self._array("ntk")

    @property
    def missing(self) -> list[tuple[int, int]]:
        """The blocks (row, column) not yet done; of a symmetric Gram the upper half."""
        return [b for b in self._blocks() if not all(file.exists() for file in self._files(b))]

    @property
    def complete(self) -> bool:
        """True if all blocks are done."""
        return not self.missing

    def matrix(self, kind: str | None = None, depth: int | None = None) -> LinearOperator:
        """Return the matrix of one kind and depth as a linear operator of SciPy, for ``K @ v``.

        The Gram must be complete. A product reads each block once, of a symmetric Gram only the
        upper half, and computes in float64.
        """
        kinds, depths = self.description["kinds"], self.description["depths"]
        array = self._array(kinds[0] if kind is None and len(kinds) == 1 else kind)
        if depth not in (depths or [None]):
            raise ValueError(f"depth is {depth!r}, expected one of {depths}")
        if missing := self.missing:
            raise ValueError(f"{self.path} lacks {len(missing)} blocks, expected none: resume it")
        place = (depths.index(depth),) if depths else ()

        def product(v: np.ndarray) -> np.ndarray:
            result = np.zeros((self.shape[-2], *v.shape[1:]))
            for block in self._blocks():
                rows, columns = self._region(block)
                values = np.asarray(array[(*place, rows, columns)], np.float64)
                result[rows] += values @ v[columns]
                if self._is_symmetric and block[0] != block[1]:
                    result[columns] += values.T @ v[rows]
            return result

        return LinearOperator(self.shape[-2:], matvec=product, matmat=product, dtype=np.float64)

    def __matmul__(self, v: Any) -> np.ndarray:
        """Return K v for a Gram of one kind without `depths`; `matrix` chooses among several."""
        return np.asarray(self.matrix() @ v)

    def __repr__(self) -> str:
        return f"StoredGram({str(self.path)!r}, {self.shape}, {len(self.missing)} blocks missing)"

    def _array(self, kind: Any) -> Any:
        validation.check_choice(kind, "kind", self.description["kinds"])
        return zarr.open_array(self.path / kind, mode="r", zarr_format=3)

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


def _folder(path: Any) -> Path:
    """Return the path of a local folder, made absolute, or refuse an address."""
    if not isinstance(path, (str, os.PathLike)) or re.match(r"[^/]{2,}:/", os.fspath(path)):
        raise ValueError(f"path is {path!r}, expected a local folder, not an address")
    return Path(path).expanduser().resolve()


def _describe(X: Batch) -> dict[str, Any]:
    """Return shape and checksum of signals; a list's shape ends with its lengths."""
    shape = (len(X), X.n_channels, X.lengths.tolist()) if isinstance(X, SignalList) else X.shape
    sha256 = hashlib.sha256()
    for signal in X:
        sha256.update((np.ascontiguousarray(signal, "<f8") + 0.0).data)  # 0.0 for -0.0
    return {"shape": shape, "checksum": sha256.hexdigest()[:16]}


def _differences(there: Any, here: Any) -> list[str]:
    """Return a phrase for each part in which two descriptions differ."""
    phrases = []
    for name in sorted(here.keys() | there.keys()):
        old, new = there.get(name), here.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            phrases += [f"{name} {phrase}" for phrase in _differences(old, new)]
        elif old != new:
            phrases.append(f"{name} is {old!r} there, {new!r} here")
    return phrases


def _compute(path: Path, blocks: Any, X: Any, Z: Any, call: Any, client: Any, tick: Any) -> None:
    """Compute blocks in this process, or on a client's workers; `tick` counts them."""
    if client is None:
        for block in blocks:
            _compute_block(path, block, X, Z, call)
            tick(1)
        return
    from distributed import as_completed

    X, Z = client.scatter([X, Z], broadcast=True, hash=False)  # copies with keys of their own
    call = call | {"threads": 1}
    tasks = [client.submit(_compute_block, path, each, X, Z, call, pure=False) for each in blocks]
    try:
        for task in as_completed(tasks):
            task.result()
            tick(1)
    finally:
        client.cancel(tasks)


def _compute_block(path: Path, block: tuple[int, int], X: Any, Z: Any, call: Any) -> None:
    """Compute the values of a block, and write its chunks."""
    K = StoredGram(path)
    if (expected := K.description["version"]) != __version__:
        raise ValueError(f"a worker has rescntk {__version__}, expected {expected} as in {path}")
    rows, columns = K._region(block)
    right = None if K._is_symmetric and block[0] == block[1] else Z[columns]
    values: Any = kernels.gram(X=X[rows], Z=right, **call)
    for kind, value in values._asdict().items():
        array: Any = zarr.open_array(path / kind, mode="r+", zarr_format=3)
        array[..., rows, columns] = value
        if K._is_symmetric:
            array[..., columns, rows] = value.swapaxes(-1, -2)
