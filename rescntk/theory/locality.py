r"""Effective receptive fields, and the paths of convolutions: which pixels a kernel weighs.

Barzilai et al. 2022, section 5.2, figure 2 and appendix D. A field is the distribution of the end
of a random walk from the output pixel. ``docs/theory/locality.md`` has the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from ..network import BASIC_FIELDS, RELU_FIELDS, Network, check_network
from ..validation import check_flag
from .argument_checks import check_kind, check_layers, check_length
from .complements import check_nonzero, circular_mean, circular_sum

__all__ = ["effective_receptive_field", "path_counts", "reach", "width"]


def effective_receptive_field(
    network: Network, n_timepoints: int, kind: str = "ntk", *, normalized: bool = False
) -> np.ndarray:
    r"""Return the weights of the pixels' energies in K(x, x), (n_timepoints,).

    :math:`K_{Eq}(x,x) = \sum_i w_i\, s\|x_i\|^2` with s the network's ``input_scale``: Barzilai et
    al. 2022, figure 2 (the kernels' half). Each weight above 1e-300 of the sum keeps its
    digits at any depth; smaller ones may be 0. Entry 0 is the output pixel, entries i and d − i the
    pixels i pixels away. An image's weights, added up along an axis, are the weights of the other
    axis. Without skip connections an image's normalized weights are the outer product of its axes'
    weights (``docs/theory/locality.md``).

    Parameters
    ----------
    network : Network
        With ReLU.
    n_timepoints : int
        Length d of the signals. Convolutions are circular: a wide field wraps around.
    kind : {"ntk", "gpk"}, default "ntk"
        With the head "equivariant". The field of "trace" is uniform.
    normalized : bool, default False
        Return w / Σw instead. Without, an OverflowError says where Σw exceeds float64.

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.theory.locality.effective_receptive_field(rk.Network(depth=1), 5, "gpk").round(3)
    array([1.333, 0.333, 0.   , 0.   , 0.333])
    """
    base, each, branches = _counts(network, kind)
    d = check_length(n_timepoints)
    if check_flag(normalized, "normalized"):
        check_nonzero(network, kind)
    # Where the field does not wrap around, a circle just large enough for it will do.
    circle = min(d, 2 * reach(network) + 1)
    field, mean = _counted_ends(network, circle, base, each), base + each * branches
    field = circular_mean(field / mean if mean else field, network.input_filter)
    if not normalized:
        count = mean * network.readout_scale
        with np.errstate(over="ignore"):
            total = float(np.float64(network.growth) ** network.depth * count) if count else 0.0
        if not math.isfinite(total):
            raise OverflowError(
                f"the sum of the weights exceeds float64 at depth {network.depth}: it grows by "
                f"{network.growth:.6g} a layer; normalized=True has no such limit"
            )
        field = field * total
    weights = np.zeros(d)
    weights[np.arange(circle) - circle // 2] = np.roll(field, circle // 2)
    return weights


def reach(network: Network) -> int:
    """Return the distance of the farthest pixel in the receptive field, in pixels.

    Parameters
    ----------
    network : Network

    Examples
    --------
    >>> import rescntk as rk
    >>> rk.theory.locality.reach(rk.Network(depth=5, dilation=(1, 2, 4, 8, 16)))
    61
    """
    check_network(network, BASIC_FIELDS)
    return network.input_filter.reach + network.reach()


def width(network: Network, kind: str = "ntk") -> float:
    """Return the width of the effective receptive field: its standard deviation, in pixels.

    On the unbounded line. docs/theory/locality.md has the formula, and its law at great depth.

    Parameters
    ----------
    network : Network
        With ReLU, and a kernel that is not 0 for every signal.
    kind : {"ntk", "gpk"}, default "ntk"

    Examples
    --------
    >>> import rescntk as rk
    >>> round(rk.theory.locality.width(rk.Network(depth=50, skip=False)), 4)  # √(99 · 2/3)
    8.124
    """
    base, each, branches = _counts(network, kind)
    check_nonzero(network, kind)
    if network.skip:
        branches += each * branches * (1.0 / network.growth) / (base + each * branches)
    if isinstance(network.dilation, int):
        outer, inner = network.outer_filter(1).variance, network.inner_filter(2).variance
        branch = outer + (1.0 - 1.0 / network.depth) * inner
    else:
        branch = math.fsum(window.variance for window in network.filters()) / network.depth
    return math.sqrt(network.input_filter.variance + branches * branch)


def path_counts(
    depth: int, filter_size: int, n_timepoints: int, *, outer_filter_size: int | None = None,
    input_filter_size: int = 1, dilation: int | Sequence[int] = 1,
) -> np.ndarray:  # fmt: skip
    """Return the number of paths from each pixel to the output of a CNN, exact at any depth.

    :math:`p_i^{(L)}` of theorem 5.2 of Barzilai et al. 2022, for ``literature.barzilai_cnn``, and
    with ``outer_filter_size=1`` for ``literature.geifman_cnn``. The counts, Python integers, are
    proportional to the CNN's effective receptive field; a ValueError refuses hours of work. On
    images they are the outer product of the counts on the two axes (``docs/theory/locality.md``).

    Parameters
    ----------
    depth, filter_size, outer_filter_size, input_filter_size, dilation
        As for `Network`.
    n_timepoints : int
        Length of the signals; paths wrap around.

    Examples
    --------
    >>> from rescntk.theory import locality
    >>> locality.path_counts(depth=2, filter_size=3, n_timepoints=9)
    array([7, 6, 3, 1, 0, 0, 1, 3, 6], dtype=object)
    """
    sizes: Any = {"outer_filter_size": outer_filter_size, "input_filter_size": input_filter_size}
    network = Network(depth, filter_size, skip=False, dilation=dilation, **sizes)
    return counts(network, check_length(n_timepoints))


def counts(network: Network, d: int) -> np.ndarray:
    """Return `path_counts` of a network, or say that they take hours."""
    check_layers(network.depth, "depth is")
    sizes = network.filter_size, network.outer_filter_size
    bits = network.depth * sum(map(math.log2, sizes)) + math.log2(network.input_filter_size)
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


def _counts(network: Network, kind: str) -> tuple[float, float, float]:
    """Return r + t and i + o, of the GPK 1 and 0; and L p, a walk's mean number of branches."""
    reason = ": only for ReLU is K(x, x) linear in the pixels' energies"
    check_network(network, RELU_FIELDS, reason)
    parts, branches = network.parts, network.depth * network.branch_share
    if check_kind(kind) == "gpk":
        return 1.0, 0.0, branches
    return parts.initial, parts.inner + parts.outer, branches


def _counted_ends(network: Network, d: int, base: float, each: float) -> np.ndarray:
    """Return how often walks count that end at each of `d` pixels, on average, (d,)."""
    share = network.branch_share
    skipped = 1.0 / network.growth if network.skip else 0.0  # 1 − share, with all its digits

    def step(layer: int, walks: np.ndarray) -> np.ndarray:
        """Return the walks after a layer more."""
        inner, outer = network.inner_filter(layer), network.outer_filter(layer)
        taken = share * circular_mean(circular_mean(walks, inner), outer)
        taken[:, 1] += taken[:, 0]
        return skipped * walks + taken

    walks = np.zeros((d, 2))  # the ends, and the ends weighted by the numbers of branches
    walks[0, 0] = 1.0
    if isinstance(network.dilation, int):  # all later layers are alike: by repeated squaring
        later, walks = step(2, walks), step(1, walks)
        for bit in bin(network.depth - 1)[:1:-1]:
            walks = _joined(walks, later) if bit == "1" else walks
            later = _joined(later, later)
    else:
        for layer in range(1, network.depth + 1):
            walks = step(layer, walks)
    return base * walks[:, 0] + each * walks[:, 1]


def _joined(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return walks of two parts. Numbers of branches add up: the rule of the product's derivative.

    Divided by their total, 1, sums keep their digits.
    """
    ends = _convolve(first[:, 0], second[:, 0])
    branches = _convolve(first[:, 0], second[:, 1]) + _convolve(first[:, 1], second[:, 0])
    return np.stack([ends, branches], axis=1) / ends.sum()


def _convolve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the circular convolution of nonnegative vectors; no digits cancel."""
    line = np.convolve(a, b)
    line[: len(a) - 1] += line[len(a) :]
    return line[: len(a)]
