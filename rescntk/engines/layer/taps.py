"""`Taps`: some taps along an axis. A filter is a sequence of them (`taps_of_filter`)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from ...network.parts import Filter

_MOST_TAPS = 1 << 16
"""Most taps of a convolution: each is a row of tables, and such a filter takes seconds."""


class Taps(NamedTuple):
    """Taps `dilation` pixels apart along an axis, around their own pixel."""

    n_taps: int
    dilation: int
    axis: int
    """0 of signals; of images 0 across lines, 1 along them."""
    is_triangle: bool = False
    """Whether five taps have weights 1 2 3 2 1, as three taps twice; else they are equal."""

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of the taps, the middle one first; they add up to 1."""
        weights = (3, 1, 2, 2, 1) if self.is_triangle else (1,) * self.n_taps
        return tuple(weight / self.total for weight in weights)

    @property
    def total(self) -> int:
        """The sum of the weights in units of the smallest."""
        return 9 if self.is_triangle else self.n_taps

    @property
    def offsets(self) -> range:
        """The pixels of the taps, counted from the merge's own pixel."""
        reach = self.dilation * (self.n_taps // 2)
        return range(-reach, reach + 1, self.dilation)


NO_TAPS = Taps(0, 1, 0)
"""The taps of steps that read a pixel pair alone."""


def taps_of_filter(convolution_filter: Filter) -> Iterator[Taps]:
    """Yield the taps of convolutions that make a filter, one after the other.

    Each has a prime number of equal taps, so that few numbers are added. A filter whose size has a
    prime factor above `_MOST_TAPS` is refused.
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
