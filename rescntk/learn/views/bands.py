"""Steps of bands: octaves of signals at their own resolution, and local scales.

A band is a difference of smoothings by Gaussians. Blocks average a nonlinear function of it:
first-order scattering (Bruna and Mallat 2013, arXiv 1203.1513).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.fft

from .steps import ROUNDING, Blocks, BlockStep, ChannelScale, LengthKeepingStep

_LEAST_SCALE = 0.1
"""Least scale of a band, in units of the largest. Fine bands of smooth signals are weak, and their
own scale would magnify their noise."""

_FINEST = 0.7
"""Deviation of the narrowest Gaussian, in points."""

_COARSEST = 1 / 8
"""Largest deviation of the widest Gaussian, as a share of the longest signal's length."""

_LOCAL_WINDOWS = 16
"""A signal's length, in deviations of the Gaussian window that is called local."""

_ADDED_TO_LOCAL = 0.1
"""What is added to local deviations, in deviations of the signal, before they divide it."""

_SIGN_THRESHOLDS = (-1.0, -0.3, 0.3, 1.0)
"""The thresholds of "signs", in deviations of the band."""


@dataclass(frozen=True)
class LocalScale(LengthKeepingStep):
    """Subtract local means, and divide by local deviations plus a tenth.

    The signals come with mean 0 and deviation 1. Means and deviations are taken over a Gaussian
    window, whose deviation is a sixteenth of the signal. A point keeps its contribution, since its
    value decides more than those around it.
    """

    stage = "each signal's own scale"
    reach = math.inf
    depends_on_levels = False
    reason_against_one_point = "one time point has no deviation"

    def transform(self, X: np.ndarray) -> np.ndarray:
        width = X.shape[2] / _LOCAL_WINDOWS
        centred = X - Smoothing(X).by(width)
        variance = np.maximum(Smoothing(centred**2).by(width), 0.0)
        return np.asarray(centred / (np.sqrt(variance) + _ADDED_TO_LOCAL))


@dataclass(frozen=True)
class Bands(BlockStep):
    """Split signals into bands of an octave, and average nonlinear functions of them over blocks.

    `split_into_bands` says what the bands are. From each band b the kind "rectified" makes max(b,
    0) and max(−b, 0), and "magnitudes" makes |b|. The kind "signs" has, for each of some
    thresholds, 1 where b is above it and 0 elsewhere.
    """

    KINDS: ClassVar = ("rectified", "magnitudes", "signs")

    kind: str
    n_octaves: int
    blocks: Blocks
    reach = math.inf
    depends_on_levels = False
    reason_against_one_point = "one time point has no bands"

    @property
    def block_length(self) -> int:  # type: ignore[override]
        return self.blocks.block_length

    @staticmethod
    def n_octaves_of(length: int) -> int:
        """Return the number of bands of signals of this length, at least 1."""
        return max(1, math.ceil(math.log2(length * _COARSEST / _FINEST)))

    def channel_scale(self, least_ratio: float = 0.0) -> ChannelScale:
        return self.blocks.channel_scale(max(least_ratio, _LEAST_SCALE))

    def transform(self, X: np.ndarray) -> np.ndarray:
        bands = split_into_bands(X, self.n_octaves)
        if self.kind == "rectified":
            parts = [np.maximum(sign * bands, 0.0) for sign in (1, -1)]
        elif self.kind == "magnitudes":
            parts = [np.abs(bands)]
        else:
            unit = bands.std(axis=2, keepdims=True)
            parts = [np.where(bands > threshold * unit, 1.0, 0.0) for threshold in _SIGN_THRESHOLDS]
        return self.blocks.transform(np.concatenate(parts, axis=1))

    def source_channels_after(self, source_channels: np.ndarray) -> np.ndarray:
        n_functions = {"rectified": 2, "magnitudes": 1, "signs": len(_SIGN_THRESHOLDS)}[self.kind]
        return self.blocks.source_channels_after(
            np.tile(source_channels, n_functions * self.n_octaves)
        )

    def contributions_before(
        self, contributions: np.ndarray, x: np.ndarray, reach: float
    ) -> np.ndarray:
        """Divide the contribution of each block by the bands' energy at its points.

        The unit of a band is its root mean square, but at least `_LEAST_SCALE` times the largest
        one. Contributions of blocks without energy, and of all blocks of "signs", are divided into
        equal parts.
        """
        equal = self.blocks.contributions_before(contributions, x, reach)
        if self.kind == "signs":
            return equal
        bands = split_into_bands(x[None], self.n_octaves)
        units = np.sqrt(np.mean(bands**2, axis=2, keepdims=True))
        units = np.maximum(units, _LEAST_SCALE * units.max())
        energy = ((bands / np.where(units > 0, units, np.inf)) ** 2).sum(axis=1, keepdims=True)
        means = np.repeat(self.blocks.means(energy), self.blocks.sizes(x.shape[1]), axis=2)
        parts = np.divide(energy, means, out=np.ones(energy.shape), where=means > 0)
        return np.asarray(equal * parts[0, 0])


def split_into_bands(X: np.ndarray, n_octaves: int) -> np.ndarray:
    """Return the bands of signals at their points, (n_cases, octaves · n_channels, n_points).

    Band 0 is the signal less its smoothing by a Gaussian of .7 points. Band j is the difference of
    smoothings by .7 · 2^(j − 1) and .7 · 2^j points. The channels of band 0 come first, then those
    of band 1, and so on.
    """
    smoothing, bands, finer = Smoothing(X), [], X
    for octave in range(n_octaves):
        coarser = smoothing.by(_FINEST * 2.0**octave)
        bands.append(finer - coarser)
        finer = coarser
    rounding = ROUNDING * np.abs(X).max(axis=2, keepdims=True)
    return np.concatenate([np.where(np.abs(b) > rounding, b, 0.0) for b in bands], axis=1)


class Smoothing:
    """Signals (n_cases, n_channels, n_points) that Gaussians smooth, by a cosine transform.

    The transform reflects them at their ends.
    """

    def __init__(self, X: np.ndarray) -> None:
        self.angles = np.pi * np.arange(X.shape[2]) / X.shape[2]
        self.transform = scipy.fft.dct(X, axis=2)

    def by(self, deviation: float) -> np.ndarray:
        """Return the signals smoothed by a Gaussian; its deviation is in points."""
        gains = np.exp(-0.5 * (self.angles * deviation) ** 2)
        return np.asarray(scipy.fft.idct(self.transform * gains, axis=2))
