r"""Effective receptive fields: the weight of each pixel in a convolutional kernel.

Barzilai et al. 2022, section 5.2, figure 2 and appendix D. For a ReLU network K(x, x) is linear in
the energies of the pixels. The weights are the distribution of the end of a random walk from the
output pixel. In each layer it takes the skip connection with probability 1 − p. Otherwise it takes
the branch, one step uniform on the outer filter's window and one on the inner filter's. The tangent
kernel counts a walk through k branches :math:`r + t + (i + o)\, k` times, with 1 or 0 for trained
or frozen readout, input, inner and outer weights. ``docs/theory/locality.md`` has the derivation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from ..engines.boxes import circular_mean
from ..network import Filter, Network, check_network, check_relu
from ..validation import KINDS, check_choice, check_depths, check_flag
from .arguments import check_length
from .complements import check_nonzero
from .paths import path_counts, path_pixels, stride_kernel
from .responses import Responses, kernel_responses, responses

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
    :math:`K_{Eq}(x,x) = \sum_i w_i\, s\|x_i\|^2` with s the network's ``input_scale``. Each weight
    keeps its digits, however small, at any depth: all terms of the computation are positive.

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
        Entry 0 is the output pixel, entries i and d − i the pixels i pixels away
        (``np.fft.fftshift`` puts the output pixel in the middle). Exactly 0 outside the
        receptive field.

    Raises
    ------
    ValueError
        With ``normalized`` for a kernel that is 0 for every signal.
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
    walk = _Walk.of(network, kind)
    d = check_length(n_timepoints)
    if check_flag(normalized, "normalized"):
        check_nonzero(network, kind)
    # Where the field does not wrap around, a circle just large enough for it will do.
    circle = min(d, 2 * reach(network) + 1)
    field = walk.field(circle)
    if not normalized:
        field = field * walk.total()
    weights = np.zeros(d)
    weights[np.arange(circle) - circle // 2] = np.roll(field, circle // 2)
    return weights


def reach(network: Network) -> int:
    """Return the reach of the receptive field: the farthest connected pixel's distance, in pixels.

    A field does not wrap around a signal of more than twice this length.

    Parameters
    ----------
    network : Network

    Examples
    --------
    >>> import rescntk as rk
    >>> from rescntk.theory import locality
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
    inner and outer weights r, t, i, o.

    Parameters
    ----------
    network : Network
        With ReLU.
    kind : {"ntk", "gpk"}, default "ntk"

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
    """
    walk = _Walk.of(network, kind)
    check_nonzero(network, kind)
    branches = walk.mean_branches
    branches += walk.count_per_branch * branches * walk.skip_probability / walk.mean_count
    if isinstance(network.dilation, int):
        outer, inner = network.outer_filter(1).variance, network.inner_filter(2).variance
        branch = outer + (1.0 - 1.0 / network.depth) * inner
    else:
        branch = math.fsum(window.variance for window in network.filters()) / network.depth
    return math.sqrt(network.input_filter.variance + branches * branch)


def asymptotic_width(network: Network) -> float:
    r"""Return the width, in pixels, that the fields of a deep network tend to, relatively.

    :math:`\sqrt{L p\, (v_{q_o} + v_{q_i})}` in the notation of `width`, for both kernels: a law
    for :math:`L p \gg 1`. Fields grow like √L while receptive fields grow like L (Luo et al.
    2016, for finite networks). Barzilai's skip connections make fields
    :math:`\sqrt{1 + 1/\alpha^2}` times narrower. The squares of `width` and of the law differ by
    at most :math:`v_{q_0} + v_{q_o} + v_{q_i}`, which is a mean over the layers where they have
    dilations of their own.

    Parameters
    ----------
    network : Network
        With ReLU.

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import locality
    >>> round(locality.asymptotic_width(literature.barzilai_resnet(depth=600)), 12)
    20.0
    """
    branches = _Walk.of(network, "gpk").mean_branches
    squares = np.mean(np.square(np.asarray(network.dilation, dtype=np.float64)))
    step = Filter(network.outer_filter_size).variance + Filter(network.filter_size).variance
    return math.sqrt(branches * squares * step)


class Fields(NamedTuple):
    """The normalized fields of a network's two kernels, (n_timepoints,) each."""

    distance: np.ndarray
    """Distance from the output pixel, increasing: the output is in the middle. Of an even length
    the farthest pixel has the first place."""
    gpk: np.ndarray
    ntk: np.ndarray


def fields(network: Network, n_timepoints: int) -> Fields:
    """Return the normalized fields of both kernels, with the output pixel in the middle.

    Parameters
    ----------
    network, n_timepoints
        As for `effective_receptive_field`.

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

    Examples
    --------
    >>> from rescntk import literature
    >>> from rescntk.theory import locality
    >>> locality.widths(literature.barzilai_resnet, (1, 10, 100)).ntk.round(3)
    array([0.707, 2.629, 8.185])
    """
    depths = check_depths(depths)
    if not callable(family) and not isinstance(family, Network):
        raise ValueError(f"family is {family!r}, expected a Network or a function that returns one")
    rows = []
    for depth in depths:
        n = family.replace(depth=depth) if isinstance(family, Network) else family(depth)
        if not isinstance(n, Network):
            raise ValueError(f"family returned {n!r} for depth {depth}, expected a Network")
        rows.append((depth, width(n, "gpk"), width(n, "ntk"), asymptotic_width(n), reach(n)))
    return Widths(*(np.array(column) for column in zip(*rows, strict=True)))


class _Walk(NamedTuple):
    """The random walk behind one kernel of one network."""

    network: Network
    skip_probability: float
    """1 − p, the probability of taking the skip connection of a layer, with all its digits."""
    base_count: float
    """Times that a walk counts besides its branches, r + t."""
    count_per_branch: float
    """Times that a walk counts for each of its branches, i + o."""

    @classmethod
    def of(cls, network: Network, kind: str) -> _Walk:
        check_relu(
            network,
            ", expected 'relu': only then is K(x, x) linear in the pixels' energies, with weights "
            "that do not depend on x",
        )
        skipped = 1.0 / network.growth if network.skip else 0.0
        if check_choice(kind, "kind", KINDS) == "gpk":
            return cls(network, skipped, 1.0, 0.0)
        parts = network.parts
        return cls(network, skipped, parts.initial, parts.inner + parts.outer)

    @property
    def mean_branches(self) -> float:
        """L p, the mean number of branches of a walk."""
        return self.network.depth * self.network.branch_share

    @property
    def mean_count(self) -> float:
        """r + t + (i + o) L p, the mean number of times that a walk counts."""
        return self.base_count + self.count_per_branch * self.mean_branches

    def total(self) -> float:
        """Return the sum of the weights."""
        depth, count = self.network.depth, self.mean_count * self.network.readout_scale
        growth = self.network.growth
        with np.errstate(over="ignore"):
            total = float(np.float64(growth) ** depth * count) if count else 0.0
        if not math.isfinite(total):
            raise OverflowError(
                f"the sum of the weights exceeds float64 at depth {depth}: it grows by "
                f"{growth:.6g} a layer; normalized=True has no such limit"
            )
        return total

    def field(self, d: int) -> np.ndarray:
        """Return the distribution of the walk's end on `d` pixels; 0 if no walk counts."""
        one_dilation = isinstance(self.network.dilation, int)
        ends, branches = self._equal_layers(d) if one_dilation else self._layers(d)
        counted = self.base_count * ends + self.count_per_branch * branches
        if self.mean_count:
            counted /= self.mean_count
        return circular_mean(counted, *self.network.input_filter)

    def _equal_layers(self, d: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the walks' ends after layer 1 and L − 1 equal layers, as `_layers` does."""
        n, start = self.network.depth - 1, np.zeros(d)
        start[0] = 1.0
        first, first_branch = self._step(1, start, 0.0 * start)
        layer, branch = self._step(2, start, 0.0 * start)
        others = _power(layer, n)
        branches = _convolve(first_branch, others)
        if n and self.count_per_branch:
            # A walk's number of branches is a sum over layers of 1 (branch) or 0 (skip).
            branches += n * _convolve(branch, _convolve(first, _power(layer, n - 1)))
        return _convolve(first, others), branches

    def _layers(self, d: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the distribution of the walks' ends, and the same weighted by their branches."""
        ends, branches = np.zeros(d), np.zeros(d)
        ends[0] = 1.0
        for layer in range(1, self.network.depth + 1):
            ends, branches = self._step(layer, ends, branches)
        return ends, branches

    def _step(
        self, layer: int, ends: np.ndarray, branches: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return both distributions of `_layers` after one more layer."""
        inner, outer = self.network.inner_filter(layer), self.network.outer_filter(layer)
        taken, counted = (
            self.network.branch_share * circular_mean(circular_mean(v, *inner), *outer)
            for v in (ends, branches)
        )
        skipped = self.skip_probability
        return skipped * ends + taken, skipped * branches + (counted + taken)


def _convolve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the circular convolution of nonnegative vectors; no digits cancel."""
    line = np.convolve(a, b)
    line[: len(a) - 1] += line[len(a) :]
    return line[: len(a)]


def _power(distribution: np.ndarray, n: int) -> np.ndarray:
    """Return the distribution of the sum of n steps, by repeated squaring."""
    result = np.zeros_like(distribution)
    result[0] = 1.0
    while n:
        if n & 1:
            result = _convolve(result, distribution)
        n >>= 1
        if n:
            distribution = _convolve(distribution, distribution)
    return result / result.sum()  # each squaring has doubled the rounding error of the sum
