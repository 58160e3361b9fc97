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

from .forward import apply  # noqa: E402
from .parameters import Layer, Parameters, init  # noqa: E402
from .sampling import (  # noqa: E402
    Concentration,
    ConcentrationRow,
    KernelEstimate,
    concentration,
    gpk,
    samples,
)
from .tangent import ntk  # noqa: E402
from .training import Flow, Training, kernel_flow, train  # noqa: E402

__all__ = [
    "Concentration",
    "ConcentrationRow",
    "Flow",
    "KernelEstimate",
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
