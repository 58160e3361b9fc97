"""Which pixels of a signal influence pixel 1 after the last layer, and with which weights.

The head "equivariant" reads only pixel 1.
"""

from __future__ import annotations

import operator
from functools import lru_cache, reduce
from itertools import chain

import numpy as np

from ..layer.means import at_taps
from ..layer.operations import Operations
from ..layer.recursion import variances_around_last_layer
from .context import ArraySignalContext


@lru_cache(maxsize=64)
def seen_by_pixel_1(operations: Operations, pixels: tuple[int, ...]) -> np.ndarray:
    """Return a mask of the pixels whose values influence pixel 1 after the last layer.

    It is also right for pixels whose weights are outside the range of float64.
    """
    seen = np.zeros((1, *pixels), bool)
    seen[(0, *[0] * len(pixels))] = True
    every_layer = [operations.constants.of_layer(k) for k in range(1, operations.depth + 1)]
    has_branch = [layer_constants.layer.has_branch for layer_constants in every_layer]
    spreads = [True, *has_branch]  # whether pixels spread in the input filter, and in each layer
    for operation in chain(operations.input, *operations.layers):
        taps = operation.step.taps
        if taps.n_taps and spreads[operation.layer_number]:
            seen = reduce(operator.or_, at_taps(np, seen, taps, 1))
    # The output of a layer that has neither the identity path nor a branch is 0.
    has_identity = [bool(layer_constants.weights.features) for layer_constants in every_layer]
    return seen[0] & all(map(operator.or_, has_identity, has_branch))


@lru_cache(maxsize=64)
def weights_at_pixel_1(operations: Operations, pixels: tuple[int, ...]) -> tuple[np.ndarray, float]:
    """Return the weight of each pixel's variance in F at pixel 1, and that of biases with σ_b = 1.

    The activation must be homogeneous. The weights are computed as the variances after the last
    layer of a signal that is 0 except at pixel 1: filters are symmetric, so that the weight of
    pixel j in pixel 1 is the weight of pixel 1 in pixel j.
    """
    input_variance = np.zeros((2, *pixels))
    input_variance[(0, *[0] * len(pixels))] = 1.0
    bias, no_norm = np.array([0.0, 1.0]), np.zeros(2)
    signals = ArraySignalContext(operations, np, input_variance, bias=bias, normalized_std=no_norm)
    _, last = variances_around_last_layer(
        signals.of_layer, operations, signals.exact_variances(input_variance)
    )
    pixel_weights, bias_weights = last.variance
    return pixel_weights, float(bias_weights.flat[0])
