"""Readouts and their calibration against normal equations, scikit-learn and refits."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.svm import SVC

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


def test_support_vectors_are_sklearns(rng):
    K = rk.ResCNTK(2)(rng.standard_normal((20, 2, 8)))
    Y = np.where(rng.standard_normal((20, 2)) > 0, 1.0, -1.0)
    Y[:, 1] = 1.0  # one sign alone
    decisions = readouts.support_vectors(K, Y, 10.0)(K)
    machine = SVC(kernel="precomputed", C=10.0).fit(K / K.diagonal().mean(), Y[:, 0])
    expected = machine.decision_function(K / K.diagonal().mean())
    np.testing.assert_allclose(decisions[:, 0], expected, atol=1e-10)
    assert (decisions[:, 1] == 1.0).all()


def test_held_out_does_not_see_the_fold(rng):
    K, Y = np.eye(6), rng.standard_normal((6, 1))
    folds = [(np.array([2, 3, 4, 5]), np.array([0, 1])), (np.array([0, 1]), np.array([2, 3, 4, 5]))]
    decisions = readouts.held_out(K, Y, folds, lambda K, Y: readouts.ridge(K, Y, 1.0))
    np.testing.assert_allclose(decisions[:2, 0], Y[2:].mean())  # nothing in common: the mean
    np.testing.assert_allclose(decisions[2:, 0], Y[:2].mean())


@pytest.mark.parametrize("classes", [2, 4])
def test_calibration_finds_the_inverse_temperature(classes, rng):
    """Labels drawn from softmax(s · decisions): s is found within 5 standard errors."""
    n, true = 4000, 1.7
    decisions = rng.standard_normal((n, 1 if classes == 2 else classes))
    chances = readouts.probabilities(decisions, true)
    labels = (rng.uniform(size=(n, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    inverse_temperature, losses = readouts.calibrate(decisions, labels)
    columns = readouts.margins(decisions)
    mean = (chances * columns).sum(axis=1, keepdims=True)
    information = (chances * (columns - mean) ** 2).sum()
    # Smoothed labels pull by 2/n, which is less than a standard error.
    assert abs(inverse_temperature - true) <= tolerances.STANDARD_ERRORS / np.sqrt(information)
    own = -np.log(chances[np.arange(n), labels])
    # Smoothing moves 1/(n + 2) of the weight to other classes; the inverse temperature is optimal.
    assert losses.mean() == pytest.approx(own.mean(), abs=0.01)


def test_calibration_stays_finite_when_all_is_right():
    decisions, labels = np.array([[-1.0], [1.0], [2.0]]), np.array([0, 1, 1])
    inverse_temperature, _ = readouts.calibrate(decisions, labels)
    assert 0 < inverse_temperature < 100
    assert readouts.probabilities(decisions, inverse_temperature).min() > 1e-3


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("n", [10, 40])
def test_the_ceiling_of_probabilities(classes, n):
    """Alike and right decisions get the rule of succession's probability (n + 1)/(n + 2)."""
    labels = np.arange(n) % classes
    decisions = readouts.one_against_rest(labels, classes)
    inverse_temperature, losses = readouts.calibrate(decisions, labels)
    chances = readouts.probabilities(decisions, inverse_temperature)
    # A minimum to √eps of its width.
    np.testing.assert_allclose(chances[np.arange(n), labels], (n + 1) / (n + 2), rtol=1e-4)
    smallest = 1 / (n + 2) / (classes - 1)
    np.testing.assert_allclose(chances.min(), smallest, rtol=1e-3)
    entropy = -((n + 1) / (n + 2) * np.log((n + 1) / (n + 2)) + np.log(smallest) / (n + 2))
    np.testing.assert_allclose(losses, entropy, rtol=1e-6)
