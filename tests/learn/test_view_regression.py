"""A view by itself against ridge regression, a Gaussian process and features of landmarks."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import rescntk as rk
from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, View
from rescntk.learn.ensemble import settings
from rescntk.learn.ensemble.settings import penalties_of
from tests import tolerances
from tests.helpers import assert_within
from tests.learn.cases import ONE_VIEW, OPTIONS, ignores_scores, waves
from tests.learn.estimators import fitted_views
from tests.learn.refits import NET, bordered, mean_kernel, refits, signs

PENALTY = 0.01
BAR = tolerances.regression(18, PENALTY)

KERNEL = View().pipeline(np.zeros((2, 1, 9))).kernel
DEFAULTS = ResidualKernelClassifier()
"""Settings without penalties of their own."""


@pytest.fixture
def one_view(rng):
    """A classifier of three classes with one view; its signals, labels, targets, and new signals.

    Kernels of the signals, and of the new ones with them, come from `mean_kernel`.
    """
    X, y = waves(rng, 18, 3, channels=2)
    Z = rng.standard_normal((4, 2, 24))
    model = ResidualKernelClassifier(penalty=PENALTY, **ONE_VIEW).fit(X, y)
    return SimpleNamespace(
        model=model,
        X=X,
        y=y,
        Z=Z,
        Y=signs(y),
        K=mean_kernel(X, X),
        k=mean_kernel(X, Z),
    )


def test_decisions_of_one_view_are_ridge_regression(one_view):
    beta, b = bordered(one_view.K, one_view.Y, PENALTY)
    found = one_view.model.decision_function(one_view.Z)
    assert_within(found, one_view.k @ beta + b, BAR)


def test_errors_of_one_view_are_those_of_refits(one_view):
    errors = refits(one_view.K, one_view.Y, np.full(18, PENALTY), np.arange(18))
    assert_within(one_view.model.views_["error"][0], np.mean(errors**2), BAR)
    right = (one_view.Y - errors).argmax(axis=1) == one_view.y
    assert one_view.model.left_out_score_ == np.mean(right)


def test_one_penalty_is_chosen_for_all_classes(one_view):
    """Of least error over all of them; two classes that noise mixes would want a greater one."""
    y = one_view.y.copy()
    y[y < 2] = np.arange(12) // 2 % 2
    Y, penalties = signs(y), [10.0**k for k in range(-5, 2)]
    errors = [
        refits(one_view.K, Y, np.full(18, penalty), np.arange(18)) ** 2 for penalty in penalties
    ]
    class_errors = np.mean(errors, axis=1)  # (n_penalties, n_classes)
    expected = class_errors.mean(axis=1).min()
    assert class_errors.min(axis=0).mean() < 0.99 * expected
    model = ResidualKernelClassifier(penalty=penalties, **ONE_VIEW)
    with warnings.catch_warnings(action="ignore"):  # little is found
        found = model.fit(one_view.X, y).views_["error"][0]
    assert_within(found, expected, tolerances.regression(18, penalties[0]))


def test_errors_of_a_view_count_with_the_weights_of_classes(one_view):
    class_weights = {0: 1.0, 1: 2.0, 2: 5.0}
    model = ResidualKernelClassifier(penalty=PENALTY, class_weight=class_weights, **ONE_VIEW)
    errors = refits(one_view.K, one_view.Y, np.full(18, PENALTY), np.arange(18))
    weights = np.array([1.0, 2.0, 5.0])[one_view.y]
    found = model.fit(one_view.X, one_view.y).views_["error"][0]
    assert_within(found, np.average(np.mean(errors**2, axis=1), weights=weights), BAR)


def test_errors_of_a_view_are_not_of_the_only_signal_of_a_class(one_view):
    y = np.where(np.arange(18) == 7, 3, one_view.y)
    model = ResidualKernelClassifier(penalty=PENALTY, **ONE_VIEW).fit(one_view.X, y)
    errors = refits(one_view.K, signs(y), np.full(18, PENALTY), np.arange(18))
    assert_within(model.views_["error"][0], np.mean(np.delete(errors, 7, axis=0) ** 2), BAR)


def test_novelty_of_one_view_is_a_variance_or_a_size(one_view):
    G, k = np.linalg.inv(one_view.K + PENALTY * np.eye(18)), one_view.k
    usual = np.mean(1 / G.diagonal())
    novelty = (1 - np.einsum("ij,jk,ik->i", k, G, k) + PENALTY) / usual
    sizes, new_sizes = (
        np.log2(np.concatenate([np.abs(S).mean(axis=2), S.std(axis=2)], axis=1))
        for S in (one_view.X, one_view.Z)
    )
    mean, spread = sizes.mean(axis=0), sizes.std(axis=0)
    known, far = (np.abs((S - mean) / (2 * spread + 0.2)).max(axis=1) for S in (sizes, new_sizes))
    unit = max(1.0, np.sort(known)[-1] * 18 / 17)  # of 18 signals none is far
    found = one_view.model.novelty(one_view.Z)
    assert_within(found, np.maximum(novelty, (far / unit) ** 2), BAR)


def near_copies(rng):
    """Return 24 signals of four kinds, which differ by as much as float32 tells apart, and y."""
    X = np.repeat(rng.standard_normal((4, 1, 24)), 6, axis=0)
    return X * (1 + 1e-7 * rng.standard_normal(X.shape)), np.arange(24) // 6 % 2


@pytest.mark.parametrize("n_landmarks", [None, 18])
@pytest.mark.parametrize("penalty", [None, 1e-9])
def test_rounding_errors_of_kernels_are_no_variances(n_landmarks, penalty, rng):
    """Variances of known signals are below rounding errors: novelties are not below 0."""
    X, y = near_copies(rng)
    options = {"penalty": penalty, "n_landmarks": n_landmarks, "random_state": 0}
    model = ResidualKernelClassifier(ONE_VIEW["views"], dtype="float32", **options).fit(X, y)
    for novelty in (model.novelty(X), model.left_out_novelty_):
        assert np.isfinite(novelty).all() and (novelty >= 0).all()
    assert (model.predict(X) == y).all()


def test_a_heavy_signal_has_a_greater_least_penalty(rng):
    """Its weight magnifies rounding errors."""
    X, y = waves(rng, 40, 2)

    def penalty(weights):
        model = ResidualKernelClassifier(ONE_VIEW["views"]).fit(X, y, sample_weight=weights)
        return fitted_views(model)[0].penalties[0]

    equal, heavy = map(penalty, (np.ones(40), np.where(np.arange(40) == 7, 1000.0, 1.0)))
    assert heavy > 1.5 * equal


def test_landmarks_are_of_signals_of_all_classes(rng):
    """Signals of one class have one first number, by which their contents are sorted."""
    X, y = waves(rng, 120, 2)
    X = np.round(10 * X)
    X[:, 0, 0] = 8 * y
    model = ResidualKernelClassifier(**ONE_VIEW, n_landmarks=20, random_state=0).fit(X, y)
    class_errors = [np.median(model.left_out_novelty_[y == k]) for k in (0, 1)]
    assert max(class_errors) < 1.5 * min(class_errors)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_landmarks_may_be_nearly_equal(dtype, rng):
    """They stand for all signals, which are as near to them: decisions are those without."""
    X, y = near_copies(rng)
    Z = X[::3] + 0.3 * rng.standard_normal((8, 1, 24))
    options = {"penalty": 0.01, "dtype": dtype, "random_state": 0}
    some, every = (
        ResidualKernelClassifier(ONE_VIEW["views"], n_landmarks=m, **options)
        .fit(X, y)
        .decision_function(Z)
        for m in (18, None)
    )
    near = 1e-2  # copies differ by 1e-7, and kernels that do not tell them apart by a root of it
    assert_within(some, every, near)


@pytest.fixture(params=[None, np.arange(20) // 3], ids=["signals", "groups"])
def landmarked(request, rng):
    """A regressor with seven landmarks S, and ridge regression on their features, without it.

    Features have the kernel K(X, S) K(S, S)⁻¹ K(S, X) of signals, and k of new signals with them.
    """
    X, y = waves(rng, 20, 2)
    Z, penalty, weights = rng.standard_normal((3, 1, 24)), 0.02, rng.uniform(0.5, 2.0, 20)
    options = {"penalty": penalty, "n_landmarks": 7, "random_state": 3, **ONE_VIEW}
    model = ResidualKernelRegressor(**options)
    model.fit(X, y * 1.0, sample_weight=weights, groups=request.param)
    (fitted,) = fitted_views(model)
    seen, new, S = map(fitted.pipeline.transform, (X, Z, fitted.landmarks))
    cross = mean_kernel_of(seen, S)
    solved = np.linalg.solve(mean_kernel_of(S, S), cross.T)
    w = weights / weights.mean()
    mean = np.average(y, weights=w)
    scale = np.sqrt(np.average((y - mean) ** 2, weights=w))
    return SimpleNamespace(
        model=model,
        fitted=fitted,
        Z=Z,
        K=cross @ solved,
        k=mean_kernel_of(new, S) @ solved,
        Y=((y - mean) / scale)[:, None],
        in_units=lambda standardized: standardized * scale + mean,
        weights=w,
        penalties=penalty / w,
        groups=np.arange(20) if request.param is None else request.param,
        bar=tolerances.regression(20, penalty),
    )


def test_predictions_with_landmarks_are_those_of_features(landmarked):
    beta, b = bordered(landmarked.K, landmarked.Y, landmarked.penalties)
    expected = landmarked.in_units((landmarked.k @ beta + b)[:, 0])
    assert_within(landmarked.model.predict(landmarked.Z), expected, landmarked.bar)


def test_errors_with_landmarks_are_those_of_refits_on_features(landmarked):
    errors = refits(landmarked.K, landmarked.Y, landmarked.penalties, landmarked.groups)
    expected = np.average(errors[:, 0] ** 2, weights=landmarked.weights)
    assert_within(landmarked.model.views_["error"][0], expected, landmarked.bar)


@pytest.mark.parametrize("landmarked", [None], indirect=True)
def test_novelties_with_landmarks_are_variances_of_features(landmarked):
    """Of cases left out also with the rest of the kernel, which landmarks do not explain."""
    K, k, penalties = landmarked.K, landmarked.k, landmarked.penalties
    G = np.linalg.inv(K + np.diag(penalties))
    usual = np.average(1 / G.diagonal() + 1 - K.diagonal(), weights=landmarked.weights)
    variance = 1 - np.einsum("ij,jk,ik->i", k, G, k) + 0.02
    found = landmarked.fitted.decisions_and_novelties(landmarked.Z, OPTIONS)[1][:, 0]
    assert_within(found, variance / usual, landmarked.bar)


def mean_kernel_of(A, B):
    """Return the mean of both normalized kernels of signals as a view shows them."""
    return np.mean(rk.gram(NET, A, B, kinds=("gpk", "ntk"), normalized=True), axis=0)


def errors_of_penalties(X, y, penalties, **options):
    """Return the errors of models of one view and one penalty, for each of some penalties."""
    models = (ResidualKernelClassifier(penalty=each, **ONE_VIEW, **options) for each in penalties)
    return np.array([model.fit(X, y).views_["error"][0] for model in models])


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_landmarks_have_the_least_penalty_of_a_similar_error(noise, rng):
    """The first one of an error within a twentieth of the least, by models of one penalty."""
    X, y = waves(rng, 60, 3)
    X = X + noise * rng.standard_normal(X.shape)
    options = {"n_landmarks": 25, "random_state": 3}
    model = ResidualKernelClassifier(**options, **ONE_VIEW).fit(X, y)
    (fitted,) = fitted_views(model)
    tried = penalties_of(model, fitted.pipeline.kernel, np.ones(60), (), 25).tried
    errors = errors_of_penalties(X, y, tried, **options)
    assert fitted.penalties[0] == tried[int((errors <= 1.05 * errors.min()).argmax())] > tried[0]


@ignores_scores
@pytest.mark.parametrize("is_similar", [True, False])
def test_just_above_a_thousand_signals_errors_of_half_more_are_similar_too(
    is_similar, rng, monkeypatch
):
    """The half falls to nothing at one and a half times as many signals.

    The signals do not tell the labels, for which the least penalty has a large error.
    """
    (X, _), y = waves(rng, 50, 2), np.arange(50) // 2 % 2
    X += 0.05 * rng.standard_normal(X.shape)
    model = ResidualKernelClassifier(**ONE_VIEW)
    monkeypatch.setattr(settings, "_FEW_SIGNALS", 49)
    least, *larger = penalties_of(model, KERNEL, np.ones(50), (), 50).tried
    errors = errors_of_penalties(X, y, [least, *larger])
    more_error = errors[0] / errors.min() - 1.05
    assert 0.3 < more_error < 0.5
    more_signals = (1 - more_error / 0.5) / 2 + (-0.01 if is_similar else 0.01)
    monkeypatch.setattr(settings, "_FEW_SIGNALS", 50 / (1 + more_signals))
    (fitted,) = fitted_views(model.fit(X, y))
    assert (fitted.penalties[0] == least) == is_similar


def tried_by(n, n_landmarks=None, given=DEFAULTS):
    """Return the penalties that a view of a network tries for n signals, and their tolerance."""
    m = n if n_landmarks is None else n_landmarks
    return penalties_of(given, KERNEL, np.ones(n), (), m)


@pytest.mark.parametrize("n", [2, 1000, 1001, 9000])
def test_the_first_penalty_is_the_least_one(n):
    assert tried_by(n).tried[0] == KERNEL.least_penalty(np.ones(n), "float32")


@pytest.mark.parametrize(("n", "several"), [(2, False), (1000, False), (1001, True), (9000, True)])
def test_more_than_a_thousand_signals_choose_among_penalties(n, several):
    assert (len(tried_by(n).tried) > 1) == several


def test_penalties_are_chosen_with_less_and_less_tolerance():
    """From a little more than a thousand signals on; landmarks have the least one at once."""
    tolerances = [tried_by(n).tolerance for n in (1001, 1250, 1500, 9000)]
    assert tolerances[0] > tolerances[1] > tolerances[2] == tolerances[3]
    assert tried_by(1001, 400).tolerance == tolerances[3]


def test_penalties_that_are_given_are_those_that_are_tried():
    given = ResidualKernelClassifier(penalty=(0.5, 2.0))
    assert tried_by(9000, 400, given) == ([0.5, 2.0], 1.0)


@pytest.mark.parametrize("given", [{"penalty": 0.1}, {"n_landmarks": None}])
def test_penalties_by_landmarks_are_tried_by_default_alone(given, rng):
    X, y = waves(rng, 60, 3)
    options = {"n_landmarks": 45, "random_state": 3} | ONE_VIEW | given
    (fitted,) = fitted_views(ResidualKernelClassifier(**options).fit(X, y))
    least = fitted.pipeline.kernel.least_penalty(np.ones(60), "float64")
    assert fitted.penalties[0] == given.get("penalty", least)
