"""The regressor: its predictions, its errors and its score."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
import rescntk as rk
from rescntk.learn import ResidualKernelRegressor, base, readouts, search, views
from tests.learn.cases import QUICK, bordered, gram_of, rows


def test_regressor_with_several_targets(rng):
    frequency = rng.uniform(0.3, 1.2, 70)
    level = rng.uniform(-1, 1, 70)
    X = np.sin(np.arange(30) * frequency[:, None] + rng.uniform(0, 6, (70, 1))) + level[:, None]
    targets = np.stack([1000 * frequency, level], axis=1)
    model = ResidualKernelRegressor(depth=(1, 2), head="gap").fit(X[:50], targets[:50])
    assert model.predict(X[50:]).shape == (20, 2)
    assert model.score(X[50:], targets[50:]) > 0.9
    assert model.best_score_ > 0.9
    assert model.best_error_ == model.search_results_["error"].min()
    assert model.best_score_ <= 1 - model.best_error_
    one = ResidualKernelRegressor(depth=(1, 2), head="gap").fit(X[:50], targets[:50, 1])
    assert one.predict(X[50:]).shape == (20,)
    assert one.score(X[50:], targets[50:, 1]) > 0.9


def test_regressor_scores_by_leaving_one_out(rng):
    X, y = rng.standard_normal((12, 2, 8)), rng.standard_normal(12)
    options = {"depth": 2, "input_filter_size": 1, "head": "trace", "kind": "gpk", "filter_size": 3}
    options |= {
        "standardize": False,
        "first_differences": False,
        "normalized": True,
        "penalty": 0.1,
    }
    errors = []
    for i in range(12):
        rest = np.delete(np.arange(12), i)
        view = views.View(128, constant=True).fit(X)
        K = rk.ResCGPK(2, head="trace", normalized=True)(view(X))
        coefficients, intercept = bordered(K[np.ix_(rest, rest)], y[rest, None], 0.1)
        errors.append(K[i, rest] @ coefficients[:, 0] + intercept[0] - y[i])
    model = ResidualKernelRegressor(**options).fit(X, y)
    assert model.best_error_ == pytest.approx(np.mean(np.square(errors)) / y.var(), rel=1e-9)


def test_the_score_is_out_of_fold(rng):
    X, y = rng.standard_normal((15, 1, 6)), rng.standard_normal(15)
    model = ResidualKernelRegressor(**QUICK).fit(X, y)
    assert model.best_error_ == model.search_results_["error"].min()
    Y = (y - y.mean())[:, None] / y.std()
    residuals = [
        readouts.RidgePath(gram_of(row, X), Y).residuals(base.PENALTIES) for row in rows(model)
    ]
    out_of_fold = search.OutOfFoldDecisions(
        Y, np.random.RandomState(0).permutation(15) % 10, np.ones(15, dtype=bool)
    )
    out_of_fold.consider(np.concatenate(residuals))
    expected = 1 - np.mean((out_of_fold.decisions - Y) ** 2)
    assert model.best_score_ == pytest.approx(expected, rel=1e-6)
    assert model.best_score_ < 1 - model.best_error_ - 1e-3


def test_constant_target(rng):
    X = rng.standard_normal((8, 1, 6))
    model = ResidualKernelRegressor(**QUICK).fit(X, np.full(8, 3.5))
    np.testing.assert_allclose(model.predict(X), 3.5)
