"""Condensed models: they answer like the full model, from few learned signals."""

import csv
import subprocess
import sys
import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, condense, predict
from rescntk.learn.passes import Pass
from tests import tolerances
from tests.learn.cases import ONE, waves
from tests.learn.test_files import reread, signals_of

FEW = ONE | {"depth": 2, "kind": "ntk", "first_differences": True, "input_filter_size": 3}


def same_bits(one, other, X):
    names = ["predict", "novelty", "contributions"]
    names += ["predict_proba", "decision_function"] * hasattr(one, "classes_")
    return all(
        all(np.array_equal(a, b) for a, b in zip(f(X), g(X), strict=True))
        for f, g in ((getattr(model, name) for model in (one, other)) for name in names)
    )


def test_classifier(rng):
    """All that a classifier answers; the full model is as before."""
    X, y = waves(rng, 180, 3)
    y = np.array(["a", "b", "c"])[y]
    full = ResidualKernelClassifier(**FEW | {"dtype": "float32"}).fit(X[:60], y[:60])
    before, _ = reread(full)
    small = full.condense(6)
    assert type(small) is ResidualKernelClassifier and same_bits(full, before, X[60:])
    assert small.get_params() == full.get_params() and small.best_score_ == full.best_score_
    Z, expected = X[60:], y[60:]
    assert small.score(Z, expected) >= full.score(Z, expected) - 0.03
    chances = small.predict_proba(Z)
    assert np.allclose(chances.sum(axis=1), 1)
    assert np.abs(chances - full.predict_proba(Z)).mean() < 0.05
    novelties, noise = small.novelty(Z), small.novelty(rng.standard_normal(Z.shape))
    assert 0.5 < np.median(novelties) < 2 and np.median(noise) > 3 * np.median(novelties)
    sums = small.contributions(Z).sum(axis=2) + small.intercept_
    assert np.abs(sums - small.decision_function(Z)).max() < 1e-9
    again, size = reread(small)
    assert same_bits(small, again, Z) and size < reread(full)[1] / 2
    assert small.kernel_matrix(Z).shape == (120, 6)


def test_regressor(rng):
    """Two targets: predictions, deviations, intervals that cover new observations."""
    X, _ = waves(rng, 200, 7, length=16)
    Y = np.column_stack([(X**2).mean(axis=(1, 2)), np.abs(np.diff(X)).mean(axis=(1, 2))])
    Y += 0.1 * Y.std(axis=0) * rng.standard_normal(Y.shape)
    full = ResidualKernelRegressor(**FEW | {"dtype": "float32"}).fit(X[:80], Y[:80])
    small = full.condense(8)
    assert small.score(X[80:], Y[80:]) > full.score(X[80:], Y[80:]) - 0.05
    mean, deviation = small.predict(X[80:], return_std=True)
    assert mean.shape == deviation.shape == (120, 2) and (deviation > 0).all()
    lower, upper = small.predict_interval(X[80:], coverage=0.9)
    inside = ((lower <= Y[80:]) & (Y[80:] <= upper)).mean()
    assert 0.8 < inside < 0.99
    assert same_bits(small, reread(small)[0], X[80:])


@pytest.mark.parametrize("form", ["lists", "images", "landmarks"])
def test_other_signals(form, rng):
    X, y = signals_of(form, rng)
    landmarks = 40 if form == "landmarks" else None
    options = FEW | {"landmarks": landmarks, "dtype": "float32"}
    if form == "lists":
        X = [x[:, : 9 + k % 2] for k, x in enumerate(X)]
    full = ResidualKernelClassifier(**options).fit(X[:50], y[:50])
    small = full.condense(9, max_iterations=8)
    agree = (small.predict(X[50:]) == full.predict(X[50:])).mean()
    assert agree >= 0.6 and same_bits(small, reread(small)[0], X[50:])


def test_passes_of_little_weight_are_left_out(rng):
    X, y = waves(rng, 40, 2)
    full = ResidualKernelClassifier(**FEW | {"filter_size": (1, 3, 5), "dtype": "float32"})
    full.fit(X[:30], y[:30])
    full._fitted.weights = np.array([0.04, 0.64, 0.32])
    small = full.condense(4, max_iterations=1)
    assert small.passes_["filter_size"].tolist() == [3, 5] and len(small._average.passes) == 2
    assert np.allclose(small.passes_["weight"], [2 / 3, 1 / 3]) and len(full._average.passes) == 3
    assert small._average.passes[0].training.whole.dtype == np.int8
    assert same_bits(small, reread(small)[0], X[30:])


@pytest.mark.parametrize("lists", [False, True])
def test_rounding_keeps_the_sizes_of_signals(rng, lists):
    """A kernel with biases sees them; half a unit is the largest error."""
    sizes = np.array([1e-200, 1e-3, 1.0, 1e200, 0.0])
    X = sizes[:, None, None] * rng.standard_normal((5, 2, 9))
    if lists:
        X = [x[:, : 9 - k] for k, x in enumerate(X)]
    for x, found in zip(X, condense.RoundedSignals(X).seen(None, None), strict=True):
        largest = np.abs(x).max()
        assert np.abs(found - x).max() <= largest / 254 * (1 + 4 * tolerances.EPS["float64"])
        assert np.abs(found).max() == pytest.approx(largest, rel=1e-15)


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
def test_equal_and_extreme_signals(rng, size):
    """Without warnings of KMeans and NumPy: a view makes signals of one shape equal."""
    X, y = waves(rng, 20, 2)
    X = size * np.concatenate([X, np.broadcast_to(X[0], X.shape) * np.arange(1, 21)[:, None, None]])
    full = ResidualKernelClassifier(**FEW | {"standardize": "each"}).fit(X, np.r_[y, y * 0])
    with warnings.catch_warnings(action="error"):
        assert np.isfinite(full.condense(30, max_iterations=1).decision_function(X)).all()


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 0])
def test_exported_models_need_numpy_alone(rng, tmp_path, n_classes):
    """All passes of the plan; a process in which nothing but NumPy can be imported.

    Three classes have three channels, with a metric.
    """
    channels = 3 if n_classes == 3 else 1
    X, y = waves(rng, 36, n_classes or 3, length=150, channels=channels)
    X[28:] = 3.0 * rng.standard_normal(X[28:].shape) + 1.0  # novel, and of other levels
    kind = ResidualKernelClassifier if n_classes else ResidualKernelRegressor
    full = kind(effort="thorough", channel_metric=True).fit(
        X[:24], y[:24] if n_classes else X[:24, 0, :9].sum(axis=1)
    )
    small = full.condense(6, max_iterations=1).set_params(dtype="float64")
    small._fitted.weights = small._fitted.weights * 0 + 1 / len(small._fitted.weights)
    small.export(tmp_path / "model.npz")
    np.save(tmp_path / "X.npy", X)
    script = """
import sys
for name in ("rescntk", "scipy", "sklearn", "numba", "pandas"):
    sys.modules[name] = None
import numpy as np, predict
model, X = predict.Model("model.npz"), np.load("X.npy")
answers = {"predict": model.predict(X)}
if "classes" in model.arrays:
    answers |= {n: getattr(model, n)(X) for n in ("decision_function", "predict_proba")}
np.savez("answers.npz", **answers)
sys.argv = ["predict.py", "model.npz", "X.npy"]
exec(open("predict.py").read(), {"__name__": "__main__"})
"""
    command = [sys.executable, "-I", "-c", "import sys; sys.path[:0] = ['.']" + script]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    table = list(csv.DictReader(done.stdout.splitlines()))
    numbers = np.array([float(line["novelty"]) for line in table])
    assert np.abs(numbers / small.novelty(X) - 1).max() < 1e-6
    for k, label in enumerate(small.classes_ if n_classes else ()):
        column = [float(line[f"probability of {label}"]) for line in table]
        assert np.abs(column - small.predict_proba(X)[:, k]).max() < 1e-6
    assert len((tmp_path / "predict.py").read_text().splitlines()) <= 200
    with np.load(tmp_path / "answers.npz") as answers:
        for name in answers.files:
            expected = getattr(small, name)(X)
            assert np.abs(answers[name].reshape(expected.shape) - expected).max() < 1e-6
    with pytest.raises(ValueError, match="expected model.condense"):
        full.export(tmp_path / "full.npz")
    (tmp_path / "predict.py").write_text("print()")
    with pytest.raises(FileExistsError, match=r"predict.py exists and is another file"):
        small.export(tmp_path / "again.npz")


VIEWS = (
    {"first_differences": True, "time_scale": 1.0},
    {"first_differences": "only", "block_statistics": True, "max_length": 8},
    {"spectra": True, "standardize": "each", "max_length": 8},
    {"spectra": "whole", "block_statistics": True, "max_length": 8, "constant": True},
    {"standardize": "each", "constant": False},
    {"standardize": False, "constant": False},
    {"head": "trace", "standardize": "point", "first_differences": "only", "max_length": 16},
    {"head": "equivariant", "input_filter_size": 5, "dilation": 2, "standardize": False},
)
"""One pass each, with the head "gap" unless it is named: all that views do, and all filters."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # of blocks, and of novel signals
@pytest.mark.parametrize(
    ("number", "form"),
    [*product(range(8), ("arrays", "huge")), *product(range(6), ("lists",))],  # lists take "gap"
)
def test_each_view_is_exported(number, form, rng, tmp_path):
    """Of new signals, training signals, which are near duplicates, noise, and signals of zeros."""
    X, y = waves(rng, 22, 2 if form == "huge" else 3, length=33, channels=2)
    X = np.concatenate([X, rng.standard_normal((4, 2, 33)), np.zeros((1, 2, 33))])
    X *= 1e85 if form == "huge" else 1.0  # ordinary for float64, whose squares' products are not
    if form == "lists":
        X = [x[:, : 31 + k % 3] for k, x in enumerate(X)]
    options = {"depth": (1, 3), "alpha": 0.7, "dtype": "float64", "channel_metric": False}
    passes = [{"head": "gap"} | VIEWS[number]]
    full = ResidualKernelClassifier(passes=passes, **options).fit(X[:16], y[:16])
    small = full.condense(5, max_iterations=1)
    small.export(tmp_path / "model.npz")
    again = predict.Model(tmp_path / "model.npz")
    magnified = np.abs(small._fitted.passes[0].coefficients).sum()
    decisions = small.decision_function(X)
    errors = again.decision_function(X).reshape(decisions.shape) - decisions
    # Learned signals are whole numbers: few pixels, of 31 or more, are parallel to another one.
    assert np.abs(errors).max() <= tolerances.PEER["ntk"] / 31 * magnified
    assert np.abs(again.predict_proba(X) - small.predict_proba(X)).max() < 1e-6


def test_refusals(rng):
    X, y = waves(rng, 20, 2)
    with pytest.raises(NotFittedError):
        ResidualKernelClassifier().condense(4)
    full = ResidualKernelClassifier(**FEW).fit(X, y)
    for wrong, message in (
        (20, "n_signals is 20, expected fewer than the 20 signals"),
        (1, "n_signals is 1, expected an integer of at least 2"),
        (2.5, "n_signals is 2.5"),
    ):
        with pytest.raises(ValueError, match=message):
            full.condense(wrong)
    with pytest.raises(ValueError, match="max_iterations is 0"):
        full.condense(4, max_iterations=0)


def test_interruption_ends_it(rng, monkeypatch):
    """`learn_signals` would return the best so far, and the next pass would go on."""
    X, y = waves(rng, 20, 2)
    full, calls, vjp = ResidualKernelClassifier(**FEW).fit(X, y), [], Pass.vjp

    def interrupted(self, *arguments, **options):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return vjp(self, *arguments, **options | {"engine": "reference"})

    monkeypatch.setattr(Pass, "vjp", interrupted)
    with pytest.raises(KeyboardInterrupt):
        full.condense(4)
    assert len(calls) == 6
