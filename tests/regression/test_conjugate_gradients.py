"""Conjugate gradients against the Cholesky factorization."""

import numpy as np
import pytest
import scipy.linalg
from scipy.sparse.linalg import aslinearoperator

from rescntk import regression


class OnlyProducts:
    """A matrix that can only be multiplied; it counts the products."""

    def __init__(self, K):
        self.K, self.shape, self.products = K, K.shape, 0

    def __matmul__(self, V):
        self.products += 1
        return self.K @ V


def smooth(rng, n=300):
    """Return points of three coordinates as signals, and their Gaussian kernel."""
    X = rng.uniform(-1, 1, (n, 3, 1))

    def kernel(A, B=None):
        A, B = A[..., 0], (A if B is None else B)[..., 0]
        return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=2) / 0.5**2)

    return X, kernel


def test_preconditioned_is_fast_and_right(rng):
    X, kernel = smooth(rng)
    K, Y, ridge = kernel(X), rng.standard_normal((len(X), 3)), 1e-3
    low = regression.pivoted_cholesky(kernel, X, 150)
    fast = regression.solve(K, Y, ridge, preconditioner=low)
    slow = regression.solve(OnlyProducts(K), Y, ridge, max_iterations=5000)
    exact = regression.solve(K, Y, ridge)
    assert fast.iterations <= 50 and slow.iterations >= 150
    assert fast.coefficients.shape == Y.shape and fast.residuals.shape == (3,)
    true = np.linalg.norm(Y - K @ fast.coefficients - ridge * fast.coefficients, axis=0)
    assert np.allclose(fast.residuals, true / np.linalg.norm(Y, axis=0), rtol=1e-3, atol=1e-12)
    assert (fast.residuals <= 1.1e-6).all()
    # The error is at most the residual times the condition number.
    bound = fast.residuals * np.linalg.norm(Y, axis=0) / ridge
    assert (np.linalg.norm(fast.coefficients - exact, axis=0) <= bound * 1.01).all()
    tight = regression.solve(K, Y, ridge, preconditioner=low.factor, tolerance=1e-11)
    assert np.abs(tight.coefficients - exact).max() <= 1e-6 * np.abs(exact).max()


@pytest.mark.parametrize("shape", [(40,), (40, 1), (40, 4)])
def test_anything_that_multiplies(rng, shape):
    A = rng.standard_normal((40, 40))
    K, y = A @ A.T / 40 + np.eye(40), rng.standard_normal(shape)
    only = OnlyProducts(K)
    found = regression.solve(only, y, 0.1, tolerance=1e-12)
    assert found.coefficients.shape == shape and np.shape(found.residuals) == shape[1:]
    assert found.history.shape == (found.iterations + 1, *shape[1:])
    assert only.products == found.iterations + 1
    exact = regression.solve(K.tolist(), y, 0.1)
    assert type(exact) is np.ndarray
    assert np.allclose(found.coefficients, exact, rtol=1e-9, atol=1e-10)


def test_targets_stop_one_by_one(rng):
    """A target that is 0, a target that is an eigenvector, and a harder target."""
    K = np.diag(np.linspace(1.0, 3.0, 30))
    y = np.stack([np.zeros(30), 1e200 * np.eye(30)[4], rng.standard_normal(30)], axis=1)
    found = regression.solve(OnlyProducts(K), y)
    assert (found.coefficients[:, 0] == 0).all() and found.residuals[0] == 0
    assert found.history[1, 1] < 1e-12 and found.iterations > 3
    expected = y / K.diagonal()[:, None]
    error = np.abs(found.coefficients - expected).max(axis=0)
    assert (error <= 1e-5 * np.abs(expected).max(axis=0)).all()


def test_too_few_iterations_are_reported(rng):
    K = np.diag(np.geomspace(1e-6, 1.0, 50))
    with pytest.warns(scipy.linalg.LinAlgWarning, match="after 5 iterations at a residual of"):
        found = regression.solve(aslinearoperator(K), np.ones(50), max_iterations=5)
    assert found.iterations == 5 and found.residuals > 1e-6


@pytest.mark.parametrize("shape", [(60,), (60, 3)])
def test_intercepts(rng, shape):
    """Cholesky and conjugate gradients against the eigendecomposition."""
    X, kernel = smooth(rng, 60)
    K, y, ridge = kernel(X), 1e3 + rng.standard_normal(shape), 0.05
    beta, b = regression.decompose(K).with_intercept(y, ridge)
    direct = regression.solve(K, y, ridge, intercept=True)
    iterated = regression.solve(OnlyProducts(K), y, ridge, intercept=True, tolerance=1e-13)
    for found in (direct, iterated):
        assert found.coefficients.shape == shape and np.shape(found.intercepts) == shape[1:]
        assert np.allclose(found.coefficients, beta, rtol=1e-8, atol=1e-8)
        assert np.allclose(found.intercepts, b, rtol=1e-9)
        assert (found.residuals <= 1e-10).all()  # of y − mean(y), a thousandth of y
        assert found.history.shape == (found.iterations + 1, *shape[1:])
    low = regression.pivoted_cholesky(kernel, X, 30)
    quick = regression.solve(K, y, ridge, intercept=True, preconditioner=low, tolerance=1e-9)
    assert quick.iterations < iterated.iterations / 2 and (quick.residuals <= 1e-9).all()
    assert np.allclose(quick.coefficients, beta, rtol=1e-5, atol=1e-5)
    for given in ({"K": OnlyProducts(K)}, {"K": K, "preconditioner": np.ones((60, 1))}):
        with pytest.raises(ValueError, match="leave_one_out is True, expected False"):
            regression.solve(y=y, ridge=ridge, leave_one_out=True, **given)
    with pytest.raises(ValueError, match="intercept is 1, expected True or False"):
        regression.solve(K, y, ridge, intercept=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"K": -np.eye(3)}, "not positive definite"),
        ({"K": OnlyProducts(np.ones(3))}, "expected a matrix"),
        ({"y": np.ones(4)}, "y has shape"),
        ({"ridge": -1.0}, "ridge is -1.0"),
        ({"preconditioner": np.eye(3)}, "ridge is 0.0, expected a positive number"),
        ({"preconditioner": np.eye(4), "ridge": 1.0}, "preconditioner has shape"),
        ({"tolerance": 0.0}, "tolerance is 0.0"),
        ({"max_iterations": 0}, "max_iterations is 0"),
    ],
)
def test_messages(arguments, message):
    arguments = {"K": np.eye(3), "y": np.ones(3), **arguments}
    if isinstance(arguments["K"], np.ndarray):
        arguments["K"] = aslinearoperator(arguments["K"])
    with pytest.raises(ValueError, match=message):
        regression.solve(**arguments)
