"""Pictures of the theory's results. Matplotlib is imported when one is drawn."""

from .conditioning import condition_numbers, condition_ratios
from .locality import receptive_field_widths, receptive_fields
from .spectrum import decay_exponents, eigenvalue_decay, ensemble
from .style import SIZE, figure

__all__ = [
    "SIZE",
    "condition_numbers",
    "condition_ratios",
    "decay_exponents",
    "eigenvalue_decay",
    "ensemble",
    "figure",
    "receptive_field_widths",
    "receptive_fields",
]
