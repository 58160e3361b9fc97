"""Noise and drift of the benchmark have the sizes that it says; plants have their states."""

import harness
import numpy as np
import pandas as pd
import pytest
import robustness
import simulated
from classification_methods import draw_signals

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


def test_conditions_have_the_deviations_of_the_training_signals():
    X = np.random.default_rng(9).standard_normal((50, 2, 40)) * [[1], [9]]
    seen = list(robustness.conditions(X, np.arange(50) % 2, 0 * X))
    assert [name for name, _ in seen[:5]] == [
        "clean",
        *(f"noise {x:g}" for x in robustness.LEVELS),
        "drift",
    ]
    for name, Z in seen[1:]:
        if name == "drift":
            moves = Z / X.std(axis=(0, 2))[:, None]
            np.testing.assert_allclose(np.abs(moves), 0.5)
            assert (np.ptp(moves, axis=(0, 2)) < 1e-12).all()
        else:
            level = float(name.split()[1])
            assert Z.std(axis=(0, 2)) == pytest.approx([level, 9 * level], rel=0.1)


@pytest.mark.parametrize("name", robustness.PLANTS)
def test_states_of_a_plant(name):
    plant = robustness.PLANTS[name]
    X, y, Z, _ = robustness.problem(name)
    assert X.shape == (100, 8, 60) and Z.shape == (200, 8, 60)
    assert (robustness.problem(name)[0] == X).all()
    assert (np.bincount(y) == 20).all()
    rise = np.abs(X[:, :, 50:].mean(axis=2) - X[:, :, :9].mean(axis=2))
    weak = rise[y == 3, 4:6].mean() / rise[y == 0, 4:6].mean()
    assert abs(weak - plant.weak) < 0.2
    assert simulated.PLANTS[int(name[-1]) - 1] is plant


def test_rows_are_kept_and_become_a_page(tmp_path, monkeypatch):
    pytest.importorskip("sklearn")
    keys = [{"method": "ridge, flat", "set": name} for name in ("plant 1", "plant 2")]
    path = tmp_path / "results.csv"
    harness.gather(path, keys, robustness.measure)
    rows = harness.read(path)
    assert len(rows) == 10 and (rows["seconds"] > 0).all() and (rows["accuracy"] > 0.3).all()
    harness.gather(path, keys, None)  # what is in the file is kept
    assert harness.read(path).equals(rows)
    of_set = rows.assign(set=rows["set"].replace("plant 2", "GunPoint"))
    ours = of_set.assign(method="rescntk", accuracy=0.5, log_loss=0.25)
    page = robustness.table(pd.concat([ours, of_set]))
    assert "| eight sets, clean | 0.500 |" in page and "| plants, drift | 0.500 |" in page
    assert "| noise 0.1 | 0.250 |" in page and "| GunPoint | 0.500 |" in page
