"""Pictures of the theory's results. Matplotlib is imported when one is drawn."""

from .conditioning import condition_numbers, condition_ratios
from .learning import gram_matrix, parity, search_errors
from .style import SIZE, figure

__all__ = [
    "SIZE",
    "condition_numbers",
    "condition_ratios",
    "figure",
    "gram_matrix",
    "parity",
    "search_errors",
]
