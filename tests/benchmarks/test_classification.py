"""The classification benchmark: equal signals for all methods, fair seconds, verdicts."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn")
import classification
import classification_methods
import harness

from tests.benchmarks.conftest import BENCHMARKS

pytestmark = pytest.mark.slow


def test_draws_are_disjoint_balanced_and_reproducible():
    y = np.repeat(["a", "b", "c"], [30, 20, 10])
    for size in (2, 5, 12):
        train, test = classification.draw_signals(y, size, draw=3)
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
    found = classification.ceilings("eight classes")
    assert found == {5: pytest.approx(0.6), 10: 1.0, 20: 1.0, 50: 1.0}


def table(ours, rocket, neighbour, seconds, fast, load=None, **first):
    methods = {"rescntk": ours, "MiniRocket": rocket, "1-NN MSM": neighbour, "rescntk, fast": fast}
    rows = [
        {"method": m, "set": s, "accuracy": a[i], "warm_seconds": seconds, "cold_seconds": 2.0,
         "load": load, "first_seconds": first.get(s) if m == "rescntk" else None}
        for m, a in methods.items()
        for i, s in enumerate(classification.SETS)
    ]  # fmt: skip
    return classification.table(rows)


def test_verdicts():
    good = table([0.95] * 8, [0.95] * 7 + [1.0], [0.9] * 8, 1.0, [0.93] * 8)
    assert good.count(": met") == 6
    assert "missed" not in good and "other work" not in good
    assert "**1.000**" in good
    assert good.endswith("take that one: ACSF1 by 0.050.\n")


def test_verdicts_say_by_how_much():
    bad = table([0.85] * 8, [0.9] * 8, [0.86] * 8, 8.0, [0.8] * 8, load=100.0)
    amounts = (("0.100", "4 s"), ("0.130", "54 s"), ("0.010",), ("7",))
    for line, missed in zip(bad.splitlines()[-5:-1], amounts, strict=True):
        assert all(f"missed by {amount}" in line for amount in missed)
    assert "Seconds of rescntk" in bad and "load averages up to 100.0" in bad
    # A tie, one of whose sides has been in a file, which keeps six digits.
    tie = table([6 / 7] * 8, [0.857143] * 8, [0.8] * 8, 1.0, [0.8] * 8)
    assert "on 8 of 8 sets" in tie


def test_compiling_is_what_the_first_process_takes_longer():
    text = table(*[[0.9] * 8] * 3, 2.0, [0.9] * 8, ItalyPowerDemand=5.5, BasicMotions=33.0)
    assert "| compiling, once on a machine | – | – | – | 31 s |" in text


@pytest.mark.parametrize("method", ["ridge, flat", "SVM-RBF, flat"])
def test_flat_methods_learn(method, rng):
    X = rng.standard_normal((40, 2, 10))
    y = np.repeat(["a", "b"], 20)
    X[:20] += 1.5
    model = classification.METHODS[method](0).fit(X[::2], y[::2])
    assert np.mean(model.predict(X[1::2]) == y[1::2]) > 0.9


def test_results_survive_the_file(tmp_path):
    path = tmp_path / "results" / "table.csv"
    row = {"method": "1-NN DTW", "set": "GunPoint", "accuracy": 0.8125, "filter_size": 9}
    row |= {"first_differences": "only", "block_statistics": False, "max_length": None}
    harness.write(path, [row])
    assert [list(there.items()) for there in harness.read(path)] == [list(row.items())]
    assert harness.read(tmp_path / "none.csv") == []


class Small(classification.Workers):
    """Workers on small made-up sets; notes what they are asked, and whether they compile."""

    def __init__(self, folder):
        super().__init__(folder)
        self.asked = []
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((12, 1, 20)), np.repeat(["a", "b"], 6)
        X[:6] += 1.0
        for name in ("GunPoint", "ItalyPowerDemand"):
            np.savez(folder / f"{name}.npz", X, y, X, y)

    def ask(self, method, name, kind, cache=None):
        answer = super().ask(method, name, kind, cache)
        self.asked.append((name, kind, answer["compiled"] > 0))
        return answer


COMPILING = """
import numba, numpy as np

@numba.njit(cache=True)
def larger(a, b):
    return np.sort(np.array([a, b]))[0] < a

class ResidualKernelClassifier:
    def __init__(self, **options):
        self.passes_ = {"head": np.array(["gap"]), "weight": np.array([1.0])}

    def fit(self, X, y):
        return self

    def predict(self, Z):
        return np.array(["a" if larger(z.mean(), 0.5) else "b" for z in Z])
"""
"""A stand-in for our classifier, which takes longer to compile; sorting makes that seconds."""


def test_the_first_process_alone_compiles(tmp_path, monkeypatch):
    """The first process compiles into an empty cache; cold seconds come from the next processes."""
    pytest.importorskip("numba")
    package = tmp_path / "stand-in" / "rescntk"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "learn.py").write_text(COMPILING)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    workers = Small(tmp_path)
    path = tmp_path / "results.csv"
    sets = ("GunPoint", "ItalyPowerDemand")
    classification.gather(workers, path, "accuracy", ["rescntk"], sets, False)
    assert workers.asked == [
        ("ItalyPowerDemand", "cold", True),
        ("GunPoint", "accuracy", False),
        ("ItalyPowerDemand", "accuracy", False),
    ]
    one, two = harness.read(path)
    assert one["first_seconds"] is None
    assert two["first_seconds"] > two["cold_seconds"] > two["warm_seconds"] > 0
    made = harness.read(tmp_path / "results_passes.csv")
    assert {row["set"] for row in made} == set(sets)

    # What is in the file is kept, and cold seconds alone are measured again.
    workers.asked.clear()
    classification.gather(workers, path, "accuracy", ["rescntk"], sets, False)
    assert workers.asked == []
    classification.gather(workers, path, "cold", ["rescntk"], sets[:1], False)
    again = harness.read(path)
    assert again[0]["cold_seconds"] != one["cold_seconds"]
    assert again[0] | {"cold_seconds": 0} == one | {"cold_seconds": 0}
    assert again[1] == two


def test_workers_do_not_import_what_only_reads(tmp_path):
    """Reading the sets takes aeon, whose import must not count as anybody's time."""
    Small(tmp_path)
    script = (
        "import sys, classification as c; c.compiled = lambda: 0; "
        f"c.once('ridge, flat', {str(tmp_path / 'GunPoint.npz')!r}); "
        "sys.exit(any(name.split('.')[0] in ('aeon', 'rescntk') for name in sys.modules))"
    )
    environment = dict(os.environ) | {"BENCHMARK_START": "0"}
    run = subprocess.run([sys.executable, "-c", script], cwd=BENCHMARKS, env=environment)
    assert run.returncode == 0


def test_a_worker_that_always_compiles_is_refused(tmp_path):
    class Forgetful(Small):
        def ask(self, method, name, kind, cache=None):
            return {"compiled": 1, "cold_seconds": 1.0}

    with pytest.raises(RuntimeError, match="compiles the same code every time"):
        Forgetful(tmp_path).measure("rescntk", "GunPoint", "accuracy")
