"""Metrics of the channels in estimators: what they find, and scores that stay honest."""

import pickle

import numpy as np
import pytest

from benchmarks.simulated import difference, sensors
from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor
from rescntk.plots import channels

FAST = {"effort": "fast", "kind": "ntk"}


def test_three_of_forty_sensors_are_found(rng):
    X, y, places = sensors(rng, 220, 0.9)
    model = ResidualKernelClassifier(**FAST).fit(X[:120], y[:120])
    assert set(places) <= set(np.argsort(-model.channel_relevance_)[:4])
    assert model.channel_relevance_.mean() == pytest.approx(1.0)
    plain = ResidualKernelClassifier(**FAST, channel_metric=False).fit(X[:120], y[:120])
    assert (plain.channel_relevance_ == 1).all()
    score = model.score(X[120:], y[120:])
    assert score > plain.score(X[120:], y[120:]) + 0.1
    error = np.hypot(model.best_score_error_, np.sqrt(score * (1 - score) / 100))
    assert abs(model.best_score_ - score) < 3 * error
    drawn = channels(model)
    assert len(drawn.patches) == 12 and drawn.get_yticklabels()[0].get_text().startswith("channel")
    again = pickle.loads(pickle.dumps(model))
    assert (again.decision_function(X[:5]) == model.decision_function(X[:5])).all()
    shares = model.contributions(X[120:123])
    total = shares.sum(axis=2) + model.intercept_
    np.testing.assert_allclose(total[:, 0], model.decision_function(X[120:123]), atol=1e-4)


def test_difference_of_two_noisy_channels_is_found(rng):
    X, y = difference(rng, 220, 4.0)
    model = ResidualKernelClassifier(**FAST).fit(X[:120], y[:120])
    plain = ResidualKernelClassifier(**FAST, channel_metric=False).fit(X[:120], y[:120])
    assert model.score(X[120:], y[120:]) >= 0.95 > plain.score(X[120:], y[120:])
    assert model.condense(8, max_iterations=1).score(X[120:], y[120:]) >= 0.95
    leading = np.linalg.eigh(model.channel_metric_.T @ model.channel_metric_)[1][:, -1]
    assert leading[0] * leading[1] < 0 and set(np.argsort(-abs(leading))[:2]) == {0, 1}


def test_noise_keeps_the_channels_and_one_channel_costs_nothing(rng):
    X, y = rng.standard_normal((60, 5, 20)), np.arange(60) % 2
    assert (ResidualKernelClassifier(**FAST).fit(X, y).channel_relevance_ == 1).all()
    forced = ResidualKernelClassifier(**FAST, channel_metric=True).fit(X, y)
    assert (forced.channel_relevance_ != 1).any() and forced.best_score_ < 0.7  # 1 where it lies
    one = ResidualKernelClassifier(**FAST, channel_metric=True).fit(X[:, :1], y)
    assert (one.channel_metric_ == 1).all()
    with pytest.raises(ValueError, match="model has one channel"):
        channels(one)
    with pytest.raises(ValueError, match="channel_metric is 'yes', expected 'auto', True or False"):
        ResidualKernelClassifier(channel_metric="yes").fit(X, y)


@pytest.mark.parametrize("form", ["lists", "images", "groups", "landmarks", "targets"])
def test_metric_of_any_signals(rng, form):
    """Channel 1 of four decides."""
    n = 60
    y, X = rng.standard_normal(n), rng.standard_normal((n, 4, 24))
    X[:, 1] *= np.exp(0.7 * y[:, None])
    groups = np.arange(n) // 3 if form == "groups" else None
    options = {"channel_metric": True} | FAST
    if form == "landmarks":
        options["landmarks"] = 40
    if form == "images":
        X = X.reshape(n, 4, 4, 6)
    signals = [x[:, : 16 + k % 8] for k, x in enumerate(X)] if form == "lists" else X
    Y = np.stack([y, -y], axis=1) if form == "targets" else y
    model = ResidualKernelRegressor(**options).fit(signals, Y, groups=groups)
    assert model.channel_relevance_.argmax() == 1
    assert len(model.fold_relevance_) == 3
    changed = model.counterfactual(signals[:1], model.predict(signals[1:2]).ravel()[0])
    assert changed.found.all()


def test_copies_and_weights_are_alike(rng):
    X, y = difference(rng, 60, 4.0)
    options = FAST | {"channel_metric": True}
    twice = np.repeat(np.arange(60), 1 + (np.arange(60) % 3 == 0))
    copies = ResidualKernelClassifier(**options).fit(X[twice], y[twice])
    weighed = ResidualKernelClassifier(**options).fit(X, y, 1.0 + (np.arange(60) % 3 == 0))
    np.testing.assert_allclose(copies.channel_metric_, weighed.channel_metric_, atol=1e-5)


def test_names_of_channels(rng):
    pd = pytest.importorskip("pandas")
    X, y = rng.standard_normal((24, 2, 16)) + 3.0, np.arange(24) % 2
    index = pd.MultiIndex.from_product([range(24), range(16)])
    table = pd.DataFrame(X.swapaxes(1, 2).reshape(-1, 2), index, ["flow", "heat"])
    quick = {"effort": "fast", "channel_metric": False, "missing": "interpolate"}
    model = ResidualKernelClassifier(**quick).fit(table, y)
    assert model.channel_names_ == ["flow", "heat"]
    with pytest.raises(ValueError, match="X has the channels heat, flow, expected the channels of"):
        model.predict(table[["heat", "flow"]])
    dead = X.copy()
    dead[3, 1] = np.nan  # like a channel that is constant at its usual level
    with pytest.warns(UserWarning, match="channel heat is constant in 1 of 24 signals"):
        predicted = model.predict_proba(dead)
    dead[3, 1] = X[:, 1].mean()
    with pytest.warns(UserWarning, match="channel heat is constant"):
        np.testing.assert_allclose(model.predict_proba(dead), predicted, atol=1e-5)
    named = ResidualKernelClassifier(**quick, channel_names=["a", "b"]).fit(X, y)
    assert named.channel_names_ == ["a", "b"]
    for wrong in (["a"], ["a", "a"], "ab", [1, 2]):
        with pytest.raises(ValueError, match="channel_names is .*, expected 2 different texts"):
            ResidualKernelClassifier(**quick, channel_names=wrong).fit(X, y)


def test_few_or_equal_signals_keep_their_channels(rng):
    """Folds of one class, and equal signals, have no gradients to learn from."""
    for n in (3, 4, 7):
        X, y = rng.standard_normal((n, 2, 9)), np.arange(n) // 2 % 2
        for option in ("auto", True):
            for signals in (X, np.ones_like(X), np.concatenate([X[:, :1], 0 * X[:, :1]], axis=1)):
                model = ResidualKernelClassifier(**FAST, channel_metric=option).fit(signals, y)
                assert np.isfinite(model.predict_proba(signals)).all()
                assert np.isfinite(model.channel_relevance_).all()
