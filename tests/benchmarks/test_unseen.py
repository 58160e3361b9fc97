"""Simulated problems have what their docstrings say; the plain methods see what they should."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("aeon")
import simulated
import unseen
from scipy.signal import periodogram

SHAPES = {"bearing": (1, 400), "beats": (1, 120), "process": (5, 80), "onset": (1, 200)}


@pytest.mark.parametrize("name", SHAPES)
def test_problems_are_drawn_by_their_seed(name):
    make = getattr(simulated, name)
    X, y, Z, truth = simulated.drawn(make, 3, 100, 50)
    assert X.shape == (100, *SHAPES[name]) and Z.shape == (50, *SHAPES[name])
    again = simulated.drawn(make, 3, 100, 50)
    assert all((one == other).all() for one, other in zip((X, y, Z, truth), again, strict=True))
    assert (simulated.drawn(make, 4, 100, 50)[0] != X).all(axis=(1, 2)).all()
    assert not set(map(bytes, X)) & set(map(bytes, Z))
    counts = np.bincount(y)
    assert counts[1] == 2 if name == "beats" else counts.min() > 15


def test_what_tells_the_classes_apart(rng):
    X, y = simulated.bearing(rng, 300)
    frequency, power = periodogram(X[:, 0])
    rings = power[:, (frequency > 0.18) & (frequency < 0.24)].mean(axis=1)
    assert rings[y > 0].mean() > 1.5 * rings[y == 0].mean()
    X, y = simulated.onset(rng, 300)
    middle = np.abs(X[:, 0, 60:100]).mean(axis=1) / np.abs(X[:, 0, :20]).mean(axis=1)
    assert middle[y == 0].mean() > 1.4 and middle[y == 2].mean() < 1.2
    X, y = simulated.process(rng, 300)
    repeated = (np.diff(X[:, 3]) == 0).sum(axis=1)
    assert (repeated[y == 3] > 10).all() and (repeated[y != 3] == 0).all()


def test_drift_moves_levels_by_half_a_deviation():
    problem = simulated.drawn(simulated.process, 0, 80, 50)
    X, y, Z, truth = simulated.drifted(problem, 0)
    assert X is problem[0] and y is problem[1] and truth is problem[3]
    moves = (Z - problem[2]) / problem[0].std(axis=(0, 2))[:, None]
    np.testing.assert_allclose(np.abs(moves), 0.5)
    assert (np.ptp(moves, axis=(0, 2)) < 1e-12).all()


def test_methods_for_signals_of_different_lengths(rng):
    X, y = [rng.standard_normal((1, n)) for n in (40, 60, 50, 30) * 5], np.arange(20) % 2
    for x in X[::2]:
        x += 4 * np.sin(np.arange(x.shape[1]))
    longer = [rng.standard_normal((1, n)) for n in (80, 35)]
    longer[0] += 4 * np.sin(np.arange(80))
    for method in ("MiniRocket", "random forest"):
        model = unseen.methods(0, balanced=True)[method]().fit(X, y)
        assert model.predict(longer).tolist() == [0, 1]
    assert unseen.features(X).shape == (20, 18)


def test_the_page_has_a_line_for_each_set():
    rows = [
        {"method": m, "set": name, "seed": s, "train": 5, "test": 6, "accuracy": 0.5 + s / 10}
        | {"seconds": 1.0}
        for name in ("Chinatown", unseen.RARE)
        for m in ("a", "b")
        for s in (0, 1)
    ]
    page = unseen.table(rows)
    assert "| Chinatown | real | 5 | 6 | **0.550 ± 0.050** | **0.550 ± 0.050** |" in page
    assert "| beats, 1 : 50 | simulated | 5 | 6 |" in page
    assert "| **mean** |  |  |  | **0.550** | **0.550** |" in page
    assert "| processor seconds |  |  |  | 4 | 4 |" in page
