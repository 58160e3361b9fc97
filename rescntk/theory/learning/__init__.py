r"""Learning curves, numbers of signals and times to learn, from the spectrum.

Bordelon, Canatar and Pehlevan 2020; Canatar, Bordelon and Pehlevan 2021; Simon et al. 2021
(``docs/theory/learning_curves.md``). A kernel has eigenvalues λ_i and the target the coefficients
v_i. With n signals and the penalty δ, κ solves :math:`\sum_i \lambda_i/(\lambda_i+\kappa) +
\delta/\kappa = n`, and the *learnability* of mode i is :math:`L_i = \lambda_i/(\lambda_i+\kappa)`.
Gradient flow from 0 learns the share :math:`1 - e^{-\lambda t}` of it (Barzilai et al. 2022, 5.1).
"""

from .complexity import ComplexityRow, SampleComplexity, sample_complexity
from .curves import CurveRow, LearningCurve, curve, from_gram
from .exponent import exponent
from .flows import (
    LearnedFractions,
    LearningTimes,
    LearningTimesRow,
    learned_fractions,
    learning_times,
)

__all__ = [
    "ComplexityRow", "CurveRow", "LearnedFractions", "LearningCurve", "LearningTimes",
    "LearningTimesRow", "SampleComplexity", "curve", "exponent", "from_gram", "learned_fractions",
    "learning_times", "sample_complexity",
]  # fmt: skip
