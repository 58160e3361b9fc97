"""`Taps`: the taps of a convolution along one axis.

A long filter is applied as a sequence of such convolutions (`taps_of_filter`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from ...network.parts import Filter

_MOST_TAPS = 1 << 16
"""The largest number of taps of one convolution. Each tap is a table row, and a filter of this size
takes seconds to compute."""


class Taps(NamedTuple):
    """An odd number of taps along one axis, `dilation` pixels apart, around a pixel."""

    n_taps: int
    dilation: int
    axis: int
    """The axis of the taps: 0 for signals; for images 0 across lines and 1 along lines."""
    is_triangle: bool = False
    """Whether the taps are five with the weights 1, 2, 3, 2, 1, which are those of two convolutions
    of three taps, one after the other. Otherwise all weights are equal."""

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of the taps, the middle one first; they add up to 1."""
        weights = (3, 1, 2, 2, 1) if self.is_triangle else (1,) * self.n_taps
        return tuple(weight / self.total for weight in weights)

    @property
    def total(self) -> int:
        """The sum of the weights, divided by the smallest weight."""
        return 9 if self.is_triangle else self.n_taps

    @property
    def offsets(self) -> range:
        """The positions of the taps relative to the pixel for which the mean is computed."""
        reach = self.dilation * (self.n_taps // 2)
        return range(-reach, reach + 1, self.dilation)


NO_TAPS = Taps(0, 1, 0)
"""The taps of a step that reads only the pixel pair for which it computes a result."""


def taps_of_filter(convolution_filter: Filter) -> Iterator[Taps]:
    """Yield the taps of convolutions that, one after the other, are equal to a filter.

    Each has a prime number of equal taps, so that few numbers are added. A filter whose size has a
    prime factor above `_MOST_TAPS` raises a ValueError.
    """
    for axis in reversed(range(convolution_filter.n_axes)):
        dilation, size = convolution_filter.dilation, convolution_filter.size
        while size > 1:
            most = min(math.isqrt(size), _MOST_TAPS)
            primes = (p for p in range(3, most + 1, 2) if size % p == 0)
            n_taps = next(primes, size)
            if n_taps > _MOST_TAPS:
                raise ValueError(
                    f"network has a filter of {convolution_filter.size} pixels, expected a size "
                    f"whose prime factors are at most {_MOST_TAPS}: the pixels of each factor are "
                    f"added one by one"
                )
            yield Taps(n_taps, dilation, axis)
            dilation, size = dilation * n_taps, size // n_taps
