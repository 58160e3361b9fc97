"""Posteriors, evidence and ensembles against joint Gaussians, peers and finite networks."""

from pathlib import Path

import numpy as np
import pytest
from mpmath import mp

import rescntk as rk
from rescntk import regression
from rescntk.checks.values import PARTS
from tests import tolerances
from tests.regression.problems import matrix

EPS = tolerances.EPS["float64"]
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
@pytest.mark.parametrize("of_ensemble", [False, True])
def test_covariances_that_vanish_are_semidefinite(rng, dtype, of_ensemble):
    """At signals that are known, rounding errors of the kernel are all that is left."""
    X, y = rng.standard_normal((9, 2, 6)), rng.standard_normal(9)
    K, T = rk.gram(rk.Network(3), X, head="trace", dtype=dtype)
    noise = 0.0 if dtype == "float64" else 1e-3
    if of_ensemble:
        found = regression.ensemble((T, T), (K, K, K), y)
    else:
        found = regression.posterior(K, K, K, y, noise)
    values = np.linalg.eigvalsh(found.covariance)
    assert values[0] >= -9 * EPS * values[-1] and (found.variance >= 0).all()
    assert values[-1] <= max(1.1 * noise, 1e4 * tolerances.EPS[dtype] * K.max())


ROOTS = {dtype: float(np.sqrt(eps)) for dtype, eps in tolerances.EPS.items()}
"""Parts of a variance that rounding errors of kernels in a precision may be, by the docstring."""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
def test_variances_below_zero_are_rounding_errors_or_refused(dtype, unit):
    """One signal explains more than there is, by 3/4 or by 3/2 of what rounding errors may be.

    They are those of the lowest precision, which is here of the prior.
    """
    K, cross = np.full((1, 1), unit), np.full((1, 1), 0.5 * unit)

    def variance(parts):
        prior = np.array([0.25 * unit * (1 - parts * ROOTS[dtype])], dtype)
        return regression.posterior(K, cross, prior, [1.0]).variance[0]

    assert variance(0.75) == 0
    with pytest.raises(ValueError, match="cross and prior do not belong to K: the variance at"):
        variance(1.5)


def test_points_of_no_variance_are_known():
    found = regression.posterior([[1.0]], [[0.0], [0.5]], [0.0, 1.0], [2.0])
    assert found.variance[0] == 0 and found.mean[0] == 0


def test_covariances_of_a_prior_that_is_rounded_are_symmetric(rng):
    prior = matrix([1.0, 2.0, 3.0])
    prior[0, 1] += 1e-10
    found = regression.posterior(np.eye(2), 0.1 * rng.standard_normal((3, 2)), prior, np.ones(2))
    assert (found.covariance == found.covariance.T).all()


@pytest.mark.parametrize("seed", range(8))
def test_cancellations_of_large_coefficients_are_rounding_errors(seed):
    """Networks are a linear map M of their values at two signals, which are nearly one."""
    large, near = (
        1e6 * np.array([[1.0, -1.0]]),
        1 - 1e-10 * np.random.default_rng(seed).uniform(1, 2),
    )
    K, apart = np.array([[1.0, near], [near, 1.0]]), 1 - near
    gpk = K, apart * large, [2 * apart * large[0, 0] ** 2]
    found = regression.ensemble((np.eye(2), large), gpk, [1.0, 2.0])
    assert 0 <= found.variance[0] <= 1e-5 * gpk[2][0]


def test_rounding_errors_of_ensembles_are_of_the_lowest_precision():
    """The prior in float32 is 1e-5 below what the network's values at a signal explain."""
    prior = np.array([0.25 * (1 - 1e-5)], np.float32)
    half = np.full((1, 1), 0.5)
    found = regression.ensemble((np.eye(1), half), (np.eye(1), half, prior), [1.0])
    assert found.variance[0] == 0
    with pytest.raises(ValueError, match="tangent and gpk are not of one network"):
        regression.ensemble((np.eye(1), half), (np.eye(1), half, prior.astype(float)), [1.0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("units", [(1.0, 1.0), (1.0, 1e12)])
def test_covariances_that_are_not_semidefinite_are_rounding_errors_or_refused(dtype, units):
    """Two functions have a correlation above 1; rounding errors of two numbers add up."""
    K, cross = np.eye(1, dtype=dtype), np.zeros((2, 1), dtype)

    def covariance(parts):
        correlation = 1 + parts * ROOTS[dtype]
        roots = np.sqrt(units)
        prior = (roots[:, None] * np.array([[1, correlation], [correlation, 1]]) * roots).astype(
            dtype
        )
        return prior, regression.posterior(K, cross, prior, [1.0]).covariance

    prior, found = covariance(1.5)
    assert (found == prior).all()  # nothing was explained, and nothing is changed
    with pytest.raises(ValueError, match="their covariance would have a negative eigenvalue"):
        covariance(3.0)


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
    peer = np.load(Path(__file__).parents[1] / "data/trained_ensembles.npz")
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
