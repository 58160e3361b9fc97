"""Groups: whatever is estimated from signals left out leaves out whole groups."""

import numpy as np
import pytest

from rescntk import regression
from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor
from tests import tolerances
from tests.learn.cases import ONE, mean_of_kernels, targets_of, waves

RIDGES = [0.1, 1.0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_closed_forms_are_refits_without_the_group(weighted, intercept, rng):
    """Errors from kernels and from features, and variances, against refits for each group."""
    n, F = 24, rng.standard_normal((24, 9))
    K, Y, groups = F @ F.T, rng.standard_normal((n, 2)) + 3, np.array(list("abcdc" * 4 + "eeba"))
    w = rng.uniform(0.3, 3.0, n) if weighted else np.ones(n)
    given, options = (w if weighted else None), {"intercept": intercept, "groups": groups}
    ladder = regression.decompose(K, given)
    errors = ladder.leave_one_out(Y, RIDGES, **options)
    rows = regression.FeatureRidge().add(F, Y, given)
    of_features = rows.leave_one_out(F, Y, RIDGES, case_weights=given, **options)
    variances = ladder.left_out_variance(0.1, groups)
    close = tolerances.solution(n, 1e5)
    for group in "abcde":
        out, rest = groups == group, groups != group
        fit = regression.decompose(K[np.ix_(rest, rest)], w[rest])
        for k, ridge in enumerate(RIDGES):
            beta, b = fit.coefficients(Y[rest], ridge), 0.0
            beta, b = fit.with_intercept(Y[rest], ridge) if intercept else (beta, b)
            expected = Y[out] - K[np.ix_(out, rest)] @ beta - b
            assert np.abs(errors[k][out] - expected).max() <= close
            assert np.abs(of_features[k][out] - expected).max() <= close
        expected = fit.variance(K[np.ix_(out, rest)], K[out, out], 0.1) + 0.1 / w[out]
        assert np.abs(variances[out] - expected).max() <= close
    alone = np.arange(n)  # each point a group: leave-one-out errors
    for found, same in (
        (ladder.leave_one_out(Y, 0.1, intercept=intercept, groups=alone), "leave_one_out"),
        (ladder.left_out_variance(0.1, alone), "left_out_variance"),
    ):
        named = {"intercept": intercept} if same == "leave_one_out" else {}
        arguments = (Y, 0.1) if same == "leave_one_out" else (0.1,)
        np.testing.assert_allclose(found, getattr(ladder, same)(*arguments, **named), rtol=1e-9)


@pytest.mark.parametrize("landmarks", ["all", 12])
def test_a_pass_by_refits(landmarks, rng):
    """Residuals and novelties of one pass, as if it was fitted without each group."""
    X, y = waves(rng, 40, 2)
    X += 0.8 * rng.standard_normal(X.shape)
    groups = rng.integers(0, 6, 40)
    options = ONE | {"penalty": 1e-2, "landmarks": landmarks}
    model = ResidualKernelClassifier(**options).fit(X, y, groups=groups)
    fitted, places = model._average.passes[0], model._average.places
    (K,), Y = mean_of_kernels(model, X, X), targets_of(y)
    S = np.arange(40)
    if landmarks != "all":
        cases = {x.tobytes(): i for i, x in enumerate(X)}
        S = np.array([cases[x.tobytes()] for x in fitted.training.signals])[fitted.kept]
    squares, variances = np.empty((40, 1)), np.empty(40)
    for group in np.unique(groups):
        out, rest = groups == group, groups != group
        A = np.hstack([K[np.ix_(rest, S)], np.ones((rest.sum(), 1))])
        system = A.T @ A
        system[: len(S), : len(S)] += 1e-2 * K[np.ix_(S, S)]
        solution = np.linalg.solve(system, A.T @ Y[rest])
        decisions = np.hstack([K[np.ix_(out, S)], np.ones((out.sum(), 1))]) @ solution
        squares[out] = (Y[out] - decisions) ** 2
        of_others = S[groups[S] != group]
        noisy = K[np.ix_(of_others, of_others)] + 1e-2 * np.eye(len(of_others))
        k = K[np.ix_(out, of_others)]
        variances[out] = 1.01 - np.einsum("ij,ji->i", k, np.linalg.solve(noisy, k.T))
    np.testing.assert_allclose(model.passes_["error"], squares.mean(), rtol=1e-5)
    if landmarks == "all":
        expected = variances / variances.mean()
        np.testing.assert_allclose(fitted.novelties[places], expected, rtol=1e-6)
        return
    others = np.setdiff1d(np.arange(40), S)
    expected = variances[others] / variances[others].mean()
    found = np.sort(fitted.novelties)
    np.testing.assert_allclose(found[found != 1], np.sort(expected), rtol=1e-5)


def wearers(rng, count, signals=8):
    """Return two activities of people of their own speed, shape and offset; labels and people."""
    people, y = np.arange(count * signals) // signals, np.arange(count * signals) % 2
    speed = rng.normal(1, 0.18, count)[people] * (1 + 0.35 * y)
    angle = np.arange(48) * speed[:, None] * np.pi / 8 + rng.uniform(0, 6, (len(y), 1))
    X = np.sin(angle[:, None] + np.arange(2)[:, None])
    for k in (2, 3, 4):
        X += 0.5 * rng.standard_normal((count, 2, 1))[people] * np.sin(k * angle[:, None])
    X += 0.7 * rng.standard_normal((count, 2, 1))[people] + 0.25 * rng.standard_normal(X.shape)
    return X, y, people


def test_scores_with_groups_tell_the_truth_about_new_people(rng):
    X, y, people = wearers(rng, 12)
    Z, truth, _ = wearers(rng, 40)
    plain = ResidualKernelClassifier(effort="fast").fit(X, y)
    model = ResidualKernelClassifier(effort="fast").fit(X, y, groups=people)
    score = model.score(Z, truth)
    assert plain.best_score_ > plain.score(Z, truth) + 0.1
    assert abs(model.best_score_ - score) < 2 * model.best_score_error_ < 0.25
    assert model.best_score_error_ > 2 * plain.best_score_error_

    def log_loss(estimator):
        return -np.log(estimator.predict_proba(Z)[np.arange(len(Z)), truth]).mean()

    assert log_loss(model) < log_loss(plain)
    assert 0.5 < np.median(model.novelty(Z)) < 1.5 < np.median(plain.novelty(Z))


def test_folds_copies_weights_and_classes(rng):
    """Groups of one signal each change nothing; copies in two groups are left out apart."""
    X, y = waves(rng, 30, 3, channels=2)
    plain = ResidualKernelClassifier(**ONE).fit(X, y)
    alone = ResidualKernelClassifier(**ONE).fit(X, y, groups=rng.permutation(30))
    assert alone.passes_["error"] == pytest.approx(plain.passes_["error"], rel=1e-6)
    groups = np.arange(30) // 3 % 5
    weights = np.ones(30)
    weights[groups == 4] = 0
    model = ResidualKernelClassifier(**ONE).fit(X, y, weights, groups)
    kept = groups != 4
    same = ResidualKernelClassifier(**ONE).fit(X[kept], y[kept], groups=groups[kept])
    assert (model.decision_function(X) == same.decision_function(X)).all()
    assert model.best_score_ == same.best_score_
    twice = np.concatenate([X, X])
    copies = ResidualKernelRegressor(**ONE).fit(twice, np.tile(y, 2), groups=np.arange(60) // 30)
    assert copies.best_score_ > 0.99  # each signal's copy is in the other group
    # A class of one group does not count, like a class of one signal.
    lone = ResidualKernelClassifier(**ONE).fit(X, y, groups=np.where(y == 2, 9, groups))
    assert np.isnan(lone.class_scores_[2]) and np.isfinite(lone.best_score_)
    with pytest.warns(UserWarning, match="none of the 3 classes has two groups"):
        ResidualKernelClassifier(**ONE).fit(X, y, groups=y)


def test_refusals(rng):
    X, y = waves(rng, 12, 2)
    for estimator in (ResidualKernelClassifier(**ONE), ResidualKernelRegressor(**ONE)):
        for groups, message in (
            (np.zeros(12), "groups has one label"),
            (np.arange(11), r"groups has shape \(11,\), expected \(12,\)"),
            (np.r_[np.nan, np.arange(11)], "groups contains NaN"),
            ([[1], [2, 3]], r"groups is not a rectangular array, expected labels \(12,\)"),
        ):
            with pytest.raises(ValueError, match=message):
                estimator.fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="groups has one label"):
        regression.decompose(np.eye(3)).leave_one_out(y[:3], 1.0, intercept=True, groups=[1, 1, 1])
