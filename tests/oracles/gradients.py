"""Derivatives of kernels of a pair of signals: five-point differences in 40 digits."""

import math
from itertools import product

import numpy as np

from rescntk.validation import HEADS, KINDS
from tests.oracles import definition
from tests.oracles.definition import mp

KERNELS = [*product(KINDS, HEADS, (False, True))]
"""Kind, head and whether the kernel is normalized."""


def _values(network, x, z):
    """Return K(x, z) of all `KERNELS`; signals of two lengths are repeated up to one."""
    length = math.lcm(x.shape[-1], z.shape[-1])
    X = np.stack([np.tile(signal, length // signal.shape[-1]) for signal in (x, z)])
    both = definition.pixel_pairs(X, network)[network.depth]
    found = []
    for kind, head, normalized in KERNELS:
        K = definition.head(both[KINDS.index(kind)], head)
        found.append(K[0, 1] / mp.sqrt(K[0, 0] * K[1, 1]) if normalized else K[0, 1])
    return np.array(found)


def _slope(values, step):
    """Return the derivative of a function at 0, with an error of step⁴/30 times the fifth one."""
    near, far = (values(k * step) - values(-k * step) for k in (1, 2))
    return ((8 * near - far) / (12 * step)).astype(float)


def by_signals(network, x, z, step):
    """Return the derivatives of all `KERNELS` by x and by z, each (kernels, *shape)."""
    step, both = mp.mpf(step), [np.frompyfunc(mp.mpf, 1, 1)(signal) for signal in (x, z)]
    found = []
    for side, signal in enumerate(both):
        gradient = np.empty((len(KERNELS), *signal.shape))
        for place in np.ndindex(signal.shape):

            def values(change, side=side, place=place):
                moved = [each.copy() for each in both]
                moved[side][place] += change
                return _values(network, *moved)

            gradient[:, *place] = _slope(values, step)
        found.append(gradient)
    return found


def by_number(network, name, x, z, step):
    """Return the derivatives of all `KERNELS` by a number of the network; `step` is relative."""
    at = getattr(network, name)
    return (
        _slope(lambda s: _values(network.replace(**{name: at * (1 + float(s))}), x, z), step) / at
    )
