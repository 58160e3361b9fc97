"""The classification benchmark: the same signals for everybody, and honest verdicts."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")
sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))
import classification


def test_draws_are_disjoint_balanced_and_reproducible():
    y = np.repeat(["a", "b", "c"], [30, 20, 10])
    for size in (2, 5, 12):
        train, test = classification.draw_signals(y, size, draw=3)
        again, _ = classification.draw_signals(y, size, draw=3)
        other, _ = classification.draw_signals(y, size, draw=4)
        assert (train == again).all()
        assert (train != other).any()
        assert len(train) == size == len(set(train))
        assert not set(train) & set(test)
        assert len(train) + len(test) == len(y)
        counts = np.unique(y[train], return_counts=True)[1]
        assert len(counts) == min(size, 3)
        assert counts.max() - counts.min() <= 1


def rows(ours, rocket, neighbour, seconds):
    methods = {"rescntk": ours, "MiniRocket": rocket, "1-NN MSM": neighbour}
    return [
        {"method": m, "set": s, "accuracy": a[i], "warm_seconds": seconds, "cold_seconds": 1.0}
        for m, a in methods.items()
        for i, s in enumerate(classification.SETS)
    ]


def test_verdicts():
    good = classification.table(rows([0.95] * 8, [0.95] * 4 + [1.0] * 4, [0.9] * 8, 60.0))
    assert good.count(": met.") == 4
    assert "missed" not in good
    bad = classification.table(rows([0.85] * 8, [0.9] * 8, [0.86] * 8, 120.0))
    assert bad.count(": missed.") == 4
    assert "met." not in bad
    assert "**1.000**" in good


@pytest.mark.parametrize("method", ["ridge, flat", "SVM-RBF, flat"])
def test_flat_methods_learn(method, rng):
    X = rng.standard_normal((40, 2, 10))
    y = np.repeat(["a", "b"], 20)
    X[:20] += 1.5
    model = classification.METHODS[method](0).fit(X[::2], y[::2])
    assert np.mean(model.predict(X[1::2]) == y[1::2]) > 0.9


def test_results_survive_the_file(tmp_path):
    path = tmp_path / "results" / "table.csv"
    written = [{"method": "ridge, flat", "set": "GunPoint", "accuracy": 0.8125, "chosen": "{}"}]
    classification.write(path, written)
    assert classification.read(path) == written
