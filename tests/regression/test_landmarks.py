"""Ridge regression on features and on landmarks, against refits, dense algebra and its promises."""

import numpy as np
import pytest

import rescntk as rk
from rescntk import regression
from tests import tolerances
from tests.regression.test_pivoted_cholesky import PLACES, MatrixKernel, indices, matrix

EPS = tolerances.EPS["float64"]
RIDGES = np.array([1e-3, 0.1, 10.0])


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shape", [(20, 6), (7, 12)])
def test_features_are_the_kernel_of_their_products(rng, shape, intercept):
    """Many penalties, targets and blocks against `Decomposition`, which refits check."""
    F, Y = rng.standard_normal(shape) + 1.0, rng.standard_normal((shape[0], 2)) * [1.0, 1e3] + 5
    w = rng.uniform(0.1, 5, len(F)) if shape[0] == 20 else np.ones(len(F))
    fit = regression.FeatureRidge()
    for rows in (slice(0, 1), slice(1, 4), slice(4, None)):
        fit.add(F[rows], Y[rows], w[rows])
    weights, constants = fit.weights(RIDGES, intercept=intercept)
    errors = fit.leave_one_out(F, Y, RIDGES, intercept=intercept, case_weights=w)
    ladder = regression.decompose(F @ F.T, w)
    beta, b = ladder.coefficients(Y, RIDGES), np.zeros((3, 2))
    beta, b = ladder.with_intercept(Y, RIDGES) if intercept else (beta, b)
    left_out = ladder.leave_one_out(Y, RIDGES, intercept=intercept)
    unit, close = np.abs(Y).max(axis=0), tolerances.solution(shape[0], 1e6)
    for found, expected in ((weights, F.T @ beta), (constants, b), (errors, left_out)):
        assert found.shape == expected.shape
        assert (np.abs(found - expected) / unit).max() <= close
    # One target and one penalty lose their axes; rows may be asked for apart.
    alone, b = regression.FeatureRidge().add(F, Y[:, 0], w).weights(0.1, intercept=intercept)
    assert alone.shape == (shape[1],) and b.shape == ()
    assert np.abs(alone - weights[1, :, 0]).max() <= close
    part = fit.leave_one_out(F[:3], Y[:3], 0.1, intercept=intercept, case_weights=w[:3])
    assert np.allclose(part, errors[1][:3], rtol=1e-12, atol=1e-12)


def test_the_condition_number_is_not_squared(rng):
    """Columns of singular values from 1 to 1e-9: FᵀF would have lost them."""
    U = np.linalg.qr(rng.standard_normal((60, 5)))[0]
    V = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    F, w = (U * np.geomspace(1.0, 1e-9, 5)) @ V.T, rng.standard_normal(5)
    found = regression.FeatureRidge().add(F[:30], (F @ w)[:30]).add(F[30:], (F @ w)[30:])
    assert np.abs(found.weights()[0] - w).max() <= 100 * EPS * 1e9


@pytest.mark.parametrize("power", [-140, 140])
def test_huge_and_tiny_features(rng, power):
    F, y = rng.standard_normal((20, 4)), rng.standard_normal(20)
    plain = regression.FeatureRidge().add(F, y).leave_one_out(F, y, 0.5, intercept=True)
    F = np.ldexp(F, power)
    fit = regression.FeatureRidge().add(F, y)
    errors = fit.leave_one_out(F, y, np.ldexp(0.5, 2 * power), intercept=True)
    assert np.allclose(errors, plain, rtol=1e-12)


def test_what_is_not_determined_is_refused(rng):
    F = rng.standard_normal((9, 4))
    fit = regression.FeatureRidge().add(np.hstack([F, F[:, :1]]), F[:, 0])
    with pytest.raises(ValueError, match=r"F of shape \(9, 5\) has linearly dependent columns"):
        fit.weights()
    with pytest.raises(ValueError, match="linearly dependent"):
        regression.FeatureRidge().add(F[:3], F[:3, 0]).weights([1.0, 0.0])
    lone = np.hstack([F, np.eye(9)[:, :1]])  # a feature that one row has
    fit = regression.FeatureRidge().add(lone, F[:, 0])
    with pytest.raises(ValueError, match="row of leverage 1"):
        fit.leave_one_out(lone, F[:, 0])
    assert np.isfinite(fit.leave_one_out(lone, F[:, 0], 0.1)).all()
    one = regression.FeatureRidge().add(F[:1], np.array([2.0]))
    assert one.weights(1.0, intercept=True)[1] == 2.0
    with pytest.raises(ValueError, match="row of leverage 1"):
        one.leave_one_out(F[:1], np.array([2.0]), 1.0, intercept=True)
    for arguments, message in (
        ((F[:, :3], F[:, 0]), "F has 3 columns, expected 5"),
        ((lone, F[:, :2]), "y has 2 columns, expected 1"),
        ((F[0], 1.0), r"expected \(n, k\)"),
    ):
        with pytest.raises(ValueError, match=message):
            fit.add(*arguments)
    with pytest.raises(ValueError, match="no rows"):
        regression.FeatureRidge().weights(1.0)


# ---------------------------------------------------------------- landmarks


@pytest.mark.parametrize("pivoted", [False, True])
def test_restricted_ridge_minimizes(rng, pivoted):
    """The gradient of ‖Y − Cβ − b‖² + λβᵀWβ vanishes; and each pair is computed once."""
    K, Y = matrix(PLACES**-1.0), rng.standard_normal((200, 3))
    kernel = MatrixKernel(K)
    given = regression.pivoted_cholesky(kernel, indices(), 30) if pivoted else np.arange(9, 39)
    kernel.pairs = 0
    found = regression.restricted_ridge(
        kernel, indices(), Y, given, RIDGES, intercept=True, leave_one_out=True
    )
    assert kernel.pairs <= (0 if pivoted else 170 * 30 + 30 * 31 / 2)
    chosen = found.features.landmarks
    assert sorted(chosen) == sorted(given.landmarks if pivoted else given)
    C, W = K[:, chosen], K[np.ix_(chosen, chosen)]
    for ridge, beta, b in zip(RIDGES, found.coefficients, found.intercepts, strict=True):
        residual = Y - C @ beta - b
        gradient = C.T @ residual - ridge * W @ beta
        scale = np.abs(C).sum() * np.abs(residual).max()
        assert np.abs(gradient).max() <= 1e3 * EPS * scale
        assert np.abs(residual.sum(axis=0)).max() <= 1e4 * EPS * np.abs(Y).sum()
    predicted = found.predict(indices()[:5])
    assert predicted.shape == (3, 5, 3)
    expected = C[:5] @ found.coefficients + found.intercepts[:, None]
    assert np.allclose(predicted, expected, rtol=1e-9, atol=1e-9)
    F = found.features(indices())
    left_out = regression.FeatureRidge().add(F, Y).leave_one_out(F, Y, RIDGES, intercept=True)
    assert np.allclose(found.errors, left_out, rtol=1e-9, atol=1e-9)
    assert np.allclose(found.rows, F, rtol=1e-9, atol=1e-9)


def test_all_signals_as_landmarks_are_ridge_regression(rng):
    X, y = rng.standard_normal((30, 2, 8)), rng.standard_normal(30)
    kernel, options = rk.ResCNTK(2), {"engine": "reference", "leave_one_out": True}
    K, ridge = kernel(X, engine="reference"), 0.1
    found = regression.restricted_ridge(kernel, X, y, np.arange(30), ridge, **options)
    exact = regression.decompose(K)
    assert np.allclose(found.predict(X), K @ exact.coefficients(y, ridge), rtol=1e-8)
    assert np.allclose(found.errors, exact.leave_one_out(y, ridge), rtol=1e-8)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_rank_rule(rng, dtype):
    """Equal, zero and tiny signals: explained landmarks are dropped, sizes do not matter."""
    X, tiny = rng.standard_normal((6, 2, 8)), 1e-15 * rng.standard_normal((1, 2, 8))
    X = np.concatenate([X, X[:2], 0 * X[:1], 1e-12 * X[2:3], tiny])
    options = {"dtype": dtype, "engine": "reference"}
    features = regression.landmark_map(rk.ResCNTK(2), X, np.arange(len(X)), **options)
    kept = features.landmarks.tolist()
    assert len(kept) == 7 and 8 not in kept and 10 in kept
    F, K = features(X), rk.ResCNTK(2)(X, engine="reference")
    size = np.sqrt(K.diagonal())
    limit = 100 * np.sqrt(len(X) * tolerances.EPS[dtype])
    assert (np.abs(F @ F.T - K) <= limit * size * size[:, None]).all()


def test_lists_of_another_length(rng):
    """Landmarks of one length take a list of signals that all have another."""
    X, options = rng.standard_normal((5, 2, 8)), {"engine": "reference"}
    features = regression.landmark_map(rk.ResCNTK(2), X, np.arange(3), **options)
    short = [x[:, :5] for x in X]
    assert (features(short) == features([*short, X[0]])[:5]).all()
    with pytest.raises(ValueError, match=r"expected 8 timepoints as in signals .* list\(X\)"):
        features(X[:, :, :5])


@pytest.mark.parametrize(
    ("landmarks", "message"),
    [
        ([0, 200], "expected different integers from 0 to 199"),
        ([3, 3], "expected different integers"),
        ([], "expected a vector of integers"),
        ([0.5], "expected a vector of integers"),
        (3, "expected a vector of integers"),
        (regression.LowRank(np.arange(2), np.eye(4)[:, :2], 0.0), "has 4 rows, expected 200 as X"),
    ],
)
def test_messages(landmarks, message):
    with pytest.raises(ValueError, match=message):
        regression.landmark_map(MatrixKernel(np.eye(200)), indices(), landmarks)
    with pytest.raises(ValueError, match="kernel is 0 at all landmarks"):
        regression.landmark_map(MatrixKernel(np.zeros((5, 5))), indices(5), [0, 1])
