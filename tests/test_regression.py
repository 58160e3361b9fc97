"""Regression with kernels against direct solves, refits and matrix exponentials."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from mpmath import mp
from scipy.sparse.linalg import aslinearoperator

import rescntk as rk
from rescntk import regression
from rescntk.validation import PARTS
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


NOISES = [0.0, 0.2, np.r_[0.0, 0.3:1.0:6j, 1e12]]


@pytest.mark.parametrize("noise", NOISES, ids=["none", "one", "of each"])
def test_posterior_is_conditioning_of_the_joint_gaussian(rng, noise):
    """Mean and covariance of four coordinates given the others, from the joint precision matrix."""
    X, Z = rng.standard_normal((8, 3, 1)), rng.standard_normal((4, 3, 1))
    kernel = rk.Kernel(rk.literature.tirer_resnet(4, 0.7), "gpk", "trace")
    K, y = kernel(X), rng.standard_normal((8, 2))
    joint = kernel(np.concatenate([X, Z]))
    joint[:8, :8] += noise * np.eye(8)
    precision = np.linalg.inv(joint)
    covariance = np.linalg.inv(precision[8:, 8:])
    roots = np.sqrt(joint.diagonal())
    bar = tolerances.solution(12, np.linalg.cond(joint / roots / roots[:, None]))
    found = regression.posterior(K, kernel(Z, X), kernel(Z), y, noise)
    assert np.abs(found.covariance - covariance).max() <= bar * joint[8:, 8:].max()
    assert (found.covariance == found.covariance.T).all()
    assert np.abs(found.mean + covariance @ precision[8:, :8] @ y).max() <= bar * np.abs(y).max()
    each = regression.posterior(K, kernel(Z, X), kernel.diag(Z), y, noise)
    assert each.covariance is None and (each.mean == found.mean).all()
    for variance in (each.variance, found.variance):
        assert np.abs(variance - covariance.diagonal()).max() <= bar * joint[8:, 8:].max()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_covariances_that_vanish_are_semidefinite(rng, dtype):
    """At signals that are known, rounding errors of the kernel are all that is left."""
    X, y = rng.standard_normal((9, 2, 6)), rng.standard_normal(9)
    K, T = rk.gram(rk.Network(3), X, head="trace", dtype=dtype)
    noise = 0.0 if dtype == "float64" else 1e-3
    for found in (
        regression.posterior(K, K, K, y, noise),
        regression.ensemble((T, T), (K, K, K), y),
    ):
        values = np.linalg.eigvalsh(found.covariance)
        assert values[0] >= -9 * EPS * values[-1] and (found.variance >= 0).all()
        assert values[-1] <= max(1.1 * noise, 1e4 * tolerances.EPS[dtype] * K.max())


def test_scikit_learns_gaussian_process(rng):
    """Posterior and evidence, with another noise for each observation."""
    gaussian_process = pytest.importorskip("sklearn.gaussian_process")
    x, z = rng.uniform(-2, 2, (9, 2)), rng.uniform(-2, 2, (4, 2))
    kernel = 3.0 * gaussian_process.kernels.RBF(0.8)
    y, noise = 5 * rng.standard_normal((9, 3)), rng.uniform(0.01, 2.0, 9)
    K, bar = kernel(x), tolerances.solution(9, np.linalg.cond(kernel(x) + np.diag(noise)))
    found = regression.posterior(K, kernel(z, x), kernel(z), y, noise)
    evidence = regression.evidence(K, y, noise)
    for k in range(3):
        options = {"alpha": noise, "optimizer": None}
        peer = gaussian_process.GaussianProcessRegressor(kernel, **options).fit(x, y[:, k])
        mean, covariance = peer.predict(z, return_cov=True)
        assert np.abs(found.mean[:, k] - mean).max() <= bar * np.abs(y).max()
        assert np.abs(found.covariance - covariance).max() <= bar * 3
        expected = peer.log_marginal_likelihood_value_
        for value in (evidence[k], regression.evidence(K, y[:, k], noise)):
            assert abs(value / expected - 1) <= bar


def trained(T, T_cross, joint, y, time):
    """Return M y and [−M, I] K [−M, I]ᵀ of Lee et al. 2019, in 60 digits."""
    with mp.workdps(60):
        T, T_cross, joint, y = (mp.matrix(A.tolist()) for A in (T, T_cross, joint, y))
        values, Q = mp.eigsy(T)
        rates = [(1 - mp.exp(-value * time)) / value for value in values]
        M = T_cross * Q * mp.diag(rates) * Q.T
        m = M.rows
        A = mp.matrix(m, M.cols + m)
        A[:, : M.cols], A[:, M.cols :] = -M, mp.eye(m)
        return [np.array(part.tolist(), float) for part in (M * y, A * joint * A.T)]


@pytest.mark.parametrize("scale", [1e-140, 1.0, 1e140])
def test_ensembles_are_linear_maps_of_random_functions(rng, scale):
    """Of two networks' kernels, so that T is no multiple of K; at t = 0 they are the prior."""
    X = rng.standard_normal((9, 2, 6))
    joint = scale * rk.ResCGPK(2, head="trace")(X)
    T = rk.ResCNTK(3)(X) / scale
    y, times = rng.standard_normal((6, 2)), scale * np.array([0.0, 1e-9, 0.7, 30.0, np.inf])
    tangent, gpk = (T[:6, :6], T[6:, :6]), (joint[:6, :6], joint[6:, :6], joint[6:, 6:])
    found = regression.ensemble(tangent, gpk, y, times)
    bar = tolerances.solution(6, np.linalg.cond(T))
    each = regression.ensemble(tangent, (*gpk[:2], gpk[2].diagonal()), y[:, 0], times)
    assert found.mean.shape == (5, 3, 2) and each.covariance is None
    for k, time in enumerate(times):
        mean, covariance = trained(*tangent, joint, y, time)
        assert np.abs(found.mean[k] - mean).max() <= bar * np.abs(mean).max()
        errors = found.covariance[k] - covariance, each.variance[k] - covariance.diagonal()
        assert max(np.abs(error).max() for error in errors) <= bar * gpk[2].max()
        one = regression.ensemble(tangent, gpk, y, time)
        assert all((a[k] == b).all() for a, b in zip(found, one, strict=True))
        assert np.abs(each.mean[k] - mean[:, 0]).max() <= bar * np.abs(mean).max()
    assert (found.mean[0] == 0).all() and (found.covariance[0] == gpk[2]).all()
    same = regression.ensemble((3 * gpk[0], 3 * gpk[1]), gpk, y)
    posterior = regression.posterior(*gpk, y)
    for one, other in zip(same, posterior, strict=True):
        bar = tolerances.solution(6, np.linalg.cond(gpk[0])) * max(
            np.abs(other).max(), gpk[2].max()
        )
        assert np.abs(one - other).max() <= bar


def test_ensembles_of_neural_tangents():
    """`tests/data/trained_ensembles.py` wrote its means and covariances, in float64."""
    peer = np.load(Path(__file__).parent / "data/trained_ensembles.npz")
    network = rk.Network(3, 3, alpha=0.5, trained=PARTS)
    K, T = rk.gram(network, peer["X"])
    K_cross, T_cross = rk.gram(network, peer["Z"], peer["X"])
    gpk = K, K_cross, rk.gram(network, peer["Z"]).gpk
    found = regression.ensemble((T, T_cross), gpk, peer["y"], peer["times"])
    bar = tolerances.solution(5, np.linalg.cond(T))
    assert np.abs(found.mean - peer["mean"]).max() <= bar
    assert np.abs(found.covariance - peer["covariance"]).max() <= bar


@pytest.mark.slow
def test_ensembles_of_finite_networks(rng):
    """Mean and variance of networks after gradient descent, within their standard errors.

    erf is smooth, so that kernels of a width of 256 move by a few percent at most.
    """
    pytest.importorskip("jax")
    network, head = rk.Network(1, activation="erf", trained=PARTS), "trace"
    n, rate, steps = 40, 0.05, 20
    X, Z = rng.standard_normal((2, 3, 1, 4))
    y, runs = np.array([1.0, -1.0, 0.5]), []
    for seed in range(n):
        params = rk.finite.init(seed, network, 1, 256, n_timepoints=4)
        runs.append(
            rk.finite.train(network, params, X, y, rate, steps, head=head, Z=Z, every=steps)
        )
    (K, T), (K_cross, T_cross) = (rk.gram(network, *pair, head=head) for pair in ([X], [Z, X]))
    gpk = K, K_cross, rk.Kernel(network, "gpk", head).diag(Z)
    found = regression.ensemble((T, T_cross), gpk, y, [0.0, rate * steps])
    outputs = np.array([run.test_outputs for run in runs])
    means, variances = outputs.mean(axis=0), outputs.var(axis=0, ddof=1)
    errors = np.abs(means - found.mean) / np.sqrt(found.variance / n)
    assert (errors <= tolerances.STANDARD_ERRORS).all()
    errors = np.abs(variances / found.variance - 1) / np.sqrt(2 / (n - 1))
    assert (errors <= tolerances.STANDARD_ERRORS).all()
    assert (found.variance[1] < 0.7 * found.variance[0]).any()  # networks learned


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
ENSEMBLE, EVIDENCE = regression.ensemble, regression.evidence
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
    (POSTERIOR, (E2, E2, ONES, ONES, [0, -1]), "noise has -1, expected numbers of at least 0"),
    (POSTERIOR, (E2, E2, ONES, ONES, [1]), r"noise has shape \(1,\), expected \(2,\)"),
    (POSTERIOR, (E2, E2, ONES, ONES, "1"), "noise is '1', expected a finite number of at least"),
    (POSTERIOR, (E2, E2, [[1, 1], [0, 1]], ONES), "prior of shape .* is not symmetric"),
    (POSTERIOR, (E2, 0.5 * E2, [[1, 1], [1, 1]], ONES), "belong to K: their covariance would"),
    (EVIDENCE, (np.ones((2, 2)), ONES, 1e-20), "K of shape .* numerically singular"),
    (EVIDENCE, (E2, [1e200, 1], 0.0), "the results exceed float64"),
    (POSTERIOR, (1e-300 * E2, E2, ONES, [1e300] * 2), "the results exceed float64"),
    (POSTERIOR, (1e308 * E2, E2, ONES, ONES, 1e308), "the results exceed float64"),
    (POSTERIOR, (E2, E2, -ONES, ONES), "belong to K: the variance at point 0"),
    (ENSEMBLE, (E2, (E2, E2, E2), ONES), r"tangent is a ndarray of length 2, expected a tuple \(T"),
    (ENSEMBLE, ((E2, E2), (E2, E2), ONES), r"gpk is a tuple of length 2, expected .* \(K, K_cross"),
    (ENSEMBLE, ((E2, E2), (E2, E2, ONES), ONES, -1), "^time is -1, .* of at least 0"),
    (ENSEMBLE, ((np.ones((2, 2)), E2), (E2, E2, E2), ONES), "^T of tangent: .* singular"),
    (ENSEMBLE, ((E2, E2), (np.eye(3), E2, E2), ONES), r"K has shape \(3, 3\), expected \(2, 2\)"),
    (ENSEMBLE, ((E2, E2[:1]), (E2, E2, E2), ONES), r"T_cross has shape \(1, 2\), expected \(2, 2"),
    (ENSEMBLE, ((E2, 1e200 * E2), (E2, E2, E2), ONES), "the results exceed float64"),
    (ENSEMBLE, ((E2, E2), (-E2, E2, E2), ONES), "one network: the variance at point 0 would"),
    (ENSEMBLE, ((E2, E2), (E2, 2 * E2, E2), ONES), "one network: the variance at point 0 would"),
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
