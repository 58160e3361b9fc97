"""The checks that scikit-learn and aeon have for estimators: all pass, none is skipped."""

from functools import cache
from unittest import SkipTest

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from rescntk import learn
from tests import tolerances
from tests.helpers import assert_within, run
from tests.learn.cases import ONE, beginnings, waves
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


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator, check):
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_aeon(kind, rng):
    pytest.importorskip("aeon")
    from aeon.testing.estimator_checking import check_estimator

    from rescntk.learn import aeon

    wrapper, empty = getattr(aeon, f"ResidualKernel{kind}"), f"check_{kind.lower()}_{EMPTY}"
    results = check_estimator(wrapper, raise_exceptions=True, checks_to_exclude=[empty])
    assert len(results) >= 20 and set(results.values()) == {"PASSED"}
    inner, (X, y) = getattr(learn, f"ResidualKernel{kind}"), waves(rng, 12, 2, channels=2)
    y = y if kind == "Classifier" else np.sqrt(np.arange(12.0))
    assert wrapper().get_params() == inner().get_params() | {"n_jobs": 1}
    ragged = [x[:, : 24 - k % 3] for k, x in enumerate(X)]
    for signals in (X, ragged):
        model, expected = wrapper(**ONE).fit(signals, y), inner(**ONE).fit(signals, y)
        assert (model.predict(signals) == expected.predict(signals)).all()


@pytest.mark.slow
def test_aeon_early(rng):
    """Signals that arrive have the decisions of whole signals, also from the state of before."""
    pytest.importorskip("aeon")
    from aeon.testing.estimator_checking import check_estimator

    from rescntk.learn import aeon

    leave_out = [f"check_early_classifier_{EMPTY}", STATE]
    results = check_estimator(
        aeon.EarlyClassifier, raise_exceptions=True, checks_to_exclude=leave_out
    )
    assert len(results) >= 15 and set(results.values()) == {"PASSED"}
    assert aeon.EarlyClassifier().get_params() == learn.EarlyClassifier().get_params()
    X, y = beginnings(rng, 80, channels=2)
    labels, Z, truth = (
        np.array(["left", "right"])[y[:40]],
        X[40:],
        np.array(["left", "right"])[y[40:]],
    )
    inner, options = learn.ResidualKernelClassifier(**ONE, random_state=0), {"n_prefixes": 8}
    options["error"] = 0.2
    model = aeon.EarlyClassifier(inner, **options).fit(X[:40], labels)
    expected = learn.EarlyClassifier(inner, **options).fit(X[:40], labels)
    times, final_labels = expected.predict_times(Z), expected.predict(Z)
    assert len(set(times)) > 2
    waiting, decided = np.arange(40), 0
    for n in (9, 16, 19, 22, 32):
        found, final = model.update_predict(Z[waiting, :, :n])
        assert (final == (times[waiting] <= n)).all() and (found[~final] == "-1").all()
        assert (found[final] == final_labels[waiting[final]]).all()
        state = model.get_state_info()
        assert (state[final, 1] == times[waiting[final]]).all() and (state[:, 4] == final).all()
        waiting, decided = waiting[~final], decided + final.sum()
    assert decided == 40
    harmonic, accuracy, earliness = model.score(Z, truth)
    assert accuracy == expected.score(Z, truth) and earliness == times.mean() / 32
    assert_within(1 / harmonic, (1 / accuracy + 1 / (1 - earliness)) / 2, tolerances.ROUTES)
    model.reset_state_info()
    n = sorted(set(times))[1]
    proba, final = model.update_predict_proba(Z[:, :, :n])
    assert (proba[~final] == -1).all() and 0 < final.sum() < 40
    later, _ = model.update_predict_proba(Z[~final])
    assert (model.classes_[later.argmax(axis=1)] == final_labels[~final]).all()
    model.predict(Z[:, :, :n])
    with pytest.raises(ValueError, match="X has 40 signals, expected the .* without a decision"):
        model.update_predict(Z)
    with pytest.raises(ValueError, match=f"X has {n} time points, expected more than {n}"):
        model.update_predict(Z[~final, :, :n])


@pytest.mark.slow
def test_a_missing_library_is_named():
    code = (
        "import sys; import rescntk.learn; assert 'aeon' not in sys.modules\n"
        "sys.modules['aeon'] = None\n"
        "try: import rescntk.learn.aeon\n"
        "except ImportError as error: print(error)"
    )
    assert run(code) == "rescntk.learn.aeon needs aeon: pip install 'rescntk[datasets]'"
