"""Finite networks: any `Network`, finitely wide. Initialize, apply, train, and take its kernels.

The parametrization is of ``rescntk.network``; arrays are of JAX.
"""

from importlib.util import find_spec

if find_spec("jax") is None or find_spec("optax") is None:
    raise ImportError("rescntk.finite needs jax and optax: pip install 'rescntk[finite]'")

from .correction import Correction, correction
from .forward import apply
from .kernels import mean_gpk, ntk
from .parameters import Convolution, Parameters, init
from .training import Training, train

__all__ = [
    "Convolution",
    "Correction",
    "Parameters",
    "Training",
    "apply",
    "correction",
    "init",
    "mean_gpk",
    "ntk",
    "train",
]
