"""Quadrature over a pixel's sphere, and numbers of harmonics, against definitions."""

import math
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk.theory import spectrum
from rescntk.theory.spectrum import quadrature
from tests import tolerances

EPS = tolerances.EPS["float64"]


@pytest.mark.parametrize("method", quadrature.METHODS)
@pytest.mark.parametrize("n_channels", [2, 3, 4, 7, 30])
def test_rules_are_orthogonal(method, n_channels):
    """∫ P_j P_k w dt = 1/N(C0, k) where j = k, and 0 elsewhere; P_k(1) = 1."""
    top = 8
    # A product of two zonal functions has twice the frequency.
    nodes = quadrature.default_nodes(method, n_channels, 2 * top)
    complements, matrix = quadrature.nodes_and_matrix(method, n_channels, top, nodes)
    assert (np.diff([0.0, *complements, 2.0]) > 0).all()
    angles = 2 * np.arcsin(np.sqrt(complements / 2))
    found = quadrature.integrate(matrix, quadrature.zonal(angles, n_channels, top), {1: top})
    expected = np.diag([1 / spectrum.harmonics(n_channels, k) for k in range(top + 1)])
    assert np.abs(found - expected).max() <= 100 * EPS
    ends = quadrature.zonal(np.array([0.0, np.pi]), n_channels, top)
    assert np.abs(ends.T - [np.ones(9), (-1.0) ** np.arange(9)]).max() <= 100 * EPS


@pytest.mark.parametrize("n_channels", [2, 3, 5])
@pytest.mark.parametrize("k", range(6))
def test_polynomials_are_sums_of_harmonics(n_channels, k):
    """Of degree k: harmonics of degrees k, k − 2, …"""
    dimension = sum(spectrum.harmonics(n_channels, j) for j in range(k, -1, -2))
    assert dimension == math.comb(k + n_channels - 1, n_channels - 1)


def counts(n_channels, top, head):
    """Return the numbers of eigenfunctions that a spectrum has, whatever its kernel."""
    options = {"kind": "gpk", "head": head}
    return spectrum.eigenvalues(rk.Network(1, 1), n_channels, len(top), top, **options).counts


@pytest.mark.parametrize("head", ["trace", "equivariant"])
def test_counts_are_products_of_numbers_of_harmonics(head):
    assert (counts(3, (2, 1), head) == [[1, 3], [3, 9], [5, 15]]).all()


@pytest.mark.parametrize("d", [1, 3, 4, 6])
def test_counts_of_gap_are_of_orbits(d):
    """By enumeration: products of harmonics (frequency, which), up to shifts."""
    top, n_channels = (2, 3) if d < 4 else (1, 3)
    each = [(k, m) for k in range(top + 1) for m in range(spectrum.harmonics(n_channels, k))]
    orbits = {}
    for functions in product(each, repeat=d):
        orbit = {functions[i:] + functions[:i] for i in range(d)}
        if functions == min(orbit):
            frequency = min(tuple(k for k, _ in some) for some in orbit)
            orbits[frequency] = orbits.get(frequency, 0) + 1
    found = counts(n_channels, (top,) * d, "gap")
    for frequency, count in orbits.items():
        shifts = {frequency[i:] + frequency[:i] for i in range(d)}
        assert abs(sum(found[k] for k in shifts) - count) <= 100 * EPS * count
    assert abs(found.sum() - sum(orbits.values())) <= 1e3 * EPS * found.sum()
