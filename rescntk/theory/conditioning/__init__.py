"""Condition numbers of kernel matrices over depth.

Barzilai et al. 2022, section 6.2, compare a normalized kernel matrix with a *double-constant*
matrix B: 1 on the diagonal, elsewhere the mean off-diagonal entry b. ``condition`` has lemma 6.1
and asymptotes, ``comparison`` condition numbers with and without skip connections, ``mean_entries``
the b of both, and ``separation`` a bound on the least eigenvalue.
"""

from .comparison import Comparison, compare
from .condition import Bounds, asymptotic_condition_number, bounds, condition_number
from .mean_entries import MeanEntries, mean_entries
from .separation import separation_bound

__all__ = [
    "Bounds",
    "Comparison",
    "MeanEntries",
    "asymptotic_condition_number",
    "bounds",
    "compare",
    "condition_number",
    "mean_entries",
    "separation_bound",
]
