"""Pixels of a ring that the units of each layer depend on, and which of them a filter reaches."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from ...network import Filter, Network


def taps(window: Filter, d: int) -> Counter[int]:
    """Return the number of taps of a centred filter at each pixel that it reaches on a ring."""
    return Counter(k % d for k in window.taps)


def shifts(head: str, d: int) -> range:
    """Return the shifts of the signal over which a head averages."""
    return range(1 if head == "equivariant" else d)


def rotate(array: np.ndarray, pixel: int) -> np.ndarray:
    """Return the array that `pixel` carries if pixel 0 carries `array`: axes rotated, a view."""
    d = array.ndim
    return array.transpose([(axis - pixel) % d for axis in range(d)])


class Window(NamedTuple):
    """The pixels, relative to its own, that a unit depends on: a subset of a ring."""

    pixels: frozenset[int]
    d: int

    def widen(self, window: Filter) -> Window:
        """Return the window of a filter over units with this one."""
        reached = {(p + k) % self.d for p in self.pixels for k in taps(window, self.d)}
        return Window(frozenset(reached), self.d)

    def shape(self, n: int) -> tuple[int, ...]:
        """Return the shape of an array over this window, `n` nodes a pixel."""
        return tuple(n if pixel in self.pixels else 1 for pixel in range(self.d))


class Windows(NamedTuple):
    """The windows of each layer's units."""

    before: tuple[Window, ...]
    """Windows of the pre-activations g^l, l = 1 … L."""
    features: tuple[Window, ...]
    """Windows of the features f^l, l = 0 … L; the last is the receptive field of the output."""


def windows(network: Network, d: int) -> Windows:
    """Return the windows of all layers of a network on `d` pixels."""
    before, features = [], [Window(frozenset({0}), d).widen(network.input_filter)]
    for layer in range(1, network.depth + 1):
        before.append(features[-1].widen(network.inner_filter(layer)))
        branch = before[-1].widen(network.outer_filter(layer))
        union = branch.pixels | (features[-1].pixels if network.skip else frozenset())
        features.append(Window(union, d))
    return Windows(tuple(before), tuple(features))
