"""The bound from separation, against least eigenvalues and against the formula of one pixel."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import datasets
from rescntk.theory import conditioning, multisphere, spectrum
from rescntk.validation import HEADS, KINDS
from tests import tolerances

NETWORKS = [rk.Network(3), rk.Network(2, 5, outer_filter_size=1, skip=False, trained=("inner",))]


def signals(case):
    """Return random signals, near ones, or real ones, on the multi-sphere."""
    if case == "real":
        pytest.importorskip("aeon")
        return multisphere.project(datasets.load("JapaneseVowels")[::27])
    X = multisphere.sample(12, 4, 6, rng=0)
    return X if case == "random" else multisphere.project(X[:1] + 0.1 * X)


@pytest.mark.parametrize("case", ["random", "near", pytest.param("real", marks=pytest.mark.slow)])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("network", NETWORKS)
def test_bounds_are_below_least_eigenvalues(network, kind, head, case):
    X = signals(case)[:, :, :: 5 if case == "real" else 1]
    K = rk.Kernel(network, kind, head, normalized=True)(X)
    found = conditioning.separation_bound(network, X, kind=kind, head=head)
    least = np.linalg.eigvalsh(K)[0]
    assert 0 <= found <= least + tolerances.DEFINITE * len(K) ** 2 * tolerances.EPS["float64"]
    assert case != "random" or found > least / 100


@pytest.mark.parametrize("kind", KINDS)
def test_signals_of_one_pixel_have_the_formula(kind):
    X, network, degree = multisphere.sample(20, 4, 1, rng=0), rk.Network(3, 1), 20
    a = spectrum.taylor_coefficients(network, 1, degree, kind=kind)
    t = np.abs(X[:, :, 0] @ X[:, :, 0].T / 4)
    np.fill_diagonal(t, 0.0)
    circles = [max(1 - (t**m).sum(axis=1).max(), 0.0) for m in range(1, degree + 1)]
    rest = 1 - a.sum()
    rest -= np.abs(t ** (degree + 1)).sum(axis=1).max() * rest  # |t|^m falls with m
    found = conditioning.separation_bound(
        network, X, kind=kind, head="equivariant", max_degree=degree
    )
    least = a[1:] @ circles
    assert least - tolerances.ROUTES <= found
    assert found <= least + max(1 - a.sum(), 0.0) + tolerances.ROUTES
    assert found >= least + max(rest, 0.0) - tolerances.ROUTES
