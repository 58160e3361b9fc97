"""The classifier: its predictions, probabilities, score and refusals."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from rescntk.learn import (
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    base,
    readouts,
    search,
    selection,
)
from tests import tolerances
from tests.learn.cases import QUICK, gram_of, rows, waves


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("readout", ["ridge", "svm"])
def test_classifier(classes, readout, rng):
    X, y = waves(rng, 60, classes, channels=2)
    names = np.array(["a", "b", "c"])[y]
    model = ResidualKernelClassifier(readout=readout, **QUICK).fit(X[:30], names[:30])
    assert model.best_params_["readout"] == readout
    assert (model.classes_ == np.unique(names)).all()
    predicted = model.predict(X[30:])
    assert np.mean(predicted == names[30:]) > 0.9
    chances = model.predict_proba(X[30:])
    assert chances.shape == (30, classes)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert (model.classes_[chances.argmax(axis=1)] == predicted).all()
    decisions = model.decision_function(X[30:])
    assert decisions.shape == ((30,) if classes == 2 else (30, 3))
    if classes == 2:
        assert (model.classes_[(decisions > 0).astype(int)] == predicted).all()
    assert 0.8 < model.best_score_ <= 1.0


def test_what_was_chosen_is_what_predicts(rng):
    X, y = waves(rng, 30, 3)
    model = ResidualKernelClassifier(readout="ridge", **QUICK).fit(X[:20], y[:20])
    chosen = model.best_params_
    assert model.kernel_.head == chosen["head"]
    assert model.kernel_.kind == chosen["kind"]
    assert model.kernel_.network.depth == chosen["depth"]
    seen = model.view_(X)
    K = model.kernel_(seen)
    Y = readouts.one_against_rest(y[:20], 3)
    path = readouts.RidgePath(K[:20, :20], Y)
    error = np.mean(path.residuals(chosen["penalty"]) ** 2)
    assert error == pytest.approx(model.best_error_)
    expected = path.fit(chosen["penalty"])(K[20:, :20])
    np.testing.assert_allclose(model.decision_function(X[20:]), expected, atol=1e-10)
    assert model.score(X[20:], y[20:]) == 1.0


def test_same_result_every_time_and_inputs_untouched(rng):
    X, y = waves(rng, 20, 2)
    before = X.copy()
    X.flags.writeable = False
    one, other = (ResidualKernelClassifier(**QUICK).fit(X, y) for _ in range(2))
    assert (one.predict_proba(X) == other.predict_proba(X)).all()
    assert one.best_params_ == other.best_params_
    assert (before == X).all()


def test_two_axes_are_one_channel(rng):
    X, y = waves(rng, 20, 2)
    flat = ResidualKernelClassifier(**QUICK).fit(X[:, 0], y)
    deep = ResidualKernelClassifier(**QUICK).fit(X, y)
    assert (flat.decision_function(X) == deep.decision_function(X[:, 0])).all()


def test_any_depth_when_normalized(rng):
    X, y = waves(rng, 12, 2, length=6)
    options = QUICK | {"depth": (1, 1500), "head": "trace", "input_filter_size": 1}
    model = ResidualKernelClassifier(normalized=True, readout="ridge", **options).fit(X, y)
    assert np.isfinite(model.search_results_["error"]).all()
    with pytest.raises(OverflowError, match="normalized=True"):
        ResidualKernelClassifier(normalized=False, **options).fit(X, y)


def test_the_estimator_takes_the_machine(rng):
    """End to end: strength tells the classes apart, and some of the stronger are very strong."""
    y = np.arange(60) % 2
    strength = np.where(y == 1, 0.85, 0.45) + 0.15 * rng.uniform(-1, 1, 60)
    strength[1::6] *= 3.0
    X = strength[:, None, None] * np.ones((1, 4))
    options = QUICK | {"normalized": False, "standardize": False, "head": "trace"}
    both = ResidualKernelClassifier(**options).fit(X[:40], y[:40])
    assert both.best_params_["readout"] == "svm"
    ridge = ResidualKernelClassifier(readout="ridge", **options).fit(X[:40], y[:40])
    assert both.score(X[40:], y[40:]) == 1.0
    assert both.best_score_ >= ridge.best_score_


def test_random_state_draws_the_folds(rng, monkeypatch):
    drawn = []
    held_out, searched = readouts.held_out, search.search

    def spy_on_folds(K, Y, folds, fit):
        drawn.append([tuple(fold) for _, fold in folds])
        return held_out(K, Y, folds, fit)

    def spy_on_search(*arguments, **options):
        drawn.append(options["folds"].tolist())
        return searched(*arguments, **options)

    monkeypatch.setattr(selection, "held_out", spy_on_folds)
    monkeypatch.setattr(base, "search", spy_on_search)
    X, y = waves(rng, 16, 2)
    runs = []
    for state in (0, 0, 1):
        drawn.clear()
        ResidualKernelClassifier(random_state=state, readout="svm", cv=4, **QUICK).fit(X, y)
        runs.append((drawn[0], drawn[1]))
        assert len(drawn[1]) == 4
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[2][0] and runs[0][1] != runs[2][1]


def test_float32_decisions(rng):
    """Decisions rest on the float32 matrix, to the last bit, not on the float64 matrix."""
    X, y = waves(rng, 14, 3)
    model = ResidualKernelClassifier(dtype="float32", readout="ridge", penalty=0.1, **QUICK)
    seen = model.fit(X, y).view_(X)
    K32, K64 = (model.kernel_(seen, model.signals_, dtype=d) for d in ("float32", "float64"))
    assert (model.decision_function(X) == model.readout_(K32.astype(np.float64))).all()
    assert (model.decision_function(X) != model.readout_(K64)).any()
    own = model.kernel_(seen, dtype="float32")  # trained on float32, too
    Y = readouts.one_against_rest(y, 3)
    found = readouts.RidgePath(own, Y).fit(model.best_params_["penalty"])
    # Errors of eps relative to K; the penalty is a tenth of K's diagonal.
    bar = 10 * 14 * tolerances.EPS["float32"] * np.abs(found.coefficients).max()
    assert np.abs(model.readout_.coefficients - found.coefficients).max() <= bar


@pytest.mark.parametrize("normalized", [False, True])
def test_float32_matrices_keep_their_rounding_errors(normalized):
    """Matrices whose eigenvalues, but for a few, are rounding errors of float32."""
    y = np.arange(20) % 2
    for seed in range(3):
        phase = np.random.default_rng(seed).uniform(0, 6, (20, 1, 1))
        X = np.sin(np.arange(40) * (0.4 + 0.5 * y)[:, None, None] + phase)
        model = ResidualKernelClassifier(
            depth=1, filter_size=3, input_filter_size=1, head="gap", normalized=normalized,
            standardize=False, first_differences=False, dtype="float32",
        )  # fmt: skip
        assert np.isfinite(model.fit(X, y).decision_function(X)).all()


# -- classes of one case


def test_a_class_of_one_case(rng):
    X, y = waves(rng, 20, 2)
    y[0] = 7
    assert ResidualKernelClassifier(**QUICK).fit(X, y).best_params_["readout"] == "ridge"
    with pytest.raises(ValueError, match="readout='ridge'"):
        ResidualKernelClassifier(readout="svm", **QUICK).fit(X, y)


def test_classes_of_one_case_are_not_judged(rng):
    """Errors count at cases whose class has others; if these are too few, nothing is searched."""
    X, y = waves(rng, 18, 3)
    y[:4] = [10, 11, 12, 13]  # four cases alone in their class, fourteen in company
    model = ResidualKernelClassifier(**QUICK).fit(X, y)
    row = np.argmin(model.search_results_["error"])
    labels = np.unique(y, return_inverse=True)[1]
    Y = readouts.one_against_rest(labels, 7)
    K = model.kernel_(model.view_(X))
    penalty = model.search_results_["penalty"][row]
    errors = (readouts.RidgePath(K, Y).left_out(penalty) - Y)[4:]
    assert model.best_error_ == pytest.approx(np.mean(errors**2))

    few = np.array([0, 1, 2, 3, 4, 5, 6])
    one_each = [0, 1, 2, 3, 4, 5, 5]
    model = ResidualKernelClassifier(**QUICK).fit(X[few], one_each)
    assert len(model.search_results_["error"]) == 1
    chosen = {"depth": 2, "head": "gap", "kind": "ntk", "normalized": True, "penalty": 1e-2}
    assert chosen.items() <= model.best_params_.items()
    assert model.best_params_["input_filter_size"] == 5


def test_singletons_count_in_no_score(rng):
    """Cases alone in their class count in no score: left out, they cannot be right."""
    X, y = waves(rng, 30, 2)
    plain = ResidualKernelClassifier(**QUICK).fit(X[:24], y[:24])
    y[24:] = 10 + np.arange(6)
    X[24:] = rng.standard_normal((6, 1, 24))
    model = ResidualKernelClassifier(**QUICK).fit(X, y)
    assert plain.best_score_ == model.best_score_ == 1.0
    Y = readouts.one_against_rest(np.unique(y, return_inverse=True)[1], 8)
    table = rows(model)
    every = [
        readouts.RidgePath(gram_of(row, X), Y).residuals(10.0**-k)
        for row in table
        for k in range(-1, 7)
    ]
    folds = np.random.RandomState(0).permutation(30) % 10
    counted = np.arange(30) < 24
    out_of_fold = search.OutOfFoldDecisions(Y, folds, counted)
    out_of_fold.consider(np.stack(every))
    inverse_temperature, _ = readouts.calibrate(
        out_of_fold.decisions[:24], np.unique(y, return_inverse=True)[1][:24]
    )
    assert model.inverse_temperature_ == pytest.approx(inverse_temperature, rel=1e-3)

    alone = ResidualKernelClassifier(**QUICK).fit(X[:6], np.arange(6))
    assert np.isnan(alone.best_score_) and alone.inverse_temperature_ == 1.0
    assert (alone.predict_proba(X[:6]).argmax(axis=1) == alone.predict(X[:6])).all()


# -- refusals


def test_cv_of_one_fold_is_refused(rng):
    X, y = waves(rng, 10, 2)
    for readout in ("svm", "ridge", ("ridge", "svm")):
        with pytest.raises(ValueError, match="cv is 1, expected an integer of at least 2"):
            ResidualKernelClassifier(cv=1, readout=readout, **QUICK).fit(X, y)


def test_other_refusals(rng):
    X, y = waves(rng, 10, 2)
    with pytest.raises(ValueError, match="one class"):
        ResidualKernelClassifier(**QUICK).fit(X, np.zeros(10))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ResidualKernelClassifier(**QUICK).fit(X, y[:-1])
    with pytest.raises(ValueError, match="dim 3"):
        ResidualKernelRegressor(**QUICK).fit(X, np.zeros((10, 1, 1)))
