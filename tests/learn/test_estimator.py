"""The ensemble against refits, general solvers and plain formulas."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.base import clone
from threadpoolctl import threadpool_info, threadpool_limits

import rescntk as rk
from rescntk.learn import (
    KernelMatrix,
    LandmarkFeatures,
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    View,
    estimator,
)
from rescntk.learn.calibration import calibrate
from rescntk.learn.levels import TrainingLevels
from rescntk.learn.view_weights import weigh, weights_at
from tests import tolerances
from tests.helpers import rarely
from tests.learn.cases import FOUR, ONE, OPTIONS, waves

CHANNEL = View(standardize="channel", filter_size=3)
NET = rk.Network(2, 3)


def mean_kernel(X, Z, view=CHANNEL):
    """Return the mean of both normalized kernels of seen signals."""
    kernels = (rk.Kernel(NET, kind, "gap", normalized=True) for kind in ("gpk", "ntk"))
    fitted = View(**view.get_params()).fit(X)
    return np.mean([kernel(fitted.transform(Z), fitted.transform(X)) for kernel in kernels], axis=0)


def bordered(K, Y, penalty):
    """Return coefficients and intercepts from the normal equations; penalties may differ."""
    n = len(K)
    system = np.ones((n + 1, n + 1))
    system[:n, :n], system[n, n] = K + np.diag(np.broadcast_to(penalty, n)), 0.0
    solution = np.linalg.solve(system, np.vstack([Y, 0.0 * Y[:1]]))
    return solution[:-1], solution[-1]


def refits(K, Y, penalties, members):
    """Return errors of cases, each predicted from the cases of other groups."""
    errors = np.empty(Y.shape)
    for i in range(len(Y)):
        rest = np.flatnonzero(members != members[i])
        part, c = bordered(K[np.ix_(rest, rest)], Y[rest], penalties[rest])
        errors[i] = Y[i] - K[i, rest] @ part - c
    return errors


PENALTY = 0.01


@pytest.fixture
def one_view(rng):
    """A classifier of three classes with one view; its signals, labels, targets, and new signals.

    Kernels of the signals, and of the new ones with them, come from `mean_kernel`.
    """
    X, y = waves(rng, 18, 3, channels=2)
    Z = rng.standard_normal((4, 2, 24))
    model = ResidualKernelClassifier(penalty=PENALTY, **ONE).fit(X, y)
    return SimpleNamespace(
        model=model, X=X, y=y, Z=Z, Y=2.0 * np.eye(3)[y] - 1.0, K=mean_kernel(X, X),
        k=mean_kernel(X, Z),
    )  # fmt: skip


def test_decisions_of_one_view_are_ridge_regression(one_view):
    beta, b = bordered(one_view.K, one_view.Y, PENALTY)
    found = one_view.model.decision_function(one_view.Z)
    np.testing.assert_allclose(found, one_view.k @ beta + b, atol=1e-9)


def test_errors_of_one_view_are_those_of_refits(one_view):
    errors = refits(one_view.K, one_view.Y, np.full(18, PENALTY), np.arange(18))
    assert one_view.model.views_["error"][0] == pytest.approx(np.mean(errors**2))
    right = (one_view.Y - errors).argmax(axis=1) == one_view.y
    assert one_view.model.left_out_score_ == np.mean(right)


def test_novelty_of_one_view_is_a_variance_or_a_size(one_view):
    G, k = np.linalg.inv(one_view.K + PENALTY * np.eye(18)), one_view.k
    usual = np.mean(1 / G.diagonal())
    novelty = (1 - np.einsum("ij,jk,ik->i", k, G, k) + PENALTY) / usual
    sizes, of_new = (np.log2(np.abs(S).mean(axis=2)) for S in (one_view.X, one_view.Z))
    spread = sizes.std(axis=0) + 0.1
    of_sizes = np.mean(((of_new - sizes.mean(axis=0)) / spread) ** 2, axis=1) / 4
    found = one_view.model.novelty(one_view.Z)
    np.testing.assert_allclose(found, np.maximum(novelty, of_sizes), rtol=1e-6)


@pytest.mark.parametrize("groups", [None, np.arange(30) // 3])
def test_sets_and_intervals_reach_as_far_as_refits(groups, rng):
    """The rank ⌈coverage · (n + 1)⌉ of n signals left out, or that share of groups."""
    X, y = waves(rng, 30, 3)
    X, Z = X + rng.standard_normal(X.shape), X + rng.standard_normal(X.shape)
    penalty, members = 0.1, np.arange(30) if groups is None else groups
    n, K = members.max() + 1, mean_kernel(X, X)
    model = ResidualKernelClassifier(penalty=penalty, **ONE).fit(X, y, groups=groups)
    Y = 2.0 * np.eye(3)[y] - 1.0
    errors = refits(K, Y, np.full(30, penalty), members)
    left_out = softmax(model.inverse_temperature_ * (Y - errors), axis=1)[np.arange(30), y]
    targets = y + rng.standard_normal(30)
    regressor = ResidualKernelRegressor(penalty=penalty, **ONE).fit(X, targets, groups=groups)
    of_targets = refits(K, targets[:, None], np.full(30, penalty), members)[:, 0]
    beta, b = bordered(K, targets[:, None], penalty)
    G, variances = np.linalg.inv(K + penalty * np.eye(30)), np.empty(30)
    for part in (members == member for member in range(n)):
        variances[part] = np.linalg.inv(G[np.ix_(part, part)]).diagonal()
    ratios = np.abs(of_targets) / np.sqrt(variances * np.mean(beta[:, 0] * (targets - b)))
    chances, deviation = model.predict_proba(Z), regressor.predict(Z, return_std=True)[1]
    for coverage in (0.5, 0.8, 0.9):
        rank = int(np.ceil(30 * coverage * (n + 1) / n - 1e-9))
        least = np.minimum(np.sort(left_out)[-rank], chances.max(axis=1, keepdims=True))
        found = model.predict_set(Z, coverage)
        assert found.dtype == bool and (found == (chances >= least)).all()
        low, high = regressor.predict_interval(Z, coverage)
        np.testing.assert_allclose((high - low) / 2 / deviation, np.sort(ratios)[rank - 1])
    assert (model.predict_set(Z) == model.predict_set(Z, 0.9)).all()
    for usual, end in zip(regressor.predict_interval(Z), (low, high), strict=True):
        assert (usual == end).all()  # of the last coverage, 0.9
    with pytest.warns(UserWarning, match=f"and {n} training signals or groups tell"):
        model.predict_set(Z, 0.99)


@pytest.mark.parametrize("groups", [None, np.arange(20) // 3])
def test_landmarks_are_features(rng, groups, fitted_views):
    """K(X, S) K(S, S)⁻¹ K(S, X) in the place of K, also for errors of groups left out."""
    X, y = waves(rng, 20, 2)
    Z, penalty, weights = rng.standard_normal((3, 1, 24)), 0.02, rng.uniform(0.5, 2.0, 20)
    options = {"penalty": penalty, "landmarks": 7, "random_state": 3, **ONE}
    model = ResidualKernelRegressor(**options).fit(X, y * 1.0, weights, groups)
    (fitted,) = fitted_views
    net = {"kinds": ("gpk", "ntk"), "normalized": True}

    def kernel(A, B):
        return np.mean(rk.gram(NET, A, B, **net), axis=0)

    seen, S = fitted.view.see(X), fitted.signals
    cross = kernel(seen, S)
    K = cross @ np.linalg.solve(kernel(S, S), cross.T)
    w = weights / weights.mean()
    mean = np.average(y, weights=w)
    scale = np.sqrt(np.average((y - mean) ** 2, weights=w))
    Y = ((y - mean) / scale)[:, None]
    beta, b = bordered(K, Y, penalty / w)
    k = kernel(fitted.view.see(Z), S) @ np.linalg.solve(kernel(S, S), cross.T)
    np.testing.assert_allclose(model.predict(Z), (k @ beta + b)[:, 0] * scale + mean, atol=1e-6)
    errors = refits(K, Y, penalty / w, np.arange(20) if groups is None else groups)[:, 0]
    assert model.views_["error"][0] == pytest.approx(np.average(errors**2, weights=w), rel=1e-6)
    if groups is None:  # the variance of the features, and the rest of the kernel at cases left out
        G = np.linalg.inv(K + np.diag(penalty / w))
        usual = np.average(1 / G.diagonal() + 1 - K.diagonal(), weights=w)
        novelty = (1 - np.einsum("ij,jk,ik->i", k, G, k) + penalty) / usual
        found = fitted.decide(Z, OPTIONS)[1]
        np.testing.assert_allclose(found[:, 0], novelty, rtol=1e-6)


def test_weights_of_views(rng):
    """The minimum of the squared error of the average, near weights ∝ e⁻⁴, by a general solver."""
    residuals = rng.standard_normal((5, 30, 2)) * np.array([1.0, 1.1, 1.3, 2.0, 9.0])[:, None, None]
    residuals[1] = 0.7 * residuals[0] + 0.8 * residuals[1]
    cases = rng.uniform(0.2, 2.0, 30)
    G = np.einsum("ano,bno,n->ab", residuals, residuals, cases / cases.sum()) / 2
    least, near = G.diagonal().min(), G.diagonal() ** -4.0
    near = near / near.sum()
    solution = minimize(
        lambda w: w @ G @ w / least + ((w - near) ** 2).sum(), near, method="SLSQP",
        bounds=[(0, 1)] * 5, constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 1000},
    )  # fmt: skip
    expected = np.where(solution.x < 0.02, 0.0, solution.x)
    np.testing.assert_allclose(
        weigh(residuals, cases), expected / expected.sum(), atol=tolerances.MINIMUM
    )
    np.testing.assert_allclose(weigh(np.zeros((3, 4, 1)), np.ones(4)), 1 / 3)
    novelties = np.array([[0.5, 2.0], [1.0, 1.0]])
    novelties, halves = novelties[:, :, None], np.full((2, 1), 0.5)  # one weight for all outputs
    at = weights_at(halves, novelties, np.array([0.3, 1.0]), [False, True])
    np.testing.assert_allclose(at[:, :, 0], [[1 / 2, 1 / 9], [1 / 2, 8 / 9]])  # by 1/2³
    at = weights_at(halves, novelties[:, :1], np.array([2.0]), [False, True])
    np.testing.assert_allclose(at[:, 0, 0], np.array([256, 1]) / 257)


def test_levels_that_drift(rng, fitted_views):
    """Views that see levels step back where levels are farther than the training signals'."""
    X, y = waves(rng, 40, 2, channels=3)
    views = [View(standardize="channel"), View()]
    model = ResidualKernelClassifier(views, random_state=0).fit(X, y)
    Z = X + np.array([3.0, -3.0, 3.0])[:, None]
    assert [fitted.view.sees_levels for fitted in fitted_views] == [True, False]
    assert np.mean(TrainingLevels(X, np.ones(40)).distances(X)[0] > 1) <= 0.1
    options, weights = OPTIONS | {"dtype": "float32"}, []
    for S in (waves(rng, 40, 2, channels=3)[0], Z):
        seeing, blind = (fitted.decide(S, options)[0][:, 0] for fitted in fitted_views)
        weights.append((model.decision_function(S) - blind) / (seeing - blind))
    assert np.median(weights[0]) > 0.1 and weights[1].max() < 1e-3
    assert model.score(Z, y) > 0.9


@pytest.mark.filterwarnings("ignore:left_out_score_ is")  # of one of the views alone
def test_the_average_and_its_table(rng, fitted_views):
    X, y = waves(rng, 24, 2)
    model = ResidualKernelClassifier(**FOUR).fit(X, y)
    table = model.views_
    assert list(table) == ["view", "error", "weight", "note"] and len(table["view"]) == 4
    assert table["weight"].sum() == pytest.approx(1) and (table["note"] == "").all()
    singles = [ResidualKernelClassifier([v], dtype="float64").fit(X, y) for v in FOUR["views"]]
    errors = [single.views_["error"][0] for single in singles]
    np.testing.assert_allclose(table["error"], errors, rtol=1e-9)
    Z = X[:5] + 0.3
    kept = np.flatnonzero(table["weight"])
    decisions = np.array([singles[k].decision_function(Z) for k in kept])
    views = [fitted_views[len(FOUR["views"]) :][k] for k in kept]  # of the models of one view
    novelties = np.array([v.decide(Z, OPTIONS)[1] for v in views])
    distances = TrainingLevels(X, np.ones(24)).distances(Z)[0]
    of_views = [v.view.sees_levels for v in views]
    weights = weights_at(table["weight"][kept, None], novelties, distances, of_views)
    found = (weights[:, :, 0] * decisions).sum(axis=0)
    np.testing.assert_allclose(model.decision_function(Z), found, atol=1e-9)


def test_views_that_signals_cannot_have_are_left_out(rng):
    X, y = waves(rng, 20, 2, length=80)
    ragged = [x[:, : 80 - k % 5] for k, x in enumerate(X)]
    notes = ResidualKernelClassifier().fit(ragged, y).views_["note"]
    assert [bool(note) for note in notes] == [v in (1, 2, 7, 8, 10) for v in range(16)]
    assert notes[7].startswith("signals of different lengths have the head 'gap'")
    notes = ResidualKernelClassifier().fit(X[:, :, :24], y).views_["note"]  # shorter than a block
    assert notes[6] == "sees the same as view 5"
    model = ResidualKernelClassifier().fit(X[:, :, 5:6] + y[:, None, None], y)
    assert model.views_["weight"][2:4].sum() > 0 and "one time point" in model.views_["note"][7]
    with pytest.raises(ValueError, match="views has none for these signals: one time point"):
        ResidualKernelClassifier([View()]).fit(X[:, :, :1], y)


@pytest.mark.parametrize("kind", [ResidualKernelClassifier, ResidualKernelRegressor])
@pytest.mark.parametrize("lists", [False, True])
def test_order_copies_and_weights_do_not_matter(kind, lists, rng):
    X, y = waves(rng, 24, 2, length=16)
    X, more = np.round(10 * X), np.array([0, 0, 3, 7])
    signals = [x[:, : 16 - k % 3] for k, x in enumerate(X)] if lists else X
    settings = ONE if lists else FOUR
    Z = X[:6] + 1

    def fitted(cases, weights=None, form=np.asarray):
        S = [form(signals[k]) for k in cases] if lists else form(signals[cases])
        model = kind(**settings, random_state=0).fit(S, 1.0 * y[cases], weights)
        return np.stack([model.predict(Z), model.novelty(Z), np.full(6, model.left_out_score_)])

    every = np.arange(24)
    expected = fitted(every)
    assert (fitted(every[::-1]) == expected).all()
    assert (fitted(every, form=lambda S: S.astype(np.int64)) == expected).all()
    assert (fitted(every, form=lambda S: np.asfortranarray(S, np.float32)) == expected).all()
    repeated = fitted(np.append(every, more))
    weights = np.ones(24) + np.bincount(more, minlength=24)
    np.testing.assert_allclose(fitted(every, weights), repeated, rtol=1e-8, atol=1e-8)
    zero = np.append(np.ones(24), np.zeros(4))
    np.testing.assert_allclose(fitted(np.append(every, more), zero), expected, rtol=1e-8, atol=1e-8)


FIRST = np.array([*range(20), 3, 3, 8, 19, 5])
"""Signals that are given: the last five are copies."""


@pytest.mark.filterwarnings("ignore:left_out_score_")  # of few signals
@pytest.mark.parametrize("given", ["copies", "groups", "other targets"])
def test_left_out_results_are_those_of_refits(given, rng):
    """In the order of the signals; copies are left out together, or groups are."""
    X, y = waves(rng, 20, 3)
    X, y, penalty = X[FIRST], y[FIRST], 0.05
    targets = X[:, 0, :5].sum(axis=1)[:, None] * [1.0, -2.0] + [0.0, 300.0]
    members, weights = FIRST, np.ones(25)
    if given == "other targets":
        y, targets = (y + np.arange(25) // 22) % 3, targets + np.arange(25)[:, None]
    elif given == "groups":
        members = FIRST // 4
    weights[[2, 20]] = 0.0
    kept = np.flatnonzero(weights)
    groups = members if given == "groups" else None
    view = ONE["views"][0].fit(X[kept])
    K = mean_kernel(X[kept], X, view)[kept]

    def errors_of(Y, told):
        """Return errors of signals left out; different cases have weights of mean 1."""
        n_cases = len(np.unique(np.column_stack([FIRST, told])[kept], axis=0))
        penalties = np.full(len(kept), penalty * len(kept) / n_cases)
        return refits(K, Y[kept], penalties, members[kept])

    model = ResidualKernelRegressor(penalty=penalty, **ONE).fit(X, targets, weights, groups)
    expected = np.full(targets.shape, np.nan)
    expected[kept] = targets[kept] - errors_of(targets, targets)
    np.testing.assert_allclose(model.left_out_prediction_, expected, rtol=1e-7, atol=1e-7)
    single = ResidualKernelRegressor(penalty=penalty, **ONE).fit(X, targets[:, 0], weights, groups)
    np.testing.assert_allclose(single.left_out_prediction_, expected[:, 0], rtol=1e-7, atol=1e-7)
    options = ONE | {"random_state": 0}
    model = ResidualKernelClassifier(penalty=penalty, **options).fit(X, y, weights, groups)
    Y = 2.0 * np.eye(3)[y] - 1.0
    found = Y[kept] - errors_of(Y, y)
    assert np.isnan(model.left_out_proba_[[2, 20]]).all()
    logs = np.log(model.left_out_proba_[kept])
    logs, found = (each - each.mean(axis=1, keepdims=True) for each in (logs, found))
    scale = (logs * found).sum(axis=1) / (found**2).sum(axis=1)  # the calibration of a fold
    np.testing.assert_allclose(logs, scale[:, None] * found, atol=1e-7)
    assert len(np.unique(np.round(scale, 6))) <= 10
    np.testing.assert_allclose(scale, model.inverse_temperature_, rtol=0.5)


@pytest.mark.parametrize("class_weight", [None, {0: 1.0, 1: 2.0, 2: 1.5}])
def test_other_folds_calibrate_left_out_probabilities(class_weight, rng, monkeypatch):
    X, y = waves(rng, 40, 3)
    X = X + 0.5 * rng.standard_normal(X.shape)
    order = sorted(range(40), key=lambda k: X[k].tobytes())  # that of cases
    X, y = X[order], y[order]
    folds, folds_of = [], estimator.folds_of
    monkeypatch.setattr(
        estimator, "folds_of", lambda *args: folds.append(folds_of(*args)) or folds[-1]
    )
    model = ResidualKernelClassifier(penalty=0.1, class_weight=class_weight, **ONE).fit(X, y)
    Y, weights = 2.0 * np.eye(3)[y] - 1.0, np.array([1.0, 2.0, 1.5] if class_weight else [1] * 3)[y]
    decisions = Y - refits(mean_kernel(X, X), Y, np.full(40, 0.1), np.arange(40))
    for fold in range(10):
        at = folds[0] == fold
        rest = decisions[~at], y[~at], weights[~at]
        scale, offsets = calibrate(*rest, shift=class_weight is not None)
        expected = softmax(scale * (decisions[at] + offsets), axis=1)
        np.testing.assert_allclose(model.left_out_proba_[at], expected, atol=1e-6)
    right = model.left_out_proba_.argmax(axis=1) == y
    assert model.left_out_score_ == right.mean()


@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_permuted_signals_have_permuted_left_out_results(lists, grouped, rng):
    X, y = waves(rng, 24, 2)
    X, y = X + rng.standard_normal(X.shape), np.append(y, [2, 0, 1])
    signals = [x[:, : 24 - k % 3] for k, x in enumerate(X)] if lists else X
    signals = [signals[k] for k in [*range(24), 4, 6, 9]]
    weights = np.append(rng.uniform(0.5, 2.0, 25), [1.0, 0.0])
    groups = rng.integers(0, 12, 27) if grouped else None
    views = [View(standardize="channel"), View(differences=True), View(spectra=True, length=8)]
    order = rng.permutation(27)
    for kind, name, options in (
        (ResidualKernelClassifier, "left_out_proba_", {"class_weight": {0: 1, 1: 2, 2: 0}}),
        (ResidualKernelRegressor, "left_out_prediction_", {}),
    ):
        model, other = (kind(views, dtype="float64", random_state=0, **options) for _ in range(2))
        model.fit(signals, y, weights, groups)
        permuted = None if groups is None else groups[order]
        other.fit([signals[k] for k in order], y[order], weights[order], permuted)
        expected, found = getattr(model, name), getattr(other, name)
        np.testing.assert_allclose(found, expected[order], rtol=0, atol=1e-10)
        missing = [24, 26] if options else [26]
        assert np.flatnonzero(np.isnan(expected.reshape(27, -1)[:, 0])).tolist() == missing


def test_folds_are_the_same_for_all_fits_of_a_seed(rng, monkeypatch):
    """Also of other views and landmarks, and of the other estimator."""
    (X, y), folds, folds_of = waves(rng, 24, 2), [], estimator.folds_of
    monkeypatch.setattr(
        estimator, "folds_of", lambda *args: folds.append(folds_of(*args)) or folds[-1]
    )
    for kind, options in (
        (ResidualKernelClassifier, FOUR),
        (ResidualKernelClassifier, ONE | {"landmarks": 9}),
        (ResidualKernelRegressor, ONE),
    ):
        kind(**options, random_state=3).fit(X, y)
    ResidualKernelClassifier(**ONE, random_state=4).fit(X, y)
    assert (np.bincount(folds[0], minlength=10) >= 2).all()
    assert [(each == folds[0]).all() for each in folds] == [True] * 3 + [False]


def test_left_out_probabilities_of_a_novel_signal_are_less_certain(rng):
    """As `predict_proba` has it: one signal is a thousand times as large as all others."""
    X, y = waves(rng, 40, 3)
    X[7] *= 1000.0
    view = View(standardize="signal", filter_size=3)
    model = ResidualKernelClassifier([view], dtype="float64", penalty=0.01).fit(X, y)
    doubt = model.novelty(X[7:8])[0] / 4  # of sizes
    others = np.delete(np.arange(40), 7)
    assert doubt > 1 and (model.novelty(X[others]) < 4).all()
    Y, K = 2.0 * np.eye(3)[y] - 1.0, mean_kernel(X, X, view)
    found = (Y - refits(K, Y, np.full(40, 0.01), np.arange(40)))[7]
    logs = np.log(model.left_out_proba_[7])
    scale = (logs - logs.mean()) @ found / (found @ (found - found.mean()))
    assert scale == pytest.approx(model.inverse_temperature_ / doubt, rel=0.5)
    assert scale < model.inverse_temperature_ / 2


def test_groups_are_left_out_whole(rng):
    """Signals of a wearer are alike: groups show what single signals hide."""
    wearers = np.arange(40) // 4
    y = wearers % 2
    X = rng.standard_normal((10, 1, 24))[wearers] + 0.2 * rng.standard_normal((40, 1, 24))
    single = ResidualKernelClassifier(**FOUR, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="these views do not find"):
        whole = ResidualKernelClassifier(**FOUR, random_state=0).fit(
            X, y, groups=[f"wearer {k}" for k in wearers]
        )
    assert single.left_out_score_ > 0.95 and whole.left_out_score_ < 0.8
    assert whole.left_out_score_error_ > 2 * single.left_out_score_error_


@pytest.mark.parametrize("n", [1, 64, 65, 127, 128, 193])
def test_signals_in_parts_have_the_same_bits(n, rng, monkeypatch):
    X, y = waves(rng, 24, 3)
    model, Z = ResidualKernelClassifier("fast", random_state=0).fit(X, y), waves(rng, n, 3)[0]
    expected = model.decision_function(Z), model.novelty(Z), model.contributions(Z)
    monkeypatch.setattr("rescntk.learn.estimator._BATCH", 1)
    at_signals = Mock(wraps=weights_at)
    monkeypatch.setattr(estimator, "weights_at", at_signals)
    found = [model.decision_function(Z)]
    sizes = [len(call.args[2]) for call in at_signals.call_args_list]  # of distances
    assert sum(sizes) == n and max(sizes) < 128
    found += model.novelty(Z), model.contributions(Z)
    for again, value in zip(found, expected, strict=True):
        assert (again == value).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("power", [-900, -601, 40, 601, 900])
def test_units_of_all_signals(power, rng):
    """A power of four changes no bit; another power of two changes roots in spectra."""
    X, y = waves(rng, 24, 2, length=80)
    Z = X[:8] + 5.0  # levels are far away
    for kind in (ResidualKernelClassifier, ResidualKernelRegressor):
        model = kind(random_state=0).fit(X, y)
        other = kind(random_state=0).fit(np.ldexp(X, power), y)
        off = other.contributions(np.ldexp(Z, power)) - model.contributions(Z)
        novelties = other.novelty(np.ldexp(Z, power)) / model.novelty(Z)
        assert np.abs(off).max() <= (1e-6 if power % 2 else 0)
        np.testing.assert_allclose(novelties, 1, rtol=1e-5)
    far = ResidualKernelRegressor(**ONE).fit(X, y).predict(np.ldexp(X, 800))
    assert np.isfinite(far).all()


def blas_threads():
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_blas_has_one_thread_in_fits_and_its_own_number_after_them(rng, monkeypatch):
    """Also where fits of several Python threads overlap, and where one of them fails."""
    X, y = waves(rng, 24, 2)
    inside, fit_view = [], estimator.fit_view
    barrier = threading.Barrier(3)

    def fit(*args):
        inside.append(blas_threads())
        return fit_view(*args)

    def work(k):
        barrier.wait()
        time.sleep(0.02 * k)  # the first ends while others work
        return ResidualKernelClassifier(**FOUR, random_state=k).fit(X, y).predict(X)

    with threadpool_limits(2, "blas"):
        before = blas_threads()
        assert before and set(before) <= {1, 2}
        monkeypatch.setattr(estimator, "fit_view", fit)
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(work, [0, 1, 2] * 3))
        assert inside and all(set(found) == {1} for found in inside)
        assert blas_threads() == before
        monkeypatch.setattr(estimator, "fit_view", lambda *args: [][0])
        with pytest.raises(IndexError):
            ResidualKernelClassifier(**ONE).fit(X, y)
        assert blas_threads() == before


TINY = [View(standardize="point", filter_size=3, depth=1, length=6)]
INTERRUPTED = {
    "classifier": (ResidualKernelClassifier(TINY), lambda model, X: model.predict_proba(X)),
    "regressor": (ResidualKernelRegressor(TINY), lambda model, X: model.predict(X)),
    "view": (TINY[0], lambda model, X: model.transform(X)),
    "matrix": (KernelMatrix(), lambda model, X: model.transform(X)),
    "landmarks": (LandmarkFeatures(n_landmarks=4), lambda model, X: model.transform(X)),
}


def each_line(call, at):
    """Call, and raise KeyboardInterrupt where a line of the estimators comes up first.

    `at` counts such lines from 0. Return how many there are.
    """
    seen = set()

    def trace(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if path.parent.name != "learn" or path.name in ("blas.py", Path(__file__).name):
            return None
        place = path, frame.f_lineno
        if event == "line" and place not in seen:
            seen.add(place)
            if len(seen) == at + 1:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(None)
    return len(seen)


@pytest.mark.filterwarnings("ignore:left_out_score_")  # of few signals
@pytest.mark.parametrize("every", [23, *rarely(1)])
@pytest.mark.parametrize(("model", "result"), INTERRUPTED.values(), ids=INTERRUPTED.keys())
def test_an_interrupted_fit_leaves_the_model_as_it_was_or_fits_it(model, result, every, rng):
    """At each line that a fit comes to: a model that was fitted to other signals, and a new one."""
    (X, y), (Z, z) = waves(rng, 10, 2, length=12), waves(rng, 12, 2, length=12, channels=2)
    blas, fitted = blas_threads(), clone(model).fit(X, y)
    expected, whole = result(fitted, X), result(clone(model).fit(Z, z), Z)
    count = each_line(lambda: clone(model).fit(Z, z), np.inf)
    for at in [*range(0, count, every), count - 1]:
        for start in (copy(fitted), clone(model)):
            before = dict(vars(start))
            with pytest.raises(KeyboardInterrupt):
                each_line(lambda start=start: start.fit(Z, z), at)
            if before.keys() == vars(start).keys() and all(
                vars(start)[name] is value for name, value in before.items()
            ):
                continue
            assert (result(start, Z) == whole).all()
    assert (result(fitted, X) == expected).all() and blas_threads() == blas


def test_many_signals(rng, monkeypatch, fitted_views):
    """More than 1,000 signals: eight short views with both names, 400 landmarks."""
    X, y = waves(rng, 1010, 2, length=4)
    for views in ("default", "fast"):
        model = ResidualKernelClassifier(views, random_state=0, n_jobs=1).fit(X, y)
        assert [view.length for view in model.views_["view"][:2]] == [32, 32]
        assert len(model.views_["view"]) == 8
    assert all(len(fitted.signals) == 400 for fitted in fitted_views)
    monkeypatch.setattr("rescntk.learn.estimator._LONG", 1e3)
    with pytest.warns(UserWarning, match=r"this fit computes 1e\+04 pixel pairs times layers"):
        ResidualKernelClassifier(**ONE).fit(X[:20], y[:20])
