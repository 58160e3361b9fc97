"""The classifier that infinite depth is: votes and weights (depth_limits.md, section 7)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from ...activations import activation_of
from ...network import BASIC_FIELDS, Network, check_one_dilation
from ...validation import check_nonnegative, check_positive_integer
from ..argument_checks import check_branch, check_kind, check_named_head, check_vector


class Classifier(NamedTuple):
    """The rule by which kernel regression classifies at infinite depth."""

    name: str
    """"majority", or "singular": each signal's vote has a weight that falls with its distance."""
    off_diagonal: float
    """The limit c of the normalized kernel of different signals."""
    exponent: float
    """e: votes have weights like (1 − t)^e near the dot product t = 1; NaN of a majority."""

    def ridge(self, y: ArrayLike, penalty: float = 0.0) -> float:
        r"""Return the limit at a new signal, :math:`c \sum_i y_i / (1 - c + nc + \lambda)`.

        Parameters
        ----------
        y : array_like, (n,)
            Values of different signals. Where they sum to 0, so does the limit, and networks of
            finite depth decide by what is left, of which no closed form is known here.
        penalty : float, default 0.0
            λ, in units of K(x, x).

        Returns
        -------
        float
            0 of a "singular" classifier: only the sign of the vanishing votes counts.

        Raises
        ------
        ValueError
            If y is no vector, or the penalty is negative.

        Examples
        --------
        >>> import rescntk as rk
        >>> deep = rk.theory.depth.classifier(rk.Network(1), kind="ntk", head="trace")
        >>> deep.ridge([1.0, 1.0, -1.0])  # the sum over n + 3
        0.16666666666666666
        """
        y, penalty = check_vector(y, "y"), check_nonnegative(penalty, "penalty")
        c = self.off_diagonal
        return float(c * y.sum() / (1.0 - c + len(y) * c + penalty))


def classifier(network: Network, *, kind: str, head: str, pixels: int = 1) -> Classifier:
    r"""Return which classifier kernel regression tends to with the depth of a network.

    For a fixed α, no biases, and signals that differ (``docs/theory/depth_limits.md``, section 4).
    Radhakrishnan et al. 2022 tell apart majority votes, singular kernels and nearest neighbours.

    - ReLU is a majority vote, but where the input alone is trained: then :math:`L^3 \hat\Theta` is
      singular like :math:`(1-t)^{-3/2}`.
    - erf without skip connections, GPK, whose variance tends to a constant, is singular:
      :math:`\hat K/\varphi'(0)^L` like :math:`(1-t)^{\log\varphi'(0)/\log\varphi'(1)}`, where
      :math:`\varphi` is what a layer does to the correlation t.
    - No network here is a nearest neighbour, which needs :math:`\varphi'(0) = 0`.

    Exponents are for dot products t that are the same at all pixels, on the multi-sphere.

    Parameters
    ----------
    network : Network
        Of ReLU, leaky or not, or of erf without skip connections; with one dilation for all layers.
        Its depth does not matter.
    kind : {"gpk", "ntk"}
    head : {"equivariant", "trace", "gap"}
    pixels : int, default 1
        Number of pixels d that the head "gap" averages. Other heads ignore it.

    Returns
    -------
    `Classifier`

    Raises
    ------
    ValueError
        If the network is another one, has no branch, trains nothing, or no limit is known.

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.theory.depth.classifier(rk.Network(1), kind="ntk", head="trace")
    Classifier(name='majority', off_diagonal=0.25, exponent=nan)
    >>> erf = rk.Network(1, activation="erf", skip=False)
    >>> round(rk.theory.depth.classifier(erf, kind="gpk", head="trace").exponent, 4)
    -0.45
    """
    check_one_dilation(network, BASIC_FIELDS)
    check_branch(network)
    kind, head = check_kind(kind), check_named_head(head)
    d = (
        check_nonnegative(check_positive_integer(pixels, "pixels"), "pixels")
        if head == "gap"
        else 1
    )
    parts = network.parts
    if kind == "ntk" and not any(parts):
        raise ValueError("network has trained (), expected some parts for kind 'ntk'")
    is_gpk = kind == "gpk" or (parts.readout == 1 and sum(parts) == 1)
    if network.activation == "erf":
        return Classifier("singular", 0.0, _erf_exponent(network, is_gpk))
    if network.negative_slope == 1:
        raise ValueError("network has negative_slope 1.0, expected less: a linear network keeps t")
    if not is_gpk and parts == (1, 0, 0, 0):
        return Classifier("singular", 0.0, -1.5)
    c = 1.0 if is_gpk else 0.25 if parts.inner or parts.outer else 0.5
    return Classifier("majority", c * d / (1.0 + (d - 1) * c), math.nan)


def _erf_exponent(network: Network, is_gpk: bool) -> float:
    """Return log φ'(0)/log φ'(1), φ a layer at the variance that stays, of centred activations."""
    if network.skip or not is_gpk:
        what = "skip connections" if network.skip else f"trained {network.trained!r}"
        raise ValueError(
            f"network has activation 'erf' and {what}, expected no skip connections and kind "
            f"'gpk': other limits are not known here"
        )
    activation, gain = activation_of(network), network.c_v * network.c_w

    def grown(log_q: float) -> float:
        """Return the log of a layer's factor on the pre-activations' variance."""
        q = np.exp([log_q])
        return float(np.log(gain * activation.gain * activation.variance(q)[0] / q[0]))

    if grown(-30.0) <= 0:
        raise ValueError(
            f"network has c_v * c_w = {gain:g}, expected more than pi/4: variances tend to 0"
        )
    q = np.exp([brentq(grown, -30.0, 30.0 + math.log1p(gain))])
    value = activation.variance(q)
    slopes = [
        float(activation.correlation_map(w, 2.0 - w, q, q).times_slope(q / value)[0])
        for w in (np.ones(1), np.zeros(1))
    ]
    return math.log(slopes[0]) / math.log(slopes[1])
