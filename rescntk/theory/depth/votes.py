"""The classifier that infinite depth is: votes and weights (docs/theory/infinite_classifier.md)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import zeta

from ...checks.values import check_nonnegative, check_positive
from ...network.network import Network, check_like_layers
from ...network.parameters import BASIC_FIELDS
from ..tools.argument_checks import check_branch, check_kind, check_vector


class LimitClassifier(NamedTuple):
    """The rule by which kernel regression classifies at infinite depth."""

    name: str
    """"majority", or "singular": votes have weights that fall with the distance.

    They have the sign of ρ, too."""
    off_diagonal: float
    """c, the limit of the normalized kernel of signals that are apart."""
    exponent: float
    """ζ: votes have weights like (1 − ρ)^−ζ near the correlation ρ = 1. It is positive; NaN of a
    majority."""

    def ridge(self, y: ArrayLike, penalty: float = 0.0) -> float:
        r"""Return the limit at a new signal, :math:`c \sum_i y_i / (1 - c + nc + \delta)`.

        Parameters
        ----------
        y : array_like, (n,)
            Values of different signals. Where they sum to 0, so does the limit, and networks of
            finite depth decide by what is left, of which no closed form is known here.
        penalty : float, default 0.0
            δ, in units of K(x, x).

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
        >>> deep = rk.theory.depth.limit_classifier(rk.Network(1), kind="ntk")
        >>> deep.ridge([1.0, 1.0, -1.0])  # the sum over n + 3
        0.16666666666666666
        """
        y, penalty = check_vector(y, "y"), check_nonnegative(penalty, "penalty")
        c = self.off_diagonal
        votes = c / (1.0 - c + len(y) * c + penalty)  # at most 1/n
        largest = math.frexp(np.abs(y).max())[1]
        return math.ldexp(float(np.ldexp(y, -largest).sum()) * votes, largest)


def limit_classifier(network: Network, *, kind: str, n_pixels: float = 1.0) -> LimitClassifier:
    r"""Return which classifier kernel regression tends to with the depth of a network.

    For a fixed α, no biases, and signals that are joined and apart, as
    ``docs/theory/depth_limits.md`` says; ``docs/theory/infinite_classifier.md`` derives the rules.
    Radhakrishnan et al. 2022 tell apart majority votes, singular kernels and nearest neighbours.

    - ReLU is a majority vote, but where the input alone is trained: then :math:`L^3 \bar\Theta` is
      singular like :math:`(1-\rho)^{-3/2}`.
    - erf without skip connections, GPK, whose variance tends to a constant, is singular:
      :math:`\bar K/\varphi'(0)^L` like :math:`(1-\rho)^{-\zeta}` with :math:`\zeta =
      -\log\varphi'(0)/\log\varphi'(1)`, where :math:`\varphi` is what a layer does to ρ.
    - No network here is a nearest neighbour, which needs :math:`\varphi'(0) = 0`.

    Exponents are for correlations ρ near 1 that are the same at all pixels, on the multi-sphere.
    Votes of singular kernels have the sign of ρ.

    Parameters
    ----------
    network : Network
        Of ReLU, leaky or not, or of erf without skip connections; with one dilation for all layers.
        Its depth does not matter.
    kind : {"gpk", "ntk"}
    n_pixels : float, default 1.0
        Pixels m that the head averages: of "gap" the signals' length, one for all; of a head of m
        pixels m, of images m²; else 1 (docs/theory/depth_limits.md).

    Returns
    -------
    `LimitClassifier`

    Raises
    ------
    ValueError
        If the network is another one, has no branch, trains nothing, or no limit is known.

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.theory.depth.limit_classifier(rk.Network(1), kind="ntk")
    LimitClassifier(name='majority', off_diagonal=0.25, exponent=nan)
    >>> erf = rk.Network(1, activation="erf", skip=False)
    >>> round(rk.theory.depth.limit_classifier(erf, kind="gpk").exponent, 4)
    0.45
    """
    check_like_layers(network, BASIC_FIELDS)
    check_branch(network)
    kind, m = check_kind(kind), check_positive(n_pixels, "n_pixels")
    parts = network.parts
    if kind == "ntk" and not any(parts):
        raise ValueError("network has trained (), expected some parts for kind 'ntk'")
    is_gpk = kind == "gpk" or (parts.readout == 1 and sum(parts) == 1)
    if network.activation == "erf":
        return LimitClassifier("singular", 0.0, _erf_exponent(network, is_gpk))
    if network.negative_slope == 1:
        raise ValueError(
            "network has negative_slope 1.0, expected less: a linear network keeps correlations"
        )
    if not is_gpk and tuple(parts) == (1, 0, 0, 0):
        return LimitClassifier("singular", 0.0, 1.5)
    c = 1.0 if is_gpk else 0.25 if parts.inner or parts.outer else 0.5
    return LimitClassifier("majority", c * m / (1.0 + (m - 1) * c), math.nan)


def _erf_exponent(network: Network, is_gpk: bool) -> float:
    """Return −log φ'(0)/log φ'(1), φ being a layer of erf at the variance that stays."""
    if network.skip or not is_gpk:
        what = "skip connections" if network.skip else f"trained {network.trained!r}"
        raise ValueError(
            f"network has activation 'erf' and {what}, expected no skip connections and kind "
            f"'gpk': other limits are not known here"
        )
    gain = network.layer(1).c_v * network.layer(1).c_w
    if not math.pi / 4 < gain <= 1e300:
        raise ValueError(
            f"network has c_v * c_w = {gain:g}, expected more than pi/4, up to which variances "
            f"tend to 0, and at most 1e300"
        )
    start = -math.log(math.pi / 4 / gain)  # the log of a layer's factor on small variances

    def log_growth(log_q: float) -> float:
        """Return the log of a layer's factor on the variance q, 2 c_v c_w ω / (π q)."""
        q = math.exp(log_q)
        return start - _log_slopes(q)[0] - math.log1p(2.0 * q)

    # The factor is at least exp(start − 2q) and at most c_v c_w / q.
    q = math.exp(brentq(log_growth, math.log(start / 4.0), math.log(gain) + 1.0, xtol=1e-15))
    at_0, at_1 = _log_slopes(q)
    return -at_0 / at_1


_SERIES = np.arange(1.0, 31.0)
"""Degrees 2k of the series of log(sin ω / ω): up to ω = π/2 it falls like 4^−k."""


def _log_slopes(q: float) -> tuple[float, float]:
    """Return log φ'(0) = log(sin ω / ω) and log φ'(1) = log(tan ω / ω), to their last digits.

    sin ω = 2q/(1 + 2q), q the variance of pre-activations (docs/theory/infinite_classifier.md).
    """
    tangent = 2.0 * math.sqrt(q) * math.sqrt(q / (1.0 + 4.0 * q))
    at_0 = -float((zeta(2 * _SERIES) / _SERIES) @ (math.atan(tangent) / math.pi) ** (2 * _SERIES))
    return at_0, at_0 + 0.5 * math.log1p(tangent * tangent)  # 1/cos² is 1 + tan²
