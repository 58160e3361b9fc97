"""The tables of regression, many signals and ratios: splits, and verdicts from made-up numbers."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
import harness
import many_signals
import ratios
import regression

pytestmark = pytest.mark.slow


def test_the_table_of_ratios_has_the_cases_of_the_script():
    lines = (harness.RESULTS / "ratios.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(ratios.cases())


def test_the_first_split_is_the_official_one():
    splits = regression.splits(10, 7, 3)
    assert (splits[0][0] == np.arange(7)).all() and len({tuple(train) for train, _ in splits}) == 4
    for train, test in splits:
        assert len(train) == 7 and sorted([*train, *test]) == list(range(10))


@pytest.mark.parametrize("name", regression.SETS)
def test_sets_come_with_their_libraries(name):
    pytest.importorskip(regression.SETS[name])
    X, y, n_train = regression.signals(name)
    assert X.ndim == 3 and len(X) == len(y) > n_train > len(y) / 2
    assert y.dtype == float and len(np.unique(y)) > 10


def test_r2_by_method_and_set():
    r2 = {"ridge, flat": [0.5, 0.4, 0.6], "rescntk": [0.7, 0.5, 0.9]}
    text = regression.report(
        [{"method": m, "set": "Tecator", "r2": x} for m, values in r2.items() for x in values]
    )
    assert "| Tecator, official | 0.500 | **0.700** |" in text
    assert "| Tecator, random splits | 0.500 ± 0.100 | **0.700 ± 0.200** |" in text
    assert "less ridge +0.200 on the official split, +0.200 ± 0.100 on random splits" in text


def test_verdicts_of_many_signals():
    names = ("n", "landmarks", "fit_seconds", "accuracy")
    numbers = [(1000, "all", 50.0, 0.9), (1000, 500, 40.0, 0.89), (2000, "all", 200.0, 0.9)]
    numbers += [(2000, 500, 80.0, 0.9), (20_000, 500, 1300.0, 0.95)]
    rows = [dict(zip(names, row, strict=True)) for row in numbers]
    text = many_signals.report([row | {"predict_seconds": 1.0, "megabytes": 9.0} for row in rows])
    assert "1000 signals, landmarks' accuracy over all signals': 0.989, asked 0.99: missed" in text
    assert "2000 signals, landmarks' accuracy over all signals': 1.000, asked 0.99: met" in text
    assert "half the processor seconds: 650 s, asked 600 s: missed" in text
