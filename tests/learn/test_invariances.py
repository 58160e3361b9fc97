"""The order of signals, copies in place of weights, batches and units change no result."""

import warnings
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.base import clone

from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor
from rescntk.learn.ensemble.levels import LevelsAndSizes
from tests import tolerances
from tests.helpers import assert_within
from tests.learn.cases import FOUR_VIEWS, ONE_VIEW, ignores_scores, waves
from tests.learn.estimators import call, methods_of

ESTIMATORS = [ResidualKernelClassifier, ResidualKernelRegressor]
EVERY, REPEATED = np.arange(24), np.array([0, 0, 3, 7])
"""Places of training signals, and of some that stand twice or three times."""


class Fits:
    """Fits of one kind of estimator to 24 signals of integers: an array, or a list."""

    def __init__(self, kind, lists):
        X, self.y = waves(np.random.default_rng(0), 24, 2, length=16)
        X = np.round(10 * X)
        self.signals = [x[:, : 16 - k % 3] for k, x in enumerate(X)] if lists else X
        self.new = X[:6] + 1
        self.kind, self.lists, self.settings = kind, lists, ONE_VIEW if lists else FOUR_VIEWS
        self.expected = self.results(EVERY)

    def fit(self, cases, weights=None, form=np.asarray):
        """Return a model of some signals; `form` changes how their numbers are stored."""
        cut = [form(self.signals[k]) for k in cases] if self.lists else form(self.signals[cases])
        model = self.kind(**self.settings, random_state=0)
        return model.fit(cut, 1.0 * self.y[cases], sample_weight=weights)

    def results(self, cases, weights=None, form=np.asarray):
        """Return what every method says about new signals, and every attribute, by their names.

        Attributes that have a value for each training signal have those of `EVERY`, in this order.
        """
        model = self.fit(cases, weights, form)
        results = {name: call(model, name, self.new) for name in methods_of(model)}
        places = [list(cases).index(k) for k in EVERY]
        attributes = {name: value for name, value in vars(model).items() if name.endswith("_")}
        table = attributes.pop("views_")
        for name, value in (attributes | {k: table[k] for k in ("error", "weight")}).items():
            results[name] = value[places] if has_rows_for(cases, value) else value
        return {name: flat(value) for name, value in results.items() if value is not None}


def has_rows_for(cases, value):
    return isinstance(value, np.ndarray) and len(value) == len(cases)


def flat(value):
    """Return all numbers of a result: an array, a list or a pair of arrays, or a number."""
    if isinstance(value, list | tuple):
        return np.concatenate([np.ravel(part) for part in value])
    return np.ravel(value).astype(float)


def assert_same(found, expected, tolerance=0.0):
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert_within(value, expected[name], tolerance, np.abs(expected[name]).max() or 1.0)


@pytest.fixture(scope="module", params=product(ESTIMATORS, ("array", "list")), ids=str)
def fits(request):
    kind, form = request.param
    return Fits(kind, form == "list")


def test_the_order_of_signals_changes_no_bit(fits):
    assert_same(fits.results(EVERY[::-1]), fits.expected)


def test_integers_have_the_bits_of_their_floats(fits):
    integers = fits.results(EVERY, form=lambda S: S.astype(np.int64))
    assert_same(integers, fits.expected)


def test_the_layout_and_precision_of_integers_change_no_bit(fits):
    """Columns first, in float32."""
    columns_first = fits.results(EVERY, form=lambda S: np.asfortranarray(S, np.float32))
    assert_same(columns_first, fits.expected)


def test_weights_stand_for_copies(fits):
    copies = fits.results(np.append(EVERY, REPEATED))
    weights = np.ones(24) + np.bincount(REPEATED, minlength=24)
    assert_same(fits.results(EVERY, weights), copies, tolerances.ROUTES)


@ignores_scores  # of views that do not suit
@pytest.mark.parametrize("view", FOUR_VIEWS["views"])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_weights_stand_for_signals_that_are_nearly_copies(kind, view, rng):
    """Which are other cases, of one group: scales of a view, its errors and the intercept."""
    X, y = waves(rng, 24, 2, length=16)
    X *= 1 + np.arange(24)[:, None, None] % 3  # heavy signals are larger
    X, repeats = X + rng.standard_normal((24, 1, 1)), 1 + 3 * (np.arange(24) % 3 == 2)
    members, results = np.repeat(np.arange(24), repeats), []
    y = (repeats > 1) | (y > 0)  # so that weights change the mean label
    near = X[members] + 1e-9 * rng.standard_normal((len(members), 1, 16))
    for signals, labels, weights, groups, penalty in (
        (X, y, repeats, np.arange(24), 0.1 / repeats.mean()),  # its unit are weights of mean 1
        (near, y[members], None, members, 0.1),
    ):
        model = kind([view], dtype="float64", penalty=penalty, random_state=0)
        model.fit(signals, 1.0 * labels, sample_weight=weights, groups=groups)
        numbers = [*model.intercept_, model.left_out_score_, *model.views_["error"]]
        results.append([*model.predict(X), *model.contributions(X).ravel(), *numbers])
    roots_of_changes = 1e-4  # spectra are roots of magnitudes, some of which are next to 0
    assert_within(results[0], results[1], roots_of_changes)


def test_signals_of_weight_zero_do_not_count(fits):
    weights = np.append(np.ones(24), np.zeros(4))
    found = fits.results(np.append(EVERY, REPEATED), weights)
    assert_same(found, fits.expected, tolerances.ROUTES)


def results_of_signals(model, cases):
    """Return the attributes that have a value for each training signal."""
    values = [value for value in vars(model).values() if has_rows_for(cases, value)]
    assert len(values) > 1
    return values


def test_signals_of_weight_zero_have_no_results(fits):
    cases = np.append(EVERY, REPEATED)
    model = fits.fit(cases, np.where(cases == 7, 0.0, 1.0))
    for values in results_of_signals(model, cases):
        assert (np.isnan(values.reshape(28, -1)) == (cases == 7)[:, None]).all()


def test_copies_have_equal_results(fits):
    cases = np.append(EVERY, REPEATED)
    for values in results_of_signals(fits.fit(cases), cases):
        assert (values[24:] == values[REPEATED]).all()


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
    sizes, distances = [], LevelsAndSizes.distances

    def recorded(levels, batch):
        sizes.append(len(batch))
        return distances(levels, batch)

    monkeypatch.setattr(LevelsAndSizes, "distances", recorded)
    found = [model.decision_function(Z)]
    assert sum(sizes) == n and max(sizes) < 128
    found += model.novelty(Z), model.contributions(Z)
    for again, value in zip(found, expected, strict=True):
        assert (again == value).all()


class Units(NamedTuple):
    """A model, the same model of signals times 2^power, and new signals, whose levels are far."""

    model: object
    scaled: object
    Z: np.ndarray
    power: int


@pytest.fixture(scope="module", params=ESTIMATORS, ids=str)
def model_and_signals(request):
    X, y = waves(np.random.default_rng(0), 24, 2, length=80)
    return request.param(random_state=0).fit(X, y), X, y


@pytest.fixture(scope="module", params=[-900, -601, 40, 601, 900])
def units(request, model_and_signals):
    model, X, y = model_and_signals
    with warnings.catch_warnings(action="error"):
        scaled = clone(model).fit(np.ldexp(X, request.param), y)
    return Units(model, scaled, X[:8] + 5.0, request.param)


errors_at_warnings = pytest.mark.filterwarnings("error")


@pytest.mark.slow
@errors_at_warnings
def test_contributions_do_not_depend_on_the_unit_of_all_signals(units):
    """A power of four changes no bit; another power of two changes roots in spectra."""
    scaled = units.scaled.contributions(np.ldexp(units.Z, units.power))
    bar = tolerances.KERNEL["float32"] if units.power % 2 else 0
    assert_within(scaled - units.model.contributions(units.Z), 0, bar, 1)


@pytest.mark.slow
@errors_at_warnings
def test_novelties_do_not_depend_on_the_unit_of_all_signals(units):
    scaled = units.scaled.novelty(np.ldexp(units.Z, units.power))
    assert_within(scaled / units.model.novelty(units.Z), 1, tolerances.KERNEL["float32"])


@pytest.mark.slow
@errors_at_warnings
def test_predictions_of_signals_in_another_unit_are_finite(rng):
    X, y = waves(rng, 24, 2, length=80)
    far = ResidualKernelRegressor(**ONE_VIEW).fit(X, y).predict(np.ldexp(X, 800))
    assert np.isfinite(far).all()


@errors_at_warnings
def test_signals_below_zero_have_the_unit_of_their_magnitudes(rng):
    """The largest number is 0, and squares of the others leave float64."""
    X, y = waves(rng, 24, 2)
    X -= X.max()
    predicted, large = (
        ResidualKernelRegressor(**ONE_VIEW).fit(signals, y).predict(signals)
        for signals in (X, np.ldexp(X, 600))
    )
    assert (large == predicted).all()
