"""Contributions of time points: they add up to decisions, and find what decides."""

import numpy as np
import pytest

import rescntk as rk
from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, View
from tests import tolerances
from tests.learn.cases import FOUR, ONE, waves


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("landmarks", [None, 9])
def test_shares_and_intercept_add_up_to_decisions(dtype, landmarks, rng, monkeypatch):
    options = FOUR | {"dtype": dtype, "landmarks": landmarks, "random_state": 0}
    X, y = waves(rng, 16, 3, channels=2)
    model = ResidualKernelClassifier(**options, class_weight="balanced").fit(X, y)
    Z = np.concatenate([X[:3], 5 * rng.standard_normal((2, 2, 24))])  # novel: other weights
    shares = model.contributions(Z)
    assert shares.shape == (5, 3, 24) and model.intercept_.shape == (3,)
    decisions = shares.sum(axis=2) + model.intercept_
    np.testing.assert_allclose(decisions, model.decision_function(Z), rtol=0, atol=1e-10)
    monkeypatch.setattr("rescntk.learn.ensemble._SHARES", 16 * 24)  # one at a time
    np.testing.assert_allclose(model.contributions(Z), shares, rtol=0, atol=1e-10)
    ragged = [x[:, : 24 - i % 3] for i, x in enumerate(X)]
    targets = np.stack([y, -7.0 * y**2], axis=1) if landmarks is None else 1e9 * y
    views = [View(filter_size=3), View(spectra=True, length=6), View(spectra="whole")]
    regressor = ResidualKernelRegressor(**(options | {"views": views})).fit(ragged, targets)
    found, expected = regressor.contributions(ragged[:4]), regressor.predict(ragged[:4])
    for part, x, prediction in zip(found, ragged, expected, strict=False):
        assert part.shape == (targets.size // 16, x.shape[1])
        sums, size = part.sum(axis=1) + regressor.intercept_, np.abs(targets).max()
        np.testing.assert_allclose(sums, np.atleast_1d(prediction), rtol=0, atol=1e-10 * size)
    assert regressor.usual_contributions() is None


@pytest.mark.parametrize("n", [30, 50])
def test_usual_contributions_are_medians_of_up_to_40_training_signals(n, rng):
    X, y = waves(rng, n, 3)
    for kind in (ResidualKernelClassifier, ResidualKernelRegressor):
        model = kind(**ONE, random_state=0).fit(X, 1e9 * y)
        parts = model.contributions(X)
        answers = model.predict(X) if hasattr(model, "classes_") else np.zeros(n)
        medians = [np.median(parts[answers == k], axis=0) for k in np.unique(answers)]
        off = np.abs(model.usual_contributions() - np.mean(medians, axis=0)).max() / parts.std()
        assert off < 1e-9 if n == 30 else 0 < off < 1


def test_one_view_has_the_shares_of_its_kernel(rng):
    X, y = waves(rng, 20, 2)
    model = ResidualKernelClassifier(**ONE).fit(X, y)
    fitted = model._fitted[0]
    shares = [
        rk.pixel_shares(
            rk.Network(2), fitted.view.see(X[:3]), fitted.signals, kind=kind, normalized=True
        )
        for kind in ("gpk", "ntk")
    ]
    expected = np.einsum("nmd,mk->nkd", np.mean(shares, axis=0), fitted.coefficients)
    # An intercept's difference from the mean target is divided evenly.
    expected += (fitted.intercepts - (2 * y - 1).mean())[None, :, None] / 24
    bar = tolerances.KERNEL["float64"] * np.abs(fitted.coefficients).sum()
    assert np.abs(model.contributions(X[:3]) - expected).max() <= bar


def test_what_decides_is_found(rng):
    """A bump at a random place, on noise: the largest contribution is on the bump."""
    y, places = np.arange(60) % 2, rng.integers(5, 75, 60)
    X = 0.3 * rng.standard_normal((60, 1, 90))
    for x, place, label in zip(X, places, y, strict=True):
        x[0, place : place + 9] += np.hanning(9) * (3 if label else -3)
    view = View(standardize="channel", filter_size=3, length=90)
    model = ResidualKernelClassifier([view]).fit(X[:40], y[:40])
    shares = (model.contributions(X[40:]) - model.usual_contributions())[:, 0]
    assert model.score(X[40:], y[40:]) > 0.9
    found = np.abs(shares).argmax(axis=1) - places[40:]
    assert np.mean((found >= -2) & (found <= 10)) > 0.8
