"""Taylor series of kernels, against their closed forms and kernels."""

import math

import numpy as np
import pytest

import rescntk as rk
from rescntk.literature import geifman_cnn as CNN
from rescntk.theory.spectrum import taylor_coefficients
from rescntk.theory.spectrum.taylor import DEGREE, series_in_one_variable
from tests import tolerances

EPS = tolerances.EPS["float64"]


def test_dual_coefficients():
    """κ1 and ρ κ0 at ρ = ½ (60 degrees), and the powers of lemma C.4."""
    layer, powers = CNN(1, 1).replace(trained=("inner",)), 0.5 ** np.arange(4002)
    slope, value = (
        taylor_coefficients(layer, 1, 4002, kind="ntk")[1:],
        taylor_coefficients(layer, 1, 4001, kind="gpk"),
    )
    assert abs(slope @ powers - 2 / 3) <= 4 * EPS
    assert abs(value @ powers - (math.sqrt(3) / 2 + math.pi / 3) / math.pi) <= 4 * EPS
    limit, next_term = math.sqrt(2) / math.pi**1.5, 4 / 4000  # of a power n^-p
    assert abs(slope[4001] * 4001**1.5 / limit - 1) < next_term
    assert abs(value[4000] * 4000**2.5 / limit - 1) < next_term
    assert (slope[2::2] == 0).all() and (value[3::2] == 0).all()


@pytest.mark.slow
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
    """At |t| ≤ 0.1 with powers up to 9."""
    remainder = 1e-9  # 0.1^10 of each of up to three pixels, and products with them
    t = rng.uniform(-0.1, 0.1, d)
    found = taylor_coefficients(network, d, 9, kind=kind)
    assert (found >= 0).all()
    for own in t:
        found = np.tensordot(own ** np.arange(10), found, 1)
    X, Z = np.zeros((2, 1, 2, d))
    X[0, 0], Z[0] = math.sqrt(2), math.sqrt(2) * np.stack([t, np.sqrt(1 - t**2)])
    expected = rk.Kernel(network, kind, "equivariant", normalized=True)(X, Z)[0, 0]
    assert abs(found - expected) <= remainder


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
@pytest.mark.parametrize("inside", [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
@pytest.mark.parametrize(
    "network",
    [
        rk.Network(3, alpha=0.7),
        rk.Network(2, 1, trained=("input", "outer")),
        rk.Network(2, skip=False, trained=("input", "inner", "outer", "readout")),
    ],
)
def test_series_in_one_variable_end_as_their_ends_say(network, inside, kind):
    """Powers x^p of the distance x from t = ±1 leave (±1)^n n^(−p − 1)/Γ(−p) in coefficients.

    Even and odd coefficients have the sum and the difference of the ends; p = 3/2 of the last
    pre-activations and of the GPK, 1/2 of the NTK. Other pixels' dot products are 0 or 1.
    """
    n, next_term = np.array([DEGREE, DEGREE - 1]), 10 / DEGREE
    for constant in (np.zeros(3), 1 - np.array(inside)):
        found = series_in_one_variable(network, constant, np.array(inside), kind)
        before, kernel, value, cube, limits = found
        shares = cube / math.gamma(-1.5)
        for series, ends, p in ((before, shares, 1.5), (kernel, limits, 1.5 - (kind == "ntk"))):
            last = n ** (p + 1) * series[:, n]
            expected = np.stack([ends.sum(axis=1), ends[:, 0] - ends[:, 1]], axis=1)
            assert np.abs(last - expected).max() <= next_term * np.abs(ends).max()
        tail = DEGREE**-1.5 * np.abs(shares).max()  # Σ n^(−5/2) is two thirds of n^(−3/2)
        sums = np.stack([before.sum(axis=1), before @ (-1.0) ** np.arange(DEGREE + 1)], axis=1)
        assert np.abs(sums - value).max() <= tail
