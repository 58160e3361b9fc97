"""Quadrature rules and zonal functions against closed forms and high precision."""

import math
from itertools import product

import numpy as np
import pytest
import scipy.special

from rescntk.theory import spectrum
from rescntk.theory.spectrum import quadrature
from tests import tolerances

pytestmark = pytest.mark.slow

EPS = tolerances.EPS["float64"]


@pytest.mark.parametrize("n_channels", [2, 3, 7, 30])
def test_zonal_functions(n_channels):
    t = np.linspace(-1, 1, 41)
    found = quadrature.zonal(1 - np.abs(t), np.where(t < 0, -1.0, 1.0), n_channels, 12)
    index = (n_channels - 2) / 2
    for k in range(13):
        expected = np.cos(k * np.arccos(t))
        if n_channels > 2:
            scale = scipy.special.eval_gegenbauer(k, index, 1.0)
            expected = scipy.special.eval_gegenbauer(k, index, t) / scale
        assert np.abs(found[k] - expected).max() <= 1e3 * EPS


@pytest.mark.parametrize("method", quadrature.METHODS)
@pytest.mark.parametrize("n_channels", [2, 3, 4, 7, 30])
def test_rules_are_orthogonal(method, n_channels):
    """∫ P_j P_k w dt = 1/N(C0, k) where j = k, and 0 elsewhere."""
    top = 8
    # A product of two zonal functions has twice the frequency.
    nodes = quadrature.default_nodes(method, n_channels, 2 * top)
    complements, integrate = quadrature.rule(method, n_channels, top, nodes)
    assert (np.diff([0.0, *complements, 2.0]) > 0).all()
    signs, nearest = np.where(complements > 1, -1.0, 1.0), np.minimum(complements, 2 - complements)
    found = integrate(quadrature.zonal(nearest, signs, n_channels, top), {1: top})
    expected = np.diag([1 / spectrum.harmonics(n_channels, k) for k in range(top + 1)])
    assert np.abs(found - expected).max() <= 100 * EPS


def test_multiplicities():
    # Polynomials of degree k on the sphere: harmonics of degrees k, k − 2, …
    for n_channels, k in product((2, 3, 5), range(6)):
        dimension = sum(spectrum.harmonics(n_channels, j) for j in range(k, -1, -2))
        assert dimension == math.comb(k + n_channels - 1, n_channels - 1)
    assert (spectrum.multiplicities(3, 2, (2, 1), "trace") == [[1, 3], [3, 9], [5, 15]]).all()
    with pytest.raises(ValueError, match=r"117,693,240\.2 GB, expected max_memory"):
        spectrum.multiplicities(3, 12, 20)
    with pytest.raises(ValueError, match="frequency is -1, expected an integer of at least 0"):
        spectrum.harmonics(3, -1)


@pytest.mark.parametrize("d", [1, 3, 4, 6])
def test_multiplicities_of_gap_count_orbits(d):
    """By enumeration: products of harmonics (frequency, which), up to shifts."""
    top, n_channels = (2, 3) if d < 4 else (1, 3)
    each = [(k, m) for k in range(top + 1) for m in range(spectrum.harmonics(n_channels, k))]
    counts = {}
    for functions in product(each, repeat=d):
        orbit = {functions[i:] + functions[:i] for i in range(d)}
        if functions == min(orbit):
            frequency = min(tuple(k for k, _ in some) for some in orbit)
            counts[frequency] = counts.get(frequency, 0) + 1
    found = spectrum.multiplicities(n_channels, d, top, "gap")
    for frequency, count in counts.items():
        shifts = {frequency[i:] + frequency[:i] for i in range(d)}
        assert abs(sum(found[k] for k in shifts) - count) <= 100 * EPS * count
    assert abs(found.sum() - sum(counts.values())) <= 1e3 * EPS * found.sum()
