"""Derivatives of weighted sums of kernels: in the signals, α and the biases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..activations import activation_of
from ..arrays import Array, SignalList, library
from ..engines.protocol import silent
from ..progress import progress_bar
from ..validation import check_flag, check_shape
from .call import KernelCall, default_errors
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
    weights: Array | None = None,
    *,
    fixed_Z: bool = False,
    engine: str = "auto",
    dtype: str = "float64",
    threads: int | None = None,
    progress: bool = False,
) -> Gradients:
    r"""Return the kernel matrix K, and the derivatives of a weighted sum of its entries.

    With weights W the sum is S = Σ W_ab K(x_a, z_b). Reverse mode: one pass back through the layers
    gives the derivatives in all signals (``docs/theory/gradients.md``).

    The tangent kernel has a kink where two windows of the signals are proportional, as where x and
    z are equal. The result is the mean of the derivatives on its two sides. Where all pixels of a
    window are zero, its correlations count as 0. Normalized kernels have derivatives of 0 by
    signals of zeros.

    Parameters
    ----------
    X, Z
        Signals, images, or lists, as for calling the kernel. Without Z, S is a sum over pairs of
        signals of X, and W need not be symmetric.
    weights : array, (n_cases, m_cases)
        W, the derivatives of a loss by the entries of K.
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
    if activation_of(self.network).odd:
        raise ValueError(
            f"network has activation {self.network.activation!r}, expected 'relu': gradients of "
            f"other activations are not supported"
        )
    if weights is None:
        raise ValueError("weights is None, expected an array (n_cases, m_cases)")
    if check_flag(fixed_Z, "fixed_Z") and Z is None:
        raise ValueError("fixed_Z is True and Z is None, expected signals Z")
    batch: Any = Z.signals.batch if isinstance(Z, PreparedKernel) else Z
    call = KernelCall(
        self.network, X, batch, self.head, (self.kind,), None, engine, dtype, threads, progress,
        gradients=True,
    )  # fmt: skip
    if library(call.X) is not np:
        raise ValueError("X is a CuPy array, expected a NumPy array: gradients need the CPU")
    shape = len(call.X), len(call.X if call.Z is None else call.Z)
    W = check_shape(weights, "weights", shape)
    call.check_memory()
    with np.errstate(over="ignore", invalid="ignore"):  # infinite results are reported
        return _Pass(call, self.normalized, fixed_Z).gradients(X, batch, np.asarray(W))


class _Pass:
    """The way of a checked call to the gradients."""

    def __init__(self, call: KernelCall, normalized: bool, fixed_Z: bool) -> None:
        self.call, self.normalized, self.kind = call, normalized, call.kinds[0]
        self.fixed_Z = fixed_Z
        self.engine: Any = call.engine

    def gradients(self, X: Any, Z: Any, W: np.ndarray) -> Gradients:
        """Return the gradients for weights `W`; `X` and `Z` as they were given."""
        call, own = self.call, []
        if self.normalized:
            own = [each.values[self.kind][0] for each in call.diagonals()]
        roots = tuple(np.sqrt(np.maximum(each, 0.0)) for each in (own * 2)[:2]) or None
        with progress_bar(call.progress, W.size) as tick:
            found = self.engine.vjp(call.request, call.X, call.Z, W, roots, tick)
        scaled = found.kernel
        left, right = scaled.left[:, None], scaled.right[None, :]
        gradients = [found.left] + [found.right] * (call.Z is not None and not self.fixed_Z)
        if not self.normalized:
            K = call.unscale(scaled, self.kind, left, right)[0]
            exponent, readout = scaled.exponents[0], call.network.readout_scale
            numbers = np.zeros(2)
            scales = scaled.left, scaled.right
            for part, power, scale in zip(found.numbers, found.power, scales, strict=False):
                numbers += (np.ldexp(readout * scale, exponent + power) * part).sum(axis=1)
            gradients = [
                [np.ldexp(readout * each, exponent + power) for each in side]
                for side, power in zip(gradients, found.power, strict=False)
            ]
        else:
            one, other = (own * 2)[:2]
            K = call.normalize(scaled, self.kind, one[None], other[None])[0]
            numbers = np.sum([side.sum(axis=1) for side in found.numbers], axis=0)
            self._add_diagonals(-0.5 * W * K, own, numbers, gradients)
        grows = call.network.skip and call.network.alpha > 0
        alpha = numbers[0] * 2.0 / call.network.alpha if grows else 0.0
        bias = numbers[1] / call.network.bias if call.network.bias > 0 else 0.0
        X_gradient, *rest = (
            self._shaped(side, given) for side, given in zip(gradients, (X, Z), strict=False)
        )
        if self.fixed_Z:
            return Gradients(K, X_gradient, None, None, None)
        if not (np.isfinite(alpha) and np.isfinite(bias)):
            raise OverflowError("the derivative by alpha, or by bias, exceeds float64")
        return Gradients(K, X_gradient, rest[0] if rest else None, float(alpha), float(bias))

    def _add_diagonals(
        self, terms: np.ndarray, own: list[np.ndarray], numbers: np.ndarray, gradients: Any
    ) -> None:
        """Add the derivatives of √(K(x,x) K(z,z)), by which kernels are divided.

        `terms` are the derivatives of S by log K(x,x), and by log K(z,z), for each pair.
        """
        sides, batches = [terms.sum(axis=1), terms.sum(axis=0)], [self.call.X, self.call.Z]
        if self.call.Z is None:
            sides, batches = [sides[0] + sides[1]], batches[:1]
        for side, batch, diagonal, gradient in zip(sides, batches, own, gradients, strict=False):
            weights = np.divide(side, diagonal, out=np.zeros_like(side), where=diagonal > 0)
            more, totals = self.engine.vjp_paired(self.call.request, batch, weights, silent)
            numbers += totals
            gradient[:] = map(np.add, gradient, more)

    def _shaped(self, gradient: list[np.ndarray], given: Any) -> Any:
        """Return the gradients of a batch as it was given: an array, or a list."""
        dtype = self.call.dtype
        found: list[Any] = [each.astype(dtype) for each in gradient]
        if not all(np.isfinite(each).all() for each in found):
            raise OverflowError(f"a derivative exceeds {dtype.name}")
        is_list = isinstance(given, SignalList) or (
            isinstance(given, (list, tuple)) and any(hasattr(x, "ndim") for x in given)
        )
        return found if is_list else np.stack(found).reshape(np.shape(given))
