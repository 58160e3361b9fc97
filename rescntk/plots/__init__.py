"""Pictures of the theory's results. Matplotlib is imported when one is drawn."""

from .conditioning import condition_numbers
from .degeneracy import kernels_over_depth
from .depth import limit_distances, limit_profiles
from .learning import gram_matrix, pass_weights
from .locality import receptive_fields
from .smoothness import functions_on_circle, interpolations, kernel_shapes, kernel_spectra
from .spectrum import eigenvalue_decay
from .style import SIZE, figure

__all__ = [
    "SIZE",
    "condition_numbers",
    "eigenvalue_decay",
    "figure",
    "functions_on_circle",
    "gram_matrix",
    "interpolations",
    "kernel_shapes",
    "kernel_spectra",
    "kernels_over_depth",
    "limit_distances",
    "limit_profiles",
    "pass_weights",
    "receptive_fields",
]
