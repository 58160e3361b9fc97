"""Options of classifier and regressor reach the kernel; progress is printed."""

import pytest

pytest.importorskip("sklearn")
import rescntk as rk
from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, search
from tests.learn.cases import QUICK, waves


@pytest.mark.parametrize("model", [ResidualKernelClassifier, ResidualKernelRegressor])
def test_engine_dtype_and_threads_are_passed_on(model, rng, monkeypatch):
    options = {"engine": "reference", "dtype": "float32", "threads": 2}
    passes, calls = [], []
    original = rk.Kernel.__call__

    def gram(*arguments, **named):
        passes.append({name: named[name] for name in options})
        return rk.gram(*arguments, **named)

    def call(self, *arguments, **named):
        calls.append(named)
        return original(self, *arguments, **named)

    monkeypatch.setattr(search, "gram", gram)
    monkeypatch.setattr(rk.Kernel, "__call__", call)
    X, y = waves(rng, 10, 2)
    fitted = model(**options, **QUICK).fit(X, y)
    assert passes and all(named == options for named in passes)
    assert not calls  # fitting computes nothing twice
    fitted.predict(X)
    assert calls == [options]


@pytest.mark.parametrize("readout", ["ridge", "svm"])
def test_progress(readout, rng, capsys):
    """A line a pass, one when the search is done, one a readout that is compared, the choice."""
    X, y = waves(rng, 12, 2)
    ResidualKernelClassifier(verbose=1, readout=("ridge", readout), cv=2, **QUICK).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith("[4/4] signals, length <= 128, filters 5 and 3, gap: ")
    assert lines[4].startswith("32 kernels from 4 passes over 12 signals: ")
    starts = {
        "ridge": ["chosen: "],
        "svm": ["svm: cross-entropy", "ridge: cross-entropy", "chosen"],
    }
    assert len(lines) == 5 + len(starts[readout])
    assert all(map(str.startswith, lines[5:], starts[readout]))
    ResidualKernelRegressor(verbose=1, **QUICK).fit(X, y)
    assert "chosen: " in capsys.readouterr().out.splitlines()[5]
    ResidualKernelClassifier(**QUICK).fit(X, y)
    assert not capsys.readouterr().out
