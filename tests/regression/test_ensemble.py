"""Ensembles of trained networks against flows of weights, the GPK's posterior, finite networks."""

import numpy as np
import pytest
import scipy.linalg

import rescntk as rk
from rescntk import regression
from tests import tolerances

EPS = tolerances.EPS["float64"]


def linear_model(rng, frozen=3, n=4, m=3):
    """Return features of n + m points, the first of which are trained, in weights of N(0, 1)."""
    return rng.standard_normal((n + m, 6)), rng.standard_normal((n + m, frozen)), n


def matrices(trained, frozen, n):
    theta = trained @ trained.T
    K = theta + frozen @ frozen.T
    return theta[:n, :n], theta[n:, :n], K[:n, :n], K[n:, :n], K[n:, n:]


@pytest.mark.parametrize("time", [0.0, 0.05, 1.0, np.inf])
@pytest.mark.parametrize("frozen", [0, 3])
def test_flow_of_the_weights(rng, time, frozen):
    """f = A u + B v, v frozen: du/dt = −η Aᵀ(f − y), a matrix exponential of the weights."""
    A, B, n = linear_model(rng, frozen)
    y, rate = rng.standard_normal((n, 2)), 0.7
    found = regression.ensemble(*matrices(A, B, n), y, time, rate)
    inside = A[:n]
    # u(t) = u∞ + e^(−η AᵀA t)(u0 − u∞) with u∞ = A⁺(y − Bv) + (I − A⁺A) u0
    inverse = np.linalg.pinv(inside)
    left = np.eye(6) - inverse @ inside
    if np.isfinite(time):
        left = scipy.linalg.expm(-rate * time * inside.T @ inside)
    gain = (np.eye(6) - left) @ inverse  # of y − Bv
    maps = np.hstack([A[n:] @ left, B[n:] - A[n:] @ gain @ B[:n]])
    bar = tolerances.solution(n, np.linalg.cond(inside) ** 2) * 100
    for value, expected in ((found.mean, A[n:] @ gain @ y), (found.covariance, maps @ maps.T)):
        assert np.abs(value - expected).max() <= bar * np.abs(maps @ maps.T).max()
    assert (found.covariance == found.covariance.T).all()
    assert regression.ensemble(*matrices(A, B, n), y[:, 0], time, rate).mean.shape == (3,)


def test_prior_and_posterior(rng):
    """At time 0 the prior; with the readout alone trained, at the end, the GPK's posterior."""
    X, Z, y = rng.standard_normal((5, 2, 6)), rng.standard_normal((3, 2, 6)), np.arange(5.0)
    network = rk.Network(2, 3, trained="readout")
    ntk, gpk = rk.Kernel(network, "ntk", "trace"), rk.Kernel(network, "gpk", "trace")
    given = ntk(X), ntk(Z, X), gpk(X), gpk(Z, X), gpk(Z)
    start = regression.ensemble(*given, y, 0.0)
    assert (start.mean == 0).all()
    assert (start.covariance == (given[4] + given[4].T) / 2).all()
    found = regression.ensemble(*given, y)
    expected = regression.posterior(gpk(X), gpk(Z, X), gpk.diag(Z), y)
    bar = tolerances.solution(5, np.linalg.cond(gpk(X)))
    assert np.abs(found.mean - expected.mean).max() <= bar * np.abs(y).max()
    variance = found.covariance.diagonal()
    assert np.abs(variance - expected.variance).max() <= bar * gpk.diag(Z).max()


@pytest.mark.slow
def test_finite_networks(rng):
    """16 networks of width 128, trained for 25 steps: mean and variance within standard errors."""
    finite = pytest.importorskip("rescntk.finite")
    network, count = rk.Network(1, 3, alpha=0.7), 16
    X, Z, y = rng.standard_normal((3, 2, 4)), rng.standard_normal((3, 2, 4)), np.array([1, -1, 0])
    ntk, gpk = (rk.Kernel(network, kind) for kind in ("ntk", "gpk"))
    rate = 0.5 * regression.decompose(ntk(X)).learning_rate_bound()
    outputs = []
    for seed in range(count):
        params = finite.init(seed, network, 2, 128, dtype="float32")
        run = finite.train(network, params, X, y, rate, 25, Z=Z, every=25)
        outputs.append(run.test_outputs[-1])
    found = regression.ensemble(ntk(X), ntk(Z, X), gpk(X), gpk(Z, X), gpk(Z), y, 25, rate)
    outputs, variance = np.array(outputs), found.covariance.diagonal()
    z = (outputs.mean(axis=0) - found.mean) / np.sqrt(variance / count)
    assert np.abs(z).max() <= tolerances.STANDARD_ERRORS
    # The variance of a sample variance of normal numbers is 2/(count − 1) of its square.
    ratio = outputs.var(axis=0, ddof=1) / variance
    assert np.abs(ratio - 1).max() <= tolerances.STANDARD_ERRORS * np.sqrt(2 / (count - 1))


def test_refusals(rng):
    given = list(matrices(*linear_model(rng)))
    y = np.zeros(4)
    with pytest.raises(ValueError, match="gpk_new_new are not of one kernel: the variance at new"):
        regression.ensemble(*given[:4], given[4] / 100, y)
    with pytest.raises(ValueError, match=r"gpk_new has shape \(4, 3\), expected \(3, 4\)"):
        regression.ensemble(*given[:3], given[3].T, given[4], y)
    with pytest.raises(ValueError, match="numerically singular.*a shorter time"):
        regression.ensemble(np.ones((4, 4)), *given[1:], y)
    with pytest.raises(ValueError, match="time is -1, expected numbers of at least 0"):
        regression.ensemble(*given, y, time=-1)
    for time in ([1.0, 2.0], [[1], [2, 3]], {}, True, np.True_):
        with pytest.raises(ValueError, match="^time is .*, expected one number"):
            regression.ensemble(*given, y, time=time)
