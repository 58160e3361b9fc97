"""The theory around the kernels, as things one can compute, plot and check."""

from . import conditioning, multisphere, spectrum

__all__ = ["conditioning", "multisphere", "spectrum"]
