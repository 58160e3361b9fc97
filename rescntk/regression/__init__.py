r"""Regression with a kernel: interpolation, ridge, gradient flow, and the posterior of a GP.

Every predictor here is :math:`f(x) = \sum_i \beta_i K(x, x_i)`. The functions take a kernel
matrix and return coefficients β; ``kernel(Z, X) @ coefficients`` predicts. The Gaussian process
kernel of a network gives Bayesian inference under the network's prior: training the last layer
alone. The neural tangent kernel gives the network that gradient descent on all parts arrives at.

`solve` takes one ridge; its Cholesky factorization is the cheapest way. For matrices that are too
large, `solve` multiplies them only, and `pivoted_cholesky` speeds it up. `decompose` takes one
eigendecomposition, after which any ridge, all leave-one-out errors and any time of gradient flow
cost O(n²). `restricted_ridge` computes n·k pairs, the columns of k landmarks.
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
