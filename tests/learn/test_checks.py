"""The checks that scikit-learn and aeon have for estimators: all pass, none is skipped."""

import warnings
from functools import cache
from types import SimpleNamespace
from unittest import SkipTest

import numpy as np
import pytest
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from rescntk import learn
from rescntk.learn.early.stopping import StoppingRule
from tests import tolerances
from tests.helpers import assert_within, run
from tests.learn.cases import ONE_VIEW, beginnings, ignores_scores, waves
from tests.learn.estimators import ESTIMATORS

ARRAY_API = """
import warnings
from sklearn.utils.estimator_checks import estimator_checks_generator
from tests.learn.estimators import ESTIMATORS
warnings.simplefilter("error", RuntimeWarning)
for number, estimator in enumerate(ESTIMATORS):
    for estimator, check in estimator_checks_generator(estimator):
        if check.func.__name__ == "check_array_api_input":
            check(estimator)
            print(number)
"""


@cache
def passed_array_api():
    """Return the places of estimators that pass the check of array API.

    In a process of its own: SciPy reads SCIPY_ARRAY_API when it is imported.
    """
    return [int(number) for number in run(ARRAY_API, SCIPY_ARRAY_API="1").split()]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_tags_say_that_signals_have_three_axes(estimator):
    assert get_tags(estimator).input_tags.three_d_array


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_estimators_pass_the_checks_of_scikit_learn(estimator, check):
    """A check that scikit-learn leaves out fails here."""
    if check.func.__name__ == "check_array_api_input":
        assert list(map(repr, ESTIMATORS)).index(repr(estimator)) in passed_array_api()
        return
    if check.func.__name__ == "check_sample_weight_equivalence_on_sparse_data":
        # scikit-learn 1.6.0 alone has it for estimators whose tags refuse sparse arrays.
        with pytest.raises(ValueError, match="X is sparse, expected a dense array"):
            check(estimator)
        return
    try:
        check(estimator)
    except SkipTest as reason:
        pytest.fail(f"left out: {reason}")


EMPTY = "against_expected_results"
"""These checks compare with stored results of aeon's own estimators, and so check nothing here."""

STATE = "check_non_state_changing_method"
"""Early classifiers of aeon keep a state of predictions; aeon leaves this out for its own."""


@pytest.fixture
def aeon():
    pytest.importorskip("aeon")
    from rescntk.learn import aeon

    return aeon


def passed(estimator, leave_out):
    """Return how many of aeon's checks an estimator passes, which is all but some."""
    from aeon.testing.estimator_checking import check_estimator

    results = check_estimator(estimator, raise_exceptions=True, checks_to_exclude=leave_out)
    assert set(results.values()) == {"PASSED"}
    return len(results)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_classifiers_and_regressors_pass_the_checks_of_aeon(kind, aeon):
    empty = f"check_{kind.lower()}_{EMPTY}"
    assert passed(getattr(aeon, f"ResidualKernel{kind}"), [empty]) >= 20


@pytest.mark.slow
def test_early_classifiers_pass_the_checks_of_aeon(aeon):
    assert passed(aeon.EarlyClassifier, [f"check_early_classifier_{EMPTY}", STATE]) >= 15


def test_estimators_of_aeon_have_the_parameters_of_ours(aeon):
    for kind in ("ResidualKernelClassifier", "ResidualKernelRegressor"):
        expected = getattr(learn, kind)().get_params() | {"n_jobs": 1}
        assert getattr(aeon, kind)().get_params() == expected
    assert aeon.EarlyClassifier().get_params() == learn.EarlyClassifier().get_params()


@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_estimators_of_aeon_predict_what_ours_do(kind, lists, aeon, rng):
    wrapper, inner = (getattr(of, f"ResidualKernel{kind}") for of in (aeon, learn))
    X, y = waves(rng, 12, 2, channels=2)
    y = y if kind == "Classifier" else np.sqrt(np.arange(12.0))
    signals = [x[:, : 24 - k % 3] for k, x in enumerate(X)] if lists else X
    model, expected = wrapper(**ONE_VIEW).fit(signals, y), inner(**ONE_VIEW).fit(signals, y)
    assert (model.predict(signals) == expected.predict(signals)).all()


OPTIONS = {**ONE_VIEW, "random_state": 0}


@ignores_scores
def test_fit_predict_of_aeon_classifiers_gives_left_out_results(aeon, rng):
    """A class of one signal, for which aeon's folds find no two, is no hindrance."""
    X, y = waves(rng, 12, 2)
    labels = np.where(np.arange(12) == 5, "rare", np.array(["left", "right"])[y])
    expected = learn.ResidualKernelClassifier(**OPTIONS).fit(X, labels)
    model = aeon.ResidualKernelClassifier(**OPTIONS)
    proba = model.fit_predict_proba(X, labels)
    assert (proba == expected.left_out_proba_).all()
    assert (model.fit_predict(X, labels) == expected.classes_[proba.argmax(axis=1)]).all()


@ignores_scores
def test_fit_predict_of_aeon_regressors_gives_left_out_results(aeon, rng):
    (X, _), targets = waves(rng, 12, 2), np.sqrt(np.arange(12.0))
    expected = learn.ResidualKernelRegressor(**OPTIONS).fit(X, targets).left_out_prediction_
    assert (aeon.ResidualKernelRegressor(**OPTIONS).fit_predict(X, targets) == expected).all()


def test_fit_predict_of_aeon_predicts_signals_of_a_class_without_weight(aeon, rng):
    X, y = waves(rng, 18, 3)
    model = aeon.ResidualKernelClassifier(**ONE_VIEW, class_weight={0: 1, 1: 1, 2: 0})
    proba = model.fit_predict_proba(X, y)
    assert np.isfinite(proba).all() and proba.shape == (18, 3) and (proba[:, 2] == 0).all()
    assert model.predict_proba(X).shape == (18, 3) and (model.fit_predict(X, y) < 2).all()


@pytest.fixture
def weighted(rng):
    """Eighteen signals, labels, targets, and the weights and groups of a fit."""
    X, y = waves(rng, 18, 2)
    given = {"sample_weight": rng.uniform(0.5, 2.0, 18), "groups": np.arange(18) // 3}
    return SimpleNamespace(X=X, y=y, targets=np.sqrt(np.arange(18.0)), given=given)


@ignores_scores
def test_aeon_classifiers_take_weights_and_groups(aeon, weighted):
    X, y, given = weighted.X, weighted.y, weighted.given
    expected = learn.ResidualKernelClassifier(**OPTIONS).fit(X, y, **given).left_out_proba_
    model = aeon.ResidualKernelClassifier(**OPTIONS)
    assert (model.fit(X, y, **given).model_.left_out_proba_ == expected).all()
    assert (model.fit_predict_proba(X, y, **given) == expected).all()


@ignores_scores
def test_aeon_regressors_take_weights_and_groups(aeon, weighted):
    X, targets, given = weighted.X, weighted.targets, weighted.given
    expected = learn.ResidualKernelRegressor(**OPTIONS).fit(X, targets, **given)
    found = aeon.ResidualKernelRegressor(**OPTIONS).fit(X, targets, **given).model_
    assert (found.left_out_prediction_ == expected.left_out_prediction_).all()


@ignores_scores
def test_a_later_fit_of_aeon_forgets_weights_and_groups(aeon, weighted):
    X, y = weighted.X, weighted.y
    expected = learn.ResidualKernelClassifier(**OPTIONS).fit(X, y).left_out_proba_
    model = aeon.ResidualKernelClassifier(**OPTIONS).fit(X, y, **weighted.given)
    assert (model.model_.left_out_proba_ != expected).any()
    assert (model.fit(X, y).model_.left_out_proba_ == expected).all()


def test_early_fits_of_aeon_take_weights_and_groups(aeon, rng):
    X, y = beginnings(rng, 24)
    given = {"sample_weight": rng.uniform(0.5, 2.0, 24), "groups": np.arange(24) // 2}
    inner = learn.ResidualKernelClassifier(**ONE_VIEW, random_state=0)
    model, ours = (
        of.EarlyClassifier(inner, n_prefixes=3).fit(X, y, **given) for of in (aeon, learn)
    )
    assert model.model_.threshold_ == ours.threshold_
    assert (model.model_.left_out_times_ == ours.left_out_times_).all()


def test_undecided_texts_of_objects_are_texts(aeon, rng):
    X, y = beginnings(rng, 24, channels=1)
    inner = learn.ResidualKernelClassifier(**ONE_VIEW)
    model = aeon.EarlyClassifier(inner, n_prefixes=3, error=0.001)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "error is 0.001, and no label is early")
        model.fit(X, np.array(["no", "yes"], dtype=object)[y])
    labels, final = model.predict(X[:2, :, : model.model_.prefixes_[0]])
    assert not final.any() and labels.tolist() == ["-1", "-1"]


@pytest.fixture
def arriving(aeon, rng):
    """Early classifiers of aeon and ours, forty new signals, their labels, times and truth."""
    X, y = beginnings(rng, 80, channels=2)
    truth = np.array(["left", "right"])[y]
    inner = learn.ResidualKernelClassifier(**ONE_VIEW, random_state=0)
    model, ours = (
        of.EarlyClassifier(inner, n_prefixes=8, error=0.2).fit(X[:40], truth[:40])
        for of in (aeon, learn)
    )
    Z, times = X[40:], ours.predict_times(X[40:])
    assert len(set(times)) > 2
    return SimpleNamespace(
        model=model, ours=ours, Z=Z, times=times, labels=ours.predict(Z), truth=truth[40:]
    )


def arrivals(arriving):
    """Yield, as more time points come, which signals were waiting, their labels and decisions."""
    waiting = np.arange(40)
    for n in (9, 16, 19, 22, 32):
        labels, final = arriving.model.update_predict(arriving.Z[waiting, :, :n])
        yield n, waiting, labels, final
        waiting = waiting[~final]
    assert not len(waiting)


def test_signals_that_arrive_have_the_decisions_of_whole_signals(arriving):
    """From the state of before."""
    for n, waiting, labels, final in arrivals(arriving):
        assert (final == (arriving.times[waiting] <= n)).all() and (labels[~final] == "-1").all()
        assert (labels[final] == arriving.labels[waiting[final]]).all()


def test_the_state_of_signals_that_arrive_has_their_times_and_decisions(arriving):
    for _, waiting, _, final in arrivals(arriving):
        state = arriving.model.get_state_info()
        assert (state[final, 1] == arriving.times[waiting[final]]).all()
        assert (state[:, 4] == final).all()


def test_labels_in_a_row_are_counted_from_one_arrival_to_the_next(arriving):
    model = arriving.model
    model.model_._rule = StoppingRule(0.6, agreement=2)
    expected = model.model_.predict_times(arriving.Z)
    times, waiting = np.zeros(40, dtype=int), np.arange(40)
    for n in model.model_.prefixes_:
        if len(waiting):
            _, final = model.update_predict(arriving.Z[waiting, :, :n])
            times[waiting[final]] = n
            waiting = waiting[~final]
    assert (times == expected).all() and len(set(times)) > 2


def test_early_scores_of_aeon_are_of_whole_signals(arriving):
    harmonic, accuracy, earliness = arriving.model.score(arriving.Z, arriving.truth)
    assert accuracy == arriving.ours.score(arriving.Z, arriving.truth)
    assert earliness == arriving.times.mean() / 32
    assert_within(1 / harmonic, (1 / accuracy + 1 / (1 - earliness)) / 2, tolerances.ROUTES)


def test_early_scores_of_aeon_leave_the_state_of_whole_signals(arriving):
    arriving.model.score(arriving.Z, arriving.truth)
    state = arriving.model.get_state_info()
    assert (state[:, 1] == arriving.times).all() and (state[:, 4] == 1).all()


def test_early_probabilities_of_aeon_are_those_of_final_labels(arriving):
    model, n = arriving.model, sorted(set(arriving.times))[1]
    proba, final = model.update_predict_proba(arriving.Z[:, :, :n])
    assert (proba[~final] == -1).all() and 0 < final.sum() < 40
    later, _ = model.update_predict_proba(arriving.Z[~final])
    assert (model.classes_[later.argmax(axis=1)] == arriving.labels[~final]).all()


def test_other_signals_than_those_without_a_decision_are_refused(arriving):
    model, n = arriving.model, sorted(set(arriving.times))[1]
    model.predict(arriving.Z[:, :, :n])
    with pytest.raises(ValueError, match="X has 40 signals, expected the .* without a decision"):
        model.update_predict(arriving.Z)


def test_signals_without_more_time_points_are_refused(arriving):
    model, n = arriving.model, sorted(set(arriving.times))[1]
    _, final = model.predict(arriving.Z[:, :, :n])
    with pytest.raises(ValueError, match=f"X has {n} time points, expected more than {n}"):
        model.update_predict(arriving.Z[~final, :, :n])


@pytest.mark.slow
def test_a_missing_library_is_named():
    code = (
        "import sys; import rescntk.learn; assert 'aeon' not in sys.modules\n"
        "sys.modules['aeon'] = None\n"
        "try: import rescntk.learn.aeon\n"
        "except ImportError as error: print(error)"
    )
    assert run(code) == "rescntk.learn.aeon needs aeon: pip install 'rescntk[datasets]'"
