"""The classification benchmark: equal signals for all methods, fair seconds, kernels of others."""

from functools import partial
from types import SimpleNamespace

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
    monkeypatch.setattr(classification_methods, "signals", lambda name: (y, y, y, y))
    found = classification_methods.ceilings("eight classes")
    assert found == {5: pytest.approx(0.6), 10: 1.0, 20: 1.0, 50: 1.0}


def test_noise_has_the_deviations_of_the_training_signals(monkeypatch):
    seen, model = [], SimpleNamespace(fit=lambda X, y: model)
    model.predict = lambda Z: seen.append(Z) or np.zeros(len(Z))
    X, y = np.random.default_rng(9).standard_normal((50, 2, 40)) * [[1], [9]], np.arange(50) % 2
    monkeypatch.setattr(classification_methods, "signals", lambda name: (X, None, 0 * X, y))
    monkeypatch.setitem(classification_methods.METHODS, "constant", lambda seed: model)
    rows = classification_methods.noisy("constant", "made up")
    levels = [0.0, 0.02, 0.05, 0.1]
    assert [(row["noise"], row["accuracy"]) for row in rows] == [(x, 0.5) for x in levels]
    for Z, level in zip(seen, 3 * levels, strict=True):
        assert Z.std(axis=(0, 2)) == pytest.approx([level, 9 * level], rel=0.1)


def test_seconds_and_rows_that_are_kept(tmp_path):
    pytest.importorskip("aeon")
    keys = [{"method": "ridge, flat", "set": name} for name in ("GunPoint", "ACSF1")]
    path, measure = tmp_path / "results.csv", partial(harness.apart, classification.accuracy)
    harness.gather(path, keys, measure)
    rows = harness.read(path)
    assert list(rows["set"]) == ["GunPoint", "ACSF1"] and rows["seconds"][0] > 0
    harness.gather(path, keys, None)  # what is in the file is kept
    assert harness.read(path).equals(rows)


def test_the_kernels_of_other_people():
    """Equal points: the number of alignments. Steps along two axes, in one order or in two."""
    points = np.zeros((5, 1))
    alignments = np.exp(classification_methods.alignment_logarithm(points, points[:4]))
    assert alignments == pytest.approx(129)  # Delannoy's number of 4 and 3
    x, bessel = np.repeat(np.eye(2), 64, axis=0) / 64, np.i0(2.0)
    for z, value in ((x, bessel**2), (x[::-1], 2 * bessel - 1)):  # of the series of signatures
        assert classification_methods.signature_kernel(x, z) == pytest.approx(value, rel=1e-3)
