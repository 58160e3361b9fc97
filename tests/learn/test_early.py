"""Labels before a signal's end: rules beside loops and simulations, and what a label sees."""

import pickle
import warnings
from copy import copy

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from rescntk.learn import EarlyClassifier, ResidualKernelClassifier
from rescntk.learn.early.early_classifier import prefix_lengths
from rescntk.learn.early.stopping import (
    SIGNIFICANCE,
    Progress,
    StoppingRule,
    best_rule,
    harmonic_mean,
    rule_with_error_bound,
)
from tests import tolerances
from tests.helpers import assert_within
from tests.learn.cases import ONE_VIEW, beginnings, ignores_scores
from tests.learn.estimators import fitted_views

PENALTY = 0.01
INNER = ResidualKernelClassifier(**ONE_VIEW, penalty=PENALTY, random_state=0)


def drawn(rng, n, n_prefixes=6, n_classes=3, drift=0.4):
    """Return probabilities (n_prefixes, n, n_classes) by Bayes' rule, and the classes.

    Each time point adds a normal number of mean `drift` to the class's log-odds, and of mean 0 to
    the others'.
    """
    class_indices = rng.integers(0, n_classes, n)
    steps = rng.standard_normal((n_prefixes, n, n_classes))
    steps[:, np.arange(n), class_indices] += drift
    odds = np.exp(drift * np.cumsum(steps, axis=0))
    return odds / odds.sum(axis=2, keepdims=True), class_indices


def by_loops(proba, threshold, agreement):
    """Return the index of the last prefix and the label of each signal, one after the other."""
    n_prefixes, n, _ = proba.shape
    last, labels = [], []
    for case in range(n):
        seen = []
        for k in range(n_prefixes):
            seen.append(int(np.argmax(proba[k, case])))
            equal = len(seen) >= agreement and len(set(seen[-agreement:])) == 1
            if k == n_prefixes - 1 or (equal and proba[k, case].max() >= threshold):
                break
        last.append(k)
        labels.append(seen[-1])
    return np.array(last), np.array(labels)


@pytest.mark.parametrize("agreement", [1, 2])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 0.8, np.inf])
def test_a_rule_is_what_loops_do(threshold, agreement, rng):
    proba, _ = drawn(rng, 200)
    last, labels = by_loops(proba, threshold, agreement)
    end = StoppingRule(threshold, agreement).simulate(proba)
    assert (end.last == last).all() and (end.class_indices == labels).all() and end.final.all()
    assert (end.proba == proba[last, np.arange(200)]).all()


@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_signals_of_tests_end_at_several_prefixes(threshold, rng):
    last, _ = by_loops(drawn(rng, 200)[0], threshold, agreement=1)
    assert len(set(last)) > 2


LENGTHS = np.array([4, 8, 12, 16, 20, 24])
"""Numbers of time points of six prefixes."""


def harmonic_mean_by_loops(proba, class_indices, threshold, agreement):
    """Return the harmonic mean of accuracy and saved time of labels by loops over signals."""
    last, labels = by_loops(proba, threshold, agreement)
    accuracy, saved = np.mean(labels == class_indices), 1 - np.mean(LENGTHS[last]) / 24
    return 2 * accuracy * saved / (accuracy + saved) if saved else 0.0


def test_the_harmonic_mean_is_the_best_of_all_thresholds(rng):
    drawn_labels = proba, class_indices = drawn(rng, 40, drift=1.0)
    rule = best_rule(proba, class_indices, LENGTHS, harmonic_mean)
    every = [
        harmonic_mean_by_loops(*drawn_labels, threshold, agreement)
        for threshold in np.unique(proba.max(axis=2))
        for agreement in (1, 2)
    ]
    found = harmonic_mean_by_loops(*drawn_labels, rule.threshold, rule.agreement)
    assert_within(found, max(every), tolerances.ROUTES)
    assert found > harmonic_mean_by_loops(*drawn_labels, 0.0, 1) + 0.05


def test_of_equal_harmonic_means_the_strictest_rule_counts(rng):
    """Two labels in a row before one, and the greatest threshold first."""
    for n in (3, 5, 12) * 20:
        proba, class_indices = drawn(rng, n, drift=1.0)
        proba = np.round(proba, 1)
        thresholds = np.unique(proba[:-1].max(axis=2))[::-1]
        rules = [StoppingRule(t, agreement) for agreement in (2, 1) for t in thresholds]
        means = [
            harmonic_mean_by_loops(proba, class_indices, rule.threshold, rule.agreement)
            for rule in rules
        ]
        expected = rules[int(np.argmax(means))]  # the first of equal ones
        assert best_rule(proba, class_indices, LENGTHS, harmonic_mean) == expected


def test_two_labels_in_a_row_are_asked_for_where_they_cost_nothing():
    """One signal is sure at its second prefix, the others begin wrong and are sure at the third."""
    sure, unsure = [0.9, 0.1], [0.6, 0.4]
    one, other = [unsure, sure, sure, sure], [unsure[::-1], unsure, sure, sure]
    proba = np.array([one, other, other, other]).swapaxes(0, 1)
    rule = best_rule(proba, np.zeros(4, dtype=int), np.arange(1, 5), harmonic_mean)
    assert rule == StoppingRule(0.9, 2)


def test_of_many_thresholds_some_are_as_good_as_all(rng):
    """Two hundred of three thousand: the mean is next to the best of all."""
    (proba, class_indices), next_to = drawn(rng, 600, drift=1.0), 0.005

    def mean(rule):
        end = rule.simulate(proba)
        accuracy = np.mean(end.class_indices == class_indices)
        return harmonic_mean(accuracy, np.mean(LENGTHS[end.last]) / 24)

    rules = [
        StoppingRule(threshold, agreement)
        for threshold in np.sort(proba[:-1].max(axis=2).ravel())[::10]
        for agreement in (1, 2)
    ]
    found = best_rule(proba, class_indices, LENGTHS, harmonic_mean)
    assert mean(found) >= max(map(mean, rules)) - next_to


@pytest.mark.parametrize("agreement", [1, 2])
def test_signals_that_arrive_in_parts_end_as_whole_ones(agreement, rng):
    """Prefixes that were seen are not seen again, whichever signals have a final label."""
    proba, _ = drawn(rng, 100, drift=1.0)
    rule, progress = StoppingRule(0.8, agreement), Progress.begin(100, 3)
    for n_seen in (2, 3, 6):
        rule.advance(progress, lambda k, at: proba[k, at], 6, n_seen)
    end = rule.simulate(proba)
    assert len(set(end.last)) > 2
    for name in ("last", "class_indices", "streaks", "final", "proba"):
        assert (getattr(progress, name) == getattr(end, name)).all()


def test_no_label_is_early_where_none_is_right(rng):
    proba, class_indices = drawn(rng, 12, drift=1.0)
    wrong = (class_indices + 1) % proba.shape[2]
    proba[:] = np.eye(proba.shape[2])[wrong] * 0.8 + 0.1
    assert best_rule(proba, class_indices, LENGTHS, harmonic_mean) == StoppingRule(np.inf)


def test_labels_that_take_all_points_have_the_harmonic_mean_0():
    assert harmonic_mean(1.0, 1.0) == harmonic_mean(0.0, 1.0) == 0


def one_early_prefix(right):
    """Return probabilities at an early prefix and at the end, all alike, and classes."""
    return np.full((2, len(right), 2), [0.9, 0.1]), np.where(right, 0, 1)


@pytest.mark.parametrize("error", [0.05, 0.2])
def test_a_bound_is_the_exact_binomial_test(error):
    for n in range(10, 90, 3):
        for wrong in range(6):
            proba, class_indices = one_early_prefix(np.arange(n) >= wrong)
            rule = rule_with_error_bound(proba, class_indices, np.arange(n), error)
            passes = binomtest(wrong, n, error, "less").pvalue <= SIGNIFICANCE
            assert np.isfinite(rule.threshold) == passes


def test_a_group_counts_with_its_share_of_wrong_labels():
    """Halves of two groups are one wrong label."""
    for n in range(20, 70, 5):
        for wrong in range(4):
            whole = one_early_prefix(np.arange(n) >= wrong)
            halves = one_early_prefix((np.arange(4 * n) >= 8 * wrong) | (np.arange(4 * n) % 2 == 0))
            grouped = rule_with_error_bound(*halves, np.arange(4 * n) // 4, 0.1)
            assert grouped == rule_with_error_bound(*whole, np.arange(n), 0.1)


def test_all_labels_are_early_where_all_are_right(rng):
    peaks = rng.uniform(0.6, 0.9, 90)
    proba = np.broadcast_to(np.stack([peaks, 1 - peaks], axis=1), (3, 90, 2))
    rule = rule_with_error_bound(proba, np.zeros(90, dtype=int), np.arange(90), 0.1)
    assert rule.threshold == peaks.min()


def test_the_strictest_tested_threshold_makes_a_twentieth_of_labels_early(rng):
    """Sixty sure labels of two thousand are right, and forty that are nearly as sure are wrong."""
    peaks, right = rng.uniform(0.5, 0.9, 2000), np.ones(2000, dtype=bool)
    peaks[:60], peaks[60:100], right[60:100] = 0.99, 0.95, False
    proba = np.broadcast_to(np.stack([peaks, 1 - peaks], axis=1), (2, 2000, 2))
    rule = rule_with_error_bound(proba, np.where(right, 0, 1), np.arange(2000), 0.1)
    assert rule == StoppingRule(np.inf)


def test_the_only_prefix_has_no_early_labels(rng):
    proba, class_indices = drawn(rng, 40, n_prefixes=1)
    rules = [
        best_rule(proba, class_indices, np.array([24]), harmonic_mean),
        rule_with_error_bound(proba, class_indices, np.arange(40), 0.1),
    ]
    assert rules == [StoppingRule(np.inf)] * 2


def test_a_bound_passes_the_exact_test_and_the_next_threshold_does_not(rng):
    """The steps by loops, with scipy's binomial test."""
    proba, class_indices = drawn(rng, 300, drift=0.9)
    rule = rule_with_error_bound(proba, class_indices, np.arange(300), 0.05)
    peaks = np.sort(proba[:-1].max(axis=(0, 2)))[::-1]
    passed = []
    for k in range(1, 21):  # the 15 k-th greatest peaks
        last, labels = by_loops(proba, peaks[min(15 * k, 299)], 1)
        early = last < 5
        wrong = int(np.sum((labels != class_indices) & early))
        if 0.95 ** early.sum() <= SIGNIFICANCE:
            passed.append(binomtest(wrong, int(early.sum()), 0.05, "less").pvalue <= SIGNIFICANCE)
    n_passed = passed.index(False)
    assert 0 < n_passed < len(passed)
    reached = np.mean(peaks >= rule.threshold)
    skipped = 20 - len(passed)
    one_peak = 1 / 300
    assert abs(reached - (skipped + n_passed) / 20) <= one_peak


@pytest.fixture(scope="module")
def errors():
    """Return thresholds, and the error among early labels of 10⁵ signals at each."""
    proba, class_indices = drawn(np.random.default_rng(7), 100_000, drift=1.0)
    thresholds = np.quantile(proba[:-1].max(axis=(0, 2)), np.linspace(0, 0.999, 100))
    ends = [StoppingRule(threshold).simulate(proba) for threshold in thresholds]
    return thresholds, [np.mean((end.class_indices != class_indices)[end.last < 5]) for end in ends]


@pytest.mark.slow
@pytest.mark.parametrize("n", [80, 400])
@pytest.mark.parametrize("error", [0.05, 0.1])
def test_a_bound_holds_as_often_as_it_says(error, n, errors, rng):
    """Of independent signals: the true error exceeds it in one of ten draws at most.

    200 draws have a standard error of .02.
    """
    exceeded, early = [], []
    for _ in range(200):
        proba, class_indices = drawn(rng, n, drift=1.0)
        rule = rule_with_error_bound(proba, class_indices, np.arange(n), error)
        early.append(np.mean(rule.simulate(proba).last < 5))
        exceeded.append(early[-1] > 0 and np.interp(rule.threshold, *errors) > error)
    assert np.mean(exceeded) <= SIGNIFICANCE + 3 * np.sqrt(SIGNIFICANCE * (1 - SIGNIFICANCE) / 200)
    assert n < 400 or np.mean(early) > 0.1  # it is of use, too


def test_a_group_counts_once(rng):
    """Twenty copies of each signal show no more than one."""
    proba, class_indices = drawn(rng, 60, drift=2.0)
    alone = rule_with_error_bound(proba, class_indices, np.arange(60), 0.1)
    copies = np.repeat(np.arange(60), 20)
    assert rule_with_error_bound(proba[:, copies], class_indices[copies], copies, 0.1) == alone
    assert np.isfinite(alone.threshold)


def test_a_bound_takes_groups_enough_however_many_signals_they_have(rng):
    """Twenty groups of sixty signals show no error of .1: 22 right ones do."""
    proba, class_indices = drawn(rng, 1200, drift=2.0)
    rule = rule_with_error_bound(proba, class_indices, np.arange(1200) // 60, 0.1)
    assert rule == StoppingRule(np.inf)


@pytest.mark.parametrize(
    ("n", "n_prefixes", "expected"),
    [
        (24, 6, [4, 8, 12, 16, 20, 24]),
        (24, 10, [4, 5, 7, 10, 12, 14, 17, 19, 22, 24]),
        (10, 3, [4, 7, 10]),
        (3, 10, [3]),
        (1, 2, [1]),
        (150, 1, [150]),
    ],
)
def test_prefixes_are_evenly_spaced_from_four_points_on(n, n_prefixes, expected):
    assert prefix_lengths(n, n_prefixes).tolist() == expected


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("error", [None, 0.2])
def test_later_points_change_nothing(error, channels, rng):
    """A signal's points after its label's prefix are replaced by others."""
    X, y = beginnings(rng, 60, channels=channels)
    Z, _ = beginnings(rng, 40, channels=channels)
    model = EarlyClassifier(INNER, n_prefixes=8, error=error, random_state=0).fit(X, y)
    times, changed = model.predict_times(Z), Z.copy()
    assert len(set(times)) > 1 and (times < 32).mean() > 0.2
    for signal, time in zip(changed, times, strict=True):
        signal[:, time:] = 9 * rng.standard_normal(signal[:, time:].shape)
    for method in (model.predict, model.predict_times, model.predict_proba):
        assert (method(changed) == method(Z)).all()


def test_labels_are_the_most_probable_ones(early):
    model, Z, _ = early
    assert (model.classes_[model.predict_proba(Z).argmax(axis=1)] == model.predict(Z)).all()


def test_left_out_results_are_those_of_classifiers_of_the_prefixes(rng):
    X, y = beginnings(rng, 60)
    model = EarlyClassifier(INNER, n_prefixes=4).fit(X, y)
    assert model.prefixes_.tolist() == [8, 16, 24, 32]
    proba = np.array([clone(INNER).fit(X[:, :, :t], y).left_out_proba_ for t in model.prefixes_])
    last, labels = by_loops(proba, model.threshold_, model.agreement_)
    assert (model.left_out_prediction_ == labels).all()
    assert (model.left_out_times_ == model.prefixes_[last]).all()


def test_labels_are_those_given(rng):
    X, y = beginnings(rng, 60)
    model = EarlyClassifier(INNER, n_prefixes=4).fit(X, np.array(["a", "b"])[y])
    assert model.classes_.tolist() == ["a", "b"] and set(model.predict(X)) == {"a", "b"}


@pytest.fixture(scope="module")
def early():
    """An early classifier of four prefixes, new signals, and the time points of their labels."""
    X, y = beginnings(np.random.default_rng(20220317), 100)
    model = EarlyClassifier(INNER, n_prefixes=4, random_state=0).fit(X[:60], y[:60])
    times = model.predict_times(X[60:])
    assert len(set(times.tolist())) > 1
    return model, X[60:], times


ARRIVALS = pytest.mark.parametrize("n", [8, 11, 16, 23, 31, 32])
"""Numbers of time points that signals have so far."""


@ARRIVALS
def test_signals_that_arrive_have_the_labels_of_whole_signals(n, early):
    model, Z, times = early
    so_far, final = model.decide(Z[:, :, :n])
    assert (final == (times <= n)).all()
    assert (so_far[final] == model.predict(Z)[final]).all()


@ARRIVALS
def test_the_last_stage_has_the_probabilities_of_labels_that_end_there(n, early):
    model, Z, times = early
    stages = [*model.staged_predict_proba(Z[:, 0, :n])]
    assert len(stages) == n // 8
    ending = np.flatnonzero(times == 8 * len(stages))
    differences = np.abs(stages[-1][ending] - model.predict_proba(Z)[ending])
    assert (differences <= tolerances.solution(60, 1 / PENALTY)).all()


def test_whole_numbers_of_signals_that_arrive_are_time_points(rng):
    """As `predict` takes them: that they are different tells nothing of new signals."""
    X, y = beginnings(rng, 30)
    model, Z = EarlyClassifier(INNER, n_prefixes=2).fit(X, y), X[:, 0].copy()
    Z[:, 5] = np.arange(30)
    assert model.predict(Z).shape == model.decide(Z)[0].shape == (30,)


def seeds(estimator, random_state, rng):
    """Return the different seeds of the classifiers of three prefixes."""
    model = EarlyClassifier(estimator, n_prefixes=3, random_state=random_state)
    return {fitted.random_state for fitted in model.fit(*beginnings(rng, 30)).estimators_}


FREE = clone(INNER).set_params(random_state=None)


def test_the_seed_of_an_estimator_is_kept(rng):
    assert seeds(INNER, None, rng) == {0}


def test_classifiers_without_a_seed_have_one_for_all_prefixes(rng):
    (seed,) = seeds(FREE, None, rng)
    assert isinstance(seed, int)


@pytest.mark.parametrize("estimator", [INNER, FREE], ids=["with a seed", "without"])
@pytest.mark.parametrize("state", [3, np.random.RandomState(3)], ids=["integer", "state"])
def test_a_random_state_takes_the_place_of_the_estimator_s_seed(estimator, state, rng):
    state = clone(state, safe=False)  # a state goes on with each draw
    expected = np.random.RandomState(3).randint(np.iinfo(np.int32).max)
    assert seeds(estimator, state, rng) == {expected}


def test_clones_have_the_parameters_of_the_estimator():
    model = EarlyClassifier(INNER, n_prefixes=3, error=0.2)
    assert clone(model).get_params()["estimator__views"] == ONE_VIEW["views"]


def test_parameters_of_the_estimator_reach_all_classifiers(rng):
    X, y = beginnings(rng, 30)
    model = EarlyClassifier(clone(INNER), n_prefixes=3).set_params(estimator__penalty=0.5)
    assert {fitted.penalty for fitted in model.fit(X, y).estimators_} == {0.5}


def test_a_fit_leaves_the_estimator_as_it_was(rng):
    estimator = clone(INNER)
    before = vars(estimator).copy()
    EarlyClassifier(estimator, n_prefixes=2, random_state=5).fit(*beginnings(rng, 30))
    assert vars(estimator) == before


def test_copies_of_a_model_have_the_same_probabilities(rng):
    X, y = beginnings(rng, 30)
    model = EarlyClassifier(INNER, n_prefixes=3).fit(X, y)
    same = pickle.loads(pickle.dumps(model))
    assert (same.predict_proba(X) == model.predict_proba(X)).all()


def test_by_default_classifiers_have_fast_views(rng):
    (fitted,) = EarlyClassifier(n_prefixes=1).fit(*beginnings(rng, 30)).estimators_
    assert isinstance(fitted, ResidualKernelClassifier) and fitted.views == "fast"


def test_prefixes_without_differences_are_left_out(rng):
    X, y = beginnings(rng, 30)
    X[:, :, :16] = 1.0
    model = EarlyClassifier(INNER, n_prefixes=4).fit(X, y)
    assert model.prefixes_.tolist() == [24, 32]


@ignores_scores
def test_of_equal_signals_the_full_length_is_left():
    X, y = np.ones((12, 1, 32)), np.arange(12) % 2
    model = EarlyClassifier(INNER, n_prefixes=4).fit(X, y, groups=np.arange(12))
    assert model.prefixes_.tolist() == [32]


def test_a_bound_for_the_full_length_alone_is_no_reason_to_warn(rng):
    X, y = beginnings(rng, 30)
    model = EarlyClassifier(INNER, n_prefixes=1, error=0.1).fit(X, y)
    assert model.prefixes_.tolist() == [32] and model.threshold_ == np.inf


GROUPS = np.arange(60) // 2 % 10
"""Ten groups of sixty signals."""


def test_groups_are_left_out_whole(rng):
    X, y = beginnings(rng, 60)
    model = EarlyClassifier(INNER, n_prefixes=2).fit(X, y, groups=GROUPS)
    expected = clone(INNER).fit(X[:, :, :16], y, groups=GROUPS).left_out_proba_
    assert (model.estimators_[0].left_out_proba_ == expected).all()


def test_few_groups_warn_of_a_bound_and_have_no_early_label(rng):
    X, y = beginnings(rng, 60)
    model = EarlyClassifier(INNER, n_prefixes=2, error=0.1)
    with pytest.warns(UserWarning, match="10 training signals or groups cannot show so few"):
        model.fit(X, y, groups=GROUPS)
    assert model.threshold_ == np.inf and (model.predict_times(X) == 32).all()


def test_few_signals_warn_of_a_bound(rng):
    X, y = beginnings(rng, 40)
    says = r"error is 0.05, and no label is early: 40 training .* takes 45 right ones at least"
    with pytest.warns(UserWarning, match=says):
        EarlyClassifier(INNER, n_prefixes=2, error=0.05).fit(X, y)


class Forgetful(ResidualKernelClassifier):
    """A classifier without left-out probabilities."""

    def fit(self, X, y):
        super().fit(X, y)
        del self.left_out_proba_
        return self


class WithoutSomeLeftOut(ResidualKernelClassifier):
    """A classifier that leaves out one signal's probabilities."""

    def fit(self, X, y):
        super().fit(X, y)
        self.left_out_proba_[3] = np.nan
        return self


REFUSED = [
    (
        {"estimator": Forgetful(**ONE_VIEW)},
        "estimator is Forgetful.*no left_out_proba_ of all signals",
    ),
    ({"estimator": WithoutSomeLeftOut(**ONE_VIEW)}, "estimator is .*left_out_proba_ lacks signals"),
    ({"estimator": RidgeClassifier()}, r"estimator is Ridge.*expected a classifier with predict_p"),
    ({"estimator": "fast"}, "estimator is 'fast', expected a classifier with predict_proba"),
    ({"n_prefixes": 0}, "n_prefixes is 0, expected an integer of at least 1"),
    ({"error": 1}, "error is 1, expected None or a number below 1"),
    ({"error": 0.0}, "error is 0.0, expected a positive number"),
    ({"error": "low"}, "error is 'low', expected a finite number"),
]


@pytest.mark.parametrize(("parameters", "says"), REFUSED)
def test_parameters_are_refused_by_name(parameters, says, rng):
    X, y = beginnings(rng, 30)
    with pytest.raises(ValueError, match=f"^{says}"):
        EarlyClassifier(**{"estimator": INNER, "n_prefixes": 2} | parameters).fit(X, y)


def ragged(X):
    """Return signals of three lengths."""
    return [x[:, : X.shape[2] - k % 3] for k, x in enumerate(X)]


def test_fits_refuse_signals_of_different_lengths(rng):
    X, y = beginnings(rng, 30)
    with pytest.raises(ValueError, match="^X has signals of different lengths, expected one"):
        EarlyClassifier(INNER, n_prefixes=2).fit(ragged(X), y)


def test_fits_refuse_one_class(rng):
    X, _ = beginnings(rng, 30)
    with pytest.raises(ValueError, match="^y has one class"):
        EarlyClassifier(INNER, n_prefixes=2).fit(X, np.zeros(30))


def test_groups_that_the_estimator_does_not_take_are_refused(rng):
    X, y = beginnings(rng, 30)
    says = "groups is given, and the fit of estimator LogisticRegression.* takes none"
    with pytest.raises(ValueError, match=says):
        EarlyClassifier(LogisticRegression(), n_prefixes=2).fit(X, y, groups=y)


@pytest.mark.parametrize("method", ["predict", "predict_times", "predict_proba"])
def test_methods_of_whole_signals_refuse_beginnings(method, early):
    model, Z, _ = early
    with pytest.raises(ValueError, match="^X has signals of 1 channels × 20 time points, exp"):
        getattr(model, method)(Z[:, :, :20])


@pytest.mark.parametrize("method", ["decide", "staged_predict_proba"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda Z: Z[:, :, :7], "1 channels × 7 time points, expected 1 channels × 8 to 32"),
        (lambda Z: np.dstack([Z, Z]), "1 channels × 64 time points, expected 1 channels × 8 to"),
        (lambda Z: np.hstack([Z, Z]), "2 channels × 32 time points, expected 1 channels"),
        (ragged, "^X has signals of different lengths"),
    ],
    ids=["too short", "too long", "more channels", "different lengths"],
)
def test_methods_of_beginnings_refuse_other_signals(change, says, method, early):
    model, Z, _ = early
    with pytest.raises(ValueError, match=says):
        getattr(model, method)(change(Z))


@pytest.fixture
def early_table(rng, pd):
    """An early classifier of signals in a table with names of columns; and the table."""
    X, y = beginnings(rng, 30)
    table = pd.DataFrame(X[:, 0]).add_prefix("t")
    return EarlyClassifier(INNER, n_prefixes=2).fit(table, pd.Series(y)), table


def test_tables_have_the_labels_of_arrays(early_table):
    model, table = early_table
    assert (model.predict(table) == model.predict(table.to_numpy()[:, None])).all()


def test_the_first_columns_of_a_table_are_a_beginning(early_table):
    model, table = early_table
    final = model.decide(table.loc[:, :"t15"])[1]
    assert (final == (model.predict_times(table) == 16)).all()


def test_tables_with_columns_in_another_order_are_refused(early_table):
    model, table = early_table
    with pytest.raises(ValueError, match="same order as they were in fit"):
        model.predict(table[table.columns[::-1]])


def test_beginnings_of_many_channels_do_not_look_transposed(rng):
    """Sensors of one source are alike, and a beginning has fewer points than sensors."""
    y = np.arange(24) % 2
    X = rng.standard_normal((24, 1, 60)) + 0.15 * rng.standard_normal((24, 32, 60))
    X += y[:, None, None] * np.hanning(60)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*transposed")
        model = EarlyClassifier(ResidualKernelClassifier(**ONE_VIEW), n_prefixes=3).fit(X, y)
        model.decide(X[:, :, :20])


def test_a_bound_that_wrong_labels_do_not_meet_says_so(rng):
    """Of noise: 30 signals are enough for a bound of .25, which takes 9 right labels."""
    X, y = rng.standard_normal((30, 1, 24)), np.arange(30) % 2
    model = EarlyClassifier(ResidualKernelClassifier(**ONE_VIEW), n_prefixes=3, error=0.25)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    (found,) = [str(one.message) for one in caught if "no label is early" in str(one.message)]
    assert "left-out labels are wrong more often" in found


@pytest.mark.parametrize(("method", "options"), [("novelty", ()), ("predict_set", (0.8,))])
def test_novelty_and_sets_are_those_of_the_last_prefix(method, options, early):
    """Novelty is a variance 1 − ‖Rᵀk‖² + λ, in units far below 1: so much of 1 is lost."""
    model, Z, times = early
    found = getattr(model, method)(Z, *options)
    views = [view for inner in model.estimators_ for view in fitted_views(inner)]
    bar = tolerances.ROUTES / min(view.mean_left_out_variances.min() for view in views)
    for z, time, value in zip(Z, times, found, strict=True):
        inner = model.estimators_[model.prefixes_.tolist().index(time)]
        expected = getattr(inner, method)(z[None, :, :time], *options)[0]
        assert_within(1.0 * value, 1.0 * expected, bar)


def test_classifiers_without_sets_are_refused_by_name(early):
    model, Z = copy(early[0]), early[1]
    model.estimators_ = [*model.estimators_[:-1], RidgeClassifier()]
    with pytest.raises(ValueError, match="which has no predict_set"):
        model.predict_set(Z)


def test_weights_are_those_of_repeated_signals(rng):
    X, y = beginnings(rng, 40)
    weights = rng.integers(0, 3, 40)
    model = EarlyClassifier(INNER, n_prefixes=3).fit(X, y, sample_weight=weights)
    repeated = EarlyClassifier(INNER, n_prefixes=3).fit(X.repeat(weights, 0), y.repeat(weights))
    Z, _ = beginnings(rng, 30)
    assert_within(model.threshold_, repeated.threshold_, tolerances.ROUTES)
    assert (model.predict_times(Z) == repeated.predict_times(Z)).all()
    assert_within(model.predict_proba(Z), repeated.predict_proba(Z), tolerances.ROUTES)


def test_signals_of_weight_0_are_predicted_in_the_place_of_left_out_results(rng):
    X, y = beginnings(rng, 40)
    weights = np.where(np.arange(40) < 6, 0.0, 1.0)
    model = EarlyClassifier(INNER, n_prefixes=3).fit(X, y, sample_weight=weights)
    assert (model.left_out_prediction_[:6] == model.predict(X[:6])).all()
    assert (model.left_out_times_[:6] == model.predict_times(X[:6])).all()


@pytest.mark.parametrize(("weights", "threshold"), [((1, 10, 1), 0.9), ((1, 1, 10), 0.7)])
def test_weights_choose_the_rule(weights, threshold):
    """Below .9 the second signal is wrong, and the third one right without a delay."""
    end = [0.9, 0.1]
    sure, wrong, right = [[0.9, 0.1], end], [[0.3, 0.7], end], [[0.7, 0.3], end]
    proba = np.array([sure, wrong, right]).swapaxes(0, 1)
    rule = best_rule(
        proba,
        np.zeros(3, dtype=int),
        np.array([1, 2]),
        lambda accuracy, earliness: accuracy - earliness,
        np.array(weights),
    )
    assert rule.threshold == threshold


@pytest.mark.parametrize("cost", [0.0, 0.05, 0.3, 2.0])
def test_a_cost_of_delay_has_the_least_cost_of_all_rules(cost, rng):
    """Mean error and cost times earliness of left-out labels, by loops over all rules."""
    X, y = beginnings(rng, 60)
    model = EarlyClassifier(INNER, n_prefixes=4, delay_cost=cost).fit(X, y)
    proba = np.array([fitted.left_out_proba_ for fitted in model.estimators_])
    class_indices = np.searchsorted(model.classes_, y)

    def cost_of(threshold, agreement):
        last, labels = by_loops(proba, threshold, agreement)
        return np.mean(labels != class_indices) + cost * np.mean(model.prefixes_[last]) / X.shape[2]

    thresholds = [np.inf, *np.unique(proba[:-1].max(axis=2))]
    least = min(cost_of(t, agreement) for t in thresholds for agreement in (1, 2))
    assert_within(cost_of(model.threshold_, model.agreement_), least, tolerances.ROUTES, 1)


def test_a_high_cost_of_delay_takes_the_first_prefix_and_none_the_best_labels(rng):
    X, y = beginnings(rng, 60)
    times = [
        EarlyClassifier(INNER, n_prefixes=4, delay_cost=cost).fit(X, y).left_out_times_.mean()
        for cost in (0.0, 0.2, 100.0)
    ]
    assert times[0] > times[1] > times[2] == 8


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"delay_cost": -1.0}, "delay_cost is -1.0"),
        ({"delay_cost": 0.1, "error": 0.1}, "delay_cost is 0.1, expected None with an error"),
    ],
)
def test_wrong_costs_of_delay_are_refused(parameters, says, rng):
    with pytest.raises(ValueError, match=says):
        EarlyClassifier(**parameters).fit(*beginnings(rng, 20))


def test_the_unit_of_weights_does_not_matter(rng):
    X, y = beginnings(rng, 30)
    weights = rng.uniform(0.5, 2.0, 30)
    model, large = (
        EarlyClassifier(INNER, n_prefixes=3).fit(X, y, sample_weight=unit * weights)
        for unit in (1.0, 2.0**1020)
    )
    assert model.threshold_ == large.threshold_ < np.inf


def test_a_class_in_the_place_of_an_estimator_is_refused(rng):
    with pytest.raises(
        ValueError, match="estimator is .* expected a classifier with predict_proba"
    ):
        EarlyClassifier(ResidualKernelClassifier).fit(*beginnings(rng, 20))
