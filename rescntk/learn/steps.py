"""Steps of a view: mixed channels, short-time and whole spectra, differences, with adjoints."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np


class ChannelMix(NamedTuple):
    """A matrix times standardized channels, as channels of deviation 1 and their weights.

    Views standardize channels: the weights are put back after their last step.
    """

    mean: np.ndarray
    """Subtrahend of each channel, (n_channels,)."""
    matrix: np.ndarray
    """(n_channels, n_channels)"""
    weights: np.ndarray
    """Deviations of the mixed channels before they were divided, (n_channels,): mean square 1."""

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return mixed channels of signals or images X of one length."""
        pixels = X.reshape(*X.shape[:2], -1) - self.mean[:, None]
        return (self.matrix @ pixels).reshape(X.shape)

    def adjoint(self, slopes: np.ndarray) -> np.ndarray:
        """Return derivatives by signals from derivatives by their mixed channels."""
        pixels = slopes.reshape(*slopes.shape[:2], -1)
        return (self.matrix.T @ pixels).reshape(slopes.shape)

    def in_units(self, size: np.ndarray) -> ChannelMix:
        """Return the mix with channels divided by their deviations, (n_channels,), or by 1 for 0.

        The weights are these deviations, of mean square 1; 1 for a channel that is constant.
        """
        varies = size > 0
        weights = np.where(varies, size / np.sqrt((size**2).mean() or 1.0), 1.0)
        return ChannelMix(self.mean, self.matrix / np.where(varies, size, 1.0)[:, None], weights)


def short_time_spectra(X: np.ndarray, block: int) -> np.ndarray:
    """Return roots of short-time spectra, (n_cases, n_channels · (block + 1), n_blocks).

    The spectrum of a block has the magnitudes of its Fourier transform in a Hann window of twice
    its length, by channel and rising frequency.
    """
    roots = np.sqrt(np.abs(_windowed_transforms(X, block)))
    return roots.transpose(0, 1, 3, 2).reshape(len(X), -1, roots.shape[2])


def _windowed_transforms(X: np.ndarray, block: int) -> np.ndarray:
    """Return Fourier transforms in a window around each block, (n_cases, n_channels, n_blocks, ·).

    The first window begins half a block before the signal, whose surroundings are 0.
    """
    length, before = X.shape[2], block // 2
    after = (-(-length // block) + 1) * block - length - before
    padded = np.pad(X, ((0, 0), (0, 0), (before, after)))
    parts = np.lib.stride_tricks.sliding_window_view(padded, 2 * block, axis=2)[:, :, ::block]
    return np.fft.rfft(parts * hann_window(block), axis=3)


def short_time_spectra_adjoint(X: np.ndarray, slopes: np.ndarray, block: int) -> np.ndarray:
    """Return derivatives by X from derivatives by `short_time_spectra` of X.

    A magnitude of 0 has a kink, and slope 0.
    """
    (n, c, length), spectrum = X.shape, _windowed_transforms(X, block)
    n_blocks, before = spectrum.shape[2], block // 2
    by_root = slopes.reshape(n, c, block + 1, n_blocks).transpose(0, 1, 3, 2)
    waves = 0.5 * block * _root_slopes(spectrum, by_root)
    waves[..., [0, -1]] *= 2.0  # frequencies that irfft counts once, the others twice
    windows = np.fft.irfft(waves, 2 * block, axis=3) * hann_window(block)
    joined = np.zeros((n, c, n_blocks + 1, block))
    joined[:, :, :-1] += windows[..., :block]
    joined[:, :, 1:] += windows[..., block:]
    return joined.reshape(n, c, -1)[:, :, before : before + length]


def whole_spectra(X: np.ndarray) -> np.ndarray:
    """Return roots of magnitudes of Fourier transforms, (n_cases, n_channels, n_frequencies).

    Frequencies rise from 1/d to 1/2 cycle a point for d points. Magnitudes are divided by the root
    of d. A signal of one point has a 0.
    """
    if X.shape[2] == 1:
        return np.zeros(X.shape)
    return np.sqrt(np.abs(np.fft.rfft(X, axis=2, norm="ortho")[:, :, 1:]))


def whole_spectra_adjoint(X: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return derivatives by X from derivatives by `whole_spectra` of X.

    A magnitude of 0 has a kink, and slope 0.
    """
    length = X.shape[2]
    if length == 1:
        return np.zeros(X.shape)
    waves = _root_slopes(np.fft.rfft(X, axis=2, norm="ortho")[:, :, 1:], slopes)
    if length % 2 == 0:
        waves[:, :, -1] *= 2.0  # a frequency that irfft counts once, the others twice
    waves = np.concatenate([np.zeros((*X.shape[:2], 1)), waves], axis=2)
    return 0.25 * np.fft.irfft(waves, length, axis=2, norm="ortho")


def energy_of_bands(x: np.ndarray, block: int) -> np.ndarray:
    """Return the share of each time point in the energy of bands, (n_bands, length); sums are 1.

    A band has `block` frequencies of `whole_spectra`. Its energy is the sum over channels and time
    of the signal x, (n_channels, length), times x with this band alone: products are shares, some
    below 0. Time points have equal shares of a band without energy.
    """
    length = x.shape[1]
    spectrum = np.fft.rfft(x, axis=1)
    bands = (np.arange(spectrum.shape[1]) - 1) // block  # the mean has -1
    n_bands = max(1, bands[-1] + 1)
    alone = np.where(bands == np.arange(n_bands)[:, None, None], spectrum, 0.0)
    shares = (np.fft.irfft(alone, length, axis=2) * (x - x.mean(axis=1, keepdims=True))).sum(axis=1)
    energy = shares.sum(axis=1, keepdims=True)
    return np.divide(shares, energy, out=np.full(shares.shape, 1.0 / length), where=energy > 0)


def _root_slopes(spectrum: np.ndarray, by_root: np.ndarray) -> np.ndarray:
    """Return 2 · by_root · d√|F|/dF: |F| has the derivative F / |F|, its root 1 / (2 √|F|)."""
    magnitudes = np.abs(spectrum)
    nonzero = magnitudes > 0
    safe = np.where(nonzero, magnitudes, 1.0)
    return np.where(nonzero, by_root * spectrum / safe**1.5, 0.0)


@lru_cache(maxsize=32)
def hann_window(block: int) -> np.ndarray:
    """Return the weights of the 2 · block points of a window, from 0 to 1 and back."""
    return np.hanning(2 * block + 1)[:-1]


def first_differences(X: np.ndarray) -> np.ndarray:
    """Return central differences along time, or along both axes of images, as channels."""
    axes = range(2, X.ndim)
    rises = [np.gradient(X, axis=k) if X.shape[k] > 1 else np.zeros(X.shape) for k in axes]
    return np.concatenate(rises, axis=1)


def first_differences_adjoint(slopes: np.ndarray, n_axes: int = 1) -> np.ndarray:
    """Return derivatives by X from derivatives by central differences of X along each axis."""
    gradient = np.zeros((len(slopes), slopes.shape[1] // n_axes, *slopes.shape[2:]))
    for k, part in enumerate(np.split(slopes, n_axes, axis=1), start=2):
        length = part.shape[k]
        matrix = np.gradient(np.eye(length), axis=0) if length > 1 else np.zeros((1, 1))
        gradient += np.moveaxis(np.moveaxis(part, k, -1) @ matrix, -1, k)
    return gradient
