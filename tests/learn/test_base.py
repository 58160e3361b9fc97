"""Classifier and regressor: parameters, options, progress, and fits that do not end."""

import inspect
import os
import re

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from rescntk.learn import (
    KernelMatrix,
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    SignalKernel,
    SignalScaler,
    passes,
)
from rescntk.learn.fitted_pass import FittedPass
from tests.learn.cases import ONE, QUICK, waves

MODELS = [ResidualKernelClassifier, ResidualKernelRegressor]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth": 0}, "depth is 0"),
        ({"depth": ()}, "depth is empty"),
        ({"depth": None}, "depth is None"),
        ({"filter_size": 4}, "filter_size is 4"),
        ({"kind": "nngp"}, "kind is 'nngp'"),
        ({"head": ("gap", "mean")}, "head is 'mean'"),
        ({"standardize": "yes"}, "standardize is 'yes'"),
        ({"first_differences": "yes"}, "expected True, False or 'only'"),
        ({"penalty": 0.0}, "penalty is 0.0, expected a positive number"),
        ({"alpha": -1.0}, "alpha is -1.0"),
        ({"time_scale": -1.0}, "time_scale is -1.0"),
        ({"engine": "gpu"}, "engine is 'gpu', expected one of 'auto'"),
        ({"n_channels": 0}, "n_channels is 0"),
        ({"verbose": "a"}, "verbose is 'a', expected an integer of at least 0"),
        ({"n_jobs": 0}, "n_jobs is 0"),
        ({"landmarks": "some"}, "landmarks is 'some', expected None, 'all' or an integer"),
        ({"class_weight": "even"}, "class_weight is 'even', expected None, 'balanced'"),
        ({"class_weight": {0: -1, 1: 1}}, "class_weight of 0 is -1, expected a finite number"),
        ({"class_weight": {0: float("nan"), 1: 1}}, "class_weight of 0 is nan, expected a finite"),
        ({"class_weight": {0: 0, 1: 0}}, "class_weight is .* expected weights above 0"),
        ({"class_weight": {0: 1e308, 1: 1}}, "class_weight has values from 1 to 1e.308 above 0"),
        ({"effort": "quick"}, "effort is 'quick', expected one of 'fast'"),
        ({"effort": -1.0}, "effort is -1.0, expected one of 'fast'"),
        ({"effort": None}, "effort is None, expected one of 'fast'"),
    ],
)
def test_parameters_are_checked(changes, message, rng):
    X, y = waves(rng, 10, 2)
    with pytest.raises(ValueError, match=message):
        ResidualKernelClassifier(**(QUICK | changes)).fit(X, y)


@pytest.mark.parametrize("cls", MODELS)
def test_signature_and_documentation_agree(cls):
    signature = inspect.signature(cls).parameters
    sections = r"^(?:Other )?Parameters\n-+\n(.*?)(?=^[A-Z][\w ]*\n---|\Z)"
    section = "".join(re.findall(sections, inspect.getdoc(cls), re.M | re.S))
    entries = re.findall(r"^(\w[^:\n]*?)(?: : .*)?$", section, re.M)
    assert sorted(re.split(r",\s+", ", ".join(entries))) == sorted(signature)
    defaults = dict(re.findall(r"^(\w+) : .*, default (.*)$", section, re.M))
    for name, default in defaults.items():
        assert repr(signature[name].default).replace("'", '"') == default
    assert {parameter.kind for parameter in signature.values()} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("model", MODELS)
def test_options_are_passed_on(model, rng, monkeypatch):
    calls = []

    def noted(function):
        def call(*arguments, **named):
            calls.append({name: named[name] for name in ("engine", "dtype", "threads")})
            return function(*arguments, **named)

        return call

    for function in (passes.gram, passes.prepare):
        monkeypatch.setattr(passes, function.__name__, noted(function))
    X, y = waves(rng, 10, 2)
    options = QUICK | {"engine": "reference", "dtype": "float32", "n_jobs": 2, "alpha": 0.3}
    fitted = model(**options).fit(X, y)
    assert len(calls) == 4  # fitting computes nothing twice
    fitted.predict(X)
    used = np.count_nonzero(fitted.passes_["weight"])  # passes of hardly any weight are left out
    expected = {"engine": "reference", "dtype": "float32", "threads": 2}
    assert calls == [expected] * (4 + used) and used > 1
    assert {one.source.network.alpha for one in fitted._average.passes} == {0.3}


def test_jobs_are_counted_as_by_scikit_learn():
    cores, threads = os.cpu_count(), []
    for jobs in (None, 1, 3, -1, -2, -1 - cores):
        threads.append(ResidualKernelRegressor(n_jobs=jobs)._options()["threads"])
    assert threads == [None, 1, 3, cores, max(1, cores - 1), 1]


def test_progress(rng, capsys):
    """Lines for the plan, the time, each pass and the score."""
    X, y = waves(rng, 12, 2)
    ResidualKernelClassifier(verbose=1, **QUICK).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rescntk: 4 views of 12 signals"
    passes_said = [rf"\[{i}/4\] signals, .*: \S+ s, about \S+ s left$" for i in range(1, 5)]
    expected = [r"about \S+ s$", *passes_said, r"accuracy \S+ ± \S+, \S+ s$"]
    for line, said in zip(lines[-6:], expected, strict=True):
        assert re.match(said, line)
    ResidualKernelRegressor(verbose=1, **ONE).fit([*X[:9], X[9][:, :20]], y[:10])
    assert re.match(r"R² \S+ ± \S+, \S+ s$", capsys.readouterr().out.splitlines()[-1])
    ResidualKernelClassifier(**ONE).fit(X, y)
    assert not capsys.readouterr().out


# -- fits that are interrupted or refused leave the estimator as it was


@pytest.mark.parametrize("cls", MODELS)
def test_an_interrupted_fit(cls, rng, monkeypatch):
    """A first fit is no fit; a later fit keeps the former."""
    X, y = waves(rng, 12, 2)
    model, kernel, made = cls(**QUICK), passes.Pass.__call__, []

    def some(*arguments, **options):
        made.append(1)
        if len(made) == 3:
            raise KeyboardInterrupt  # as a person does
        return kernel(*arguments, **options)

    monkeypatch.setattr(passes.Pass, "__call__", some)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]
    for use in (model.predict, model.kernel_matrix):
        with pytest.raises(NotFittedError):
            use(X)
    model.fit(X, y)
    before, predictions = dict(vars(model)), model.predict(X)
    made.clear()
    with pytest.raises(KeyboardInterrupt):
        model.fit(*waves(rng, 15, 3, length=30))
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    assert (model.predict(X) == predictions).all()


@pytest.mark.parametrize("model", [SignalScaler(), KernelMatrix(), *(cls(**ONE) for cls in MODELS)])
def test_a_refused_fit_keeps_the_former_fit(model, rng):
    X, y = waves(rng, 12, 2)
    model.note = "mine"
    model.fit(X, y)
    before = dict(vars(model))
    for bad in (X[:, :, :5] * float("nan"), X[:, 0, 0]):
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


def test_answers_share_one_matrix(monkeypatch, rng):
    """`rescntk predict` has classes, probabilities and novelty from one matrix of each pass."""
    X, calls = rng.standard_normal((20, 1, 12)), []
    model = ResidualKernelClassifier(effort="fast").fit(X, np.arange(20) % 2)
    matrix = FittedPass.matrix
    monkeypatch.setattr(FittedPass, "matrix", lambda *given: calls.append(1) or matrix(*given))
    for method in (model._answers, model.predict, model.predict_proba, model.contributions):
        method(X)
        assert len(calls) == len(model._average.passes)
        calls.clear()
