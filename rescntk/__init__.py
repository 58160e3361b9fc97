"""Exact kernels of infinitely wide convolutional ResNets, for multi-channel 1-D signals."""

from . import activations, engines, literature, regression, theory
from ._version import __version__
from .kernels import CGPK, CNTK, Kernel, ResCGPK, ResCNTK, gram, pixel_pairs
from .network import Network

__all__ = [
    "CGPK",
    "CNTK",
    "Kernel",
    "Network",
    "ResCGPK",
    "ResCNTK",
    "__version__",
    "activations",
    "engines",
    "gram",
    "literature",
    "pixel_pairs",
    "regression",
    "theory",
]
