"""Pictures of kernels, decisions and the theory. Matplotlib is imported when one is drawn."""

from .curves import learning_curve
from .depth import condition_numbers, depth_and_width, limit_distances
from .estimators import contributions, view_weights
from .style import FIGURE_SIZE, figure

__all__ = [
    "FIGURE_SIZE",
    "condition_numbers",
    "contributions",
    "depth_and_width",
    "figure",
    "learning_curve",
    "limit_distances",
    "view_weights",
]
