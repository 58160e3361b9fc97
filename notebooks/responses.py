"""Responses of functions and kernels to changed pixels: which pixels act together.

Barzilai et al. 2022, section 5.2. ``docs/theory/locality.md`` has the formulas.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rescntk.theory.argument_checks import Map
from rescntk.validation import check_kernel, check_shape, check_signals


class Responses(NamedTuple):
    """Mean `responses` over signals, (n_timepoints,) each."""

    single: np.ndarray
    """D: response to only pixel i. Pixel 0 is the equivariant head's output."""
    pair: np.ndarray
    """J: response to pixels 0 and δ together; NaN at δ = 0."""


def responses(function: Map, X: np.ndarray, Z: np.ndarray) -> Responses:
    r"""Return the responses of a function to changed pixels, as means over signals.

    :math:`D_i = \frac12 E (f(x) - f(x^i))^2` and
    :math:`J_\delta = \frac14 E (f(x) - f(x^0) - f(x^\delta) + f(x^{0\delta}))^2`, where
    :math:`x^i` has pixel i of the signal z, and :math:`x^{ij}` has pixels i and j of z.

    Parameters
    ----------
    function : callable
        Returns one output for each signal, (n_cases,), from an array of signals.
    X, Z : ndarray, (n_cases, n_channels, n_timepoints)
        Signals x, and the signals z of which pixels replace pixels of x.

    Examples
    --------
    >>> import numpy as np
    >>> X, Z = np.random.default_rng(0).standard_normal((2, 50, 1, 4))
    >>> responses(lambda X: X[:, 0, 0] * X[:, 0, 1], X, Z).single.round(1) > 0
    array([ True,  True, False, False])
    """
    changed = np.stack(list(_changed(X, Z)))
    n, rows, channels, d = changed.shape
    outputs = function(changed.reshape(n * rows, channels, d))
    f = check_shape(outputs, "function(X)", (n * rows,)).reshape(n, rows)
    single = 0.5 * ((f[:, :1] - f[:, 1 : d + 1]) ** 2).mean(axis=0)
    mixed = f[:, :1] - f[:, 1:2] - f[:, 2 : d + 1] + f[:, d + 1 :]
    return Responses(single, np.append(np.nan, 0.25 * (mixed**2).mean(axis=0)))


def kernel_responses(kernel: Map, X: np.ndarray, Z: np.ndarray) -> Responses:
    """Return the mean `responses` of random functions f with E f(x) f(z) = K(x, z).

    Parameters
    ----------
    kernel : callable
        A `Kernel` of any kind and head, or another function that returns ``kernel(X)``.
    X, Z
        As for `responses`.

    Examples
    --------
    >>> import rescntk as rk
    >>> X, Z = (rk.theory.multisphere.sample(5, 2, 9, rng) for rng in (0, 1))
    >>> near, far = kernel_responses(rk.ResCNTK(2), X, Z).pair[[1, 4]]
    >>> bool(near > 10 * far)
    True
    """
    check_kernel(kernel)
    singles, pairs, sign = [], [], np.array([1.0, -1.0, -1.0, 1.0])
    for changed in _changed(X, Z):
        d = changed.shape[2]
        K = check_shape(kernel(changed), "kernel(X)", (2 * d, 2 * d))
        own = K.diagonal()
        singles.append(0.5 * (K[0, 0] - 2 * K[0, 1 : d + 1] + own[1 : d + 1]))
        fours = ([0, 1, 2 + k, d + 1 + k] for k in range(d - 1))
        pairs.append([0.25 * sign @ K[np.ix_(four, four)] @ sign for four in fours])
    return Responses(np.mean(singles, axis=0), np.append(np.nan, np.mean(pairs, axis=0)))


def _changed(X: np.ndarray, Z: np.ndarray) -> Iterator[np.ndarray]:
    """Yield x, all x^i, and all x^0δ of δ ≥ 1, signals (2 d, n_channels, d), for each x."""
    X, Z = check_signals(X, "X"), check_signals(Z, "Z")
    if X.shape != Z.shape:
        raise ValueError(f"Z has shape {Z.shape}, expected {X.shape}, the shape of X")
    d = X.shape[2]
    pixel = np.eye(d, dtype=bool)
    masks = np.concatenate([np.zeros((1, d), dtype=bool), pixel, pixel[1:] | pixel[0]])
    for x, z in zip(X, Z, strict=True):
        yield np.where(masks[:, None, :], z, x)
