"""Finite networks: any `Network`, finitely wide. Initialize, apply, train, and take its kernels.

A `Network` describes an infinitely wide network. Here the same object is a network of a given
width, in the parametrization of ``rescntk.network``, in JAX.
"""

try:
    import jax
    import optax
except ModuleNotFoundError:
    raise ImportError("rescntk.finite needs jax and optax: pip install 'rescntk[finite]'") from None

del jax, optax

from .concentration import Concentration, ConcentrationRow, concentration  # noqa: E402
from .flow import Flow, kernel_flow  # noqa: E402
from .forward import apply  # noqa: E402
from .parameters import Layer, Parameters, init  # noqa: E402
from .records import Training  # noqa: E402
from .sampling import Estimate, gpk, samples  # noqa: E402
from .tangent import ntk  # noqa: E402
from .training import train  # noqa: E402

__all__ = [
    "Concentration",
    "ConcentrationRow",
    "Estimate",
    "Flow",
    "Layer",
    "Parameters",
    "Training",
    "apply",
    "concentration",
    "gpk",
    "init",
    "kernel_flow",
    "ntk",
    "samples",
    "train",
]
