"""Regression with kernels against brute force: refits, matrix exponentials, joint covariances."""

import numpy as np
import pytest
import scipy.linalg
from scipy.sparse.linalg import aslinearoperator

import rescntk as rk
from rescntk import regression
from tests import tolerances

EPS = tolerances.EPS["float64"]
RIDGES = [0.0, 1e-3, 0.5, 20.0]


def problem(rng, n=12, targets=3):
    """Return a network's kernel on random signals, its matrix, values, and new signals."""
    kernel = rk.ResCNTK(3, head="trace")
    X, Z = rng.standard_normal((n, 2, 6)), rng.standard_normal((5, 2, 6))
    return kernel, X, kernel(X), rng.standard_normal((n, targets)), Z


def close(found, expected, n, condition):
    bar = tolerances.solution(n, condition) * np.abs(expected).max()
    assert found.shape == np.shape(expected)
    assert np.abs(found - expected).max() <= bar


def refitted(K, y, ridge, intercept, weights=1.0):
    """Return coefficients, constants and the condition of (K + λ/w)β + 1b = y, 1ᵀβ = 0."""
    n = len(K)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = K + ridge * np.diag(np.broadcast_to(1.0 / np.asarray(weights), n))
    system[n, :n] = system[:n, n] = intercept
    system[n, n] = not intercept
    found = np.linalg.solve(system, np.concatenate([y, np.zeros((1, y.shape[1]))]))
    return found[:n], found[n], np.linalg.cond(system)


# ---------------------------------------------------------------- interpolation and ridge


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("weighted", [False, True])
def test_normal_equations_and_refits(rng, ridge, intercept, weighted):
    """Coefficients, constants and leave-one-out errors, by Cholesky and by eigenvalues."""
    _, _, K, y, _ = problem(rng)
    y, n = y + 5.0, len(K)
    w = rng.uniform(0.2, 3.0, n) if weighted else np.ones(n)
    before = K.copy(), y.copy()
    ladder = regression.decompose(K, w if weighted else None)
    beta, constant, condition = refitted(K, y, ridge, intercept, w)
    fits = []
    for values in (y, y[:, 1]):
        errors = ladder.leave_one_out(values, ridge, intercept=intercept)
        pair = (ladder.coefficients(values, ridge), 0.0 * constant)
        pair = ladder.with_intercept(values, ridge) if intercept else pair
        fits.append((*pair, errors))
        if not weighted:
            found = regression.solve(K, values, ridge, intercept=intercept, leave_one_out=True)
            fits.append((found.coefficients, found.intercepts, found.errors))
            plain = regression.solve(K, values, ridge)
            assert intercept or (found.coefficients == plain).all()
    bar = tolerances.solution(n, condition) * np.abs(y).max()
    left_out = np.empty(y.shape)
    for i in range(n):
        rest = np.delete(np.arange(n), i)
        part, b, _ = refitted(K[np.ix_(rest, rest)], y[rest], ridge, intercept, w[rest])
        left_out[i] = y[i] - K[i, rest] @ part - b
    for coefficients, constants, errors in fits:
        column = slice(None) if coefficients.ndim == 2 else 1
        close(coefficients, beta[:, column], n, condition)
        if intercept:
            close(constants, constant[column], n, condition)
        assert np.abs(errors - left_out[:, column]).max() <= bar
    assert (K == before[0]).all() and (y == before[1]).all()


@pytest.mark.parametrize("intercept", [False, True])
def test_without_a_ridge_weights_do_not_matter(rng, intercept):
    """K⁻¹ is as exact with weights from 1e-6 to 1e6 as without (it had errors of 5e-9)."""
    n = 30
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    K, y = (Q * np.geomspace(1, 185, n)) @ Q.T, rng.standard_normal((n, 2))
    plain = regression.decompose(K)
    weighted = regression.decompose(K, np.geomspace(1e-6, 1e6, n))

    def results(ladder, ridge):
        found = ladder.with_intercept(y, ridge) if intercept else (ladder.coefficients(y, ridge),)
        return *found, ladder.leave_one_out(y, ridge, intercept=intercept)

    for found, expected in zip(results(weighted, 0.0), results(plain, 0.0), strict=True):
        close(found, expected, n, 185)
    for k, ridge in enumerate((0.5, 0.0)):
        for ladder, at in zip(results(weighted, [0.5, 0.0]), results(weighted, ridge), strict=True):
            assert (ladder[k] == at).all()
    cross = rng.standard_normal((3, n))
    close(weighted.variance(cross, 1e3), plain.variance(cross, 1e3), n, 185)


def test_variances_and_interpolants(rng):
    kernel, X, K, y, Z = problem(rng)
    n, condition = len(K), np.linalg.cond(K)
    for ridge, unit in ((0.0, 1.0), (0.5, 1.0), (0.5, 1e-200), (0.5, 1e200)):
        given = K[:5] * 0.5, K.diagonal()[:5]
        expected = regression.posterior(K, *given, y, ridge).variance
        scaled = regression.decompose(unit * K).variance(*(unit * k for k in given), unit * ridge)
        close(scaled / unit, expected, n, condition)
    close(regression.interpolate(kernel, X, y, X), y, n, condition)
    expected = kernel(Z, X) @ np.linalg.inv(K + 0.3 * np.eye(n)) @ y
    close(regression.interpolate(kernel, X, y, Z, ridge=0.3), expected, n, condition)


@pytest.mark.parametrize(
    ("dtype", "exponent", "resolved"),
    [("float64", -13, True), ("float64", -15, 0), ("float32", -5, True), ("float32", -8, 0)],
)
def test_where_singular_begins(rng, dtype, exponent, resolved):
    """λ_min against n·eps·λ_max with the eps of K's dtype, by Cholesky as by eigenvalues."""
    n = 6
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    K = Q @ np.diag([1, 1, 1, 1, 1, 10.0**exponent]) @ Q.T
    K = ((K + K.T) / 2).astype(dtype)
    y, eps = rng.standard_normal(n), tolerances.EPS[dtype]
    smallest = np.linalg.eigvalsh(K.astype(np.float64))[0]
    assert (smallest > n * eps) == resolved
    for attempt in (
        lambda: regression.solve(K, y),
        lambda: regression.posterior(K, np.zeros((1, n)), np.ones(1), y).mean,
        lambda: regression.decompose(K).coefficients(y),
        lambda: regression.decompose(K).leave_one_out(y, [1.0, 0.0]),
        lambda: regression.decompose(K).flow(y, [0.0, 1e40]),
        lambda: regression.decompose(K).learning_rate_bound(),
    ):
        if resolved:
            assert np.isfinite(attempt()).all()
            continue
        says = f"numerically singular: its smallest eigenvalue .* eps = {eps:.3g} of"
        with pytest.raises(ValueError, match=says) as refused:
            attempt()
        named = float(str(refused.value).split("included) is ")[1].split(",")[0])
        assert abs(named - smallest) <= 100 * EPS + 5e-3 * abs(smallest)  # three digits
    assert np.isfinite(regression.solve(K, y, ridge=1e-3)).all()


def test_kernels_in_float32(rng):
    """Rounding errors of float32 are no negative eigenvalues, no asymmetry, and no information."""
    X = rng.standard_normal((12, 2, 6))
    X[1] = X[0] + 1e-5 * X[2]  # in float64 resolved, in float32 not
    y, ridge = rng.standard_normal(12), 0.1
    kernel = rk.ResCGPK(3, head="trace")
    K, K32 = kernel(X), kernel(X, dtype="float32")
    assert np.isfinite(regression.solve(K, y)).all()
    with pytest.raises(ValueError, match=r"or a larger ridge or a matrix in float64\)"):
        regression.solve(K32, y)
    crossed, below = K32.copy(), K32.copy()
    crossed[0, 1] = np.nextafter(crossed[0, 1], np.float32(0))
    below[0, 1] = below[1, 0] = np.sqrt(K32[0, 0]) * np.sqrt(K32[1, 1]) * (1 + np.float32(2e-7))
    assert np.linalg.eigvalsh(below.astype(np.float64))[0] < -20 * len(X) * EPS * K.max()
    expected = regression.solve(K, y, ridge)
    condition = np.linalg.cond(K + ridge * np.eye(12))
    bar = 12 * tolerances.KERNEL["float32"] * condition * np.abs(expected).max()
    for matrix in (K32, crossed, below):
        ladder = regression.decompose(matrix)
        assert ladder.eps == tolerances.EPS["float32"]
        assert np.abs(ladder.coefficients(y, ridge) - expected).max() <= bar
        assert np.abs(regression.solve(matrix, y, ridge) - expected).max() <= bar


def test_posterior_in_float32(rng):
    """A variance that rounding errors take below 0 does not accuse the kernel."""
    kernel = rk.Kernel(rk.literature.tirer_resnet(5, 0.1), "gpk", "trace")
    X, single = rng.standard_normal((8, 3, 1)), {"dtype": "float32"}
    matrices = kernel(X, **single), kernel(X, X, **single), kernel.diag(X, **single)
    variance = regression.posterior(*matrices, np.ones(8)).variance
    assert (variance >= 0).all()
    assert variance.max() <= np.sqrt(tolerances.EPS["float32"]) * kernel.diag(X).max()


def test_ways_out_for_an_indefinite_matrix(rng):
    """A foreign kernel with the eigenvalue −9e-10: what the error names, a ridge or clip, helps."""
    Q, values = np.linalg.qr(rng.standard_normal((6, 6)))[0], np.array([-9e-10, 0.1, 1, 2, 3, 4])
    K, y = (Q * values) @ Q.T, rng.standard_normal(6)
    K = (K + K.T) / 2
    with pytest.raises(ValueError, match=r"-9e-10.*more than 9e-10 added.*clip=True") as refused:
        regression.decompose(K)
    least = float(str(refused.value).split("more than ")[1].split(" ")[0])
    for ridge in (1.01 * least, 0.1):
        expected = (Q / (values + ridge)) @ Q.T @ y
        close(regression.solve(K, y, ridge), expected, 6, 4 / (ridge - 9e-10))
    close(regression.decompose(K + 0.1 * np.eye(6)).coefficients(y), expected, 6, 40)
    clipped = regression.decompose(K, clip=True)
    close(clipped.coefficients(y, 0.1), (Q / (np.maximum(values, 0) + 0.1)) @ Q.T @ y, 6, 40)
    with pytest.raises(ValueError, match="numerically singular"):
        clipped.coefficients(y)


def never(*arguments):
    """Stand for a kernel: all arguments are looked at before it is computed."""
    raise AssertionError("computed")


E2, ONES, X = np.eye(2), np.ones(2), np.ones((3, 2, 6))
SOLVE, POSTERIOR, INTERPOLATE = regression.solve, regression.posterior, regression.interpolate
LADDER = regression.decompose(E2)
REFUSALS = [
    (SOLVE, (np.ones((2, 3)), ONES), r"K has shape \(2, 3\), expected \(n, n\)"),
    (SOLVE, (E2, np.ones(3)), r"y has shape \(3,\), expected \(2,\) or \(2, n_targets\)"),
    (SOLVE, (E2, [1, np.nan]), "y of shape .* contains NaN"),
    (SOLVE, ([[1, 2], [3]], [1, 2]), r"K is not a rectangular array, .* \(n, n\)"),
    (SOLVE, ([[1, 2], [0, 1]], ONES), "K of shape .* is not symmetric"),
    (SOLVE, (np.diag([2.0, -1e-6]), ONES), "smallest eigenvalue .* is -1e-06"),
    (SOLVE, (E2, ONES, -1), "ridge is -1, expected a finite number of at least 0"),
    *[
        (LADDER.coefficients, (ONES, ridge), r"^ridge .* of at least 0, one or \(n_ridges,\)")
        for ridge in ([1, -1], [np.inf], [[1.0]], "much", [])
    ],
    (LADDER.flow, (ONES, -1), r"^time .* of at least 0, one or \(n_times,\)"),
    (LADDER.flow, (ONES, 1.0, 0), "learning_rate is "),
    (regression.decompose, (E2, np.arange(2)), "case_weights has 0, expected positive numbers"),
    (INTERPOLATE, (never, X, ONES, X), r"y has shape \(2,\), expected \(3,\)"),
    (INTERPOLATE, (never, X, np.ones(3), X[:, :1]), r"Z has shape \(3, 1, 6\), expected 2 chan"),
    (INTERPOLATE, (never, X, np.ones(3), X, -1), "ridge is -1"),
    (INTERPOLATE, (rk.Network(3), X, np.ones(3), X), r"kernel is Network\(.* a rescntk.Kernel"),
    (POSTERIOR, (E2, [[0.5, 0], [2, 0]], [1, 1], [0, 0]), "K: the posterior variance at point 1"),
    # The worst is the worst relative to its prior: 1e-3 of 1e6 is less wrong than 0.5 of 1.
    (POSTERIOR, (E2, np.diag([1e6 + 1e3, 1.5]) ** 0.5, [1e6, 1], ONES), r"1 would be -0\.5"),
    (POSTERIOR, (E2, [[0.5, 0], [0, 2]], [0, 1], ONES), r"at point 0 would be -0\.25"),
    (POSTERIOR, (E2, np.ones((1, 3)), [1], ONES), r"cross has shape \(1, 3\), expected \(m, 2\)"),
    (POSTERIOR, (E2, np.ones((1, 2)), [1, 1], ONES), r"prior has shape \(2,\), expected \(1,\)"),
    (POSTERIOR, (E2, np.ones((1, 2)), [[1], []], ONES), "^prior is not a rectangular array"),
]


@pytest.mark.parametrize(("call", "arguments", "message"), REFUSALS)
def test_refusals(call, arguments, message):
    with pytest.raises(ValueError, match=message):
        call(*arguments)


def test_a_single_point_knows_its_constant_alone():
    with pytest.raises(ValueError, match="expected two values: one is the intercept"):
        regression.decompose(np.eye(1)).leave_one_out(np.ones(1), 0.1, intercept=True)


# ---------------------------------------------------------------- Gaussian processes


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_posterior_is_conditioning_of_the_joint_gaussian(rng, noise):
    """Mean and variance of one coordinate given the others, from the joint precision matrix."""
    X, Z = rng.standard_normal((8, 3, 1)), rng.standard_normal((4, 3, 1))
    kernel = rk.Kernel(rk.literature.tirer_resnet(4, 0.7), "gpk", "trace")
    K, y = kernel(X), rng.standard_normal((8, 2))
    found = regression.posterior(K, kernel(Z, X), kernel.diag(Z), y, noise)
    assert found.mean.shape == (4, 2) and found.variance.shape == (4,)
    zero = regression.posterior(E2, np.zeros((1, 2)), [0], ONES)
    assert zero.mean == 0 and zero.variance == 0
    for m in range(4):
        joint = kernel(np.concatenate([X, Z[m : m + 1]]))
        joint[:8, :8] += noise * np.eye(8)
        precision = np.linalg.inv(joint)
        bar = tolerances.solution(9, np.linalg.cond(joint))
        assert abs(found.variance[m] - 1 / precision[8, 8]) <= bar * joint[8, 8]
        mean = -precision[8, :8] @ y / precision[8, 8]
        assert np.abs(found.mean[m] - mean).max() <= bar * np.abs(y).max()


# ---------------------------------------------------------------- training


def test_flow_solves_its_differential_equation(rng):
    """The solution of β' = y − Kβ, β(0) = 0: no inverse, so K may be singular."""
    _, X, K, y, _ = problem(rng, n=6, targets=1)
    for matrix in (K, rk.ResCNTK(3, head="trace")(X[[0, 1, 2, 3, 4, 0]])):
        unit = np.linalg.eigvalsh(matrix)[-1]
        system = np.zeros((7, 7))
        system[:6, :6], system[:6, 6:] = -matrix, y
        times = np.array([0.0, 1e-12, 1e-3, 1.0, 30.0]) / unit
        found = regression.decompose(matrix).flow(y, times)
        assert found.shape == (5, 6, 1)
        for time, coefficients in zip(times, found, strict=True):
            expected = scipy.linalg.expm(time * system)[:6, 6:]
            # The exponential of a matrix of norm τ errs by some eps·τ of e^τ at worst;
            # it is squared and scaled, and its own entries stay below 1 here.
            bar = 1e3 * EPS * max(1, unit * time) * np.abs(expected).max()
            assert np.abs(coefficients - expected).max() <= bar


def test_flow_begins_with_the_residual_and_ends_with_the_interpolant(rng):
    _, _, K, y, _ = problem(rng)
    ladder = regression.decompose(K)
    unit = ladder.eigenvalues[-1]
    # The first step is ηty, relatively to within ηtλ: no cancellation in 1 − e^−x.
    early = ladder.flow(y, 1e-18 / unit, learning_rate=2.0)
    np.testing.assert_allclose(early, 2e-18 / unit * y, rtol=100 * EPS * len(K))
    assert (ladder.flow(y, 0.0) == 0).all()
    close(ladder.flow(y, np.inf), ladder.coefficients(y), len(K), 1)
    rate = 0.37
    assert np.abs(ladder.flow(y, 2.0, rate) - ladder.flow(y, 2.0 * rate)).max() <= 100 * EPS


def test_the_bound_of_theorem_5(rng):
    """Tirer et al. 2022: rates below 2/(λ_min + λ_max). Those up to 2/λ_max converge as well."""
    kernel = rk.Kernel(rk.literature.tirer_resnet(5, 0.1), "ntk", "trace")
    K = kernel(rng.standard_normal((8, 4, 1)))
    eigenvalues = np.linalg.eigvalsh(K)
    bound = regression.decompose(K).learning_rate_bound()
    assert abs(bound * (eigenvalues[0] + eigenvalues[-1]) / 2 - 1) <= 100 * EPS
    for rate, converges in (
        (0.5 * bound + 1 / eigenvalues[-1], True),
        (2.1 / eigenvalues[-1], False),
    ):
        assert (rate > bound) and (np.abs(1 - rate * eigenvalues) < 1).all() == converges


def test_signals_of_different_lengths(rng):
    """Kernels take lists, and so does all that calls a kernel on signals."""
    X = [rng.standard_normal((2, d)) for d in (5, 3, 7, 5, 4, 6, 3, 7)]
    Z, y = X[2:5], np.arange(8.0)
    kernel = rk.ResCGPK(3, normalized=True)
    np.testing.assert_allclose(rk.regression.interpolate(kernel, X, y, Z), y[2:5])
    low = rk.regression.pivoted_cholesky(kernel, X, 5)
    K = kernel(X)
    assert np.trace(K - low.factor @ low.factor.T) == pytest.approx(low.residual)
    features = rk.regression.landmark_map(kernel, X, low)
    chosen = K[np.ix_(low.landmarks, low.landmarks)]
    bar = tolerances.solution(len(chosen), np.linalg.cond(chosen))
    np.testing.assert_allclose(features(Z), features(X)[2:5], atol=bar)
    approximation = low.factor @ low.factor.T
    np.testing.assert_allclose(features(Z) @ features(X).T, approximation[2:5], atol=bar)
    with pytest.raises(ValueError, match=r"X has shape \(1, 3, 5\), expected 2 channels as in sig"):
        features(np.ones((1, 3, 5)))
    found = rk.regression.restricted_ridge(kernel, X, y, low, [0.1])
    assert found.predict(Z).shape == (1, 3)


# ---------------------------------------------------------------- the end of float64


def test_targets_near_the_end_of_float64():
    """Solutions in the range of float64 are right, in units of 2^1023 as in units of 1."""
    K, unit = 4.0 * np.eye(9) + 1.0, 2.0**1023
    y = np.where(np.arange(9) % 2, 1.0, -1.0) + np.eye(9)[0]
    for solved in (
        lambda y: regression.solve(aslinearoperator(K), y).coefficients,
        lambda y: regression.solve(aslinearoperator(K), y, intercept=True).coefficients,
    ):
        assert (solved(y * unit / 2) == solved(y) * (unit / 2)).all()


def test_results_beyond_float64_are_refused():
    K, F, y = np.eye(4), np.eye(4)[:, :2], np.full(4, 1e308)
    tiny, ladder = K * 1e-3, regression.decompose(K * 1e-3)
    for call in (
        lambda: regression.solve(tiny, y),
        lambda: regression.solve(aslinearoperator(tiny), y),
        lambda: regression.posterior(tiny, K, np.full(4, 1e4), y),
        lambda: regression.interpolate(
            lambda *batches: tiny, y[:, None, None], y, np.ones((4, 1, 1))
        ),
        lambda: ladder.coefficients(y),
        lambda: ladder.with_intercept(y),
        lambda: ladder.leave_one_out(y),
        lambda: ladder.flow(y, np.inf),
        lambda: regression.decompose(K * 1e308, y),
        lambda: regression.FeatureRidge().add(F, y).weights(1.0),
    ):
        with pytest.raises(OverflowError, match="the results exceed float64, expected smaller"):
            call()
