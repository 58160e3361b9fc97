"""The doubt about a kernel in the form of distances: where it may have lost digits.

Each doubtful pixel pair has an E, the error of κ0 in rounding units. A pair of signals whose sum
of counted E is too large is computed again from deficits (deficits.py, docs/theory/deficits.md).
"""

from __future__ import annotations

from typing import Any

from ..arrays import Array, array_module, smaller

DOUBTFUL = 8.0
"""The E = (D + |q1 − q2|/2)/√a, in mean variances of the layer, that makes a pixel pair doubtful.

a = min(w, 2 − w). D − z has a rounding error of about eps (D + |q1 − q2|/2), the second term
from the roots in z = (√q1 − √q2)²/2. κ0 turns it into eps E. A larger number overlooks errors of
up to this many rounding units. A smaller one makes the compiled loops leave their vectors more
often: of vectors of 32 pixel pairs (Gaussian signals, q = 3 and 9, 1 and 4 channels) at most
0.3 % have an E above 8, 10 % above 4 and 66 % above 2. The mean E is about 1 there.
"""

MOST_DOUBT = {"float64": 16.0, "float32": 8.0}
"""The mean of E over pixel pairs, doubtful ones alone, that a layer of a kernel may have.

All layers together may have it twice. Kernels above are computed again from deficits
(deficits.py). A larger number leaves larger errors; a smaller one repeats more kernels. Errors of
layers add up: of 1200 networks and pairs of near-parallel signals (depth 2 to 50), 99 % err by at
most 1.3 eps for each unit of E, summed over layers, in float64, and by 0.6 in float32. Hill
climbing (depth 20, filters of one pixel) ends at 21 and 9 eps; with 16 and 8 in every layer it
reached 199 and 17. With q = 3 and 9, Gaussian signals and random walks of 60 pixels have at most
0.1 in all layers of any depth up to 50.
"""

MOST_CANCELLED = 12.0
"""φ: two signals of d' different pixels may have min(φ, √d') times as much doubt as equal pixels.

Rounding errors at different pixels cancel (docs/theory/deficits.md). A larger number repeats fewer
kernels and leaves larger errors. With 12, kernels of GunPoint (150 time points, filters of 3,
depths 5 and 20) differ from deficits by at most 7e-16 in float64 and 1.2e-7 in float32.
"""

LONE_E = {"float64": 128.0, "float32": 24.0}
"""The E that counts twice: E counts E min(1 + E/LONE_E, φ), as a few large errors cancel less.

A larger number repeats fewer kernels; lognormal pixels erred by 1.3e-6 in float32 with 96.
"""

MOST_E = {"float64": 2.0**27, "float32": 2.0**13}
"""The largest E of a pixel pair. Exactly parallel pixels have an infinite one.

Their w is a rounding error of some eps, and κ0 errs by √eps: 2^26 and 2^12 rounding units. Sums of
whole numbers below 2^53 do not depend on the order. A larger number doubts pairs that are right; a
smaller one may overlook few pixel pairs among very many.
"""


def counted_doubt(E: Any, layer: Any) -> Any:
    """Return what an E counts, at most φ E; `layer` has the constants (`Scaling.constants`)."""
    E = smaller(E, layer.most_E)
    return E * smaller(layer.per_lone_E * E + 1.0, layer.most_cancelled)


def cancelled(roots: Array) -> Array:
    """Return min(φ, √d') of signals with d' different numbers in the table `roots`, (d, cases)."""
    xp = array_module(roots)
    roots = xp.sort(roots, axis=0)
    different = 1 + (roots[1:] != roots[:-1]).sum(axis=0)
    return xp.minimum(xp.sqrt(different), MOST_CANCELLED)
