"""The classification benchmark: equal signals for all methods, fair seconds."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn")
import classification
import classification_methods
import harness
from classification_methods import draw_signals

from tests.benchmarks.conftest import BENCHMARKS

pytestmark = pytest.mark.slow


def test_draws_are_disjoint_balanced_and_reproducible():
    y = np.repeat(["a", "b", "c"], [30, 20, 10])
    for size in (2, 5, 12):
        train, test = draw_signals(y, size, draw=3)
        assert len(train) == size == len(set(train))
        assert not set(train) & set(test)
        assert len(train) + len(test) == len(y)
        counts = np.unique(y[train], return_counts=True)[1]
        assert len(counts) == min(size, 3)
        assert counts.max() - counts.min() <= 1


def test_no_method_can_be_right_more_often_than_the_ceiling(monkeypatch):
    # With eight classes of ten, five training signals show five: 45 of the 75 others are of these.
    y = np.repeat(np.arange(8), 5)
    monkeypatch.setattr(classification_methods, "signals", lambda name: (None, y, None, y))
    found = classification_methods.ceilings("eight classes")
    assert found == {5: pytest.approx(0.6), 10: 1.0, 20: 1.0, 50: 1.0}


def test_results_survive_the_file(tmp_path):
    path = tmp_path / "table.csv"
    row = {"method": "1-NN DTW", "set": "GunPoint", "accuracy": 0.8125, "filter_size": 9}
    row |= {"first_differences": "only", "block_statistics": False, "max_length": None}
    harness.write(path, [row])
    assert [list(there.items()) for there in harness.read(path)] == [list(row.items())]
    assert harness.read(tmp_path / "none.csv") == []


SIGNALS = np.random.default_rng(0).standard_normal((12, 1, 20)), np.repeat(["a", "b"], 6)


COMPILING = """
import os, time, numpy as np
from pathlib import Path

def compiled():
    code = Path(os.environ["NUMBA_CACHE_DIR"], "code")
    if not code.exists():
        time.sleep(2)
        code.touch()

class ResidualKernelClassifier:
    def fit(self, X, y):
        return self

    def predict(self, Z):
        compiled()
        return np.array(["a" if z.mean() > 0.5 else "b" for z in Z])
"""
"""A stand-in for our classifier that seems to compile into the cache, and for seconds."""


def test_the_first_process_alone_compiles(tmp_path, monkeypatch):
    """The first process compiles into an empty cache; cold seconds come from the second one."""
    package = tmp_path / "stand-in" / "rescntk"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "learn.py").write_text(COMPILING)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setattr(classification, "signals", lambda name: SIGNALS * 2)
    path, sets = tmp_path / "results.csv", ("GunPoint", "ItalyPowerDemand")
    one, two = classification.gather(str(tmp_path), path, False, ["rescntk"], sets)
    assert one["first_seconds"] is None
    assert two["first_seconds"] > two["cold_seconds"] > two["warm_seconds"] > 0
    monkeypatch.setattr(classification, "measured", None)  # what is in the file is kept
    again = classification.gather(str(tmp_path), path, False, ["rescntk"], sets)
    assert [row["set"] for row in again] == list(sets)


def test_workers_do_not_import_what_only_reads(tmp_path):
    """Reading the sets takes aeon, whose import must not count as anybody's time."""
    path = str(tmp_path / "set.npz")
    np.savez(path, *SIGNALS * 2)
    script = (
        f"import sys, classification as c; c.cold('ridge, flat', {path!r}); "
        "sys.exit(any(name.split('.')[0] in ('aeon', 'rescntk') for name in sys.modules))"
    )
    environment = dict(os.environ) | {"BENCHMARK_START": "0"}
    run = subprocess.run([sys.executable, "-c", script], cwd=BENCHMARKS, env=environment)
    assert run.returncode == 0
