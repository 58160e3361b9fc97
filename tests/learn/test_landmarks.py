"""LandmarkFeatures: F Fᵀ ≈ K, in pipelines, searches and streams."""

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import rescntk as rk
from rescntk.learn import LandmarkFeatures, SignalKernel
from tests import tolerances
from tests.learn.cases import waves

KERNEL = rk.ResCNTK(2, normalized=True)
OPTIONS = {"engine": "reference"}


@pytest.mark.parametrize("selection", ["pivoted", "uniform"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_features_are_nystroms(rng, selection, dtype):
    """Exact in rows of landmarks; the residual is the trace's."""
    X, _ = waves(rng, 40, 2)
    features = LandmarkFeatures(KERNEL, 12, selection=selection, dtype=dtype, **OPTIONS)
    F = features.fit_transform(X)
    K = KERNEL(X, engine="reference")
    limit = 20 * np.sqrt(tolerances.EPS[dtype])
    assert F.dtype == dtype and F.shape == (40, len(features.landmarks_))
    assert (features.signals_ == X[features.landmarks_]).all()
    assert np.abs((F @ F.T - K)[features.landmarks_]).max() <= limit
    assert np.abs(features.transform(X[::-1])[::-1] - F).max() <= limit
    if selection == "pivoted":
        share = np.trace(K - F.astype(float) @ F.T) / np.trace(K)
        assert abs(features.residual_ - share) <= limit and share < 0.2
    else:
        assert np.isnan(features.residual_)
    same = pickle.loads(pickle.dumps(features))
    assert (same.transform(X[:5]) == features.transform(X[:5])).all()
    again = clone(features).fit(X)
    assert (again.landmarks_ == features.landmarks_).all()
    assert list(again.get_feature_names_out()[:2]) == ["landmarkfeatures0", "landmarkfeatures1"]


def test_all_signals_give_the_kernel(rng):
    X = np.tile(rng.standard_normal((6, 1, 9)), (2, 1, 1))
    for selection in ("pivoted", "uniform"):
        features = LandmarkFeatures(KERNEL, selection=selection, **OPTIONS)
        F = features.fit_transform(X)  # no warning, although six signals are there twice
        assert F.shape == (12, 6)
        assert np.abs(F @ F.T - KERNEL(X, engine="reference")).max() <= 1e-12


def test_pipelines_searches_and_streams(rng):
    X, y = waves(rng, 60, 2)
    kernel = SignalKernel(1, n_channels=1, engine="reference")
    model = make_pipeline(LandmarkFeatures(kernel, 10), RidgeClassifier())
    grid = {"landmarkfeatures__kernel__depth": [1, 2], "landmarkfeatures__n_landmarks": [2, 20]}
    found = GridSearchCV(model, grid, cv=2).fit(X[:, 0], y)
    assert found.best_params_["landmarkfeatures__n_landmarks"] == 20 and found.best_score_ > 0.9
    features = LandmarkFeatures(KERNEL, 20, selection="uniform", **OPTIONS).fit(X[:20])
    learner = SGDClassifier(random_state=0)
    for rows in np.split(np.arange(60), 3):
        learner.partial_fit(features.transform(X[rows]), y[rows], classes=[0, 1])
    assert learner.score(features.transform(X), y) > 0.9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernel": "rbf"}, "expected a rescntk.Kernel"),
        ({"n_landmarks": 0}, "n_landmarks is 0"),
        ({"n_landmarks": 2.5}, "n_landmarks is 2.5"),
        ({"selection": "greedy"}, "selection is 'greedy', expected one of 'pivoted', 'uniform'"),
        ({"dtype": "float16"}, "dtype"),
        ({"kernel": SignalKernel(), "dtype": "float32"}, "as a parameter of the SignalKernel"),
    ],
)
def test_messages(rng, changes, message):
    X = rng.standard_normal((5, 1, 6))
    with pytest.raises(ValueError, match=message):
        LandmarkFeatures(**changes).fit(X)


@pytest.mark.parametrize("selection", ["pivoted", "uniform"])
@pytest.mark.filterwarnings("error")
def test_signals_of_zeros_are_refused(selection):
    with pytest.raises(ValueError, match="kernel is 0 at all landmarks"):
        LandmarkFeatures(KERNEL, selection=selection, **OPTIONS).fit(np.zeros((4, 1, 5)))
