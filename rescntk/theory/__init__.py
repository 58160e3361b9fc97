"""The theory around the kernels, as things one can compute, plot and check.

- ``conditioning``: condition numbers of kernel matrices over depth, and bounds on them.
- ``depth``: limits of kernels at infinite depth, rates of convergence, a check of both.
- ``learning``: learning curves, numbers of signals, what gradient flow has learned when, means of
  kernels over groups of symmetries.
- ``locality``: effective receptive fields and their widths.
- ``multisphere``: signals whose pixels have one norm, and the kernels' recursion on them.
- ``paths``: numbers of paths of convolutions, theorem 5.2, the stride-q kernel.
- ``smoothness``: interpolants on the circle, measures of their smoothness, bounds on Jacobians.
- ``spectrum``: eigenvalues on the multi-sphere, and theorem 5.1 on their decay.

A part is imported when it is first used: all of them take longer than the kernels do.
"""

from importlib import import_module
from types import ModuleType

__all__ = [
    "conditioning",
    "depth",
    "learning",
    "locality",
    "multisphere",
    "paths",
    "smoothness",
    "spectrum",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
