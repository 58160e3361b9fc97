"""Probabilities from decisions: their calibration, and how certain novel signals are."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from rescntk.learn import ResidualKernelClassifier
from rescntk.learn.ensemble.calibration import calibrate, columns_of_classes
from tests import tolerances
from tests.helpers import assert_within
from tests.learn.cases import FOUR_VIEWS, ONE_VIEW, waves


def drawn(classes, rng):
    """Return decisions about sixty signals, which are right more often than not, and labels."""
    labels = rng.integers(0, classes, 60)
    decisions = rng.standard_normal((60, 1 if classes == 2 else classes))
    decisions += (2.0 * labels[:, None] - 1) if classes == 2 else np.eye(classes)[labels]
    return decisions, labels


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("shift", [False, True])
def test_calibrations_are_those_of_a_general_solver(classes, shift, rng):
    (decisions, labels), weights = drawn(classes, rng), rng.uniform(0.1, 2.0, 60)
    found, offsets = calibrate(
        decisions, class_indices=labels, error_weights=weights, with_offsets=shift
    )
    targets = np.full((60, classes), 1 / (62 * (classes - 1)))
    targets[np.arange(60), labels] = 61 / 62

    def loss(parameters):
        logits = np.exp(parameters[0]) * columns_of_classes(decisions + shift * parameters[1:])
        return -(weights @ (targets * log_softmax(logits, axis=1)).sum(axis=1)) / weights.sum()

    start = np.zeros(1 + decisions.shape[1])
    best = minimize(
        loss, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 9999}
    )
    rounding = tolerances.added_up(60 * classes) * best.fun  # of a sum of positive terms
    assert loss(np.append(np.log(found), offsets)) <= best.fun + rounding
    assert abs(np.log(found) - best.x[0]) <= 100 * tolerances.MINIMUM


@pytest.mark.parametrize("classes", [2, 3])
def test_a_calibration_without_offsets_has_none(classes, rng):
    decisions, labels = drawn(classes, rng)
    cases = {"class_indices": labels, "error_weights": np.ones(60), "with_offsets": False}
    assert (calibrate(decisions, **cases).offsets == 0).all()


@pytest.mark.parametrize("unit", [1e-9, 1e9])
@pytest.mark.parametrize("classes", [2, 3])
def test_calibration_does_not_depend_on_the_unit_of_decisions(classes, unit, rng):
    decisions, labels = drawn(classes, rng)
    cases = {"class_indices": labels, "error_weights": np.ones(60), "with_offsets": True}
    expected, found = (calibrate(factor * decisions, **cases) for factor in (1.0, unit))
    bar = 100 * tolerances.MINIMUM
    assert_within(found.inverse_temperature * unit, expected.inverse_temperature, bar)
    assert_within(found.offsets / unit, expected.offsets, bar)


@pytest.mark.parametrize("shift", [False, True])
def test_decisions_that_are_wrong_leave_classes_equally_probable(shift, rng):
    """They are not turned into right ones by a factor below 0."""
    labels = np.arange(60) % 2
    decisions = (1 - 2.0 * labels[:, None]) * rng.uniform(0.5, 1.0, (60, 1))
    scale, offsets = calibrate(
        decisions, class_indices=labels, error_weights=np.ones(60), with_offsets=shift
    )
    next_to_nothing = 1e-3
    assert scale > 0 and abs(scale * (decisions + offsets)).max() <= next_to_nothing


def test_decisions_that_are_all_zero_are_calibrated():
    scale, offsets = calibrate(
        np.zeros((6, 3)),
        class_indices=np.arange(6) % 3,
        error_weights=np.ones(6),
        with_offsets=True,
    )
    assert scale > 0 and (offsets == 0).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_of_novel_signals_are_less_certain(classes, rng):
    """Decisions are divided by a quarter of the novelty above 4; others are as they were."""
    X, y = waves(rng, 40, classes)
    model = ResidualKernelClassifier(**FOUR_VIEWS, random_state=0).fit(X, y)
    Z = np.concatenate([X[:5], 3.0 * rng.standard_normal((5, 1, 24))])
    novelty, decisions = model.novelty(Z), model.decision_function(Z).reshape(10, -1)
    assert (novelty[:5] < 4).all() and (novelty[5:] > 4).all()
    columns = decisions if classes > 2 else np.hstack([-decisions, decisions])
    logits = model.inverse_temperature_ * columns / np.maximum(1, novelty / 4)[:, None]
    assert_within(model.predict_proba(Z), softmax(logits, axis=1), tolerances.ROUTES)


def test_probabilities_are_exponentials_of_their_logarithms(flat):
    X, y = flat
    model = ResidualKernelClassifier(**ONE_VIEW).fit(X, y)
    assert_within(np.exp(model.predict_log_proba(X)), model.predict_proba(X), tolerances.ROUTES)


def test_logarithms_of_probabilities_below_float64_are_finite(flat):
    X, y = flat
    model = ResidualKernelClassifier(**ONE_VIEW).fit(X, y)
    model.inverse_temperature_ *= 1e4
    logs = model.predict_log_proba(X)
    assert np.isfinite(logs).all() and (np.exp(logs) == 0).any()
