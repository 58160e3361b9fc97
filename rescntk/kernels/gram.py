"""`gram`: several kernels of one network from one pass of its recursion."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Sequence
from typing import Any

from ..arrays import ArrayT
from ..network import Network
from .arguments import check_arguments
from .call import KernelCall, default_errors
from .prepared import PreparedKernel, PreparedSignals


@default_errors()
def gram(
    network: Network,
    X: ArrayT | Sequence[ArrayT],
    Z: ArrayT | Sequence[ArrayT] | PreparedKernel | PreparedSignals | None = None,
    *,
    head: str | int = "gap",
    kinds: Iterable[str] = ("gpk", "ntk"),
    depths: Iterable[int] | None = None,
    normalized: bool = False,
    engine: str = "auto",
    dtype: str = "float64",
    threads: int | None = None,
    progress: bool = False,
) -> tuple[ArrayT, ...]:
    """Return several kernels of one network from one pass of its recursion.

    Parameters
    ----------
    network : Network
        The infinitely wide network.
    X, Z, head, normalized, engine, dtype, threads, progress
        As for a `Kernel` and its call.
    kinds : iterable of {"gpk", "ntk"}, default both
        The kinds of kernel.
    depths : iterable of int, optional
        Depths in place of the network's own, in the order given, from the same pass. A depth
        has the first layers, where layers have values of their own.

    Returns
    -------
    named tuple of arrays
        One field for each of `kinds`, in the order of `kinds`: (n_cases, m_cases), or
        (n_depths, n_cases, m_cases) where `depths` are given. It can be pickled.

    See Also
    --------
    Kernel : One kind of kernel as a function of arrays.
    rescntk.stored.gram : A Gram matrix on disk, resumed and extended.

    Notes
    -----
    Besides the results, and a copy of signals that are not in float64, a call holds tables of some
    signals: 0.3 GB, and 0.2 GB more for each thread, at most. Long signals may exceed this. Then
    tables of one signal, or with the heads "trace" and "equivariant" of 16 in an eighth of the free
    memory, are held; a pair that does not fit is refused before the work.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((5, 2, 16))
    >>> rk.gram(rk.Network(depth=3), X, depths=(1, 2, 4), kinds=("gpk",)).gpk.shape
    (3, 5, 5)
    """
    arguments = check_arguments(
        network,
        X,
        Z,
        head=head,
        kinds=kinds,
        depths=depths,
        normalized=normalized,
        engine=engine,
        dtype=dtype,
        threads=threads,
        progress=progress,
    )
    results = KernelCall(arguments).kernels()
    if depths is None:
        results = {kind: result[0] for kind, result in results.items()}
    return GRAMS[arguments.request.kinds](*results.values())


@default_errors()
def prepare(network: Network, Z: Any, **options: Any) -> PreparedSignals:
    """Return signals that `gram`, with the same `options`, takes as its Z at less cost."""
    return KernelCall(check_arguments(network, Z, names=("Z", "Z"), **options)).prepare(Z)


# The results of `gram`: classes of a module, which pickle finds by name.
Gram = namedtuple("Gram", ("gpk", "ntk"))
ReversedGram = namedtuple("ReversedGram", ("ntk", "gpk"))
GpkGram = namedtuple("GpkGram", ("gpk",))
NtkGram = namedtuple("NtkGram", ("ntk",))
GRAMS: dict[tuple[str, ...], Any] = {
    result._fields: result for result in (Gram, ReversedGram, GpkGram, NtkGram)
}
for _result in GRAMS.values():
    _result.__doc__ = "The kernels of a network by their kinds: a result of `gram`."
    for _kind in _result._fields:
        getattr(_result, _kind).__doc__ = f"The kernel of the kind {_kind!r}."
