r"""Effective receptive fields: which pixels a convolutional kernel listens to, and how strongly.

Barzilai et al. 2022, section 5.2, figure 2 and appendix D. At :math:`z = x` the features of a
ReLU network are perfectly correlated, :math:`K = \frac{c_v}{2}\Sigma` and
:math:`\dot K = \frac{c_v}{2}`, so that the equivariant kernels are *linear* in the energies of
the pixels (s is ``input_scale``, one over the number of channels by default):

.. math::
    K_{Eq}(x, x) = \sum_i w_i\, s \|x_i\|^2 , \qquad
    \frac{\partial K_{Eq}(x, x)}{\partial x_i} = 2 s\, w_i\, x_i .

The weights w are the effective receptive field, and they are those of a *random walk*. With
:math:`\beta = \alpha^2 c_v c_w / 2` the recursion of the Gaussian process kernel's energies is
:math:`F^l = (1 + \beta H_o H_i) F^{l-1}`, where :math:`H_o` and :math:`H_i` average over the
outer and the inner filter's window and :math:`H_i` is missing in layer 1. Divided by its total
:math:`(1+\beta)^L` a layer takes the skip connection with probability :math:`1 - p` and its
residual branch with probability :math:`p = \beta/(1+\beta)`; a branch walks one step uniform on
the outer window, then one on the inner. Hence

.. math:: w = (1+\beta)^L \sum_k P(k)\, (\text{law of the walk through } k \text{ branches}),
   \qquad k \sim \mathrm{Binomial}(L, p) ,

an ensemble of CNNs of all depths. Without skip connections p = 1 and k = L. The tangent kernel
adds up the derivatives with respect to all trained layers, and each is linear: it counts a walk
once for every trained layer on its way, :math:`r + t + (i + o)\, k` times (1 or 0 for readout,
input, inner and outer weights, trained or frozen):

.. math:: w_{NTK} = (1+\beta)^L \sum_k P(k)\, (r + t + (i + o) k)\, (\dots) .

So without skip connections both kernels have the *same* field but for a factor, and with them
the tangent kernel prefers longer walks, by less than one branch on average (`width`). The field
of a network itself (Luo et al. 2016) is the Gaussian process kernel's at initialization: with
:math:`f` the output at that pixel, :math:`E[(\partial f/\partial x_{ci})^2] = s\, w_i` at any x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from ..network import Network
from ..validation import check_depths, check_flag, check_length, check_network
from .paths import path_counts, path_pixels, stride_kernel
from .walk import Walk, variance

__all__ = [
    "Widths",
    "asymptotic_width",
    "effective_receptive_field",
    "path_counts",
    "path_pixels",
    "reach",
    "stride_kernel",
    "width",
    "widths",
]


def effective_receptive_field(
    network: Network, n_timepoints: int, kind: str = "ntk", *, normalized: bool = False
) -> np.ndarray:
    r"""Return the weights of the pixels' energies in K(x, x).

    Barzilai et al. 2022, figure 2 (the kernels' half), in closed form for any ReLU network:
    :math:`K_{Eq}(x,x) = \sum_i w_i\, s\|x_i\|^2` with s the network's ``input_scale`` (one over
    the number of channels by default). The walk's law is raised to the L-th power by repeated
    squaring, on the circle and in positive numbers: each weight keeps its digits, however
    small, at any depth.

    Parameters
    ----------
    network : Network
        With ReLU.
    n_timepoints : int
        Length d of the signals. Convolutions are circular: a wide field wraps around.
    kind : {"ntk", "gpk"}, default "ntk"
        Which kernel, with the head "equivariant" (the field of "trace" is uniform, and that of
        "gap" not a function of energies).
    normalized : bool, default False
        Return w / Σw instead, which works at any depth.

    Returns
    -------
    ndarray, (n_timepoints,)
        Nonnegative; entry 0 is the output pixel, entry i the one i pixels away, circularly:
        entries i and d − i are equal (``np.fft.fftshift`` puts the output pixel in the
        middle). Exactly 0 outside the receptive field.

    Raises
    ------
    ValueError
        For arguments that are not as described above; for more than 2^27 pixels; and with
        ``normalized`` for a kernel that is 0 for every signal, such as the tangent kernel where
        nothing is trained.
    OverflowError
        If the sum of the weights exceeds float64; ``normalized=True`` has no such limit.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import locality
    >>> network = literature.barzilai_resnet(depth=1)
    >>> locality.effective_receptive_field(network, 7, "gpk").round(3)
    array([1.333, 0.333, 0.   , 0.   , 0.   , 0.   , 0.333])
    """
    walk = Walk.of(network, kind)
    d, normalized = check_length(n_timepoints), check_flag(normalized, "normalized")
    if normalized:
        walk.check_nonzero()
    # Where the field does not wrap around, a circle just large enough for it will do.
    circle = min(d, 2 * reach(network) + 1)
    field = walk.field(circle)
    if not normalized:
        field = field * walk.total()
    weights = np.zeros(d)
    weights[np.arange(circle) - circle // 2] = np.roll(field, circle // 2)
    return weights


def reach(network: Network) -> int:
    """Return how far the receptive field goes: the distance of the farthest connected pixel.

    Parameters
    ----------
    network : Network

    Returns
    -------
    int
        In pixels. Signals longer than twice that are not wrapped around.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import locality
    >>> locality.reach(rk.Network(depth=5, filter_size=3))
    9
    """
    check_network(network)
    outer, inner = network.outer_filter_size // 2, network.filter_size // 2
    return network.input_filter_size // 2 + network.depth * (outer + inner) - inner


def width(network: Network, kind: str = "ntk") -> float:
    r"""Return the width of the effective receptive field: its standard deviation, in pixels.

    The standard deviation of the walk on the unbounded line, that is of the normalized weights
    where the signal is long enough for them not to wrap around. A step uniform on q pixels has
    variance :math:`v_q = (q^2-1)/12`, so that with :math:`\bar k` residual branches on average

    .. math:: \mathrm{width}^2 = v_{q_0} + \bar k\, (v_{q_o} + (1 - 1/L)\, v_{q_i}) ,

    where :math:`q_0, q_o, q_i` are the input's, the outer and the inner filter size (layer 1
    has no inner step, and a branch is equally likely in all L layers),

    .. math::
        \bar k_{GPK} = L p , \qquad
        \bar k_{NTK} = L p + \frac{(i+o)\, L p (1-p)}{r + t + (i+o) L p} ,

    and :math:`p = \beta/(1+\beta)`, :math:`\beta = \alpha^2 c_v c_w/2`, or p = 1 without skip
    connections (the module says what r, t, i, o are). The tangent kernel's walks take less than
    1 branch more.

    Parameters
    ----------
    network : Network
        With ReLU.
    kind : {"ntk", "gpk"}, default "ntk"

    Returns
    -------
    float

    Raises
    ------
    ValueError
        For another activation, and for a kernel that is 0 for every signal.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import locality
    >>> round(locality.width(literature.barzilai_cnn(depth=50)), 4)  # √(99 · 2/3)
    8.124
    >>> round(locality.width(literature.barzilai_resnet(depth=50)), 4)
    5.8006
    """
    walk = Walk.of(network, kind)
    walk.check_nonzero()
    outer, inner = variance(network.outer_filter_size), variance(network.filter_size)
    branch = outer + (1.0 - 1.0 / network.depth) * inner
    return math.sqrt(variance(network.input_filter_size) + walk.mean_branches() * branch)


def asymptotic_width(network: Network) -> float:
    r"""Return the width that the fields of a deep network tend to, relatively.

    Both kernels': :math:`\sqrt{L p\, (v_{q_o} + v_{q_i})}` in the notation of `width`, which for
    Barzilai's networks is :math:`\sqrt{L p\, (q^2-1)/6}` with :math:`p = \alpha^2/(1+\alpha^2)`,
    or 1 without skip connections: fields grow like √L while receptive fields grow like L (Luo et
    al. 2016, for finite networks), and skip connections make them :math:`\sqrt{1 + 1/\alpha^2}`
    times narrower. The square of `width` differs from its square by at most
    :math:`v_{q_0} + v_{q_o} + v_{q_i}`, so it is a law for :math:`L p \gg 1`. With
    :math:`\alpha = L^{-\gamma}` that is γ < ½: at γ = ½ the number of branches tends to a Poisson
    distribution of mean 1 (for Barzilai's constants), above it to 0.

    Parameters
    ----------
    network : Network
        With ReLU.

    Returns
    -------
    float
        In pixels.

    Raises
    ------
    ValueError
        For another activation.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import locality
    >>> round(locality.asymptotic_width(literature.barzilai_cnn(depth=600)), 12)
    28.284271247462
    >>> round(locality.asymptotic_width(literature.barzilai_resnet(depth=600)), 12)
    20.0
    """
    branches = network.depth * Walk.of(network, "gpk").share
    step = variance(network.outer_filter_size) + variance(network.filter_size)
    return math.sqrt(branches * step)


class Widths(NamedTuple):
    """Widths of the fields of one family of networks over depth; arrays (n_depths,)."""

    depth: np.ndarray
    gpk: np.ndarray
    """`width` of the Gaussian process kernel."""
    ntk: np.ndarray
    """`width` of the tangent kernel."""
    law: np.ndarray
    """`asymptotic_width`."""
    reach: np.ndarray
    """`reach`, the farthest pixel."""


def widths(family: Network | Callable[[int], Network], depths: Iterable[int]) -> Widths:
    """Return the widths of effective receptive fields as a function of depth.

    Parameters
    ----------
    family : Network, or function from a depth to a Network
        A network stands for those that differ from it in depth alone.
    depths : iterable of int

    Returns
    -------
    Widths

    Raises
    ------
    ValueError
        For a family that does not return networks, and for what `width` refuses.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import locality
    >>> locality.widths(literature.barzilai_resnet, (1, 10, 100)).ntk.round(3)
    array([0.707, 2.629, 8.185])
    """
    depths = check_depths(depths)
    if isinstance(family, Network):
        networks = [family.replace(depth=depth) for depth in depths]
    elif callable(family):
        networks = [family(depth) for depth in depths]
        for depth, network in zip(depths, networks, strict=True):
            if not isinstance(network, Network):
                raise ValueError(
                    f"family returned {network!r} for depth {depth}, expected a Network"
                )
    else:
        raise ValueError(f"family is {family!r}, expected a Network or a function that returns one")
    rows = [
        (n.depth, width(n, "gpk"), width(n, "ntk"), asymptotic_width(n), reach(n)) for n in networks
    ]
    return Widths(*(np.array(column) for column in zip(*rows, strict=True)))
