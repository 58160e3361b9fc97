"""Regression with a kernel: interpolation, ridge, gradient flow, and the posterior of a GP.

Functions take a kernel matrix and return coefficients β; ``kernel(Z, X) @ coefficients`` predicts.
`solve` takes one ridge, and `decompose` serves all ridges and times of gradient flow. For large
matrices there are conjugate gradients, and `restricted_ridge` on the columns of k landmarks.
`learn_signals` moves the landmarks, so that a few predict like all signals. `channel_metric` and
`channel_weights` say which channels decide.
"""

from .channels import ChannelMetric, channel_metric, channel_weights
from .decomposition import Decomposition, decompose
from .ensemble import Ensemble, ensemble
from .learned_signals import LearnedSignals, learn_signals
from .pivoted_cholesky import LowRank, pivoted_cholesky
from .restricted_ridge import (
    FeatureRidge,
    LandmarkMap,
    RestrictedRidge,
    landmark_map,
    restricted_ridge,
)
from .ridge import Posterior, Solution, interpolate, posterior, solve

__all__ = [
    "ChannelMetric", "Decomposition", "Ensemble", "FeatureRidge", "LandmarkMap", "LearnedSignals",
    "LowRank", "Posterior", "RestrictedRidge", "Solution", "channel_metric", "channel_weights",
    "decompose", "ensemble", "interpolate", "landmark_map", "learn_signals", "pivoted_cholesky",
    "posterior", "restricted_ridge", "solve",
]  # fmt: skip
