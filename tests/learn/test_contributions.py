"""Contributions of time points: they add up, and views hand them back to time points."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import rescntk as rk
from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, fitted_pass, views
from tests import tolerances
from tests.learn.cases import ONE, waves

SEVERAL = {"head": ("trace", "gap"), "standardize": (True, "each"), "max_length": (7, 64)}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("landmarks", ["all", 9])
def test_shares_and_intercept_add_up_to_decisions(dtype, landmarks, rng, monkeypatch):
    parameters = ONE | SEVERAL | {"dtype": dtype, "landmarks": landmarks}
    X, y = waves(rng, 16, 3, channels=2)
    model = ResidualKernelClassifier(**parameters, class_weight="balanced").fit(X, y)
    Z = np.concatenate([X[:3], 5 * rng.standard_normal((2, 2, 24))])  # novel: other weights
    shares = model.contributions(Z)
    assert shares.shape == (5, 3, 24) and model.intercept_.shape == (3,)
    assert np.abs(model.intercept_ - model.offsets_ + 1 / 3).max() < 0.1  # the mean of targets ±1
    decisions = shares.sum(axis=2) + model.intercept_
    np.testing.assert_allclose(decisions, model.decision_function(Z), rtol=0, atol=1e-10)
    ragged = [x[:, : 24 - i % 3] for i, x in enumerate(X)]
    targets = np.stack([y, -7.0 * y**2], axis=1) if landmarks == "all" else 1e9 * y
    settings = {"head": "gap", "spectra": (False, True)}
    regressor = ResidualKernelRegressor(**(parameters | settings)).fit(ragged, targets)
    found, expected = regressor.contributions(ragged[:4]), regressor.predict(ragged[:4])
    for part, x, prediction in zip(found, ragged, expected, strict=False):
        assert part.shape == (targets.size // 16, x.shape[1])
        sums, size = part.sum(axis=1) + regressor.intercept_, np.abs(targets).max()
        np.testing.assert_allclose(sums, np.atleast_1d(prediction), rtol=0, atol=1e-10 * size)
    monkeypatch.setattr(fitted_pass, "_SHARES", 16 * 24)  # four signals with four at a time
    np.testing.assert_allclose(model.contributions(Z), shares, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n", [30, 50])
def test_usual_contributions_are_medians_of_up_to_40_training_signals(n, rng):
    X, y = waves(rng, n, 3)
    for model in (ResidualKernelClassifier(**ONE), ResidualKernelRegressor(**ONE)):
        parts = model.fit(X, 1e9 * y).contributions(X)
        small = model.condense(6, max_iterations=1)
        for of, several in ((model, parts), (small, small.contributions(X))):
            answers = of.predict(X) if hasattr(of, "classes_") else np.zeros(n)
            medians = [np.median(several[answers == k], axis=0) for k in np.unique(answers)]
            off = np.abs(of.usual_contributions() - np.mean(medians, axis=0)).max()
            assert off / several.std() < 1e-9 if n == 30 else 0 < off / several.std() < 1
    ragged = [x[:, : 24 - i % 3] for i, x in enumerate(X)]
    assert ResidualKernelClassifier(**ONE).fit(ragged, y).usual_contributions() is None
    with pytest.raises(NotFittedError):
        ResidualKernelClassifier().usual_contributions()


def test_one_pass_has_the_shares_of_its_kernel(rng):
    X, y = waves(rng, 20, 2)
    model = ResidualKernelClassifier(**(ONE | {"depth": 2, "kind": "gpk"})).fit(X, y)
    (fitted,) = model._average.passes
    options = {"kind": "gpk", "normalized": True}
    S = rk.pixel_shares(rk.Network(2), X[:3], fitted.signals, **options)
    expected = np.einsum("nmd,mk->nkd", S, fitted.coefficients)
    # An intercept's difference from the mean target is divided evenly.
    expected += (fitted.intercepts - (2 * y - 1).mean())[None, :, None] / S.shape[2]
    bar = tolerances.KERNEL["float64"] * np.abs(fitted.coefficients).sum()
    assert np.abs(model.contributions(X[:3]) - expected).max() <= bar


@pytest.mark.parametrize("axes", [(40,), (37,), (3,), (17, 20)])
def test_views_hand_shares_back(axes, rng):
    """A view's point that has the only share hands it to the time points that it comes from."""
    X = rng.standard_normal((1, 1, *axes))
    several = views.View(8), views.View(8, spectra=True), views.View(8, True, "each", True)
    for view in several if len(axes) == 1 else several[:1]:
        view = view.fit(np.ones((2, 1, 40, *axes[1:])))
        parts = view.to_time(np.eye(view(X)[0, 0].size), X[0]).reshape(-1, X.size)
        np.testing.assert_allclose(parts.sum(axis=1), 1)
        assert (parts >= 0).all()
        for j in range(X.size) if not (view.first_differences or view.standardize) else ():
            changed = X.copy()
            changed.flat[j] += 1
            differs = (view(changed) != view(X))[0].any(axis=0)
            assert (differs.ravel() == (parts[:, j] > 0)).all()
    assert (views.View().fit(X).to_time(X.reshape(1, -1), X[0]) == X[0]).all()


def test_images(rng):
    """A bright square tells the classes apart by its place."""
    X, y = 0.2 * rng.standard_normal((40, 1, 6, 9)), np.arange(40) % 2
    X[::2, :, 1:4, :3] += 1
    X[1::2, :, 1:4, 5:8] += 1
    model = ResidualKernelClassifier(effort="fast").fit(X[:24], y[:24])
    shares = model.contributions(X[24:])
    assert model.n_timepoints_ == (6, 9) and model.score(X[24:], y[24:]) == 1
    decisions = shares.sum(axis=(2, 3))[:, 0] + model.intercept_
    np.testing.assert_allclose(decisions, model.decision_function(X[24:]), rtol=0, atol=1e-10)
    model = ResidualKernelRegressor(effort="fast").fit(X, X[:, 0, 2, :2] * [1, 50])
    sums = model.contributions(X).sum(axis=(2, 3)) + model.intercept_
    np.testing.assert_allclose(sums, model.predict(X), rtol=0, atol=1e-9)
    with pytest.raises(ValueError, match=r"images of 1 channel × \(9, 6\) pixels, expected"):
        model.predict(X.swapaxes(2, 3))
    with pytest.raises(ValueError, match="spectra is True, expected False for images"):
        ResidualKernelClassifier(spectra=True).fit(X, y)
    with pytest.warns(UserWarning, match="remove; try max_length=32"):
        ResidualKernelClassifier(max_length=3).fit(X, y)


def test_refusals(rng):
    X, y = waves(rng, 12, 2)
    with pytest.raises(NotFittedError):
        ResidualKernelClassifier().contributions(X)
    assert not hasattr(ResidualKernelRegressor(), "intercept_")
    model = ResidualKernelClassifier(**(ONE | {"head": "equivariant"})).fit(X, y)
    with pytest.raises(ValueError, match="head is 'equivariant', expected one of 'gap', 'trace'"):
        model.contributions(X)
    with pytest.raises(ValueError, match="X has signals of 1 channel × 23 time points"):
        model.contributions(X[:, :, 1:])
