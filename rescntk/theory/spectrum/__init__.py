"""Spectra of kernels on the multi-sphere: Barzilai et al. 2022, section 5, appendices C, D, G.

``grid`` evaluates a kernel on tensor grids of dot products. ``quadrature`` integrates over a
pixel's sphere. ``funk_hecke`` makes eigenvalues of both.
"""

from .funk_hecke import Spectrum, cost, eigenvalues
from .quadrature import harmonics, multiplicities

__all__ = ["Spectrum", "cost", "eigenvalues", "harmonics", "multiplicities"]
