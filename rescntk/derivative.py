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

from .engines import slopes
from .engines.scaling import NEARLY_OPPOSITE, TIE_UNITS
from .kernels import Kernel
from .matrices import correlation
from .rings import circular_sum
from .validation import check_depth, check_signals

# Entries of a tile: some ten arrays of this size should stay near the processor. 44, 37, 47 and
# 60 ns per pixel pair and layer for 2 500, 5 000, 10 000 and 20 000 (NTK, GAP, 100 pixels).
_TILE_ENTRIES = 5_000

_THREADS = min(4, os.cpu_count() or 1)

_EPS = float(np.finfo(np.float64).eps)


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

    Notes
    -----
    The time grows like that of ``kernel(X)``, with the squares of the numbers of signals and, for
    GAP, of time points, but is ten to fifteen times that of the engine "numba": some 40 ns per
    pixel pair and layer on one thread, 14 s for 150 signals of 100 points, three layers and GAP.
    Without numba it is twice as long.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk.derivative import alpha_derivative
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
        rate = np.where(own > 0, 0.5 * d_own / np.where(own > 0, own, 1.0), 0.0)
        K, dK = correlation(K, own, own), correlation(dK, own, own)
        dK -= K * (rate[:, None] + rate)
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
        self.beta, self.relu = net.alpha**2, net.activation == "relu"
        self.n, channels, self.d = X.shape
        scale = 1.0 / channels if net.input_scale is None else net.input_scale
        X = X.transpose(1, 2, 0)
        # A network without biases and with ReLU rescales with its signals and layer by layer:
        # so all signals are made of one size, and no depth overflows.
        size = np.ones(self.n)
        growth = 0.0
        if self.relu:
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
        # Three tables of each pixel: √q, its derivative and 1/√q.
        self.layers = [np.array(tables) for tables in self._variances(energy)]

    def _step(self, layer: int) -> float:
        return 2.0 ** (self.exponents[layer - 1] - self.exponents[layer])

    def _inner(self, values: np.ndarray, layer: int) -> np.ndarray:
        """Return Σ from F, T_g from A …: c_w times the mean over the inner filter's window."""
        size = 1 if layer == 1 else self.network.filter_size
        return circular_sum(np, values, size) * (self.network.c_w / size)

    def _outer(self, values: np.ndarray) -> np.ndarray:
        size = self.network.outer_filter_size
        return circular_sum(np, values, size) / size

    def _variances(self, energy: np.ndarray) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield F⁰, then the pre-activations Σ¹ … Σᴸ, of single pixels."""
        q, dq = energy, np.zeros_like(energy)
        yield _pixels(q, dq)
        for layer in range(1, self.network.depth + 1):
            entering = self._inner(q, layer), self._inner(dq, layer)
            yield _pixels(*entering)
            K, dK = slopes.single(self.relu, self.network.c_v, *entering)
            K, dK = self._outer(K), self._outer(dK)
            q, dq = q + self.beta * K, dq + K + self.beta * dK
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
        """Return the kernel at pixels (j, j + δ) of case i and others, (d, δ, others).

        For the heads that sum over pixels only the sum over j is right: it does not see the
        outer filter's window, which is left out where the recursion does not need it.
        """
        net, ntk = self.network, self.kernel.kind == "ntk"
        train_input, inner, outer, readout = net.parts
        seen = np.arange(offsets[0], offsets[-1] + self.d) % self.d
        cases = len(range(self.n)[right])
        lanes = len(offsets) * cases

        def pair(tables: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return tables[:, :, i], tables[:, :, right][:, seen].reshape(len(tables), -1)

        # The input's correlations from unit vectors: 1 − ρ and 1 + ρ, neither by subtraction.
        u, units = pair(self.units)
        v = slopes.windows(units, self.d, lanes, cases)
        w = _half_square(u, v, np.subtract)
        opposite = 2.0 - w
        if (w > NEARLY_OPPOSITE).any():
            opposite = np.where(w > NEARLY_OPPOSITE, _half_square(u, v, np.add), opposite)
        near, other = pair(self.layers[0])
        root, o_root = near[0, :, None], slopes.windows(other, self.d, lanes, cases)[0]
        zero = (root == 0.0) | (o_root == 0.0)
        w, opposite = np.where(zero, 0.0, w), np.where(zero, 2.0, opposite)
        g = root * o_root
        state = np.zeros((self.d, 4, lanes))  # D, its derivative, what the head sees, its
        state[:, 0] = 0.5 * (root - o_root) ** 2 + g * w
        state[:, 2] = (train_input + readout if ntk else 1.0) * g * (1.0 - w)
        constants = (net.c_v, inner - readout, outer + readout, TIE_UNITS * _EPS)
        one_pixel = self.kernel.head == "equivariant"
        for layer in range(1, net.depth + 1):
            last = layer == net.depth
            if layer == 1:
                filtered = state * net.c_w
                filtered[:, 0], filtered[:, 1] = w, opposite
            else:
                filtered = np.empty_like(state) if ntk else state.copy()
                some = slice(0, 4 if ntk else 2)
                filtered[:, some] = self._inner(state[:, some], layer)
            flags = self.relu, layer == 1, ntk
            brought = slopes.fill(flags, constants, *pair(self.layers[layer]), cases, filtered)
            if not last:
                brought[:, :2] = self._outer(brought[:, :2])
            if one_pixel or (ntk and not last):
                brought[:, 2:] = self._outer(brought[:, 2:])
            state[:, 1::2] += brought[:, ::2]
            brought *= self.beta
            state += brought
            step = self._step(layer)
            if step != 1.0:
                state *= step
        rows = state.reshape(self.d, 4, len(offsets), cases)
        return rows[:, 2], rows[:, 3]


def _half_square(u: np.ndarray, v: np.ndarray, combine: Any) -> np.ndarray:
    """Return half the squared lengths of u − v or u + v, channel by channel."""
    total = np.zeros(v.shape[1:])
    for left, right in zip(u[:, :, None], v, strict=True):
        term = combine(left, right)
        term *= term
        total += term
    total *= 0.5
    return total


def _pixels(q: np.ndarray, dq: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return √q, its derivative and 1/√q, 0 where q is."""
    root = np.sqrt(q)
    inverse = np.where(root > 0, 1.0 / np.where(root > 0, root, 1.0), 0.0)
    return root, 0.5 * dq * inverse, inverse
