"""Smoothness of the functions that fully connected networks interpolate with.

Tirer, Bruna, Giryes 2022. ``interpolants`` has functions on the circle, ``measures`` what one
measures of them, ``bounds`` the bounds on Jacobians (``docs/theory/smoothness.md``).
"""

from .bounds import alpha_threshold, jacobian_bound
from .interpolants import circle, gaussian_kernel, grid, interpolation
from .measures import curvature, gaussian_rkhs_norm, gaussian_rkhs_ratio

__all__ = [
    "alpha_threshold",
    "circle",
    "curvature",
    "gaussian_kernel",
    "gaussian_rkhs_norm",
    "gaussian_rkhs_ratio",
    "grid",
    "interpolation",
    "jacobian_bound",
]
