"""Options of classifier and regressor reach the kernel; progress is printed."""

import os
import re

import pytest

pytest.importorskip("sklearn")
import rescntk as rk
from rescntk.learn import ResidualKernelClassifier, ResidualKernelRegressor, base, passes
from tests.learn.cases import QUICK, waves


@pytest.mark.parametrize("model", [ResidualKernelClassifier, ResidualKernelRegressor])
def test_options_are_passed_on(model, rng, monkeypatch):
    calls = []

    def gram(*arguments, **named):
        calls.append({name: named[name] for name in ("engine", "dtype", "threads")})
        return rk.gram(*arguments, **named)

    monkeypatch.setattr(passes, "gram", gram)
    X, y = waves(rng, 10, 2)
    options = QUICK | {"engine": "reference", "dtype": "float32", "n_jobs": 2, "alpha": 0.3}
    fitted = model(**options).fit(X, y)
    assert len(calls) == 4  # fitting computes nothing twice
    fitted.predict(X)
    assert calls == [{"engine": "reference", "dtype": "float32", "threads": 2}] * 8
    assert {one.source.network.alpha for one in fitted._fitted} == {0.3}


def test_jobs_are_counted_as_by_scikit_learn():
    cores = os.cpu_count()
    found = [base.count_threads(jobs) for jobs in (None, 1, 3, -1, -2, -1 - cores)]
    assert found == [None, 1, 3, cores, max(1, cores - 1), 1]


def test_progress(rng, capsys):
    """What comes, how long it will take, a line a pass, the score."""
    X, y = waves(rng, 12, 2)
    ResidualKernelClassifier(verbose=1, **QUICK).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rescntk: 4 passes over 12 signals"
    passes_said = [rf"\[{i}/4\] signals, .*: \S+ s, about \S+ s left$" for i in range(1, 5)]
    for line, said in zip(
        lines[-6:], [r"about \S+ s$", *passes_said, r"accuracy \S+ ± \S+, \S+ s$"], strict=True
    ):
        assert re.match(said, line)
    ResidualKernelRegressor(verbose=1, **QUICK).fit(X, y)
    assert re.match(r"R² \S+ ± \S+, \S+ s$", capsys.readouterr().out.splitlines()[-1])
    ResidualKernelClassifier(**QUICK).fit(X, y)
    assert not capsys.readouterr().out
