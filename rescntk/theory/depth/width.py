r"""How much a kernel of sampled networks varies, over depth and width: one signal, at any width.

Given the layer below, the mean square of a layer's features has a mean and a variance that are
polynomials of the mean square below, of degrees at most 1 and 2. So two numbers pass from layer to
layer (docs/theory/depth_and_width.md). ``finite.correction`` has all signals, to first order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...checks.values import check_depths, check_positive
from ...network import PER_LAYER_FIELDS, Network, check_network
from ...network.parameters import FIELDS_WITH_NORM
from ...network.parts import Layer
from ...network.sampled import has_outer_weights, reads_signal
from ..tools.argument_checks import check_depths_of_layers


def relative_variance(
    network: Network,
    depths: Iterable[int] | None = None,
    widths: Iterable[int] = (100,),
    *,
    input_variance: float = 1.0,
) -> np.ndarray:
    r"""Return the variance of sampled kernels K̂(x, x) over the square of their mean.

    For the Gaussian process kernel of one signal of one pixel, or of equal pixels, exactly at every
    width, and with all heads. A mean over windows of different pixels varies less
    (docs/theory/depth_and_width.md).

    Parameters
    ----------
    network : Network
        Of ReLU, leaky too, with constants of each layer, biases and normalized features.
    depths : iterable of int, optional
        By default the network's depth.
    widths : iterable of int, default (100,)
        Channels of all hidden layers.
    input_variance : float, default 1.0
        Variance of the input's features: ``input_scale``, by default 1/channels, times the squared
        norm of a pixel. It counts in networks with biases or normalized features alone.

    Returns
    -------
    ndarray, (n_depths, n_widths)

    Raises
    ------
    ValueError
        If the network has another activation or fewer layers, or where its kernel is 0.
    OverflowError
        If a variance exceeds float64.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import depth
    >>> for network in (rk.Network(1), rk.Network(1, norm=True)):
    ...     print(depth.relative_variance(network, (10, 100), (100, 1000)).round(3))
    [[ 0.321  0.028]
     [14.519  0.317]]
    [[0.024 0.002]
     [0.02  0.002]]
    """
    check_network(
        network,
        FIELDS_WITH_NORM,
        ": its fluctuations are not known here",
        activations=frozenset(("relu",)),
        per_layer=PER_LAYER_FIELDS,
    )
    asked = check_depths_of_layers(network, depths)
    n = np.array(check_depths(widths, "widths"), dtype=float)
    has_outer = has_outer_weights(network)  # looks at all layers
    found = dict[int, np.ndarray]()
    # The mean square below a layer is number · 2^power, which may exceed float64.
    number, power = math.frexp(check_positive(input_variance, "input_variance"))
    variance = 2.0 / n  # of the input's features, which are Gaussian
    for layer_number in range(1, max(asked) + 1):
        layer = network.layer(1 if network.is_uniform else layer_number)
        read = None
        with np.errstate(over="ignore", invalid="ignore"):  # reported below
            if network.norm:
                read = np.ldexp(1.0 / number, -power)
            elif layer_number == 1 and reads_signal(network):
                read = 1.0
            bias_variance = np.ldexp(np.square(layer.bias) / number, -power)
            moments = _Moments.behind(layer, network.negative_slope, read, bias_variance)
            if moments.growth == 0:
                raise ValueError(
                    f"network has a kernel of 0 behind layer {layer_number}, expected one that "
                    "varies"
                )
            variance = moments.variance(variance, n, has_outer)
        if not np.isfinite(variance).all():
            raise OverflowError(
                f"the relative variance behind layer {layer_number} exceeds float64, expected "
                "larger widths, fewer layers, or an input and constants of layers nearer to 1"
            )
        number, bits = math.frexp(number * moments.growth)
        power += bits
        found[layer_number] = variance
    return np.array([found[depth] for depth in asked])


class _Moments(NamedTuple):
    """Of a layer whose features have the mean square q below it, of mean 1: q may vary.

    All but `growth` are in units of the mean square behind the layer. Each of these lines c₁ q + c₀
    is a pair (c₁, c₀).
    """

    growth: float
    """The mean square behind the layer."""
    passing: float
    """The square of the factor on the features."""
    of_unit: np.ndarray
    """The part of one unit in the branch's variance if its activation is 1 on average."""
    b: np.ndarray
    """The mean variance of the branch."""
    relative: float
    """The variance of one unit's part over the square of `of_unit`."""

    @classmethod
    def behind(
        cls, layer: Layer, slope: float, read: float | None, bias_variance: float
    ) -> _Moments:
        """Return the moments of a layer that reads features of a fixed mean square, unless None."""
        gain, passing = float(layer.activation_gain), layer.identity_factor**2
        factor = np.square(layer.branch_factor)
        outer, c_w = factor * layer.outer_variance, layer.inner_variance
        of_unit = np.array([outer * c_w, outer * bias_variance])
        if read is not None:
            of_unit = np.array([0.0, outer * (c_w * read + bias_variance)])
        b = gain * of_unit + np.array([0.0, factor * bias_variance])
        growth = passing + b.sum()
        # E[σ⁴] is 3 (1 + s⁴)/2 for a slope s, of numbers of variance 1.
        relative = 1.5 * (1.0 + slope**4) - gain**2
        return cls(growth, passing / growth, of_unit / growth, b / growth, relative)

    def variance(self, below: np.ndarray, n: np.ndarray, has_outer: bool) -> np.ndarray:
        """Return the variance of the mean square over its squared mean, of q's, at widths n."""
        of_units = self.relative * _square(self.of_unit, below) / n
        variance = (self.passing + self.b[0]) ** 2 * below + of_units
        if has_outer:
            both = self.b[0] * (1.0 + below) + self.b[1]
            variance = variance + 4.0 * self.passing * both / n
            variance = variance + 2.0 * (_square(self.b, below) + of_units) / n
        return np.asarray(variance)


def _square(line: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return the mean of the square of c₁ q + c₀, for q of mean 1 and a variance."""
    return np.asarray(line.sum() ** 2 + line[0] ** 2 * variance)
