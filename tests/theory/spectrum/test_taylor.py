"""Taylor series of kernels, against their closed forms and kernels."""

import math

import numpy as np
import pytest

import rescntk as rk
from rescntk.literature import geifman_cnn as CNN
from rescntk.theory.spectrum import taylor_coefficients
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
