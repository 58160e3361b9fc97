"""Rows of benchmarks/gpu.py: what is measured, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

DTYPES = ("float32", "float64")
DEPTH, CHANNELS = 9, 4
BOTH = ("gpk", "ntk")
PARTS = ("layer", "large", "grams", "peers")
OURS, REFERENCE, JAX = "rescntk", "reference on CuPy", "JAX"
PEERS = (REFERENCE, JAX)


@dataclass(frozen=True)
class Row:
    """A measurement. Peers choose `n` themselves: None."""

    part: str
    who: str
    dtype: str
    n: int | None
    d: int
    q: int

    @property
    def pairs(self) -> float:
        """Pairs of signals: of a symmetric Gram, or of all signals with half of them."""
        n = self.n or 0
        return n * n / 2 if self.part == "layer" else n * (n + 1) / 2

    @property
    def entries(self) -> float:
        """Pixel pairs times layers."""
        return self.pairs * self.d**2 * DEPTH

    def of(self, found: dict[str, Any]) -> bool:
        return all(found[name] == value for name, value in vars(self).items())

    def __str__(self) -> str:
        n = "" if self.n is None else f"n = {self.n}, "
        return f"{self.part}, {self.who}, {self.dtype}, {n}d = {self.d}, q = {self.q}"


@dataclass(frozen=True)
class Sizes:
    """A star: every length and filter for `n` signals, and more signals at its centre (d, q)."""

    layer: int
    large: int
    n: int
    d: int
    q: int
    lengths: tuple[int, ...]
    filters: tuple[int, ...]
    more: tuple[int, ...]
    batches: tuple[int, ...]  # of the peers, in pixel pairs

    def batch_sizes(self, d: int) -> list[int]:
        """Return the numbers n of signals that peers try, n with n; four at least."""
        return sorted({max(4, round(pixels**0.5 / d)) for pixels in self.batches})


FULL = Sizes(
    1024, 10_000, 1000, 128, 3, (32, 64, 128, 256), (3, 9), (2000, 5000),
    (2**22, 2**24, 2**26, 2**28),
)  # fmt: skip

# To see that every part runs, in a test or at the beginning of a lease.
SMALL = Sizes(6, 9, 5, 8, 3, (5, 8), (3,), (7,), (2**8, 2**10))


def plan(sizes: Sizes) -> list[Row]:
    """Return all rows, the most telling first.

    JAX keeps the memory it once had as long as it runs, so its rows come together.
    """
    centre = (sizes.d, sizes.q)
    others = [(d, q) for d in sizes.lengths for q in sizes.filters if (d, q) != centre]

    def rows(part: str, who: str, n: int | None, *shapes: tuple[int, int]) -> list[Row]:
        return [Row(part, who, dtype, n, *shape) for shape in shapes for dtype in DTYPES]

    return [
        *rows("layer", OURS, sizes.layer, centre),
        *rows("large", OURS, sizes.large, centre),
        *rows("grams", OURS, sizes.n, centre),
        *rows("peers", REFERENCE, None, centre),
        *rows("peers", JAX, None, centre),
        *rows("grams", OURS, sizes.n, *others),
        *rows("peers", REFERENCE, None, *others),
        *rows("peers", JAX, None, *others),
        *(row for n in sizes.more for row in rows("grams", OURS, n, centre)),
    ]
