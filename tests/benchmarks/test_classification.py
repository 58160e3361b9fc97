"""The classification benchmark: equal signals for all methods, fair seconds, kernels of others."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
import classification
import classification_methods
import harness
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


def test_seconds_and_rows_that_are_kept(tmp_path, monkeypatch):
    pytest.importorskip("aeon")
    given = classification.accuracy, ["ridge, flat"], ("GunPoint", "ACSF1")
    rows = classification.gather(tmp_path / "results.csv", *given)
    assert [row["set"] for row in rows] == ["GunPoint", "ACSF1"] and rows[0]["seconds"] > 0
    monkeypatch.setattr(harness, "apart", None)  # what is in the file is kept
    again = classification.gather(tmp_path / "results.csv", *given)
    assert [row["set"] for row in again] == ["GunPoint", "ACSF1"]


def test_the_kernels_of_other_people():
    """Equal points: the number of alignments. Steps along two axes, in one order or in two."""
    points = np.zeros((5, 1))
    alignments = np.exp(classification_methods.alignment_logarithm(points, points[:4]))
    assert alignments == pytest.approx(129)  # Delannoy's number of 4 and 3
    x, bessel = np.repeat(np.eye(2), 64, axis=0) / 64, np.i0(2.0)
    for z, value in ((x, bessel**2), (x[::-1], 2 * bessel - 1)):  # of the series of signatures
        assert classification_methods.signature_kernel(x, z) == pytest.approx(value, rel=1e-3)
