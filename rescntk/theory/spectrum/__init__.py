"""Spectra of kernels on the multi-sphere: Barzilai et al. 2022, section 5, appendices C, D, G.

``grid`` evaluates a kernel on tensor grids of dot products, ``quadrature`` integrates over a
pixel's sphere, and ``funk_hecke`` makes eigenvalues of the two. ``decay`` and ``ensemble`` hold
them against theorems 5.1 and 5.2; ``taylor`` computes theorem 5.1's constants.
"""

from .decay import DecayExponents, FrequencyDecay, decay_exponents, singularity_exponent
from .ensemble import EnsembleFit, Mixture, fit_ensemble, mixture
from .funk_hecke import Cost, Spectrum, cost, eigenvalues
from .quadrature import harmonics, multiplicities, zonal
from .taylor import DecayConstants, decay_constants, taylor_coefficients, zonal_moments

__all__ = [
    "Cost",
    "DecayConstants",
    "DecayExponents",
    "EnsembleFit",
    "FrequencyDecay",
    "Mixture",
    "Spectrum",
    "cost",
    "decay_constants",
    "decay_exponents",
    "eigenvalues",
    "fit_ensemble",
    "harmonics",
    "mixture",
    "multiplicities",
    "singularity_exponent",
    "taylor_coefficients",
    "zonal",
    "zonal_moments",
]
