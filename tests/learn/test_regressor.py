"""The regressor, and signals and targets near the ends of float64."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.metrics import r2_score

from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor
from tests.learn.cases import ONE, waves


def test_several_targets(rng):
    frequency = rng.uniform(0.3, 1.2, 60)
    level = rng.uniform(-1, 1, 60)
    X = np.sin(np.arange(30) * frequency[:, None] + rng.uniform(0, 6, (60, 1))) + level[:, None]
    targets, weights = np.stack([1000 * frequency, level], axis=1), rng.uniform(size=15)
    for y in (targets, level):
        model = ResidualKernelRegressor(effort="fast", depth=1).fit(X[:45], y[:45])
        predicted, score = model.predict(X[45:]), model.score(X[45:], y[45:])
        assert predicted.shape == y[45:].shape
        assert score == r2_score(y[45:], predicted) > 0.9 and 0.9 < model.best_score_ < 1
        expected = r2_score(y[45:], predicted, sample_weight=weights)
        assert model.score(X[45:], y[45:], weights) == expected
    assert (model.fit(X[:45], y[:45].astype(object)).predict(X[45:]) == predicted).all()
    with pytest.raises(ValueError, match=r"y has shape \(60, 2\), expected \(60, 1\), as in fit"):
        model.score(X, targets)
    words = np.array(["a", "b"] * 30)
    for wrong in (words, words.astype(object), np.arange(60).astype("M8[D]")):
        for use in (model.fit, model.score):
            with pytest.raises(ValueError, match="y has dtype .*, expected real numbers"):
                use(X, wrong)


def test_constant_target(rng):
    X = rng.standard_normal((8, 1, 6))
    model = ResidualKernelRegressor(**ONE).fit(X, np.full(8, 3.5))
    mean, deviation = model.predict(X, return_std=True)
    assert_allclose(mean, 3.5)
    assert_allclose(deviation, 0.0, atol=1e-9)
    with pytest.raises(ValueError, match="return_std is 1, expected True or False"):
        model.predict(X, return_std=1)
    with pytest.raises(ValueError, match="dim 3"):
        model.fit(X, np.zeros((8, 1, 1)))


# -- numbers near the ends of float64: the same predictions as for ordinary numbers

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


def test_signals_of_any_size(rng):
    """A power of two changes nothing, whatever the views; 2^±530 is about 1e±160.

    Folds, by which a metric of the channels is chosen, are drawn anew for other signals.
    """
    X, y = waves(rng, 24, 2, channels=2)
    model = ResidualKernelClassifier(**VIEWED)
    expected = clone(model).fit(X[:16], y[:16])
    assert len(expected.passes_["weight"]) == 4
    for power in (-1060, -530, 530, 1020):
        scaled, bar = np.ldexp(X, power), 1e-9 if power > -1000 else 1e-3  # subnormal signals
        found = clone(model).fit(scaled[:16], y[:16])
        assert_allclose(found.passes_["weight"], expected.passes_["weight"], rtol=10 * bar)
        assert_allclose(
            found.decision_function(scaled), expected.decision_function(X), rtol=bar, atol=bar
        )
        assert found.score(scaled[16:], y[16:]) == expected.score(X[16:], y[16:]) > 0.8
        assert np.isfinite(found.kernel_matrix(scaled)).all()


def test_targets_of_any_size(rng):
    X, _ = waves(rng, 30, 2)
    y = np.stack([X[:, 0, :5].sum(axis=1), X[:, 0, 5:9].sum(axis=1)], axis=1) / 10
    expected = ResidualKernelRegressor(**ONE).fit(X[:20], y[:20])
    assert 0 < expected.best_score_ < 1
    for factor in (1e-320, 1e-170, 1e200, 1e307):
        targets, bar = y * factor, 1e-8 if factor > 1e-310 else 0.05  # subnormal: few digits
        model = ResidualKernelRegressor(**ONE).fit(X[:20], targets[:20])
        assert model.best_score_ == pytest.approx(expected.best_score_, rel=bar)
        score = expected.score(X[20:], y[20:])
        assert model.score(X[20:], targets[20:]) == pytest.approx(score, bar)
        assert_allclose(
            model.predict(X[20:]) / factor, expected.predict(X[20:]), rtol=bar, atol=bar
        )
        assert np.isfinite(model.target_scale_).all() and (model.target_scale_ > 0).all()
    model._exponents = model._exponents + 20  # decisions of another training set
    with pytest.raises(OverflowError, match="predictions exceed float64"):
        model.predict(X)


@pytest.mark.parametrize("landmarks", [None, 60])
def test_intervals_cover_what_they_say(landmarks, rng):
    """Also of heavy tails, where a standard deviation covers more than 68 %."""
    X = rng.standard_normal((500, 1, 8))
    noise = np.where(rng.uniform(size=500) < 0.1, 5.0, 0.5) * rng.standard_normal(500)
    y = np.stack([3 * X[:, 0, 2] + noise, 100 * (X[:, 0, 5] + noise)], axis=1)
    model = ResidualKernelRegressor(landmarks=landmarks, **ONE | {"head": "trace"})
    model.fit(X[:200], y[:200])
    mean, deviation = model.predict(X[200:], return_std=True)
    assert np.all((np.abs(y[200:] - mean) < deviation).mean(axis=0) > 0.75)
    for coverage in (0.68, 0.95):
        low, high = model.predict_interval(X[200:], coverage)
        assert_allclose((low + high) / 2, mean)
        inside = ((low <= y[200:]) & (y[200:] <= high)).mean(axis=0)
        error = np.sqrt(coverage * (1 - coverage) * (1 / 200 + 1 / 300))
        assert np.all(np.abs(inside - coverage) < 3 * error)
    low, high = model.fit(X[:200], y[:200, 0]).predict_interval(X[200:], 0.68)
    assert low.shape == (300,) and (low < high).all()
    with pytest.warns(UserWarning, match="is 0.999, .* of 0.995, the most .* from 200 "):
        model.predict_interval(X, 0.999)
    for wrong in (1.0, 0.0, "most"):
        with pytest.raises(ValueError, match=f"coverage is {wrong!r}, expected"):
            model.predict_interval(X, wrong)
