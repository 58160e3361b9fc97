"""Learning curves of kernel regression: the expected error over the number of signals.

``curves`` predicts them from a spectrum and measures them on a pool of signals; ``complexity``
says how many signals of the multi-sphere a network needs for a frequency.
"""

from .complexity import ComplexityRow, SampleComplexity, sample_complexity
from .curves import (
    CurveRow,
    LearningCurve,
    alignment,
    curve,
    effective_dimension,
    from_gram,
    measure,
)

__all__ = [
    "ComplexityRow", "CurveRow", "LearningCurve", "SampleComplexity", "alignment", "curve",
    "effective_dimension", "from_gram", "measure", "sample_complexity",
]  # fmt: skip
