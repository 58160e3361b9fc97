"""Taylor coefficients, and theorem 5.1's constants made of them, against kernels and spectra."""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk import literature
from rescntk.theory import decay, spectrum
from rescntk.theory.decay import moments
from tests import tolerances

pytestmark = pytest.mark.slow

EPS = tolerances.EPS["float64"]
SERIES, BOUNDS = decay.taylor_coefficients, decay.constants
CNN, RESNET = literature.geifman_cnn, literature.one_convolution_resnet


def test_dual_coefficients():
    """κ1 and ρ κ0 against closed forms at ρ = ½ (60 degrees), and the powers of lemma C.4."""

    def dual_coefficients(degree):
        layer = CNN(1, 1).replace(trained=("inner",))
        return SERIES(layer, 1, degree + 1, "ntk")[1:], SERIES(layer, 1, degree)

    slope, value = dual_coefficients(60)
    powers = 0.5 ** np.arange(61)
    assert abs(slope @ powers - 2 / 3) <= 4 * EPS
    assert abs(value @ powers - (math.sqrt(3) / 2 + math.pi / 3) / math.pi) <= 4 * EPS
    limit = math.sqrt(2) / math.pi**1.5
    slope, value = dual_coefficients(4001)
    assert abs(slope[4001] * 4001**1.5 / limit - 1) < 1e-3
    assert abs(value[4000] * 4000**2.5 / limit - 1) < 1e-3
    assert (slope[2::2] == 0).all() and (value[3::2] == 0).all()


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
@pytest.mark.parametrize(
    ("network", "d"),
    [
        (rk.Network(3, 3, alpha=0.7), 2),
        (CNN(3), 3),
        (rk.Network(2, 1, outer_filter_size=3, input_filter_size=3, trained=("input", "outer")), 3),
        (rk.Network(2, skip=False, trained=("input", "inner", "outer", "readout")), 3),
    ],
)
def test_the_series_is_the_kernel(rng, network, d, kind):
    """At |t| ≤ 0.1 with powers up to 9: the rest is below 1e-9."""
    t = rng.uniform(-0.1, 0.1, d)
    found = SERIES(network, d, 9, kind)
    assert (found >= 0).all()
    for own in t:
        found = np.tensordot(own ** np.arange(10), found, 1)
    X, Z = np.zeros((2, 1, 2, d))
    X[0, 0], Z[0] = math.sqrt(2), math.sqrt(2) * np.stack([t, np.sqrt(1 - t**2)])
    expected = rk.Kernel(network, kind, "equivariant", normalized=True)(X, Z)[0, 0]
    assert abs(found - expected) <= 1e-9


def test_moments_are_integrals():
    for C in (2, 3, 7):
        complements, integrate = spectrum.quadrature.rule("gegenbauer", C, 5, 16)
        expected = integrate((1 - complements)[:, None] ** np.arange(12), {0: 5})
        for k, n in product(range(6), range(12)):
            own = n >= k and (n - k) % 2 == 0
            found = moments(C, np.array(k), np.array(n)) if own else 0.0
            assert abs(found - expected[k, n]) <= 1e-13
    for C in (10**12, 2**63):  # ∫ t² w = 1/C0
        assert abs(C * moments(C, np.array(0), np.array(2)) - 1) <= tolerances.ROUTES


CASES = [
    (rk.Network(3, 1, alpha=0.5), 3, 1, [(0,)]),
    (CNN(2), 2, 3, [(0,), (-1, 0, 1)]),
    (RESNET(3), 2, 4, [(2,), (0, 1)]),
]


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
@pytest.mark.parametrize(("network", "C", "d", "sets"), CASES)
def test_bounds_of_theorem_5_1(network, C, d, sets, kind):
    """All eigenvalues lie between the bounds; for one pixel c_1 is within a factor of 50 (GPK)."""
    for pixels in sets:
        top = {1: 20, 2: 10, 3: 6}[len(pixels)]
        highest = [top * (pixel in {p % d for p in pixels}) for pixel in range(d)]
        computed = spectrum.eigenvalues(network, C, d, highest, kind, normalized=True)
        found = BOUNDS(network, C, d, pixels, kind)
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
        assert found.upper_exponent <= -(C - 1) - 2 * (nu - 1) / d


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SERIES(rk.Network(2, activation="erf"), 3, 4), "'erf', expected 'relu': the rec"),
        (lambda: SERIES(rk.Network(2), 5, 30), r"max_degree is 30: .* pairs of coefficients"),
        (lambda: BOUNDS(rk.Network(2, trained=()), 2, 3, [0], "ntk"), "ntk is 0 for every signal"),
        (lambda: BOUNDS(CNN(2).replace(input_filter_size=3), 2, 3, [0]), "size 3, expected 1: th"),
        (lambda: BOUNDS(rk.Network(2), 2, 3, []), "expected one or more integers"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_absent_frequencies_pixels_and_heads():
    first = spectrum.eigenvalues(rk.Network(1, 1), 3, 1, 9, normalized=True)
    assert np.abs(first[3::2]).max() <= 10 * EPS < first[1]  # odd ones of one layer
    constants = partial(BOUNDS, CNN(2), 2, 4)
    assert constants([2]).upper == 0
    alone, trace = [constants([pixel]) for pixel in (0, 1, -1)], constants([2], head="trace")
    assert abs(trace.lower / (sum(own.lower for own in alone) / 4) - 1) < 1e-12
    assert abs(trace.upper / (sum(own.upper for own in alone) / 4) - 1) < 1e-12
