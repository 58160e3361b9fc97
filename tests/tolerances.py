"""Every tolerance of the suite, with the arithmetic it comes from. Nothing is loosened elsewhere.

EPS is the distance from 1 to the next number. A test passes where ``error <= tolerance``;
NaN does not.
"""

import numpy as np

EPS = {dtype: float(np.finfo(dtype).eps) for dtype in ("float64", "float32")}

# |ΔK| / √(K(x,x) K(z,z)) against 40-digit arithmetic, up to depth 50, duplicates included. A
# layer adds its terms with a handful of roundings; the skip path carries them on undamped. 45
# units would be one a layer: both bars are about that, and measured errors a tenth of them.
KERNEL = {"float64": 1e-14, "float32": 1e-6}


def nearly_tied(dtype, ratio):
    """Return the bar where features are nearly, not exactly, parallel and unequally long.

    Their distance D exceeds the least that such norms allow, z, by less than both are rounded:
    what is below TIE_UNITS eps |q1 − q2| counts as nothing. With |q1 − q2| = ratio · g, κ0 =
    1 − √(2w)/π then misses √(2w)/π at most.
    """
    return float(np.sqrt(2 * 16 * EPS[dtype] * ratio) / np.pi)


def erf_spread(variance):
    """Return by how much erf's bars are wider at pre-activations of this variance.

    E[σ'σ'] = (4/π)/√Δ with Δ = 1 + 2q1 + 2q2 + 4(g − S)(g + S). Where S is near −g, an error
    of eps·g in it moves Δ by 8 g² eps, which is at least 1 + 4g: relatively, by up to 2 g eps.
    """
    return max(1.0, variance)


# neural-tangents' own errors, as its maintainers' formulas have them: ρ is rounded to eps, and
# κ0 has a square root at ρ = ±1. Relative to √(K(x,x) K(z,z)).
PEER = {"gpk": 1e-11, "ntk": 2e-8}

# Two float64 routes to one number that are both free of cancellation: some ten roundings a
# layer, at most ten layers.
ROUTES = 100 * EPS["float64"]

# The same where one route goes through ρ (papers' recursions in tests/oracles): κ0 of a random
# pair turns eps in ρ into eps/√(1−ρ), and random pairs stay a percent away from ρ = ±1.
TRANSCRIPTION = 1e-13

# λ_min of a positive semidefinite matrix may be this many eps·n·λ_max below 0.
DEFINITE = 10


def complement(depth):
    """Return the relative error allowed for the complement of the multi-sphere recursion.

    Some twenty roundings on the way, and one a layer that stays: constants such as α².
    """
    return (20 + depth) * EPS["float64"]


def asymptote(depth, slowdown, start):
    """Return by how much, relatively, a complement may differ from the asymptotic law.

    With u = δ^(-1/2) a layer is u ← u + c/(2s) + (3/8)(c/s)²/u + …, where c = 2√2/(3π): so
    δ = (4s²/c²L²) (1 − (3 log L + 4s/(c √δ_1))/L + …), from the start δ_1.
    """
    c = 2 * np.sqrt(2) / (3 * np.pi)
    return (3 * np.log(depth) + 4 * slowdown / (c * np.sqrt(start))) / depth


# Sampled networks: so many standard errors, from independent networks. For normal errors 5
# would fail once in 2 million; with 11 degrees of freedom once in 2 500 numbers.
STANDARD_ERRORS = 5.0


def sensitivity(depth):
    """Return the bar for |Δ ∂K/∂log α| / √(K(x,x) K(z,z)).

    Along depth log K grows by at most 2α²/(1+α²) < 2 a layer per unit of log α, so a derivative
    is up to 2·depth kernels large, each with the rounding errors of `KERNEL`.
    """
    return 2 * depth * KERNEL["float64"]
