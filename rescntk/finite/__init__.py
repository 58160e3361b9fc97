"""Finite networks: any `Network`, finitely wide. Initialize, apply, train, and take its kernels.

A `Network` describes an infinitely wide network. Here the same object is a network of a given
width, in the parametrization of ``rescntk.network``, in JAX.
"""

from importlib.util import find_spec

if find_spec("jax") is None or find_spec("optax") is None:
    raise ImportError("rescntk.finite needs jax and optax: pip install 'rescntk[finite]'")

from .forward import apply
from .kernels import gpk, ntk
from .parameters import Layer, Parameters, init
from .training import Training, train

__all__ = ["Layer", "Parameters", "Training", "apply", "gpk", "init", "ntk", "train"]
