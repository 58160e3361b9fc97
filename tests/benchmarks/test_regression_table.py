"""The tables of regression and of many signals: splits, and verdicts from made-up numbers."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import many_signals
import regression

pytestmark = pytest.mark.slow


def test_the_first_split_is_the_official_one():
    found = regression.splits(10, 7, 3)
    assert len(found) == 4
    assert (found[0][0] == np.arange(7)).all() and (found[0][1] == np.arange(7, 10)).all()
    for train, test in found:
        assert len(train) == 7 and sorted([*train, *test]) == list(range(10))
    assert len({tuple(train) for train, _ in found}) == 4


@pytest.mark.parametrize("name", regression.SETS)
def test_sets_come_with_their_libraries(name):
    pytest.importorskip(regression.SETS[name])
    X, y, n_train = regression.signals(name)
    assert X.ndim == 3 and len(X) == len(y) > n_train > len(y) / 2
    assert y.dtype == float and len(np.unique(y)) > 10


def test_r2_by_method_and_set():
    r2 = {"ridge, flat": [0.5, 0.4, 0.6], "rescntk": [0.7, 0.5, 0.9]}
    rows = [
        {"method": m, "set": "Tecator", "split": k, "r2": value, "seconds": 1.0}
        for m, values in r2.items()
        for k, value in enumerate(values)
    ]
    text = regression.report(rows)
    assert "| Tecator, official | 0.500 | **0.700** |" in text
    assert "| Tecator, random splits | 0.500 ± 0.100 | **0.700 ± 0.200** |" in text
    assert "less ridge +0.200 on the official split, +0.200 ± 0.100 on random splits" in text


def test_verdicts_of_many_signals():
    sizes = {"passes": 4, "predict_seconds": 1.0, "megabytes": 100.0, "score": 0.9}
    rows = [
        sizes | {"n": n, "landmarks": m, "fit_seconds": seconds, "accuracy": accuracy}
        for n, m, seconds, accuracy in (
            (1000, "all", 50.0, 0.9),
            (1000, 500, 40.0, 0.89),
            (2000, "all", 200.0, 0.9),
            (2000, 500, 80.0, 0.9),
            (20_000, 500, 1300.0, 0.95),
        )
    ]
    text = many_signals.report(rows)
    assert "1000 signals, landmarks' accuracy over all signals': 0.989, asked 0.99: missed" in text
    assert "2000 signals, landmarks' accuracy over all signals': 1.000, asked 0.99: met" in text
    assert "half the processor seconds: 650 s, asked 600 s: missed" in text
