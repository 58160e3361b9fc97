"""The theory around the kernels, as things one can compute, plot and check.

A part is imported when it is first used: all of them take longer than the kernels do.
"""

from importlib import import_module
from typing import Any

__all__ = [
    "conditioning", "depth", "learning", "locality", "multisphere", "paths", "smoothness",
    "spectrum",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
