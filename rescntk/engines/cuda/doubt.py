"""The doubt about a kernel in the form of distances: where it may have lost digits.

Each doubtful pixel pair has an E, the error of κ0 in rounding units. A pair of signals of too large
E is computed again by the reference engine, in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...arrays import Array, array_module
from ..boxes import circular_mean
from .exact_sum import mean

if TYPE_CHECKING:
    from .scaling import Scaling

DOUBTFUL = 8.0
"""The E, in mean variances of the layer, that makes a pixel pair doubtful.

E = (D + |q1 − q2|/2)/√a in float64 and D/√a in float32, a = min(w, 2 − w). D − z has a rounding
error of about eps D, and of eps |q1 − q2|/2 from the roots in z = (√q1 − √q2)²/2. Tables of float32
keep the roots' rounding errors, which z takes back. κ0 turns the error into eps E. A larger number
overlooks errors of up to this many rounding units. A smaller one makes the compiled loops leave
their vectors more often: of Gaussian signals' vectors of 32 pixel pairs (float64) at most 0.3 %
have an E above 8, 10 % above 4 and 66 % above 2.
"""

SHALLOW = 10
"""Depth beyond which the E that makes a pixel pair doubtful falls like 1/depth: E adds up.

A larger number leaves larger errors in deep kernels: 65 rounding units of float32 without a limit,
17 with 10 (depth 50, no skip connections, lognormal pixels). At depth 50 it costs 0 to 7 % of time.
"""

TIED = 8.0
"""Depth · eps times this is the √a below which w may be nothing but rounding errors.

Each layer adds a rounding error of the order of eps² to the w of proportional windows, always of
the same sign. A larger number repeats more kernels of near copies; a smaller one leaves errors
that grow like depth^1.5: 2.4e-14 at depth 50.
"""

PARALLEL = 4.0
"""Windows are parallel where the error eps (D + |q1 − q2|/2)/g of w, times this, exceeds w.

A larger number takes more windows as parallel; a smaller one may overlook some whose w is a
rounding error. Chosen by reasoning: the difference D − z has a handful of roundings. Up to depth
`SHALLOW`, where few rounding errors add up, no windows are taken as parallel: Grams of
one channel would take 11 % more time in float32.
"""

MOST_DOUBT = {"float64": 24.0, "float32": 8.0}
"""The root mean square of E over doubtful pixel pairs that a layer may have.

All layers together may have it twice. Kernels above are computed again. A larger number
leaves larger errors; a smaller one repeats more kernels.
"""

MOST_CANCELLED = 12.0
"""φ: two signals of d' different pixels may have min(φ, √d') times as much doubt as equal pixels.

Rounding errors at different pixels cancel. A larger number repeats fewer
kernels and leaves larger errors.
"""

_FEW = 512
"""Pixels whose roots are compared first. Mostly they have the φ² different roots that count.

It must exceed φ². A larger number sorts more: the sort of 4096 pixels takes a tenth of the time of
their tables. A smaller one finds too few different roots more often, and then sorts twice.
"""

FLAT = 0.5
"""The (mean √q)² / mean q from which the factor of `cancelled` is whole.

A larger number repeats more kernels of ordinary signals: of independent Gaussian pixels it is 0.64.
A smaller one leaves larger errors in kernels of few large pixels.
"""

MOST_E = {"float64": 2.0**27, "float32": 2.0**13}
"""The largest E of a pixel pair in a layer: the E of parallel windows.

Their w is a rounding error of some eps, and κ0 errs by √eps: 2^26 and 2^12 rounding units. Sums of
squares are exact up to 2^53, far above what is allowed. A larger number doubts pairs that are
right; a smaller one may overlook few pixel pairs among many.
"""


def cancelled(roots: Array, gap: bool) -> Array:
    """Return by how much more doubt signals may have than one pixel; `roots`, (d, cases), are √q.

    It is min(φ, √d') of signals with d' different roots. Where few pixels are large, the kernel
    K(x, x) of the head "gap" is small beside the mean variance, and so is the factor.
    """
    xp = array_module(roots)

    def of_different(some: Array) -> Array:
        ordered = xp.sort(some, axis=0)
        number = 1 + (ordered[1:] != ordered[:-1]).sum(axis=0)
        return xp.minimum(xp.sqrt(number), MOST_CANCELLED)

    few = roots[:_FEW] if xp is np else roots  # a device's answer would be waited for
    factor = of_different(few)
    if len(few) < len(roots) and factor.min() < MOST_CANCELLED:
        factor = of_different(roots)
    if not gap:
        return factor
    roots = roots.astype(np.float64)
    average, square = mean(xp, roots), mean(xp, roots * roots)
    flat = average * average / xp.where(square > 0, square, 1.0)
    return factor * xp.minimum(flat / FLAT, 1.0)


def pixel_weights(scaling: Scaling, first: int = 2) -> np.ndarray:
    """Return the weights of the E of pixels, (d,), in multiples of 2^-10.

    They are 1, but for the equivariant head: K at a pixel has a share in the kernel at pixel 1. The
    weight is the largest share of the layers from the `first` on. Sums stay exact (`MOST_E`).
    """
    if not scaling.equivariant:
        return np.ones(scaling.d)
    share, reach, weights = scaling.network.branch_share, np.zeros(scaling.d), np.zeros(scaling.d)
    reach[0] = 1.0  # the share of F; `weights` are the largest shares of K
    for layer in range(scaling.depth, first - 1, -1):
        branch = circular_mean(reach, *scaling.outer_filter(layer))
        weights = np.maximum(weights, branch)
        reach = (1 - share) * reach + share * circular_mean(branch, *scaling.inner_filter(layer))
    return np.ceil(weights * 1024.0) / 1024.0
