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
from rescntk.learn.wrappers import QUICK

pytestmark = pytest.mark.slow

ESTIMATORS = [
    SignalScaler(),
    KernelMatrix(),
    KernelMatrix(SignalKernel(1, kind="gpk", head="trace")),
    ResidualKernelClassifier(class_weight="balanced", **QUICK),
    ResidualKernelRegressor(**QUICK),
]

CODE = """
import json
from sklearn.utils.estimator_checks import check_estimator
from tests.learn.test_checks import ESTIMATORS
for estimator in ESTIMATORS:
    results = check_estimator(estimator, on_skip=None, on_fail="raise")
    print(json.dumps({r["check_name"]: r["status"] for r in results}))
"""


def test_sklearn():
    run = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", CODE],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    results = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert len(results) == len(ESTIMATORS)
    for statuses in results:
        assert len(statuses) > 40 and set(statuses.values()) == {"passed"}
        assert "check_array_api_input" in statuses


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
