r"""Learning curves, numbers of signals and times to learn, from the spectrum; symmetries.

Bordelon, Canatar and Pehlevan 2020; Canatar, Bordelon and Pehlevan 2021; Simon et al. 2021
(``docs/theory/learning_curves.md``). A kernel has eigenvalues λ_i and the target the coefficients
v_i. With n signals and the penalty δ, κ solves :math:`\sum_i \ell_i + \delta/\kappa = n`, where
:math:`\ell_i = \lambda_i/(\lambda_i+\kappa)` is the *learned fraction* of mode i. By gradient
flow from 0 it is :math:`1 - e^{-\lambda t}` at the time t (Barzilai et al. 2022, 5.1).

Kernels that do not see symmetries have a page of their own (``docs/theory/changed_kernels.md``).
"""

from .complexity import SampleComplexity, sample_complexity
from .curves import LearningCurve, curve, pool_curve
from .exponent import error_exponent
from .flows import LearnedByFrequency, LearnedFractions, learned_by_frequency, learned_fractions
from .symmetry import symmetrized

__all__ = [
    "LearnedByFrequency",
    "LearnedFractions",
    "LearningCurve",
    "SampleComplexity",
    "curve",
    "error_exponent",
    "learned_by_frequency",
    "learned_fractions",
    "pool_curve",
    "sample_complexity",
    "symmetrized",
]
