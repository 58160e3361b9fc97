"""Signals with tables that are kept, so that many calls need not make them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..arrays import Array, ArrayT, Batch, SignalList
from ..checks.messages import shown
from ..engines.engine import AnyEngine, EngineSignals
from ..engines.request import Request, ScaledKernel


@dataclass(frozen=True, eq=False, repr=False)
class PreparedSignals:
    """Checked copies of signals, with their tables, which calls take as Z."""

    batch: Batch
    """The copies: an array, which has four axes for images, or a list."""
    source: Any
    """The signals as the caller gave them."""
    signals: Batch
    """The same copies as engines take them: the pixels of an image are those of a signal."""
    tables: EngineSignals
    """The signals with their tables, in the engine's own form."""
    diagonal: ScaledKernel | None
    """The kernels of each signal with itself, or None if the kernel is not normalized."""
    request: Request
    """The request that the signals were prepared for."""
    dtype: np.dtype
    """The dtype of the results that the signals were prepared for."""
    engine: AnyEngine
    """The engine that made the tables."""

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def has_lists(self) -> bool:
        """True if the tables are of signals of different lengths."""
        return isinstance(self.signals, SignalList)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that are kept between calls, for copies of the signals and tables."""
        diagonal = self.diagonal.values.values() if self.diagonal else ()
        return int(self.tables.nbytes + sum(values.nbytes for values in diagonal))

    def is_same(self, X: Any) -> bool:
        """Return whether `X` is the object that the caller gave, and its numbers did not change."""
        source: Any = self.source
        batch = self.batch
        if X is not source or len(source) != len(batch):
            return False
        array = hasattr(source, "ndim")
        pairs: Iterable[tuple[Any, Any]]
        pairs = [(source, batch)] if array else zip(source, batch, strict=True)
        return all(bool(np.array_equal(now, copied)) for now, copied in pairs)

    def check_call(self, request: Request, dtype: str) -> None:
        """Raise a ValueError if a call needs other kernels than the signals were prepared for."""
        expected = _kernels_of(request, dtype)
        for name, value in _kernels_of(self.request, self.dtype.name).items():
            if value != expected[name]:
                part = "network " if hasattr(request.network, name) else ""
                raise ValueError(
                    f"Z was prepared for other kernels than this call asks for: {part}{name} is "
                    f"{shown(value)}, expected {expected[name]!r}"
                )

    def check_engine(self, engine: AnyEngine) -> None:
        """Raise a ValueError if `engine`, which computes a call, did not make the tables."""
        if engine.name != self.engine.name:
            raise ValueError(
                f"Z was prepared for engine {self.engine.name!r}, expected {engine.name!r}, "
                "which computes this call"
            )


class PreparedKernel:
    """A kernel with right signals whose tables are kept: the result of `Kernel.prepare`.

    Calls return the same bits as the kernel, in less time if `X` has few signals. A `Kernel` and
    `rescntk.gram` also accept this object as Z. Several threads may use it at the same time. If it
    is pickled, the file has the signals without tables, which are made again when it is read.

    Attributes
    ----------
    kernel : Kernel
        The kernel that was prepared.
    engine : str
        The name of the engine that computes. It is never "auto".
    dtype : str
        The dtype of the results.
    nbytes : int
        The bytes of memory that are kept between calls, for a copy of the signals and for tables,
        which the first call makes. While several threads call the object at the same time, it may
        need more.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X, Z = np.random.default_rng(0).standard_normal((2, 5, 3, 16))
    >>> kernel = rk.ResCNTK(depth=3)
    >>> prepared = kernel.prepare(Z)
    >>> K = prepared(X[:1])
    >>> K.shape, bool((K == kernel(X[:1], Z)).all()), prepared.nbytes < 1e5
    ((1, 5), True, True)
    """

    def __init__(
        self, kernel: Callable[..., Any], signals: PreparedSignals, options: dict[str, Any]
    ) -> None:
        self.kernel, self.signals, self._options = kernel, signals, options
        self.engine, self.dtype = signals.engine.name, signals.dtype.name

    def __call__(self, X: ArrayT, *, threads: int | None = None, progress: bool = False) -> ArrayT:
        """Return the kernel matrix of `X` with the prepared signals, (n_cases, m_cases).

        `X`, `threads`, `progress` and errors are the same as for calling the kernel.
        """
        options = self._options | {"threads": threads, "progress": progress}
        K: ArrayT = self.kernel(X, self, **options)
        return K

    def __len__(self) -> int:
        return len(self.signals)

    @property
    def nbytes(self) -> int:
        return self.signals.nbytes

    def __repr__(self) -> str:
        held = f"{len(self)} signals, {self.nbytes} bytes"
        return f"<{self.kernel!r} prepared for {held}, {self.engine}, {self.dtype}>"

    def __reduce__(self) -> tuple[Callable[..., PreparedKernel], tuple[Batch | list[Array]]]:
        prepare = partial(self.kernel.prepare, **self._options)  # type: ignore[attr-defined]
        batch = self.signals.batch
        return prepare, (list(batch) if isinstance(batch, SignalList) else batch,)


def _kernels_of(request: Request, dtype: str) -> dict[str, Any]:
    """Return everything that kernels depend on besides the signals, by name."""
    kernels = {"head": request.head, "kinds": request.kinds, "depths": request.depths}
    return vars(request.network) | kernels | {"dtype": dtype}
