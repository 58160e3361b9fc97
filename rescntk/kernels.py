"""Kernels as users call them: input is checked, an engine computes, the scale is put back."""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from . import engines
from .engines.request import DTYPES, HEADS, KINDS, Request, Scaled
from .network import Network, check_choice, check_depth, check_flag

Array = Any


@dataclass(frozen=True, repr=False)
class Kernel:
    """The exact kernel of an infinitely wide network: Gaussian process or neural tangent.

    Parameters
    ----------
    network : Network
        What is infinitely wide.
    kind : {"gpk", "ntk"}
        The Gaussian process kernel (covariance of the output at initialization; training
        the last layer alone) or the neural tangent kernel (training what
        ``network.trained`` names).
    head : {"equivariant", "trace", "gap"}, default "gap"
        The last layer. "equivariant" is a fully convolutional network seen at pixel 1,
        "trace" a linear layer over all pixels, "gap" global average pooling.
    normalized : bool, default False
        Whether to return K(x,z)/√(K(x,x) K(z,z)). Works at any depth; a signal whose
        kernel with itself is 0 has 0 everywhere.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> kernel = rk.Kernel(rk.Network(depth=3), kind="ntk", head="trace")
    >>> X = np.random.default_rng(0).standard_normal((5, 2, 16))
    >>> kernel(X).shape, kernel(X, X[:2]).shape, kernel.diag(X).shape
    ((5, 5), (5, 2), (5,))
    """

    network: Network
    kind: str
    head: str = "gap"
    normalized: bool = False

    def __post_init__(self) -> None:
        _check_network(self.network)
        check_choice(self.kind, "kind", KINDS)
        check_choice(self.head, "head", HEADS)
        check_flag(self.normalized, "normalized")

    def __call__(
        self,
        X: Array,
        Z: Array | None = None,
        *,
        engine: str = "auto",
        dtype: str = "float64",
        progress: bool = False,
    ) -> Array:
        """Return the kernel matrix of `X` with `Z`, or of `X` with itself.

        Parameters
        ----------
        X : array, (n_cases, n_channels, n_timepoints)
            Signals, NumPy or CuPy; the result is of the same library.
        Z : array, (m_cases, n_channels, n_timepoints), optional
            If left out, or the very object `X`, half of the pairs are computed and the
            result is exactly symmetric.
        engine : str, default "auto"
            One of ``rescntk.engines.available()``.
        dtype : {"float64", "float32"}
            Precision of the computation and of the result.
        progress : bool, default False
            Whether to show a progress bar (needs tqdm).

        Returns
        -------
        array, (n_cases, n_cases) or (n_cases, m_cases)

        Raises
        ------
        ValueError
            For signals or options that are not as described above.
        OverflowError
            If a value exceeds the dtype; a deep kernel wants ``normalized=True``.
        """
        matrices = gram(
            self.network,
            X,
            Z,
            head=self.head,
            kinds=(self.kind,),
            normalized=self.normalized,
            engine=engine,
            dtype=dtype,
            progress=progress,
        )
        return matrices[0]

    def diag(
        self, X: Array, *, engine: str = "auto", dtype: str = "float64", progress: bool = False
    ) -> Array:
        """Return K(x, x) for each signal of `X`, an array (n_cases,).

        The options are those of the call; the values are bitwise those on the diagonal of
        the kernel matrix.
        """
        job = _Job(self.network, X, None, self.head, (self.kind,), None, engine, dtype)
        scaled = job.diagonal(progress)
        if self.normalized:
            return (scaled.values[self.kind][0] > 0).astype(job.dtype)
        return job.unscale(scaled, self.kind, scaled.left, scaled.right)[0]

    def replace(self, **changes: Any) -> Kernel:
        """Return the same kernel with parameters of its own or of its network changed.

        Examples
        --------
        >>> import rescntk as rk
        >>> rk.ResCNTK(depth=5).replace(depth=7, head="trace").network.depth
        7
        """
        own: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in own:
            own[name] = changes.pop(name, own[name])
        if changes:
            own["network"] = own["network"].replace(**changes)
        return Kernel(**own)

    def __repr__(self) -> str:
        names = [field.name for field in fields(self) if field.name != "network"]
        own = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"Kernel({self.network!r}, {own})"


def ResCGPK(
    depth: int,
    filter_size: int = 3,
    head: str = "gap",
    alpha: float = 1.0,
    normalized: bool = False,
    **network: Any,
) -> Kernel:
    """Return the Gaussian process kernel of a convolutional ResNet (Barzilai et al. 2022).

    Parameters
    ----------
    depth, filter_size, alpha, **network
        As for `Network`.
    head, normalized
        As for `Kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> rk.ResCGPK(depth=5, normalized=True)(np.eye(4)[:, None, :]).diagonal()
    array([1., 1., 1., 1.])
    """
    return Kernel(Network(depth, filter_size, alpha=alpha, **network), "gpk", head, normalized)


def ResCNTK(
    depth: int,
    filter_size: int = 3,
    head: str = "gap",
    alpha: float = 1.0,
    normalized: bool = False,
    **network: Any,
) -> Kernel:
    """Return the neural tangent kernel of a convolutional ResNet (Barzilai et al. 2022).

    The parameters are those of `ResCGPK`.

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.ResCNTK(depth=5, head="trace").kind
    'ntk'
    """
    return Kernel(Network(depth, filter_size, alpha=alpha, **network), "ntk", head, normalized)


def CGPK(
    depth: int,
    filter_size: int = 3,
    head: str = "gap",
    normalized: bool = False,
    **network: Any,
) -> Kernel:
    """Return the Gaussian process kernel of the network of `ResCGPK` without skip connections.

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.CGPK(depth=5).network.skip
    False
    """
    return Kernel(Network(depth, filter_size, skip=False, **network), "gpk", head, normalized)


def CNTK(
    depth: int,
    filter_size: int = 3,
    head: str = "gap",
    normalized: bool = False,
    **network: Any,
) -> Kernel:
    """Return the neural tangent kernel of the network of `ResCNTK` without skip connections.

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.CNTK(depth=5).kind
    'ntk'
    """
    return Kernel(Network(depth, filter_size, skip=False, **network), "ntk", head, normalized)


def gram(
    network: Network,
    X: Array,
    Z: Array | None = None,
    *,
    head: str = "gap",
    kinds: Iterable[str] = ("gpk", "ntk"),
    depths: Iterable[int] | None = None,
    normalized: bool = False,
    engine: str = "auto",
    dtype: str = "float64",
    progress: bool = False,
) -> tuple[Array, ...]:
    """Return several kernels of one network from one pass of its recursion.

    Parameters
    ----------
    network : Network
        What is infinitely wide.
    X, Z, engine, dtype, progress
        As for calling a `Kernel`.
    head, normalized
        As for `Kernel`.
    kinds : iterable of {"gpk", "ntk"}, default both
        What to compute.
    depths : iterable of int, optional
        Compute the kernels of the networks that differ from `network` in depth alone, in
        this order: the recursion passes each depth on its way to the last.

    Returns
    -------
    named tuple of arrays
        One field for each of `kinds`, in that order; (n_cases, m_cases), or
        (n_depths, n_cases, m_cases) where `depths` are given.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((5, 2, 16))
    >>> G, T = rk.gram(rk.Network(depth=3), X, head="trace")
    >>> rk.gram(rk.Network(depth=3), X, depths=(1, 2, 4), kinds=("gpk",)).gpk.shape
    (3, 5, 5)
    """
    check_choice(head, "head", HEADS)
    check_flag(normalized, "normalized")
    job = _Job(network, X, Z, head, kinds, depths, engine, dtype)
    scaled = job.gram(progress)
    results = {}
    if normalized:
        if job.Z is None:
            own = {kind: scaled.values[kind].diagonal(axis1=1, axis2=2) for kind in job.kinds}
            other = own
        else:
            own = job.diagonal(False).values
            other = job.diagonal(False, job.Z).values
        for kind in job.kinds:
            correlations = _normalize(scaled.values[kind], own[kind], other[kind])
            results[kind] = correlations.astype(job.dtype, copy=False)
    else:
        left, right = scaled.left[:, None], scaled.right[None, :]
        for kind in job.kinds:
            results[kind] = job.unscale(scaled, kind, left, right)
    if depths is None:
        results = {kind: result[0] for kind, result in results.items()}
    return _named(results)


def pixel_pairs(
    network: Network,
    X: Array,
    Z: Array | None = None,
    *,
    kind: str = "ntk",
    engine: str = "auto",
    dtype: str = "float64",
    progress: bool = False,
) -> Array:
    """Return the equivariant kernel at every pair of pixels.

    Parameters
    ----------
    network : Network
        What is infinitely wide.
    X, Z, engine, dtype, progress
        As for calling a `Kernel`.
    kind : {"gpk", "ntk"}, default "ntk"
        What to compute.

    Returns
    -------
    array, (n_cases, m_cases, n_timepoints, n_timepoints)
        Of this size: n·m·d² numbers. ``[..., 0, 0]`` is the head "equivariant", the mean
        over the diagonal of the last two axes "trace", the mean over both "gap". Rounding
        errors are relative to the signals' mean energy, not to that of the two pixels.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X = np.random.default_rng(0).standard_normal((2, 3, 8))
    >>> rk.pixel_pairs(rk.Network(depth=2), X).shape
    (2, 2, 8, 8)
    """
    check_choice(kind, "kind", KINDS)
    job = _Job(network, X, Z, "pixels", (kind,), None, engine, dtype)
    scaled = job.gram(progress)
    left = scaled.left[:, None, None, None]
    return job.unscale(scaled, kind, left, scaled.right[None, :, None, None])[0]


def _named(results: dict[str, Array]) -> tuple[Array, ...]:
    """Return the values as a named tuple with the keys as its fields."""
    named: tuple[Array, ...] = namedtuple("Gram", results)(**results)  # type: ignore[misc]
    return named


class _Job:
    """One checked call: arguments on their way to an engine, and results on their way back."""

    def __init__(
        self,
        network: Network,
        X: Array,
        Z: Array | None,
        head: str,
        kinds: Iterable[str],
        depths: Iterable[int] | None,
        engine: str,
        dtype: str,
    ) -> None:
        _check_network(network)
        self.network = network
        self.kinds = _check_kinds(kinds)
        self.depths = (network.depth,) if depths is None else _check_depths(depths)
        self.dtype = np.dtype(check_choice(dtype, "dtype", DTYPES))
        self.engine = engines.choose(engine)
        self.X = check_signals(X, "X")
        self.Z = None if Z is None or Z is X else check_signals(Z, "Z")
        if self.Z is not None:
            _check_match(self.X, self.Z)
        ladder = tuple(sorted(set(self.depths)))
        self.request = Request(network, head, self.kinds, ladder, dtype)

    def gram(self, progress: bool) -> Scaled:
        n, m = len(self.X), len(self.X if self.Z is None else self.Z)
        pairs = n * (n + 1) // 2 if self.Z is None else n * m
        with _progress_bar(progress, pairs) as tick:
            return self._in_order(self.engine.gram(self.request, self.X, self.Z, tick))

    def diagonal(self, progress: bool, signals: Array | None = None) -> Scaled:
        signals = self.X if signals is None else signals
        with _progress_bar(progress, len(signals)) as tick:
            return self._in_order(self.engine.diagonal(self.request, signals, tick))

    def _in_order(self, scaled: Scaled) -> Scaled:
        """Return the depths in the order in which they were asked for."""
        ladder = self.request.depths
        if self.depths == ladder:
            return scaled
        order = [ladder.index(depth) for depth in self.depths]
        values = {kind: value[order] for kind, value in scaled.values.items()}
        exponents = tuple(scaled.exponents[t] for t in order)
        return Scaled(values, scaled.left, scaled.right, exponents)

    def unscale(self, scaled: Scaled, kind: str, left: Array, right: Array) -> Array:
        """Return values, (depths, ...), times their scale, or say that they do not fit."""
        values = scaled.values[kind]
        xp = array_module(values)
        left, left_power = xp.frexp(left)
        right, right_power = xp.frexp(right)
        powers = xp.asarray(scaled.exponents).reshape(-1, *[1] * (values.ndim - 1))
        powers = powers + (left_power + right_power)
        with np.errstate(over="ignore"):
            result = xp.ldexp(values * (left * right * self.network.readout_scale), powers)
            result = result.astype(self.dtype, copy=False)
        if not bool(xp.isfinite(result).all()):
            raise OverflowError(
                f"the kernel exceeds {self.dtype.name} at depth {max(self.depths)} (it grows "
                f"with depth and with the signals); normalized=True has no such limit"
            )
        return result


def _normalize(values: Array, own: Array, other: Array) -> Array:
    """Return K(x,z)/√(K(x,x) K(z,z)), 0 where that is 0/0."""
    product = own[:, :, None] * other[:, None, :]
    xp = array_module(values)
    root = xp.sqrt(xp.where(product > 0, product, 1.0))
    return xp.where(product > 0, values / root, 0.0)


def array_module(array: Array) -> Any:
    """Return cupy for CuPy's arrays, else numpy; CuPy is never imported here."""
    name = type(array).__module__.partition(".")[0]
    return sys.modules[name] if name == "cupy" else np


def check_signals(X: Array, name: str) -> Array:
    """Return `X` as a floating-point array of signals, or say what is wrong with it.

    Parameters
    ----------
    X : array
        Signals (n_cases, n_channels, n_timepoints), real and finite.
    name : str
        What to call the argument.

    Raises
    ------
    ValueError
        Naming the argument, what came and what was expected.
    """
    expected = "expected (n_cases, n_channels, n_timepoints)"
    xp = array_module(X)
    try:
        array = xp.asarray(X)
    except ValueError:
        raise ValueError(f"{name} is not a rectangular array, {expected}") from None
    if array.ndim != 3:
        raise ValueError(f"{name} has shape {array.shape}, {expected}")
    if 0 in array.shape:
        raise ValueError(f"{name} has shape {array.shape} with an empty axis, {expected}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {array.dtype}, expected real numbers")
    array = array.astype(np.float64, copy=False)
    finite = xp.isfinite(array)
    if not bool(finite.all()):
        case = int(xp.argmin(finite.reshape(len(array), -1).all(axis=1)))
        raise ValueError(
            f"{name} of shape {array.shape} contains NaN or infinity "
            f"(first in case {case}), expected finite numbers"
        )
    return array


def _check_match(X: Array, Z: Array) -> None:
    if array_module(X) is not array_module(Z):
        raise ValueError(
            "X and Z are of different array libraries, expected both NumPy or both CuPy"
        )
    for axis, what in ((1, "channels"), (2, "timepoints")):
        if X.shape[axis] != Z.shape[axis]:
            raise ValueError(
                f"Z has shape {Z.shape}, expected {X.shape[axis]} {what} as in X of shape {X.shape}"
            )


def _check_network(network: Any) -> None:
    if not isinstance(network, Network):
        raise ValueError(f"network is {network!r}, expected a rescntk.Network")


def _check_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    for kind in kinds:
        check_choice(kind, "kinds", KINDS)
    if not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(f"kinds is {kinds!r}, expected one or both of {KINDS}")
    return kinds


def _check_depths(depths: Iterable[int]) -> tuple[int, ...]:
    try:
        given = tuple(depths)
    except TypeError:
        raise ValueError(f"depths is {depths!r}, expected a sequence of integers") from None
    if not given:
        raise ValueError("depths is empty, expected at least one depth")
    return tuple(check_depth(depth, "depths") for depth in given)


@contextmanager
def _progress_bar(show: bool, pairs: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how many more pairs are done."""
    if not check_flag(show, "progress"):
        yield lambda done: None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs tqdm: pip install 'rescntk[plot]'") from None
    with tqdm(total=pairs, unit="pair", unit_scale=True) as bar:
        # Tiles on the diagonal compute a few pairs twice.
        yield lambda done: bar.update(min(done, pairs - bar.n))
        bar.update(pairs - bar.n)
