"""`gram`, `open`, `remove`: Gram matrices on disk, and their products with vectors."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import SignalList, library
from ..kernels import Kernel
from ..kernels.description import OPTIONS, describe, differences, network_of
from ..network import Network
from ..progress import progress_bar
from ..validation import (
    check_array,
    check_batch,
    check_batches,
    check_choice,
    check_depth,
    check_flag,
    check_match,
    check_real,
    check_shape,
    check_unmasked,
)
from . import jobs
from .folder import FORMAT, LABELS, Folder, check_block, check_memory
from .places import create, locked, warn_of_remains

_ALWAYS = 1024
"""Rows of a block that any Gram may have, even of few signals: 4 MB on disk in float32."""


def gram(
    path: str | os.PathLike[str],
    network: Network,
    X: np.ndarray | Sequence[np.ndarray],
    Z: np.ndarray | Sequence[np.ndarray] | None = None,
    *,
    head: str = "gap",
    kinds: Iterable[str] = ("gpk", "ntk"),
    depths: Iterable[int] | None = None,
    normalized: bool = False,
    dtype: str = "float32",
    block: int = 1024,
    engine: str = "auto",
    threads: int | None = None,
    client: Any = None,
    progress: bool = True,
    overwrite: bool = False,
) -> StoredGram:
    """Compute a Gram matrix into a folder block by block, or go on with the computation there.

    The values are bit for bit the values of `rescntk.gram`. After an interruption the same call
    reads all finished blocks once, computes missing and damaged ones, and repairs the signals.

    Parameters
    ----------
    path : path
        A folder, new or of the same computation: a Zarr group with an array for each kind.
    network, X, Z, head, kinds, depths, normalized
        As for `rescntk.gram`; signals are NumPy arrays, or lists of them for the head "gap".
    dtype : {"float32", "float64"}
        Precision of the computation and of the arrays.
    block : int, default 1024
        Rows and columns of a block, one chunk of each array and depth. A chunk has its full size
        on disk and in memory: at most 65536, and in a new Gram at most 1024 or the length of X.
    engine : str, default "auto"
        As for `rescntk.gram`. All processes and all later calls use the same engine.
    threads : int, optional
        Threads of a block: by default all cores in this process, and one on a client's worker.
    client : dask.distributed.Client, optional
        Compute on the client's workers, which reach `path` under the same name.
    progress : bool, default True
        Whether to report blocks and the time left to stderr.
    overwrite : bool, default False
        Whether a Gram that is there is deleted (`remove`), once the new one is checked and begun.

    Raises
    ------
    ValueError
        If an argument is not as described above, or the folder holds a computation that
        differs in signals, network, options or version. The message names what differs.
    RuntimeError, OSError, OverflowError, MemoryError
        If another job computes or replaces it, the folder cannot be written, or as for
        `rescntk.gram`.

    See Also
    --------
    rescntk.gram : The same kernels in memory.
    open : A Gram matrix that is there.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk import stored
    >>> X = np.random.default_rng(0).standard_normal((10, 2, 8))
    >>> stored.gram("K.zarr", rk.Network(depth=2), X).complete  # doctest: +SKIP
    True
    """
    path = Path(path).resolve()
    batches = [_in_numpy(batch) for batch in check_batches(X, Z, head)]
    described = describe(
        network,
        *batches,
        head=head,
        kinds=kinds,
        depths=depths,
        normalized=normalized,
        dtype=dtype,
        engine=engine,
    )
    described |= {"format": FORMAT, "block": check_block(block)}
    overwrite = check_flag(overwrite, "overwrite") and path.exists()
    is_new = overwrite or not path.exists()
    if is_new and block > max(_ALWAYS, len(batches[0])):
        raise ValueError(
            f"block is {block} for {len(batches[0])} signals, expected at most "
            f"{max(_ALWAYS, len(batches[0]))}: a block has its full size on disk"
        )
    new = [batch for batch in batches if batch is not None] if overwrite else []
    _check_begin(described, new, threads, client, progress)
    warn_of_remains(path)
    if is_new:
        try:
            create(path, described | {"growing": False}, *batches, overwrite=overwrite)
        except OSError:
            if overwrite or not path.exists():  # else another job has just made the folder
                raise
    opened = open(path)
    if different := differences(opened.description, described):
        raise ValueError(f"{path} holds another computation: {'; '.join(different)}")
    known = dict(zip(("X", "Z"), batches, strict=True))
    return opened._resume(known, threads, client, progress)


def _check_begin(
    described: dict[str, Any], new: list[Any], threads: int | None, client: Any, progress: bool
) -> None:
    """Refuse wrong options; with new signals, what would end a call that has changed a Gram."""
    check_depth(1 if threads is None else threads, "threads")
    check_flag(progress, "progress")
    jobs.check_client(client)
    check_memory(described)
    network, options = network_of(described), {k: described[k] for k in ("dtype", "engine")}
    network = network.replace(depth=max(described["depths"] or [network.depth]))
    for kind in () if described["normalized"] else described["kinds"]:
        kernel = Kernel(network, kind, described["head"])
        for batch in new:  # an OverflowError, if the kernel exceeds the dtype
            kernel.diag(batch, **options, threads=threads)


def _in_numpy(batch: Any) -> Any:
    """Return a checked batch, or None, or refuse the signals of a device."""
    if batch is not None and library(batch) is not np:
        raise ValueError("X and Z are CuPy arrays, expected NumPy arrays: cupy.asnumpy(X)")
    return batch


def open(path: str | os.PathLike[str]) -> StoredGram:
    """Return the Gram stored in a folder, complete or not, for reading.

    Parameters
    ----------
    path : path
        Without a Gram there, a FileNotFoundError or a ValueError is raised; the latter also if
        there are links in the folder.

    Examples
    --------
    >>> from rescntk import stored
    >>> stored.open("K.zarr").complete  # doctest: +SKIP
    True
    """
    return StoredGram(Path(path).resolve())


def check_labels(labels: Any, counts: dict[str, int]) -> dict[str, list[Any]]:
    """Return labels by "X" and "Z" as JSON has them: finite numbers or texts, one a signal."""
    if not isinstance(labels, Mapping):
        raise ValueError(f"labels is {labels!r}, expected a mapping, {{'X': [...]}}")
    checked = {}
    for name, values in labels.items():
        count = counts[check_choice(name, "labels", counts)]
        check_unmasked(values, f"labels of {name}", "or texts")
        array = np.asarray(values, dtype=object)
        if array.shape[:1] != (count,):
            raise ValueError(f"labels has shape {array.shape} for {name}, expected ({count},)")
        if not all(isinstance(label, str) for label in array.ravel()):
            numbers = check_real(values, f"labels of {name}", "or texts")
            array = numbers if (given := np.asarray(values)).dtype.kind == "f" else given
        checked[name] = array.tolist()
    return checked


class StoredGram:
    """A Gram on disk; made by `gram` and `open`.

    The arrays are ordinary Zarr arrays with both halves of a symmetric Gram. Missing values are
    NaN.

    Attributes
    ----------
    path : Path
    description : dict
        The computation: network, head, dtype, versions, shapes and checksums of the signals.
    shape : tuple of int
        The shape of each array: (n, m) or (n_depths, n, m).
    """

    def __init__(self, path: Path) -> None:
        self._open(path)

    def _open(self, path: Path) -> None:
        self._folder = folder = Folder(path)
        self.path, self.shape, self.description = path, folder.shape, folder.description

    @property
    def network(self) -> Network:
        """The network."""
        return network_of(self.description)

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
        return self._folder.missing()

    @property
    def complete(self) -> bool:
        """True if all blocks are done."""
        return not self.missing

    @property
    def labels(self) -> dict[str, list[Any]]:
        """The labels of the signals by "X" and "Z", as given to `label`; empty without any."""
        labels = self._folder.group.attrs.get(LABELS, {})
        is_mapping = isinstance(labels, dict)
        if not is_mapping or not all(isinstance(values, list) for values in labels.values()):
            raise ValueError(f"labels in {self.path} are {labels!r}, expected a mapping to lists")
        return dict(labels)

    def label(self, labels: Mapping[str, Any]) -> None:
        """Store labels with the Gram: numbers or texts for "X" and "Z", one for each signal."""
        self._open(self.path)
        described = {name: self.description[name] or {"shape": [0]} for name in ("X", "Z")}
        labels = check_labels(labels, {name: each["shape"][0] for name, each in described.items()})
        if labels != self._folder.group.attrs.get(LABELS, {}):
            with locked(self.path):
                self._writable().group.attrs[LABELS] = labels
            self._open(self.path)

    def matrix(self, kind: str | None = None, depth: int | None = None) -> StoredMatrix:
        """Return the matrix of one kind and depth as an operator, for products ``K @ v``.

        A Gram of one kind and one depth needs no arguments. The Gram must be complete.
        """
        kinds, depths = self.description["kinds"], self.description["depths"]
        known = depths or [self.network.depth]
        kind = kinds[0] if kind is None and len(kinds) == 1 else kind
        depth = known[0] if depth is None and len(known) == 1 else depth
        check_choice(kind, "kind", kinds)
        if isinstance(depth, bool) or depth not in known:
            raise ValueError(f"depth is {depth!r}, expected one of {known}")
        if count := len(self.missing):
            raise ValueError(f"{self.path} has {count} missing blocks, expected none: resume it")
        check_memory(self.description)
        return StoredMatrix(self._folder, str(kind), depths and known.index(depth))

    def __matmul__(self, v: Any) -> np.ndarray:
        """Return K v for a Gram of one kind and depth; `matrix` chooses among several."""
        return self.matrix() @ v

    def append(
        self,
        X_new: np.ndarray | Sequence[np.ndarray],
        *,
        threads: int | None = None,
        client: Any = None,
        progress: bool = True,
    ) -> StoredGram:
        """Append signals to X, compute the new rows, and return this Gram.

        A symmetric Gram gets new columns, too. After an interruption the signals are there, and
        `resume` goes on. Labels stay; `label` takes the labels of all signals. X_new is an array
        (k_cases, n_channels, n_timepoints), or of images. It is a list where X is stored as a list
        of different lengths. A Gram of an earlier version is refused. Options and errors are as
        for `gram`.
        """
        new = _in_numpy(check_batch(X_new, "X_new"))
        self._open(self.path)
        jobs.check_version(self.path, self.description)
        with locked(self.path):
            folder = self._writable()
            folder.check_signals({})
            X: Any = folder.signals("X")
            lists = isinstance(X, SignalList)
            if not lists:
                check_array(new, "X_new", "X is stored as an array; a list of X begins a new Gram")
                if new.shape[2:] != X.shape[2:]:
                    raise ValueError(
                        f"X_new has shape {new.shape}, expected cases like those of X, {X.shape}: "
                        "signals or images of another size begin a new Gram"
                    )
            check_match(X, new, lists, names=("X", "X_new"))
            both = SignalList([*X, *new]) if lists else np.concatenate([X, new])
            Z = None if folder.is_symmetric else folder.signals("Z")
            options = {name: folder.description[name] for name in OPTIONS}
            described = describe(network_of(folder.description), both, Z, **options)
            grown = folder.description | described
            _check_begin(grown, [new], threads, client, progress)
            folder.grow(SignalList.of(new) if lists else new, grown["X"])
        return self.resume(threads=threads, client=client, progress=progress)

    def resume(
        self, *, threads: int | None = None, client: Any = None, progress: bool = True
    ) -> StoredGram:
        """Check the blocks on disk, compute the missing and the damaged blocks, return this Gram.

        Options and errors are as for `gram`.
        """
        self._open(self.path)
        jobs.check_version(self.path, self.description)
        _check_begin(self.description, [], threads, client, progress)
        return self._resume({}, threads, client, progress)

    def _resume(
        self, known: dict[str, Any], threads: int | None, client: Any, progress: bool
    ) -> StoredGram:
        """Do as `resume`; `known` signals "X" and "Z" repair signals on disk. Each is read once."""
        blocks = None if self.missing else self._folder.unfinished()
        if blocks == [] and all(map(self._folder.holds, known)):
            return self  # even where nothing can be written
        advice = "finished blocks stay, and after an interruption the same call goes on"
        with locked(self.path):
            folder = self._writable()
            for scrap in self.path.rglob("*.partial"):  # written by a process that was killed
                scrap.unlink(missing_ok=True)
            folder.check_signals(known)
            folder.resize()
            blocks = folder.unfinished() if blocks is None else blocks
            bar = progress_bar(progress, len(blocks), "block", name=self.path.name, advice=advice)
            with bar as tick:
                jobs.compute(client, self.path, blocks, threads, tick)
            if folder.description["growing"]:
                folder.describe(growing=False)
        self._open(self.path)
        return self

    def _writable(self) -> Folder:
        """Return the folder for writing, under its lock, or refuse one that has changed."""
        folder = Folder(self.path, writable=True)
        if folder.description != self.description:
            raise RuntimeError(f"{self.path} was changed by another job: call again")
        return folder

    def _array(self, kind: str) -> Any:
        return self._folder.arrays[check_choice(kind, "kind", self.description["kinds"])]

    def __repr__(self) -> str:
        state = "complete" if self.complete else f"{len(self.missing)} blocks missing"
        kinds = ", ".join(self.description["kinds"])
        return f"StoredGram({str(self.path)!r}, {kinds}, shape={self.shape}, {state})"


class StoredMatrix:
    """A kernel matrix on disk of one kind and depth, as an operator: ``K @ v``.

    A product reads each block once, of a symmetric matrix only the upper half.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        The dtype on disk. Products are computed in float64.
    """

    def __init__(self, folder: Folder, kind: str, depth_index: int | None) -> None:
        self._folder, self._array = folder, folder.arrays[kind]
        self._depth = () if depth_index is None else (depth_index,)
        self.shape = folder.shape[-2:]
        self.dtype = np.dtype(folder.description["dtype"])

    def __matmul__(self, v: Any) -> np.ndarray:
        """Return K v for v of shape (m,) or (m, k), in float64."""
        m = self.shape[1]
        v = check_shape(v, "v", f"({m},) or ({m}, k)", lambda s: len(s) in (1, 2) and s[0] == m)
        result = np.zeros((self.shape[0], *v.shape[1:]))
        for block in self._folder.blocks():
            rows, columns = self._folder.region(block)
            values: Any = np.nan
            with suppress(Exception):  # Zarr's codecs raise many kinds of errors
                values = np.asarray(self._array[(*self._depth, rows, columns)], np.float64)
            if np.isnan(values).any():
                raise ValueError(f"block {block} of {self._folder.path} is lost: resume it")
            result[rows] += values @ v[columns]
            if self._folder.is_symmetric and block[0] != block[1]:
                result[columns] += values.T @ v[rows]
        return result

    def __repr__(self) -> str:
        return f"StoredMatrix({str(self._folder.path)!r}, shape={self.shape}, dtype={self.dtype})"
