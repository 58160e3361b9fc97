r"""Kernels of deep networks: limits at infinite depth, rates of convergence, and a check of both.

``laws`` predicts the limit and the rate of a family of networks with :math:`\alpha = a
L^{-\gamma}`, ``asymptote`` the law of Gaussian process kernels. ``half_power`` integrates the limit
at :math:`\gamma = \frac12`. ``huang`` has the theorems on two fully connected networks in closed
form. ``effective`` has the sum over layers that decides how far a network of any layers has gone.
``scales`` has the layers in which pixels even out, ``votes`` the classifier of infinite depth, and
``width`` how much kernels of sampled networks vary. ``checker`` compares predictions with kernels.
Pages: ``docs/theory/depth_limits.md``, ``depth_rates.md``, ``depth_scales.md``,
``effective_depth.md``, ``infinite_classifier.md``, ``depth_and_width.md`` and ``depth_checks.md``.
"""

from .asymptote import asymptotic_complement
from .checker import ConvergenceReport, FittedExponent, check_convergence
from .effective import ComplementBounds, complement_bounds, effective_depth, without_normalization
from .half_power import flow_limit
from .huang import (
    huang_ffnet_distance,
    huang_ffnet_limit,
    huang_resnet_constant,
    huang_resnet_limit,
)
from .laws import Family, Prediction, one_layer_kernel
from .scales import DepthScales, mode_scales
from .votes import LimitClassifier, limit_classifier
from .width import relative_variance

__all__ = [
    "ComplementBounds",
    "ConvergenceReport",
    "DepthScales",
    "Family",
    "FittedExponent",
    "LimitClassifier",
    "Prediction",
    "asymptotic_complement",
    "check_convergence",
    "complement_bounds",
    "effective_depth",
    "flow_limit",
    "huang_ffnet_distance",
    "huang_ffnet_limit",
    "huang_resnet_constant",
    "huang_resnet_limit",
    "limit_classifier",
    "mode_scales",
    "one_layer_kernel",
    "relative_variance",
    "without_normalization",
]
