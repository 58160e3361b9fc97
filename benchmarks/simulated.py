"""Simulated problems: machines, heart beats, process sensors, and when something begins.

Each function returns n signals (n, n_channels, n_timepoints) and their labels (n,). Bearing, beats,
process and onset were written before any of our classifiers saw them, and do not follow one. Passes
and weights were chosen with an eye on plants and bursts, and later on bearing, process and onset.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Problem = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Training signals and labels, test signals and labels."""


def coloured(rng: np.random.Generator, shape: tuple[int, ...], memory: float) -> np.ndarray:
    """Return noise of variance 1 in which a time point keeps the share `memory` of the last."""
    noise = rng.standard_normal(shape)
    for k in range(1, shape[-1]):
        noise[..., k] = memory * noise[..., k - 1] + np.sqrt(1 - memory**2) * noise[..., k]
    return noise


def bearing(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Vibration of a bearing, 400 points: healthy, or impulses by a fault of a race.

    An impulse rings at .21 cycles a point for 8 points. Outer race: every 40 points; inner race:
    every 26 points, louder and softer with the shaft's turn of 130 points. Noise has variance 1.
    """
    labels, time = rng.integers(0, 3, n), np.arange(400)
    X = coloured(rng, (n, 400), 0.5)
    X += 0.7 * np.sin(2 * np.pi * (time / 130 + rng.random((n, 1))))
    ring = np.sin(2 * np.pi * 0.21 * np.arange(40)) * np.exp(-np.arange(40) / 8)
    for x, label in zip(X, labels, strict=True):
        period, turn = (0, 40, 26)[label], rng.random()
        start, size = rng.uniform(0, 40), rng.uniform(1.0, 2.0)
        while label and start < 400:
            start_point, loud = int(start), size
            if label == 2:
                loud *= 1 + 0.6 * np.sin(2 * np.pi * (start / 130 + turn))
            part = x[start_point : start_point + 40]
            part += loud * ring[: len(part)]
            start += period * (1 + 0.02 * rng.standard_normal())
    return X[:, None], labels


def beats(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Heart beats, 120 points: every fiftieth is ectopic, without a P wave and with a wide QRS."""
    labels, time = (np.arange(n) % 50 == 0).astype(int), np.arange(120)
    X = 0.1 * coloured(rng, (n, 120), 0.98) + 0.08 * rng.standard_normal((n, 120))
    for x, ectopic in zip(X, labels, strict=True):
        shift, size = rng.normal(0, 4), rng.uniform(0.8, 1.2)
        wide = rng.uniform(1.3, 2.0) if ectopic else rng.uniform(0.9, 1.15)
        waves = [(34, 5, 0.0 if ectopic else 0.15), (56, 2 * wide, -0.2), (60, 2.5 * wide, 1.0)]
        waves += [(65, 2.5 * wide, -0.25), (92, 8, rng.uniform(0.15, 0.35))]
        for centre, width, height in waves:
            x += size * height * np.exp(-((time - centre - shift) ** 2) / (2 * width**2))
    order = rng.permutation(n)
    return X[order, None], labels[order]


def process(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Five sensors of a process, 80 points: normal, a leak, an oscillation, a valve that sticks."""
    labels, time = rng.integers(0, 4, n), np.arange(80)
    hidden = coloured(rng, (n, 2, 80), 0.95)
    mixing = np.array([[1.0, 0.0], [0.8, 0.4], [0.0, 1.0], [-0.6, 0.6], [0.5, -0.7]])
    X = 0.7 * mixing @ hidden + 0.5 * coloured(rng, (n, 5, 80), 0.3)
    for x, label in zip(X, labels, strict=True):
        begin = rng.integers(15, 45)
        since = np.maximum(time - begin, 0)
        if label == 1:
            x[1] -= rng.uniform(0.02, 0.05) * since
        elif label == 2:
            x[2] += rng.uniform(0.4, 0.9) * np.sin(0.9 * since + rng.uniform(0, 6)) * (since > 0)
        elif label == 3:
            stuck = begin + 8 * (since // 8)
            x[3] = np.where(since > 0, x[3, np.minimum(stuck, 79)], x[3])
    return X, labels


def onset(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise of 200 points whose deviation grows by .8 early, in the middle, or late."""
    labels, time = rng.integers(0, 3, n), np.arange(200)
    begin = 20 + 60 * labels + rng.integers(0, 40, n)
    X = coloured(rng, (n, 200), 0.6) * (1 + 0.8 * (time >= begin[:, None]))
    return (rng.uniform(0.7, 1.4, (n, 1)) * X)[:, None], labels


class Plant(NamedTuple):
    """Sizes of the differences between five states of a plant of eight sensors, and of noise."""

    noise: float
    """Standard deviation of a sensor's noise; a step has height .6 to 1.4."""
    slow: float
    """Factor of the time constant of half of the sensors, in two states."""
    ringing: float
    """Height of damped waves in four sensors, in a third state."""
    weak: float
    """Factor of the step of two sensors, in a fourth state."""
    sensors: int
    """Seed of levels and gains of the sensors."""


PLANTS = (
    Plant(0.15, 2.2, 0.5, 0.6, 0),
    Plant(0.25, 2.5, 0.5, 0.6, 0),
    Plant(0.25, 3.0, 0.7, 0.4, 1),
    Plant(0.3, 3.0, 0.7, 0.4, 2),
)


def steps(rng: np.random.Generator, n: int, plant: Plant) -> tuple[np.ndarray, np.ndarray]:
    """Eight sensors after a step of a plant's set point, 60 points: normal, or four faults."""
    time, labels = np.arange(60), np.arange(n) % 5
    of_sensors = np.random.default_rng([5, plant.sensors])
    levels = 10 * of_sensors.standard_normal(8)
    gains = of_sensors.uniform(0.6, 1.4, 8) * of_sensors.choice([-1, 1], 8) * np.ones((n, 8))
    X = plant.noise * coloured(rng, (n, 8, 60), 0.5) + 0.05 * rng.standard_normal((n, 8, 1))
    since = np.maximum(time - rng.integers(10, 16, n)[:, None], 0.0)
    delays = 5 * rng.uniform(0.9, 1.1, (n, 1)) * np.ones(8)
    delays[labels == 1, :4] *= plant.slow
    delays[labels == 4, 4:] *= plant.slow
    gains[labels == 3, 4:6] *= plant.weak
    X += gains[:, :, None] * (1 - np.exp(-since[:, None] / delays[:, :, None]))
    rings = plant.ringing * np.exp(-since / 15) * np.sin(2 * np.pi * since / 9)
    X[labels == 2, 2:6] += rings[labels == 2, None]
    return X + levels[:, None], labels


class Burst(NamedTuple):
    """Waves in noise of deviation 1: a class for each shape, at a random place."""

    length: int
    """Of a signal."""
    width: int
    """Of a burst."""
    periods: tuple[float, ...] = ()
    """Of a class' wave. Without periods, a smooth bump is one class and a flat one the other."""
    height: float = 3.0
    faded: bool = False
    """Whether a wave comes and goes slowly."""
    phase: bool = True
    """Whether a wave starts anywhere in its period."""


BURSTS = {
    "patterns of periods 8 and 16": Burst(96, 16, (16, 8), phase=False),
    "bumps": Burst(120, 24),
    "faded, periods 5 and 9": Burst(150, 30, (5, 9), faded=True),
    "faded, periods 4, 7 and 12": Burst(300, 40, (4, 7, 12), faded=True),
    "periods 4 and 8, 100 points": Burst(100, 20, (4, 8)),
    "periods 4 and 8, 200 points": Burst(200, 20, (4, 8)),
    "periods 4 and 16": Burst(100, 16, (4, 16)),
}


def bursts(
    rng: np.random.Generator, n: int, burst: Burst
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Signals of one channel, their labels, and the first time point of each burst, (n,)."""
    classes = max(2, len(burst.periods))
    labels, places = np.arange(n) % classes, rng.integers(0, burst.length - burst.width, n)
    X, time = rng.standard_normal((n, burst.length)), np.arange(burst.width)
    if not burst.periods:
        X *= 0.5
    fade = np.hanning(burst.width) if burst.faded else np.ones(burst.width)
    across = np.linspace(-1, 1, burst.width)
    bumps = np.array([0.75 * (np.abs(across) < 0.6), np.exp(-8 * across**2)])
    for x, label, begin in zip(X, labels, places, strict=True):
        start = rng.uniform(0, 2 * np.pi) * burst.phase
        shape = (
            bumps[label]
            if not burst.periods
            else fade * np.sin(2 * np.pi * time / burst.periods[label] + start)
        )
        x[begin : begin + burst.width] += burst.height * shape
    return X[:, None], labels, places


def sensors(
    rng: np.random.Generator, n: int, size: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noise of 40 sensors, classes, and three sensors whose waves of a size differ with them."""
    y, X = np.arange(n) % 2, rng.standard_normal((n, 40, 64))
    places = rng.permutation(40)[:3]
    for case, sensor in np.ndindex(n, 3):
        start, phase = rng.integers(44), rng.uniform(0, 6)
        wave = np.sin((0.7 if y[case] else 1.1) * np.arange(20) + phase)
        X[case, places[sensor], start : start + 20] += size * wave
    return X, y, places


def difference(rng: np.random.Generator, n: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Six channels, and classes: smooth or rough is the difference of two, which share noise."""
    y, X = np.arange(n) % 2, rng.standard_normal((n, 6, 64))
    hidden, shared = rng.standard_normal((n, 64)), noise * rng.standard_normal((n, 64))
    for t in range(1, 64):
        hidden[:, t] += np.where(y, 0.6, -0.6) * hidden[:, t - 1]
    X[:, 0], X[:, 1] = shared + hidden, shared - hidden
    return X, y


def drawn(
    make: Callable[..., tuple[np.ndarray, np.ndarray]], seed: int, train: int, test: int
) -> Problem:
    """Return training and test signals of a problem, drawn with a seed."""
    rng = np.random.default_rng(seed)
    return (*make(rng, train), *make(rng, test))


def drifted(problem: Problem, seed: int) -> Problem:
    """Return a problem whose test signals' levels moved by half a deviation of their channel."""
    X, y, Z, truth = problem
    signs = np.random.default_rng([seed, 1]).choice([-1.0, 1.0], X.shape[1])
    return X, y, Z + 0.5 * (signs * X.std(axis=(0, 2)))[:, None], truth
