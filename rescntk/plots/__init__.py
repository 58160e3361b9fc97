"""Pictures of the theory's results. Matplotlib is imported when one is drawn."""

from .conditioning import condition_numbers, condition_ratios
from .degeneracy import degenerate_regression, distances_from_limits, kernels_over_depth
from .depth import limit_distances, limit_profiles
from .learning import gram_matrix, parity, pass_weights
from .locality import receptive_field_widths, receptive_fields
from .smoothness import (
    functions_on_circle,
    gaussian_ratios,
    interpolations,
    kernel_shapes,
    kernel_spectra,
    posteriors,
)
from .spectrum import decay_exponents, eigenvalue_decay, ensemble
from .style import SIZE, figure

__all__ = [
    "SIZE",
    "condition_numbers",
    "condition_ratios",
    "decay_exponents",
    "degenerate_regression",
    "distances_from_limits",
    "eigenvalue_decay",
    "ensemble",
    "figure",
    "functions_on_circle",
    "gaussian_ratios",
    "gram_matrix",
    "interpolations",
    "kernel_shapes",
    "kernel_spectra",
    "kernels_over_depth",
    "limit_distances",
    "limit_profiles",
    "parity",
    "pass_weights",
    "posteriors",
    "receptive_field_widths",
    "receptive_fields",
]
