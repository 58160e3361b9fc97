"""Spectra of kernels on the multi-sphere: Barzilai et al. 2022, section 5, appendices C, D, G.

``grid`` evaluates a kernel on tensor grids of dot products. ``quadrature`` integrates over a
pixel's sphere. ``funk_hecke`` makes eigenvalues of both. ``decay`` compares eigenvalues with
theorem 5.1.
"""

from .decay import DecayExponents, FrequencyDecay, decay_exponents, singularity_exponent
from .funk_hecke import Cost, Spectrum, cost, eigenvalues
from .quadrature import harmonics, multiplicities

__all__ = [
    "Cost",
    "DecayExponents",
    "FrequencyDecay",
    "Spectrum",
    "cost",
    "decay_exponents",
    "eigenvalues",
    "harmonics",
    "multiplicities",
    "singularity_exponent",
]
