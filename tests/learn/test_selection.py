"""The choice between support vector machines and ridge regression, on matrices made by hand."""

from itertools import product

import numpy as np
import pytest

pytest.importorskip("sklearn")
from sklearn.svm import SVC

from rescntk.learn import readouts, search, selection


def finalists_of(matrices, Y, penalty=1e-2):
    """Return the result of a search that found these matrices, best first."""
    entries = []
    for K in matrices:
        candidate = search.Candidate({}, penalty, None)
        path = readouts.RidgePath(K, Y)
        entries.append(search.Finalist(candidate, None, None, None, None, K, path))
    return search.Found([], entries, np.zeros(Y.shape))


def pairs_in_turn(n, folds=4):
    """Return folds of neighbouring pairs of cases, which hold both classes."""
    names = np.arange(n) // 2 % folds
    return [(np.flatnonzero(names != f), np.flatnonzero(names == f)) for f in range(folds)]


def crowd(rng, n=48):
    """Two classes by their sign, and easy cases far out that drag ridge regression along."""
    labels = np.arange(n) % 2
    x = np.where(labels == 1, 1.0, -1.0) * rng.uniform(0.3, 1.0, n)
    x[1::6] *= 10.0
    return x, labels


def test_machines_win_where_ridge_is_dragged_along(rng):
    """On a linear kernel, alone and as the second finalist after noise."""
    x, labels = crowd(rng)
    Y, good = readouts.one_against_rest(labels, 2), np.outer(x, x) + 1.0
    noise = rng.standard_normal((48, 60))
    folds, costs = pairs_in_turn(48), (1e-3, 100.0, 1.0)
    for matrices, place in (((good,), 0), ((noise @ noise.T, good), 1)):
        found = finalists_of(matrices, Y)
        choice = selection.choose_machines(found, Y, labels, costs, folds, or_ridge=True)
        assert choice.finalist is found.finalists[place]
        assert choice.parameters["readout"] == "svm"
        C = choice.parameters["C"]
        machine = SVC(kernel="precomputed", C=C).fit(good / good.diagonal().mean(), labels)
        decisions = machine.decision_function(good / good.diagonal().mean())
        np.testing.assert_allclose(choice.readout(good)[:, 0], decisions, atol=1e-8)
    # Machines on noise do not beat ridge regression on a good kernel.
    features = rng.standard_normal((48, 5)) + labels[:, None]
    found = finalists_of((features @ features.T + 1.0, noise @ noise.T), Y)
    assert selection.choose_machines(found, Y, labels, costs, folds, or_ridge=True) is None
    assert selection.choose_machines(found, Y, labels, costs, folds, or_ridge=False) is not None


def test_machines_by_hand(rng):
    """Choice and out-of-fold decisions from scikit-learn's machines, fold by fold."""
    n = 48
    labels = rng.permutation(np.arange(n) % 2)
    features = rng.standard_normal((2, n, 5)) + 0.3 * labels[:, None]
    matrices, Y = [F @ F.T + 1.0 for F in features], readouts.one_against_rest(labels, 2)
    folds, costs = pairs_in_turn(n), (0.01, 0.1, 1.0, 10.0)
    found = finalists_of(matrices, Y)
    choice = selection.choose_machines(found, Y, labels, costs, folds, or_ridge=False)
    decided, losses = {}, {}
    for (place, K), C in product(enumerate(matrices), costs):
        K, decisions = K / K.diagonal().mean(), np.empty((n, 1))
        for rest, fold in folds:
            # The unit is the mean over the fitted cases.
            own = K[np.ix_(rest, rest)].diagonal().mean()
            machine = SVC(kernel="precomputed", C=C).fit(K[np.ix_(rest, rest)] / own, labels[rest])
            decisions[fold, 0] = machine.decision_function(K[np.ix_(fold, rest)] / own)
        decided[place, C], losses[place, C] = decisions, readouts.calibrate(decisions, labels)[1]
    place, C = min(losses, key=lambda key: losses[key].mean())
    assert choice.finalist is found.finalists[place]
    assert choice.parameters == {"readout": "svm", "C": C}
    picked = set()
    for rest, fold in folds:
        key = min(losses, key=lambda key: losses[key][rest].mean())
        picked.add(key)
        np.testing.assert_allclose(choice.decisions[fold], decided[key][fold], atol=1e-8)
    assert len(picked) > 1


def test_machines_must_be_better_by_a_standard_error(rng, monkeypatch):
    """Prescribed losses: 1 for ridge; less for machines, by 0.1 ± a standard deviation."""
    n = 16
    labels = np.arange(n) % 2
    Y, signs = readouts.one_against_rest(labels, 2), np.where(np.arange(n) // 2 % 2 == 0, 1.0, -1.0)
    found = finalists_of([np.eye(n) + 0.1 * np.outer(Y, Y)], Y)
    for deviation, wins in ((0.38, True), (0.42, False)):  # 0.1 = 0.4/√16

        def calibrate(decisions, labels, deviation=deviation):
            ridge = (decisions == 7.0).all()
            return 1.0, np.ones(n) if ridge else 0.9 - deviation * signs

        def held_out(K, Y, folds, fit):
            return np.full(Y.shape, 7.0 if fit.func is readouts.ridge else 3.0)

        monkeypatch.setattr(selection, "calibrate", calibrate)
        monkeypatch.setattr(selection, "held_out", held_out)
        choice = selection.choose_machines(
            found, Y, labels, (1.0,), pairs_in_turn(n), or_ridge=True
        )
        assert (choice is not None) == wins
