"""The problems of benchmarks/scale.py: signals without end, and windows of a long recording."""

from itertools import pairwise

import numpy as np

LENGTH = 128
"""Time points of a signal."""

NOISE = 2.0
"""Standard deviation of the noise of `cylinder_bell_funnel`; Saito's is 1.

Raising it makes the problem harder, and more signals of use. Chosen so that the accuracy still
rises from 5 000 signals to 50 000. The events have a height of 6 ± 1.
"""

GAP = LENGTH
"""Time points between the windows for training and for testing: no window reaches into both."""


def cylinder_bell_funnel(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n signals (n, 1, 128) of three classes, and their labels (Saito 1994).

    A signal is noise with one event, from a in 16 … 32 to b in a + 32 … a + 96. The event is level
    (cylinder), rises (bell) or falls (funnel).
    """
    rng = np.random.default_rng(seed)
    labels, time = rng.integers(0, 3, n), np.arange(LENGTH)
    start = rng.integers(16, 33, (n, 1))
    end = start + rng.integers(32, 97, (n, 1))
    ramp = (time - start) / (end - start)
    shape = np.choose(labels[:, None], [np.ones(ramp.shape), ramp, 1.0 - ramp])
    height = 6.0 + rng.standard_normal((n, 1))
    event = height * shape * ((time >= start) & (time <= end))
    return (event + NOISE * rng.standard_normal(event.shape))[:, None], labels


def electric_devices(n: int, seed: int, test: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return n windows (n, 1, 128) of aeon's recording ElectricDevices, and their segments.

    The recording has 11 532 time points and five segments of different devices. The first 70 %
    of each segment are for training, the last part is for testing.
    """
    from aeon.datasets import load_electric_devices_segmentation

    recording, _, changes = load_electric_devices_segmentation()
    values = np.asarray(recording, dtype=float)
    windows = np.lib.stride_tricks.sliding_window_view(values, LENGTH)
    edges = [0, *map(int, changes), len(values)]
    starts, labels = [], []
    for label, (first, last) in enumerate(pairwise(edges)):
        middle = first + int(0.7 * (last - first))
        part = np.arange(middle, last - LENGTH) if test else np.arange(first, middle - GAP)
        starts.append(part)
        labels.append(np.full(len(part), label))
    starts, labels = np.concatenate(starts), np.concatenate(labels)
    if n > len(starts):
        raise ValueError(f"n is {n}, expected at most {len(starts)} windows")
    chosen = np.random.default_rng(seed).choice(len(starts), n, replace=False)
    return windows[starts[chosen]][:, None], labels[chosen]


def problem(name: str, n: int, n_test: int) -> tuple[np.ndarray, ...]:
    if name == "cylinder-bell-funnel":
        return *cylinder_bell_funnel(n, seed=0), *cylinder_bell_funnel(n_test, seed=1)
    return *electric_devices(n, 0, test=False), *electric_devices(n_test, 1, test=True)
