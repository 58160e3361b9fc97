"""Derivatives of weighted sums of kernels: in the signals, α and the biases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..activations import activation_of
from ..arrays import Array, SignalList
from ..engines.protocol import ScaledKernel, silent
from ..progress import progress_bar
from ..validation import check_shape
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

    alpha: float
    """∂S/∂α. 0 for a network without skip connections, where α is absent."""

    bias: float
    """∂S/∂β, β the standard deviation of the network's biases. 0 where β is 0."""


@default_errors()
def vjp(
    self: Any,
    X: Array | Sequence[Array],
    Z: Array | Sequence[Array] | PreparedKernel | None = None,
    weights: Array | None = None,
    *,
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
    window are zero, its correlations count as 0.

    Parameters
    ----------
    X, Z
        Signals, images, or lists, as for calling the kernel. Without Z, S is a sum over pairs of
        signals of X, and W need not be symmetric.
    weights : array, (n_cases, m_cases)
        W, the derivatives of a loss by the entries of K.
    engine, dtype, threads, progress
        As for calling the kernel. The engine "cuda", and the activation "erf", have no gradients.

    Returns
    -------
    Gradients
        A named tuple: K, X, Z, alpha and bias.

    Raises
    ------
    ValueError
        If weights are not real and finite numbers of this shape, or as for calling the kernel.
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
    batch: Any = Z.signals.batch if isinstance(Z, PreparedKernel) else Z
    call = KernelCall(
        self.network, X, batch, self.head, (self.kind,), None, engine, dtype, threads, progress,
        gradients=True,
    )  # fmt: skip
    shape = len(call.X), len(call.X if call.Z is None else call.Z)
    W = check_shape(weights, "weights", shape)
    call.check_memory()
    return _Pass(call, self.normalized).gradients(X, batch, np.asarray(W))


class _Pass:
    """The way of a checked call to the gradients."""

    def __init__(self, call: KernelCall, normalized: bool) -> None:
        self.call, self.normalized, self.kind = call, normalized, call.kinds[0]
        self.engine: Any = call.engine

    def gradients(self, X: Any, Z: Any, W: np.ndarray) -> Gradients:
        """Return the gradients for weights `W`; `X` and `Z` as they were given."""
        call, own = self.call, []
        if self.normalized:
            own = [each.values[self.kind][0] for each in call.diagonals()]
        roots = tuple(np.sqrt(np.maximum(each, 0.0)) for each in (own * 2)[:2]) or None
        with progress_bar(call.progress, W.size) as tick:
            found = self.engine.vjp(call.request, call.X, call.Z, W, roots, tick)
        alpha, bias = (found.kernel.values.pop(name) for name in ("alpha", "bias"))
        scaled = found.kernel
        left, right = scaled.left[:, None], scaled.right[None, :]
        left_power, right_power = found.power
        gradients = [found.left] + [found.right] * (call.Z is not None)
        if not self.normalized:
            K = call.unscale(scaled, self.kind, left, right)[0]
            numbers = [self._unscaled(scaled, each, W) for each in (alpha, bias)]
            scales = scaled.left, scaled.right
            for rest, power, scale in zip(found.numbers, found.power, scales, strict=False):
                factor = np.ldexp(call.network.readout_scale * scale, scaled.exponents[0] + power)
                numbers = [
                    float(n + (factor * r).sum()) for n, r in zip(numbers, rest, strict=True)
                ]
            exponent, readout = scaled.exponents[0], call.network.readout_scale
            powers = (left_power, right_power)
            gradients = [
                [np.ldexp(readout * each, exponent + power) for each in side]
                for side, power in zip(gradients, powers, strict=False)
            ]
        else:
            one, other = (own * 2)[:2]
            K = call.normalize(scaled, self.kind, one[None], other[None])[0]
            numbers = self._of_diagonals(K, W, own, (alpha[0], bias[0]), gradients)
            numbers = [
                n + sum(side[k].sum() for side in found.numbers) for k, n in enumerate(numbers)
            ]
        grows = call.network.skip and call.network.alpha > 0
        alpha_scale = 2.0 / call.network.alpha if grows else 0.0
        bias_scale = 1.0 / call.network.bias if call.network.bias > 0 else 0.0
        X_gradient, *rest = (
            self._shaped(side, given) for side, given in zip(gradients, (X, Z), strict=False)
        )
        return Gradients(
            K, X_gradient, rest[0] if rest else None,
            float(numbers[0] * alpha_scale), float(numbers[1] * bias_scale),
        )  # fmt: skip

    def _unscaled(self, scaled: ScaledKernel, values: np.ndarray, W: np.ndarray) -> float:
        """Return the weighted sum of derivatives of kernels without their scales."""
        part = ScaledKernel({"part": values}, scaled.left, scaled.right, scaled.exponents)
        left, right = scaled.left[:, None], scaled.right[None, :]
        return float((W * self.call.unscale(part, "part", left, right)[0]).sum(dtype=np.float64))

    def _of_diagonals(
        self, K: np.ndarray, W: np.ndarray, own: list[np.ndarray], numbers: Any, gradients: Any
    ) -> list[float]:
        """Add the derivatives of √(K(x,x) K(z,z)), by which kernels are divided."""
        one, other = (own * 2)[:2]
        product = np.sqrt(np.maximum(one, 0.0))[:, None] * np.sqrt(np.maximum(other, 0.0))
        known = product > 0
        parts = np.where(known, W / np.where(known, product, 1.0), 0.0)
        totals = [float((parts * each).sum()) for each in numbers]
        terms = -0.5 * W * K
        sides = [terms.sum(axis=1), terms.sum(axis=0)]
        batches: list[Any] = [self.call.X, self.call.Z]
        if self.call.Z is None:
            sides, batches = [sides[0] + sides[1]], batches[:1]
        for side, batch, diagonal, gradient in zip(sides, batches, own, gradients, strict=True):
            weights = np.where(diagonal > 0, side / np.where(diagonal > 0, diagonal, 1.0), 0.0)
            found = self.engine.vjp_paired(self.call.request, batch, weights, silent)
            for k, name in enumerate(("alpha", "bias")):
                totals[k] += float((weights * found.kernel.values[name][0]).sum())
                totals[k] += float(found.numbers[0][k].sum())
            for place, more in enumerate(found.left):
                gradient[place] = gradient[place] + more
        return totals

    def _shaped(self, gradient: list[np.ndarray], given: Any) -> Any:
        """Return the gradients of a batch as it was given: an array, or a list."""
        dtype = self.call.dtype
        with np.errstate(over="ignore"):
            found: list[Any] = [each.astype(dtype) for each in gradient]
        if not all(np.isfinite(each).all() for each in found):
            raise OverflowError(f"a derivative exceeds {dtype.name}")
        is_list = isinstance(given, SignalList) or (
            isinstance(given, (list, tuple)) and any(hasattr(x, "ndim") for x in given)
        )
        return found if is_list else np.stack(found).reshape(np.shape(given))
