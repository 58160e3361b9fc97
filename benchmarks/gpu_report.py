"""Rows of benchmarks/gpu.py and their order, the bars, and the page."""

import itertools
import math
from typing import Any, NamedTuple

import harness
import numpy as np

DTYPES, DEPTH, CHANNELS = ("float32", "float64"), 9, 4
PARTS = ("layer", "large", "sweep", "grams", "peers")
OURS, REFERENCE, JAX = "rescntk", "reference on CuPy", "JAX"
PEERS = (REFERENCE, JAX)

HARDWARE = "H200"  # of the bars
# name: (bar of float32, bar of float64, whether a value may be at most or at least that)
BARS = {
    "picoseconds of a pixel pair and layer": (3.0, 8.0, "at most"),
    "share of the bound of issue slots": (0.5, 0.5, "at least"),
    "times the better peer": (8.0, 5.0, "at least"),
    "seconds of 10 000 signals": (25.0, 60.0, "at most"),
}


class Row(NamedTuple):
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
        return self.pairs * self.d**2 * DEPTH


class Sizes(NamedTuple):
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
    swept: tuple[tuple[int, int], ...]  # (d, q) of the sweep over threads of a block
    threads: tuple[int, ...]  # 0: as the plan has them

    def batch_sizes(self, d: int) -> list[int]:
        """Return the numbers n of signals that peers try, n with n; four at least."""
        return sorted({max(4, round(pixels**0.5 / d)) for pixels in self.batches})


FULL = Sizes(
    1024, 10_000, 1000, 128, 3, (32, 64, 128, 256), (3, 9), (2000, 5000),
    (2**22, 2**24, 2**26, 2**28), ((128, 3), (512, 3), (1000, 3), (4096, 3)), (0, 32, 64, 128, 256),
)  # fmt: skip

# To see that every part runs, in a test or at the beginning of a lease.
SMALL = Sizes(6, 9, 5, 8, 3, (5, 8), (3,), (7,), (2**8, 2**10), ((8, 3), (26, 17)), (64,))


def plan(sizes: Sizes) -> list[Row]:
    """Return all rows, the most telling first. JAX's, which keeps its memory, come together."""
    centre = (sizes.d, sizes.q)
    others = [(d, q) for d in sizes.lengths for q in sizes.filters if (d, q) != centre]

    def rows(part: str, who: str, n: int | None, *shapes: tuple[int, int]) -> list[Row]:
        return [Row(part, who, dtype, n, *shape) for shape in shapes for dtype in DTYPES]

    return [
        *rows("layer", OURS, sizes.layer, centre),
        *rows("large", OURS, sizes.large, centre),
        *(
            row
            for d, q in sizes.swept  # nearly the same number of pixel pairs at every length
            for threads in sizes.threads
            for row in rows("sweep", f"{threads} threads", 4 + sizes.layer * sizes.d // d, (d, q))
        ),
        *rows("grams", OURS, sizes.n, centre),
        *rows("peers", REFERENCE, None, centre),
        *rows("peers", JAX, None, centre),
        *rows("grams", OURS, sizes.n, *others),
        *rows("peers", REFERENCE, None, *others),
        *rows("peers", JAX, None, *others),
        *(row for n in sizes.more for row in rows("grams", OURS, n, centre)),
    ]


def by_row(report: dict[str, Any]) -> dict[Row, dict[str, Any]]:
    """Return what was measured, or failed, for each row."""
    return {Row(*(x[name] for name in Row._fields)): x for x in report["rows"]}


def verdicts(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return each bar, its value, and whether it is met: None for other sizes or another GPU."""
    machine, measured, judged = report["machine"], by_row(report), {}
    comparable = machine["sizes"] == "full" and HARDWARE in machine["hardware"]

    def look_up(row: Row, field: str) -> float:
        return measured.get(row, {}).get(field, math.nan)

    for number, dtype in enumerate(DTYPES):
        layer, *grams = (row for row in plan(FULL) if (row.dtype, row.who) == (dtype, OURS))
        times = []
        for row in grams:
            peers = [Row("peers", who, dtype, None, row.d, row.q) for who in PEERS]
            best = np.min([look_up(peer, "seconds_of_a_pair") for peer in peers])
            times.append(best * row.pairs / look_up(row, "seconds"))
        values = (
            look_up(layer, "picoseconds"),
            look_up(layer, "share_of_bound"),
            float(np.min(times)),  # NaN if one is missing
            look_up(grams[0], "seconds"),
        )
        for (name, bar), value in zip(BARS.items(), values, strict=True):
            met = value <= bar[number] if bar[2] == "at most" else value >= bar[number]
            missing = math.isnan(value)
            judged[f"{name}, {dtype}"] = {
                "bar": f"{bar[2]} {bar[number]:g}",
                "value": None if missing else value,
                "met": None if missing or not comparable else bool(met),
            }
    return judged


def _number(value: float | None, form: str) -> str:
    return "–" if value is None or math.isnan(value) else format(value, form)


def page(report: dict[str, Any]) -> str:
    """Return the report's page: bars, Grams beside peers, and blocks of other sizes."""
    machine, measured = report["machine"], by_row(report)
    words = {True: "met", False: "missed", None: "not judged"}
    judged = [
        (name, _number(each["value"], ".3g"), each["bar"], words[each["met"]])
        for name, each in verdicts(report).items()
    ]  # fmt: skip

    def cells(n: int, d: int, q: int) -> list[str]:
        """Return seconds, picoseconds, and the peers' times for a pair over ours."""
        seconds, picoseconds = [], []
        ratios: dict[str, list[str]] = {peer: [] for peer in PEERS}
        for row in (Row("grams", OURS, dtype, n, d, q) for dtype in DTYPES):
            took = measured.get(row, {}).get("seconds", math.nan)
            seconds.append(_number(took, ".3f"))
            picoseconds.append(_number(1e12 * took / row.entries, ".2f"))
            for peer in PEERS:
                theirs = measured.get(Row("peers", peer, row.dtype, None, d, q), {})
                ratio = theirs.get("seconds_of_a_pair", math.nan) * row.pairs / took
                ratios[peer].append(_number(ratio, ".1f"))
        return [*seconds, *picoseconds, *itertools.chain(*ratios.values())]

    shapes = {(row.n, row.d, row.q) for row in measured if row.part == "grams"}
    header = ("seconds", "ps", *(f"{peer} takes" for peer in PEERS))
    swept = [row for row in report["rows"] if row["part"] == "sweep" and "seconds" in row]
    swept.sort(key=lambda row: (row["dtype"], row["d"], row["seconds"]))
    lines = [
        "# Speed on a GPU", "",
        f"GPK and NTK of a ResNet, GAP, depth {DEPTH}, {CHANNELS} channels. {machine['hardware']}, "
        f"CuPy {machine['cupy']}, {machine['date']}. Picoseconds (ps) are of a pixel pair and "
        "layer.", "",
        *harness.table(("measure", "value", "bar", ""), judged, (0, 3)), "",
        "Symmetric Grams from CuPy's arrays to CuPy's. Peers' times for a pair at their best "
        "batch, divided by ours: the reference engine on CuPy arrays, and JAX, where measured.",
        "",
        *harness.table(
            ("n", "d", "q", *(f"{name} {dtype}" for name in header for dtype in DTYPES)),
            ((*shape, *cells(*shape)) for shape in sorted(shapes)),
            (),
        ), "",
        "Blocks of other threads; 0: as the plan has them.", "",
        *harness.table(
            ("dtype", "d", "threads", "ps"),
            ((row["dtype"], row["d"], row["who"].split()[0],
              f"{1e12 * row['seconds'] / row['entries']:.2f}") for row in swept),
        ),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
