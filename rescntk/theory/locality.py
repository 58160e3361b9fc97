r"""Effective receptive fields: which pixels a kernel weighs.

Barzilai et al. 2022, section 5.2, figure 2 and appendix D. A field is the distribution of the end
of a random walk from the output pixel. ``docs/theory/locality.md`` has the formulas.
"""

from __future__ import annotations

import math

import numpy as np

from ..checks.values import check_flag
from ..network import Network, check_network
from ..network.parameters import RELU_FIELDS
from .tools.argument_checks import check_kind, check_length
from .tools.complements import check_nonzero, circular_mean

__all__ = ["effective_receptive_field", "width"]


def effective_receptive_field(
    network: Network, n_timepoints: int, *, kind: str, normalized: bool = False
) -> np.ndarray:
    r"""Return the weights of the pixels' energies in K(x, x) of the equivariant head.

    :math:`K_{Eq}(x,x) = \sum_i w_i\, s\|x_i\|^2 + c` with s the network's ``input_scale``: Barzilai
    et al. 2022, figure 2 (the kernels' half). Biases make the constant c, which is 0 without them,
    and do not change the weights. The field of the head "trace" is uniform. An image's weights,
    added up along an axis, are the weights of the other axis. Without skip connections an image's
    normalized weights are the outer product of its axes' weights (``docs/theory/locality.md``).

    Parameters
    ----------
    network : Network
        Of ReLU, without normalized features; layers may differ in their dilation alone.
    n_timepoints : int
        Length d of the signals. Convolutions are circular: a wide field wraps around.
    kind : {"gpk", "ntk"}
    normalized : bool, default False
        Return w / Σw instead.

    Returns
    -------
    ndarray, (n_timepoints,)
        Entry 0 is the output pixel, entries i and d − i the pixels i pixels away. Each weight above
        1e-300 of the sum keeps its digits at any depth; smaller ones may be 0.

    Raises
    ------
    ValueError
        If the activation is not ReLU, or if ``normalized`` weights would all be 0.
    OverflowError
        If Σw exceeds float64 and is not divided by.

    Examples
    --------
    >>> import rescntk as rk
    >>> field = rk.theory.locality.effective_receptive_field
    >>> field(rk.Network(depth=1), 5, kind="gpk").round(3)
    array([1.333, 0.333, 0.   , 0.   , 0.333])
    """
    base, per_branch, branches = _counts(network, kind)
    d = check_length(n_timepoints)
    if check_flag(normalized, "normalized"):
        check_nonzero(network, kind)
    # Where the field does not wrap around, a circle just large enough for it will do.
    circle = min(d, 2 * network.reach() + 1)
    field, mean = _counted_ends(network, circle, base, per_branch), base + per_branch * branches
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


def width(network: Network, *, kind: str) -> float:
    """Return the width of the effective receptive field: its standard deviation, in pixels.

    On the unbounded line. docs/theory/locality.md has the formula, and its law at great depth.

    Parameters
    ----------
    network : Network
        Of ReLU, without normalized features; layers may differ in their dilation alone.
    kind : {"gpk", "ntk"}

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the activation is not ReLU, or if the kernel does not depend on the signal.

    Examples
    --------
    >>> import rescntk as rk
    >>> cnn = rk.Network(depth=50, skip=False)
    >>> round(rk.theory.locality.width(cnn, kind="ntk"), 4)  # √(99 · 2/3)
    8.124
    """
    base, per_branch, branches = _counts(network, kind)
    check_nonzero(network, kind)
    if network.skip:
        branches += per_branch * branches * (1.0 / network.growth) / (base + per_branch * branches)
    if isinstance(network.dilation, int):
        outer, inner = network.outer_filter(1).variance, network.inner_filter(2).variance
        branch = outer + (1.0 - 1.0 / network.depth) * inner
    else:
        branch = math.fsum(window.variance for window in network.filters()) / network.depth
    return math.sqrt(network.input_filter.variance + branches * branch)


def _counts(network: Network, kind: str) -> tuple[float, float, float]:
    """Return a and b of locality.md (1, 0 of the GPK), and Lp, the mean number of branches."""
    reason = ": this is for like layers of ReLU, whose K(x, x) is linear in the pixels' energies"
    check_network(network, RELU_FIELDS | {"bias"}, reason)
    parts, branches = network.parts, network.depth * network.branch_share
    if check_kind(kind) == "gpk":
        return 1.0, 0.0, branches
    return parts.initial, parts.inner + parts.outer, branches


def _counted_ends(network: Network, d: int, base: float, per_branch: float) -> np.ndarray:
    """Return how often walks count that end at each of `d` pixels, on average, (d,)."""
    branch_weight = network.branch_share
    # 1 − branch_weight, with all its digits.
    skipped = 1.0 / network.growth if network.skip else 0.0

    def step(layer: int, walks: np.ndarray) -> np.ndarray:
        """Return the walks after a layer more."""
        inner, outer = network.inner_filter(layer), network.outer_filter(layer)
        taken = branch_weight * circular_mean(circular_mean(walks, inner), outer)
        taken[:, 1] += taken[:, 0]
        return skipped * walks + taken

    walks = np.zeros((d, 2))  # the ends, and the ends weighted by the numbers of branches
    walks[0, 0] = 1.0
    if isinstance(network.dilation, int):  # all later layers are alike: by repeated squaring
        later, walks = step(2, walks), step(1, walks)
        for bit in bin(network.depth - 1)[:1:-1]:
            walks = _joined_walks(walks, later) if bit == "1" else walks
            later = _joined_walks(later, later)
    else:
        for layer in range(1, network.depth + 1):
            walks = step(layer, walks)
    return base * walks[:, 0] + per_branch * walks[:, 1]


def _joined_walks(first: np.ndarray, second: np.ndarray) -> np.ndarray:
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
