"""Numbers of spherical harmonics against dimensions and enumeration."""

import math
from itertools import product

import pytest

from rescntk.theory import spectrum
from tests import tolerances

pytestmark = pytest.mark.slow

EPS = tolerances.EPS["float64"]


def test_multiplicities():
    for n_channels in (2, 3, 5):
        # Polynomials of degree k on the sphere: harmonics of degrees k, k − 2, …
        for k in range(6):
            dimension = sum(spectrum.harmonics(n_channels, j) for j in range(k, -1, -2))
            assert dimension == math.comb(k + n_channels - 1, n_channels - 1)
    found = spectrum.multiplicities(3, 2, (2, 1), "trace")
    assert (found == [[1, 3], [3, 9], [5, 15]]).all()


@pytest.mark.parametrize("d", [1, 2, 3, 4, 6])
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: spectrum.multiplicities(3, 12, 20), r"117,693,240\.2 GB, expected max_memory"),
        (lambda: spectrum.multiplicities(3, 30, 1, "gap"), r"takes 17\.2 GB, expected max_mem"),
        (lambda: spectrum.harmonics(3, -1), "frequency is -1, expected an integer of at least 0"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()
