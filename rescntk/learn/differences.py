"""First differences of signals and images, with their adjoint."""

from __future__ import annotations

import numpy as np


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
