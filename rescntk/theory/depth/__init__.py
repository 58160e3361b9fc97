r"""Kernels of deep networks: limits at infinite depth, rates of convergence, and a check of both.

``laws`` predicts the limit and the rate of a family of networks with :math:`\alpha = a
L^{-\gamma}`. ``half_power`` integrates the limit at :math:`\gamma = \frac12`. ``rates`` has closed
forms. ``effective`` has the sum over layers that decides how far a network of any layers has gone.
``scales`` has the layers in which pixels even out, and ``votes`` the classifier of infinite
depth. ``checker`` compares predictions with kernels (``docs/theory/depth_limits.md``).
"""

from .checker import ConvergenceReport, FittedExponent, check_convergence
from .effective import ComplementBounds, complement_bounds, effective_depth, without_normalization
from .laws import Family, Prediction, one_layer_kernel
from .rates import asymptotic_complement, ffnet_limit, ffnet_rate, resnet_limit, resnet_rate
from .scales import DepthScales, scales
from .votes import LimitClassifier, limit_classifier

__all__ = [
    "ComplementBounds", "ConvergenceReport", "DepthScales", "Family", "FittedExponent",
    "LimitClassifier", "Prediction", "asymptotic_complement", "check_convergence",
    "complement_bounds", "effective_depth", "ffnet_limit", "ffnet_rate", "limit_classifier",
    "one_layer_kernel", "resnet_limit", "resnet_rate", "scales", "without_normalization",
]  # fmt: skip
