"""Rows of benchmarks/gpu.py: what is measured, in which order, and how long it may take."""

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

    def of(self, found: dict) -> bool:
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
    layer=1024,
    large=10_000,
    n=1000,
    d=128,
    q=3,
    lengths=(32, 64, 128, 256),
    filters=(3, 9),
    more=(2000, 5000),
    batches=(2**22, 2**24, 2**26, 2**28),
)

# To see that every part runs, in a test or at the beginning of a lease.
SMALL = Sizes(
    layer=6,
    large=9,
    n=5,
    d=8,
    q=3,
    lengths=(5, 8),
    filters=(3,),
    more=(7,),
    batches=(2**8, 2**10),
)


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


# Most calls of a measurement, and the seconds after which none is added. ROUNDS are pairs of calls
# at two depths. Larger numbers steady the median and cost time on a borrowed device. Chosen.
CALLS, ENOUGH = 5, 2.0
ROUNDS, ENOUGH_ROUNDS = 9, 4.0

# Estimates before anything is measured. _FIRST_RATE: seconds of an entry, twice the bars of
# gpu_report.py. _ONCE: seconds for arrays, compiled kernels and warming up. _FIRST_PEER: seconds of
# a peer's row. Larger numbers leave more rows to another run. Chosen, never timed on a device.
_FIRST_RATE = {"float32": 6e-12, "float64": 16e-12}
_ONCE = 10.0
_FIRST_PEER = {REFERENCE: 45.0, JAX: 90.0}


def estimate(row: Row, done: list[dict[str, Any]]) -> float:
    """Return about how many seconds a row takes, from what those that are done have taken."""
    alike = [r for r in done if r["who"] == row.who and "error" not in r]
    if row.who != OURS:
        return 1.2 * max((r["wall"] for r in alike), default=_FIRST_PEER[row.who])
    alike = [r for r in alike if r["dtype"] == row.dtype]
    rate = _FIRST_RATE[row.dtype]
    if alike:  # of the largest row: small rows mostly measure launches
        most = max(alike, key=lambda r: r["entries"])
        rate = 1.2 * most["seconds"] / most["entries"]
    call = rate * row.entries
    if row.part == "layer":  # at least three rounds of one and two depths
        return _ONCE + 3 * call + max(ENOUGH_ROUNDS, 6 * call)
    return _ONCE + call + min(ENOUGH, CALLS * call)
