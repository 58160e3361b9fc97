"""`gram`: several kernels of one network, computed in one pass of its recursion."""

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
    """Return several kernels of one network, computed in one pass of its recursion.

    Parameters
    ----------
    network : Network
        The infinitely wide network.
    X, Z, head, normalized, engine, dtype, threads, progress
        The same as for a `Kernel` and its call.
    kinds : iterable of {"gpk", "ntk"}, default both
        The kinds of kernel.
    depths : iterable of int, optional
        The depths for which kernels are returned, in this order, instead of the network's own
        depth. If layers have values of their own, a depth L means the first L layers.

    Returns
    -------
    named tuple of arrays
        It has one field for each of `kinds`, in the order of `kinds`. The fields have the shape
        (n_cases, m_cases), or (n_depths, n_cases, m_cases) if `depths` are given. The tuple can be
        pickled.

    See Also
    --------
    Kernel : One kind of kernel as a function of arrays.
    rescntk.stored.gram : A Gram matrix on disk, which can be resumed and extended.

    Notes
    -----
    Besides the results, and a copy of signals that are not in float64, a call keeps tables of some
    signals in memory. They take at most 0.3 GB, and 0.2 GB more for each thread, unless signals are
    so long that one table exceeds this. Then the call keeps the tables of one signal; for the heads
    "trace" and "equivariant" it keeps those of up to 16 signals, in an eighth of the free memory. A
    pair of signals whose tables do not fit into memory is refused before the computation begins.

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
    """Return signals with tables, which `gram` takes as Z at less cost.

    `options` are those of `gram`, and must be the same in both calls.
    """
    return KernelCall(check_arguments(network, Z, names=("Z", "Z"), **options)).prepare(Z)


# The classes of the results of `gram`. They are defined here, so that pickle finds them by name.
Gram = namedtuple("Gram", ("gpk", "ntk"))
ReversedGram = namedtuple("ReversedGram", ("ntk", "gpk"))
GpkGram = namedtuple("GpkGram", ("gpk",))
NtkGram = namedtuple("NtkGram", ("ntk",))
GRAMS: dict[tuple[str, ...], Any] = {
    result._fields: result for result in (Gram, ReversedGram, GpkGram, NtkGram)
}
for _result in GRAMS.values():
    _result.__doc__ = "The kernels of a network, one field for each kind: a result of `gram`."
    for _kind in _result._fields:
        getattr(_result, _kind).__doc__ = f"The kernel of the kind {_kind!r}."
