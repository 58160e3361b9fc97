"""Coefficients and errors against direct solves, refits and matrix exponentials."""

import numpy as np
import pytest
import scipy.linalg

import rescntk as rk
from rescntk import regression
from tests import tolerances
from tests.regression.problems import close, matrix, problem

EPS = tolerances.EPS["float64"]


def refitted(K, y, penalty, intercept, weights):
    """Return coefficients, constants and the condition of (K + λ/w)β + 1b = y, 1ᵀβ = 0."""
    n = len(K)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = K + penalty * np.diag(1.0 / weights)
    system[n, :n] = system[:n, n] = intercept
    system[n, n] = not intercept
    found = np.linalg.solve(system, np.concatenate([y, np.zeros((1, y.shape[1]))]))
    return found[:n], found[n], np.linalg.cond(system)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("penalty", [0.0, 0.5])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rank", [12, 5])
def test_fits_and_refits(rng, penalty, intercept, weighted, rank):
    """Coefficients and errors of cases and groups, of K and of features of a lower rank."""
    (K, y), groups = problem(rng), np.array(list("aabcddefghhh"))
    n, w = len(K), rng.uniform(0.2, 3.0, len(K)) if weighted else np.ones(len(K))
    weights = w if weighted else None
    if rank < n:
        F = rng.standard_normal((n, rank))
        K, eigen, penalty = F @ F.T, regression.decompose_features(F, weights), penalty or 3.0
    else:
        eigen = regression.decompose(K, weights)
    beta, b, condition = refitted(K, y, penalty, intercept, w)
    found = eigen.ridge(y, penalty, intercept=intercept)
    if intercept:
        close(found[1], b, n * condition)
    close(found[0] if intercept else found, beta, condition)
    one = eigen.ridge(y[:, 1], [penalty, 1.0], intercept=intercept)
    close((one[0] if intercept else one)[0], beta[:, 1], condition)
    G = np.linalg.inv(K + penalty * np.diag(1.0 / w))
    for labels in (np.arange(n), groups):
        given = labels if labels is groups else None
        errors = eigen.leave_one_out(y, penalty, intercept=intercept, groups=given)
        variance = eigen.left_out_variance(penalty, given) if penalty else None
        for i in range(n):
            rest, inside = np.flatnonzero(labels != labels[i]), np.flatnonzero(labels == labels[i])
            part, c, _ = refitted(K[np.ix_(rest, rest)], y[rest], penalty, intercept, w[rest])
            bar = tolerances.solution(n, condition)
            assert np.abs(errors[i] - (y[i] - K[i, rest] @ part - c)).max() <= bar * np.abs(y).max()
            if penalty:
                expected = np.linalg.inv(G[np.ix_(inside, inside)]).diagonal()[inside == i]
                assert abs(variance[i] / expected - 1) <= bar
    if not weighted and rank == n:
        errors = eigen.leave_one_out(y, penalty, intercept=intercept)
        assert (regression.leave_one_out(K, y, penalty, intercept=intercept) == errors).all()
        if not intercept:
            close(regression.ridge(K, y, penalty), beta, condition)
            close(regression.ridge(K, y[:, 0], penalty), beta[:, 0], condition)


@pytest.mark.parametrize(
    ("dtype", "exponent", "resolved"),
    [("float64", -12, True), ("float64", -16, 0), ("float32", -4, True), ("float32", -8, 0)],
)
@pytest.mark.parametrize(
    "attempt",
    [
        lambda K, y: regression.interpolate(K, y),
        lambda K, y: regression.leave_one_out(K, y, [1.0, 0.0]),
        lambda K, y: regression.flow(K, y, [0.0, 1e40]),
        lambda K, y: regression.decompose(K).learning_rate_bound(),
    ],
)
def test_where_singular_begins(attempt, rng, dtype, exponent, resolved):
    n = 6
    K = matrix([1, 1, 1, 1, 1, 10.0**exponent]).astype(dtype)
    y = rng.standard_normal(n)
    assert np.isfinite(regression.ridge(K, y, 1e-3)).all()
    if resolved:
        assert np.isfinite(attempt(K, y)).all()
        return
    eps = f"n·eps = {n * tolerances.EPS[dtype]:.2g}"
    with pytest.raises(ValueError, match=f"numerically singular: .*{eps}"):
        attempt(K, y)


def test_small_and_large_signals_are_no_singularity(rng):
    """With signals times powers of two all bits of the solution stay, times these powers."""
    (K, y), powers = problem(rng, 6), 2.0 ** np.array([[-300], [-40], [0], [7], [60], [300]])
    scaled, noise = powers * K * powers.T, 0.1 * powers[:, 0] ** 2
    for found, right in (
        (regression.ridge(scaled, powers * y, 0.0) * powers, regression.ridge(K, y, 0.0)),
        (
            regression.posterior(scaled, scaled, scaled, powers * y, noise).mean,
            regression.posterior(K, K, K, y, 0.1).mean * powers,
        ),
        (
            regression.evidence(scaled, powers * y, noise) + np.log(powers).sum(),
            regression.evidence(K, y, 0.1),
        ),
    ):
        assert np.abs(found / right - 1).max() <= 100 * EPS


def test_indefinite_matrices(rng):
    """A foreign kernel with the eigenvalue −9e-10: what the error names helps."""
    values, y = np.array([-9e-10, 0.1, 1, 2, 3, 4]), rng.standard_normal(6)
    K = matrix(values)
    with pytest.raises(ValueError, match=r"-9e-10.*more than 9e-10 added.*clip=True"):
        regression.decompose(K)
    expected = matrix(1 / (np.maximum(values, 0) + 0.1)) @ y
    close(regression.decompose(K, clip=True).ridge(y, 0.1), expected, 40)


def test_rounding_errors_of_float32_are_no_negative_eigenvalues(rng):
    y = rng.standard_normal(6)
    X = rng.standard_normal((9, 2, 6))
    X[1] = X[0] + 1e-5 * X[2]
    below = rk.ResCGPK(3)(X, dtype="float32")
    below[0, 1] = below[1, 0] = np.sqrt(below[0, 0] * below[1, 1]) * (1 + np.float32(2e-7))
    assert np.isfinite(regression.decompose(below).ridge(y[[0] * 9], 0.1)).all()


def test_flow_solves_its_differential_equation(rng):
    """The solution of β' = y − Kβ, β(0) = 0: no inverse, so K may be singular."""
    K, y = problem(rng, n=6, targets=1)
    F = rng.standard_normal((6, 2))
    for A, eigen in (
        (K, regression.decompose(K)),
        (F @ F.T, regression.decompose_features(F)),
    ):
        unit = np.linalg.eigvalsh(A)[-1]
        system = np.zeros((7, 7))
        system[:6, :6], system[:6, 6:] = -A, y
        times = np.array([0.0, 1e-12, 1e-3, 1.0, 30.0]) / unit
        found = eigen.flow(y, times)
        assert found.shape == (5, 6, 1)
        for time, coefficients in zip(times, found, strict=True):
            expected = scipy.linalg.expm(time * system)[:6, 6:]
            bar = 1e3 * EPS * max(1, unit * time) * np.abs(expected).max()
            assert np.abs(coefficients - expected).max() <= bar
    early = regression.flow(K, y, 1e-18)
    np.testing.assert_allclose(early, 1e-18 * y, rtol=1e3 * EPS)
    close(regression.flow(K, y, np.inf), regression.interpolate(K, y), np.linalg.cond(K))
    values = np.linalg.eigvalsh(K)
    bound = regression.decompose(K).learning_rate_bound()  # theorem 5 of Tirer et al. 2022
    assert abs(bound * (values[0] + values[-1]) / 2 - 1) <= 100 * EPS
