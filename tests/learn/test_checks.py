"""The checks that scikit-learn and aeon have for estimators: all pass, none is skipped."""

import json

import numpy as np
import pytest

from rescntk import learn
from tests.helpers import run
from tests.learn.cases import ONE, waves

pytestmark = pytest.mark.slow

VIEWS = [learn.View(head="trace", standardize="point", filter_size=3, depth=1)]

ESTIMATORS = [
    learn.KernelMatrix(learn.SignalKernel(depth=1, kind="gpk", head="trace")),
    learn.LandmarkFeatures(),
    learn.ResidualKernelClassifier(VIEWS, class_weight="balanced"),
    learn.ResidualKernelRegressor(VIEWS),
]

CODE = """
import json, warnings
from sklearn.utils.estimator_checks import check_estimator
from tests.learn.test_checks import ESTIMATORS
warnings.simplefilter("error", RuntimeWarning)
for estimator in ESTIMATORS:
    results = check_estimator(estimator, on_skip=None, on_fail="raise")
    print(json.dumps({r["check_name"]: r["status"] for r in results}))
"""

EMPTY = "against_expected_results"
"""These checks compare with stored results of aeon's own estimators, and so check nothing here."""


def test_sklearn():
    """In a process of their own: SciPy reads SCIPY_ARRAY_API when it is imported."""
    lines = run(CODE, SCIPY_ARRAY_API="1").splitlines()
    results = [json.loads(line) for line in lines if line.startswith("{")]
    assert len(results) == len(ESTIMATORS)
    for statuses in results:
        assert len(statuses) > 40 and set(statuses.values()) == {"passed"}
        assert "check_array_api_input" in statuses


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


def test_a_missing_library_is_named():
    code = (
        "import sys; import rescntk.learn; assert 'aeon' not in sys.modules\n"
        "sys.modules['aeon'] = None\n"
        "try: import rescntk.learn.aeon\n"
        "except ImportError as error: print(error)"
    )
    assert run(code) == "rescntk.learn.aeon needs aeon: pip install 'rescntk[datasets]'"
