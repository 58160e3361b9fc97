"""Simulated plants of eight sensors, waves of classes that overlap, and drift of levels.

Plants have states that differ in speed, height or ringing. Views and weights were chosen with an
eye on them.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Problem = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Training signals and labels, test signals and labels."""


def autoregressive_noise(
    rng: np.random.Generator, shape: tuple[int, ...], correlation: float
) -> np.ndarray:
    """Return noise of variance 1, whose neighbouring time points have this correlation."""
    noise = rng.standard_normal(shape)
    for k in range(1, shape[-1]):
        noise[..., k] = (
            correlation * noise[..., k - 1] + np.sqrt(1 - correlation**2) * noise[..., k]
        )
    return noise


class Plant(NamedTuple):
    """Sizes of the differences between five states of a plant of eight sensors, and of noise."""

    noise: float
    """Standard deviation of a sensor's noise; a step has height .6 to 1.4."""
    slowdown: float
    """Factor of the time constant of half of the sensors, in two states."""
    ringing: float
    """Height of damped waves in four sensors, in a third state."""
    attenuation: float
    """Factor of the step of two sensors, in a fourth state."""
    sensor_seed: int
    """Seed of levels and gains of the sensors."""


PLANTS = (
    Plant(0.15, 2.2, 0.5, 0.6, 0),
    Plant(0.25, 2.5, 0.5, 0.6, 0),
    Plant(0.25, 3.0, 0.7, 0.4, 1),
    Plant(0.3, 3.0, 0.7, 0.4, 2),
)


def step_responses(rng: np.random.Generator, n: int, plant: Plant) -> tuple[np.ndarray, np.ndarray]:
    """Eight sensors after a step of a plant's set point, 60 points: normal, or four faults."""
    time, labels = np.arange(60), np.arange(n) % 5
    of_sensors = np.random.default_rng([5, plant.sensor_seed])
    levels = 10 * of_sensors.standard_normal(8)
    gains = of_sensors.uniform(0.6, 1.4, 8) * of_sensors.choice([-1, 1], 8) * np.ones((n, 8))
    X = plant.noise * autoregressive_noise(rng, (n, 8, 60), 0.5) + 0.05 * rng.standard_normal(
        (n, 8, 1)
    )
    since = np.maximum(time - rng.integers(10, 16, n)[:, None], 0.0)
    delays = 5 * rng.uniform(0.9, 1.1, (n, 1)) * np.ones(8)
    delays[labels == 1, :4] *= plant.slowdown
    delays[labels == 4, 4:] *= plant.slowdown
    gains[labels == 3, 4:6] *= plant.attenuation
    X += gains[:, :, None] * (1 - np.exp(-since[:, None] / delays[:, :, None]))
    rings = plant.ringing * np.exp(-since / 15) * np.sin(2 * np.pi * since / 9)
    X[labels == 2, 2:6] += rings[labels == 2, None]
    return X + levels[:, None], labels


def overlapping_waves(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Waves of ten frequencies, each near its neighbours, in as much noise; 32 points."""
    labels, phase = np.arange(n) % 10, rng.uniform(0.0, 6.0, (n, 1))
    waves = np.sin(np.arange(32) * (0.2 + 0.05 * labels[:, None]) + phase)
    return (waves + rng.standard_normal((n, 32)))[:, None], labels


def draw_problem(
    make: Callable[..., tuple[np.ndarray, np.ndarray]], seed: int, train: int, test: int
) -> Problem:
    """Return training and test signals of a problem, drawn with a seed."""
    rng = np.random.default_rng(seed)
    return (*make(rng, train), *make(rng, test))


def with_drift(problem: Problem, seed: int) -> Problem:
    """Return a problem whose test signals' levels moved by half a deviation of their channel."""
    X, y, Z, truth = problem
    signs = np.random.default_rng([seed, 1]).choice([-1.0, 1.0], X.shape[1])
    return X, y, Z + 0.5 * (signs * X.std(axis=(0, 2)))[:, None], truth
