"""The theory around the kernels, as things one can compute, plot and check."""

from . import (
    conditioning,
    degeneracy,
    depth,
    families,
    jacobian,
    limits,
    locality,
    multisphere,
    smoothness,
    spectrum,
)

__all__ = [
    "conditioning",
    "degeneracy",
    "depth",
    "families",
    "jacobian",
    "limits",
    "locality",
    "multisphere",
    "smoothness",
    "spectrum",
]
