"""Simulated problems: machines, heart beats, process sensors, and when something begins.

Each function returns n signals (n, n_channels, n_timepoints) and their labels (n,). They were
written before any of our classifiers saw them, and do not follow one.
"""

from collections.abc import Callable

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
            place, loud = int(start), size
            if label == 2:
                loud *= 1 + 0.6 * np.sin(2 * np.pi * (start / 130 + turn))
            part = x[place : place + 40]
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
        for place, width, height in waves:
            x += size * height * np.exp(-((time - place - shift) ** 2) / (2 * width**2))
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
