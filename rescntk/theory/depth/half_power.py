r"""Limits of kernels for :math:`\alpha = a L^{-1/2}`: a flow, integrated from time 0 to time 1.

A layer is a step of length 1/L of Euler's method. The differential equations for the covariance F
and the tangent kernel T of the features are in docs/theory/depth_limits.md.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import solve_ivp

from ...checks.values import check_signals
from ...kernels.results import correlation
from ...network.activations import activation_of
from ...network.network import Network, check_like_layers
from ...network.parameters import BASIC_FIELDS
from ..multisphere import Places, over_pixel_pairs
from ..tools.argument_checks import check_kind, check_known_head
from ..tools.complements import circular_mean

ERROR = 1e-11
"""Largest error of an entry of `flow_limit`, but for GAP of signals of mean 0, measured by
tests/theory/depth/test_half_power.py."""

_LEAST_AMPLITUDE = 1e-70
"""Least amplitude of signals, unless the activation is homogeneous: smaller ones are raised to it.
The network is linear there. Chosen: fourth powers, of products of variances, stay in float64."""

MAX_RATIO = 1e4
"""Largest ratio of signals' sizes, unless the activation is homogeneous: distances of signals of
different sizes have lost the digits of their correlation."""

MAX_GAIN = 1e4
"""Largest branch gain whose flow is integrated: the steps grow with it, to a minute or so."""

MAX_GAIN_OF_GROWTH = 100.0
"""The same of activations that are not homogeneous and yet grow: variances grow by e^β then, and
leave float64 at 700. One pair of pixels takes four seconds."""


def flow_limit(network: Network, X: np.ndarray, *, kind: str, head: str | int) -> np.ndarray:
    r"""Return the normalized kernel of infinite depth for :math:`\alpha = a L^{-1/2}`.

    The boundary between theorem 6.1 of Barzilai et al. 2022 (:math:`\gamma > \frac12`) and fixed
    :math:`\alpha`; also the limit at :math:`\gamma = \frac12` of Huang et al. 2020.
    docs/theory/depth_limits.md, "The flow at one half", derives it.

    Parameters
    ----------
    network : Network
        With skip connections, one dilation for all layers and no biases, of ReLU (leaky, too), erf
        or GELU. Its α is a; its depth does not matter. Its ``branch_gain`` is at most 1e4, of GELU
        100.
    X : ndarray, (n_cases, n_channels, n_timepoints)
    kind : {"gpk", "ntk"}
    head : {"equivariant", "trace", "gap"} or int

    Returns
    -------
    ndarray, (n_cases, n_cases)
        Errors are below 1e-11; of erf and GELU below 1e-9 where signals differ in size. With the
        head "gap" and signals of mean 0 (windows of pixels: all of mean 0), whose kernel is about
        a² of the mean over equal pixels, rounding errors of some 1e-15/a² are added. Signals whose
        kernel with themselves is 0 have kernel 0.

    Raises
    ------
    ValueError
        If the network is another one, or sizes of signals differ by more than 1e4 (erf, GELU).
    OverflowError
        If pixels' standard deviations exceed 3e70 (erf) or 1e144 (GELU).

    Examples
    --------
    >>> import rescntk as rk
    >>> X = rk.theory.multisphere.sample(2, 3, 4, rng=0)
    >>> limit = rk.theory.depth.flow_limit(rk.Network(1), X, kind="ntk", head="gap")
    >>> deep = rk.ResCNTK(4000, alpha=4000**-0.5, normalized=True)(X)
    >>> [round(float(K[0, 1]), 3) for K in (limit, deep)]
    [0.315, 0.315]
    """
    known = BASIC_FIELDS - {"skip"}  # without it a layer is not a step
    check_like_layers(network, known, activations=None)
    check_kind(kind)
    check_known_head(head)
    activation, most = activation_of(network), MAX_GAIN
    if not network.homogeneous and activation.variance(np, np.full(1, 1e8))[0] > 1e4:
        most = MAX_GAIN_OF_GROWTH
    if network.branch_gain > most:
        raise ValueError(
            f"network has branch_gain {network.branch_gain:.3g}, expected at most {most:g}: "
            f"the integration's steps grow with it"
        )
    signals = of_unit_energy(network, check_signals(X, "X").astype(np.float64)).transpose(1, 2, 0)
    window, scale = network.input_filter, network.factor_of_input(len(signals))
    # What a pixel sees, (n_channels · q, d, n_cases): its squares are the variances.
    seen = np.concatenate([np.roll(signals, -offset, axis=1) for offset in window.offsets])
    seen *= math.sqrt(scale / window.size)
    sizes = np.sqrt((seen**2).sum(axis=0))
    if network.homogeneous and network.filter_size == network.outer_filter_size == 1:
        # Pixels that nothing mixes have kernels that are multiples of their sizes.
        seen, variances = seen / _or_one(sizes), (sizes > 0).astype(np.float64)
    else:
        variances, sizes = sizes**2, np.ones_like(sizes)

    def kernels(left: Places, right: Places) -> np.ndarray:
        distances = sum(0.5 * (channel[left] - channel[right]) ** 2 for channel in seen)
        state = [variances[left], variances[right], distances]
        return (sizes[left] * sizes[right] * _integrate(network, kind, state))[None]

    K = over_pixel_pairs(variances.shape, head, kernels)[0]
    result = correlation(K, K.diagonal(), K.diagonal())
    np.fill_diagonal(result, K.diagonal() > 0)
    return result


def of_unit_energy(network: Network, X: np.ndarray) -> np.ndarray:
    """Return signals times factors that normalized kernels do not see.

    Networks that are not homogeneous are linear on tiny signals, and have factors of these alone.
    """
    if not network.homogeneous:
        scale = network.factor_of_input(X.shape[1])
        peak = np.abs(X).max(axis=(1, 2), keepdims=True) * math.sqrt(scale * X.shape[1])
        largest = 1e-6 * math.sqrt(activation_of(network).largest_variance)
        if peak.max() > largest:
            raise OverflowError(
                f"X has pixels of standard deviations up to {peak.max():.3g}, expected at most "
                f"{largest:.3g} with activation {network.activation!r}"
            )
        X = X * np.where(peak < _LEAST_AMPLITUDE, _LEAST_AMPLITUDE / _or_one(peak), 1.0)
        sizes = np.maximum(peak, _LEAST_AMPLITUDE)[peak > 0]
        if len(sizes) and sizes.max() > MAX_RATIO * sizes.min():
            raise ValueError(
                f"X has signals whose sizes differ by a factor of {sizes.max() / sizes.min():.3g}, "
                f"expected at most {MAX_RATIO:g} with activation {network.activation!r}"
            )
        return X
    X = X / _or_one(np.abs(X).max(axis=(1, 2), keepdims=True))
    return X / _or_one(np.sqrt((X**2).mean(axis=(1, 2), keepdims=True)))


def _or_one(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, 1.0)


def _integrate(network: Network, kind: str, start: list[np.ndarray]) -> np.ndarray:
    """Return the kernel of pixel pairs at time 1, (d, n_offsets, n_pairs), to a factor.

    `start` has the variances q1 and q2 of the pixels, and half the squared distances D.
    """
    parts, activation, layer = network.parts, activation_of(network), network.layer(2)
    decay = network.branch_gain if network.homogeneous else 0.0  # ReLU: e^βt is the unit
    inner, outer = layer.inner, layer.outer
    q1, q2, D = np.broadcast_arrays(*start)
    F = 0.5 * (q1 + q2) - D
    initial = np.stack([q1, q2, D, *([parts.input * F] if kind == "ntk" else [])], axis=1)

    def velocity(root: float, flat: np.ndarray) -> np.ndarray:
        state = flat.reshape(initial.shape)
        q1, q2, D, *T = np.moveaxis(layer.c_w * circular_mean(state, inner), 1, 0)
        S, root1, root2 = 0.5 * (q1 + q2) - D, np.sqrt(q1), np.sqrt(q2)
        g, z = root1 * root2, 0.5 * (root1 - root2) ** 2
        w = np.divide(D - z, g, out=np.ones_like(D), where=g > 0)
        w = np.clip(w, 0.0, 2.0)
        dual = activation.correlation_map(np, w, 2.0 - w, q1, q2)
        K1, K2 = activation.variance(np, q1), activation.variance(np, q2)
        distance = dual.deficits[0] + 0.5 * (np.sqrt(K1) - np.sqrt(K2)) ** 2
        branches = [K1, K2, distance]
        if T:
            branches.append(parts.outer * dual.K + dual.times_slope(parts.inner * S + T[0]))
        scale = layer.c_v * float(activation.dual_divisor)
        boxed = scale * circular_mean(np.stack(branches, axis=1), outer)
        return np.ravel(2.0 * root * (layer.alpha**2 * boxed - decay * state))

    # Over the square root of time, of which windows at a square-root point are smooth functions
    # (docs/theory/depth_rates.md).
    # The relative errors of some 100 steps are below `ERROR`; a part may be of the gain's order.
    size = float(np.abs(initial).max()) * min(network.branch_gain, 1.0)
    errors = {"rtol": 1e-13, "atol": 1e-13 * max(size, 1e-280)}
    solution = solve_ivp(velocity, (0.0, 1.0), initial.ravel(), "DOP853", t_eval=[1.0], **errors)
    q1, q2, D, *T = np.moveaxis(solution.y[:, -1].reshape(initial.shape), 1, 0)
    F = 0.5 * (q1 + q2) - D
    return np.asarray(T[0] + parts.readout * F if T else F)
