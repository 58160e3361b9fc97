"""What an engine is asked for and what it gives back; every engine speaks in these words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..arrays import Array
from ..network import Network


@dataclass(frozen=True)
class Request:
    """Which kernels of which network, at which depths and in which precision.

    `head` is one of `HEADS` or "pixels", every pixel pair by itself. `depths` is strictly
    increasing; the recursion passes all of them on its way to the last. `threads` is the number
    of threads, None for the engine's own choice. `copied_bytes` is what the caller's arrays take
    for a value of one kind, at all depths, if he needs others than the engine returns.
    """

    network: Network
    head: str
    kinds: tuple[str, ...]
    depths: tuple[int, ...]
    dtype: str = "float64"
    threads: int | None = None
    copied_bytes: int = 0

    @property
    def summed(self) -> bool:
        """Whether only the sum of F over pixels is wanted, and nothing else depends on F."""
        return sums_features(self.network.activation, self.head)


def sums_features(activation: str, head: str) -> bool:
    """`Request.summed`: the head is a mean, and the activation does not look at F itself."""
    return activation == "relu" and head in ("trace", "gap")


@dataclass(frozen=True)
class ScaledKernel:
    """Kernel values apart from their scale, which may exceed any floating-point number.

    The kernel of cases i and k at the t-th depth is
    ``values[kind][t, i, k] * left[i] * right[k] * 2**exponents[t]``, times the readout
    scale. The diagonal has no axis k. Pixel pairs have two more axes (j, j').
    """

    values: dict[str, Array]
    left: Array
    right: Array
    exponents: tuple[int, ...]


Tick = Callable[[int], None]
"""Told the number of case pairs done since the last call."""


def silent(done: int) -> None:
    """Tell nobody: the `Tick` of a call without a progress bar."""


def pairs_above(rows: tuple[int, int], columns: tuple[int, int]) -> int:
    """Return the number of pairs of a tile on and above the diagonal of a Gram, for a `Tick`."""
    height = rows[1] - rows[0]
    return sum(min(height, max(0, k + 1 - rows[0])) for k in range(*columns))
