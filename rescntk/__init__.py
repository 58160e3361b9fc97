"""Exact kernels of infinitely wide convolutional ResNets, for multi-channel 1-D signals."""

from importlib import import_module
from typing import Any

from . import engines, literature, regression, theory
from ._version import __version__
from .kernels import CGPK, CNTK, Kernel, ResCGPK, ResCNTK, gram, pixel_pairs, pixel_shares
from .network import Network

__all__ = [
    "CGPK",
    "CNTK",
    "Kernel",
    "Network",
    "ResCGPK",
    "ResCNTK",
    "__version__",
    "engines",
    "gram",
    "literature",
    "pixel_pairs",
    "pixel_shares",
    "regression",
    "theory",
]

_ON_USE = ("datasets", "derivative", "finite", "jax", "learn", "plots", "stored")
"""Modules imported when they are first used: some need packages that are extras."""


def __getattr__(name: str) -> Any:
    if name not in _ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return import_module(f".{name}", __name__)
    except ImportError as error:  # the message names the extra to install
        raise AttributeError(str(error)) from error


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
