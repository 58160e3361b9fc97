r"""Effective receptive fields: the weight of each pixel in a convolutional kernel.

Barzilai et al. 2022, section 5.2, figure 2 and appendix D. For a ReLU network
:math:`K_{Eq}(x, x) = \sum_i w_i\, s \|x_i\|^2` is linear in the energies of the pixels, where s is
``input_scale``. The weights w are the effective receptive field. They are the distribution of the
end of a random walk from the output pixel. In each layer it takes the skip connection with
probability 1 − p. Otherwise it takes the branch, one step uniform on the outer filter's window and
one on the inner filter's. The tangent kernel counts a walk through k branches
:math:`r + t + (i + o)\, k` times, with 1 or 0 for trained or frozen readout, input, inner and outer
weights. ``docs/theory/locality.md`` has the derivation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from ..network import Filter, Network, check_network
from ..validation import check_depths, check_flag, check_length
from .paths import path_counts, path_pixels, stride_kernel
from .responses import Responses, kernel_responses, responses
from .walk import Walk

__all__ = [
    "Fields",
    "Responses",
    "Widths",
    "asymptotic_width",
    "effective_receptive_field",
    "fields",
    "kernel_responses",
    "path_counts",
    "path_pixels",
    "reach",
    "responses",
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
    the number of channels by default). Each weight keeps its digits, however small, at any
    depth: all terms of the computation are positive.

    Parameters
    ----------
    network : Network
        With ReLU.
    n_timepoints : int
        Length d of the signals. Convolutions are circular: a wide field wraps around.
    kind : {"ntk", "gpk"}, default "ntk"
        The kernel, with the head "equivariant". (The field of "trace" is uniform. The head
        "gap" gives no function of energies: `kernel_responses` serves all heads.)
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
    """Return the reach of the receptive field: the distance of the farthest connected pixel.

    Parameters
    ----------
    network : Network

    Returns
    -------
    int
        In pixels. A field does not wrap around a signal of more than twice this length.

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import locality
    >>> locality.reach(rk.Network(depth=5, filter_size=3))
    9
    >>> locality.reach(rk.Network(depth=5, filter_size=3, dilation=(1, 2, 4, 8, 16)))
    61
    """
    check_network(network)
    return network.input_filter.reach + network.reach()


def width(network: Network, kind: str = "ntk") -> float:
    r"""Return the width of the effective receptive field: its standard deviation, in pixels.

    The standard deviation of the walk on the unbounded line:

    .. math:: \mathrm{width}^2 = v_{q_0} + \bar k\, (v_{q_o} + (1 - 1/L)\, v_{q_i}) .

    A step uniform on q pixels has variance :math:`v_q = (q^2-1)/12`, times the square of the
    dilation. The sizes of the input's, the outer and the inner filter are :math:`q_0, q_o, q_i`.
    Where layers have dilations of their own, the bracket is its mean over the layers. The mean
    number of branches is

    .. math::
        \bar k_{GPK} = L p , \qquad
        \bar k_{NTK} = L p + \frac{(i+o)\, L p (1-p)}{r + t + (i+o) L p} ,

    with :math:`p` = ``Network.branch_share``, and 1 or 0 for trained or frozen readout, input,
    inner and outer weights r, t, i, o. The tangent kernel's walks take less than 1 branch more.

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
    if isinstance(network.dilation, int):
        outer, inner = network.outer_filter(1).variance, network.inner_filter(2).variance
        branch = outer + (1.0 - 1.0 / network.depth) * inner
    else:
        branch = math.fsum(window.variance for window in network.filters()) / network.depth
    return math.sqrt(network.input_filter.variance + walk.mean_branches() * branch)


def asymptotic_width(network: Network) -> float:
    r"""Return the width that the fields of a deep network tend to, relatively.

    :math:`\sqrt{L p\, (v_{q_o} + v_{q_i})}` in the notation of `width`, for both kernels: a law
    for :math:`L p \gg 1`. Fields grow like √L while receptive fields grow like L (Luo et al.
    2016, for finite networks). Barzilai's skip connections make fields
    :math:`\sqrt{1 + 1/\alpha^2}` times narrower. The squares of `width` and of the law differ by
    at most :math:`v_{q_0} + v_{q_o} + v_{q_i}`. Where layers have dilations of their own, the law
    has the mean of :math:`v_{q_o} + v_{q_i}` over the layers, and widths grow like the dilations.

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
    branches = network.depth * Walk.of(network, "gpk").branch_probability
    squares = (
        network.dilation**2 if isinstance(network.dilation, int) else _mean_square(network.dilation)
    )
    step = Filter(network.outer_filter_size).variance + Filter(network.filter_size).variance
    return math.sqrt(branches * squares * step)


def _mean_square(dilations: tuple[int, ...]) -> float:
    return sum(step**2 for step in dilations) / len(dilations)


class Fields(NamedTuple):
    """The normalized fields of a network's two kernels; from `fields`."""

    distance: np.ndarray
    """Distance from the output pixel, (n_timepoints,), increasing: the output is in the middle. Of
    an even length the farthest pixel has the first place."""
    gpk: np.ndarray
    """Weights of the Gaussian process kernel at these distances; they sum to 1."""
    ntk: np.ndarray
    """Weights of the tangent kernel."""


def fields(network: Network, n_timepoints: int) -> Fields:
    """Return the normalized fields of both kernels, with the output pixel in the middle.

    Parameters
    ----------
    network, n_timepoints
        As for `effective_receptive_field`.

    Returns
    -------
    Fields

    Raises
    ------
    ValueError
        As `effective_receptive_field` with ``normalized=True``.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import locality
    >>> found = locality.fields(literature.barzilai_resnet(depth=1), 5)
    >>> found.distance
    array([-2, -1,  0,  1,  2])
    >>> found.gpk.round(3)
    array([0.   , 0.167, 0.667, 0.167, 0.   ])
    """
    d = check_length(n_timepoints)
    gpk, ntk = (
        np.fft.fftshift(effective_receptive_field(network, d, kind, normalized=True))
        for kind in ("gpk", "ntk")
    )
    return Fields(np.arange(d) - d // 2, gpk, ntk)


class Widths(NamedTuple):
    """Widths of the fields of one family of networks over depth, arrays (n_depths,)."""

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
    networks = _check_family(family, depths)
    rows = [
        (n.depth, width(n, "gpk"), width(n, "ntk"), asymptotic_width(n), reach(n)) for n in networks
    ]
    return Widths(*(np.array(column) for column in zip(*rows, strict=True)))


def _check_family(family: object, depths: Iterable[int]) -> list[Network]:
    """Return the networks of a family at `depths`: a Network, or a function from depth to one."""
    if isinstance(family, Network):
        return [family.replace(depth=depth) for depth in depths]
    if not callable(family):
        raise ValueError(f"family is {family!r}, expected a Network or a function that returns one")
    networks = []
    for depth in depths:
        network = family(depth)
        if not isinstance(network, Network):
            raise ValueError(f"family returned {network!r} for depth {depth}, expected a Network")
        networks.append(network)
    return networks
