"""Kernels on the circle for the notebook smoothness: shapes, and Fourier coefficients."""

from __future__ import annotations

import numpy as np

from rescntk.theory import smoothness
from rescntk.theory.argument_checks import Map, check_samples
from rescntk.validation import check_kernel


def kernel_shape(kernel: Map, n_samples: int = smoothness.SAMPLES) -> np.ndarray:
    """Return a kernel against the angle between its arguments, on `smoothness.grid`: figures 2a and 5a.

    Parameters
    ----------
    kernel : callable
        A `Kernel`, or another function that returns the matrix ``kernel(X, Z)`` of signals.
    n_samples : int, default 4096

    Examples
    --------
    >>> kernel_shape(smoothness.gaussian_kernel, 4).round(4)
    array([0.1353, 0.3679, 1.    , 0.3679])
    """
    check_kernel(kernel)
    first, others = (smoothness.circle(angles) for angles in ([0.0], smoothness.grid(n_samples)))
    return kernel(first, others)[0]


def magnitudes(values: np.ndarray) -> np.ndarray:
    """Return the absolute values of the Fourier coefficients of functions on the circle.

    :math:`|F_k|/N` of the FFT for frequencies 0 to N/2, (..., n_samples // 2 + 1). A cosine has ½.

    Parameters
    ----------
    values : ndarray, (..., n_samples)
        Samples on `smoothness.grid`.

    Examples
    --------
    >>> magnitudes([1.0, 0.0, -1.0, 0.0])
    array([0. , 0.5, 0. ])
    """
    return np.abs(np.fft.rfft(check_samples(values), norm="forward"))
