r"""Regression with a kernel: interpolation, ridge, gradient flow, and the posterior of a GP.

Every predictor is :math:`f(x) = \sum_i \beta_i K(x, x_i)`: functions take a kernel matrix and
return coefficients β, and ``kernel(Z, X) @ coefficients`` predicts. `solve` takes one ridge, and
`decompose` serves all ridges, leave-one-out errors and times of gradient flow. Where matrices are
too large, `solve` multiplies them only, and `restricted_ridge` takes the columns of k landmarks.
"""

from .decomposition import Decomposition, decompose
from .pivoted_cholesky import LowRank, pivoted_cholesky
from .restricted_ridge import (
    FeatureRidge,
    LandmarkMap,
    RestrictedRidge,
    landmark_map,
    restricted_ridge,
)
from .ridge import Posterior, Solution, conjugate_gradients, interpolate, posterior, solve

__all__ = [
    "Decomposition",
    "FeatureRidge",
    "LandmarkMap",
    "LowRank",
    "Posterior",
    "RestrictedRidge",
    "Solution",
    "conjugate_gradients",
    "decompose",
    "interpolate",
    "landmark_map",
    "pivoted_cholesky",
    "posterior",
    "restricted_ridge",
    "solve",
]
