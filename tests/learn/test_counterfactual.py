"""Changed signals: slopes against differences, and what the model answers to the signals found."""

from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

from rescntk.learn import (
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    classifier,
    condense,
    counterfactual,
)
from tests.learn.cases import ONE, waves

FEW = ONE | {"depth": 2, "kind": "ntk", "first_differences": True, "input_filter_size": 3}
SLOPES = ONE | {
    "depth": 1,
    "kind": ("gpk", "ntk"),
    "standardize": (True, "each"),
    "first_differences": True,
    "max_length": 8,
    "block_statistics": (False, True),
    "engine": "reference",
}


@pytest.mark.parametrize("classes", [2, 3])
def test_slopes_of_log_odds(rng, classes, monkeypatch):
    """Of usual and of novel signals, whose passes have other weights and other trust."""
    X, y = waves(rng, 30, classes, length=16)
    model = ResidualKernelClassifier(**SLOPES).fit(X[:24], y[:24])
    Z = X[24:] + np.linspace(0, 2, 6)[:, None, None] * rng.standard_normal((6, 1, 16))
    Z += np.linspace(0, 0.3, 6)[:, None, None]
    assert (model.novelty(Z) > 3).any() and (model.novelty(Z) < 3).any()
    distances = model._average.usual.distances(Z)
    assert (distances > 1).any() and (distances < 1).any()
    targets, given = model.classes_[np.arange(6) % classes], []
    monkeypatch.setattr(classifier, "changed_signals", lambda *of, **_: given.append(of))
    model.counterfactual(Z, targets)
    cases, way, step = np.arange(6), rng.standard_normal(Z.shape), 1e-5
    average, _, goal = given[0]
    answer = partial(goal.answer, cases=cases)
    f, slopes = average.slopes(Z, answer)
    chances = model.predict_proba(Z)[cases, np.arange(6) % classes]
    assert np.allclose(f, np.log(chances) - np.log1p(-chances), rtol=1e-8)
    sides = [[average.at(Z + sign * h * way) for sign in (1, -1)] for h in (step, 2 * step)]
    values = np.array([[answer(at.mean(), at.novelty)[0] for at in pair] for pair in sides])
    differences = (values[:, 0] - values[:, 1]) / (2 * step * np.array([[1], [2]]))
    expected = (4 * differences[0] - differences[1]) / 3
    assert np.allclose((slopes * way).sum(axis=(1, 2)), expected, rtol=1e-5, atol=1e-6)


def test_classifier_gives_the_target(rng):
    X, y = waves(rng, 48, 3)
    y = np.array(["a", "b", "c"])[y]
    model = ResidualKernelClassifier(**FEW | {"dtype": "float32"}).fit(X[:40], y[:40])
    Z = X[40:]
    copy = Z.copy()
    found = model.counterfactual(Z)
    assert found.found.all() and (Z == copy).all()
    second = model.classes_[model.predict_proba(Z).argsort(axis=1)[:, -2]]
    assert (found.targets == second).all() and (model.predict(found.signals) == second).all()
    chances = model.predict_proba(found.signals)
    assert (found.answers == chances[np.arange(8), chances.argmax(axis=1)]).all()
    assert (found.answers >= 0.8).all() and found.answers.mean() < 0.85
    deviation = X[:40].std()
    moved = np.sqrt((((found.signals - Z) / deviation) ** 2).sum(axis=(1, 2)))
    assert np.allclose(found.distances, moved)
    ratios = []
    for z, target, distance in zip(Z, found.targets, found.distances, strict=True):
        of_target = (X[:40][y[:40] == target] - z) / deviation
        ratios.append(distance / np.sqrt((of_target**2).sum(axis=(1, 2)).min()))
    assert max(ratios) < 1 and np.median(ratios) < 0.6
    own = model.counterfactual(Z, model.predict(Z), probability=0.5)
    assert (own.distances == 0).all() and (own.signals == Z).all()


def test_way_of_l_bfgs(rng):
    """H rise = move for the latest change (the secant equation); without changes H is the unit."""
    root = rng.standard_normal((2, 6, 6))
    hessians = root @ root.swapaxes(1, 2)
    moves = rng.standard_normal((4, 2, 6))
    rises = np.einsum("nij,knj->kni", hessians, moves)
    found = counterfactual.quasi_newton(rises[0], moves, rises)
    assert np.allclose(found, moves[0], rtol=1e-10)
    gradient = rng.standard_normal((2, 6))
    assert (counterfactual.quasi_newton(gradient, 0 * moves, 0 * rises) == gradient).all()


def test_condensed_model_starts_at_the_signals(rng):
    """A condensed model has no signals of fit to start from."""
    X, y = waves(rng, 30, 2)
    model = ResidualKernelClassifier(**FEW | {"dtype": "float32"}).fit(X, y)
    small = model.condense(6, max_iterations=2)
    found = small.counterfactual(X[:3])
    assert found.found.all() and (small.predict(found.signals) == found.targets).all()


def test_lists_and_targets(rng):
    X, y = waves(rng, 16, 2, length=12)
    lists = [x[:, : 11 + k % 2] for k, x in enumerate(X)]
    model = ResidualKernelClassifier(**FEW | {"dtype": "float32"}).fit(lists, y)
    found = model.counterfactual(lists[:5], 1, probability=0.6, max_iterations=12)
    assert isinstance(found.signals, list) and found.found.all()
    assert [x.shape for x in found.signals] == [x.shape for x in lists[:5]]
    assert (model.predict(found.signals) == 1).all() and (found.distances[y[:5] == 1] == 0).all()


def test_where_none_is_found_the_signals_are_nan(rng):
    X, y = waves(rng, 30, 2)
    model = ResidualKernelClassifier(**FEW | {"dtype": "float32"}).fit(X, y)
    with pytest.warns(UserWarning, match="for 3 of 3 cases: 0, 1, 2"):
        found = model.counterfactual(X[:3], probability=1 - 1e-12, max_iterations=2)
    assert not found.found.any() and np.isnan(found.signals).all()
    assert np.isnan(found.answers).all() and np.isnan(found.distances).all()


def test_regressor_gives_the_value(rng):
    X, _ = waves(rng, 60, 5, length=16)
    Y = np.column_stack([np.abs(np.diff(X)).mean(axis=(1, 2)), (X**2).mean(axis=(1, 2))]) * 1e6
    model = ResidualKernelRegressor(**FEW | {"dtype": "float32"}).fit(X[:50], Y[:50])
    values = np.quantile(Y[:, 0], np.linspace(0.1, 0.9, 10))
    found = model.counterfactual(X[50:], values)
    assert found.found.all() and (found.targets == values).all()
    predicted = model.predict(found.signals)[:, 0]
    assert (predicted == found.answers).all()
    assert np.abs(predicted - values).max() <= 1e-3 * model.target_scale_[0]
    with pytest.warns(UserWarning, match="no signal was found"):
        far = model.counterfactual(X[50:52], 1e9, output=1, max_iterations=2)
    assert not far.found.any()
    for size, target in ((1e300, 0.0), (1.0, 1e300)):  # without warnings of NumPy
        with pytest.warns(UserWarning, match="no signal was found"):
            model.counterfactual(X[50:51] * size, target, max_iterations=2)


def test_refusals(rng):
    X, y = waves(rng, 20, 2)
    classifier = ResidualKernelClassifier(**FEW | {"dtype": "float32"}).fit(X, y)
    regressor = ResidualKernelRegressor(**FEW | {"dtype": "float32"}).fit(X, 1.0 * y)
    for model, arguments, message in (
        (classifier, {"probability": 0.4}, "probability is 0.4, expected from 0.5 to below 1"),
        (classifier, {"probability": 1.0}, "probability is 1.0"),
        (classifier, {"target": 7}, r"target is 7, expected some of \[0, 1\]"),
        (classifier, {"target": {}}, r"target is {}, expected some of \[0, 1\]"),
        (classifier, {"target": [[0], [1, 0]]}, "target is not a rectangular array, expected one"),
        (regressor, {"target": [[0], [1, 0]]}, "target is not a rectangular array, expected one"),
        (classifier, {"target": [0, 1, 1]}, r"target has shape \(3,\), expected one value or"),
        (classifier, {"max_iterations": 0}, "max_iterations is 0"),
        (regressor, {"target": np.nan}, "target"),
        (regressor, {"target": 0.5, "output": 1}, "output is 1, expected below 1"),
    ):
        with pytest.raises(ValueError, match=message):
            model.counterfactual(X[:2], **arguments)


def test_progress_counts_the_steps_of_each_length(rng, monkeypatch):
    """Also of signals that have the target. `condense` weighs passes by their work."""
    X, y = waves(rng, 24, 2)
    X = [x[:, : 20 + k % 3] for k, x in enumerate(X)]
    options = FEW | {"passes": [{"head": "gap"}, {"head": "gap", "max_length": 8}]}
    options = {name: options[name] for name in ("depth", "kind", "passes")}
    model, bars = ResidualKernelClassifier(**options).fit(X, y), []

    @contextmanager
    def recorded(show, total, unit, *, name):
        bars.append((name, total, ticks := []))
        yield ticks.append

    monkeypatch.setattr(counterfactual, "progress_bar", recorded)
    monkeypatch.setattr(condense, "progress_bar", recorded)
    model.counterfactual(X[:5], model.predict(X[:5]), max_iterations=4)
    model.counterfactual(X[:5], max_iterations=4)
    model._fitted.weights = np.array([0.5, 0.5])
    model.condense(4, max_iterations=1)
    assert [name for name, *_ in bars] == ["counterfactual", "counterfactual", "condense"]
    assert [(total, sum(ticks)) for _, total, ticks in bars] == [(12, 12), (12, 12), (100, 100)]
    whole, shortened = bars[-1][2]
    assert whole > 5 * shortened  # 22² against 7² pixel pairs
