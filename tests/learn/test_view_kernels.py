"""Kernels of views: a linear view beside scikit-learn's ridge regression and a Gaussian process."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, View
from tests import tolerances
from tests.helpers import assert_within
from tests.learn.cases import OPTIONS
from tests.learn.estimators import assert_add_up, fitted_views

POINTS = View(linear=True, length="all", standardize="point")
PENALTY = 1e-3


def walks(rng, n, d=50):
    X = rng.standard_normal((n, 1, d)).cumsum(axis=2)
    X[:, :, 12] *= 1e-7  # a point that hardly varies counts like the others
    return X, X[:, 0, 7] - 2.0 * X[:, 0, 30] + 0.1 * rng.standard_normal(n)


def ridge(X, y, penalty=PENALTY):
    """Return ridge regression on standardized points; a constant is another channel."""
    d = X.shape[2]
    model = make_pipeline(StandardScaler(), Ridge(alpha=penalty * 2 * d, solver="cholesky"))
    return model.fit(X[:, 0], y)


@pytest.mark.parametrize("heaviest", [1.0, 100.0])
def test_the_least_penalty_is_twice_the_norm_of_rounding_errors(heaviest, rng):
    """Of errors of a unit of float32, that are independent; a heavy signal magnifies its own."""
    n, network = 1000, View().pipeline(rng.standard_normal((2, 1, 24))).kernel
    errors = np.triu(rng.standard_normal((n, n))) * tolerances.EPS["float32"]
    weights = rng.uniform(0.5, 1.5, n)
    weights[7] = heaviest
    roots = np.sqrt(weights / weights.mean())
    norm = np.abs(
        np.linalg.eigvalsh(roots[:, None] * (errors + np.triu(errors, 1).T) * roots)
    ).max()
    least = network.least_penalty(weights / weights.mean(), "float32")
    assert 1 / 4 <= norm / least <= 1 / 2


def test_the_work_of_a_view_is_of_all_its_layers(rng):
    X = rng.standard_normal((2, 1, 24))
    assert View(depth=6).pipeline(X).work == 3 * View(depth=2).pipeline(X).work


@pytest.mark.parametrize(("n_points", "work"), [(1, 1), (32, 1), (33, 2), (3200, 100)])
def test_32_points_of_a_linear_view_are_the_work_of_a_pixel_pair(n_points, work):
    assert POINTS.pipeline(np.zeros((2, 3, n_points))).work == work


@pytest.mark.parametrize("n", [20, 70])
def test_a_linear_view_predicts_as_ridge_regression_does(n, rng):
    (X, y), (Z, _) = walks(rng, n), walks(rng, 9)
    model = ResidualKernelRegressor([POINTS], penalty=PENALTY).fit(X, y)
    bar = tolerances.solution(n, 1 / PENALTY) * np.abs(y).max()
    assert np.abs(model.predict(Z) - ridge(X, y).predict(Z[:, 0])).max() <= bar


@pytest.mark.parametrize("n", [20, 70])
def test_contributions_of_a_linear_view_are_coefficients_times_values(n, rng):
    (X, y), (Z, _) = walks(rng, n), walks(rng, 9)
    model, (scaler, solved) = ResidualKernelRegressor([POINTS], penalty=PENALTY), ridge(X, y)
    found, expected = (
        model.fit(X, y).contributions(Z)[:, 0],
        scaler.transform(Z[:, 0]) * solved.coef_,
    )
    bar = tolerances.solution(n, 1 / PENALTY) * np.abs(y).max()
    assert np.abs(found - expected).max() <= bar


def test_contributions_of_a_linear_view_add_up_for_one_signal_as_for_several(rng):
    (X, y), (Z, _) = walks(rng, 20), walks(rng, 9)
    model = ResidualKernelRegressor([POINTS], penalty=PENALTY).fit(X, y)
    assert_add_up(model.contributions(Z), model, Z)
    assert_add_up(model.contributions(Z[:1]), model, Z[:1])


def test_novelty_of_a_linear_view_is_the_variance_of_its_process(rng):
    (X, y), (Z, _) = walks(rng, 40), walks(rng, 5)
    model = ResidualKernelRegressor([POINTS], penalty=PENALTY).fit(X, y)
    S, T = (StandardScaler().fit(X[:, 0]).transform(A[:, 0]) for A in (X, 3 * Z))
    K, k, own = ((A @ B.T + 50) / 100 for A, B in ((S, S), (T, S), (T, T)))
    inverse = np.linalg.inv(K + PENALTY * np.eye(40))
    variance = own.diagonal() - np.einsum("ij,jk,ik->i", k, inverse, k) + PENALTY
    (fitted,) = fitted_views(model)
    found = (
        fitted.decisions_and_novelties(3 * Z, OPTIONS)[1][:, 0] * fitted.mean_left_out_variances[0]
    )
    assert np.abs(found / variance - 1).max() <= tolerances.solution(40, 1 / PENALTY)
    left_out = 1 / inverse.diagonal()
    bar = tolerances.solution(40, 1 / PENALTY)
    assert_within(fitted.mean_left_out_variances[0], left_out.mean(), bar)


def test_differences_of_all_points_are_features_of_a_linear_view(rng):
    """Features are the points and their differences, each with deviation 1 over all points."""
    (X, y), (Z, _) = walks(rng, 30), walks(rng, 9)
    view = View(linear=True, differences=True, length="all", standardize="channel")
    model = ResidualKernelRegressor([view], penalty=PENALTY).fit(X, y)
    mean, deviation, rise = X.mean(), X.std(), np.gradient(X, axis=2).std()
    S, T = (
        np.concatenate([(A - mean) / deviation, np.gradient(A, axis=2) / rise], axis=1)
        for A in (X, Z)
    )
    expected = Ridge(alpha=PENALTY * 150, solver="cholesky").fit(S.reshape(30, -1), y)
    bar = tolerances.solution(30, 1 / PENALTY) * np.abs(y).max()
    assert np.abs(model.predict(Z) - expected.predict(T.reshape(9, -1))).max() <= bar


def test_a_linear_view_tries_small_penalties(rng):
    """Targets without noise want the least one, and noise a large one."""
    X, _ = walks(rng, 80)
    exact = X[:, 0, 7] - X[:, 0, 30]
    for y, least, most in ((exact, 0, 3e-8), (rng.standard_normal(80), 1e-2, 10)):
        (fitted,) = fitted_views(ResidualKernelRegressor([POINTS]).fit(X, y))
        assert least <= fitted.penalties[0] <= most


@pytest.mark.parametrize("kind", [ResidualKernelClassifier, ResidualKernelRegressor])
@pytest.mark.parametrize("noise", [0.01, 0.3, 1e9])
def test_a_linear_view_has_the_best_power_of_ten_as_penalty(noise, kind, rng):
    """From the rounding errors of float64 up to ten times the kernel's diagonal."""
    X, _ = walks(rng, 60)
    y = X[:, 0, 7] - X[:, 0, 30] + noise * np.random.default_rng(6).standard_normal(60)
    y = 1.0 * (y > 0) if kind is ResidualKernelClassifier else y
    powers = [10.0**k for k in range(-8, 3)]
    with warnings.catch_warnings(action="ignore"):  # of much noise nothing is found
        default, *errors = (
            kind([POINTS], penalty=penalty, random_state=0).fit(X, y).views_["error"][0]
            for penalty in (None, *powers)
        )
    assert_within(default, min(errors[:-1]), tolerances.ROUTES)
    assert noise < 1 or errors[-1] < min(errors[:-1])  # of noise the greatest one is the best


def test_no_penalty_is_below_the_least_one(rng):
    """Two signals have all the weight among n: rounding errors have the norm 2 n/√2 eps."""
    X, _ = walks(rng, 400)
    X[8] = X[7] + 0.01 * rng.standard_normal((1, 50))
    heavy = np.where((np.arange(400) == 7) | (np.arange(400) == 8), 1e6, 1.0)
    view = View(standardize="channel", length=8)
    y = X[:, 0, 7] - X[:, 0, 30]
    (fitted,) = fitted_views(ResidualKernelRegressor([view]).fit(X, y, sample_weight=heavy))
    norm = np.sqrt(2) * 400 * tolerances.EPS["float32"]
    assert fitted.penalties[0] >= 1.9 * norm > 1e-4  # which a regressor tries besides


@pytest.mark.parametrize("n_landmarks", [None, 25])
def test_a_linear_view_classifies_beside_others(n_landmarks, rng):
    X, y = walks(rng, 60)
    views = [POINTS, View(linear=True, length=10), View(standardize="channel")]
    options = {"n_landmarks": n_landmarks, "random_state": 0}
    model = ResidualKernelClassifier(views, **options).fit(X[:40], y[:40] > 0)
    assert model.score(X[40:], y[40:] > 0) > 0.8
    assert_add_up(model.contributions(X[40:]), model, X[40:])
