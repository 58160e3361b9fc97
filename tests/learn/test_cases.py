"""Weights of signals: repetitions, weighted normal equations, and what does not depend on order."""

import numpy as np
import pytest

from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor
from rescntk.learn.inputs import find_cases
from tests.learn.cases import ONE, bordered, mean_of_kernels, refitted, waves

VIEWED = ONE | {"constant": True, "max_length": 12, "block_statistics": True, "time_scale": 1.0}
VIEWED |= {"standardize": True, "first_differences": True}


def test_cases_by_hand(rng):
    X, y = rng.standard_normal((4, 2, 5)), np.array([[0], [1], [0], [1]])
    rows = np.array([2, 0, 1, 0, 3, 2, 0])
    weights = np.array([1.0, 2, 3, 4, 5, 6, 7])
    cases = find_cases(X[rows], y[rows], weights)
    assert len(cases.signals) == 4 and cases.weights.mean() == pytest.approx(1.0)
    assert (cases.signals[cases.places] == X[rows]).all()
    assert (cases.targets[cases.places] == y[rows]).all()
    sums = np.bincount(rows, weights)[rows]
    np.testing.assert_allclose(cases.weights[cases.places], sums / 7)  # 28 in 4 cases
    other = y[rows].copy()
    other[1] = 1  # the same signal with another target is another case
    assert len(find_cases(X[rows], other, weights).signals) == 5
    whole = np.round(X)
    for same in (whole + 0.0, whole.astype(int), whole.astype("f4")):  # of -0.0 too
        assert (
            len(find_cases(np.concatenate([whole, same]), np.tile(y, (2, 1)), np.ones(8))[0]) == 4
        )
    ragged = find_cases([*X, X[0][:, :3], X[0]], np.zeros((6, 1)), np.ones(6))
    assert len(ragged.signals) == 5 and sorted(ragged.weights) == [5 / 6] * 4 + [10 / 6]


@pytest.mark.filterwarnings("ignore:.*at frequencies that")
@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("landmarks", [None, 6])
def test_weights_are_repetitions_in_any_order(lists, landmarks, rng):
    """The same to the last bit: signals of weight 2 or twice, of weight 0 or not at all."""
    X, y = waves(rng, 14, 3, channels=2)
    numbers, times = rng.standard_normal((14, 2)), rng.integers(1, 4, 14)
    times[[3, 8]] = 0
    many, order = np.repeat(np.arange(14), times), rng.permutation(14)
    given = [x[:, : 20 + i % 3] for i, x in enumerate(X)] if lists else X
    options = VIEWED | {"landmarks": landmarks, "dtype": "float32"}
    for model, targets in (
        (ResidualKernelClassifier(class_weight="balanced", **options), y),
        (ResidualKernelRegressor(**options), numbers),
    ):
        decide = getattr(model, "decision_function", model.predict)
        model.fit([given[i] for i in many], targets[many])
        expected, score = decide(given), model.best_score_
        model.fit([given[i] for i in order], targets[order], sample_weight=0.5 * times[order])
        assert (decide(given) == expected).all() and model.best_score_ == score
    assert model.kernel_matrix(X[:2]).shape == (2, landmarks or 12)


def test_weighted_regression_by_hand(rng):
    """Weighted means, normal equations with λ/w, errors by refits, the Gaussian process."""
    X, y, w = rng.standard_normal((16, 1, 8)), rng.standard_normal(16), rng.uniform(0.2, 3, 16)
    model = ResidualKernelRegressor(penalty=0.1, **ONE).fit(X, y, sample_weight=w)
    w = w / w.mean()
    mean = np.average(y, weights=w)
    scale = np.sqrt(np.average((y - mean) ** 2, weights=w))
    assert model.target_mean_[0] == pytest.approx(mean)
    assert model.target_scale_[0] == pytest.approx(scale)
    Z = rng.standard_normal((3, 1, 8))
    (K,), (k,) = mean_of_kernels(model, X, X), mean_of_kernels(model, Z, X)
    Y = (y[:, None] - mean) / scale
    beta, b = bordered(K, Y, 0.1 / w)
    found, deviation = model.predict(Z, return_std=True)
    np.testing.assert_allclose(found, mean + scale * (k @ beta + b)[:, 0])
    inverse = np.linalg.inv(K + 0.1 * np.diag(1 / w))
    sigma = np.mean(beta * (Y - b))
    variance = sigma * (1 - np.einsum("zi,ij,zj->z", k, inverse, k) + 0.1)
    np.testing.assert_allclose(deviation, scale * np.sqrt(variance))
    squares = (refitted(K, Y, 0.1 / w) - Y)[:, 0] ** 2
    expected = np.average(squares, weights=w)
    assert model.passes_["error"][0] == pytest.approx(expected)
    assert model.best_score_ == pytest.approx(1 - expected)
    spread = w * (squares - expected)
    assert model.best_score_error_ == pytest.approx(1.5 * np.sqrt(np.sum(spread**2)) / 16)


def test_copies_do_not_make_the_score_optimistic(rng):
    """Noise that comes three times: a copy would tell the label of the signal left out."""
    X, y = rng.standard_normal((40, 1, 12)), np.arange(40) % 2
    many = np.repeat(np.arange(40), 3)
    model = ResidualKernelClassifier(**ONE).fit(X[many], y[many])
    assert model.best_score_ <= 0.5 + 3 * model.best_score_error_
    assert model.best_score_error_ > 0.05  # of 40 signals, not of 120
    assert model.score(X, y) == 1.0


def test_scores_take_weights(rng):
    X, y = waves(rng, 24, 2)
    y[:4] = 1 - y[:4]  # wrong labels, of little weight
    w = np.where(np.arange(24) < 4, 1e-3, 1.0)
    model = ResidualKernelClassifier(penalty=0.1, **ONE).fit(X, y, sample_weight=w)
    assert model.best_score_ > 0.95 and model.score(X, y, sample_weight=w) > 0.95
    assert model.score(X[:4], y[:4]) < 0.5
    plain = ResidualKernelClassifier(penalty=0.1, **ONE).fit(X, y)
    assert plain.best_score_ < 0.9


def test_refusals(rng):
    X, y = waves(rng, 10, 2)
    for bad, said in (
        (np.ones(9), r"sample_weight has shape \(9,\), expected \(10,\)"),
        (np.arange(10) - 1.0, "sample_weight has values from -1 to 8, expected numbers of at"),
        (np.zeros(10), "not all zero"),
        (np.full(10, np.nan), "sample_weight .* contains NaN"),
        (np.logspace(-300, 300, 10), r"from 1e-300 to 1e\+300 above 0, expected a ratio"),
    ):
        for model in (ResidualKernelClassifier(**ONE), ResidualKernelRegressor(**ONE)):
            with pytest.raises(ValueError, match=said):
                model.fit(X, y, sample_weight=bad)
    with pytest.raises(ValueError, match="y has one class, 1"):
        ResidualKernelClassifier(**ONE).fit(X, y, sample_weight=y)
    with pytest.raises(ValueError, match="two signals that differ"):
        ResidualKernelRegressor(**ONE).fit(X[[0, 0]], [1.0, 1.0])
