"""The engine "textbook": the definition of the kernels as the paper writes it.

It is meant for reading and for tests. For two signals x and z it computes, at all pixel pairs
(j, j'), the covariance F of the features and their tangent kernel T. Let box be the mean over the
taps of a filter, which move both pixels of a pair together. Let [part] be 1 if this part of the
network is trained, and [skip] be 1 if the layer has a skip connection; otherwise they are 0. The
recursion begins with ::

    F⁰ = box(xᵀz) / C₀,                              T⁰ = F⁰ [input].

A layer is ::

    Σ = c_w box(F) + σ_b²,                           T_Σ = c_w box(T) + Σ [inner],
    ρ = Σ / g,  g = √(Σ_jj(x, x) Σ_j'j'(z, z)),
    K = c_v (s Σ + (1 − s)² g κ₁(ρ) / 2),            K̇ = c_v (s + (1 − s)² κ₀(ρ) / 2),
    B = box(K) + σ_b²,                               T_B = box(K̇ T_Σ) + B [outer],
    F ← [skip] F + α² B,                             T ← [skip] T + α² T_B.

After the last layer the tangent kernel is Θ = T + F [readout]. κ₀ and κ₁ are the dual activations
of ReLU, ::

    κ₀(ρ) = (π − arccos ρ) / π,  κ₁(ρ) = (√(1 − ρ²) + ρ (π − arccos ρ)) / π.

These formulas are in Barzilai et al. 2022, theorem A.1 and appendix A, and in
docs/theory/recursion.md. A leaky ReLU of slope s is s u + (1 − s) relu(u), and s is 0 for ReLU.
Without a skip connection α is 1. With normalization, F and T are divided by
√(F_jj(x, x) F_j'j'(z, z)) before they enter a branch.

Other engines compute 1 − ρ without cancellation (docs/theory/deficits.md). Here ρ itself is
rounded. Where pixels are nearly parallel, κ₀ therefore has only half of its digits, and T has a
relative error of some 1e-8.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from functools import reduce
from typing import NamedTuple

import numpy as np
from opt_einsum import contract

from ..arrays import Array, Batch, channels_and_length
from ..network import Network
from ..network.parameters import KERNEL_FIELDS
from ..network.parts import Filter
from .engine import Engine, Plan
from .request import Request, ScaledKernel
from .work import Tick

MOST_PAIRS = 4_000_000
"""The largest number of pixel pairs of a call. A dozen arrays hold one number for each of them."""

_PAIR_ARRAYS = 12
"""The number of arrays of all pixel pairs that are in memory at the same time."""

LARGEST, MOST_BITS_IN_ALL = 2.0**200, 400
"""Limits that keep all numbers in the range of float64. The first is the largest absolute value in
a signal and the inverse of the smallest one. The second is the largest number of bits (log2 of the
factor) by which all layers together may multiply or divide variances."""


class Features(NamedTuple):
    """The kernels of the features after a layer, for n left and m right signals."""

    F: Array
    """(n, m, d, d), the covariance of the features at each pixel pair."""
    T: Array
    """(n, m, d, d), the tangent kernel of the features."""
    left: Array
    """(n, d), F_jj(x, x)."""
    right: Array
    """(m, d), F_j'j'(z, z)."""


def layers(network: Network, depth: int, X: Array, Z: Array) -> Iterator[tuple[Array, Array]]:
    """Yield F and Θ, (n, m, d, d), after each layer, for signals (n, C₀, d) and (m, C₀, d)."""
    scale, q = network.factor_of_input(X.shape[1]), network.input_filter
    F = scale * box(contract("xcj,zck->xzjk", X, Z), q, 2)
    left, right = (scale * box((signals**2).sum(axis=1), q, 1) for signals in (X, Z))
    features = Features(F, network.parts.input * F, left, right)
    for number in range(1, depth + 1):
        features = after_layer(network, number, features)
        yield features.F, features.T + network.parts.readout * features.F


def after_layer(network: Network, number: int, features: Features) -> Features:
    """Return the features after a layer, given those before it; `number` is the layer's number."""
    layer, s, trained = network.layer(number), network.negative_slope, network.parts
    c_w, c_v, variance_of_bias = layer.inner_variance, layer.outer_variance, layer.bias**2
    branch_input = normalized(features) if network.norm else features

    Sigma = c_w * box(branch_input.F, layer.inner, 2) + variance_of_bias
    T_Sigma = c_w * box(branch_input.T, layer.inner, 2) + trained.inner * Sigma
    left, right = (
        c_w * box(v, layer.inner, 1) + variance_of_bias
        for v in (branch_input.left, branch_input.right)
    )
    g = product_of_roots(left, right)
    rho = np.clip(quotient(Sigma, g), -1.0, 1.0)

    K = c_v * (s * Sigma + (1.0 - s) ** 2 / 2.0 * g * kappa_1(rho))
    K_dot = c_v * (s + (1.0 - s) ** 2 / 2.0 * kappa_0(rho))
    B = box(K, layer.outer, 2) + variance_of_bias
    T_B = box(K_dot * T_Sigma, layer.outer, 2) + trained.outer * B
    branch_variances = (
        c_v * (1.0 + s**2) / 2.0 * box(v, layer.outer, 1) + variance_of_bias for v in (left, right)
    )
    branch = Features(B, T_B, *branch_variances)
    skip, alpha_squared = layer.identity_factor**2, layer.branch_factor**2
    return Features(*(skip * f + alpha_squared * b for f, b in zip(features, branch, strict=True)))


def normalized(features: Features) -> Features:
    """Return features whose variance is 1 at each pixel, or 0 where it was 0."""
    F, T, left, right = features
    sizes = product_of_roots(left, right)
    units = (np.where(v > 0, 1.0, 0.0) for v in (left, right))
    return Features(quotient(F, sizes), quotient(T, sizes), *units)


def box(A: Array, convolution_filter: Filter, n_sides: int) -> Array:
    """Return the means over the taps of a filter.

    `A` has `n_sides` pixel axes, which are its last ones. A tap moves the pixels of all of them.
    """
    axes = tuple(range(-n_sides, 0))
    moved = (np.roll(A, (-k,) * n_sides, axes) for k in convolution_filter.offsets)
    total: Array = reduce(operator.add, moved)
    return total / convolution_filter.size


def kappa_0(rho: Array) -> Array:
    """Return κ₀, twice the probability that both of two Gaussians are positive."""
    return (math.pi - np.arccos(rho)) / math.pi


def kappa_1(rho: Array) -> Array:
    """Return κ₁, twice the mean of the product of ReLU at two Gaussians of variance 1."""
    return (np.sqrt(1.0 - rho**2) + rho * (math.pi - np.arccos(rho))) / math.pi


def product_of_roots(left: Array, right: Array) -> Array:
    """Return √(v_j w_j') of the pixels' variances, (n, m, d, d)."""
    return np.sqrt(left)[:, None, :, None] * np.sqrt(right)[None, :, None, :]


def quotient(A: Array, by: Array) -> Array:
    """Return A / by, and 0 where `by` is 0."""
    return np.divide(A, by, out=np.zeros_like(A), where=by > 0)


HEAD_FORMULAS: dict[str | int, Callable[[Array], Array]] = {
    "equivariant": lambda P: P[..., 0, 0],
    "trace": lambda P: np.trace(P, axis1=-2, axis2=-1) / P.shape[-1],
    "gap": lambda P: P.mean(axis=(-2, -1)),
}
"""The heads that this engine supports, as functions of an array of all pixel pairs."""


def _growth_bits(network: Network, depth: int) -> float:
    """Return by how many bits the layers up to `depth` multiply or divide variances in all."""

    def bits(layer_number: int) -> float:
        growth = network.layer(layer_number).growth
        return abs(math.log2(growth)) if growth else 0.0

    if network.is_uniform:
        return depth * bits(1)
    return sum(map(bits, range(1, depth + 1)))


class TextbookEngine(Engine[Batch]):
    """The definition in float64, for small calls. "auto" never chooses it."""

    name = "textbook"
    known_fields = KERNEL_FIELDS
    activations = frozenset(("relu",))
    arrays = frozenset(("numpy",))
    auto_arrays = frozenset()
    lists = False

    def refuses(self, request: Request, X: Batch) -> str | None:
        if refusal := super().refuses(request, X):
            return refusal
        if request.head not in HEAD_FORMULAS or request.shares or request.line_pixels > 1:
            heads = ", ".join(map(repr, HEAD_FORMULAS))
            return f"it computes signals, not images, without shares, and only the heads {heads}"
        biases = map(float, request.network.values_of("bias"))
        numbers = np.array([*np.abs(np.asarray(X)).flat, *biases])
        in_all = _growth_bits(request.network, request.depths[-1])
        in_range = (numbers == 0) | (numbers <= LARGEST) & (numbers >= 1.0 / LARGEST)
        if not in_range.all() or in_all > MOST_BITS_IN_ALL:
            return (
                f"its numbers may leave float64: it takes signals and biases between 2^-200 and "
                f"2^200, and layers that multiply variances by at most 2^{MOST_BITS_IN_ALL} in all"
            )
        return None

    def plan(
        self,
        request: Request,
        X: Batch,
        Z: Batch | None = None,
        paired: bool = False,
    ) -> TextbookPlan:
        return TextbookPlan(request, X, Z, paired)


class TextbookPlan(Plan):
    """The plan of the textbook engine.

    It computes all signal pairs at once; if `paired`, it computes one signal pair after the other.
    """

    def __init__(
        self, request: Request, X: Batch, Z: Batch | None = None, paired: bool = False
    ) -> None:
        self.X, self.Z = X, X if Z is None else Z
        lengths = channels_and_length(X)[1], channels_and_length(self.Z)[1]
        super().__init__(request, X, Z, paired, lengths)
        self.n_pairs = math.prod(self.shape) * math.prod(lengths)
        if self.n_pairs > MOST_PAIRS:
            raise ValueError(
                f"engine='textbook' would compute {self.n_pairs:,} pixel pairs, expected at most "
                f"{MOST_PAIRS:,}: give fewer or shorter signals, or engine='auto'"
            )

    @property
    def peak_bytes(self) -> float:
        return _PAIR_ARRAYS * 8.0 * self.n_pairs

    def _compute(self, tick: Tick) -> ScaledKernel:
        depths, head = self.request.depths, HEAD_FORMULAS[self.request.head]
        values = {kind: np.zeros((len(depths), *self.result_shape)) for kind in self.request.kinds}
        blocks = [slice(k, k + 1) for k in range(len(self.X))] if self.paired else [slice(None)]
        for cases in blocks:
            right = cases if self.paired else slice(None)
            kernels_of_layers = layers(
                self.request.network, depths[-1], self.X[cases], self.Z[right]
            )
            for number, kernels in enumerate(kernels_of_layers, start=1):
                if number not in depths:
                    continue
                for kind, P in zip(("gpk", "ntk"), kernels, strict=True):
                    if kind in values:
                        K = head(P)
                        values[kind][depths.index(number), cases] = K[:, 0] if self.paired else K
            tick(math.prod(self.shape) // len(blocks))
        return ScaledKernel(values, np.ones(len(self.X)), np.ones(len(self.Z)), (0,) * len(depths))
