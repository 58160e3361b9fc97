"""The constants of theorem 5.1, against spectra."""

from functools import partial
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk.literature import barzilai_cnn
from rescntk.literature import geifman_cnn as CNN
from rescntk.literature import one_convolution_resnet as RESNET
from rescntk.theory import multisphere, spectrum
from rescntk.theory.spectrum import decay_constants, quadrature
from rescntk.theory.spectrum.constants import _lower_coefficient, moments
from rescntk.theory.spectrum.taylor import DEGREE, series_in_one_variable
from tests import tolerances


@pytest.mark.parametrize("C", [2, 3, 7])
def test_moments_are_integrals(C):
    complements, matrix = quadrature.nodes_and_matrix("gegenbauer", C, 5, 16)
    expected = quadrature.integrate(matrix, (1 - complements)[:, None] ** np.arange(12), {0: 5})
    for k, n in product(range(6), range(12)):
        own = n >= k and (n - k) % 2 == 0
        found = moments(C, np.array(k), np.array(n)) if own else 0.0
        quadrature_sum = 1e-13  # some hundred roundings of numbers up to 1
        assert abs(found - expected[k, n]) <= quadrature_sum


@pytest.mark.parametrize("C", [10**12, 2**63])
def test_the_second_moment_of_many_channels(C):
    """∫ t² w = 1/C0."""
    assert abs(C * moments(C, np.array(0), np.array(2)) - 1) <= tolerances.ROUTES


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
@pytest.mark.parametrize(
    ("network", "C", "d", "sets"),
    [
        (rk.Network(3, 1, alpha=0.5), 3, 1, [(0,)]),
        (CNN(2), 2, 3, [(0,), (-1, 0, 1)]),
        (RESNET(3), 2, 4, [(2,), (0, 1)]),
    ],
)
def test_bounds_of_theorem_5_1(network, C, d, sets, kind):
    """All eigenvalues lie between the bounds; for one pixel c_1 is within a factor of 50 (GPK)."""
    for pixels in sets:
        top = {1: 20, 2: 10, 3: 6}[len(pixels)]
        highest = [top * (pixel in {p % d for p in pixels}) for pixel in range(d)]
        computed = spectrum.eigenvalues(
            network, C, d, highest, kind=kind, head="equivariant", normalized=True
        ).eigenvalues
        found = decay_constants(network, C, d, pixels, kind=kind, head="equivariant")
        assert 0 < found.lower < found.upper
        k = np.array(list(product(range(1, top + 1), repeat=len(pixels))))
        full = np.zeros((len(k), d), dtype=int)
        full[:, list(pixels)] = k
        values = computed[tuple(full.T)]
        low, high = found.bounds(k)
        assert (low <= values * (1 + tolerances.SPECTRUM)).all()
        assert (values <= high * (1 + tolerances.SPECTRUM)).all()
        if len(pixels) == 1 and kind == "gpk":
            assert (values / low).min() < 50
        # Sharper than the theorem, which has all pixels of the receptive field for s.
        nu = {"gpk": 2.5, "ntk": 1.5}[kind]
        assert found.exponent_of_upper_bound >= C - 1 + 2 * (nu - 1) / d


@pytest.mark.parametrize(
    ("network", "kind", "pixels", "known"),
    [
        (CNN(2).replace(trained="inner"), "ntk", [0], False),
        (CNN(2).replace(trained=("input", "inner")), "ntk", [0], False),
        (CNN(2).replace(trained="outer"), "ntk", [0], True),
        (CNN(2), "ntk", [0, 1], True),
        (CNN(1), "gpk", [0], False),
        (barzilai_cnn(2), "gpk", [3], True),
        (barzilai_cnn(2), "gpk", [-3, 3], False),
    ],
)
def test_where_the_lower_constant_is_0(network, kind, pixels, known):
    found = decay_constants(network, 2, 8, pixels, kind=kind, head="equivariant")
    assert (found.lower > 0) == known and found.upper > 0


@pytest.mark.slow
def test_absent_pixels_and_heads():
    constants = partial(decay_constants, CNN(2), 2, 4, kind="gpk")
    assert constants([2], head="equivariant").upper == 0
    alone = [constants([pixel], head="equivariant") for pixel in (0, 1, -1)]
    trace = constants([2], head="trace")
    for name in ("lower", "upper"):
        mean = sum(getattr(c, name) for c in alone) / 4
        assert abs(getattr(trace, name) / mean - 1) <= tolerances.ROUTES


MIXED = (rk.Network(2), CNN(3), rk.Network(2, skip=False, trained=("outer",)))
ORIGIN = np.eye(3)[0]
of_pixels = pytest.mark.parametrize("pixels", [[0], [0, 1]])


@pytest.mark.slow
@of_pixels
@pytest.mark.parametrize("C", [2, 3])
@pytest.mark.parametrize("network", MIXED)
def test_lower_constants_are_those_of_coefficients_n_to_the_five_halves(network, C, pixels):
    """Σ_n n^(−5/2) Ψ(k, n) k^(C0+2) is least at k = 1; both kinds have the same."""
    n = np.arange(1.0, 4001.0, 2.0)
    least = (n**-2.5 * moments(C, np.array(1.0), n)).sum()
    series = series_in_one_variable(network, np.zeros(3), ORIGIN, "gpk")
    end_of_sums = 1e-5  # above n = 400, Σ n^(−3) and less
    for kind in ("gpk", "ntk"):
        found = decay_constants(network, C, 3, pixels, kind=kind, head="equivariant").lower
        of_series = _lower_coefficient(series, network, set(pixels), kind)
        assert abs(found / (of_series * least ** len(pixels)) - 1) <= end_of_sums


@pytest.mark.parametrize("network", [MIXED[0], CNN(3), rk.Network(4, alpha=0.6)])
def test_tangent_kernels_have_the_lower_constants_of_their_last_branch(network):
    """Lemma C.2 for several pixels: ([outer] + [readout]) K of the branch, over Θ(x, x)."""
    kinds = ("gpk", "ntk")
    x = multisphere.sample(1, 2, 3, rng=0)
    K, T = (rk.Kernel(network, kind, "equivariant").diag(x)[0] for kind in kinds)
    parts = network.parts.outer + network.parts.readout
    options = {"pixels": [0, 1], "head": "equivariant"}
    gpk, ntk = (decay_constants(network, 2, 3, **options, kind=kind).lower for kind in kinds)
    assert abs(ntk / gpk / (parts * K / T) - 1) <= tolerances.ROUTES


def largest_sum(C, nu, count, exponent):
    """Return the largest sum over J of J^(−ν) times the largest product of moments of sum J.

    Of one or two equal frequencies k, times their power with the exponent.
    """
    sums = []
    for k in (1, 2, 3, 5):
        values = np.zeros(60 * k**2 + 1)
        n = np.arange(k, len(values), 2)
        values[n] = moments(C, np.array(float(k)), n.astype(float))
        J = np.arange(1, len(values))
        if count == 2:
            values[1:] = [(values[: j + 1] * values[j::-1]).max() for j in J]
        sums.append(k ** (exponent * count) * (values[1:] * J**-nu).sum())
    return max(sums)


@pytest.mark.slow
@of_pixels
@pytest.mark.parametrize("C", [2, 3])
@pytest.mark.parametrize(("kind", "nu"), [("gpk", 2.5), ("ntk", 1.5)])
def test_upper_constants_bound_sums_of_the_largest_coefficients(kind, nu, C, pixels):
    """By a factor that all networks have in common, five to seventeen times the sums."""
    inside, factors = np.isin(np.arange(3), pixels).astype(float), []
    for network in MIXED[:2]:
        found = decay_constants(network, C, 3, pixels, kind=kind, head="equivariant")
        _, kernel, *_, limits = series_in_one_variable(network, 1 - inside, inside, kind)
        n = np.arange(len(pixels), DEGREE + 1)
        coefficient = max((n**nu * kernel[0, n]).max(), limits[0, 0] + abs(limits[0, 1]))
        factors.append(found.upper / coefficient)
    assert np.ptp(factors) <= tolerances.ROUTES * factors[0]
    total = largest_sum(C, nu, len(pixels), found.exponent_of_upper_bound)
    assert total <= factors[0] <= 20 * total


def test_constants_are_within_float64_up_to_160_channels():
    options = {"kind": "gpk", "head": "equivariant"}
    for C, pixels in ((160, [0]), (80, [0, 1])):
        found = decay_constants(CNN(2), C, 3, pixels, **options)
        assert 0 < found.lower < found.upper < np.inf
    with pytest.raises(OverflowError, match="constants of 1 pixels of 161 channels exceed"):
        decay_constants(CNN(2), 161, 3, [0], **options)
