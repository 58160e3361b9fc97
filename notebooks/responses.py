"""Responses of functions and kernels to changed pixels: which pixels act together.

Barzilai et al. 2022, section 5.2. ``docs/theory/locality.md`` has the formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np


class Responses(NamedTuple):
    """Mean `responses` over signals, (n_timepoints,) each."""

    single: np.ndarray
    """D: response to only pixel i. Pixel 0 is the equivariant head's output."""
    pair: np.ndarray
    """J: response to pixels 0 and δ together; NaN at δ = 0."""


def responses(function: Callable[..., np.ndarray], X: np.ndarray, Z: np.ndarray) -> Responses:
    """Return the responses of a function of signals, as means over signals (n, channels, d).

    D_i = ½ E (f(x) − f(x^i))² and J_δ = ¼ E (f(x) − f(x^0) − f(x^δ) + f(x^0δ))², where x^i has
    pixel i of the signal z, and x^ij has pixels i and j of z.
    """
    changed = np.stack(list(_changed(X, Z)))
    n, rows, channels, d = changed.shape
    f = np.asarray(function(changed.reshape(n * rows, channels, d))).reshape(n, rows)
    single = 0.5 * ((f[:, :1] - f[:, 1 : d + 1]) ** 2).mean(axis=0)
    mixed = f[:, :1] - f[:, 1:2] - f[:, 2 : d + 1] + f[:, d + 1 :]
    return Responses(single, np.append(np.nan, 0.25 * (mixed**2).mean(axis=0)))


def kernel_responses(kernel: Callable[..., np.ndarray], X: np.ndarray, Z: np.ndarray) -> Responses:
    """Return the mean `responses` of random functions f with E f(x) f(z) = K(x, z)."""
    singles, pairs, sign = [], [], np.array([1.0, -1.0, -1.0, 1.0])
    for changed in _changed(X, Z):
        d, K = changed.shape[2], kernel(changed)
        singles.append(0.5 * (K[0, 0] - 2 * K[0, 1 : d + 1] + K.diagonal()[1 : d + 1]))
        fours = ([0, 1, 2 + k, d + 1 + k] for k in range(d - 1))
        pairs.append([0.25 * sign @ K[np.ix_(four, four)] @ sign for four in fours])
    return Responses(np.mean(singles, axis=0), np.append(np.nan, np.mean(pairs, axis=0)))


def _changed(X: np.ndarray, Z: np.ndarray) -> Iterator[np.ndarray]:
    """Yield x, all x^i, and all x^0δ of δ ≥ 1, signals (2 d, n_channels, d), for each x."""
    pixel = np.eye(X.shape[2], dtype=bool)
    masks = np.concatenate([np.zeros_like(pixel[:1]), pixel, pixel[1:] | pixel[0]])
    for x, z in zip(X, Z, strict=True):
        yield np.where(masks[:, None, :], z, x)
