"""Signals and targets near the ends of float64: the same predictions as for ordinary numbers."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.metrics import r2_score

from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, views
from tests.learn.cases import ONE, QUICK, waves

VIEWED = ONE | {
    "constant": True,
    "max_length": 12,
    "block_statistics": True,
    "first_differences": (False, True),
    "standardize": (False, True),
    "head": "trace",
    "time_scale": 0.5,
    "penalty": 1e-3,
}


def test_signals(rng):
    """A power of two changes nothing, whatever the views; 2^±530 is about 1e±160."""
    X, y = waves(rng, 24, 2, channels=2)
    expected = ResidualKernelClassifier(**VIEWED).fit(X[:16], y[:16])
    assert len(expected.passes_["weight"]) == 4
    for power in (-1060, -530, 530, 1020):
        scaled, bar = np.ldexp(X, power), 1e-9 if power > -1000 else 1e-3  # subnormal signals
        found = ResidualKernelClassifier(**VIEWED).fit(scaled[:16], y[:16])
        np.testing.assert_allclose(
            found.passes_["weight"], expected.passes_["weight"], rtol=10 * bar
        )
        np.testing.assert_allclose(
            found.decision_function(scaled), expected.decision_function(X), rtol=bar, atol=bar
        )
        assert found.score(scaled[16:], y[16:]) == expected.score(X[16:], y[16:]) > 0.8
        assert np.isfinite(found.kernel_matrix(scaled)).all()


def test_targets(rng):
    X, _ = waves(rng, 30, 2)
    y = np.stack([X[:, 0, :5].sum(axis=1), X[:, 0, 5:9].sum(axis=1)], axis=1) / 10
    expected = ResidualKernelRegressor(**QUICK).fit(X[:20], y[:20])
    assert 0 < expected.best_score_ < 1
    for factor in (1e-320, 1e-170, 1e200, 1e307):
        targets, bar = y * factor, 1e-8 if factor > 1e-310 else 0.05  # subnormal: few digits
        model = ResidualKernelRegressor(**QUICK).fit(X[:20], targets[:20])
        assert model.best_score_ == pytest.approx(expected.best_score_, rel=bar)
        score = expected.score(X[20:], y[20:])
        assert model.score(X[20:], targets[20:]) == pytest.approx(score, bar)
        np.testing.assert_allclose(
            model.predict(X[20:]) / factor, expected.predict(X[20:]), rtol=bar, atol=bar
        )
        assert np.isfinite(model.target_scale_).all() and (model.target_scale_ > 0).all()


def test_predictions_beyond_float64_are_refused(rng):
    X, _ = waves(rng, 20, 2)
    model = ResidualKernelRegressor(**ONE).fit(X, X[:, 0, 0] * 1e308)
    model._exponents = model._exponents + 5  # decisions of another training set
    with pytest.raises(OverflowError, match="predictions exceed float64"):
        model.predict(X)


def test_the_score_is_the_score_of_scikit_learn(rng):
    X, _ = waves(rng, 30, 2)
    weights = rng.uniform(size=30)
    for y in (X[:, 0, 0], X[:, 0, :3]):
        model = ResidualKernelRegressor(**QUICK).fit(X, y)
        predicted = model.predict(X)
        assert model.score(X, y) == r2_score(y, predicted)
        assert model.score(X, y, weights) == r2_score(y, predicted, sample_weight=weights)


def test_ordinary_numbers_are_left_alone(rng):
    assert views.moderate_exponent(rng.standard_normal((4, 2, 6)) * 1e80) == 0
    assert views.moderate_exponent(np.zeros((1, 1, 1))) == 0
    assert views.moderate_exponent([np.zeros((1, 2)), np.full((1, 3), 1e200)]) == 665
