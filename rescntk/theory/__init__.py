"""The theory around the kernels, as things one can compute, plot and check."""

from . import conditioning, locality, multisphere, spectrum

__all__ = ["conditioning", "locality", "multisphere", "spectrum"]
