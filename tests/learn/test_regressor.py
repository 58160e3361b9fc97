"""The regressor: its predictions and its score."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from rescntk.learn import ResidualKernelRegressor
from tests.learn.cases import QUICK


def test_several_targets(rng):
    frequency = rng.uniform(0.3, 1.2, 60)
    level = rng.uniform(-1, 1, 60)
    X = np.sin(np.arange(30) * frequency[:, None] + rng.uniform(0, 6, (60, 1))) + level[:, None]
    targets = np.stack([1000 * frequency, level], axis=1)
    model = ResidualKernelRegressor(effort="fast", depth=1).fit(X[:45], targets[:45])
    assert model.predict(X[45:]).shape == (15, 2)
    assert model.score(X[45:], targets[45:]) > 0.9
    assert 0.9 < model.best_score_ < 1
    alone = ResidualKernelRegressor(effort="fast", depth=1).fit(X[:45], targets[:45, 1])
    assert alone.predict(X[45:]).shape == (15,)
    assert alone.score(X[45:], targets[45:, 1]) > 0.9


def test_constant_target(rng):
    X = rng.standard_normal((8, 1, 6))
    model = ResidualKernelRegressor(**QUICK).fit(X, np.full(8, 3.5))
    mean, deviation = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, 3.5)
    np.testing.assert_allclose(deviation, 0.0, atol=1e-9)
    with pytest.raises(ValueError, match="return_std is 1, expected True or False"):
        model.predict(X, return_std=1)
