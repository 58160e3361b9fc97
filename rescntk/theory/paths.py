"""Theorem 5.2 of Barzilai et al. 2022: a ResNet as a mixture of CNNs, and paths of their own.

A path is a tuple of offsets, an offset for each convolution from the output to the input; it ends
at the sum of its offsets. ``docs/theory/decay.md`` has the theorem, ``locality.md`` appendix D.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain
from statistics import fmean
from typing import NamedTuple, Unpack

import numpy as np
from scipy.optimize import least_squares
from scipy.special import logsumexp

from ..checks.messages import shown
from ..checks.values import check_depths, check_shape
from ..network import PER_LAYER_FIELDS, Network, check_network
from ..network.parameters import BASIC_FIELDS, FIELDS_WITH_NORM, FIELDS_WITHOUT_NORM, RELU_FIELDS
from . import spectrum
from .spectrum.funk_hecke import Quadrature, check_quadrature
from .tools.argument_checks import (
    check_channels,
    check_dot_products,
    check_layers,
    check_length,
    read_once,
)
from .tools.complements import activate, add_branch, circular_sum

__all__ = ["PathCountFit", "fit_path_counts", "path_counts", "path_pixels", "stride_kernel"]


def path_counts(network: Network, n_timepoints: int) -> np.ndarray:
    """Return the number of paths from each pixel to the output, exact at any depth.

    :math:`Q_i^{(L)}` of docs/theory/decay.md, p in theorem 5.2 of Barzilai et al. 2022. A path
    takes a tap of each filter of all layers: it skips none. The counts are proportional to the
    effective receptive field of the ReLU CNN. On images they are the outer product of the counts on
    the two axes (``docs/theory/locality.md``).

    Parameters
    ----------
    network : Network
        Its filters and dilations alone count.
    n_timepoints : int
        Length of the signals; paths wrap around.

    Returns
    -------
    ndarray of Python integers, (n_timepoints,)

    Raises
    ------
    ValueError
        If the counts take hours.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import paths
    >>> paths.path_counts(literature.barzilai_cnn(depth=2), n_timepoints=9)
    array([7, 6, 3, 1, 0, 0, 1, 3, 6], dtype=object)
    """
    check_network(network, FIELDS_WITH_NORM, activations=None, per_layer=PER_LAYER_FIELDS)
    d = check_length(n_timepoints)
    check_layers(network.depth, "depth is")
    bits = _bits(network)
    # Words of 64 bits to add, of half the final length each; a call of Python takes as long as 100.
    # 10^12 words take half an hour to two hours (1.3 to 8 ns a word).
    if 2 * d * bits * (bits / 128 + 100) > 10**12:
        raise ValueError(
            f"depth is {network.depth}: counts of {bits * math.log10(2):.3g} digits at {d} pixels "
            f"take hours, expected fewer layers or pixels, or smaller filters"
        )
    ways = np.zeros(d, dtype=object)
    ways[0] = 1
    for window in chain(network.filters(), [network.input_filter]):
        ways = np.asarray(circular_sum(ways, window))
    return ways


def _bits(network: Network) -> float:
    """Return the binary logarithm of the number of paths, at any depth."""
    inner, outer = (network.values_of(name) for name in ("filter_size", "outer_filter_size"))
    inner = inner[1:] or inner  # layer 1 has an inner filter of size 1
    bits = math.log2(network.input_filter_size)
    for sizes, layers in ((inner, network.depth - 1), (outer, network.depth)):
        bits += layers * fmean(map(math.log2, sizes))
    return bits


class PathCountFit(NamedTuple):
    """Theorem 5.2's constants, fitted in logarithms to the eigenvalues λ of K/K(x, x).

    Eigenvalues count that exceed ten times their errors (``Spectrum.resolved``).
    """

    depths: tuple[int, ...]
    """l, the depths of the sum."""
    paths: np.ndarray
    """Q_i^(l), exact, (n_depths, d)."""
    constants: np.ndarray
    """c_l, (n_depths,); nearly 0 where the fit does not need a depth."""
    base: float
    """A, at least 1."""
    exponent: float
    """e; eigenvalues fall like k^−e, apart from the sum."""
    rms: float
    """Root mean square of log λ − log fit."""
    r_squared: float
    """Share of the variance of log λ that the fit explains."""
    bound_factor: float
    """The fit times this factor is a lower bound on all fitted eigenvalues."""


def fit_path_counts(
    network: Network,
    n_channels: int,
    n_timepoints: int,
    max_frequency: int | Iterable[int],
    *,
    kind: str,
    depths: Iterable[int] | None = None,
    exponent: float | None = None,
    **options: Unpack[Quadrature],
) -> PathCountFit:
    r"""Fit the constants of theorem 5.2 to the spectrum of an equivariant kernel.

    :math:`\sum_l c_l A^{\sum_i \min(Q_i^{(l)}, k_i)} \prod_{k_i > 0} k_i^{-e}`, where
    :math:`Q_i^{(l)}` paths lead from pixel i through l layers (`path_counts`).

    Parameters
    ----------
    network : Network
        Without biases.
    n_channels : int
        C0, at least 2.
    n_timepoints : int
        Number d of pixels, at most 32.
    max_frequency : int or d ints
        Highest frequency, of all pixels or of each.
    kind : {"gpk", "ntk"}
        The theorem has the same form for both.
    depths : iterable of int, optional
        Depths l of the sum, by default 1 … L with skip connections and L without.
    exponent : float, optional
        e; n_channels + 2 in the theorem. By default it is fitted.
    **options
        Of the quadrature, as of ``spectrum.eigenvalues``.

    Returns
    -------
    `PathCountFit`

    Raises
    ------
    ValueError
        If fewer eigenvalues exceed their errors than there are constants, an argument is out of
        range, or the work exceeds what the options allow.
    OverflowError
        If variances exceed the activation's range.

    Examples
    --------
    >>> from rescntk import literature, theory
    >>> network = literature.one_convolution_resnet(2)
    >>> fit = theory.paths.fit_path_counts(network, 2, 3, 5, kind="gpk")
    >>> fit.depths, round(fit.r_squared, 2)
    ((1, 2), 0.85)
    """
    check_network(network, BASIC_FIELDS)
    check_quadrature(options)
    max_frequency = read_once(max_frequency)
    depths = _depths_of_the_sum(network, depths)
    e = check_channels(n_channels) + 2.0
    powers = 0.0, 4 * e
    if exponent is not None:
        e = float(check_shape(exponent, "exponent", "a number", lambda shape: shape == ()))
        powers = np.nextafter(e, -np.inf), np.nextafter(e, np.inf)  # bounds must differ
    space = n_channels, n_timepoints, max_frequency
    computed = spectrum.eigenvalues(
        network, *space, kind=kind, head="equivariant", normalized=True, errors=True, **options
    )
    cnns = (network.replace(depth=depth, skip=False) for depth in depths)
    paths = np.array([path_counts(cnn, n_timepoints) for cnn in cnns])  # may exceed any float
    k = np.argwhere(computed.resolved)
    reaches = np.array([((p > 0) | (k == 0)).all(axis=1) for p in paths])  # (depths, n)
    k, reaches = k[reaches.any(axis=0)], reaches[:, reaches.any(axis=0)]
    target = np.log(computed.eigenvalues[tuple(k.T)])
    few = np.minimum(paths, max(computed.eigenvalues.shape)).astype(np.float64)
    steps = np.array([np.minimum(p, k).sum(axis=1) for p in few])
    power, least = np.log(np.maximum(k, 1)).sum(axis=1), len(depths) + 3
    if len(target) < least:
        raise ValueError(
            f"max_frequency is {shown(max_frequency)}: {len(target)} eigenvalues exceed their "
            f"errors, expected at least {least} for {least - 1} constants"
        )

    def residuals(x: np.ndarray) -> np.ndarray:
        terms = np.where(reaches, x[2:, None] + steps * x[0], -np.inf)
        return np.asarray(target - logsumexp(terms, axis=0) + x[1] * power)

    # A constant of e^−60 times the least λ is as good as 0.
    constants = [(target.min() - 60.0, target.max() + 60.0)] * len(depths)
    bounds = np.transpose([(0.0, math.log(1e6)), powers, *constants])
    # Several starts, against local minima.
    starts = ([math.log(A), e, *[target.mean()] * len(depths)] for A in (1.05, 1.3, 2.0, 4.0))
    fits = (least_squares(residuals, x, bounds=bounds, x_scale="jac") for x in starts)
    log_base, e, *logs = min(fits, key=lambda fit: fit.cost).x
    left = residuals(np.array([log_base, e, *logs]))
    square = float((left**2).mean())
    fitted = np.exp(logs), math.exp(log_base), float(e), math.sqrt(square)
    return PathCountFit(
        depths, paths, *fitted, 1 - square / float(target.var()), math.exp(left.min())
    )


def _depths_of_the_sum(network: Network, depths: Iterable[int] | None) -> tuple[int, ...]:
    """Return the depths of `fit_path_counts`, checked. The network has the default ones."""
    if depths is None:
        return tuple(range(1, network.depth + 1)) if network.skip else (network.depth,)
    depths = check_depths(depths)
    if max(depths) > network.depth or len(set(depths)) < len(depths):
        raise ValueError(
            f"depths is {depths}, expected different ones of at most the network's, {network.depth}"
        )
    return depths


def path_pixels(network: Network) -> np.ndarray:
    """Return the ends of all paths, as distances from the output pixel.

    Paths are ordered like the entries of an array with an axis for each convolution, the output's
    first (Barzilai et al. 2022, appendix D).

    Parameters
    ----------
    network : Network
        With at most 2^27 paths. Only filters and dilations count.

    Returns
    -------
    ndarray of int, (n_paths,)

    Raises
    ------
    ValueError
        If there are more paths.

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.theory.paths.path_pixels(rk.Network(depth=1, filter_size=3))
    array([-1,  0,  1])
    """
    check_network(network, FIELDS_WITHOUT_NORM, activations=None)
    if (bits := _bits(network)) > 27:  # 1 GiB of integers
        paths = f"10^{bits * math.log10(2):.1f}"
        raise ValueError(f"network has {paths} paths, expected at most 2^27")
    windows = [network.input_filter, *network.filters()]
    pixels = np.zeros(1, dtype=np.intp)
    for window in (*windows[:1:-1], windows[0]):  # the first inner filter has one tap
        pixels = np.add.outer(pixels, window.offsets).ravel()
    return pixels


def stride_kernel(network: Network, t: np.ndarray, *, complement: bool = False) -> np.ndarray:
    """Return the normalized equivariant "stride-q" GPK: every path has a dot product of its own.

    Barzilai et al. 2022, appendix D: all convolutions as if they had the stride of their filter.
    Paths that share their pixels make the ordinary kernel.

    Parameters
    ----------
    network : Network
        Of ReLU without biases.
    t : ndarray, (..., n_paths)
        Dot products in [-1, 1], in the order of `path_pixels`.
    complement : bool, default False
        Take 1 − t and return 1 − K, with full relative accuracy.

    Returns
    -------
    ndarray, (...)

    Raises
    ------
    ValueError
        If the network is another one, or t has another number of paths or is out of range.

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.theory.paths.stride_kernel(rk.Network(1), [[0.2, 0.5, 0.1]]).round(4)
    array([0.4839])
    """
    check_network(network, RELU_FIELDS, ": appendix D is about ReLU", per_layer=PER_LAYER_FIELDS)
    n = math.prod(window.size for window in (*network.filters(), network.input_filter))
    t = check_shape(t, "t", f"(..., {n}), one for each path", lambda shape: shape[-1:] == (n,))
    delta = check_dot_products(t, complement)
    delta = delta.reshape(*delta.shape[:-1], -1, network.input_filter_size).mean(axis=-1)
    for layer in map(network.layer, range(1, network.depth + 1)):
        # The last axis is cut into windows: an entry per path becomes one per beginning of a path.
        outer, inner = layer.outer.size, layer.inner.size
        windows = delta.reshape(*delta.shape[:-1], -1, outer, inner)
        (branch,) = activate(network.parts, 0.0, windows.mean(axis=-1))
        carried = windows[..., outer // 2, inner // 2]
        (delta,) = add_branch((carried,), (branch.mean(axis=-1),), layer.branch_share)
    delta = delta[..., 0]
    return delta if complement else 1.0 - delta
