"""The average: kernels, readouts, weights, penalties and scores, each against refits by hand."""

import numpy as np
import pytest

import rescntk as rk
from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, base, fitted_pass
from rescntk.learn.classifier import calibrate
from rescntk.learn.inputs import find_cases
from tests import tolerances
from tests.learn.cases import (
    ONE,
    QUICK,
    best_weights,
    bordered,
    mean_of_kernels,
    novelties,
    refitted,
    targets_of,
    waves,
    weights_at,
)


def test_average_by_hand(rng):
    """Kernels, readouts, leave-one-out errors, weights and the score, all by refits."""
    X, y = waves(rng, 22, 3, length=8, channels=2)
    X, Z = X + 0.8 * rng.standard_normal(X.shape), rng.standard_normal((5, 2, 8))
    model = ResidualKernelClassifier(penalty=1e-3, random_state=5, **QUICK).fit(X, y)
    Y, table = targets_of(y), model.passes_
    assert len(table["weight"]) == 4
    matrices, new = mean_of_kernels(model, X, X), mean_of_kernels(model, Z, X)
    left_out = np.array([refitted(K, Y, 1e-3) for K in matrices])
    squares = ((left_out - Y) ** 2).mean(axis=2)
    np.testing.assert_allclose(table["error"], squares.mean(axis=1), rtol=1e-7)
    residuals = left_out - Y
    weights = best_weights(residuals)
    np.testing.assert_allclose(table["weight"], weights, atol=tolerances.MINIMUM)
    assert table["weight"].max() > 2 * table["weight"].min() > 0
    pairs = [novelties(K, k, 1e-3) for K, k in zip(matrices, new, strict=True)]
    novel, usual = map(np.array, zip(*pairs, strict=True))
    assert (usual.max(axis=1) > 1).all() and (novel.max(axis=1) > 1.1).all()
    decisions, shares = 0, weights_at(table["weight"], novel, usual)
    for K, k, share in zip(matrices, new, shares, strict=True):
        coefficients, intercepts = bordered(K, Y, 1e-3)
        decisions = decisions + share[:, None] * (k @ coefficients + intercepts)
    np.testing.assert_allclose(model.decision_function(Z), decisions, atol=1e-8)
    expected = np.tensordot(table["weight"], new, 1)
    np.testing.assert_allclose(model.kernel_matrix(Z), expected, atol=tolerances.ROUTES)

    folds = (np.random.RandomState(5).permutation(22) % 10)[model._average.places]
    out_of_fold = np.empty(Y.shape)
    for fold in range(10):
        inside = folds == fold
        of_others = best_weights(residuals[:, ~inside])
        own = weights_at(of_others, usual[:, inside], usual)
        out_of_fold[inside] = np.einsum("pn,pno->no", own, left_out[:, inside])
    right = out_of_fold.argmax(axis=1) == y
    assert model.best_score_ == right.mean()
    more = np.append(right, [True, True, False, False])
    assert model.best_score_error_ == pytest.approx(more.std() / np.sqrt(26))
    np.testing.assert_allclose(model.class_scores_, [right[y == c].mean() for c in range(3)])
    assert model.balanced_score_ == pytest.approx(model.class_scores_.mean())
    found, _ = calibrate(out_of_fold, y, np.ones(22))
    assert model.inverse_temperature_ == pytest.approx(found, rel=1e-4)


def test_blocks_of_the_file_are_left_out(rng):
    """Tenths of each class in the file's order, by refits; recordings side by side are alike."""
    sessions = rng.standard_normal((20, 1, 12)).repeat(2, axis=0)
    X, y = sessions + 0.1 * rng.standard_normal((40, 1, 12)), np.arange(40) // 2 % 2
    with pytest.warns(UserWarning, match="where tenths of the file are .blocked_score_."):
        model = ResidualKernelClassifier(penalty=1e-3, **ONE).fit(X, y)
    (K,), Y = mean_of_kernels(model, X, X), targets_of(y)
    right = np.empty(40, dtype=bool)
    block = np.empty(40, dtype=int)
    for label in (0, 1):
        block[y == label] = np.arange(20) * 10 // 20
    for k in range(10):
        inside = block == k
        A, b = bordered(K[np.ix_(~inside, ~inside)], Y[~inside], 1e-3)
        right[inside] = ((K[np.ix_(inside, ~inside)] @ A + b)[:, 0] > 0) == y[inside]
    assert model.blocked_score_ == right.mean() < model.best_score_ - 0.2
    whole = ResidualKernelClassifier(**ONE).fit(X, y, groups=np.arange(40) // 2)
    assert max(whole.blocked_score_, whole.best_score_) < model.best_score_ - 0.2
    noise = ResidualKernelRegressor(**ONE)
    with pytest.warns(UserWarning, match="the same answer for all signals has 0: the signals do"):
        noise.fit(X, rng.permutation(np.arange(40.0)))
    assert noise.blocked_score_ < 0.5


def test_float32_clips_what_rounding_made_negative(rng):
    """Signals that nearly coincide, in float32: eigenvalues below 0 do no harm."""
    X = rng.standard_normal((6, 1, 8)).repeat(3, axis=0)
    X = X + 3e-8 * rng.standard_normal(X.shape)
    K = rk.ResCNTK(2, head="trace")(X, dtype="float32")
    assert np.linalg.eigvalsh(K.astype(float)).min() < -1e-9
    Y, penalty = rng.standard_normal((18, 1)), 1e-6
    spectrum = fitted_pass.spectrum_of(K)
    assert spectrum.eigenvalues.min() == 0.0
    coefficients, _ = spectrum.with_intercept(Y, penalty)
    assert np.linalg.norm(coefficients) <= 2 * np.linalg.norm(Y) / penalty


def test_a_penalty_is_chosen_for_numbers_alone(rng):
    smooth = rng.uniform(0.3, 1.0, 60)
    X = np.sin(np.arange(24) * smooth[:, None, None] + rng.uniform(0, 6, (60, 1, 1)))
    noisy = smooth + 0.3 * rng.standard_normal(60)
    least = base.least_penalty(np.ones(60), "float64")

    def penalty(model, y):
        return model.fit(X, y).passes_["penalty"][0]

    assert penalty(ResidualKernelRegressor(**ONE), smooth) == least
    assert penalty(ResidualKernelRegressor(**ONE), noisy) >= 1e-3
    labels = noisy > noisy.mean()
    assert penalty(ResidualKernelClassifier(**ONE), labels) == least
    assert penalty(ResidualKernelClassifier(penalty=(0.1, 1e-6), **ONE), labels) == 0.1


def test_scores_are_honest(rng):
    """On pure noise, where choosing looks best: no better than chance, by 3 standard errors."""
    X, y = rng.standard_normal((60, 1, 12)), np.arange(60) % 2
    model = ResidualKernelClassifier(**QUICK | {"input_filter_size": (1, 3, 5, 7)}).fit(X, y)
    assert model.best_score_ <= 0.5 + 3 * model.best_score_error_
    numbers = ResidualKernelRegressor(**QUICK).fit(X, rng.standard_normal(60))
    assert numbers.best_score_ <= 3 * numbers.best_score_error_


def test_landmarks_by_hand(rng):
    """Restricted ridge regression from its normal equations; time and memory linear in n."""
    X, y = waves(rng, 40, 2)
    options = ONE | {"penalty": 1e-2, "random_state": 3}
    model = ResidualKernelClassifier(landmarks=10, **options).fit(X, y)
    state = np.random.RandomState(3)
    state.permutation(40)
    places = find_cases(X, y[:, None], np.ones(40)).places
    S = places.argsort()[state.permutation(40)[:10]]
    (K,), Y = mean_of_kernels(model, X, X), targets_of(y)
    A = np.hstack([K[:, S], np.ones((40, 1))])
    system = A.T @ A
    system[:10, :10] += 1e-2 * K[np.ix_(S, S)]
    solution = np.linalg.solve(system, A.T @ Y)
    np.testing.assert_allclose(model.decision_function(X), (A @ solution)[:, 0], atol=1e-6)
    others = np.setdiff1d(np.arange(40), S)
    inverse = np.linalg.inv(K[np.ix_(S, S)] + 1e-2 * np.eye(10))
    variances = 1.01 - np.einsum("ij,jk,ik->i", K[:, S], inverse, K[:, S])
    expected = np.ones(40)
    expected[others] = variances[others] / variances[others].mean()
    np.testing.assert_allclose(model._average.passes[0].novelties[places], expected, rtol=1e-6)
    full = ResidualKernelClassifier(**options).fit(X, y)
    same = ResidualKernelClassifier(landmarks=40, **options).fit(X, y)
    assert (same.decision_function(X) == full.decision_function(X)).all()
    for landmarks, n, count in ((None, 1000, 1000), (None, 1001, 500), ("all", 9999, 9999)):
        assert base.count_landmarks(landmarks, n) == count


@pytest.mark.parametrize("landmarks", [None, 30])
def test_variances(landmarks, rng):
    """A Gaussian process' variance by its own formula; intervals cover; noise is included."""
    X = rng.standard_normal((90, 1, 10))
    y = 100 * X[:, 0, :5].mean(axis=1) + 20 * rng.standard_normal(90)
    options = ONE | {"head": "trace", "penalty": (1e-2, 1e-1)}
    model = ResidualKernelRegressor(landmarks=landmarks, **options).fit(X[:60], y[:60])
    mean, deviation = model.predict(X[60:], return_std=True)
    np.testing.assert_allclose(mean, model.predict(X[60:]))
    assert deviation.shape == (30,) and deviation.min() > 10  # the noise
    assert 0.7 < np.sqrt(np.mean(((y[60:] - mean) / deviation) ** 2)) < 1.4
    if landmarks is None:
        (K,), (k,) = mean_of_kernels(model, X[:60], X[:60]), mean_of_kernels(model, X[60:], X[:60])
        penalty = model.passes_["penalty"][0]
        process = rk.regression.posterior(K, k, np.ones(30), y[:60], penalty)
        Y = (y[:60, None] - y[:60].mean()) / y[:60].std()
        coefficients, intercepts = bordered(K, Y, penalty)
        scale = np.mean(coefficients * (Y - intercepts)) * y[:60].var()
        expected = np.sqrt(scale * (process.variance + penalty))
        np.testing.assert_allclose(deviation, expected, rtol=1e-6)


def test_a_mixture_is_wider_than_its_parts(rng):
    X = rng.standard_normal((40, 1, 10))
    targets = np.stack([X.mean(axis=(1, 2)), (X**2).mean(axis=(1, 2)) + 3], axis=1)
    model = ResidualKernelRegressor(**QUICK).fit(X[:30], targets[:30])
    mean, deviation = model.predict(X[30:], return_std=True)
    assert mean.shape == deviation.shape == (10, 2)
    pairs, mean, second = [], 0, 0
    model._average.at(X[30:], lambda *pair: pairs.append(pair))
    novel = np.array([fitted.novelty(K) for fitted, K in pairs])
    usual = np.array([fitted.novelties for fitted in model._average.passes])
    weights = weights_at(model.passes_["weight"], novel, usual)[..., None]
    for (fitted, K), own, weight in zip(pairs, novel, weights, strict=True):
        mean = mean + weight * fitted.decide(K)
        second = second + weight * (fitted.variance(own) + fitted.decide(K) ** 2)
    together = second - mean**2
    np.testing.assert_allclose((deviation / model.target_scale_) ** 2, together, rtol=1e-9)


def test_novelty_by_hand(rng):
    """Variances over their leave-one-out values, by inverses; probabilities fall back to shares."""
    X, y = waves(rng, 24, 3, channels=2)
    X, y = X[(y > 0) | (np.arange(24) < 9)], y[(y > 0) | (np.arange(24) < 9)]
    Z = np.concatenate([waves(rng, 4, 3, channels=2)[0], 5 * rng.standard_normal((3, 2, 24))])
    model = ResidualKernelClassifier(penalty=1e-3, **QUICK).fit(X, y)
    used = model.passes_["weight"] > 0
    logs, weights = np.zeros((4, 7)), used / model.passes_["error"]
    matrices = zip(mean_of_kernels(model, X, X), mean_of_kernels(model, Z, X), strict=True)
    for log, (K, k) in zip(logs, matrices, strict=True):
        log[:] = np.log(novelties(K, k, 1e-3)[0])
    novelty = np.exp(weights @ logs / weights.sum())
    np.testing.assert_allclose(model.novelty(Z), novelty, rtol=1e-6)
    assert novelty[:4].max() < novelty[4:].min() < 3 < novelty.max()
    near = np.minimum(1, 3 / novelty)[:, None]
    shares = np.bincount(y) / len(y)
    assert shares[0] < shares[1]
    logits = near * model.inverse_temperature_ * model.decision_function(Z)
    chances = np.exp(logits + (1 - near) * np.log(shares))
    chances /= chances.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(Z), chances, rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(1e9 * Z[4:]).sum(axis=1), 1)


@pytest.mark.parametrize("landmarks", [None, 15])
def test_noise_is_novel_and_its_class_uncertain(landmarks, rng):
    X, y = waves(rng, 60, 2)
    noise = X.std() * rng.standard_normal((30, 1, 24))
    model = ResidualKernelClassifier(effort="fast", landmarks=landmarks).fit(X[:40], y[:40])
    assert model.novelty(X[40:]).max() < model.novelty(noise).min()
    assert 0.3 < np.median(model.novelty(X[40:])) < 2
    assert model.predict_proba(noise).max(axis=1).mean() < 0.9
    assert model.score(X[40:], y[40:]) == 1.0
