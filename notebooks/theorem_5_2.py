"""Theorem 5.2 of Barzilai et al. (2022): a ResNet as an ensemble of CNNs, and paths of their own.

The notebook eigenvalue_decay fits the theorem's form and a sum of CNNs' spectra to a ResNet's
spectrum; the notebook locality evaluates the kernel of appendix D, with which the paper proves it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.optimize
from scipy.special import logsumexp

from rescntk import Network
from rescntk.network import BASIC_FIELDS, check_network
from rescntk.theory import spectrum
from rescntk.theory.complements import activate, add_branch
from rescntk.theory.locality import counts
from rescntk.theory.spectrum.grid import taps

STARTS = (1.05, 1.3, 2.0, 4.0)
"""Values of A from which the fit starts, against local minima."""

MOST_PATHS = 2**27
"""Most paths that are listed: 1 GiB of integers."""

REACH = 60.0
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
    """The fit times this is a lower bound on all fitted eigenvalues."""
    n_eigenvalues: int
    """Number of fitted eigenvalues, which exceed their errors."""


def fit_ensemble(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    max_frequency: int | Iterable[int],
    *,
    depths: Iterable[int] | None = None,
    exponent: float | None = None,
) -> EnsembleFit:
    """Fit the constants of theorem 5.2 to the spectrum of the equivariant GPK.

    `depths` are the ensemble's depths: by default 1 … L with skip connections, L without.
    `exponent` is the power of k_i, n_channels + 2 in the theorem; None fits it.
    """
    every = range(1, network.depth + 1) if network.skip else (network.depth,)
    depths = tuple(every if depths is None else depths)
    if not set(depths) <= set(range(1, network.depth + 1)) or len(set(depths)) < len(depths):
        raise ValueError(
            f"depths is {depths}, expected different ones of at most the network's, {network.depth}"
        )
    found = spectrum.eigenvalues(
        network, n_channels, n_timepoints, max_frequency, return_error=True
    )
    # In exact integers, which may exceed any float: min(p, k) does not.
    paths = np.array(
        [counts(network.replace(depth=depth, skip=False), n_timepoints) for depth in depths]
    )
    k = np.argwhere(found.resolved)  # (n, d)
    target = np.log(found.eigenvalues[found.resolved])
    reaches = np.array([((p > 0) | (k == 0)).all(axis=1) for p in paths])  # (depths, n)
    reached = reaches.any(axis=0)
    k, target, reaches = k[reached], target[reached], reaches[:, reached]
    few = np.minimum(paths, max(found.eigenvalues.shape)).astype(np.float64)
    steps = np.array([np.minimum(p, k).sum(axis=1) for p in few])
    power = -np.log(np.maximum(k, 1)).sum(axis=1)
    if len(target) < len(depths) + 3:
        raise ValueError(
            f"max_frequency is {max_frequency!r}: {len(target)} eigenvalues exceed their errors, "
            f"expected at least {len(depths) + 3} for {len(depths) + 2} constants"
        )

    def residuals(x: np.ndarray) -> np.ndarray:
        terms = x[2:, None] + steps * x[0]
        return target - logsumexp(np.where(reaches, terms, -np.inf), axis=0) - x[1] * power

    theorem = n_channels + 2.0
    power_bounds = 0.0, 4 * theorem
    if exponent is not None:
        theorem = exponent
        power_bounds = theorem - 1e-9, theorem + 1e-9  # least_squares needs bounds that differ
    reach = target.min() - REACH, target.max() + REACH
    bounds = np.array([(0.0, math.log(1e6)), power_bounds, *[reach] * len(depths)])
    fit = partial(scipy.optimize.least_squares, residuals, bounds=bounds.T, x_scale="jac")
    ends = theorem, *[target.mean()] * len(depths)
    best = min((fit([math.log(base), *ends]) for base in STARTS), key=lambda found: found.cost)
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
    """0 (the dot product, which only the skip connections carry), 1 … L."""
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
    """The same for the deepest CNN by itself."""


def mixture(
    network: Network, n_channels: int, n_timepoints: int, max_frequency: int, kind: str = "gpk"
) -> Mixture:
    """Fit a ResNet's spectrum by a weighted sum of the spectra of CNNs of its depths.

    CNNs are the same network without skips. Weights are not negative and minimize relative errors.
    """
    if not network.skip:
        raise ValueError("network has no skip connections, expected a ResNet")
    grid = n_channels, n_timepoints, max_frequency, kind
    found = spectrum.eigenvalues(network, *grid, normalized=True, return_error=True)
    target, resolved = found.eigenvalues, found.resolved
    if not resolved.any():
        raise ValueError(
            f"network is {network!r}, none of whose eigenvalues exceeds its error, expected at "
            "least one"
        )
    dot = np.zeros_like(target)  # of the mean of t over the input filter's window
    for pixel, times in taps(network.input_filter, target.ndim).items():
        index = tuple(int(axis == pixel) for axis in range(target.ndim))
        dot[index] = times / (network.input_filter_size * n_channels)
    depths = tuple(range(network.depth + 1))
    cnns = (network.replace(depth=depth, skip=False) for depth in depths[1:])
    spectra = (spectrum.eigenvalues(cnn, *grid, normalized=True) for cnn in cnns)
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


def path_pixels(network: Network) -> np.ndarray:
    """Return the ends of all paths, as distances from the output pixel, (n_paths,).

    A path (Barzilai et al. 2022, appendix D) is a tuple of offsets, an offset for each convolution
    from the output to the input. The path ends at the sum of its offsets. Paths are ordered like
    the entries of an array with an axis for each convolution, the output's first.

    Parameters
    ----------
    network : Network
        With at most 2^27 paths.

    Examples
    --------
    >>> path_pixels(Network(depth=1, filter_size=3))
    array([-1,  0,  1])
    """
    check_network(network, BASIC_FIELDS)
    _, *filters = network.filters()  # the first inner filter has one tap
    windows = [*reversed(filters), network.input_filter]
    digits = sum(math.log10(window.size) for window in windows)  # a product may have millions
    if digits > math.log10(MOST_PATHS):
        raise ValueError(
            f"network has 10^{digits:.1f} paths, which would take "
            f"10^{digits + math.log10(8) - 9:.1f} GB to list: expected at most {MOST_PATHS} "
            "(they multiply with each convolution)"
        )
    pixels = np.zeros(1, dtype=np.intp)
    for window in windows:
        pixels = (pixels[:, None] + np.array(window.taps)).ravel()
    return pixels


def stride_kernel(network: Network, t: np.ndarray, *, complement: bool = False) -> np.ndarray:
    """Return the normalized equivariant "stride-q" GPK: every path has a dot product of its own.

    Appendix D: no two windows overlap, as if all convolutions had the stride of their filter
    (docs/theory/locality.md has the recursion). `t`, (..., n_paths), are dot products in the order
    of `path_pixels`, of a ReLU network. With `complement` they are 1 − t, and
    the result is 1 − K, with full relative accuracy.
    """
    delta = t if complement else 1.0 - t
    delta = delta.reshape(*delta.shape[:-1], -1, network.input_filter_size).mean(axis=-1)
    outer = network.outer_filter_size
    for inner in (1,) + (network.filter_size,) * (network.depth - 1):
        # The last axis is cut into windows: an entry per path becomes one per beginning of a path.
        windows = delta.reshape(*delta.shape[:-1], -1, outer, inner)
        (branch,) = activate(network.parts, 0.0, windows.mean(axis=-1))
        carried = windows[..., outer // 2, inner // 2]
        (delta,) = add_branch((carried,), (branch.mean(axis=-1),), network.branch_share)
    delta = delta[..., 0]
    return delta if complement else 1.0 - delta
