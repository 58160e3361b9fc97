"""Functions on the circle, as samples on a grid of angles, and kernels' interpolants.

``docs/theory/smoothness.md`` has what one measures of them.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from ...checks.values import (
    check_kernel,
    check_match,
    check_nonnegative,
    check_positive_integer,
    check_signals,
)
from ...memory import check_free_memory
from ...regression import interpolate
from ..tools.argument_checks import Map, check_points, check_vector

SAMPLES = 4096
"""Samples of the circle that stand for a function (figure 7 of Tirer et al. 2022)."""


def grid(n_samples: int = SAMPLES) -> np.ndarray:
    """Return equally spaced angles from -π on.

    Parameters
    ----------
    n_samples : int, default 4096

    Returns
    -------
    ndarray, (n_samples,)
        In radians.

    Raises
    ------
    ValueError
        If `n_samples` is not a positive integer.
    MemoryError
        If the samples exceed the free memory.

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> smoothness.grid(4).round(4)
    array([-3.1416, -1.5708,  0.    ,  1.5708])
    """
    n = _check_samples(n_samples, 3)
    return 2.0 * math.pi * (np.arange(n) - n / 2) / n


def _check_samples(n_samples: int, numbers: int) -> int:
    """Return the number of samples, if memory holds `numbers` numbers for each."""
    n = check_positive_integer(n_samples, "n_samples")
    check_nonnegative(n, "n_samples")  # within float64
    what = f"n_samples is {n}: {numbers} numbers for each sample"
    check_free_memory(8 * numbers * n, what, "give fewer samples")
    return n


def circle(angles: ArrayLike) -> np.ndarray:
    """Return points of the unit circle as signals of two channels and length 1.

    Parameters
    ----------
    angles : array_like, (n,)
        In radians.

    Returns
    -------
    ndarray, (n, 2, 1)

    Raises
    ------
    ValueError
        If `angles` is no vector of real numbers.

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> smoothness.circle([0.0]).tolist()
    [[[1.0], [0.0]]]
    """
    angles = check_vector(angles, "angles")
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :, None]


def gaussian_kernel(X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
    r"""Return the Gaussian kernel :math:`\exp(-\frac12\|x - z\|^2)`, the paper's reference.

    Parameters
    ----------
    X : ndarray, (n_cases, n_channels, n_timepoints)
    Z : ndarray, (m_cases, n_channels, n_timepoints), optional
        The default is X.

    Returns
    -------
    ndarray, (n_cases, m_cases)

    Raises
    ------
    ValueError
        If X and Z differ in channels or length.

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> smoothness.gaussian_kernel(smoothness.circle([0.0, 3.141592653589793])).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """
    X = check_signals(X, "X")
    Z = X if Z is None else check_signals(Z, "Z")
    check_match(X, Z)
    with np.errstate(over="ignore"):
        return np.exp(-0.5 * np.stack([((Z - x) ** 2).sum(axis=(1, 2)) for x in X]))


def interpolation(
    kernel: Map, angles: ArrayLike, targets: ArrayLike, n_samples: int = SAMPLES
) -> np.ndarray:
    """Return a kernel's interpolant of given points of the circle.

    Eq. 4 and figures 2, 4, 5 and 6 of Tirer et al. 2022.

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or another function that returns matrices ``kernel(X)``, ``kernel(Z, X)``.
    angles : array_like, (n,)
        The given points of the circle in radians. Networks of erf are odd functions: no two points
        may be opposite.
    targets : array_like, (n,)
        The values there.
    n_samples : int, default 4096

    Returns
    -------
    ndarray, (n_samples,)
        Values on `grid`.

    Raises
    ------
    ValueError
        If the kernel matrix of the points is numerically singular.
    MemoryError
        If the samples exceed the free memory.

    Examples
    --------
    >>> from rescntk.theory import smoothness
    >>> f = smoothness.interpolation(smoothness.gaussian_kernel, [0.0, 1.0], [2.0, 3.0])
    >>> round(float(f[2048]), 6)  # at the angle 0
    2.0
    """
    check_kernel(kernel)
    angles, targets = check_points(angles, targets)
    n = _check_samples(n_samples, 7 + len(angles))
    X, Z = circle(angles), circle(grid(n))
    return np.asarray(kernel(Z, X) @ interpolate(kernel(X), targets))
