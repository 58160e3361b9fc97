"""Simulated problems have what their docstrings say; the plain methods see what they should."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("aeon")
import estimators
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


@pytest.mark.parametrize("plant", simulated.PLANTS)
def test_steps_of_a_plant(plant):
    make = partial(simulated.steps, plant=plant)
    X, y, Z, _ = simulated.drawn(make, 3, 100, 50)
    assert X.shape == (100, 8, 60) and Z.shape == (50, 8, 60)
    assert (simulated.drawn(make, 3, 100, 50)[0] == X).all()
    assert (np.bincount(y) == 20).all()
    begun = np.abs(X[:, :, :9].mean(axis=2) - X[:, :, :9].mean(axis=(0, 2)))
    assert begun.max() < 6 * plant.noise  # levels are the sensors' own
    rise = np.abs(X[:, :, 50:].mean(axis=2) - X[:, :, :9].mean(axis=2))
    weak = rise[y == 3, 4:6].mean() / rise[y == 0, 4:6].mean()
    assert abs(weak - plant.weak) < 0.2


@pytest.mark.parametrize("name", simulated.BURSTS)
def test_bursts_stand_at_their_places(name, rng):
    burst = simulated.BURSTS[name]
    X, y, places = simulated.bursts(rng, 120, burst)
    assert X.shape == (120, 1, burst.length) and len(np.unique(y)) == max(2, len(burst.periods))
    inside = np.array([x[0, p : p + burst.width] for x, p in zip(X, places, strict=True)])
    others = [np.arange(p, p + burst.width) for p in places]
    outside = [np.delete(x[0], part).std() for x, part in zip(X, others, strict=True)]
    assert np.mean(outside) == pytest.approx(1.0 if burst.periods else 0.5, rel=0.05)
    assert inside.std() > 1.3 * np.mean(outside)
    frequency, power = periodogram(inside, nfft=960)
    for k, period in enumerate(burst.periods):
        assert 1 / frequency[power[y == k].mean(axis=0).argmax()] == pytest.approx(period, rel=0.2)


def test_methods_for_signals_of_different_lengths(rng):
    X, y = [rng.standard_normal((1, n)) for n in (40, 60, 50, 30) * 5], np.arange(20) % 2
    for x in X[::2]:
        x += 4 * np.sin(np.arange(x.shape[1]))
    longer = [rng.standard_normal((1, n)) for n in (80, 35)]
    longer[0] += 4 * np.sin(np.arange(80))
    forest = unseen.methods(0, balanced=True)["random forest"]()
    assert forest.fit(X, y).predict(longer).tolist() == [0, 1]
    seen = []
    padded = unseen.Padded(SimpleNamespace(fit=lambda Z, _: seen.append(Z), predict=seen.append))
    padded.fit(X, y).predict(longer)
    assert [Z.shape for Z in seen] == [(20, 1, 60), (2, 1, 60)] and seen[0][1].all()
    assert (seen[0][0, :, :40] == X[0]).all() and not seen[0][0, :, 40:].any()
    assert (seen[1][0] == longer[0][:, :60]).all()
    assert unseen.features(X).shape == (20, 18)


def test_the_page_has_a_line_for_each_set():
    rows = pd.DataFrame(
        {"method": m, "set": name, "seed": s, "train": 5, "test": 6, "accuracy": 0.5 + s / 10}
        | {"seconds": 1.0}
        for name in ("Chinatown", unseen.RARE)
        for m in ("a", "b")
        for s in (0, 1)
    )
    page = unseen.table(rows)
    assert "| Chinatown | real | 5 | 6 | **0.550 ± 0.050** | **0.550 ± 0.050** |" in page
    assert "| beats, 1 : 50 | simulated | 5 | 6 |" in page
    assert "| **mean** |  |  |  | **0.550** | **0.550** |" in page
    assert "| processor seconds |  |  |  | 4 | 4 |" in page


def test_the_page_of_drift_and_shares():
    """Means over draws, sets and methods; the worst draws; what warned."""

    def judged(accuracy, warned):
        return {"accuracy": accuracy, "errors only": accuracy - 0.2, "warned": warned}

    drift = [
        {"problem": name, "method": method, "clean": [judged(0.9, 0.0)]}
        | {"drift": [judged(0.7, 1.0), judged(0.8, name == "plant 1")]}
        for name in ("plant 1", *estimators.SETS)
        for method in estimators.EFFORTS
    ]
    bursts = [
        {"signals": "a", "method": method, "right": 0.9, "on the burst": share}
        for method in estimators.EFFORTS
        for share in (0.7, 0.8)
    ]
    found = {"method": "a", "share": 0.125, "windows": 4, "costs most": 0.5, "among three": 0.8}
    page = estimators.text(
        {"drift": drift, "bursts": bursts, "occlusion": [found]}
        | {"latency": [{"training signals": 50, "ms": 12.34, "MB": 0.5, "load": 2.1}]}
    )
    assert "| plant 1 | 0.900 | 0.750 | 0.550 | 0.900 | 0.750 | 0.550 |" in page
    assert "| **eight sets** | 0.900 | 0.750 | 0.550 | 0.900 | 0.750 | 0.550 |" in page
    assert "have 0.700 (fast) and 0.700 without" in page and "of a plant has 0.700" in page
    assert "for 0 of 16 test parts without drift, and for 56% of the batches" in page
    assert "| a | 0.900 | 0.750 | 0.700 | 0.900 | 0.750 | 0.700 |" in page
    assert "| 50 | 12.3 | 0.50 | 2 |" in page and "| a | 0.12 |" in page
    assert "| 4 | 0.50 (chance 0.25) | 0.80 (chance 0.75) |" in page
