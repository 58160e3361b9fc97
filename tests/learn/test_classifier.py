"""The classifier: predictions, weights of classes, refusals, calibrated probabilities."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.ensemble import BaggingClassifier
from sklearn.inspection import permutation_importance

from rescntk.learn import ResidualKernelClassifier, base, fitted_pass, report
from rescntk.learn.classifier import calibrate, margins, one_against_rest
from tests import tolerances
from tests.learn.cases import ONE, QUICK, first_places, targets_of, waves


@pytest.mark.parametrize("classes", [2, 3])
def test_classifier(classes, rng):
    X, y = waves(rng, 60, classes, channels=2)
    names = np.array(["a", "b", "c"])[y]
    model = ResidualKernelClassifier(**QUICK).fit(X[:30], names[:30])
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


def test_defaults_where_only_the_place_or_only_the_shape_tells(rng):
    """Gap alone cannot tell where, trace alone cannot forgive shifts: the average can do both."""
    X, shapes = waves(rng, 60, 2, length=32)
    where = np.arange(60) % 2
    bumps = np.exp(-0.5 * (np.arange(32) - np.where(where == 1, 10, 22)[:, None, None]) ** 2)
    bumps = bumps + 0.1 * rng.standard_normal(bumps.shape)
    for signals, labels in ((X, shapes), (bumps, where)):
        model = ResidualKernelClassifier(effort="fast").fit(signals[:30], labels[:30])
        assert model.score(signals[30:], labels[30:]) == 1.0


def test_same_result_every_time_and_inputs_untouched(rng):
    X, y = waves(rng, 20, 2)
    before = X.copy()
    X.flags.writeable = False
    one, other = (ResidualKernelClassifier(**QUICK).fit(X, y) for _ in range(2))
    assert (one.predict_proba(X) == other.predict_proba(X)).all()
    assert (before == X).all()
    copy = pickle.loads(pickle.dumps(one))
    assert (copy.predict_proba(X) == one.predict_proba(X)).all()
    third = ResidualKernelClassifier(random_state=1, **QUICK).fit(X, y)
    assert third.inverse_temperature_ != one.inverse_temperature_  # other folds


def test_float32_needs_a_larger_penalty(rng):
    """Signals that nearly coincide: float32 decisions are close to float64 decisions."""
    X, y = waves(rng, 40, 2)
    X = X + 1e-7 * rng.standard_normal(X.shape)
    X = np.concatenate([X, X])
    decisions = {}
    for dtype in ("float32", "float64"):
        model = ResidualKernelClassifier(**ONE | {"dtype": dtype}).fit(X, np.concatenate([y, y]))
        decisions[dtype] = model.decision_function(waves(rng, 20, 2)[0] * 0 + X[:20])
        assert model.passes_["penalty"][0] == base.least_penalty(np.ones(40), dtype)  # each twice
    np.testing.assert_allclose(decisions["float32"], decisions["float64"], atol=1e-2)


# -- weights of classes, classes of one case


def rare_class(rng, n, rare):
    """Return noisy sines of two close frequencies, the second one rare."""
    y = np.arange(n) < rare
    phase = rng.uniform(0, 6, (n, 1, 1))
    X = np.sin(np.arange(40) * np.where(y, 0.56, 0.5)[:, None, None] + phase)
    return X + rng.standard_normal(X.shape), np.where(y, "rare", "common")


def test_class_weights_find_a_rare_class(rng):
    X, y = rare_class(rng, 120, 8)
    Z, truth = rare_class(rng, 100, 50)
    options = ONE | {"standardize": True}
    with pytest.warns(UserWarning, match=r"rare classes .*: rare; class_weight='balanced'") as seen:
        plain = ResidualKernelClassifier(**options).fit(X, y)
    assert seen[0].filename == __file__
    assert plain.class_scores_[1] < 0.1 < plain.class_scores_[0]
    assert plain.balanced_score_ == pytest.approx(plain.class_scores_.mean())
    with warnings.catch_warnings(action="error"):
        model = ResidualKernelClassifier(class_weight="balanced", **options).fit(X, y)
    same = ResidualKernelClassifier(class_weight={"rare": 15.0, "common": 120 / 112}, **options)
    np.testing.assert_allclose(same.fit(X, y).offsets_, model.offsets_, rtol=0.1)
    assert (plain.offsets_ == 0).all() and model.offsets_[0] > 0.3
    predicted, rare = model.predict(Z), truth == "rare"
    assert np.mean(plain.predict(Z)[rare] == "rare") < 0.1
    assert np.mean(predicted[rare] == "rare") > 0.4
    assert np.mean(predicted[~rare] == "common") > 0.4
    assert (model.classes_[model.predict_proba(Z).argmax(axis=1)] == predicted).all()
    pytest.importorskip("jinja2")
    advice = "Rare classes: rare. A fit with class_weight="
    assert [advice in report(fitted, Z, truth) for fitted in (plain, model)] == [True, False]


@pytest.mark.parametrize(("n_common", "warned"), [(77, True), (75, False)])
def test_weights_are_suggested_for_classes_below_five_percent(n_common, warned):
    """Four signals are 4.9 % of 81, and 5.1 % of 79, though each of them is found."""
    y = np.repeat(["common", "rare"], [n_common, 4])
    X = np.sin(np.arange(8) * np.where(y == "rare", 1.5, 0.3)[:, None, None])
    X = X + 0.1 * np.random.default_rng(0).standard_normal(X.shape)
    with warnings.catch_warnings(record=True, action="always") as seen:
        model = ResidualKernelClassifier(**ONE).fit(X, y)
    said = "".join(str(warning.message) for warning in seen)
    assert ("less than 5% of the signals, or" in said and ": rare; class_weight=" in said) is warned
    assert model.class_scores_[1] > 0.5


def test_classes_of_one_case_do_not_count(rng):
    """Left out, a case alone in its class cannot be right: it counts in no error and no score."""
    X, y = waves(rng, 24, 2)
    y[:4] = [10, 11, 12, 13]
    model = ResidualKernelClassifier(**ONE).fit(X, y)
    labels = np.unique(y, return_inverse=True)[1]
    (fitted,), Y = model._average.passes, targets_of(labels)[first_places(model)]
    spectrum = fitted_pass.spectrum_of(fitted.source(fitted.signals))
    residuals = spectrum.leave_one_out(Y, model.passes_["penalty"][0], intercept=True)
    squares = residuals[first_places(model) >= 4] ** 2
    assert model.passes_["error"][0] == pytest.approx(np.mean(squares))
    assert np.isnan(model.class_scores_[2:]).all() and model.best_score_ > 0.9

    many = np.repeat(np.arange(6), 2)  # copies do not differ
    with pytest.warns(
        UserWarning, match="none of the 6 classes has two signals that differ.*Regr"
    ) as seen:
        alone = ResidualKernelClassifier(**QUICK).fit(X[many], many)
    assert [warning.filename for warning in seen] == [__file__]
    assert np.isnan([alone.best_score_, alone.balanced_score_, alone.best_score_error_]).all()
    assert alone.inverse_temperature_ == 1.0
    assert len(set(alone.passes_["weight"])) == 1  # no evidence


def test_refusals(rng):
    X, y = waves(rng, 10, 2)
    with pytest.raises(ValueError, match="one class"):
        ResidualKernelClassifier(**ONE).fit(X, np.zeros(10))
    with pytest.raises(ValueError, match="y has 9 values, expected 10: one for each signal"):
        ResidualKernelClassifier(**ONE).fit(X, y[:-1])
    for labels, key, weight in ((y.astype(str), 1, 0), (y, "1", 5), (y, 2, 5)):
        with pytest.raises(ValueError, match=rf"class_weight has keys \[{key!r}\], expected"):
            ResidualKernelClassifier(class_weight={key: weight}, **ONE).fit(X, labels)
    weights = {"1": 9}, {0: 1, 1: 9, 2: 5}
    given, same = (ResidualKernelClassifier(class_weight=w, **ONE) for w in weights)
    assert (given.fit(X, y.astype(str)).offsets_ == same.fit(X, y).offsets_).all()


# -- calibration: drawn labels, weights, the rule of succession


def drawn(rng, n, classes, true, shift=0.0):
    """Return decisions, their probabilities softmax(true · (decisions + shift)), and labels."""
    decisions = rng.standard_normal((n, 1 if classes == 2 else classes))
    chances = softmax(true * margins(decisions + shift), axis=1)
    return decisions, chances, (rng.uniform(size=(n, 1)) > chances.cumsum(axis=1)).sum(axis=1)


@pytest.mark.parametrize("classes", [2, 4])
def test_calibration_finds_the_inverse_temperature(classes, rng):
    """Labels drawn from softmax(s · decisions): s is found within 5 standard errors."""
    n, true = 4000, 1.7
    decisions, chances, labels = drawn(rng, n, classes, true)
    inverse_temperature, offsets = calibrate(decisions, labels, np.ones(n))
    assert (offsets == 0).all()
    columns = margins(decisions)
    mean = (chances * columns).sum(axis=1, keepdims=True)
    information = (chances * (columns - mean) ** 2).sum()
    # Smoothed labels pull by 2/n, which is less than a standard error.
    assert abs(inverse_temperature - true) <= tolerances.STANDARD_ERRORS / np.sqrt(information)


@pytest.mark.parametrize("shift", [[0.5], [0.6, 0.2, -0.2, -0.6]])
def test_weights_move_the_borders(shift, rng):
    """Weights that make classes even: offsets undo the shift by which labels were drawn."""
    n, classes, true = 20_000, max(2, len(shift)), 1.7
    decisions, _, labels = drawn(rng, n, classes, true, np.array(shift))
    inverse_temperature, offsets = calibrate(decisions, labels, np.ones(n), shift=True)
    np.testing.assert_allclose(offsets, shift, atol=0.1)
    assert inverse_temperature == pytest.approx(true, rel=0.1)
    _, even = calibrate(decisions, labels, 1.0 / np.bincount(labels)[labels], shift=True)

    def spread_of_recalls(offsets):
        predicted = margins(decisions + offsets).argmax(axis=1)
        return np.ptp([np.mean(predicted[labels == c] == c) for c in range(classes)])

    assert spread_of_recalls(even) < 0.5 * spread_of_recalls(shift)
    _, alone = calibrate(decisions, labels, np.where(labels == 0, 1.0, 0.0), shift=True)
    assert (margins(decisions + alone).argmax(axis=1) == 0).mean() > 0.9


@pytest.mark.parametrize(("n", "classes"), [(10, 2), (40, 5)])
def test_the_ceiling_of_probabilities(n, classes):
    """Alike and right decisions get the rule of succession's probability (n + 1)/(n + 2)."""
    labels = np.arange(n) % classes
    decisions = one_against_rest(labels, classes)
    inverse_temperature, _ = calibrate(decisions, labels, np.ones(n))
    chances = softmax(inverse_temperature * margins(decisions), axis=1)
    # A minimum to √eps of its width.
    np.testing.assert_allclose(chances[np.arange(n), labels], (n + 1) / (n + 2), rtol=1e-4)
    np.testing.assert_allclose(chances.min(), 1 / (n + 2) / (classes - 1), rtol=1e-3)


def test_flat_signals_of_several_channels(rng):
    """Bagging and permutation importance give flat arrays."""
    X, y = waves(rng, 24, 2, channels=3)
    flat, model = X.reshape(24, -1), ResidualKernelClassifier(n_channels=3, **ONE)
    expected = model.fit(X, y).decision_function(X)
    assert (model.fit(flat, y).decision_function(flat) == expected).all()
    assert model.contributions(flat[:2]).shape == (2, 1, 24)
    bag = BaggingClassifier(model, n_estimators=2, random_state=0).fit(flat, y)
    assert bag.score(flat, y) > 0.9
    importance = permutation_importance(model.fit(flat, y), flat[:6], y[:6], n_repeats=1)
    assert importance.importances_mean.shape == (72,)
    with pytest.raises(ValueError, match="expected a multiple of n_channels = 3"):
        model.fit(flat[:, 1:], y)
