"""Channels mixed by a learned metric, before all else that a view does."""

from __future__ import annotations

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
