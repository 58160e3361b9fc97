"""Pictures of kernels, decisions and the theory. Matplotlib is imported when one is drawn."""

from .changes import counterfactual, learned_signals
from .depth import condition_numbers, limit_distances
from .learning import channels, contributions, gram_matrix, pass_weights
from .samples import forecast, learning_curve
from .style import SIZE, figure

__all__ = [
    "SIZE", "channels", "condition_numbers", "contributions", "counterfactual", "figure",
    "forecast", "gram_matrix", "learned_signals", "learning_curve", "limit_distances",
    "pass_weights",
]  # fmt: skip
