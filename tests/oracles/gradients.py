"""Derivatives of kernels of a pair of signals: five-point differences in 40 digits."""

import math
from itertools import product

import numpy as np

from rescntk.validation import HEADS, KINDS
from tests.oracles import definition
from tests.oracles.definition import mp

KERNELS = [*product(KINDS, HEADS, (False, True))]
"""Kind, head and whether the kernel is normalized."""


def _values(network, signals, left, right):
    """Return K(left, right) of all `KERNELS`, for pairs of signals given by number."""
    each = np.arange(len(signals))
    pairs = np.append(each, left), np.append(each, right)
    both = definition.of_pairs(np.stack(signals), network, *pairs)[network.depth]
    values = []
    for kind, head, normalized in KERNELS:
        K = definition.head(both[KINDS.index(kind)], head)
        own, K = K[: len(each)], K[len(each) :]
        values.append(K / _sqrt(own[left] * own[right]) if normalized else K)
    return np.array(values)


_sqrt = np.frompyfunc(mp.sqrt, 1, 1)
STEPS = -2, -1, 1, 2


def _slope(values, step):
    """Return derivatives from values at `STEPS`, with errors of step⁴/30 times the fifth one."""
    far_below, below, above, far_above = np.moveaxis(values, -1, 0)
    return ((8 * (above - below) - (far_above - far_below)) / (12 * step)).astype(float)


def by_signals(network, x, z, step):
    """Return the derivatives of all `KERNELS` by x and by z, each (kernels, *shape).

    Signals of two lengths are repeated up to one.
    """
    step, both = mp.mpf(step), [np.frompyfunc(mp.mpf, 1, 1)(signal) for signal in (x, z)]
    moved, fixed = [*both], []
    for side, signal in enumerate(both):
        for place, k in product(np.ndindex(signal.shape), STEPS):
            moved.append(signal.copy())
            moved[-1][place] += k * step
            fixed.append(1 - side)
    length = math.lcm(x.shape[-1], z.shape[-1])
    tiled = [np.tile(signal, length // signal.shape[-1]) for signal in moved]
    values = _values(network, tiled, np.arange(2, len(moved)), np.array(fixed))
    slopes = _slope(values.reshape(len(KERNELS), -1, len(STEPS)), step)
    of_sides = np.split(slopes, [x.size], axis=1)
    return [s.reshape(-1, *signal.shape) for s, signal in zip(of_sides, both, strict=True)]


def by_number(network, name, x, z, step):
    """Return the derivatives of all `KERNELS` by a number of the network; `step` is relative."""
    at, pair = getattr(network, name), (np.array([0]), np.array([1]))
    moved = [network.replace(**{name: at * (1 + k * step)}) for k in STEPS]
    values = [_values(each, (x, z), *pair) for each in moved]
    return _slope(np.concatenate(values, axis=1), step) / at
