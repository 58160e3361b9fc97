"""Readouts and their calibration against normal equations, scikit-learn and refits."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
import rescntk as rk
from rescntk.learn import readouts
from tests import tolerances
from tests.learn.cases import bordered, refitted


@pytest.mark.parametrize("penalty", [1e-6, 1e-2, 10.0])
def test_ridge_and_leaving_one_out(penalty, rng):
    K = rk.ResCNTK(2, normalized=True)(rng.standard_normal((15, 2, 8)))
    Y = rng.standard_normal((15, 3))
    path = readouts.RidgePath(K, Y)
    coefficients, intercepts = bordered(K, Y, penalty)
    fitted = path.fit(penalty)
    np.testing.assert_allclose(fitted.coefficients, coefficients, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(fitted.intercepts, intercepts, rtol=1e-6, atol=1e-9)
    left_out = path.left_out(penalty)
    for i in range(15):
        rest = np.delete(np.arange(15), i)
        # All diagonals are 1, so that the unit of the penalty is the same without one case.
        coefficients, intercepts = bordered(K[np.ix_(rest, rest)], Y[rest], penalty)
        np.testing.assert_allclose(
            left_out[i], K[i, rest] @ coefficients + intercepts, rtol=1e-6, atol=1e-9
        )
    np.testing.assert_allclose(path.residuals([penalty])[0], Y - left_out)


def test_left_out_keeps_the_unit_of_all(rng):
    """Exactly the refit with the penalty in all signals' unit, whatever the diagonal is."""
    X = rng.standard_normal((14, 1, 10))
    X[3] *= 30
    K, Y = rk.ResCNTK(2, head="trace")(X), rng.standard_normal((14, 2))
    for penalty in (1e-3, 0.1, 1.0):
        found = readouts.RidgePath(K, Y).left_out(penalty)
        np.testing.assert_allclose(found, refitted(K, Y, penalty), rtol=1e-7, atol=1e-9)


def test_float32_clips_what_rounding_made_negative(rng):
    """Signals that nearly coincide, in float32: eigenvalues below 0 do no harm."""
    X = rng.standard_normal((6, 1, 8)).repeat(3, axis=0)
    X = X + 3e-8 * rng.standard_normal(X.shape)
    K = rk.ResCNTK(2, head="trace")(X, dtype="float32")
    assert np.linalg.eigvalsh(K.astype(float)).min() < -1e-9
    Y = rng.standard_normal((18, 1))
    path = readouts.RidgePath(K, Y)
    assert path.spectrum.eigenvalues.min() == 0.0
    penalty = 1e-6
    inverse = np.linalg.norm(path.fit(penalty).coefficients * path.unit)
    assert inverse <= 2 * np.linalg.norm(Y) / penalty


@pytest.mark.parametrize("classes", [2, 4])
def test_calibration_finds_the_inverse_temperature(classes, rng):
    """Labels drawn from softmax(s · decisions): s is found within 5 standard errors."""
    n, true = 4000, 1.7
    decisions = rng.standard_normal((n, 1 if classes == 2 else classes))
    chances = readouts.probabilities(decisions, true)
    labels = (rng.uniform(size=(n, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    inverse_temperature, offsets = readouts.calibrate(decisions, labels, np.ones(len(labels)))
    assert (offsets == 0).all()
    columns = readouts.margins(decisions)
    mean = (chances * columns).sum(axis=1, keepdims=True)
    information = (chances * (columns - mean) ** 2).sum()
    # Smoothed labels pull by 2/n, which is less than a standard error.
    assert abs(inverse_temperature - true) <= tolerances.STANDARD_ERRORS / np.sqrt(information)


@pytest.mark.parametrize("classes", [2, 4])
def test_weights_move_the_borders(classes, rng):
    """Weights that make classes even: offsets undo the shift by which labels were drawn."""
    n, true = 20_000, 1.7
    decisions = rng.standard_normal((n, 1 if classes == 2 else classes))
    shift = np.array([0.5]) if classes == 2 else np.array([0.6, 0.2, -0.2, -0.6])
    chances = readouts.probabilities(decisions + shift, true)
    labels = (rng.uniform(size=(n, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    found = readouts.calibrate(decisions, labels, np.ones(n), shift=True)
    np.testing.assert_allclose(found.offsets, shift, atol=0.1)
    assert found.inverse_temperature == pytest.approx(true, rel=0.1)
    weights = 1.0 / np.bincount(labels)[labels]
    even = readouts.calibrate(decisions, labels, weights, shift=True)
    predicted = readouts.margins(decisions + even.offsets).argmax(axis=1)
    recalls = [np.mean(predicted[labels == c] == c) for c in range(classes)]
    plain = readouts.margins(decisions + shift).argmax(axis=1)
    before = [np.mean(plain[labels == c] == c) for c in range(classes)]
    assert np.ptp(recalls) < 0.5 * np.ptp(before)
    ignored = np.where(labels == 0, 1.0, 0.0)  # only one class counts
    alone = readouts.calibrate(decisions, labels, ignored, shift=True)
    assert (readouts.margins(decisions + alone.offsets).argmax(axis=1) == 0).mean() > 0.9


def test_calibration_stays_finite_when_all_is_right():
    decisions, labels = np.array([[-1.0], [1.0], [2.0]]), np.array([0, 1, 1])
    inverse_temperature = readouts.calibrate(
        decisions, labels, np.ones(len(labels))
    ).inverse_temperature
    assert 0 < inverse_temperature < 100
    assert readouts.probabilities(decisions, inverse_temperature).min() > 1e-3


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("n", [10, 40])
def test_the_ceiling_of_probabilities(classes, n):
    """Alike and right decisions get the rule of succession's probability (n + 1)/(n + 2)."""
    labels = np.arange(n) % classes
    decisions = readouts.one_against_rest(labels, classes)
    inverse_temperature = readouts.calibrate(
        decisions, labels, np.ones(len(labels))
    ).inverse_temperature
    chances = readouts.probabilities(decisions, inverse_temperature)
    # A minimum to √eps of its width.
    np.testing.assert_allclose(chances[np.arange(n), labels], (n + 1) / (n + 2), rtol=1e-4)
    smallest = 1 / (n + 2) / (classes - 1)
    np.testing.assert_allclose(chances.min(), smallest, rtol=1e-3)
