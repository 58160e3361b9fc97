"""Paths through a convolutional network: theorem 5.2 and appendix D of Barzilai et al. 2022."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import cast

import numpy as np

from ..engines.boxes import circular_sum
from ..network import Network
from .argument_checks import check_layers, check_length

_MOST_WORDS = 10**12
"""Most words of 64 bits that are added to count paths: they take half an hour to two hours.

Raising it lets calls run for longer. Measured: 1.3 to 8 ns a word.
"""

_WORDS_OF_CALL = 100
"""Words that are added in the time in which Python starts an addition; measured like them."""


def path_counts(
    depth: int,
    filter_size: int,
    n_timepoints: int,
    *,
    outer_filter_size: int | None = None,
    input_filter_size: int = 1,
    dilation: int | Sequence[int] = 1,
) -> np.ndarray:
    """Return the number of paths from each pixel to the output of a CNN, exact at any depth.

    :math:`p_i^{(L)}` of theorem 5.2 of Barzilai et al. 2022, for ``literature.barzilai_cnn``, and
    with ``outer_filter_size=1`` for ``literature.geifman_cnn``. The counts, Python integers, are
    proportional to the CNN's effective receptive field. On images they are the outer
    product of the counts on the two axes (``docs/theory/locality.md``).

    Parameters
    ----------
    depth, filter_size, outer_filter_size, input_filter_size, dilation
        As for `Network`.
    n_timepoints : int
        Length of the signals; paths wrap around.

    Raises
    ------
    ValueError
        If the counts have so many digits that adding them up takes hours.

    Examples
    --------
    >>> from rescntk.theory import locality
    >>> locality.path_counts(depth=2, filter_size=3, n_timepoints=9)
    array([7, 6, 3, 1, 0, 0, 1, 3, 6], dtype=object)
    """
    network = Network(
        depth,
        filter_size,
        outer_filter_size=cast("int", outer_filter_size),
        input_filter_size=input_filter_size,
        skip=False,
        dilation=dilation,
    )
    return counts(network, check_length(n_timepoints))


def counts(network: Network, d: int) -> np.ndarray:
    """Return `path_counts` of a network, or say that they take hours."""
    check_layers(network.depth, "depth is")
    sizes = network.filter_size, network.outer_filter_size
    bits = network.depth * sum(map(math.log2, sizes)) + math.log2(network.input_filter_size)
    if 2 * d * bits * (bits / 128 + _WORDS_OF_CALL) > _MOST_WORDS:  # half the final length each
        raise ValueError(
            f"depth is {network.depth}: counts of {bits * math.log10(2):.3g} digits at {d} pixels "
            f"take hours, expected fewer layers or pixels, or smaller filters"
        )
    ways = np.zeros(d, dtype=object)
    ways[0] = 1
    for window in chain(network.filters(), [network.input_filter]):
        ways = np.asarray(circular_sum(ways, *window))
    return ways
