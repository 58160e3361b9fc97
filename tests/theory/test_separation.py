"""The bound from separation, against least eigenvalues and against the formula of one pixel."""

import mpmath
import numpy as np
import pytest

import rescntk as rk
from rescntk import datasets
from rescntk.checks.values import HEADS, KINDS
from rescntk.theory import conditioning, multisphere, spectrum
from tests import tolerances
from tests.oracles import definition

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
    """Sums up to a degree of a_N [1 − max_i Σ_j |t_ij|^N]₊, and the circles of all above it.

    Less rounding errors of 20 entries: 8 units a layer and 20 more, of t twice those of lengths for
    each degree and for the whole, and for the NTK those of 23 units over the root of 1 + t.
    """
    X, network, degree = multisphere.sample(20, 4, 1, rng=0), rk.Network(3, 1), 20
    a = spectrum.taylor_coefficients(network, 1, degree, kind=kind)
    rest, off = rk.Kernel(network, kind, "trace", normalized=True)(X), ~np.eye(20, dtype=bool)
    t, least, expected = X[:, :, 0] @ X[:, :, 0].T / 4, 0.0, []
    of_length = multisphere.off_sphere(X) + 4 * tolerances.EPS["float64"]
    fixed = 8 * 23 * tolerances.EPS["float64"]
    fixed += 23 * of_length / np.sqrt(1 + t.min()) if kind == "ntk" else 0.0
    for N, coefficient in enumerate(a):
        rest = rest - coefficient * t**N
        least += coefficient * max(1 - np.abs(t**N * off).sum(axis=1).max(), 0.0)
        circles = rest.diagonal() - np.abs(rest * off).sum(axis=1)
        subtracted = 20 * (fixed + 2 * (N + 2) * of_length)
        expected.append(least + max(circles.min(), 0.0) - subtracted)
    found = conditioning.separation_bound(
        network, X, kind=kind, head="equivariant", max_degree=degree
    )
    assert abs(max(expected) - found) <= tolerances.ROUTES


def _least_eigenvalue(network, X, kind, head):
    """Return the least eigenvalue of a normalized kernel matrix, in 40 digits."""
    K = definition.head(definition.pixel_pairs(X, network)[network.depth][kind == "ntk"], head)
    with mpmath.workdps(definition.DIGITS):
        exact = [[mpmath.mpf(str(value)) for value in row] for row in K.tolist()]
        roots = [mpmath.sqrt(row[i]) for i, row in enumerate(exact)]
        n = range(len(roots))
        normalized = [[exact[i][k] / roots[i] / roots[k] for k in n] for i in n]
        return min(mpmath.eigsy(mpmath.matrix(normalized), eigvals_only=True))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opposite", [False, True])
def test_no_bound_exceeds_the_least_eigenvalue_near_rounding(kind, head, opposite):
    """Of pairs of signals down to angles of 1e-9 the bound has the eigenvalue's digits."""
    rng = np.random.default_rng(0)
    for angle, n, d in ((1e-9, 2, 1), (1e-8, 2, 1), (1e-6, 2, 3), (1e-7, 3, 1), (1e-3, 3, 2)):
        Z = rng.standard_normal((n, 3, d))
        Z[1] = (-Z[0] if opposite else Z[0]) + angle * Z[1]
        X, network = multisphere.project(Z), rk.Network(2, 1 if d == 1 else 3, alpha=0.7)
        single = X.astype(np.float32).astype(np.float64)  # pixels of rounded lengths
        for signals in (single, X):
            least = _least_eigenvalue(network, signals, kind, head)
            found = conditioning.separation_bound(network, signals, kind=kind, head=head)
            assert 0 <= found <= max(least, 0)
        if kind == "gpk" and n + d == 3 and head == "trace" and not opposite:
            # Errors of three routes, and of the lengths of pixels.
            lost = 3 * tolerances.complement(2) * least + 8 * (6 * tolerances.EPS["float64"]) ** 2
            assert least - found <= lost


def test_equal_signals_have_the_bound_0():
    """Also signals of mean 0 and small α, of which GAP leaves a ten-thousandth."""
    X = multisphere.sample(2, 3, 4, rng=0)[[0, 0, 1]]
    waves = np.array([[[1.0, -1.0]], [[-1.0, 1.0]]])
    for kind in KINDS:
        assert conditioning.separation_bound(rk.Network(2), X, kind=kind, head="gap") == 0
        small = rk.Network(2, 1, alpha=0.01, trained=("readout",))
        assert conditioning.separation_bound(small, waves, kind=kind, head="gap") == 0


@pytest.mark.parametrize("head", HEADS)
def test_more_degrees_never_lower_the_bound(head):
    X = multisphere.sample(4, 3, 6, rng=0)
    bounds = [
        conditioning.separation_bound(rk.Network(2), X, kind="ntk", head=head, max_degree=degree)
        for degree in (1, 2, 4, 8, 16, 64)
    ]
    assert (np.diff(bounds) >= 0).all() and bounds[0] > 0


@pytest.mark.parametrize("seed", [1, 2])
def test_rounding_errors_are_larger_where_means_over_pixels_vanish(seed):
    """Near signals of mean 0 and a small α: their bound is below what 16 digits of parts leave."""
    rng = np.random.default_rng(seed)
    x, z = (np.concatenate([half, -half], axis=2) for half in rng.standard_normal((2, 1, 3, 4)))
    X = multisphere.project(np.concatenate([x, x + 1e-5 * z]))
    network, options = rk.Network(2, alpha=1e-3), {"kind": "gpk", "head": "gap"}
    least = multisphere.gram_complements([network], X, **options)[0, 0, 1]
    assert 0 <= conditioning.separation_bound(network, X, **options) <= least
