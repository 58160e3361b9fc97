"""Coefficients and errors against direct solves, refits and matrix exponentials."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg

import rescntk as rk
from rescntk import regression
from tests import tolerances
from tests.helpers import assert_within
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


GROUPS = np.array(list("aabcddefghhh"))
CASES = [
    pytest.param(
        (penalty, intercept, weighted, rank), id=f"{penalty}-{intercept}-{weighted}-{rank}"
    )
    for penalty in (0.0, 0.5)
    for intercept in (False, True)
    for weighted in (False, True)
    for rank in (12, 5)
]


@pytest.fixture(params=CASES)
def fit(request, rng):
    """A decomposition of K, or of features of a lower rank, with targets, weights and a penalty.

    `refit` returns coefficients, constants and the condition for cases by their indices.
    """
    penalty, intercept, weighted, rank = request.param
    K, y = problem(rng)
    n = len(K)
    weights = rng.uniform(0.2, 3.0, n) if weighted else np.ones(n)
    given = weights if weighted else None
    if rank < n:
        F = rng.standard_normal((n, rank))
        K, penalty = F @ F.T, penalty or 3.0
        spectrum = regression.decompose_features(F, given)
    else:
        spectrum = regression.decompose(K, given)

    def refit(cases):
        return refitted(K[np.ix_(cases, cases)], y[cases], penalty, intercept, weights[cases])

    return SimpleNamespace(
        K=K,
        y=y,
        weights=weights,
        penalty=penalty,
        intercept=intercept,
        spectrum=spectrum,
        refit=refit,
        condition=refit(np.arange(n))[2],
    )


def test_ridge_solves_its_equations(fit):
    beta, b, _ = fit.refit(np.arange(len(fit.y)))
    found = fit.spectrum.ridge(fit.y, fit.penalty, intercept=fit.intercept)
    if fit.intercept:
        found, constants = found
        close(constants, b, len(b) * fit.condition)
    close(found, beta, fit.condition)


def test_several_penalties_have_an_axis_in_front(fit):
    y = fit.y[:, 1]
    several = fit.spectrum.ridge(y, [fit.penalty, 1.0], intercept=fit.intercept)
    single = fit.spectrum.ridge(y, fit.penalty, intercept=fit.intercept)
    for found, expected in zip(
        *((a if fit.intercept else [a]) for a in (several, single)), strict=True
    ):
        assert (found[0] == expected).all()


@pytest.mark.parametrize("labels", [np.arange(12), GROUPS], ids=["cases", "groups"])
def test_errors_left_out_are_those_of_refits(fit, labels):
    groups = labels if labels is GROUPS else None
    errors = fit.spectrum.leave_one_out(fit.y, fit.penalty, intercept=fit.intercept, groups=groups)
    bar = tolerances.solution(12, fit.condition) * np.abs(fit.y).max()
    for i in range(12):
        others = np.flatnonzero(labels != labels[i])
        beta, b, _ = fit.refit(others)
        assert np.abs(errors[i] - (fit.y[i] - fit.K[i, others] @ beta - b)).max() <= bar


@pytest.mark.parametrize("labels", [np.arange(12), GROUPS], ids=["cases", "groups"])
def test_variances_left_out_are_those_of_the_process(fit, labels):
    """The diagonal of the inverse of each group's part of the precision matrix."""
    groups = labels if labels is GROUPS else None
    if not fit.penalty:
        with pytest.raises(ValueError, match="penalty is 0.0, expected a positive number"):
            fit.spectrum.left_out_variance(fit.penalty, groups)
        return
    variance = fit.spectrum.left_out_variance(fit.penalty, groups)
    precision = np.linalg.inv(fit.K + fit.penalty * np.diag(1.0 / fit.weights))
    for inside in (np.flatnonzero(labels == label) for label in np.unique(labels)):
        expected = np.linalg.inv(precision[np.ix_(inside, inside)]).diagonal()
        bar = tolerances.solution(12, fit.condition)
        assert np.abs(variance[inside] / expected - 1).max() <= bar


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_leave_one_out_is_that_of_a_decomposition(rng, penalty, intercept):
    K, y = problem(rng)
    errors = regression.decompose(K).leave_one_out(y, penalty, intercept=intercept)
    assert (regression.leave_one_out(K, y, penalty, intercept=intercept) == errors).all()


@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_ridge_by_a_cholesky_factor(rng, penalty):
    K, y = problem(rng)
    beta, _, condition = refitted(K, y, penalty, False, np.ones(len(K)))
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


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("share", "resolved"), [(0.5, False), (1.0, False), (2.0, True)])
def test_eigenvalues_of_rounding_errors_are_singular(dtype, share, resolved):
    """From n units of the largest one on, of diagonal matrices, whose eigenvalues are exact."""
    K = np.diag(np.array([1.0, 1.0, 1.0, 4 * share * tolerances.EPS[dtype]], dtype))
    attempt = regression.decompose(K)
    if resolved:
        assert np.isfinite(attempt.ridge(np.ones(4), 0.0)).all()
    else:
        with pytest.raises(ValueError, match="K of shape .* is numerically singular"):
            attempt.ridge(np.ones(4), 0.0)


@pytest.mark.parametrize(("steps", "resolved"), [(4, False), (8, True)])
def test_nearly_equal_signals_are_singular_in_their_precision(steps, resolved):
    """Two of three signals in float32, whose difference is a number of steps of float32.

    LAPACK estimates 1/condition as .45 units for each step, and n units are needed.
    """
    near = 1 - steps * tolerances.EPS["float32"] / 2
    K = np.array([[1, near, 0], [near, 1, 0], [0, 0, 1]], np.float32)
    if resolved:
        assert np.isfinite(regression.interpolate(K, np.ones(3))).all()
    else:
        with pytest.raises(ValueError, match="K of shape .* is numerically singular"):
            regression.interpolate(K, np.ones(3))


@pytest.mark.parametrize("unit", [1e-250, 1e250])
def test_the_unit_of_a_kernel_is_no_singularity(unit, rng):
    K, y = problem(rng, 6)
    found = regression.decompose(unit * K).ridge(y, 0.0) * unit
    close(found, regression.decompose(K).ridge(y, 0.0), np.linalg.cond(K))


@pytest.mark.parametrize(("share", "refused"), [(5.0, False), (20.0, True)])
def test_eigenvalues_below_zero_are_rounding_errors_or_refused(share, refused):
    """An eigendecomposition errs by some units: ten times as much is refused."""
    K = np.diag([1.0, 1.0, 1.0, -4 * share * EPS])
    if refused:
        with pytest.raises(ValueError, match="expected a positive semidefinite matrix"):
            regression.decompose(K)
    else:
        assert np.isfinite(regression.decompose(K).ridge(np.ones(4), 1.0)).all()


@pytest.mark.parametrize(("trained", "refused"), [(0.5, False), (2.0, True)])
def test_times_that_train_rounding_errors_are_refused(trained, refused):
    """An eigenvalue 0, which may be as large as two units, gives t y up to half of its time."""
    K, time = np.diag([1.0, 0.0]), trained / (2 * EPS)
    if refused:
        with pytest.raises(ValueError, match="numerically singular: .* a shorter time"):
            regression.flow(K, np.ones(2), time)
    else:
        assert_within(
            regression.flow(K, np.ones(2), time), [1.0, time], tolerances.ROUTES, [1, time]
        )


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


def test_flow_begins_with_its_slope_and_ends_in_interpolation(rng):
    K, y = problem(rng, n=6, targets=1)
    early = regression.flow(K, y, 1e-18)
    assert_within(early, 1e-18 * y, tolerances.ROUTES)
    close(regression.flow(K, y, np.inf), regression.interpolate(K, y), np.linalg.cond(K))


def test_the_bound_of_learning_rates(rng):
    """Theorem 5 of Tirer et al. 2022."""
    K = problem(rng, n=6)[0]
    values = np.linalg.eigvalsh(K)
    bound = regression.decompose(K).learning_rate_bound()
    assert abs(bound * (values[0] + values[-1]) / 2 - 1) <= 100 * EPS
