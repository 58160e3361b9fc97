"""Pictures of the theory's results. Matplotlib is imported when one is drawn."""

from .conditioning import condition_numbers, condition_ratios
from .locality import receptive_field_widths, receptive_fields
from .style import SIZE, figure

__all__ = [
    "SIZE",
    "condition_numbers",
    "condition_ratios",
    "figure",
    "receptive_field_widths",
    "receptive_fields",
]
