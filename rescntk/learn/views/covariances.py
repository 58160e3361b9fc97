"""The step of covariances: what the channels of a signal, and of its bands, have in common.

Logarithms of covariance matrices, whitened by the mean covariance of training signals, are vectors
of the tangent space there (Barachant et al. 2012; Pennec et al. 2006): differences between them do
not depend on how the channels are mixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from ..reading.signals import Signals
from .bands import Bands, split_into_bands
from .steps import ROUNDING, BlockStep, ChannelScale, Scale, moments

_MOST_DIRECTIONS = 32
"""Maximum number of directions of channels whose covariances are seen: those with the largest
variance. So signals of 200 channels have 528 numbers in each band, and not 20,100."""

_MOST_OCTAVES = 4
"""Maximum number of bands. Each has half as many independent points as the finer one before it."""

_SHRINKAGE = 0.2
"""Share of the mean covariance in that of each signal, which is uncertain where points are few.
Measured on five sets of 4 to 28 channels: the mean log loss of this view by itself is .34 without,
.32 with .2, and .32 with .4. With the oracle approximating shrinkage of each signal by itself (Chen
et al. 2010, all points counted as independent) it is .34."""

_FLOOR = 1e-3
"""What is added to the variance of each direction, in units of the mean variance of channels, so
that directions without variance, which dead and copied channels have, have the logarithm 0."""


class Whitening(NamedTuple):
    """How covariances S of a band are whitened and shrunk: the mean of W S Wᵀ + F is I."""

    matrix: np.ndarray
    """W, (n_directions, n_channels)"""
    floor: np.ndarray
    """The diagonal of F, (n_directions,)"""
    directions: np.ndarray
    """Orthonormal directions of the channels, each channel in units of its deviation, (n_channels,
    n_directions)"""

    @classmethod
    def of(cls, mean: np.ndarray) -> Self:
        """Return the whitening of covariances with a mean, (n_channels, n_channels)."""
        deviations = np.sqrt(mean.diagonal())
        inverse = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0)
        values, V = np.linalg.eigh(inverse[:, None] * mean * inverse)
        values, V = values[::-1][:_MOST_DIRECTIONS], V[:, ::-1][:, :_MOST_DIRECTIONS]
        floored = np.maximum(values, 0.0) + _FLOOR
        own_share = 1.0 - _SHRINKAGE
        matrix = np.sqrt(own_share / floored)[:, None] * V.T * inverse
        return cls(matrix, _SHRINKAGE + own_share * _FLOOR / floored, V)


@dataclass(frozen=True)
class Covariances(BlockStep):
    """Take logarithms of covariances of channels: of the signal, and of its octaves.

    The result is one point, which has a channel for each pair of directions, in each band. A
    covariance is whitened by the mean covariance of the training signals, so that the logarithm of
    the mean is 0.
    """

    block_length: int
    n_octaves: int
    whitenings: tuple[Whitening, ...] = field(default=(), compare=False)
    """The whitening of the signal's covariance, and of that of each octave."""
    reach = math.inf
    depends_on_levels = False
    reason_against_one_point = "one time point has no covariances"

    @staticmethod
    def n_octaves_of(length: int) -> int:
        """Return the number of bands of signals of this length, at least 1."""
        return min(_MOST_OCTAVES, Bands.n_octaves_of(length))

    def n_points_after(self, n_points: int) -> int:
        return 1

    def channel_scale(self, least_ratio: float = 0.0) -> ChannelScale:
        return CommonDeviation(least_ratio)

    def fit(self, X: Signals, weights: np.ndarray) -> Self:
        n_channels = len(X[0])
        means = np.zeros((1 + self.n_octaves, n_channels, n_channels))
        for x, share in zip(X, weights / weights.sum(), strict=True):
            for mean, y in zip(means, self.bands(x), strict=True):
                mean += share * _covariance(y)
        return replace(self, whitenings=tuple(map(Whitening.of, means)))

    def transform(self, X: np.ndarray) -> np.ndarray:
        i, j = np.triu_indices(len(self.whitenings[0].matrix))
        # With these factors inner products of vectors are those of the symmetric matrices.
        factors = np.where(i == j, 1.0, math.sqrt(2.0))
        seen = []
        for x in X:
            pairs = [self.log_eigenvalues_and_vectors(k, y) for k, y in enumerate(self.bands(x))]
            logarithms = np.array([(V * logs) @ V.T for logs, V in pairs])
            seen.append((logarithms[:, i, j] * factors).reshape(-1, 1))
        return np.array(seen)

    def source_channels_after(self, source_channels: np.ndarray) -> np.ndarray:
        """Return the channels of what `separated` returns."""
        n_directions = len(self.whitenings[0].matrix)
        return np.tile(np.repeat(source_channels, n_directions), len(self.whitenings))

    def separated(self, seen: np.ndarray) -> np.ndarray:
        """Take rows of logarithms, one for each channel, in place of the logarithms.

        A band's logarithm is L in the directions V. The row of channel c is L v, where v is row c
        of V; all rows together are those of V L, whose inner products are those of L.
        """
        n_directions = len(self.whitenings[0].matrix)
        i, j = np.triu_indices(n_directions)
        n_numbers = len(i) * len(self.whitenings)
        vectors = seen[:, :n_numbers, 0].reshape(len(seen), -1, len(i))
        logarithms = np.zeros((*vectors.shape[:2], n_directions, n_directions))
        logarithms[:, :, i, j] = logarithms[:, :, j, i] = np.where(i == j, 1.0, 0.5**0.5) * vectors
        V = np.array([whitening.directions for whitening in self.whitenings])
        rows = (V @ logarithms).reshape(len(seen), -1, 1)
        return np.concatenate([rows, seen[:, n_numbers:]], axis=1)

    def log_eigenvalues_and_vectors(self, k: int, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the logarithms of the eigenvalues, and the eigenvectors, of a whitened covariance.

        `y` is the signal or one of its octaves, (n_channels, n_points), and `k` its place in
        `whitenings`.
        """
        W, floor, _ = self.whitenings[k]
        values, V = np.linalg.eigh(W @ _covariance(y) @ W.T + np.diag(floor))
        return np.log(np.maximum(values, floor.min())), V  # smaller values are rounding errors

    def bands(self, x: np.ndarray) -> list[np.ndarray]:
        """Return the signal less its means, and its bands, (n_channels, n_points) each."""
        centred = x - x.mean(axis=1, keepdims=True)
        rounding = ROUNDING * np.abs(x).max(axis=1, keepdims=True)
        centred = np.where(np.abs(centred).max(axis=1, keepdims=True) <= rounding, 0.0, centred)
        bands = split_into_bands(centred[None], self.n_octaves)[0]
        return [centred, *bands.reshape(self.n_octaves, *x.shape)]

    def contributions_before(
        self, contributions: np.ndarray, x: np.ndarray, reach: float
    ) -> np.ndarray:
        """Divide a contribution by the energy of directions over time.

        A direction is an eigenvector of a band's logarithm, and counts with its eigenvalue: inner
        products of logarithms are sums over them. The directions in which a signal is like the mean
        count little.
        """
        parts = np.zeros(x.shape[1])
        for k, y in enumerate(self.bands(x)):
            logs, V = self.log_eigenvalues_and_vectors(k, y)
            energies = (V.T @ self.whitenings[k].matrix @ y) ** 2
            sums = energies.sum(axis=1, keepdims=True)
            shares = np.divide(energies, sums, out=np.zeros(energies.shape), where=sums > 0)
            parts += logs**2 @ shares
        total = parts.sum()
        equal = np.full(len(parts), 1.0 / len(parts))
        return np.asarray(contributions * (parts / total if total > 0 else equal))


@dataclass(frozen=True)
class CommonDeviation(ChannelScale):
    """Give each channel mean 0 over all signals, and all channels together deviation 1."""

    def scale_of(self, X: Signals, weights: np.ndarray) -> Scale:
        mean, deviation, root_mean_square = moments(X, weights)
        return Scale(mean[:, None], np.sqrt(np.mean(deviation**2)), root_mean_square.max())


def _covariance(y: np.ndarray) -> np.ndarray:
    """Return the covariance of channels of mean 0, (n_channels, n_channels)."""
    return np.asarray(y @ y.T / y.shape[1])
