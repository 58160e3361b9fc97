"""A ResNet's spectrum and an ensemble of CNNs: theorem 5.2 of Barzilai et al. 2022."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
from scipy.special import logsumexp

from ...network import BASIC_FIELDS, Network, check_network
from ...validation import check_constant, check_depths
from ..paths import counts
from .funk_hecke import eigenvalues
from .grid import taps

_STARTS = (1.05, 1.3, 2.0, 4.0)
"""Values of A from which the fit starts, against local minima."""

_REACH = 60.0
"""Largest distance of log c from the range of log λ: a constant of e^−60 λ is as good as 0."""


class EnsembleFit(NamedTuple):
    """The theorem's constants, fitted in logarithms to a computed spectrum."""

    depths: tuple[int, ...]
    """The depths l of the sum."""
    paths: np.ndarray
    """p_i^(l), (depths, d): Python integers, exact."""
    constants: np.ndarray
    """c_l, (depths,); nearly 0 where the fit does not need a depth."""
    base: float
    """A, at least 1."""
    exponent: float
    """Power of each k_i > 0: −C0 − 2 as in the theorem, or fitted."""
    rms: float
    """Root mean square of log λ − log fit."""
    r_squared: float
    """Share of the variance of log λ that the fit explains."""
    bound_factor: float
    """The fit times this is a lower bound on all eigenvalues that entered."""
    n_eigenvalues: int
    """Number of eigenvalues in the fit: those that exceed their errors."""


def fit_ensemble(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    max_frequency: int,
    kind: str = "gpk",
    *,
    depths: Iterable[int] | None = None,
    exponent: float | None = None,
    **options: Any,
) -> EnsembleFit:
    """Fit the constants of theorem 5.2 to the spectrum of the equivariant kernel.

    Parameters
    ----------
    network, n_channels, n_timepoints, max_frequency, kind, **options
        As for `eigenvalues`.
    depths : iterable of int, optional
        Depths of the ensemble. The default is 1 … L with skip connections, L alone without.
    exponent : float, optional
        The power of k_i, as a positive number, n_channels + 2 in the theorem. Default: fitted.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import spectrum
    >>> network = literature.one_convolution_resnet(depth=2)
    >>> spectrum.fit_ensemble(network, 2, 3, max_frequency=6).paths.tolist()
    [[1, 0, 0], [1, 1, 1]]
    """
    check_network(network, BASIC_FIELDS)
    if depths is None:
        depths = range(1, network.depth + 1) if network.skip else (network.depth,)
    depths = check_depths(depths)
    if max(depths) > network.depth or len(set(depths)) < len(depths):
        raise ValueError(f"depths is {depths}, expected different ones up to {network.depth}")
    grid = n_channels, n_timepoints, max_frequency, kind
    found = eigenvalues(network, *grid, return_error=True, **options)
    d = found.eigenvalues.ndim
    # In exact integers, which may exceed any float: min(p, k) does not.
    paths = np.array([counts(network.replace(depth=depth, skip=False), d) for depth in depths])
    resolved = found.resolved
    k = np.argwhere(resolved)  # (n, d)
    target = np.log(found.eigenvalues[resolved])
    reaches = np.array([((p > 0) | (k == 0)).all(axis=1) for p in paths])  # (depths, n)
    reached = reaches.any(axis=0)
    k, target, reaches = k[reached], target[reached], reaches[:, reached]
    few = np.minimum(paths, max(found.eigenvalues.shape)).astype(np.float64)
    steps = np.array([np.minimum(p, k).sum(axis=1) for p in few])
    power = -np.log(np.maximum(k, 1)).sum(axis=1)
    if len(target) < len(depths) + 3:
        raise ValueError(
            f"max_frequency is {max_frequency!r}: {len(target)} eigenvalues exceed their errors, "
            f"too few for {len(depths) + 2} constants"
        )

    def residuals(x: np.ndarray) -> np.ndarray:
        terms = x[2:, None] + steps * x[0]
        return target - logsumexp(np.where(reaches, terms, -np.inf), axis=0) - x[1] * power

    theorem = n_channels + 2.0
    power_bounds = (0.0, 4 * theorem)
    if exponent is not None:
        theorem = check_constant(exponent, "exponent")
        power_bounds = (theorem - 1e-9, theorem + 1e-9)  # least_squares wants bounds that differ
    reach = (target.min() - _REACH, target.max() + _REACH)
    bounds = np.array([(0.0, math.log(1e6)), power_bounds, *[reach] * len(depths)])
    fit = partial(scipy.optimize.least_squares, residuals, bounds=bounds.T, x_scale="jac")
    ends = theorem, *[target.mean()] * len(depths)
    best = min((fit([math.log(base), *ends]) for base in _STARTS), key=lambda found: found.cost)
    left = residuals(best.x)
    mean_square = float((left**2).mean())
    return EnsembleFit(
        depths=depths,
        paths=paths,
        constants=np.exp(best.x[2:]),
        base=math.exp(best.x[0]),
        exponent=-float(best.x[1]),
        rms=math.sqrt(mean_square),
        r_squared=1.0 - mean_square / float(target.var()),
        bound_factor=math.exp(left.min()),
        n_eigenvalues=len(target),
    )


class Mixture(NamedTuple):
    """A ResNet's eigenvalues as a weighted sum of the eigenvalues of CNNs of its depths."""

    depths: tuple[int, ...]
    """0 (the dot product, which the skip connections alone carry), 1 … L."""
    weights: np.ndarray
    """Weight of each depth, (L + 1,); at least 0."""
    eigenvalues: np.ndarray
    """The ResNet's eigenvalues, of K/K(x, x), in the shape of ``spectrum.eigenvalues``."""
    mixed: np.ndarray
    """The weighted sum of the CNNs' eigenvalues, in the same shape."""
    alone: np.ndarray
    """The deepest CNN's eigenvalues, times the weight that fits best, in the same shape."""
    rms: float
    """Root mean square of log λ − log of the weighted sum."""
    rms_alone: float
    """The same for the deepest CNN alone."""


def mixture(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    max_frequency: int,
    kind: str = "gpk",
    **options: Any,
) -> Mixture:
    """Fit a ResNet's spectrum by a weighted sum of the spectra of CNNs of its depths.

    CNNs are the same network without skips. Weights are not negative and minimize relative errors.

    Parameters
    ----------
    network : Network
        With skip connections.
    n_channels, n_timepoints, max_frequency, kind, **options
        As for `eigenvalues`.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import spectrum
    >>> found = spectrum.mixture(literature.barzilai_resnet(depth=2), 2, 3, max_frequency=6)
    >>> bool((found.weights > 0).all()), found.rms < found.rms_alone
    (True, True)
    """
    check_network(network, BASIC_FIELDS)
    if not network.skip:
        raise ValueError("network has no skip connections, expected a ResNet")
    grid = n_channels, n_timepoints, max_frequency, kind
    found = eigenvalues(network, *grid, normalized=True, return_error=True, **options)
    target, resolved = found.eigenvalues, found.resolved
    if not resolved.any():
        raise ValueError(f"network is {network!r}, none of whose eigenvalues exceeds its error")
    dot = np.zeros_like(target)  # of the mean of t over the input filter's window
    for pixel, times in taps(network.input_filter, target.ndim).items():
        if target.shape[pixel] > 1:
            index = tuple(int(axis == pixel) for axis in range(target.ndim))
            dot[index] = times / (network.input_filter_size * n_channels)
    depths = tuple(range(network.depth + 1))
    cnns = (network.replace(depth=depth, skip=False) for depth in depths[1:])
    spectra = (eigenvalues(cnn, *grid, normalized=True, **options) for cnn in cnns)
    parts = np.array([dot, *spectra])
    relative = (parts[:, resolved] / target[resolved]).T
    ones = np.ones(len(relative))
    weights, _ = scipy.optimize.nnls(relative, ones)
    alone = float(scipy.optimize.nnls(relative[:, -1:], ones)[0][0])

    def rms(fit: np.ndarray) -> float:
        return float(np.sqrt((np.log(fit) ** 2).mean()))

    mixed, single = np.tensordot(weights, parts, 1), alone * parts[-1]
    errors = rms(relative @ weights), rms(relative[:, -1] * alone)
    return Mixture(depths, weights, target, mixed, single, *errors)
