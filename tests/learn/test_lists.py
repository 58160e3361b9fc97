"""Signals of different lengths in classifier, regressor and transformers."""

import numpy as np
import pytest

import rescntk as rk
from rescntk.learn import (
    KernelMatrix,
    LandmarkFeatures,
    ResidualKernelClassifier,
    ResidualKernelRegressor,
)
from tests import tolerances
from tests.learn.cases import ONE


def ragged_waves(rng, n, channels=1):
    """Return sines of two frequencies and of 10 to 30 time points, and their labels."""
    labels = np.arange(n) % 2
    signals = [
        np.sin(np.arange(length) * (0.4 + 0.6 * label) + rng.uniform(0, 6, (channels, 1)))
        for label, length in zip(labels, rng.integers(10, 30, n), strict=True)
    ]
    return signals, labels


@pytest.mark.parametrize("landmarks", [None, 12])
def test_estimators(landmarks, rng):
    """Lists, tuples and arrays of arrays; a value does not depend on the batch around it."""
    X, y = ragged_waves(rng, 30, channels=2)
    options = ONE | {"constant": True, "standardize": True, "time_scale": 0.3}
    model = ResidualKernelClassifier(landmarks=landmarks, **options).fit(X[:20], y[:20])
    assert model.n_timepoints_ is None and model.n_channels_ == 2
    assert model.score(X[20:], y[20:]) > 0.8
    decisions = model.decision_function(X[20:])
    for same in (tuple(X[20:]), [x.tolist() for x in X[20:]]):
        assert (model.decision_function(same) == decisions).all()
    alone = model.decision_function(X[23][None])  # an array of one signal
    np.testing.assert_allclose(alone, decisions[3:4], atol=tolerances.ROUTES)
    assert model.kernel_matrix(X[20:]).shape == (10, landmarks or 20)
    numbers = ResidualKernelRegressor(landmarks=landmarks, **options).fit(X[:20], 3.0 * y[:20])
    mean, deviation = numbers.predict(X[20:], return_std=True)
    assert np.mean((mean > 1.5) == y[20:]) > 0.8 and (deviation > 0).all()


def test_long_signals_keep_one_resolution(rng):
    X, y = ragged_waves(rng, 16)
    X[3] = np.tile(X[3], (1, 20))[:, :250]
    model = ResidualKernelClassifier(effort="fast", depth=1).fit(X, y)
    # 250 time points become at most 64 or 32, whatever the length of a signal; 125 frequencies 32.
    blocks = {fitted.source.view.block for fitted in model._average.passes}
    assert blocks and blocks <= {4, 8}
    assert set(model.passes_["head"]) == {"gap"}
    assert (model.predict(X) == y).all()


def test_signals_of_one_channel_and_refusals(rng):
    X, y = ragged_waves(rng, 12)
    model = ResidualKernelClassifier(**ONE).fit([x[0] for x in X], y)
    expected = ResidualKernelClassifier(**ONE).fit(X, y)
    assert (model.decision_function(X) == expected.decision_function(X)).all()
    broken = [*X[:4], X[4] * np.nan, *X[5:]]
    with pytest.raises(
        ValueError, match=r"NaN \(first in case 4, channel 0, time point 0\).*fill them in"
    ):
        model.fit(broken, y)
    with pytest.raises(ValueError, match=r"2 channels × 9 .*1 channel × any number of"):
        model.predict(np.zeros((3, 2, 9)))
    with pytest.raises(ValueError, match="head='gap'"):
        ResidualKernelClassifier(**ONE | {"head": "trace"}).fit(X, y)


def test_transformers(rng):
    (X, _), kernel = ragged_waves(rng, 9, channels=2), rk.ResCNTK(depth=1, normalized=True)
    matrix, K = KernelMatrix(kernel), kernel(X)
    assert (matrix.fit_transform(X) == K).all()
    assert (matrix.transform(X[:3]) == kernel(X[:3], X)).all()
    for selection in ("pivoted", "uniform"):
        features = LandmarkFeatures(kernel, 9, selection=selection).fit(X)
        F = features.transform(X)
        np.testing.assert_allclose(F @ F.T, K, atol=1e-9)
        assert (features.transform(features.signals_) == F[features.landmarks_]).all()
