"""The calibration of decisions: drawn labels, weights, the rule of succession."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from scipy.special import softmax

from rescntk.learn.calibration import calibrate, margins, one_against_rest
from tests import tolerances


def drawn(rng, n, classes, true, shift=0.0):
    """Return decisions, their probabilities softmax(true · (decisions + shift)), and labels."""
    decisions = rng.standard_normal((n, 1 if classes == 2 else classes))
    chances = softmax(true * margins(decisions + shift), axis=1)
    return decisions, chances, (rng.uniform(size=(n, 1)) > chances.cumsum(axis=1)).sum(axis=1)


@pytest.mark.parametrize("classes", [2, 4])
def test_it_finds_the_inverse_temperature(classes, rng):
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


@pytest.mark.parametrize("classes", [2, 4])
def test_weights_move_the_borders(classes, rng):
    """Weights that make classes even: offsets undo the shift by which labels were drawn."""
    n, true = 20_000, 1.7
    shift = np.array([0.5]) if classes == 2 else np.array([0.6, 0.2, -0.2, -0.6])
    decisions, _, labels = drawn(rng, n, classes, true, shift)
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


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("n", [10, 40])
def test_the_ceiling_of_probabilities(classes, n):
    """Alike and right decisions get the rule of succession's probability (n + 1)/(n + 2)."""
    labels = np.arange(n) % classes
    decisions = one_against_rest(labels, classes)
    inverse_temperature, _ = calibrate(decisions, labels, np.ones(n))
    chances = softmax(inverse_temperature * margins(decisions), axis=1)
    # A minimum to √eps of its width.
    np.testing.assert_allclose(chances[np.arange(n), labels], (n + 1) / (n + 2), rtol=1e-4)
    np.testing.assert_allclose(chances.min(), 1 / (n + 2) / (classes - 1), rtol=1e-3)
