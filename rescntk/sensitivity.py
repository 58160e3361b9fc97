r"""How a kernel matrix changes with α, the weight of the residual branch: its exact derivative.

The recursion over layers (engines/reference.py) is differentiated with respect to
:math:`\beta = \alpha^2`, the only way in which α enters, and carried along with it (forward
mode). A dot stands for :math:`\partial/\partial\beta`:

.. math::
    D &\leftarrow D + \beta\, \mathrm{box}(D_K), &
    \dot D &\leftarrow \dot D + \mathrm{box}(D_K) + \beta\, \mathrm{box}(\dot D_K), \\
    A &\leftarrow A + \beta\, \mathrm{box}(B), &
    \dot A &\leftarrow \dot A + \mathrm{box}(B) + \beta\, \mathrm{box}(\dot B), \\
    B &= (o + r) K + K' \odot T_g, &
    \dot B &= (o + r)\dot K + \dot K' \odot T_g + K' \odot \dot T_g,

with :math:`K' = c_v E[\sigma'\sigma']`, likewise for the variances of single pixels. Distances
are carried, not covariances, for the reason told in activations.py: with :math:`w = 1 - \rho`,

.. math::
    \dot D_K = \tfrac{c_v}2 (\dot z + \dot g (1 - \kappa_1) + g \kappa_0 \dot w), \qquad
    \dot K' = -\tfrac{c_v}2 \frac{\dot w}{\pi \sqrt{w (2 - w)}} .

The last is :math:`\kappa_0'(\rho)\dot\rho`, and :math:`\kappa_0'` is infinite at ρ = ±1. There
:math:`\dot K' = 0`, for ρ = ±1 does not depend on β > 0:

* Features are sums of independent parts with covariances :math:`F^0, \mathrm{box}\,K^1, \dots`
  and weights 1, β, …, β. By Cauchy and Schwarz their correlation is 1 only if every part's is,
  with one ratio of amplitudes; then, by induction over layers, it is so whatever the weights.
* The correlation is −1 in the first layer alone, on which β has no influence: later features
  hold a part with K ≥ 0, which for opposite pixels is 0 while their own is not.

For duplicates, on the diagonal, and for signals of one channel in the first layer all three of
w, :math:`\dot w` and :math:`\dot K'` are therefore 0. At α = 0 the derivative with respect to α
is 0.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from .activations import arc_cosine_gap
from .engines.rings import circular_sum
from .engines.tables import TIE_UNITS, trained
from .kernels import Kernel
from .network import Network, check_depth
from .signals import check_signals

# Entries of a tile: some thirty arrays of this size should stay near the processor. Fastest of
# 1 000 ... 100 000 for GAP on signals of 100 pixels.
_TILE_ENTRIES = 10_000

_THREADS = min(4, os.cpu_count() or 1)

_EPS = float(np.finfo(np.float64).eps)


class Pixels(NamedTuple):
    """Variance of each pixel's features or pre-activations, (d, cases), with derivatives."""

    q: np.ndarray
    dq: np.ndarray
    root: np.ndarray
    droot: np.ndarray
    inverse: np.ndarray


class Dual(NamedTuple):
    """Dual activations of pixel pairs, with derivatives: D_K, K and K'."""

    distance: np.ndarray
    d_distance: np.ndarray
    both: np.ndarray
    d_both: np.ndarray
    slope: np.ndarray
    d_slope: np.ndarray


class Sensitivity(NamedTuple):
    """A kernel matrix and its derivative with respect to α, both (n_cases, n_cases)."""

    kernel: np.ndarray
    derivative: np.ndarray


def alpha_derivative(kernel: Kernel, X: np.ndarray, *, threads: int | None = None) -> Sensitivity:
    r"""Return the kernel matrix of some signals and its derivative with respect to α.

    Parameters
    ----------
    kernel : Kernel
        Of a network with skip connections.
    X : ndarray, (n_cases, n_channels, n_timepoints)
    threads : int, optional
        How many threads to use, by default at most four. Results do not depend on it.

    Returns
    -------
    Sensitivity
        ``kernel`` is ``kernel(X)`` by another route, equal to rounding errors;
        ``derivative`` is :math:`\partial K / \partial\alpha`.

    Raises
    ------
    ValueError
        If the kernel is another one, its network has no skip connections, or the signals are
        not as described.
    OverflowError
        If a value exceeds float64; ``normalized=True`` has no such limit.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk.sensitivity import alpha_derivative
    >>> X = np.random.default_rng(0).standard_normal((3, 2, 8))
    >>> K, dK = alpha_derivative(rk.ResCGPK(depth=1, head="trace"), X)
    >>> base = rk.ResCGPK(depth=1, head="trace", alpha=0.0)(X)
    >>> np.allclose(dK, 2 * (K - base))  # K = F + α² box(K¹), at α = 1
    True
    """
    if not isinstance(kernel, Kernel):
        raise ValueError(f"kernel is {kernel!r}, expected a rescntk.Kernel")
    net = kernel.network
    if not net.skip:
        raise ValueError("the network has skip=False, expected skip connections: there is no alpha")
    X = check_signals(X, "X")
    run = _Run(kernel, X)
    K, dK = run.gram(_THREADS if threads is None else check_depth(threads, "threads"))
    dK *= 2.0 * net.alpha  # β = α²
    if kernel.normalized:
        own, d_own = K.diagonal().copy(), dK.diagonal().copy()
        root = np.sqrt(np.where(own > 0, own, 1.0))
        rate = np.where(own > 0, 0.5 * d_own / root**2, 0.0)
        there = (own > 0)[:, None] & (own > 0)
        K = np.where(there, K / root[:, None] / root, 0.0)
        dK = np.where(there, dK / root[:, None] / root - K * (rate[:, None] + rate), 0.0)
        np.fill_diagonal(K, np.where(own > 0, 1.0, 0.0))
        np.fill_diagonal(dK, 0.0)
        return Sensitivity(K, dK)
    scale = run.size[:, None] * run.size * net.readout_scale
    with np.errstate(over="ignore"):
        K, dK = (np.ldexp(value * scale, run.exponents[-1]) for value in (K, dK))
    if not (np.isfinite(K).all() and np.isfinite(dK).all()):
        raise OverflowError(
            f"the kernel exceeds float64 at depth {net.depth}; normalized=True has no such limit"
        )
    return Sensitivity(K, dK)


class _Run:
    """The recursion for one kernel on some signals."""

    def __init__(self, kernel: Kernel, X: np.ndarray) -> None:
        self.kernel, self.network = kernel, kernel.network
        net = self.network
        self.beta, self.dual = net.alpha**2, _DUALS[net.activation](net)
        self.n, channels, self.d = X.shape
        scale = 1.0 / channels if net.input_scale is None else net.input_scale
        X = X.transpose(1, 2, 0)
        # A network without biases and with ReLU rescales with its signals and layer by layer:
        # so all signals are made of one size, and no depth overflows.
        size = np.ones(self.n)
        growth = 0.0
        if net.activation == "relu":
            largest = np.abs(X).max(axis=(0, 1))
            X = X / np.where(largest > 0, largest, 1.0)
            size = np.sqrt((X * X).sum(axis=0).mean(axis=0) * scale)
            X = X / np.where(size > 0, size, 1.0)
            size = size * largest
            growth = math.log2(1.0 + 0.5 * self.beta * net.c_v * net.c_w)
        self.size = size
        self.exponents = [math.floor(layer * growth) for layer in range(net.depth + 1)]
        half = net.input_filter_size // 2
        windows = [np.roll(X, -k, axis=1) for k in range(-half, half + 1)]
        X = np.concatenate(windows) * math.sqrt(scale / net.input_filter_size)
        energy = (X * X).sum(axis=0)
        norm = np.sqrt(energy)
        self.units = X / np.where(norm > 0, norm, 1.0)
        self.layers = list(self._variances(energy))

    def _step(self, layer: int) -> float:
        return 2.0 ** (self.exponents[layer - 1] - self.exponents[layer])

    def _inner(self, values: np.ndarray, layer: int) -> np.ndarray:
        """Return Σ from F, T_g from A …: c_w times the mean over the inner filter's window."""
        size = 1 if layer == 1 else self.network.filter_size
        return circular_sum(np, values, size) * (self.network.c_w / size)

    def _outer(self, values: np.ndarray) -> np.ndarray:
        size = self.network.outer_filter_size
        return circular_sum(np, values, size) / size

    def _branch(
        self, state: np.ndarray, d_state: np.ndarray, source: np.ndarray, d_source: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return `state` + β box(`source`), and its derivative."""
        summed = self._outer(source)
        return state + self.beta * summed, d_state + summed + self.beta * self._outer(d_source)

    def _variances(self, energy: np.ndarray) -> Iterator[Pixels]:
        """Yield F⁰, then the pre-activations Σ¹ … Σᴸ, of single pixels."""
        q, dq = energy, np.zeros_like(energy)
        yield _pixels(q, dq)
        for layer in range(1, self.network.depth + 1):
            pixels = _pixels(self._inner(q, layer), self._inner(dq, layer))
            yield pixels
            q, dq = self._branch(q, dq, *self.dual.diagonal(pixels.q, pixels.dq))
            q, dq = q * self._step(layer), dq * self._step(layer)

    def gram(self, threads: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the head's kernel and its derivative, in units of size · size · 2^exponent."""
        K, dK = np.zeros((self.n, self.n)), np.zeros((self.n, self.n))
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(lambda i: self._fill(i, K, dK), range(self.n)):
                pass
        for total in (K, dK):
            total += np.triu(total, 1).T
        return K, dK

    def _fill(self, i: int, K: np.ndarray, dK: np.ndarray) -> None:
        """Fill row i from the diagonal on."""
        head = self.kernel.head
        offsets = self.d if head == "gap" else 1
        together = max(1, min(offsets, _TILE_ENTRIES // self.d))
        columns = max(1, _TILE_ENTRIES // (self.d * together))
        for start in range(i, self.n, columns):
            right = slice(start, min(start + columns, self.n))
            for first in range(0, offsets, together):
                some = np.arange(first, min(first + together, offsets))
                for total, rows in zip((K, dK), self._rows(i, right, some), strict=True):
                    if head == "equivariant":
                        total[i, right] = rows[0, 0]
                    else:
                        total[i, right] += rows.sum(axis=(0, 1)) / (self.d * offsets)

    def _rows(self, i: int, right: slice, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the kernel at pixels (j, j + δ) of case i and others, (d, δ, others)."""
        net, ntk = self.network, self.kernel.kind == "ntk"
        train_input, inner, outer, readout = trained(net)
        seen = (np.arange(self.d)[:, None] + offsets) % self.d

        def pair(pixels: Pixels) -> tuple[Pixels, Pixels]:
            near = (table[:, i, None, None] for table in pixels)
            return Pixels(*near), Pixels(*(table[:, right][seen] for table in pixels))

        p, o = pair(self.layers[0])
        # The input's correlations from unit vectors: 1 − ρ and 1 + ρ, neither by subtraction.
        u, v = self.units[:, :, i, None, None], self.units[:, :, right][:, seen]
        w = 0.5 * ((u - v) ** 2).sum(axis=0)
        opposite = 0.5 * ((u + v) ** 2).sum(axis=0)
        w = np.where(w > 1.0, np.maximum(2.0 - opposite, 0.0), w)
        opposite = np.where(w > 1.0, opposite, 2.0 - w)
        zero = (p.root == 0.0) | (o.root == 0.0)
        w, opposite = np.where(zero, 0.0, w), np.where(zero, 2.0, opposite)
        g = p.root * o.root
        D, dD = 0.5 * (p.root - o.root) ** 2 + g * w, np.zeros_like(w)
        # What the head sees: A for the NTK, F for the GPK.
        A, dA = (train_input + readout if ntk else 1.0) * g * (1.0 - w), np.zeros_like(w)
        for layer in range(1, net.depth + 1):
            p, o = pair(self.layers[layer])
            g, dg = p.root * o.root, p.droot * o.root + p.root * o.droot
            if layer == 1:
                dw = np.zeros_like(w)
            else:
                D_g, dD_g = self._inner(D, layer), self._inner(dD, layer)
                w, dw = _correlation(p, o, D_g, dD_g)
                opposite = 2.0 - w
            S, dS = g * (1.0 - w), dg * (1.0 - w) - g * dw
            dual = self.dual(p, o, w, dw, opposite, S, dS)
            B, dB = dual.both, dual.d_both
            if ntk:
                T = (inner - readout) * S + self._inner(A, layer)
                dT = (inner - readout) * dS + self._inner(dA, layer)
                B = (outer + readout) * B + dual.slope * T
                dB = (outer + readout) * dB + dual.d_slope * T + dual.slope * dT
            A, dA = self._branch(A, dA, B, dB)
            D, dD = self._branch(D, dD, dual.distance, dual.d_distance)
            step = self._step(layer)
            if step != 1.0:
                A, dA, D, dD = A * step, dA * step, D * step, dD * step
        return A, dA


def _pixels(q: np.ndarray, dq: np.ndarray) -> Pixels:
    root = np.sqrt(q)
    inverse = np.where(root > 0, 1.0 / np.where(root > 0, root, 1.0), 0.0)
    return Pixels(q, dq, root, 0.5 * dq * inverse, inverse)


def _correlation(
    p: Pixels, o: Pixels, D: np.ndarray, dD: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return w = 1 − ρ = (D − z)/g and its derivative, 0 where w is: at ρ = ±1 it stays."""
    t = p.root - o.root
    excess = D - 0.5 * t * t
    tied = excess <= TIE_UNITS * _EPS * np.abs(t) * (p.root + o.root)
    scale = p.inverse * o.inverse
    w = np.clip(np.where(tied, 0.0, excess) * scale, 0.0, 2.0)
    rate = p.droot * p.inverse + o.droot * o.inverse
    dw = (dD - t * (p.droot - o.droot)) * scale - w * rate
    return w, np.where((w > 0.0) & (w < 2.0), dw, 0.0)


class _Relu:
    def __init__(self, network: Network) -> None:
        self.half = 0.5 * network.c_v

    def diagonal(self, q: np.ndarray, dq: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.half * q, self.half * dq

    def __call__(
        self,
        p: Pixels,
        o: Pixels,
        w: np.ndarray,
        dw: np.ndarray,
        opposite: np.ndarray,
        S: np.ndarray,
        dS: np.ndarray,
    ) -> Dual:
        half = self.half
        g, dg = p.root * o.root, p.droot * o.root + p.root * o.droot
        t, dt = p.root - o.root, p.droot - o.droot
        sine = np.sqrt(w * opposite)
        angle, k1 = arc_cosine_gap(np, w, opposite.copy())
        kappa0, kappa1 = 1.0 - angle / math.pi, 1.0 - w + k1
        moved = g * kappa0 * dw
        return Dual(
            half * (0.5 * t * t + g * (w - k1)),
            half * (t * dt + dg * (w - k1) + moved),
            half * g * kappa1,
            half * (dg * kappa1 - moved),
            half * kappa0,
            -half / math.pi * dw / np.where(sine > 0, sine, 1.0),
        )


class _Erf:
    def __init__(self, network: Network) -> None:
        self.c = 2.0 / math.pi * network.c_v

    def diagonal(self, q: np.ndarray, dq: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        root = np.sqrt(1.0 + 4.0 * q)
        return self.c * np.arctan(2.0 * q / root), 2.0 * self.c / root * dq / (1.0 + 2.0 * q)

    def __call__(
        self,
        p: Pixels,
        o: Pixels,
        w: np.ndarray,
        dw: np.ndarray,
        opposite: np.ndarray,
        S: np.ndarray,
        dS: np.ndarray,
    ) -> Dual:
        a, b, g = 1.0 + 2.0 * p.q, 1.0 + 2.0 * o.q, p.root * o.root
        delta = a + b - 1.0 + 4.0 * g * g * w * opposite  # (1+2q1)(1+2q2) − 4S²
        d_delta = 2.0 * (p.dq * b + o.dq * a) - 8.0 * S * dS
        root = np.sqrt(delta)
        both = self.c * np.arctan2(2.0 * S, root)
        slope = 2.0 * self.c / root
        d_both = slope * (dS - S * (p.dq / a + o.dq / b))
        near, far = self.diagonal(p.q, p.dq), self.diagonal(o.q, o.dq)
        return Dual(
            0.5 * (near[0] + far[0]) - both,
            0.5 * (near[1] + far[1]) - d_both,
            both,
            d_both,
            slope,
            -0.5 * slope * d_delta / delta,
        )


_DUALS: dict[str, Any] = {"relu": _Relu, "erf": _Erf}
