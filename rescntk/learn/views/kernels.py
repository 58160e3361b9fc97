r"""Kernels of views: means of a network's normalized kernels, or inner products.

The kernel of a network is the mean of its normalized Gaussian process kernel and tangent kernel. A
linear view has the inner product of its points, divided by their number: ridge regression on it
is ridge regression on the points.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias, TypedDict

import numpy as np

from ...checks.values import KINDS
from ...engines.heads import n_offsets
from ...engines.work import blocks
from ...kernels.call import mean_of_normalized
from ...kernels.gram import gram, prepare
from ...kernels.pixels import gram_shares
from ...kernels.prepared import PreparedSignals
from ...network import Network
from ..reading.signals import Signals, longest_length, map_signals

_SHARES_AT_ONCE = 2**20
"""Number of shares of points in kernels that are in memory at once, unless one signal has more."""


class KernelOptions(TypedDict):
    """How kernels are computed, as for calling a `rescntk.Kernel`."""

    engine: str
    dtype: str
    threads: int | None


_NODES, _NODE_WEIGHTS = 0.5 * np.polynomial.legendre.leggauss(3)[0] + 0.5, np.array([5, 8, 5]) / 18
"""Nodes and weights of Gauss–Legendre quadrature from 0 to 1, for the integral over the shares of
channels. It errs by about a thousandth of the largest contribution."""

_SHARE_INCREMENT = 1e-5
"""By how much the shares of channels differ in difference quotients."""

PreparedLandmarks: TypeAlias = PreparedSignals | np.ndarray
"""Landmarks prepared for many calls: by a network's kernel, or as flat rows."""


class ViewKernel(ABC):
    """A kernel of signals, as a view shows them: all X and Z below are such signals."""

    largest_magnitude: float = math.inf
    """The largest number of a signal, as a view shows it, that the kernel takes."""
    penalties: ClassVar[tuple[float, ...]] = ()
    """Penalties that are tried besides the least one if an estimator's `penalty` is None."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """How many points on each side of a point the kernel sees."""

    @abstractmethod
    def work(self, n_points: int) -> int:
        """Return the pixel pairs of two signals of this many points, times layers."""

    @abstractmethod
    def least_penalty(self, weights: np.ndarray, dtype: str) -> float:
        """Return the least penalty that rounding errors allow, for signals of some weights."""

    @abstractmethod
    def prepare(self, landmarks: Signals, options: KernelOptions) -> PreparedLandmarks:
        """Return landmarks in a form for many calls of `matrix`."""

    @abstractmethod
    def matrix(
        self, X: Signals, Z: Signals | PreparedLandmarks | None, options: KernelOptions
    ) -> np.ndarray:
        """Return the kernel matrix of X and Z, (n, m), in float64.

        Z are signals, or landmarks that `prepare` returned, or None, which stands for X.
        """

    @abstractmethod
    def diag(self, X: Signals) -> np.ndarray:
        """Return the kernel of each signal with itself, (n,)."""

    @abstractmethod
    def contributions(
        self, X: Signals, landmarks: Signals, coefficients: np.ndarray, options: KernelOptions
    ) -> np.ndarray:
        """Return the contributions of points to ``matrix(X, landmarks) @ coefficients``.

        They are (n_cases, n_outputs, n_points), where n_points is that of the longest signal, and
        0 behind the end of a shorter one. Their sums over points are the product.
        """

    @abstractmethod
    def channel_contributions(
        self,
        X: Signals,
        landmarks: Signals,
        channel_masks: Sequence[np.ndarray],
        coefficients: np.ndarray,
        options: KernelOptions,
    ) -> np.ndarray:
        """Return contributions of groups of channels to ``matrix(X, landmarks) @ coefficients``.

        Each mask has the channels of a group. The contributions are (n_cases, n_outputs, n_masks).
        """


@dataclass(frozen=True)
class NetworkKernel(ViewKernel):
    """The mean of a network's normalized Gaussian process kernel and tangent kernel.

    Without trained parts, where the tangent kernel is 0, it is the Gaussian process kernel.
    """

    network: Network
    head: str | int

    @property
    def reach(self) -> float:
        return self.network.reach()

    def work(self, n_points: int) -> int:
        return n_points * n_offsets(self.head, (n_points,)) * self.network.depth

    def least_penalty(self, weights: np.ndarray, dtype: str) -> float:
        r"""Return the least penalty that rounding errors allow, in units of the diagonal.

        :math:`10^{-6} + 4 \sqrt n\, \mathrm{eps}`: n × n independent errors of size eps have the
        norm 2 √n eps. Weights w, of mean 1, multiply row and column i by :math:`\sqrt{w_i}`.
        """
        norm = float(np.sqrt(weights.max() * weights.sum()))
        return 1e-6 + 4.0 * norm * float(np.finfo(dtype).eps)

    def prepare(self, landmarks: Signals, options: KernelOptions) -> PreparedSignals:
        return prepare(self.network, landmarks, **self._gram_options, **options)

    def matrix(
        self, X: Signals, Z: Signals | PreparedLandmarks | None, options: KernelOptions
    ) -> np.ndarray:
        if isinstance(Z, PreparedSignals) and all(
            isinstance(batch, np.ndarray) for batch in (X, Z.batch)
        ):
            return mean_of_normalized(np.asarray(X), Z)
        matrices = gram(self.network, X, Z, **self._gram_options, **options)
        return np.asarray(np.mean([K[0] for K in matrices], axis=0, dtype=np.float64))

    def diag(self, X: Signals) -> np.ndarray:
        return np.ones(len(X))

    def contributions(
        self, X: Signals, landmarks: Signals, coefficients: np.ndarray, options: KernelOptions
    ) -> np.ndarray:
        n_points = longest_length(X)
        contributions = np.zeros((len(X), coefficients.shape[1], n_points))
        for rows in blocks(0, len(X), max(1, _SHARES_AT_ONCE // (n_points * len(landmarks)))):
            shares = gram_shares(self.network, X[rows], landmarks, **self._gram_options, **options)
            mean = np.mean([parts[0] for parts in shares], axis=0, dtype=np.float64)
            contributions[rows, :, : mean.shape[2]] = coefficients.T @ mean
        return contributions

    def channel_contributions(
        self,
        X: Signals,
        landmarks: Signals,
        channel_masks: Sequence[np.ndarray],
        coefficients: np.ndarray,
        options: KernelOptions,
    ) -> np.ndarray:
        r"""Return Aumann–Shapley values of groups of channels.

        The kernel :math:`K(s)` is that of two signals with the covariances
        :math:`\sum_k s_k x_k z_k` and their own variances. The value of a group is
        :math:`\int_0^1 \sum_k \partial K / \partial s_k \, dt`, a sum over the channels k of the
        group. Here :math:`s_k` is t for a channel of any group, and 1 for others. The sum over all
        groups is the difference of the kernels at t = 1 and at t = 0, where signals have no group
        in common.
        """
        options = options | {"dtype": "float64"}  # differences magnify rounding errors
        in_any_mask = np.any(channel_masks, axis=0)
        prepared = self.prepare(_with_shares(landmarks, np.ones(len(in_any_mask))), options)

        def product(shares: np.ndarray) -> np.ndarray:
            return self.matrix(_with_shares(X, shares), prepared, options) @ coefficients

        contributions = np.zeros((len(X), coefficients.shape[1], len(channel_masks)))
        for t, weight in zip(_NODES, _NODE_WEIGHTS, strict=True):
            shares = np.where(in_any_mask, t, 1.0)
            at_shares = product(shares)
            for k, mask in enumerate(channel_masks):
                difference = at_shares - product(shares - _SHARE_INCREMENT * mask)
                contributions[:, :, k] += weight / _SHARE_INCREMENT * difference
        return contributions

    @property
    def _gram_options(self) -> dict[str, Any]:
        """Which kernels of the network are computed."""
        kinds, depths = _kinds_of(self.network), (self.network.depth,)
        return {"head": self.head, "kinds": kinds, "depths": depths, "normalized": True}


@lru_cache(maxsize=64)
def _kinds_of(network: Network) -> tuple[str, ...]:
    """Return the kinds of kernels that are not 0: the tangent kernel is 0 without trained parts."""
    matrices = gram(network, np.ones((1, 1, 1)), kinds=KINDS)  # of a signal of one point
    kinds = tuple(kind for kind, K in zip(KINDS, matrices, strict=True) if K.any())
    if not kinds:
        raise ValueError(f"network of a view is {network!r}, whose kernels are 0, expected another")
    return kinds


@dataclass(frozen=True)
class LinearKernel(ViewKernel):
    """The inner product of all points of two signals, divided by their number."""

    reach = 0
    largest_magnitude = 1e150  # squares are in float64
    penalties = tuple(10.0**k for k in range(-8, 2))

    def work(self, n_points: int) -> int:
        """Return n_points / 32, rounded up.

        BLAS multiplies about 32 numbers in the time of one pixel pair.
        """
        return -(-n_points // 32)

    def least_penalty(self, weights: np.ndarray, dtype: str) -> float:
        """Return the least penalty of `penalties`: products have rounding errors of float64."""
        return self.penalties[0]

    def prepare(self, landmarks: Signals, options: KernelOptions) -> np.ndarray:
        return _flat(landmarks)

    def matrix(
        self, X: Signals, Z: Signals | PreparedLandmarks | None, options: KernelOptions
    ) -> np.ndarray:
        assert not isinstance(Z, PreparedSignals)  # only networks prepare signals so
        x = _flat(X)
        z = x if Z is None else _flat(Z)
        return x @ z.T / x.shape[1]

    def diag(self, X: Signals) -> np.ndarray:
        return np.mean(_flat(X) ** 2, axis=1)

    def contributions(
        self, X: Signals, landmarks: Signals, coefficients: np.ndarray, options: KernelOptions
    ) -> np.ndarray:
        """Return the points of X times their coefficients, summed over channels."""
        x = np.asarray(X)
        point_coefficients = np.tensordot(coefficients.T, np.asarray(landmarks), 1) / x[0].size
        return np.einsum("ncd,kcd->nkd", x, point_coefficients)

    def channel_contributions(
        self,
        X: Signals,
        landmarks: Signals,
        channel_masks: Sequence[np.ndarray],
        coefficients: np.ndarray,
        options: KernelOptions,
    ) -> np.ndarray:
        """Return inner products over the channels of each group, times coefficients."""
        x, z = np.asarray(X), np.asarray(landmarks)
        parts = [_flat(x[:, mask]) @ _flat(z[:, mask]).T @ coefficients for mask in channel_masks]
        return np.stack(parts, axis=2) / x[0].size


def _with_shares(X: Signals, shares: np.ndarray) -> Signals:
    """Return signals whose covariances with others are multiplied by shares of channels.

    Added channels have what these channels lose, so that variances of signals do not change. They
    are 0 if all shares are 1, which the other signals have.
    """
    factors = np.concatenate([shares, np.sqrt(1.0 - shares**2)])[:, None]
    return map_signals(lambda X: np.concatenate([X, X], axis=1) * factors, X)


def _flat(X: Signals) -> np.ndarray:
    """Return signals of one length as rows."""
    return np.asarray(X).reshape(len(X), -1)
