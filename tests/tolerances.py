"""The tolerances that tests share, with the arithmetic they come from.

A bar of one formula or one approximation stands in its own test, with its reason. EPS is the
distance from 1 to the next number. A test passes where ``error <= tolerance``; NaN does not.
"""

import numpy as np

EPS = {dtype: float(np.finfo(dtype).eps) for dtype in ("float64", "float32")}

# |ΔK| / √(K(x,x) K(z,z)) against exact arithmetic, up to depth 50: about a unit a layer, with
# a handful of roundings, which skips carry on undamped. Measured errors are a tenth of it.
KERNEL = {"float64": 1e-14, "float32": 1e-6}

# The same for nearly equal signals, whose layers all round alike: half a unit of the NTK in each of
# three steps of 50 layers, 50 · 3 · eps/2; searches reached a half. The guide promises this.
PROMISED = {"float64": 2e-14, "float32": 5e-6}

# The same at depth 5000, normalized: a layer may add a tenth of a unit.
DEEP_KERNEL = 1e-12

# Golden values of the first edition, each within `KERNEL` of the truth, as today's are.
FIRST_EDITION = {"float64": 1e-14, "float32": 1e-6}

# The same for erf under GAP on waves: the mean over pixel pairs cancels to (3.6e-4)² of its terms,
# whose rounding errors it keeps. In 128 bits both editions err by up to 6e-11.
FIRST_EDITION_CANCELLED = EPS["float64"] / 3.6e-4**2 / 10

# neural-tangents' own errors, as its maintainers' formulas have them: ρ is rounded to eps, and
# κ0 has a square root at ρ = ±1. Relative to √(K(x,x) K(z,z)).
PEER = {"gpk": 1e-11, "ntk": 2e-8}

# Two float64 routes to one number without cancellation: ten roundings a layer, ten layers at most.
ROUTES = 100 * EPS["float64"]

# The same where one route goes through ρ, as the papers' recursions (tests/oracles). κ0 turns eps
# in ρ into eps/√(1−ρ), and random pairs stay a percent away from ρ = ±1.
TRANSCRIPTION = 1e-13

# Constants of layers by two formulas: three or four roundings.
CONSTANT = 4 * EPS["float64"]

# Signals as a view shows them, by plain formulas: a dozen roundings for each of eight steps.
SEEN = 100 * EPS["float64"]

# Probabilities from kernels in float32, beside float64: the kernels' errors have half of the least
# penalty as norm at most (`NetworkKernel.least_penalty`), and views average. Measured: 7e-6.
SINGLE = 1e-4

# By how much a number changes that changes at all, of signals of order 1.
CHANGED = 1e-9

# The place of a minimum of order 1 and curvature 2 or more, by a solver that sees values alone,
# which have errors of some eps.
MINIMUM = 10 * float(np.sqrt(EPS["float64"]))

# λ_min of a positive semidefinite matrix may be this many eps·n·λ_max below 0.
DEFINITE = 10

# Standard errors of independent sampled networks. For normal errors 5 would fail
# once in 2 million; with 11 degrees of freedom once in 2 500 numbers.
STANDARD_ERRORS = 5.0

# Derivatives by signals in units of the largest, at depth 2 and 3: some thirty roundings a layer.
# Measured: 7e-16.
GRADIENT = {"float64": 100 * EPS["float64"]}

# The same of the tangent kernel of signals that differ by 1e-6: its slope follows the direction of
# their difference, which unit vectors know to eps / 1e-6 = 2e-10. Measured: 2e-11.
GRADIENT_NEAR_EQUAL = 4e-10

# Seconds from Ctrl-C to the end of a call. Measured: 0.1 on an idle machine, which is how often a
# waiting thread looks (`work._WAKE_INTERVAL`).
REACTION = 0.3

# What default grids may leave of an eigenvalue as its estimated error, relative to it. A tangent
# kernel's cone on two pixels has an error like nodes^-6: (π/30)^6 = 1e-6 on the coarser grid of 30.
# Eigenvalues of frequency 16 on both pixels are hundreds of times closer to it.
SPECTRUM = 2e-3

# By how much a slope over centred frequencies may miss an exponent of up to 9. Next terms are
# relatively some 1/k², with k of 8 at the lowest: 9/8² = 0.14 and more.
SLOPE = 0.2

# The same where another cover of the pixels competes, three powers smaller: by three times its
# share, of a fifth at frequency 14.
COMPETITION = 0.6

# Slopes of learning curves beside their exponent. Parts of the error are smoother by a power
# n^-1/D, D ≤ 3, and bend slopes over 1000 to 4000 signals by a tenth of 4000^(1/3) at most. A
# regression on one sample of 1000 signals has a standard error of .03 besides.
CURVE_SLOPE = {"curve": 0.05, "regression": 0.1}

# An FFT of N samples errs by about eps log2(N) of the largest coefficient, N ≤ 4096; sums of its
# squares, and weights of one coefficient each, add a few units.
FOURIER = 100 * EPS["float64"]

# The flow at γ = ½ against Romberg's extrapolation of 8, …, 512 layers, a percent away from −1. The
# limit errs by half_power.ERROR at most. The extrapolation leaves L^-8 times factorials: 2e-13.
FLOW = 1e-11


def complement(depth):
    """Return the relative error of a multi-sphere complement: twenty roundings, one a layer."""
    return (20 + depth) * EPS["float64"]


def asymptote(depth, slowdown, start):
    """Return by how much, relatively, a complement may differ from the asymptotic law.

    Let u = δ^(-1/2) and c = 2√2/(3π). A layer is u ← u + c/(2s) + (3/8)(c/s)²/u + … . Then
    δ = (4s²/c²L²) (1 − (3 log L + 4s/(c √δ_1))/L + …), from the start δ_1.
    """
    c = 2 * np.sqrt(2) / (3 * np.pi)
    return (3 * np.log(depth) + 4 * slowdown / (c * np.sqrt(start))) / depth


def mode(layer, slowdown, start):
    """Return by how much a Fourier mode's multiplier at a layer may differ from `scales`'.

    Its correction is 3/l at most, from κ0 ~ √δ, which errs by half of δ's error, `asymptote`.
    """
    return 1.5 / layer * asymptote(layer, slowdown, start)


def receptive_field(depth, n_timepoints=1):
    """Return the relative error allowed for each weight of an effective receptive field.

    Constants of a layer carry a few roundings, and the weights their `depth`-th power; each of
    some 2 log2(depth) convolutions adds up at most n_timepoints positive terms.
    """
    return (20 + 8 * depth + np.log2(2 * depth) * n_timepoints) * EPS["float64"]


def printed(decimals):
    """Return half a unit of the last of some decimals, to which a page or a paper rounds."""
    return 0.5 * 10.0**-decimals


def added_up(n):
    """Return the error of a sum of n numbers, relative to the sum of their magnitudes."""
    return (10 + n) * EPS["float64"]


def regression(n, penalty):
    """Return the error of ridge regression on a normalized kernel of n signals: ‖K‖ ≤ n."""
    return solution(n, n / penalty)


def solution(n, condition, dtype="float64"):
    """Return the relative error allowed for (K + λI)⁻¹ y: K is perturbed by some n eps ‖K‖."""
    return 10 * n * EPS[dtype] * condition


def next_of_the_ffnet(depth):
    """Return what may be left of L(Ω̄ − ¼) − (3/8) log L after its constant: order log²(L)/L."""
    return np.log(depth) ** 2 / depth


def next_of_the_resnet(t, small):
    """Return the error allowed for c(t) from (Ω̄_L − Ω̄_1)/Lα², where Lα² is `small`.

    To second order: t moves by Lα² at most, which half of κ0'' = t/(π(1−t²)^(3/2)) multiplies.
    """
    return small * (1 + 1 / (2 * np.pi * (1 - t**2) ** 1.5))


def next_of_opposites(depth):
    """Return the relative error of −√2/(3π) L^(−1/2): twice the next term φ² = 2Lα² = 2/L."""
    return 4 / depth


def derivative(dtype):
    """Return the bar for |Δ ∂K/∂log α| / √(K(x,x) K(z,z)).

    With the relative step h = 2^-10 (2^-5 in float32) kernels that err by `KERNEL` let 4 D(h)/3 err
    by 4 KERNEL/3h, and the next order is h⁴/30 of the fifth derivative in log α; the largest found
    among difficult signals is 300, 1e-11. The largest measured errors are 7e-12 and 7e-6; twice the
    step has 5e-11 and 5e-5.
    """
    return {"float64": 2e-11, "float32": 2e-5}[dtype]


def integration(tolerance):
    """Return the error of the flow by this tolerance of a step. Measured: 30 times it at most."""
    return 100 * tolerance


def deep_tangent_kernel(depth, slowdown):
    """Return by how much a deep normalized NTK may differ from its limit off the diagonal.

    The law is (3/8) log(L)/L, times s in the constant beside the logarithm: 3s/L at most. GAP
    multiplies both by 16d/(d+3)², at most 4/3.
    """
    return 4 / 3 * (0.375 * np.log(depth) + 3 * slowdown) / depth
