"""The theory around the kernels, as things one can compute, plot and check."""

from . import conditioning, depth, families, limits, multisphere

__all__ = ["conditioning", "depth", "families", "limits", "multisphere"]
