"""The choice of the pairs of signals that are computed again, from deficits.

The kernels compute distances (recursion.py), which lose digits where windows are nearly parallel
and differ in amplitude. They add up E, the rounding error of a pixel pair (scaling.DOUBTFUL). A
pair of signals whose sum exceeds `Scaling.most_doubt` is computed again by the reference engine's
array code on the device (deficits.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...arrays import Array
from ..protocol import Request, blocks
from ..reference import ReferenceGram

FIRST, FACTOR = 2, 4
"""The layers whose E the kernels look at: FIRST, FIRST · FACTOR, FIRST · FACTOR², …

E changes slowly from layer to layer: angles contract like 1/l, and windows grow by a few pixels.
With FACTOR 4 a layer stands for layers between half and twice its number; the last one, for layers
up to four times its number. A smaller FACTOR follows E more closely and costs more. Looking at E
takes a third of a layer's issue slots in float32, counted by disassembling compiled kernels as
test_cubins.py does. A branch around pixel pairs without doubt saves nothing: of Gaussian signals
and random walks of one channel, at filter_size 3, 88 to 100 % of the rows of 128 pixel pairs have
a doubtful one (mean over layers, depths 10 and 50).
"""

DEFICIT_SHARE = 0.2
"""Share of the free memory for the arrays of pairs that are computed from deficits.

Raising it lets one array operation take more pairs, and leaves less for other arrays. Chosen by
reasoning, never timed on a device.
"""

DEFICIT_ARRAYS = 24
"""Arrays of a pixel pair, in the working precision, that the array code has at a time.

A smaller number may run out of memory. Counted in recursion.py and deficits.py: 14 named arrays,
and up to 10 temporaries of a merge.
"""

MOST_DEFICIT_ENTRIES = 2**25
"""Most pixel pairs that are computed together from deficits.

More pixel pairs take memory and save no time once a device is busy. Chosen by reasoning: 2^25
float32 numbers take a device some 0.1 ms, the start of an operation takes 0.005 ms.
"""


def layers_seen(depth: int) -> dict[int, int]:
    """Return the layers whose E is looked at, with the number of layers that each stands for.

    Every layer from 2 to `depth` belongs to the layer looked at whose ratio to it is nearest to 1.
    """
    seen = []
    layer = FIRST
    while layer <= depth:
        seen.append(layer)
        layer *= FACTOR
    counts = dict.fromkeys(seen, 0)
    for layer in range(2, depth + 1):
        counts[min(seen, key=lambda one: max(one, layer) / min(one, layer))] += 1
    return counts


class Deficits:
    """The pairs of one request that are computed from deficits."""

    def __init__(self, request: Request, xp: Any, X: Array) -> None:
        self._xp, self._request = xp, request
        self._reference = ReferenceGram(request, xp.empty((1, *X.shape[1:])))
        self._most = self._reference.scaling.most_doubt

    def doubtful(self, doubt: Array) -> tuple[Array, Array]:
        """Return rows and columns of the pairs that are too doubtful; waits for the device."""
        rows, columns = self._xp.nonzero(doubt > self._most)
        return rows, columns

    def kernels(
        self, pairs: tuple[Array, Array], take: Take, free: int
    ) -> Iterator[tuple[tuple[Array, Array], dict[str, Array]]]:
        """Yield some of the pairs, and their kernels, (depth, pair, …).

        Parameters
        ----------
        pairs : tuple of arrays
            Rows and columns.
        take : callable
            Returns the left and the right signals of pairs, (pairs, channels, d) each and on the
            device, from the pairs' rows and columns.
        free : int
            The free memory of the device in bytes.
        """
        for some in blocks(0, len(pairs[0]), self._pairs_at_a_time(free)):
            rows, columns = pairs[0][some], pairs[1][some]
            yield (rows, columns), self._reference.in_deficits(*take(rows, columns))

    def _pairs_at_a_time(self, free: int) -> int:
        scaling = self._reference.scaling
        pixel_pairs = scaling.d * scaling.offsets
        bytes_of_pair = DEFICIT_ARRAYS * np.dtype(self._request.dtype).itemsize * pixel_pairs
        most = min(DEFICIT_SHARE * free / bytes_of_pair, MOST_DEFICIT_ENTRIES / pixel_pairs)
        return max(1, int(most))


Take = Callable[[Array, Array], tuple[Array, Array]]
"""A function from rows and columns of pairs to the pairs' left and right signals."""
