"""Results of cases left out, and what is made of them, against refits without the cases."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone

from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, View
from rescntk.learn.ensemble.calibration import calibrate
from rescntk.learn.ensemble.ensemble import fit_ensemble
from rescntk.learn.ensemble.nonconformity import Nonconformity
from rescntk.learn.ensemble.settings import Settings
from rescntk.learn.ensemble.targets import Targets
from rescntk.learn.ensemble.weights import folds_of
from rescntk.learn.reading.inputs import read_cases
from tests import tolerances
from tests.helpers import assert_within
from tests.learn.cases import FOUR_VIEWS, ONE_VIEW, ignores_scores, waves
from tests.learn.refits import bordered, mean_kernel, refits, signs

BAR = tolerances.regression(30, 0.1)
"""For ridge regression of `noisy` signals."""


def rank(coverage, n_cases, n_groups):
    """Return the rank ⌈coverage · (n + 1)⌉ of n signals left out, or that share of groups."""
    return int(np.ceil(n_cases * coverage * (n_groups + 1) / n_groups - 1e-9))


@pytest.fixture(params=[None, np.arange(30) // 3], ids=["signals", "groups"])
def noisy(request, rng):
    """Noisy signals with labels, targets and groups; new signals; the kernel matrix."""
    X, y = waves(rng, 30, 3)
    X, Z = X + rng.standard_normal(X.shape), X + rng.standard_normal(X.shape)
    groups = request.param
    return SimpleNamespace(
        X=X,
        y=y,
        Z=Z,
        targets=y + rng.standard_normal(30),
        groups=groups,
        members=np.arange(30) if groups is None else groups,
        n_groups=30 if groups is None else 10,
        K=mean_kernel(X, X),
    )


def variances_of_refits(noisy):
    """Return variances of observations over the prior's, each left out with its group."""
    G, variances = np.linalg.inv(noisy.K + 0.1 * np.eye(30)), np.empty(30)
    for part in (noisy.members == member for member in range(noisy.n_groups)):
        variances[part] = np.linalg.inv(G[np.ix_(part, part)]).diagonal()
    return variances


def test_sets_have_labels_as_probable_as_those_of_refits(noisy):
    X, y, Z = noisy.X, noisy.y, noisy.Z
    model = ResidualKernelClassifier(penalty=0.1, **ONE_VIEW).fit(X, y, groups=noisy.groups)
    Y = signs(y)
    errors = refits(noisy.K, Y, np.full(30, 0.1), noisy.members)
    left_out = softmax(model.inverse_temperature_ * (Y - errors), axis=1)[np.arange(30), y]
    proba = model.predict_proba(Z)
    for coverage in (0.5, 0.8, 0.9):
        lowest = np.sort(left_out)[-rank(coverage, 30, noisy.n_groups)]
        found = model.predict_set(Z, coverage)
        least = np.minimum(lowest, proba.max(axis=1, keepdims=True))
        assert found.dtype == bool and (found == (proba >= least)).all()
    assert (model.predict_set(Z) == model.predict_set(Z, 0.9)).all()


def test_intervals_reach_as_far_as_refits(noisy):
    X, Z, targets = noisy.X, noisy.Z, noisy.targets
    model = ResidualKernelRegressor(penalty=0.1, **ONE_VIEW).fit(X, targets, groups=noisy.groups)
    errors = refits(noisy.K, targets[:, None], np.full(30, 0.1), noisy.members)[:, 0]
    beta, b = bordered(noisy.K, targets[:, None], 0.1)
    variances = variances_of_refits(noisy)
    ratios = np.abs(errors) / np.sqrt(variances * np.mean(beta[:, 0] * (targets - b)))
    deviation = model.predict(Z, return_std=True)[1]
    for coverage in (0.5, 0.8, 0.9):
        low, high = model.predict_interval(Z, coverage)
        expected = np.sort(ratios)[rank(coverage, 30, noisy.n_groups) - 1]
        assert_within((high - low) / 2 / deviation, expected, BAR)
    for default, end in zip(model.predict_interval(Z), (low, high), strict=True):
        assert (default == end).all()  # of the last coverage, 0.9


def test_left_out_novelties_are_variances_of_refits_or_sizes(noisy):
    variances, sizes = variances_of_refits(noisy), np.log2(np.abs(noisy.X).mean(axis=(1, 2)))
    size_novelties = ((sizes - sizes.mean()) / (sizes.std() + 0.1)) ** 2 / 4
    expected = np.maximum(variances / variances.mean(), size_novelties)
    for model, targets in (
        (ResidualKernelClassifier(penalty=0.1, **ONE_VIEW), noisy.y),
        (ResidualKernelRegressor(penalty=0.1, **ONE_VIEW), noisy.targets),
    ):
        model.fit(noisy.X, targets, groups=noisy.groups)
        assert_within(model.left_out_novelty_, expected, BAR)


def test_new_signals_are_above_a_quantile_of_left_out_novelties_as_often(rng):
    X, y = waves(rng, 600, 3)
    X = X + rng.standard_normal(X.shape)
    model = ResidualKernelClassifier(penalty=1e-3, **ONE_VIEW).fit(X[:150], y[:150])
    new = model.novelty(X[150:])
    assert model.novelty(X[:150]).mean() < 0.8 * new.mean()  # the model has seen them
    for share in (0.5, 0.8, 0.9):
        above = np.mean(new > np.quantile(model.left_out_novelty_, share))
        error = np.sqrt(share * (1 - share) * (1 / 150 + 1 / 450))
        assert abs(above - (1 - share)) <= 3 * error


def test_a_coverage_that_signals_cannot_tell_warns(noisy):
    model = ResidualKernelClassifier(penalty=0.1, **ONE_VIEW)
    model.fit(noisy.X, noisy.y, groups=noisy.groups)
    with pytest.warns(
        UserWarning, match=f"but {noisy.n_groups} training signals or groups support"
    ):
        model.predict_set(noisy.Z, 0.99)


@pytest.mark.parametrize("n", [9, 49, 300])
def test_ranks_of_scores_are_exact_where_float64_is_not(n):
    """⌈coverage · (n + 1)⌉ in integers; as much as n signals can tell is no reason to warn."""
    scores = Nonconformity(np.arange(1.0, n + 1), np.ones(n), n)
    ranks = [(percent / 100, -(-percent * (n + 1) // 100)) for percent in range(1, 100)]
    for coverage, exact in ranks:
        if exact <= n:
            assert scores.quantile(coverage) == exact


def test_a_score_of_weight_two_counts_as_two_scores(rng):
    scores, weights = rng.standard_normal(20), 1.0 + np.arange(20) % 2
    weighted = Nonconformity(scores, weights, 30)
    repeated = Nonconformity(np.repeat(scores, 1 + np.arange(20) % 2), np.ones(30), 30)
    for coverage in (0.1, 0.35, 0.5, 0.8, 0.9):
        assert weighted.quantile(coverage) == repeated.quantile(coverage)


FIRST = np.array([*range(20), 3, 3, 8, 19, 5])
"""Signals that are given: the last five are copies."""


@pytest.fixture(params=["copies", "groups", "other targets"])
def repeated(request, rng):
    """Signals of which some are copies, and two have weight 0: labels, targets and groups.

    `errors_of(Y, told)` are errors of signals left out; cases differ in what is `told`, too.
    """
    X, y = waves(rng, 20, 3)
    X, y = X[FIRST], y[FIRST]
    targets = X[:, 0, :5].sum(axis=1)[:, None] * [1.0, -2.0] + [0.0, 300.0]
    members, weights = FIRST, np.ones(25)
    if request.param == "other targets":
        y, targets = (y + np.arange(25) // 22) % 3, targets + np.arange(25)[:, None]
    elif request.param == "groups":
        members = FIRST // 4
    weights[[2, 20]] = 0.0
    counted = np.flatnonzero(weights)
    K = mean_kernel(X[counted], X, ONE_VIEW["views"][0])[counted]

    def errors_of(Y, told):
        n_cases = len(np.unique(np.column_stack([FIRST, told])[counted], axis=0))
        penalties = np.full(len(counted), 0.05 * len(counted) / n_cases)
        return refits(K, Y[counted], penalties, members[counted])

    return SimpleNamespace(
        X=X,
        y=y,
        targets=targets,
        weights=weights,
        counted=counted,
        groups=members if request.param == "groups" else None,
        errors_of=errors_of,
    )


@ignores_scores  # of few signals
def test_left_out_predictions_are_those_of_refits(repeated):
    """In the order of the signals; copies are left out together, or groups are."""
    targets, counted = repeated.targets, repeated.counted
    expected = np.full(targets.shape, np.nan)
    expected[counted] = targets[counted] - repeated.errors_of(targets, targets)
    for given, predictions in ((targets, expected), (targets[:, 0], expected[:, 0])):
        model = ResidualKernelRegressor(penalty=0.05, **ONE_VIEW)
        model.fit(repeated.X, given, sample_weight=repeated.weights, groups=repeated.groups)
        assert_within(
            model.left_out_prediction_[counted],
            predictions[counted],
            tolerances.regression(20, 0.05),
        )
        assert np.isnan(model.left_out_prediction_[[2, 20]]).all()


@ignores_scores  # of few signals
def test_left_out_probabilities_are_those_of_refits(repeated):
    """Log-probabilities are decisions of refits times a scale, which other folds calibrate."""
    y, counted = repeated.y, repeated.counted
    model = ResidualKernelClassifier(penalty=0.05, **ONE_VIEW, random_state=0)
    model.fit(repeated.X, y, sample_weight=repeated.weights, groups=repeated.groups)
    Y = signs(y)
    decisions = Y[counted] - repeated.errors_of(Y, y)
    assert np.isnan(model.left_out_proba_[[2, 20]]).all()
    logs = np.log(model.left_out_proba_[counted])
    logs, decisions = (a - a.mean(axis=1, keepdims=True) for a in (logs, decisions))
    scale = (logs * decisions).sum(axis=1) / (decisions**2).sum(axis=1)
    assert_within(logs, scale[:, None] * decisions, tolerances.regression(20, 0.05))
    assert len(np.unique(np.round(scale, 6))) <= 10


@pytest.mark.parametrize("class_weight", [None, {0: 1.0, 1: 2.0, 2: 1.5}])
def test_other_folds_calibrate_left_out_probabilities(class_weight, rng):
    X, y = waves(rng, 40, 3)
    X = X + 0.5 * rng.standard_normal(X.shape)
    order = sorted(range(40), key=lambda k: X[k].tobytes())  # that of cases
    X, y = X[order], y[order]
    options = {"penalty": 0.1, "class_weight": class_weight, "random_state": 0} | ONE_VIEW
    model = ResidualKernelClassifier(**options).fit(X, y)
    folds = folds_of(np.arange(40), np.random.RandomState(0))
    Y, weights = signs(y), np.array([1.0, 2.0, 1.5] if class_weight else [1] * 3)[y]
    decisions = Y - refits(mean_kernel(X, X), Y, np.full(40, 0.1), np.arange(40))
    for fold in range(10):
        at = folds == fold
        scale, offsets = calibrate(
            decisions[~at],
            class_indices=y[~at],
            error_weights=weights[~at],
            with_offsets=class_weight is not None,
        )
        expected = softmax(scale * (decisions[at] + offsets), axis=1)
        assert_within(model.left_out_proba_[at], expected, tolerances.MINIMUM)
    right = model.left_out_proba_.argmax(axis=1) == y
    assert model.left_out_score_ == right.mean()


RESULTS = {
    "probabilities": (ResidualKernelClassifier, "left_out_proba_", {0: 1, 1: 2, 2: 0}),
    "predictions": (ResidualKernelRegressor, "left_out_prediction_", None),
}
"""Estimators, an attribute of each, and weights of classes."""


@pytest.mark.parametrize(("kind", "name", "class_weight"), RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_permuted_signals_have_permuted_left_out_results(
    lists, grouped, kind, name, class_weight, rng
):
    """Also of copies; the last signal has weight 0, and the only one of class 2 too."""
    X, y = waves(rng, 24, 2)
    X, y = X + rng.standard_normal(X.shape), np.append(y, [2, 0, 1])
    signals = [x[:, : 24 - k % 3] for k, x in enumerate(X)] if lists else X
    signals = [signals[k] for k in [*range(24), 4, 6, 9]]
    given = {"sample_weight": np.append(rng.uniform(0.5, 2.0, 25), [1.0, 0.0])}
    if grouped:
        given["groups"] = rng.integers(0, 12, 27)
    views = [View(standardize="channel"), View(differences=True), View(spectra=True, length=8)]
    model = kind(views, dtype="float64", random_state=0)
    if class_weight:
        model.set_params(class_weight=class_weight)
    order = rng.permutation(27)
    expected = getattr(clone(model).fit(signals, y, **given), name)
    permuted = {argument: values[order] for argument, values in given.items()}
    found = getattr(model.fit([signals[k] for k in order], y[order], **permuted), name)
    assert_within(np.nan_to_num(found), np.nan_to_num(expected[order]), tolerances.ROUTES)
    missing = np.isin(order, [24, 26] if class_weight else [26])
    assert (np.isnan(found.reshape(27, -1)) == missing[:, None]).all()


def folds_of_fit(X, y, n_regressions=1, **parameters):
    _, cases = read_cases(X, y, y[:, None], None, None)
    values = np.repeat(1.0 * cases.y, n_regressions, axis=1)
    targets = Targets(values, cases.weights, n_regressions)
    _, left_out, _ = fit_ensemble(cases, targets, Settings(**parameters), default_views=())
    return left_out.folds


def test_folds_are_the_same_for_all_fits_of_a_seed(rng):
    """Also of other views and landmarks, and of the other estimator."""
    X, y = waves(rng, 24, 2)
    folds = folds_of_fit(X, y, **FOUR_VIEWS, random_state=3)
    assert (folds_of_fit(X, y, **ONE_VIEW, n_landmarks=9, random_state=3) == folds).all()
    assert (folds_of_fit(X, y, n_regressions=2, **ONE_VIEW, random_state=3) == folds).all()


def test_folds_of_another_seed_are_others(rng):
    X, y = waves(rng, 24, 2)
    assert (folds_of_fit(X, y, **ONE_VIEW, random_state=4) != folds_of_fit(X, y, **ONE_VIEW)).any()


def test_folds_have_nearly_as_many_cases(rng):
    folds = folds_of_fit(*waves(rng, 24, 2), **ONE_VIEW, random_state=3)
    assert set(np.bincount(folds, minlength=10)) == {2, 3}


def test_left_out_probabilities_of_a_novel_signal_are_less_certain(rng):
    """As `predict_proba` has it: one signal is a thousand times as large as all others.

    Its decisions have the scale of the other signals of its fold, divided by a quarter of its
    novelty.
    """
    X, y = waves(rng, 40, 3)
    X[7] *= 1000.0
    order = sorted(range(40), key=lambda k: X[k].tobytes())  # that of cases
    X, y, novel = X[order], y[order], order.index(7)
    view = View(standardize="signal", filter_size=3)
    model = ResidualKernelClassifier([view], dtype="float64", penalty=0.01, random_state=0)
    doubt = model.fit(X, y).novelty(X[[novel]])[0] / 4  # of sizes
    others = np.delete(np.arange(40), novel)
    assert doubt > 1 and (model.novelty(X[others]) < 4).all()
    Y, K = signs(y), mean_kernel(X, X, view)
    decisions = Y - refits(K, Y, np.full(40, 0.01), np.arange(40))
    logs = np.log(model.left_out_proba_)
    logs, decisions = (a - a.mean(axis=1, keepdims=True) for a in (logs, decisions))
    scales = (logs * decisions).sum(axis=1) / (decisions**2).sum(axis=1)
    folds = folds_of(np.arange(40), np.random.RandomState(0))
    fold_scales = scales[others][folds[others] == folds[novel]]
    assert len(fold_scales) > 1
    assert_within(fold_scales, scales[novel] * doubt, tolerances.regression(40, 0.01))


def test_groups_show_what_single_signals_hide(rng):
    """Signals of a wearer are alike, so that one left out is told by the others of its wearer."""
    wearers = np.arange(40) // 4
    y = wearers % 2
    X = rng.standard_normal((10, 1, 24))[wearers] + 0.2 * rng.standard_normal((40, 1, 24))
    single = ResidualKernelClassifier(**FOUR_VIEWS, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="these views do not find"):
        whole = ResidualKernelClassifier(**FOUR_VIEWS, random_state=0).fit(
            X, y, groups=[f"wearer {k}" for k in wearers]
        )
    assert single.left_out_score_ > 0.95 and whole.left_out_score_ < 0.8
    assert whole.left_out_score_error_ > 2 * single.left_out_score_error_


@pytest.mark.parametrize("kind", [ResidualKernelClassifier, ResidualKernelRegressor])
@pytest.mark.parametrize(("share", "counts"), [(1.1e-12, True), (0.9e-12, False)])
def test_weights_of_less_than_a_trillionth_count_as_zero(share, counts, kind, rng):
    """Of the largest one, as documented: such a signal is no case."""
    X, y = waves(rng, 20, 2)
    weights = np.where(np.arange(20) == 3, share * 5.0, 5.0)
    model = kind(**ONE_VIEW, penalty=0.1).fit(X, y, sample_weight=weights)
    assert np.isfinite(model.left_out_novelty_[3]) == counts


def test_a_score_of_right_answers_alone_is_one(rng):
    """Where the weights do not add up exactly, and a signal that does not count is wrong."""
    X, y = waves(rng, 24, 2)
    y[7] = 2  # the only signal of its class
    weights = rng.uniform(0.1, 1.0, 24)
    with warnings.catch_warnings(action="ignore"):
        model = ResidualKernelClassifier(**ONE_VIEW, random_state=0).fit(
            X, y, sample_weight=weights
        )
    others = np.arange(24) != 7
    assert (model.left_out_proba_.argmax(axis=1) == y)[others].all()
    assert model.left_out_score_ == 1
