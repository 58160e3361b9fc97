"""The checks that scikit-learn, aeon and sktime have for estimators: all pass, none is skipped.

The checks of scikit-learn run in their own process: one check needs SCIPY_ARRAY_API in the
environment, which SciPy reads when it is imported.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")
from rescntk.learn import (
    KernelMatrix,
    ResidualKernelClassifier,
    ResidualKernelRegressor,
    SignalKernel,
    SignalScaler,
)

pytestmark = pytest.mark.slow

FEW = {"effort": "fast", "depth": 1}
ESTIMATORS = {
    "scaler": SignalScaler(),
    "matrix": KernelMatrix(),
    "matrix of a SignalKernel": KernelMatrix(SignalKernel(1, kind="gpk", head="trace")),
    "classifier": ResidualKernelClassifier(class_weight="balanced", **FEW),
    "regressor": ResidualKernelRegressor(**FEW),
}

CODE = """
import json, sys
from sklearn.utils.estimator_checks import check_estimator
from tests.learn.test_checks import ESTIMATORS
results = check_estimator(ESTIMATORS[sys.argv[1]], on_skip=None, on_fail="raise")
print(json.dumps([(r["check_name"], r["status"]) for r in results]))
"""


@pytest.mark.parametrize("name", ESTIMATORS)
def test_sklearn(name):
    run = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", CODE, name],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    results = json.loads(run.stdout.splitlines()[-1])
    assert len(results) > 40
    assert {status for _, status in results} == {"passed"}
    assert "check_array_api_input" in dict(results)


# These checks compare with stored results of aeon's own estimators, and so check nothing here.
EMPTY = "against_expected_results"
NAMES = [f"check_{kind}_{EMPTY}" for kind in ("classifier", "regressor")]


@pytest.mark.parametrize("name", ["ResidualKernelClassifier", "ResidualKernelRegressor"])
def test_aeon(name):
    pytest.importorskip("aeon")
    from aeon.testing.estimator_checking import check_estimator

    from rescntk.learn import aeon

    results = check_estimator(getattr(aeon, name), raise_exceptions=True, checks_to_exclude=NAMES)
    assert not any(EMPTY in check for check in results)
    assert len(results) >= 20
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
