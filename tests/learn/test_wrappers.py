"""Wrappers of aeon and sktime: their remedies, and imports that are made only when needed."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn")
from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor
from tests.learn.cases import ONE

pytestmark = pytest.mark.slow

RESIZED = r"scipy\.signal\.resample.*aeon's .*Resizer.*sktime's TSInterpolator"
FILLED = r"numpy\.interp.*aeon's .*SimpleImputer.*sktime's Imputer"


@pytest.mark.parametrize("library", ["aeon", "sktime"])
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_wrappers_say_what_to_do(library, kind, rng):
    pytest.importorskip(library)
    wrapper = getattr(importlib.import_module(f"rescntk.learn.{library}"), f"ResidualKernel{kind}")
    X = rng.standard_normal((8, 2, 12))
    if kind == "Classifier":
        targets, inner = np.arange(8) % 2, ResidualKernelClassifier
    else:
        targets, inner = np.sqrt(np.arange(8.0)), ResidualKernelRegressor
    jobs = {"n_jobs": 1 if library == "aeon" else None}  # the convention of aeon
    assert wrapper().get_params() == inner().get_params() | jobs
    model = wrapper(**ONE)
    broken = X.copy()
    broken[5, 0, 7] = np.nan
    model.fit(X, targets)
    assert (model.predict(list(X)) == model.predict(X)).all()
    assert model.model_.get_params() == inner(**ONE).get_params() | jobs
    assert (model.predict(X) == inner(**ONE).fit(X, targets).predict(X)).all()
    with pytest.raises(ValueError, match=f"missing values.*{FILLED}"):
        model.predict(broken)
    with pytest.raises(ValueError, match=f"missing values.*{FILLED}"):
        wrapper(**ONE).fit(broken, targets)
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


IMPORTS = """
import sys
import rescntk
assert not {"sklearn", "aeon", "sktime"} & set(sys.modules)
for module, missing, remedy in (
    ("rescntk.learn", "sklearn", "rescntk[learn]"),
    ("rescntk.learn.aeon", "aeon", "rescntk[datasets]"),
    ("rescntk.learn.sktime", "sktime", "pip install sktime"),
):
    sys.modules[missing] = None
    try:
        __import__(module)
    except ImportError as error:
        assert type(error) is ImportError and remedy in str(error), error
        del sys.modules[missing]
    else:
        raise AssertionError(module)
"""


def test_imports_are_made_when_needed_and_what_is_missing_is_said():
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)
