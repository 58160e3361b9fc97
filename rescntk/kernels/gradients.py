"""Derivatives of weighted sums of kernels: in the signals, α and the biases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..activations import activation_of
from ..arrays import Array, SignalList
from ..engines.derivatives import Derivatives
from ..engines.near import near_pairs
from ..engines.protocol import Request, Tick, blocks
from ..network import Network
from ..progress import progress_bar
from ..validation import check_flag, check_shape
from .call import KernelCall, default_errors, mean_of_kernels
from .prepared import PreparedKernel


class Gradients(NamedTuple):
    """A kernel matrix K, and derivatives of the sum S of its entries times weights."""

    K: Any
    """The kernel matrix, (n_cases, m_cases)."""

    X: Any
    """∂S/∂X, of the shape of X, or a list where X is a list."""

    Z: Any
    """∂S/∂Z, likewise. None where the kernel is of X with itself: then X has both sides' sum."""

    alpha: float | None
    """∂S/∂α. 0 for a network without skip connections, where α is absent."""

    bias: float | None
    """∂S/∂β, β the standard deviation of the network's biases. 0 where β is 0."""


@default_errors()
def vjp(
    self: Any,
    X: Array | Sequence[Array],
    Z: Array | Sequence[Array] | PreparedKernel | None = None,
    weights: Array | Callable[[np.ndarray], Array] | None = None,
    *,
    fixed_Z: bool = False,
    engine: str = "auto",
    dtype: str = "float64",
    threads: int | None = None,
    progress: bool = False,
) -> Gradients:
    r"""Return the kernel matrix K, and the derivatives of a weighted sum of its entries.

    With weights W the sum is S = Σ W_ab K(x_a, z_b). Reverse mode: one pass back through the layers
    gives the derivatives in all signals (``docs/theory/gradients.md``). K has the bits of the
    kernel's own call, and takes its time.

    The tangent kernel has a kink where two windows of the signals are proportional, as where x and
    z are equal. The result is the mean of the derivatives on its two sides. Where all pixels of a
    window are zero, its correlations count as 0. Normalized kernels have derivatives of 0 by
    signals of zeros.

    Parameters
    ----------
    X, Z
        Signals, images, or lists, as for calling the kernel. Without Z, S is a sum over pairs of
        signals of X, and W need not be symmetric.
    weights : array, (n_cases, m_cases), or function
        W, the derivatives of a loss by the entries of K; or the function that gives W from K.
    fixed_Z : bool, default False
        Whether to return derivatives by X only. Z, alpha and bias of the result are then None. It
        saves time for normalized kernels of few signals X with many signals Z.
    engine, dtype, threads, progress
        As for calling the kernel. The engine "cuda", and the activation "erf", have no gradients.

    Returns
    -------
    Gradients
        A named tuple: K, X, Z, alpha and bias.

    Raises
    ------
    ValueError
        If weights are not real and finite numbers of this shape, signals are CuPy arrays, there is
        no Z to be fixed, or as for calling the kernel.
    OverflowError, MemoryError
        As for calling the kernel; also if a derivative exceeds the dtype.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> X, Z = np.random.default_rng(0).standard_normal((2, 5, 3, 16))
    >>> W = np.ones((5, 5))
    >>> r = rk.ResCNTK(depth=3).vjp(X, Z, W)
    >>> r.X.shape, np.allclose((r.X * X).sum(), r.K.sum())  # K(cx, z) = c K(x, z)
    ((5, 3, 16), True)
    """
    return mean_gradients(
        self.network, X, Z, weights, head=self.head, kinds=(self.kind,), fixed_Z=fixed_Z,
        normalized=self.normalized, engine=engine, dtype=dtype, threads=threads, progress=progress,
    )  # fmt: skip


def signal_gradients(
    kernel: Any, X: Any, Z: Any, weights: Any, fixed_Z: bool = False, **options: Any
) -> tuple[Any, Any]:
    """Return the derivatives by X and by Z, as `vjp`, in less time: without the kernel matrix."""
    kernels = {"head": kernel.head, "kinds": (kernel.kind,), "normalized": kernel.normalized}
    options = kernels | {"fixed_Z": fixed_Z, "with_K": False} | options
    return mean_gradients(kernel.network, X, Z, weights, **options)[1:3]


@default_errors()
def mean_gradients(
    network: Network, X: Any, Z: Any, weights: Any, *, head: str, kinds: tuple[str, ...],
    depths: tuple[int, ...] | None = None, normalized: bool = False, fixed_Z: bool = False,
    with_K: bool = True, engine: str = "auto", dtype: str = "float64", threads: int | None = None,
    progress: bool = False,
) -> Gradients:  # fmt: skip
    """Return the results of `vjp` for the mean of kernels of some kinds and depths.

    K is None if neither the caller, `with_K`, nor the derivatives need it.
    """
    if activation_of(network).odd:
        raise ValueError(
            f"network has activation {network.activation!r}, expected 'relu': gradients of "
            f"other activations are not supported"
        )
    if weights is None:
        raise ValueError("weights is None, expected an array (n_cases, m_cases)")
    if check_flag(fixed_Z, "fixed_Z") and Z is None:
        raise ValueError("fixed_Z is True and Z is None, expected signals Z")
    batch: Any = Z.signals.batch if isinstance(Z, PreparedKernel) else Z
    call = KernelCall(
        network, X, batch, head=head, kinds=kinds, depths=depths, engine=engine, dtype=dtype,
        threads=threads, progress=progress, gradients=True,
    )  # fmt: skip
    given_Z = call.X if call.Z is None and batch is not None else call.Z
    with np.errstate(over="ignore", invalid="ignore"):  # infinite results are reported
        weighted_sum = _WeightedSum(call, given_Z, normalized, fixed_Z)
        return weighted_sum.gradients(*weighted_sum.derive(weights, with_K), (X, batch))


_NEAR = {"float64": 1e-5, "float32": 1e-3}
"""The 1 − K̂ below which derivatives of normalized Gaussian process kernels are taken apart.

They are differences, whose rounding errors are a few units over √(1 − K̂). In float64 pairs below go
through changes (engines/near.py), and in float32 through float64. A larger number takes more pairs
the slower way; a smaller one leaves larger errors.
"""

_NEAR_AT_ONCE = 4096
"""Pairs of nearly equal signals that are derived together. More take more memory."""


class _WeightedSum:
    """The sum of the kernels of a checked call times weights. `Z` is None for X with itself."""

    def __init__(self, call: KernelCall, Z: Any, normalized: bool, fixed_Z: bool) -> None:
        self.call, self.Z, self.normalized, self.fixed_Z = call, Z, normalized, fixed_Z
        self.engine = call.engine

    def derive(self, weights: Any, with_K: bool) -> tuple[Any, Derivatives]:
        """Return the mean of the kernels, or None without need, and its sum's derivatives."""
        call, shown, matrices, K = self.call, self.call.progress, dict[str, Any](), None
        shape = len(call.X), len(call.X if call.Z is None else call.Z)
        W = weights if callable(weights) else check_shape(weights, "weights", shape)
        call.progress = False  # of the kernels
        call.check_memory()
        diagonals = call.diagonals() if self.normalized else []
        if with_K or self.normalized or callable(W):
            matrices = call.results(self.normalized, diagonals)
            K = mean_of_kernels(list(matrices.values()))
        if callable(W):
            W = check_shape(W(K), "weights", shape)
        W = np.asarray(W) / (len(call.kinds) * len(call.depths))
        parts = list[Derivatives]()
        with progress_bar(shown, W.size * len(call.depths)) as tick:
            for k, depth in enumerate(call.depths):
                net = call.network.replace(depth=depth)
                request = replace(call.request, network=net, depths=(depth,))
                if not self.normalized:
                    every = [W] * len(call.kinds)
                    parts.append(self.engine.vjp(request, call.X, self.Z, every, None, tick))
                    continue
                kernels = [
                    (np.asarray(matrix[k]), *(d.values[kind][call.order[k]] for d in diagonals))
                    for kind, matrix in matrices.items()
                ]
                parts.append(self._of_normalized(request, W, kernels, tick))
        for more in parts[1:]:
            parts[0].add(more)
        return K, parts[0]

    def _of_normalized(
        self, request: Request, W: np.ndarray, kernels: Any, tick: Tick
    ) -> Derivatives:
        """Return the derivatives of the sum of K̂; `kernels` are K̂, K(x, x) and K(z, z) of kinds.

        −W K̂/2 is the derivative of a term by log K(x, x), and by log K(z, z).
        """
        call, weights, roots, by_kernels = self.call, list[Any](), list[Any](), list[Any]()
        if self.Z is None:  # K̂(x, x) is constant, and K̂ symmetric
            W = np.triu(W, 1) + np.tril(W, -1).T
        for kind, (K, *diagonals) in zip(request.kinds, kernels, strict=True):
            weights.append(np.where(self._near(kind, K), 0.0, W))
            roots.append([np.sqrt(np.maximum(diagonals[k], 0.0)) for k in (0, -1)])
            terms = -0.5 * weights[-1] * K
            by_logs = [terms.sum(axis=1), terms.sum(axis=0)]
            if self.Z is None:
                by_logs[0] = by_logs[0] + by_logs[1]
            by_kernels.append([
                np.divide(by_log, diagonal, out=np.zeros_like(by_log), where=diagonal > 0)
                for by_log, diagonal in zip(by_logs, (diagonals[0], diagonals[-1]), strict=True)
            ])  # fmt: skip
        sums = self.engine.vjp(request, call.X, self.Z, weights, roots, tick)
        for k, batch in enumerate([call.X] if self.Z is None or self.fixed_Z else [call.X, self.Z]):
            more = self.engine.vjp_paired(request, batch, [of_kind[k] for of_kind in by_kernels])
            sums.sides[k] = [*map(np.add, sums.sides[k], more.sides[0])]
            sums.numbers[:] += more.numbers
        for kind, of_kind, root in zip(request.kinds, weights, roots, strict=True):
            if (apart := W - of_kind).any():
                self._add_near(sums, replace(request, kinds=(kind,)), apart, root)
        return sums

    def _near(self, kind: str, K: np.ndarray) -> np.ndarray:
        """Return where signals are nearly equal to the Gaussian process kernel (`_NEAR`)."""
        near: np.ndarray = (1.0 - K < _NEAR[self.call.dtype.name]) & (kind == "gpk")
        if self.call.dtype == np.float64:  # of signals of one length
            near &= self._lengths[0][:, None] == self._lengths[1]
        return near

    @property
    def _lengths(self) -> list[np.ndarray]:
        """The lengths of the left and of the right signals."""
        both = self.call.X, self.call.X if self.Z is None else self.Z
        return [np.array([signal.shape[-1] for signal in batch]) for batch in both]

    def _add_near(self, sums: Derivatives, request: Request, W: np.ndarray, roots: Any) -> None:
        """Add the derivatives of pairs of nearly equal signals, which alone have weights."""
        call, Z = self.call, self.call.X if self.Z is None else self.Z
        lefts, rights = np.nonzero(W)
        if call.dtype == np.float32:
            i, k = np.unique(lefts), np.unique(rights)
            of_pairs = call.in_float64(request, call.X[i], Z[k])
            pairs = _WeightedSum(of_pairs, of_pairs.Z, normalized=True, fixed_Z=self.fixed_Z)
            sums.add(pairs.derive(W[np.ix_(i, k)], with_K=False)[1], i, k)
            return
        lengths = self._lengths[0][lefts]
        for length in np.unique(lengths):
            of_length = np.flatnonzero(lengths == length)
            for part in blocks(0, len(of_length), _NEAR_AT_ONCE):
                i, k = lefts[of_length[part]], rights[of_length[part]]
                left, right = np.stack(list(call.X[i])), np.stack(list(Z[k]))
                near_roots = roots[0][i], roots[1][k]
                sums.add(near_pairs(request, left, right, W[i, k], near_roots), i, k)

    def gradients(self, K: Any, sums: Derivatives, given: tuple[Any, Any]) -> Gradients:
        """Return the results; `given` are X and Z as they were given."""
        network = self.call.network
        grows = network.skip and network.alpha > 0
        alpha = sums.numbers[0] * 2.0 / network.alpha if grows else 0.0
        bias = sums.numbers[1] / network.bias if network.bias > 0 else 0.0
        of_X = self._shaped(sums.sides[0], given[0])
        if self.fixed_Z:
            return Gradients(K, of_X, None, None, None)
        of_Z = None if self.Z is None else self._shaped(sums.sides[1], given[1])
        if not (np.isfinite(alpha) and np.isfinite(bias)):
            raise OverflowError("the derivative by alpha, or by bias, exceeds float64")
        return Gradients(K, of_X, of_Z, float(alpha), float(bias))

    def _shaped(self, gradients: list[np.ndarray], given: Any) -> Any:
        """Return the gradients of a batch as it was given: an array, or a list."""
        dtype = self.call.dtype
        of_signals: list[Any] = [each.astype(dtype) for each in gradients]
        if not all(np.isfinite(each).all() for each in of_signals):
            raise OverflowError(f"a derivative exceeds {dtype.name}")
        is_list = isinstance(given, SignalList) or (
            isinstance(given, (list, tuple)) and any(hasattr(x, "ndim") for x in given)
        )
        return of_signals if is_list else np.stack(of_signals).reshape(np.shape(given))
