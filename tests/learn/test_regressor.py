"""The regressor: its predictions and its score."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from rescntk.learn import ResidualKernelRegressor
from tests.learn.cases import ONE, QUICK, bordered, mean_of_kernels


def test_regressor_with_several_targets(rng):
    frequency = rng.uniform(0.3, 1.2, 70)
    level = rng.uniform(-1, 1, 70)
    X = np.sin(np.arange(30) * frequency[:, None] + rng.uniform(0, 6, (70, 1))) + level[:, None]
    targets = np.stack([1000 * frequency, level], axis=1)
    model = ResidualKernelRegressor(effort="fast").fit(X[:50], targets[:50])
    assert model.predict(X[50:]).shape == (20, 2)
    assert model.score(X[50:], targets[50:]) > 0.9
    assert 0.9 < model.best_score_ < 1
    one = ResidualKernelRegressor(effort="fast").fit(X[:50], targets[:50, 1])
    assert one.predict(X[50:]).shape == (20,)
    assert one.score(X[50:], targets[50:, 1]) > 0.9


def test_regressor_scores_by_leaving_one_out(rng):
    X, y = rng.standard_normal((12, 2, 8)), rng.standard_normal(12)
    model = ResidualKernelRegressor(penalty=0.1, **ONE).fit(X, y)
    (K,) = mean_of_kernels(model, X, X)
    errors = []
    for i in range(12):
        rest = np.delete(np.arange(12), i)
        coefficients, intercept = bordered(K[np.ix_(rest, rest)], y[rest, None], 0.1)
        errors.append(K[i, rest] @ coefficients[:, 0] + intercept[0] - y[i])
    squares = np.square(errors) / y.var()
    assert model.passes_["error"][0] == pytest.approx(squares.mean(), rel=1e-9)
    assert model.best_score_ == pytest.approx(1 - squares.mean())
    assert model.best_score_error_ == pytest.approx(squares.std() / np.sqrt(12))


def test_constant_target(rng):
    X = rng.standard_normal((8, 1, 6))
    model = ResidualKernelRegressor(**QUICK).fit(X, np.full(8, 3.5))
    mean, deviation = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, 3.5)
    np.testing.assert_allclose(deviation, 0.0, atol=1e-9)
    with pytest.raises(ValueError, match="return_std is 1, expected True or False"):
        model.predict(X, return_std=1)
