"""Estimators in files: the same bits, few bytes, and the version that wrote them."""

import io
import pickle
import warnings

import joblib
import numpy as np
import pytest

from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, SignalScaler
from rescntk.learn.inputs import InconsistentVersionWarning
from rescntk.learn.process import Process
from rescntk.validation import DTYPES
from tests.covering import pairs_meet
from tests.learn.cases import waves


def reread(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    with warnings.catch_warnings(action="error"):
        again = joblib.load(file)
    return again, len(file.getvalue())


def signals_of(form, rng):
    X, y = waves(rng, 70, 3)
    if form == "lists":
        X = [x[:, : 10 + i % 15] for i, x in enumerate(X)]
    if form == "images":
        X = X.reshape(70, 1, 4, 6)
    return X, y


@pytest.mark.parametrize(
    ("form", "dtype", "landmarks"), pairs_meet(["arrays", "lists", "images"], DTYPES, [None, 20])
)
def test_same_bits_after_reading(form, dtype, landmarks, rng):
    X, y = signals_of(form, rng)
    old, new = X[:50], X[50:]
    options = {"effort": "fast", "dtype": dtype, "landmarks": landmarks}
    weights = rng.uniform(0.5, 2.0, 50)
    model = ResidualKernelClassifier(**options).fit(old, y[:50], weights)
    unused, _ = reread(model)  # before anything is derived
    expected = model.decision_function(new), model.predict_proba(new), model.novelty(new)
    used, _ = reread(model)
    for again in (unused, used):
        found = again.decision_function(new), again.predict_proba(new), again.novelty(new)
        for one, other in zip(found, expected, strict=True):
            assert (one == other).all()
        shares, same = again.contributions(new), model.contributions(new)
        assert all((one == other).all() for one, other in zip(shares, same, strict=True))
    regressor = ResidualKernelRegressor(**options).fit(old, y[:50] + 0.1 * weights)
    again, _ = reread(regressor)
    for one, other in zip(
        again.predict_interval(new), regressor.predict_interval(new), strict=True
    ):
        assert (one == other).all()


def test_size(rng):
    """A file has the signals once, and some 2.5 bytes for each pair of them and pass."""
    X, y = waves(rng, 300, 3)
    model = ResidualKernelClassifier(effort="fast", n_jobs=1).fit(X, y)
    _, size = reread(model)
    pairs = len(model._average.passes) * 300 * 301 / 2
    assert size < 3 * pairs + X.nbytes + 60_000
    model.predict_proba(X[:3])
    assert abs(reread(model)[1] - size) < 1000  # tables are not written


def test_tables_are_kept_and_follow_parameters(rng):
    X, y = waves(rng, 40, 3)
    model = ResidualKernelClassifier(effort="fast").fit(X[:30], y[:30])
    single = model.predict_proba(X[30:])
    kept = [fitted.tables[1] for fitted in model._average.passes]
    assert (model.predict_proba(X[30:]) == single).all()
    assert all(f.tables[1] is k for f, k in zip(model._average.passes, kept, strict=True))
    double = model.set_params(dtype="float64").predict_proba(X[30:])
    assert (double != single).any()
    np.testing.assert_allclose(double, single, atol=1e-2)
    assert (model.set_params(dtype="float32", n_jobs=1).predict_proba(X[30:]) == single).all()
    assert all(f.tables[1].request.threads == 1 for f in model._average.passes)


def test_large_tables_are_dropped(rng, monkeypatch):
    X, y = waves(rng, 40, 3)
    model = ResidualKernelClassifier(effort="fast").fit(X[:30], y[:30])
    expected = model.predict_proba(X[30:])
    model = pickle.loads(pickle.dumps(model))
    monkeypatch.setattr("rescntk.learn.fitted_pass._MOST_KEPT", 1000)
    for _ in range(2):
        assert (model.predict_proba(X[30:]) == expected).all()
    assert all(isinstance(f.tables[1], np.ndarray) for f in model._average.passes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_process(dtype, rng):
    """The variance by its formula; the triangle survives a file; a singular matrix is clipped."""
    points, weights = rng.standard_normal((12, 30)), rng.uniform(0.5, 2, 12)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    K = (points @ points.T).astype(dtype)
    cross = points[:3] @ points.T
    noisy = K.astype(float) + np.diag(0.1 / weights)
    expected = 1 - np.einsum("ij,ji->i", cross, np.linalg.solve(noisy, cross.T))
    process = Process(K, 0.1, weights)
    again = pickle.loads(pickle.dumps(process))
    assert again.triangle.dtype == dtype and (again.triangle == process.triangle).all()
    np.testing.assert_allclose(process.variance(cross), expected, rtol=1e-10)
    assert (again.variance(cross) == process.variance(cross)).all()
    assert (process.variance(cross) == process.variance(cross)).all()

    K = np.ones((12, 12), dtype)
    K[0, 1] = K[1, 0] = 1 - 1e-5  # an eigenvalue below 0
    assert np.linalg.eigvalsh(K.astype(float)).min() < -1e-9
    found = Process(K, 1e-9, np.ones(12)).variance(np.ones((1, 12)))
    assert 0 <= found[0] < 1e-4


@pytest.mark.parametrize("written", ["0.0.1", None])
def test_other_versions_are_named(written, rng):
    scaler = SignalScaler()
    state = scaler.__getstate__() | {"_rescntk_version": written}
    if written is None:
        del state["_rescntk_version"]
    fresh = SignalScaler.__new__(SignalScaler)
    with pytest.warns(InconsistentVersionWarning, match=f"version {written or 'unknown'} of"):
        fresh.__setstate__(state)
    assert not hasattr(fresh, "_rescntk_version")
