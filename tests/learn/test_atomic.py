"""A fit that is interrupted or refused leaves the estimator as it was."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.exceptions import NotFittedError

from rescntk.learn import (
    KernelMatrix,
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    SignalKernel,
    SignalScaler,
    passes,
)
from tests.learn.cases import QUICK, waves

MODELS = [ResidualKernelClassifier(**QUICK), ResidualKernelRegressor(**QUICK)]


def interrupt(monkeypatch, after):
    """Interrupt the fit as a person does, after some passes."""
    kernel, made = passes.Pass.kernel, []

    def some(*arguments, **options):
        made.append(1)
        if len(made) > after:
            raise KeyboardInterrupt
        return kernel(*arguments, **options)

    monkeypatch.setattr(passes.Pass, "kernel", some)


@pytest.mark.parametrize("model", MODELS)
def test_an_interrupted_fit(model, rng, monkeypatch):
    """A first fit is no fit; a later fit keeps the former."""
    X, y = waves(rng, 12, 2)
    with monkeypatch.context() as patch:
        interrupt(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, y)
    before, predictions = dict(vars(model)), model.predict(X)
    other, labels = waves(rng, 15, 3, length=30)
    with monkeypatch.context() as patch:
        interrupt(patch, 3)
        with pytest.raises(KeyboardInterrupt):
            model.fit(other, labels + 7)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    assert (model.predict(X) == predictions).all()


@pytest.mark.parametrize("model", [SignalScaler(), KernelMatrix(), *MODELS])
def test_a_refused_fit_keeps_the_former_fit(model, rng):
    X, y = waves(rng, 12, 2)
    model.note = "mine"
    model.fit(X, y)
    before = dict(vars(model))
    for bad in (X[:, :, :5] * np.nan, X[:, 0, 0]):
        with pytest.raises(ValueError, match="X|Expected 2D"):
            model.fit(bad, y)
    assert all(vars(model)[name] is value for name, value in before.items())
    assert model.note == "mine"


def test_a_second_fit_forgets_the_first(rng):
    X, _ = waves(rng, 12, 2)
    model = KernelMatrix(SignalKernel(1, n_channels=1)).fit(X[:, 0])
    assert model.n_features_in_ == 24
    assert model.fit(X) is model
    assert not hasattr(model, "n_features_in_")
