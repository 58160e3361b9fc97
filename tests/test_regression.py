"""Regression with kernels against direct solves, refits and matrix exponentials."""

from functools import partial

import numpy as np
import pytest
import scipy.linalg
from scipy.sparse.linalg import aslinearoperator

import rescntk as rk
from rescntk import regression
from tests import tolerances

EPS = tolerances.EPS["float64"]


def problem(rng, n=12, targets=3):
    """Return a network's kernel matrix of random signals, and values."""
    K = rk.ResCNTK(3, head="trace")(rng.standard_normal((n, 2, 6)))
    return K, rng.standard_normal((n, targets)) + 5.0


def close(found, expected, condition):
    bar = tolerances.solution(len(expected), condition) * np.abs(expected).max()
    assert found.shape == np.shape(expected)
    assert np.abs(found - expected).max() <= bar


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
        K, ladder, penalty = F @ F.T, regression.decompose_features(F, weights), penalty or 3.0
    else:
        ladder = regression.decompose(K, weights)
    beta, b, condition = refitted(K, y, penalty, intercept, w)
    found = ladder.ridge(y, penalty, intercept=intercept)
    if intercept:
        close(found[1], b, n * condition)
    close(found[0] if intercept else found, beta, condition)
    one = ladder.ridge(y[:, 1], [penalty, 1.0], intercept=intercept)
    close((one[0] if intercept else one)[0], beta[:, 1], condition)
    G = np.linalg.inv(K + penalty * np.diag(1.0 / w))
    for labels in (np.arange(n), groups):
        given = labels if labels is groups else None
        errors = ladder.leave_one_out(y, penalty, intercept=intercept, groups=given)
        variance = ladder.left_out_variance(penalty, given) if penalty else None
        for i in range(n):
            rest, inside = np.flatnonzero(labels != labels[i]), np.flatnonzero(labels == labels[i])
            part, c, _ = refitted(K[np.ix_(rest, rest)], y[rest], penalty, intercept, w[rest])
            bar = tolerances.solution(n, condition)
            assert np.abs(errors[i] - (y[i] - K[i, rest] @ part - c)).max() <= bar * np.abs(y).max()
            if penalty:
                expected = np.linalg.inv(G[np.ix_(inside, inside)]).diagonal()[inside == i]
                assert abs(variance[i] / expected - 1) <= bar
    if not weighted and rank == n:
        errors = ladder.leave_one_out(y, penalty, intercept=intercept)
        assert (regression.leave_one_out(K, y, penalty, intercept=intercept) == errors).all()
        if not intercept:
            close(regression.ridge(K, y, penalty), beta, condition)
            close(regression.ridge(K, y[:, 0], penalty), beta[:, 0], condition)


@pytest.mark.parametrize(
    ("dtype", "exponent", "resolved"),
    [("float64", -12, True), ("float64", -16, 0), ("float32", -4, True), ("float32", -8, 0)],
)
def test_where_singular_begins(rng, dtype, exponent, resolved):
    n = 6
    K = matrix([1, 1, 1, 1, 1, 10.0**exponent]).astype(dtype)
    y = rng.standard_normal(n)
    for attempt in (
        lambda: regression.interpolate(K, y),
        lambda: regression.leave_one_out(K, y, [1.0, 0.0]),
        lambda: regression.flow(K, y, [0.0, 1e40]),
        lambda: regression.decompose(K).learning_rate_bound(),
    ):
        if resolved:
            assert np.isfinite(attempt()).all()
            continue
        eps = f"n·eps = {n * tolerances.EPS[dtype]:.2g}"
        with pytest.raises(ValueError, match=f"numerically singular: .*{eps}"):
            attempt()
    assert np.isfinite(regression.ridge(K, y, 1e-3)).all()


def test_indefinite_matrices(rng):
    """A foreign kernel with the eigenvalue −9e-10: what the error names, a ridge or clip, helps."""
    values, y = np.array([-9e-10, 0.1, 1, 2, 3, 4]), rng.standard_normal(6)
    K = matrix(values)
    with pytest.raises(ValueError, match=r"-9e-10.*more than 9e-10 added.*clip=True"):
        regression.decompose(K)
    expected = matrix(1 / (np.maximum(values, 0) + 0.1)) @ y
    close(regression.decompose(K, clip=True).ridge(y, 0.1), expected, 40)
    X = rng.standard_normal((9, 2, 6))
    X[1] = X[0] + 1e-5 * X[2]  # rounding errors of float32 are no negative eigenvalues
    below = rk.ResCGPK(3)(X, dtype="float32")
    below[0, 1] = below[1, 0] = np.sqrt(below[0, 0] * below[1, 1]) * (1 + np.float32(2e-7))
    assert np.isfinite(regression.decompose(below).ridge(y[[0] * 9], 0.1)).all()


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_posterior_is_conditioning_of_the_joint_gaussian(rng, noise):
    """Mean and variance of one coordinate given the others, from the joint precision matrix."""
    X, Z = rng.standard_normal((8, 3, 1)), rng.standard_normal((4, 3, 1))
    kernel = rk.Kernel(rk.literature.tirer_resnet(4, 0.7), "gpk", "trace")
    K, y = kernel(X), rng.standard_normal((8, 2))
    found = regression.posterior(K, kernel(Z, X), kernel.diag(Z), y, noise)
    for m in range(4):
        joint = kernel(np.concatenate([X, Z[m : m + 1]]))
        joint[:8, :8] += noise * np.eye(8)
        precision = np.linalg.inv(joint)
        bar = tolerances.solution(9, np.linalg.cond(joint))
        assert abs(found.variance[m] - 1 / precision[8, 8]) <= bar * joint[8, 8]
        mean = -precision[8, :8] @ y / precision[8, 8]
        assert np.abs(found.mean[m] - mean).max() <= bar * np.abs(y).max()
    single = kernel(X, dtype="float32"), kernel(X, dtype="float32"), kernel.diag(X, dtype="float32")
    assert (regression.posterior(*single, y, 1e-3).variance >= 0).all()  # rounding errors are not


def test_flow_solves_its_differential_equation(rng):
    """The solution of β' = y − Kβ, β(0) = 0: no inverse, so K may be singular."""
    K, y = problem(rng, n=6, targets=1)
    F = rng.standard_normal((6, 2))
    for matrix, ladder in (
        (K, regression.decompose(K)),
        (F @ F.T, regression.decompose_features(F)),
    ):
        unit = np.linalg.eigvalsh(matrix)[-1]
        system = np.zeros((7, 7))
        system[:6, :6], system[:6, 6:] = -matrix, y
        times = np.array([0.0, 1e-12, 1e-3, 1.0, 30.0]) / unit
        found = ladder.flow(y, times)
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


class MatrixKernel:
    """A kernel of signals that hold their index; it counts the pairs computed."""

    def __init__(self, K):
        self.K, self.pairs = K, 0

    def __call__(self, X, Z=None):
        rows, columns = (S[:, 0, 0].astype(int) for S in (X, X if Z is None else Z))
        self.pairs += len(rows) * (len(rows) + 1) // 2 if Z is None else len(rows) * len(columns)
        return self.K[np.ix_(rows, columns)]

    def diag(self, X):
        self.pairs += len(X)
        return self.K.diagonal()[X[:, 0, 0].astype(int)]


def indices(n):
    return np.arange(float(n))[:, None, None]


def matrix(eigenvalues, seed=0):
    """Return a matrix with these eigenvalues and random eigenvectors."""
    V = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(eigenvalues),) * 2))[0]
    K = (V * eigenvalues) @ V.T
    return (K + K.T) / 2


@pytest.mark.parametrize("rank", [1, 60, 200])
def test_residual_landmarks_and_pairs(rank):
    eigenvalues = np.arange(1.0, 201) ** -0.5
    K = matrix(eigenvalues)
    kernel = MatrixKernel(K)
    low = regression.pivoted_cholesky(kernel, indices(200), rank, seed=rank)
    left = K - low.factor @ low.factor.T
    assert low.factor.shape == (200, rank) and len(set(low.landmarks)) == rank
    assert abs(np.trace(left) - low.residual) <= 2e4 * EPS * np.trace(K)
    assert np.abs(left[low.landmarks]).max() <= 1e4 * EPS  # columns of landmarks are exact
    assert np.abs(np.triu(low.factor[low.landmarks], 1)).max(initial=0.0) <= 100 * EPS
    assert kernel.pairs <= (rank + 1) * 200
    assert low.residual <= 1.5 * eigenvalues[rank:].sum() + 2e4 * EPS  # near the best of equal rank
    again = regression.pivoted_cholesky(kernel, indices(200), rank, seed=rank)
    assert (again.landmarks == low.landmarks).all() and (again.factor == low.factor).all()


def test_pivots_follow_the_residual():
    """Blocks with rejection draw pairs of pivots as often as single draws do."""
    K = matrix(np.array([4.0, 2.0, 1.0, 0.5]), seed=1)
    d, draws = K.diagonal(), 300
    expected, found = np.zeros((2, 4, 4))
    for i in range(4):
        left = np.where(np.arange(4) == i, 0.0, d - K[i] ** 2 / d[i])
        expected[i] = d[i] / d.sum() * left / left.sum()
    for seed in range(draws):
        i, j = regression.pivoted_cholesky(MatrixKernel(K), indices(4), 2, seed).landmarks
        found[i, j] += 1
    error = tolerances.STANDARD_ERRORS * np.sqrt(expected * (1 - expected) / draws)
    assert (np.abs(found / draws - expected) <= error).all()


def test_duplicates_lists_and_images(rng):
    X, kernel = np.tile(rng.standard_normal((7, 2, 8)), (5, 1, 1)), rk.ResCNTK(2)
    for dtype in ("float64", "float32"):
        with pytest.warns(UserWarning, match="rank 7 of 20"):
            low = regression.pivoted_cholesky(kernel, X, 20, dtype=dtype)
        assert low.factor.shape == (35, 7)
        assert np.allclose(low.factor @ low.factor.T, kernel(X), rtol=1e6 * tolerances.EPS[dtype])
    lists = [rng.standard_normal((2, d)) for d in (5, 3, 7, 5, 4, 6)]
    for signals in (lists, rng.standard_normal((6, 2, 3, 4))):  # images
        low, K = regression.pivoted_cholesky(rk.ResCGPK(3), signals, 4), rk.ResCGPK(3)(signals)
        assert np.trace(K - low.factor @ low.factor.T) == pytest.approx(low.residual)


class OnlyProducts:
    """A matrix that can only be multiplied; it counts the products."""

    def __init__(self, K):
        self.K, self.shape, self.products = K, K.shape, 0

    def __matmul__(self, V):
        self.products += 1
        return self.K @ V


def test_conjugate_gradients(rng):
    x, penalty = rng.uniform(-1, 1, (300, 3)), 1e-3
    K = np.exp(-2 * ((x[:, None] - x[None]) ** 2).sum(axis=2))
    low = regression.pivoted_cholesky(MatrixKernel(K), indices(300), 150)
    for Y in (rng.standard_normal((300, 3)), rng.standard_normal(300) * 1e200):
        exact, products = regression.ridge(K, Y, penalty), []
        for preconditioner in (low, low.factor, None):
            only = OnlyProducts(K)
            options = {"preconditioner": preconditioner, "max_iterations": 5000}
            found = regression.solve(only, Y, penalty, **options)
            left = np.linalg.norm((Y - K @ found - penalty * found) / np.abs(Y).max(), axis=0)
            assert (left <= 1.1e-6 * np.linalg.norm(Y / np.abs(Y).max(), axis=0)).all()
            products.append(only.products)
            tight = regression.solve(K, Y, penalty, tolerance=1e-11, **options)
            assert np.abs(tight - exact).max() <= 1e-6 * np.abs(exact).max()
        assert products[0] <= 50 and products[2] >= 150
    zero = regression.solve(aslinearoperator(K), np.zeros((300, 2)), 1.0)
    assert (zero == 0).all() and zero.shape == (300, 2)
    with pytest.warns(scipy.linalg.LinAlgWarning, match="ended at a residual of"):
        regression.solve(K, Y, penalty, max_iterations=5)


class Damaged(MatrixKernel):
    """A kernel whose values, and products with vectors, are damaged."""

    shape = (4, 4)

    def __call__(self, X, Z=None):
        return np.where(super().__call__(X, Z) >= 0, np.nan, 0)

    def __matmul__(self, V):
        return 1j * V


E2, ONES = np.eye(2), np.ones(2)
LADDER, LOW, FLOW = regression.decompose(E2), regression.pivoted_cholesky, regression.flow
SOLVE, RIDGE, POSTERIOR = regression.solve, regression.ridge, regression.posterior
LEFT_OUT, MASKED = partial(LADDER.leave_one_out, ONES, 0.1), np.ma.masked_array(E2)
REFUSALS = [
    (RIDGE, (np.ones((2, 3)), ONES, 1.0), r"K has shape \(2, 3\), expected \(n, n\)"),
    (RIDGE, (E2, np.ones(3), 1.0), r"y has shape \(3,\), expected \(2,\) or \(2, n_targets\)"),
    (RIDGE, ([[1, 2], [0, 1]], ONES, 1.0), "K of shape .* is not symmetric"),
    (RIDGE, (E2, ONES, -1), "penalty is -1, expected a finite number of at least 0"),
    (SOLVE, (MASKED, ONES), "K is a masked array"),
    (POSTERIOR, (E2, E2, [1, np.inf], ONES), "prior of shape .* contains NaN or inf"),
    (SOLVE, (Damaged(E2), np.ones(4)), "K @ v has dtype complex128"),
    (LOW, (Damaged(np.eye(4)), indices(4), 1), r"kernel\(X\) of shape .* contains NaN"),
    (LADDER.ridge, (ONES, [1, -1]), "^penalty .* of at least 0, one or a vector"),
    (LADDER.ridge, (ONES, []), "^penalty .* of at least 0, one or a vector"),
    (FLOW, (E2, ONES, -1), "^time .* of at least 0, one or a vector"),
    (regression.decompose, (E2, np.arange(2)), "case_weights has 0, expected positive numbers"),
    (POSTERIOR, (E2, [[0.5, 0], [2, 0]], [1, 1], ONES), "belong to K: the variance at point 1"),
    (POSTERIOR, (E2, np.ones((1, 3)), [1], ONES), r"cross has shape \(1, 3\), expected \(m, 2\)"),
    (POSTERIOR, (E2, np.ones((1, 2)), [1, 1], ONES), r"prior has shape \(2,\), expected \(1,\)"),
    (SOLVE, (OnlyProducts(np.ones(3)), ONES), r"K is a OnlyProducts of shape \(3,\), expected"),
    (partial(SOLVE, preconditioner=E2), (E2, ONES), "ridge is 0.0, expected a positive number"),
    (LOW, (3, indices(4), 2), "kernel is 3"),
    (LOW, (np.outer, indices(4), 2), r"kernel is .*, expected a rescntk.Kernel, or kernel.diag"),
    (FLOW, (0 * E2, ONES, np.inf), r"K of shape \(2, 2\) is numerically singular"),
    (partial(LADDER.ridge, intercept=2), (ONES, 0.1), "intercept is 2, expected True or False"),
    (POSTERIOR, ([[1], [1, 2]], E2, ONES, ONES), "K is not a rectangular array"),
    (regression.decompose_features, ([[1e200]],), "the results exceed float64"),
    (LOW, (MatrixKernel(-np.eye(4)), indices(4), 2), "kernel has -1 on its diagonal"),
    (LOW, (MatrixKernel(np.eye(4)), indices(4), 5), "rank is 5, expected at most .* 4"),
    (partial(LEFT_OUT, groups=[1]), (), r"^groups has shape \(1,\), expected"),
    (partial(LEFT_OUT, groups=[1.0, np.nan]), (), r"^groups\[1\] is missing \(nan\)"),
    (partial(LEFT_OUT, groups=np.array([1, "a"], dtype=object)), (), "^groups .*one kind"),
    (partial(LEFT_OUT, intercept=True, groups=[0, 0]), (), "expected two"),
    (SOLVE, (1e-3 * E2, [1e308] * 2), "the results exceed float64"),
    (FLOW, (1e-3 * E2, [1e308] * 2, np.inf), "the results exceed float64"),
]


@pytest.mark.parametrize(("call", "arguments", "message"), REFUSALS)
def test_refusals(call, arguments, message):
    with pytest.raises(OverflowError if "exceed" in message else ValueError, match=message):
        call(*arguments)
