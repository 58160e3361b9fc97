r"""Kernels of fully connected networks at finite width: errors and shifts of order 1/width.

Given the layer below, pre-activations are independent Gaussian vectors; products of a layer's
features are means over its units. So fluctuations obey a linear recursion over layers, and means
shift by its curvature: ``docs/theory/finite_width.md``, section 7; Yaida 2020, Roberts, Yaida and
Hanin 2022 for one activation and all weights trained.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..checks.messages import shown
from ..checks.values import check_positive_integer, check_signals
from ..network import Network, check_network
from ..network.parameters import RELU_FIELDS
from .moments import Linear, Rectified
from .parameters import precision, shapes

_LEAST_ANGLE = 1e-3
"""Least angle of two signals, and of their opposites: curvatures of κ0 grow like its inverse cube,
whose products with covariances cancel."""


class Correction(NamedTuple):
    """Corrections of order 1/width to the kernels of signals, (n_cases, n_cases) each."""

    gpk_shift: np.ndarray
    """The mean of sampled Gaussian process kernels, less the kernel of infinite width."""
    gpk_deviation: np.ndarray
    """The standard deviation of entries over sampled networks."""
    ntk_shift: np.ndarray
    ntk_deviation: np.ndarray


class _Layer(NamedTuple):
    """Weights of a variance over their inputs, and biases; what they read is rectified or not."""

    variance: float
    bias: float
    trained: float
    rectified: bool


def correction(network: Network, X: ArrayLike, width: int) -> Correction:
    r"""Return what finite width adds to the kernels of a fully connected network, to order 1/width.

    Parameters
    ----------
    network : Network
        Of ReLU, not leaky, without skip connections; any depth, biases and trained parts, positive
        constants.
    X : array, (n_cases, n_channels, 1)
        Signals of one time point, none 0, no two in one direction or in opposite ones (up to
        angles of 1e-3).
    width : int
        Channels of all hidden layers.

    Returns
    -------
    finite.Correction
        Errors are of order 1/width² for shifts, and of the relative order depth/width for
        deviations: neither is small unless depth/width is.

    Raises
    ------
    ValueError
        If the network has skip connections, another activation, a slope or a constant of 0, or
        signals are longer, 0, or in one line.

    Notes
    -----
    For one signal, layers of widths n_l and the GPK, the mean square over the squared mean is
    exp(5 Σ 1/n_l) up to constants (Hanin and Nica 2019, arXiv 1909.05989).

    Examples
    --------
    >>> import numpy as np
    >>> import rescntk as rk
    >>> network = rk.literature.geifman_cnn(depth=2)
    >>> found = rk.finite.correction(network, np.eye(2)[:, :, None], width=50)
    >>> K = rk.Kernel(network, "gpk")(np.eye(2)[:, :, None])
    >>> bool(np.allclose((found.gpk_deviation / K)[0, 0] ** 2, 2 * 5 / 50))  # (1 + 5/n)^2 − 1
    True
    """
    check_network(network, RELU_FIELDS | {"bias"}, ": its fluctuations are not known here")
    if network.skip:
        what = "fluctuations of networks with skip connections are not known here"
        raise ValueError(f"network has skip True, expected False: {what}")
    layer = network.layer(1)
    constants = layer.c_v, layer.c_w, network.factor_of_input(1)
    if not all(constants):
        raise ValueError(f"network is {shown(network)}, expected positive c_v, c_w and input_scale")
    n, signals = check_positive_integer(width, "width"), check_signals(X, "X")
    if signals.shape[2] != 1:
        raise ValueError(
            f"X has shape {signals.shape}, expected (n_cases, n_channels, 1): fluctuations of "
            f"windows of different pixels are not known here"
        )
    points = signals[:, :, 0]
    lengths = np.sqrt((points * points).sum(axis=1))
    if not lengths.all():
        raise ValueError(f"X is 0 in case {int(np.argmin(lengths))}, expected signals that are not")
    points_of_length_1 = points / lengths[:, None]
    above = np.triu_indices(len(points), 1)
    cosines = np.abs(points_of_length_1 @ points_of_length_1.T)[above]
    if len(cosines) and cosines.max() > 1.0 - 0.5 * _LEAST_ANGLE**2:
        one, other = (int(places[cosines.argmax()]) for places in above)
        raise ValueError(
            f"X has cases {one} and {other} in one line up to an angle of {_LEAST_ANGLE:g}, "
            f"expected signals in different directions"
        )
    F = network.factor_of_input(points.shape[1]) * points @ points.T
    diagonal, index = F.diagonal(), np.arange(len(F))
    results = np.zeros((4, len(F), len(F)))
    with precision(np.float64):
        results[:, index, index] = _of_pairs(network, diagonal[:, None]).T
        if len(above[0]):
            triples = np.stack([diagonal[above[0]], F[above], diagonal[above[1]]], axis=1)
            moments = _of_pairs(network, triples).T
            results[:, *above] = results[:, *above[::-1]] = moments
    gpk_shift, gpk_variance, ntk_shift, ntk_variance = results / n
    return Correction(gpk_shift, np.sqrt(gpk_variance), ntk_shift, np.sqrt(ntk_variance))


def _layers(network: Network) -> list[_Layer]:
    """Return the weights behind the first ones, which read the signals; the readout is last."""
    parts, constants = network.parts, network.layer(1)
    inner = _Layer(constants.c_w, constants.bias, parts.inner, False)
    outer = _Layer(constants.c_v, constants.bias, parts.outer, True)
    readout = _Layer(network.readout_scale, 0.0, parts.readout, False)
    first = [inner] if parts.input else []
    if shapes(network, 1, 1, None, 1).outer:
        return [*first, outer, *[inner, outer] * (network.depth - 1), readout]
    joined = inner._replace(variance=constants.c_v * constants.c_w, rectified=True)
    last = readout._replace(variance=constants.c_v * network.readout_scale, rectified=True)
    return [*first, *[joined] * (network.depth - 1), last]


class _State(NamedTuple):
    """What a layer hands on, of one unit i and of two, i ≠ j; all but `y` times the width.

    Of a pair of signals, or of one signal with itself.
    """

    y: jax.Array
    """Means of the covariances S of pre-activations, 00, 01, 11, and of the tangent kernel Θ_ii."""
    shift: jax.Array
    """What finite width adds to the means."""
    C: jax.Array
    """Covariances of S and Θ over networks."""
    G: jax.Array
    """E[g_i(ξ) g_j(ζ) Θ_ij], (ξ, ζ), signals of the pair."""
    squares: jax.Array
    """E[Θ_ij Θ_ij]."""
    crossed: jax.Array
    """E[Θ_ij Θ_ji]."""


def _of_pairs(network: Network, F: np.ndarray) -> np.ndarray:
    """Return shifts and variances of both kernels times the width, of F⁰ of pairs, (n_pairs, 3).

    Of signals with themselves F is (n_pairs, 1). The results are (n_pairs, 4).
    """
    parts, pair = network.parts, F.shape[1] // 2
    S, trained = F, parts.input
    if not trained:
        first = network.layer(1)
        S, trained = first.c_w * F + first.bias**2, parts.inner
    y = jnp.array(np.append(S, trained * S[:, pair : pair + 1], axis=1))
    size, none = y.shape[1], jnp.zeros(len(F))
    G = jnp.zeros((len(F), size // 2, size // 2))
    state = _State(y, 0.0 * y, jnp.zeros((len(F), size, size)), G, none, none)
    for layer in _layers(network):
        numbers = layer.variance, layer.bias, layer.trained
        state = _steps(layer.rectified, numbers, state)
    variance = state.C[:, -1, -1] + state.squares + state.crossed
    gpk = state.shift[:, pair], state.C[:, pair, pair]
    return np.stack([*gpk, state.shift[:, -1], variance], axis=1)


@partial(jax.jit, static_argnums=0)
def _steps(rectified: bool, layer: tuple[float, float, float], states: _State) -> _State:
    """Return the states of all pairs after the weights of a layer."""
    return jax.vmap(partial(_step, Rectified if rectified else Linear, layer))(states)


def _step(of: type[Linear], layer: tuple[float, float, float], state: _State) -> _State:
    """Return the state of a pair behind weights that read the activation of units of this state."""
    (c, bias, trained), y = layer, state.y
    pair, size, theta, moments = len(y) // 2 - 1, len(y) // 2, y[-1], of(y[:-1])

    def mean(y: jax.Array) -> jax.Array:
        moments = of(y[:-1])
        products = c * moments.products() + bias**2
        return jnp.append(products, trained * products[pair] + c * moments.slopes() * y[-1])

    def slopes(S: jax.Array) -> jax.Array:
        return jnp.asarray(of(S).slopes())

    J, H = jax.jacfwd(mean)(y), jax.hessian(mean)(y)
    shift = J @ state.shift + 0.5 * jnp.einsum("kij,ij->k", H, state.C)
    # g and Θ of one unit have more in common than those of two: G, for the slopes' curvature.
    G = state.G + state.G.T
    beside = G[np.triu_indices(size)]
    shift = shift.at[-1].add(c * (jax.jacfwd(slopes)(y[:-1]) @ beside))
    left, right = moments.steps()
    common, squared = theta**2 * moments.slopes_squared(), c**2
    return _State(
        mean(y),
        shift,
        squared * moments.noise(trained, theta, pair) + J @ state.C @ J.T,
        squared * (theta * moments.mixed_matrix() + left @ state.G @ right.T),
        squared * (common + moments.own_slopes() * state.squares),
        squared * (common + moments.slopes() ** 2 * state.crossed),
    )
