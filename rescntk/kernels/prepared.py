"""Signals whose tables are held, so that kernels with new signals do not make them again."""

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
    """Signals, checked and copied with their tables, for other calls to take as their Z."""

    batch: Batch
    """The copies: an array, of images with four axes; or a list, also of one length."""
    source: Any
    """The signals as the caller gave them."""
    signals: Batch
    """The same copies as engines take them: images are signals of all their pixels."""
    tables: EngineSignals
    """The signals with their tables, in the engine's own form."""
    diagonal: ScaledKernel | None
    """The kernels of each signal with itself, where calls need them."""
    request: Request
    """What they were prepared for."""
    dtype: np.dtype
    """Of the results that they were prepared for."""
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
        """Bytes of memory that are held between calls: copies of the signals, and tables."""
        diagonal = self.diagonal.values.values() if self.diagonal else ()
        return int(self.tables.nbytes + sum(values.nbytes for values in diagonal))

    def is_same(self, X: Any) -> bool:
        """Return whether `X` is the object that was given, with the same numbers still."""
        source: Any = self.source
        batch = self.batch
        if X is not source or len(source) != len(batch):
            return False
        array = hasattr(source, "ndim")
        pairs: Iterable[tuple[Any, Any]]
        pairs = [(source, batch)] if array else zip(source, batch, strict=True)
        return all(bool(np.array_equal(now, copied)) for now, copied in pairs)

    def check_call(self, request: Request, dtype: str) -> None:
        """Raise a ValueError if a call asks for other kernels than were prepared."""
        expected = _kernels_of(request, dtype)
        for name, value in _kernels_of(self.request, self.dtype.name).items():
            if value != expected[name]:
                part = "network " if hasattr(request.network, name) else ""
                raise ValueError(
                    f"Z was prepared for other kernels than this call asks for: {part}{name} is "
                    f"{shown(value)}, expected {expected[name]!r}"
                )

    def check_engine(self, engine: AnyEngine) -> None:
        """Raise a ValueError if another engine computes a call."""
        if engine.name != self.engine.name:
            raise ValueError(
                f"Z was prepared for engine {self.engine.name!r}, expected {engine.name!r}, "
                "which computes this call"
            )


class PreparedKernel:
    """A kernel with its right signals, whose tables are held: the result of `Kernel.prepare`.

    Calls give the same bits as the kernel, in less time where `X` is short. A `Kernel`, and
    `rescntk.gram`, take this object in the place of Z too. Threads may share it. A file of pickle
    has the signals without tables, which are made again when it is read.

    Attributes
    ----------
    kernel : Kernel
    engine : str
        The engine that computes, also where "auto" was asked for.
    dtype : str
    nbytes : int
        Bytes of memory that are held between calls: a copy of the signals, and tables, which the
        first call makes. Calls of several threads at once may hold more for a while.

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

        `X`, `threads` and `progress` are as for calling the kernel, and so are errors.
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
    """Return all that kernels depend on besides the signals, by name."""
    kernels = {"head": request.head, "kinds": request.kinds, "depths": request.depths}
    return vars(request.network) | kernels | {"dtype": dtype}
