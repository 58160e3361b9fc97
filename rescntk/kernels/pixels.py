"""Kernels by pixels: at every pixel pair, and as shares of the pixels of the left signal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..arrays import ArrayT, SignalList
from ..checks.values import KINDS, check_choice
from ..network import Network
from .arguments import check_arguments
from .call import KernelCall, default_errors


@default_errors()
def pixel_pairs(
    network: Network,
    X: ArrayT | Sequence[ArrayT],
    Z: ArrayT | Sequence[ArrayT] | None = None,
    *,
    kind: str = "ntk",
    engine: str = "auto",
    dtype: str = "float64",
    threads: int | None = None,
    progress: bool = False,
) -> ArrayT:
    """Return the equivariant kernel at every pair of pixels, (n_cases, m_cases, d, d).

    ``[..., 0, 0]`` is the kernel of the head "equivariant". The mean over the diagonal of the last
    two axes is that of "trace", and the mean over both axes that of "gap". For images the pixel
    axes are (h, w, h, w). Rounding errors are relative to the mean energy of the signals, and not
    to the energy of the two pixels.

    Parameters
    ----------
    network : Network
        The infinitely wide network.
    X, Z, engine, dtype, threads, progress
        The same as for calling a `Kernel`.
    kind : {"gpk", "ntk"}, default "ntk"
        The kind of kernel.

    Returns
    -------
    array, (n_cases, m_cases, n_timepoints, n_timepoints)
        For images the shape is (n_cases, m_cases, height, width, height, width).

    See Also
    --------
    pixel_shares : The shares of time points in a kernel.
    rescntk.gram : Kernels of networks with a head.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((2, 3, 8))
    >>> rk.pixel_pairs(rk.Network(depth=2), X).shape
    (2, 2, 8, 8)
    """
    check_choice(kind, "kind", KINDS)
    arguments = check_arguments(
        network,
        X,
        Z,
        head="pixels",
        heads=("pixels",),
        kinds=(kind,),
        engine=engine,
        dtype=dtype,
        threads=threads,
        progress=progress,
    )
    kernel = KernelCall(arguments).kernels()[kind][0]
    return kernel.reshape(*kernel.shape[:2], *arguments.pixel_shape, *arguments.pixel_shape)


@default_errors()
def pixel_shares(
    network: Network,
    X: ArrayT | Sequence[ArrayT],
    Z: ArrayT | Sequence[ArrayT] | None = None,
    *,
    kind: str = "ntk",
    head: str | int = "gap",
    normalized: bool = False,
    engine: str = "auto",
    dtype: str = "float64",
    threads: int | None = None,
    progress: bool = False,
) -> Any:
    """Return the share of each time point of `X` in the kernel, (n_cases, m_cases, d).

    The shares of a pair of signals add up to K(x, z), up to rounding errors. The share of the time
    point i is the mean over the time points j of z of the kernel at the pixel pair (i, j), divided
    by d. For the head "trace" it is the kernel at (i, i), divided by d. A function that is linear
    in K(x, ·), such as the decision of a kernel method, has such shares too
    (docs/guide/signals.md). Shares belong to the left signal, so that all pairs are computed, even
    those of `X` with itself.

    Parameters
    ----------
    network : Network
        The infinitely wide network.
    X : array, (n_cases, n_channels, n_timepoints)
        The signals whose time points have shares, in an array of NumPy or CuPy, or images
        (n_cases, n_channels, height, width). For the head "gap" `X` may also be a list or tuple of
        arrays (n_channels, n_timepoints_i).
    Z : array, (m_cases, n_channels, n_timepoints), optional
        Signals, images, or a list. By default it is `X`.
    kind : {"gpk", "ntk"}, default "ntk"
        The kind of kernel.
    head : {"gap", "trace"} or int, default "gap"
        The head, which must average over time points. If it has windows of pixels (`Kernel`), a
        share is a weighted mean over the time points j that lie in a window together with i.
    normalized : bool, default False
        Whether to divide shares by √(K(x,x) K(z,z)), as normalized kernels are. Shares are 0 where
        K(x,x) or K(z,z) is 0.
    engine, dtype, threads, progress
        The same as for calling a `Kernel`.

    Returns
    -------
    array, (n_cases, m_cases, n_timepoints)
        For images the shape is (n_cases, m_cases, height, width). If `X` is a list, the result is a
        list of arrays (m_cases, n_timepoints_i).

    Raises
    ------
    ValueError, OverflowError
        The same as for calling a `Kernel`.
    MemoryError
        If the shares need more memory than is free on this machine.

    See Also
    --------
    pixel_pairs : The kernel at every pair of pixels.
    rescntk.plots.contributions : A picture of the shares of time points in a decision.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((5, 2, 16))
    >>> S = rk.pixel_shares(rk.Network(depth=3), X, X[:2], normalized=True)
    >>> S.shape, np.allclose(S.sum(axis=-1), rk.ResCNTK(3, normalized=True)(X, X[:2]))
    ((5, 2, 16), True)
    """
    check_choice(kind, "kind", KINDS)
    shares_of_kinds = gram_shares(
        network,
        X,
        Z,
        head,
        (kind,),
        None,
        normalized=normalized,
        engine=engine,
        dtype=dtype,
        threads=threads,
        progress=progress,
    )
    shares = shares_of_kinds[0][0]
    batch: Any = X
    if isinstance(batch, (list, tuple, SignalList)):
        sizes = [np.shape(x)[1:] for x in batch]
        return [s[:, : math.prod(n)].reshape(-1, *n) for s, n in zip(shares, sizes, strict=True)]
    return shares.reshape(*shares.shape[:2], *np.shape(batch)[2:])


def gram_shares(
    network: Network,
    X: Any,
    Z: Any,
    head: str | int,
    kinds: Iterable[str],
    depths: Iterable[int] | None,
    normalized: bool,
    **options: Any,
) -> list[Any]:
    """Return the shares of each kind, (n_depths, n_cases, m_cases, d), computed in one pass.

    `options` are those of `check_arguments`. The shares of a signal that is shorter than the
    longest one of X end with zeros.
    """
    arguments = check_arguments(
        network,
        X,
        Z,
        head=head,
        heads=("gap", "trace"),
        kinds=kinds,
        depths=depths,
        normalized=normalized,
        shares=True,
        **options,
    )
    return list(KernelCall(arguments).kernels().values())
