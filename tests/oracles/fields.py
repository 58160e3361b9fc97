"""Effective receptive fields from the definition: kernels of signals with one pixel of energy 1."""

import numpy as np

from . import definition


def weights(network, d):
    """Return (gpk, ntk), lists of d numbers of 40 digits."""
    network, signals = network.replace(input_scale=1.0), np.arange(d)
    kinds = definition.of_pairs(np.eye(d)[:, None], network, signals, signals)[network.depth]
    return [list(P[:, 0, 0]) for P in kinds]


def squared_width(weights):
    """Return Σ i² w_i / Σ w_i, pixel i being i or i − d away, whichever is nearer."""
    d = len(weights)
    return sum(min(i, d - i) ** 2 * w for i, w in enumerate(weights)) / sum(weights)
