"""Forecasts at more signals: intervals from left-out errors, against sampling and measurements."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import beta

from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor
from rescntk.learn.forecast import _DOUBT, _EXPONENT, _SPREAD, forecast


def model(wrong=6, n=40, kind=ResidualKernelClassifier, error=0.02, different=None):
    """Return what a forecast reads of a fitted estimator."""
    found = kind(effort="fast")
    found.best_score_, found.best_score_error_ = 1 - wrong / n, error
    found._fitted = SimpleNamespace(counts=(n, different or n))
    return found


def test_quantiles_of_sampled_errors():
    """The interval has the quantiles of today's error times (m/n)^−exponent, both drawn."""
    rng, size = np.random.default_rng(0), 400_000
    exponents = rng.normal(_EXPONENT, _SPREAD, size)
    trials = 40 / _DOUBT
    today = beta.rvs(0.15 * trials + 0.5, 0.85 * trials + 0.5, size=size, random_state=rng)
    for coverage in (0.8, 0.5):
        for row in forecast(model(), (40, 80, 160), coverage):
            drawn = today * (row.n / 40) ** -exponents
            ends = np.quantile(drawn, [(1 - coverage) / 2, 0.5, (1 + coverage) / 2])
            assert np.abs(np.array([row.lower, row.error, row.upper]) / ends - 1).max() < 0.02
    (row,) = forecast(model(kind=ResidualKernelRegressor), (120,))
    drawn = rng.normal(0, 0.02 / 0.15, size)
    drawn -= np.log(3) * rng.normal(_EXPONENT, _SPREAD, size)
    ends = 0.15 * np.exp(np.quantile(drawn, [0.1, 0.5, 0.9]))
    assert np.abs(np.array([row.lower, row.error, row.upper]) / ends - 1).max() < 0.02


def test_corners():
    none = forecast(model(0), (40, 160))
    assert all(row.lower == 0 < row.error < row.upper < 0.1 for row in none)
    every = forecast(model(40), (40,)).rows[0]
    assert 0.9 < every.lower < every.error <= every.upper <= 1
    widths = [row.upper / row.lower for row in forecast(model(), range(40, 161, 40))]
    assert (np.diff(widths) > 0).all()  # the farther, the less certain
    few, many = (forecast(model(n * 0.15, n), (2 * n,)).rows[0] for n in (20, 400))
    assert few.upper / few.lower > many.upper / many.lower
    copies = forecast(model(different=10), (80,)).rows[0]  # of ten signals, four times each
    assert copies.upper / copies.lower > widths[1]
    perfect = forecast(model(0, kind=ResidualKernelRegressor, error=0.0), (80,)).rows[0]
    assert 0 == perfect.lower <= perfect.error <= perfect.upper < 1e-300


def test_of_fitted_estimators(rng):
    """Forecasts reach the estimators, and lie around what more signals give."""

    def signals(n):
        y = np.arange(n) % 2
        waves = np.sin(np.arange(24) * (0.5 + 0.1 * y[:, None]) + rng.uniform(0, 6, (n, 1)))
        return (waves + 0.7 * rng.standard_normal((n, 24)))[:, None], y

    X, y = signals(60)
    classifier = ResidualKernelClassifier(effort="fast").fit(X[:30], y[:30])
    with pytest.raises(ValueError, match="sizes has 20, expected 30 to 120: at least the 30 sig"):
        classifier.forecast((20,))
    found = classifier.forecast((60,), coverage=0.95)
    assert found.n == 30
    assert found.error == 1 - classifier.best_score_
    more = ResidualKernelClassifier(effort="fast").fit(X, y)
    assert found.rows[0].lower <= 1 - more.score(*signals(200)) <= found.rows[0].upper
    assert "share of wrong answers" in str(found)
    regressor = ResidualKernelRegressor(effort="fast").fit(X[:30], y[:30] + 0.1 * X[:30, 0, 0])
    assert regressor.forecast((30, 120)).quantity == "1 − R²"
    twice = ResidualKernelClassifier(effort="fast").fit(np.repeat(X[:30], 2, 0), y[:30].repeat(2))
    assert twice._fitted.counts == (60, 30)


@pytest.mark.parametrize(
    ("sizes", "coverage", "message"),
    [
        ((161,), 0.8, "sizes has 161, expected 40 to 160"),
        ((), 0.8, "sizes is empty"),
        (("60",), 0.8, "sizes is '60', expected an integer"),
        ((60,), 1.0, "coverage is 1.0, expected a number between 0 and 1"),
        ((60,), 0, "coverage is 0, expected a positive number"),
    ],
)
def test_refusals(sizes, coverage, message):
    with pytest.raises(ValueError, match=message):
        forecast(model(), sizes, coverage)


def test_refusals_of_models():
    with pytest.raises(ValueError, match="not fitted"):  # NotFittedError is one
        ResidualKernelClassifier().forecast((60,))
    unknown = model()
    unknown.best_score_ = np.nan
    with pytest.raises(ValueError, match="best_score_ is nan"):
        unknown.forecast((60,))
