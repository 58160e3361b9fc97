"""What changes no result: the order of signals, copies in place of weights, batches, units."""

from unittest.mock import Mock

import numpy as np
import pytest

from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, estimator
from rescntk.learn.view_weights import weights_at
from tests import tolerances
from tests.helpers import assert_within
from tests.learn.cases import FOUR, ONE, waves


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
    assert_within(fitted(every, weights), repeated, tolerances.ROUTES)
    zero = np.append(np.ones(24), np.zeros(4))
    assert_within(fitted(np.append(every, more), zero), expected, tolerances.ROUTES)


@pytest.fixture(scope="module")
def fitted():
    """Return a classifier and 193 new signals."""
    rng = np.random.default_rng(0)
    model = ResidualKernelClassifier("fast", random_state=0).fit(*waves(rng, 24, 3))
    return model, waves(rng, 193, 3)[0]


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 127, 128, 193])
def test_signals_in_batches_have_the_same_bits(n, fitted, monkeypatch, little_memory):
    model, Z = fitted[0], fitted[1][:n]
    expected = model.decision_function(Z), model.novelty(Z), model.contributions(Z)
    little_memory()
    at_signals = Mock(wraps=weights_at)
    monkeypatch.setattr(estimator, "weights_at", at_signals)
    found = [model.decision_function(Z)]
    sizes = [len(call.args[2]) for call in at_signals.call_args_list]  # of distances
    assert sum(sizes) == n and max(sizes) < 128
    found += model.novelty(Z), model.contributions(Z)
    for again, value in zip(found, expected, strict=True):
        assert (again == value).all()


@pytest.mark.slow
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
        assert_within(off, 0, tolerances.KERNEL["float32"] if power % 2 else 0, 1)
        assert_within(novelties, 1, tolerances.KERNEL["float32"])
    far = ResidualKernelRegressor(**ONE).fit(X, y).predict(np.ldexp(X, 800))
    assert np.isfinite(far).all()
