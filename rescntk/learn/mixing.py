"""Channels mixed by a learned metric, before all else that a view does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

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


def fit_mix(transform: np.ndarray, X: Any, scale_of: Callable[..., Any]) -> ChannelMix:
    """Return the mix of channels by a metric S, ``transform``, which acts on standardized channels.

    `scale_of` returns mean and deviation of each channel of signals X, 0 for a constant channel.
    """
    mean, deviation = scale_of(X)
    S = transform / np.where(deviation > 0, deviation, np.inf)
    mix = ChannelMix(mean, S, np.ones(len(S)))
    mixed = mix(X) if isinstance(X, np.ndarray) else [mix(x[None])[0] for x in X]
    size = scale_of(mixed)[1]
    matrix = S / np.where(size > 0, size, 1.0)[:, None]
    weights = np.where(size > 0, size / np.sqrt((size**2).mean() or 1.0), 1.0)
    return ChannelMix(mean, matrix, weights)
