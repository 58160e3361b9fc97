"""Families of signals (cases, channels, d) that are hard for kernels: near, opposite, parallel."""

import numpy as np


def near(x, rng, relative=1e-3):
    """Return x with each value changed by about `relative` of itself."""
    return x * (1 + relative * rng.standard_normal(x.shape))


def duplicates(channels, d, rng):
    """Copies of a signal: equal, scaled, changed by 1e-3 and by 1e-7; and another signal."""
    x, z = rng.standard_normal((2, channels, d))
    return np.stack([x, x.copy(), 3.7 * x, near(x, rng), near(x, rng, 1e-7), z])


def opposites(channels, d, rng):
    """A signal and its negative, scaled, changed by 1e-3."""
    x = rng.standard_normal((channels, d))
    return np.stack([x, -x, -0.3 * x, -near(x, rng)])


def constants(channels, d, rng):
    """Signals that do not change, of all sizes, one of them zero."""
    levels = np.array([1.0, 3.0, -2.0, 0.1, 0.0])
    return np.broadcast_to(levels[:, None, None], (5, channels, d)).copy()


def zero_pixels(channels, d, rng):
    """Small integers; half, two thirds and a single pixel of the signals zero."""
    X = rng.integers(-1, 3, (4, channels, d)).astype(float)
    X[0, :, : d // 2] = 0
    X[1, :, d // 3 :] = 0
    X[2, :, d // 2] = 0
    return X


def steps(channels, d, rng):
    """Two levels each, in two directions: windows exactly parallel and unequally long."""
    one, other = rng.standard_normal((2, channels, 1))
    factors = np.array([[1.0, 1.0], [2.0, 0.3], [0.5, 0.7], [3.0, 5.0]])
    first = np.arange(d) < d // 2
    return np.stack([np.where(first, a * one, b * other) for a, b in factors])


def smooth(channels, d, rng):
    """Slow waves: neighbouring pixels, and windows of different signals, nearly parallel."""
    phase = rng.uniform(0, 2 * np.pi, (4, channels, 1))
    return 1.5 + np.sin(np.arange(d) / d * np.pi * np.arange(1, 5)[:, None, None] / 2 + phase)


def spikes(channels, d, rng):
    """Small noise with one large pixel."""
    X = 0.01 * rng.standard_normal((4, channels, d))
    X[np.arange(4), :, np.arange(4) % d] += 10
    return X


def uneven(channels, d, rng, closeness=1e-5, cases=3):
    """Near-parallel windows of different amplitudes: distances of features lose their digits."""
    x = rng.standard_normal((channels, d))
    amplitudes = np.exp(rng.standard_normal((cases, 1, d)))
    return np.stack([near(x, rng, closeness) for _ in range(cases)]) * amplitudes


def profile(channels, d, rng, cases=3):
    """A profile with other amplitudes at each pixel of each signal: exactly parallel pixels."""
    return rng.standard_normal((channels, d)) * np.exp(rng.standard_normal((cases, 1, d)))


def lognormal(channels, d, rng):
    """Positive values over many orders of magnitude."""
    return np.exp(4 * rng.standard_normal((3, channels, d)))


SIGNALS = (duplicates, opposites, constants, zero_pixels, steps, smooth, spikes)
"""Families for networks of all activations."""

UNEVEN = (uneven, profile, lognormal)
"""Families of uneven amplitudes, for networks of activations that are homogeneous."""
