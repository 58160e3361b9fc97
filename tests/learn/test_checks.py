"""The checks that scikit-learn, aeon and sktime have for estimators, and what their wrappers add.

All checks pass, none is skipped. The checks of scikit-learn run in their own process: one check
needs SCIPY_ARRAY_API in the environment, which SciPy reads when it is imported.
"""

import importlib
import json

import numpy as np
import pytest

from rescntk import learn
from rescntk.learn.base import QUICK
from tests.learn.cases import ONE
from tests.learn.test_inputs import FILLED, RESIZED
from tests.processes import run

pytestmark = pytest.mark.slow

SINGLE = {"head": "gap"}
"""The parameter of a single pass; the checks of regressors, and of aeon, average two."""

ESTIMATORS = [
    learn.SignalScaler(),
    learn.KernelMatrix(learn.SignalKernel(1, kind="gpk", head="trace")),
    learn.ResidualKernelClassifier(class_weight="balanced", **QUICK | SINGLE),
    learn.ResidualKernelRegressor(**QUICK),
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
    lines = run(CODE, SCIPY_ARRAY_API="1").splitlines()
    results = [json.loads(line) for line in lines if line.startswith("{")]
    assert len(results) == len(ESTIMATORS)
    for statuses in results:
        assert len(statuses) > 40 and set(statuses.values()) == {"passed"}
        assert "check_array_api_input" in statuses


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_aeon(kind):
    pytest.importorskip("aeon")
    from aeon.testing.estimator_checking import check_estimator

    from rescntk.learn import aeon

    wrapper, empty = getattr(aeon, f"ResidualKernel{kind}"), f"check_{kind.lower()}_{EMPTY}"
    results = check_estimator(wrapper, raise_exceptions=True, checks_to_exclude=[empty])
    assert not any(EMPTY in check for check in results)
    assert len(results) >= 20
    assert set(results.values()) == {"PASSED"}


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
@pytest.mark.filterwarnings("ignore")  # sktime's own
def test_sktime(kind):
    pytest.importorskip("sktime")
    from sktime.utils.estimator_checks import check_estimator

    from rescntk.learn import sktime

    wrapper = getattr(sktime, f"ResidualKernel{kind}")
    parameters = wrapper.get_test_params()[kind == "Regressor"]  # of two sets
    if kind == "Classifier":
        parameters |= SINGLE
    results = check_estimator(wrapper(**parameters), raise_exceptions=True, verbose=False)
    assert len(results) > 80
    assert set(results.values()) == {"PASSED"}


@pytest.mark.parametrize("library", ["aeon", "sktime"])
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_wrappers_say_what_to_do(library, kind, rng):
    pytest.importorskip(library)
    wrapper = getattr(importlib.import_module(f"rescntk.learn.{library}"), f"ResidualKernel{kind}")
    inner, X = getattr(learn, f"ResidualKernel{kind}"), rng.standard_normal((8, 2, 12))
    targets = np.arange(8) % 2 if kind == "Classifier" else np.sqrt(np.arange(8.0))
    jobs = {"n_jobs": 1 if library == "aeon" else None}  # the convention of aeon
    assert wrapper().get_params() == inner().get_params() | jobs
    model = wrapper(**ONE)
    broken = X.copy()
    broken[5, 0, 7] = np.nan
    model.fit(X, targets)
    assert (model.predict(list(X)) == model.predict(X)).all()
    assert model.model_.get_params() == inner(**ONE).get_params() | jobs
    assert (model.predict(X) == inner(**ONE).fit(X, targets).predict(X)).all()
    with pytest.raises(ValueError, match=f"groups .*the fit of rescntk.learn.{inner.__name__} has"):
        model.fit(X, targets, groups=targets)
    for attempt in (lambda: model.predict(broken), lambda: wrapper(**ONE).fit(broken, targets)):
        with pytest.raises(ValueError, match=f"missing values.*{FILLED}"):
            attempt()
    filled = wrapper(**ONE).set_params(missing="interpolate").fit(broken, targets)
    assert (filled.predict(X) == filled.model_.predict(X)).all()
    assert (filled.predict(broken) == filled.model_.predict(broken)).all()
    with pytest.raises(ValueError, match=RESIZED):
        model.predict(X[:, :, :10])
    with pytest.raises(ValueError, match="channel") as refusal:
        model.predict(X[:, :1])
    assert library == "sktime" or "Resizer" not in str(refusal.value)

    ragged = [X[0, :, :9], *X[1:]]
    model = wrapper(**ONE).fit(ragged, targets)
    expected = inner(**ONE).fit(ragged, targets)
    assert (model.predict(ragged) == expected.predict(ragged)).all()
    assert (model.predict(X) == expected.predict(X)).all()


def test_a_missing_library_is_named():
    code = "import sys; import rescntk.learn; assert not {'aeon', 'sktime'} & sys.modules.keys()"
    for library in ("aeon", "sktime"):
        code += (
            f"\nsys.modules[{library!r}] = None\n"
            f"try: import rescntk.learn.{library}\n"
            "except ImportError as error: print(type(error).__name__, error)"
        )
    for said, remedy in zip(run(code).splitlines(), ("'rescntk[datasets]'", "sktime"), strict=True):
        assert said.startswith("ImportError rescntk.learn")
        assert said.endswith(f"pip install {remedy}")
