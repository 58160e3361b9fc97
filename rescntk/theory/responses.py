r"""Responses of functions and kernels to changed pixels: locality for every head.

Barzilai et al. 2022, section 5.2: one output pixel weighs near pixels more, the heads "trace" and
"gap" weigh functions of *nearby* pixels more. With trace and GAP all pixels have the same effective
receptive field, on average over signals: no pixel is the center. Locality shows in pixels that
act together.

A signal z replaces pixels of the signal x: :math:`x^i` has pixel i of z, :math:`x^{ij}` has pixels
i and j of z. The two responses of a function f are

.. math::
    D_i = \tfrac12 E\, (f(x) - f(x^i))^2, \qquad
    J_\delta = \tfrac14 E\, (f(x) - f(x^0) - f(x^\delta) + f(x^{0\delta}))^2 .

D is the finite form of the gradient's energy at pixel i. J is the response that pixels 0 and δ
have together (the interaction of Sobol's decomposition). A random function with the kernel K has
the mean responses with :math:`E f(x) f(z) = K(x, z)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..validation import check_kernel, check_signals


class Responses(NamedTuple):
    """Mean responses over signals; from `responses` and `kernel_responses`."""

    single: np.ndarray
    """D, (n_timepoints,): response to pixel i alone. Pixel 0 is the equivariant head's output."""
    pair: np.ndarray
    """J, (n_timepoints,): response to pixels 0 and δ together; NaN at δ = 0."""


def responses(
    function: Callable[[np.ndarray], np.ndarray], X: np.ndarray, Z: np.ndarray
) -> Responses:
    """Return the responses of a function to changed pixels, as means over signals.

    Parameters
    ----------
    function : callable
        Returns one output for each signal, (n_cases,), from an array of signals. For a finite
        network: ``lambda X: finite.apply(network, params, X, head)``.
    X, Z : ndarray, (n_cases, n_channels, n_timepoints)
        Signals x, and the signals z of which pixels replace pixels of x.

    Returns
    -------
    Responses

    Raises
    ------
    ValueError
        For arguments that are not as described.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk.theory import locality
    >>> X, Z = np.random.default_rng(0).standard_normal((2, 50, 1, 4))
    >>> found = locality.responses(lambda X: X[:, 0, 0] * X[:, 0, 1], X, Z)
    >>> found.single.round(1) > 0, found.pair.round(1) > 0
    (array([ True,  True, False, False]), array([False,  True, False, False]))
    """
    X, Z = _check(X, Z)
    n, _, d = X.shape
    changed = np.concatenate([_changed(x, z) for x, z in zip(X, Z, strict=True)])
    f = np.asarray(function(changed), dtype=np.float64).reshape(n, 2 * d)
    single = 0.5 * ((f[:, :1] - f[:, 1 : d + 1]) ** 2).mean(axis=0)
    mixed = f[:, :1] - f[:, 1:2] - f[:, 2 : d + 1] + f[:, d + 1 :]
    return Responses(single, np.append(np.nan, 0.25 * (mixed**2).mean(axis=0)))


def kernel_responses(
    kernel: Callable[[np.ndarray], np.ndarray], X: np.ndarray, Z: np.ndarray
) -> Responses:
    """Return the mean responses of random functions with a kernel, as means over signals.

    Parameters
    ----------
    kernel : callable
        A `Kernel` of any kind and head, or another function that returns ``kernel(X)``.
    X, Z : ndarray, (n_cases, n_channels, n_timepoints)
        As for `responses`.

    Returns
    -------
    Responses

    Raises
    ------
    ValueError
        For arguments that are not as described.

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> from rescntk.theory import locality
    >>> X, Z = np.random.default_rng(0).standard_normal((2, 5, 2, 9))
    >>> kernel = rk.ResCNTK(depth=2, filter_size=3, head="gap")
    >>> near, far = locality.kernel_responses(kernel, X, Z).pair[[1, 4]]
    >>> bool(near > 10 * far)
    True
    """
    check_kernel(kernel)
    X, Z = _check(X, Z)
    d = X.shape[2]
    single, pair = np.zeros(d), np.zeros(d - 1)
    for x, z in zip(X, Z, strict=True):
        K = np.asarray(kernel(_changed(x, z)))
        changed = np.arange(1, d + 1)
        single += 0.5 * (K[0, 0] - 2 * K[0, changed] + K[changed, changed])
        for place in range(d - 1):
            four, sign = [0, 1, 2 + place, d + 1 + place], np.array([1.0, -1.0, -1.0, 1.0])
            pair[place] += 0.25 * sign @ K[np.ix_(four, four)] @ sign
    return Responses(single / len(X), np.append(np.nan, pair / len(X)))


def _changed(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return x, all x^i, and all x^0δ of δ ≥ 1: signals (2 d, n_channels, d)."""
    d = x.shape[1]
    masks = np.zeros((2 * d, d), dtype=bool)
    masks[1 : d + 1] = np.eye(d, dtype=bool)
    masks[d + 1 :, 0] = True
    masks[d + 1 :] |= np.eye(d, dtype=bool)[1:]
    return np.where(masks[:, None, :], z, x)


def _check(X: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return X and Z as arrays of signals of one shape."""
    X, Z = check_signals(X, "X"), check_signals(Z, "Z")
    if X.shape != Z.shape:
        raise ValueError(f"Z has shape {Z.shape}, expected {X.shape}, the shape of X")
    return X, Z
