"""Spectra of kernels on the multi-sphere: Barzilai et al. 2022, section 5, appendices C, D, G.

``grid`` evaluates a kernel on tensor grids of dot products. ``quadrature`` integrates over a
pixel's sphere. ``funk_hecke`` makes eigenvalues of both, and ``result`` has what these tell.
``taylor`` has kernels as power series, of which ``constants`` makes theorem 5.1's bounds on
eigenvalues. ``exponents`` has the decay of eigenvalues with frequency.
"""

from .constants import DecayConstants, decay_constants
from .exponents import DecayTable, decay_exponents, decay_law
from .funk_hecke import cost, eigenvalues
from .quadrature import harmonics
from .result import Spectrum
from .taylor import taylor_coefficients

__all__ = [
    "DecayConstants",
    "DecayTable",
    "Spectrum",
    "cost",
    "decay_constants",
    "decay_exponents",
    "decay_law",
    "eigenvalues",
    "harmonics",
    "taylor_coefficients",
]
