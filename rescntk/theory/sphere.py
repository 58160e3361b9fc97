r"""Signals on the multi-sphere :math:`MS(C_0, d)`: every pixel has the norm :math:`\sqrt{C_0}`.

``multisphere`` imports all public names from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, overload

import numpy as np
from opt_einsum import contract

from ..signals import SignalList
from ..validation import (
    MULTISPHERE_TOLERANCE,
    check_batch,
    check_depth,
    check_flag,
    check_integer,
    check_on_multisphere,
    check_signals,
    multisphere_error,
)


@overload
def project(X: np.ndarray) -> np.ndarray: ...
@overload
def project(X: np.ndarray | list[np.ndarray]) -> np.ndarray | list[np.ndarray]: ...
def project(X: np.ndarray | list[np.ndarray]) -> np.ndarray | list[np.ndarray]:
    """Return the signals with each pixel scaled to norm √n_channels.

    Parameters
    ----------
    X : ndarray, (n_cases, n_channels, n_timepoints)
        Or a list of arrays (n_channels, n_timepoints_i) of different lengths.

    Returns
    -------
    ndarray of the same shape, float64
        Or a list of arrays.

    Raises
    ------
    ValueError
        If a pixel is zero: it has no direction.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import multisphere
    >>> multisphere.project(np.array([[[3.0], [4.0]]])).ravel().round(4)
    array([0.8485, 1.1314])
    """
    batch: Any = check_batch(X, "X")
    if isinstance(batch, SignalList):
        return [_on_sphere(signal[None], f"X[{k}]")[0] for k, signal in enumerate(batch)]
    return _on_sphere(batch, "X")


def _on_sphere(X: np.ndarray, name: str) -> np.ndarray:
    """Return signals with each pixel scaled to norm √n_channels."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    if not largest.all():
        case, _, pixel = np.argwhere(largest == 0)[0]
        raise ValueError(
            f"{name} of shape {X.shape} is zero at all channels of case {case}, timepoint {pixel}: "
            f"expected pixels that have a direction"
        )
    X = X / largest  # squares neither overflow nor vanish
    return X * np.sqrt(X.shape[1] / (X * X).sum(axis=1, keepdims=True))


def sample(
    n_cases: int, n_channels: int, n_timepoints: int, rng: np.random.Generator | int | None = None
) -> np.ndarray:
    """Return signals drawn uniformly from the multi-sphere.

    Parameters
    ----------
    n_cases, n_channels, n_timepoints : int
        Shape of the result, each at least 1.
    rng : Generator or int, optional
        Source of randomness, or its seed.

    Returns
    -------
    ndarray, (n_cases, n_channels, n_timepoints)

    Examples
    --------
    >>> from rescntk.theory import multisphere
    >>> X = multisphere.sample(5, 3, 8, rng=0)
    >>> (X**2).sum(axis=1).round(12)[0]
    array([3., 3., 3., 3., 3., 3., 3., 3.])
    """
    shape = tuple(
        check_depth(number, name)
        for number, name in (
            (n_cases, "n_cases"),
            (n_channels, "n_channels"),
            (n_timepoints, "n_timepoints"),
        )
    )
    return project(np.random.default_rng(rng).standard_normal(shape))


def dot_products(
    X: np.ndarray, Z: np.ndarray | None = None, offset: int = 0, complement: bool = False
) -> np.ndarray:
    """Return the dot products t of the pixels of signals on the multi-sphere.

    Parameters
    ----------
    X : ndarray, (n_cases, n_channels, n_timepoints)
    Z : ndarray, (m_cases, n_channels, n_timepoints), optional
        The default is `X`.
    offset : int, default 0
        Pixel j of X meets pixel j + offset of Z (circularly).
    complement : bool, default False
        Return 1 − t, from differences: exact for signals that nearly agree.

    Returns
    -------
    ndarray, (n_cases, m_cases, n_timepoints)
        In [-1, 1], or [0, 2].

    Raises
    ------
    ValueError
        If a pixel's norm is not √n_channels (`project` makes it so).

    Examples
    --------
    >>> from rescntk.theory import multisphere
    >>> X = multisphere.sample(5, 3, 8, rng=0)
    >>> multisphere.dot_products(X)[0, 0].round(12)
    array([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    X = check_on_multisphere(X, "X")
    Z = X if Z is None else check_on_multisphere(Z, "Z")
    if X.shape[1:] != Z.shape[1:]:
        raise ValueError(f"Z has shape {Z.shape}, expected (m_cases, {X.shape[1]}, {X.shape[2]})")
    Z = np.roll(Z, -check_integer(offset, "offset"), axis=2)
    if not check_flag(complement, "complement"):
        return np.clip(contract("icj,kcj->ikj", X, Z) / X.shape[1], -1.0, 1.0)
    channels = zip(X.transpose(1, 0, 2), Z.transpose(1, 0, 2), strict=True)
    return pixel_complements((x[:, None], z[None]) for x, z in channels)


def pixel_complements(channels: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return 1 − t = ‖x − z‖² / 2C0 of pixels x and z, given their values in each channel."""
    total, count = np.zeros(()), 0
    for x, z in channels:
        total, count = total + (x - z) ** 2, count + 1
    return np.minimum(total / (2 * count), 2.0)


def contains(X: np.ndarray) -> bool:
    """Return whether signals are on the multi-sphere: every pixel's norm √n_channels.

    Parameters
    ----------
    X : ndarray, (n_cases, n_channels, n_timepoints)
        The signals.

    Examples
    --------
    >>> from rescntk.theory import multisphere
    >>> X = multisphere.sample(3, 4, 5, rng=0)
    >>> multisphere.contains(X), multisphere.contains(2 * X)
    (True, False)
    """
    return multisphere_error(check_signals(X, "X")) <= MULTISPHERE_TOLERANCE
