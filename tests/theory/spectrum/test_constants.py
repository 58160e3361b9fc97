"""The constants of theorem 5.1, against spectra."""

from functools import partial
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk.literature import barzilai_cnn
from rescntk.literature import geifman_cnn as CNN
from rescntk.literature import one_convolution_resnet as RESNET
from rescntk.theory import spectrum
from rescntk.theory.spectrum import decay_constants, quadrature
from rescntk.theory.spectrum.constants import moments
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
