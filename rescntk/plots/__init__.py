"""Pictures of the theory's results. Matplotlib is imported when one is drawn."""

from .conditioning import condition_numbers, condition_ratios
from .degeneracy import distances_from_limits, kernels_over_depth
from .smoothness import (
    functions_on_circle,
    gaussian_ratios,
    interpolations,
    kernel_shapes,
    kernel_spectra,
)
from .style import SIZE, figure

__all__ = [
    "SIZE",
    "condition_numbers",
    "condition_ratios",
    "distances_from_limits",
    "figure",
    "functions_on_circle",
    "gaussian_ratios",
    "interpolations",
    "kernel_shapes",
    "kernel_spectra",
    "kernels_over_depth",
]
