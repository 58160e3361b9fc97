"""The tolerances that tests share, with the arithmetic they come from.

A tolerance of one formula or one approximation is in its own test, with its reason. EPS is the
distance from 1 to the next number. A test passes if ``error <= tolerance``, which NaN does not.
"""

import numpy as np

EPS = {dtype: float(np.finfo(dtype).eps) for dtype in ("float64", "float32")}

# |ΔK| / √(K(x,x) K(z,z)) against exact arithmetic, up to depth 50. Each layer rounds a few times,
# and adds an error of about one unit, which skip connections pass on undiminished. Measured errors
# are a tenth of this.
KERNEL = {"float64": 1e-14, "float32": 1e-6}

# The same for nearly equal signals, for which all layers make the same rounding errors. Each of
# three steps of 50 layers adds half a unit of the NTK, 50 · 3 · eps/2. The largest errors that
# searches found are half of this. The guide promises it.
PROMISED = {"float64": 2e-14, "float32": 5e-6}

# The same of normalized kernels at depth 5000, to which a layer may add a tenth of a unit.
DEEP_KERNEL = 1e-12

# The difference from values of the first edition. They and today's values are within `KERNEL` of
# the exact ones.
FIRST_EDITION = {"float64": 1e-14, "float32": 1e-6}

# The same for erf with the head "gap" on waves. The mean over pixel pairs is (3.6e-4)² of its
# terms, which cancel, but their rounding errors do not. Beside 128-bit arithmetic, both editions
# have errors of up to 6e-11.
FIRST_EDITION_CANCELLED = EPS["float64"] / 3.6e-4**2 / 10

# The errors of neural-tangents, relative to √(K(x,x) K(z,z)). Its formulas round ρ to eps, and κ0
# has a square root at ρ = ±1.
PEER = {"gpk": 1e-11, "ntk": 2e-8}

# The difference of two float64 computations of one number without cancellation. They have at most
# ten layers, with ten roundings each.
ROUTES = 100 * EPS["float64"]

# The same if one of both computes ρ, as the recursions of the papers do (tests/oracles). An error
# eps of ρ changes κ0 by eps/√(1−ρ), and for random pairs ρ differs from ±1 by at least one percent.
TRANSCRIPTION = 1e-13

# The difference of two formulas for a constant of layers, with three or four roundings.
CONSTANT = 4 * EPS["float64"]

# The signals that a view shows, beside plain formulas. Each of eight steps has a dozen roundings.
SEEN = 100 * EPS["float64"]

# The difference of probabilities from kernels in float32 and in float64. The norm of the kernels'
# errors is at most half of the least penalty (`NetworkKernel.least_penalty`), and probabilities are
# averaged over views. Measured: 7e-6.
SINGLE = 1e-4

# By how much a number of signals of order 1 changes if it changes at all.
CHANGED = 1e-9

# The error of the position of a minimum of order 1 whose curvature is at least 2. The solver uses
# only function values, which have errors of some eps.
MINIMUM = 10 * float(np.sqrt(EPS["float64"]))

# λ_min of a positive semidefinite matrix may be this many eps·n·λ_max below 0.
DEFINITE = 10

# The number of standard errors by which means of independent sampled networks may differ. With
# normal errors, one number in 2 million differs by more than 5; with 11 degrees of freedom, one in
# 2,500.
STANDARD_ERRORS = 5.0

# Derivatives with respect to signals, in units of the largest one, at depths 2 and 3. A layer has
# some thirty roundings. Measured: 7e-16.
GRADIENT = {"float64": 100 * EPS["float64"]}

# The same of the tangent kernel of signals that differ by 1e-6. Its slope depends on the direction
# of their difference, which unit vectors have with an error of eps / 1e-6 = 2e-10. Measured: 2e-11.
GRADIENT_NEAR_EQUAL = 4e-10

# Seconds from Ctrl-C to the end of a call. A waiting thread looks for it every 0.1 s
# (`work._WAKE_INTERVAL`), which is also the time measured on an idle machine.
REACTION = 0.3

# The estimated relative error that eigenvalues may have with default grids. The error of a tangent
# kernel's cone on two pixels falls like nodes^-6; on the coarser grid of 30 it is (π/30)^6 = 1e-6.
# Relative to eigenvalues of frequency 16 on both pixels it is hundreds of times larger.
SPECTRUM = 2e-3

# By how much a slope over centred frequencies may differ from an exponent of up to 9. The next
# terms are some 1/k² relative to the first one. The lowest k is 8, so that they are 9/8² = 0.14 and
# more.
SLOPE = 0.2

# The same if another cover of the pixels, three powers smaller, has a part in the eigenvalues. The
# slope changes by three times its share, which is a fifth at frequency 14.
COMPETITION = 0.6

# By how much slopes of learning curves may differ from their exponent. Parts of the error are
# smoother by a power n^-1/D, D ≤ 3, and change slopes over 1000 to 4000 signals by at most a tenth
# of 4000^(1/3). A regression on one sample of 1000 signals also has a standard error of .03.
CURVE_SLOPE = {"curve": 0.05, "regression": 0.1}

# An FFT of N samples has an error of about eps log2(N), relative to the largest coefficient; N is
# at most 4096. Sums of its squares, and weights of one coefficient each, add a few units.
FOURIER = 100 * EPS["float64"]

# The flow at γ = ½ beside Romberg's extrapolation of 8, …, 512 layers, for correlations that differ
# from −1 by at least a percent. The error of the limit is at most half_power.ERROR, and that of the
# extrapolation is L^-8 times factorials, 2e-13.
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
