"""The theory around the kernels, as things one can compute, plot and check."""

from . import conditioning, degeneracy, multisphere, smoothness

__all__ = ["conditioning", "degeneracy", "multisphere", "smoothness"]
