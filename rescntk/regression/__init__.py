r"""Regression with a kernel matrix K: interpolation, ridge, gradient flow, Gaussian processes.

Functions return coefficients β; ``kernel(Z, X) @ coefficients`` predicts. `decompose` finds the
eigenvalues of K once, for all penalties and times; `decompose_features` finds the eigenvalues of
:math:`\Phi \Phi^\top`. For large matrices, `pivoted_cholesky` takes a few columns of K, and `solve`
only multiplies K. Results beyond float64 raise an OverflowError.
"""

from .decomposition import Decomposition, decompose, decompose_features
from .direct import flow, interpolate, leave_one_out, ridge
from .gaussian_process import Posterior, ensemble, evidence, posterior
from .iterative import solve
from .landmarks import LowRank, pivoted_cholesky

__all__ = [
    "Decomposition",
    "LowRank",
    "Posterior",
    "decompose",
    "decompose_features",
    "ensemble",
    "evidence",
    "flow",
    "interpolate",
    "leave_one_out",
    "pivoted_cholesky",
    "posterior",
    "ridge",
    "solve",
]
