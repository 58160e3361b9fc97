"""The checks that scikit-learn, aeon and sktime have for estimators: all pass, none is skipped.

Except one of scikit-learn's, which skips itself unless the environment asks for other array
libraries (none is supported here).
"""

import pytest

pytest.importorskip("sklearn")
from sklearn.utils.estimator_checks import check_estimator as sklearn_check

from rescntk.learn import (
    KernelMatrix,
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    SignalKernel,
    SignalScaler,
)

QUICK = {"depth": (1, 2), "filter_size": 3, "input_filter_size": (1, 3), "constant": False}
ESTIMATORS = [
    SignalScaler(),
    KernelMatrix(),
    KernelMatrix(SignalKernel(1, kind="gpk", head="trace")),
    ResidualKernelClassifier(cv=2, **QUICK),
    ResidualKernelClassifier(readout="svm", normalized=False, **QUICK),
    ResidualKernelRegressor(**QUICK),
]
SKIPS_ITSELF = {"check_array_api_input"}


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_sklearn(estimator):
    results = sklearn_check(estimator, on_skip=None, on_fail="raise")
    assert len(results) > 40
    others = {r["check_name"] for r in results if r["status"] != "passed"}
    assert others <= SKIPS_ITSELF


@pytest.mark.parametrize("name", ["ResidualKernelClassifier", "ResidualKernelRegressor"])
def test_aeon(name):
    pytest.importorskip("aeon")
    from aeon.testing.estimator_checking import check_estimator

    from rescntk.learn import aeon

    results = check_estimator(getattr(aeon, name), raise_exceptions=True)
    assert len(results) > 20
    assert set(results.values()) == {"PASSED"}


@pytest.mark.parametrize("name", ["ResidualKernelClassifier", "ResidualKernelRegressor"])
@pytest.mark.filterwarnings("ignore")  # sktime's own
def test_sktime(name):
    pytest.importorskip("sktime")
    from sktime.utils.estimator_checks import check_estimator

    from rescntk.learn import sktime

    results = check_estimator(getattr(sktime, name), raise_exceptions=True, verbose=False)
    assert len(results) > 100
    assert set(results.values()) == {"PASSED"}
