"""Numbers that pages quote from measured results: `python benchmarks/quoted.py` writes them anew.

The tables of `benchmarks/results/*.md` are the source; tests/benchmarks/test_pages.py holds them
against the data. A number in a sentence is a field in `sentences`, which says where the number
stands in a table. A table of a page that has the header of such a table has its rows.
"""

import itertools
import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
RULE = re.compile(r"\|[-:| ]+\|")
KEYS = ("d", "q", "n", "engine", "landmarks", "head", "method", "")
"""Columns that name a row beside the first column, wherever a table has them."""


class Table(NamedTuple):
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def cells(line: str) -> tuple[str, ...]:
    """Return the cells of a line of a Markdown table."""
    return tuple(cell.strip() for cell in line.strip().strip("|").split("|"))


@cache
def tables(name: str) -> list[Table]:
    """Return the tables of a page of results."""
    text = (ROOT / f"benchmarks/results/{name}.md").read_text("utf-8")
    blocks = re.findall(r"(?:^\|.*\n)+", text, flags=re.M)
    lines = [block.splitlines() for block in blocks]
    return [Table(cells(first), [cells(line) for line in body[1:]]) for first, *body in lines]


def values(name: str, column: str, *words: str) -> list[float]:
    """Return the first numbers of a column, in all rows that have the words, or whose header does.

    Percents are shares of 1.
    """
    numbers = []
    for header, rows in tables(name):
        for row in rows if column in header else ():
            if {*words} <= {*header, *row}:
                text = row[header.index(column)]
                number = float(re.search(r"-?\d+(\.\d+)?(e[-+]\d+)?", text)[0])
                numbers.append(number / 100 if text.endswith("%") else number)
    assert numbers, (name, column, words)
    return numbers


def value(name: str, column: str, *words: str) -> float:
    """Return the number of the only row that has the words."""
    (number,) = values(name, column, *words)
    return number


def stated(name: str, pattern: str) -> float:
    """Return a number that a page of results has outside of tables: the group of a pattern."""
    return float(re.search(pattern, (ROOT / f"benchmarks/results/{name}.md").read_text("utf-8"))[1])


def experiment(name: str) -> dict:
    """Return a stored run of the notebooks: seconds, settings and result."""
    return json.loads((ROOT / "notebooks/finite_experiments.json").read_text("utf-8"))[name]


def printed(notebook: str, pattern: str) -> float:
    """Return a number that a committed notebook prints: the group of a pattern."""
    cells = json.loads((ROOT / f"notebooks/{notebook}.ipynb").read_text("utf-8"))["cells"]
    texts = ["".join(o.get("text", ())) for cell in cells for o in cell.get("outputs", ())]
    return float(re.search(pattern, "\n".join(texts))[1])


def sentences() -> dict[str, dict[str, list[float]]]:
    """Return the numbers of each page's sentences, which have fields for them."""
    accuracy, noise, curves = "classification", "classification_noise", "classification_curves"
    ours, fast = "rescntk", "rescntk, fast"
    methods = (ours, fast, "MiniRocket")

    def curve(name: str, size: int, *of: str) -> list[float]:
        return [value(curves, m, f"{name}, training signals", str(size)) for m in of]

    def gains(dtype: str, *words: str) -> list[float]:
        return values("cpu", f"gain {dtype}", "numba", *words)

    def relative(gram: str) -> float:
        return value("ratios", "time", gram)

    def pair(head: str, dtype: str = "float64") -> float:
        return value("cpu", dtype, head, "100", "3", "numba")

    def real(dtype: str, q: int = 3) -> float:
        return value("cpu", "kernels", dtype, str(q), "0")  # without biases

    def noisy(level: float) -> list[float]:
        return [value(noise, m, f"noise {level:g}", "**mean**") for m in methods]

    def covered(name: str) -> list[float]:
        return [100 * value("regression", f"{fast}: inside {c} %", name) for c in (68, 95)]

    def float32(name: str) -> list[float]:
        columns = (values(name, dtype, "numba") for dtype in ("float64", "float32"))
        return [a / b for a, b in zip(*columns, strict=True)]

    def longer(length: int, q: int) -> list[float]:
        return values("unequal", "ratio", f"about {length}", str(q))

    def hours(pairs: float) -> float:
        """Return core hours of pairs of 128 time points, float32, from the time on two cores."""
        return pairs * pair("gap", "float32") * 1.28**2 * 2 / 3.6e9

    def inside(name: str, times: int = 0) -> float:
        """Return percents of a set's errors in intervals for 2 (0) or 4 (-1) times the signals."""
        (header, rows), *_ = tables("forecast")
        (row,) = (row for row in rows if row[0] == name)
        shares = [cell for column, cell in zip(header, row, strict=True) if column == "inside"]
        return float(shares[times].strip("%"))

    eight = [row[0] for row in tables("forecast")[0].rows[:8]]
    entry = value("cpu", "ns", "float64", "gap")
    seconds = {m: value(accuracy, m, "all sets") for m in methods}
    return {
        "README.md": {
            "a search for worse signals reached {:.1e} in float32": [
                value("accuracy", "float32, largest", "ReLU, only the input trained"),
            ],
            "GAP is {:.0f} to {:.0f} times as fast as neural-tangents 0.6.5 on two CPU cores; "
            "trace kernels gain {:.0f} to {:.0f} times": [
                min(gains("float64", "gap", "100")), max(gains("float32", "gap", "100")),
                min(gains("float64", "trace", "100")), max(gains("float32", "trace", "100")),
            ],
        },
        "docs/guide/comparison.md": {
            "the default takes {:.0f} s of processor time, `effort=\"fast\"` {:.0f} s": [
                stated("ucr", rf"Processor seconds of all fits and predictions: {words}")
                for words in (r"(\d+)", r"\d+, and (\d+)")
            ],
            "fitting and predicting all eight sets takes {:.0f} s, and {:.0f} s with "
            '`effort="fast"`; MiniRocket takes {:.1f} s': [
                seconds[ours], seconds[fast], seconds["MiniRocket"],
            ],
            **{f"| {level:g} | {{:.3f}} | {{:.3f}} | {{:.3f}} |": noisy(level)
               for level in (0, 0.02, 0.05, 0.1)},
            "no accuracy exceeds {:.2f}": [
                max(value(noise, m, "noise 0.1", "ACSF1") for m in methods),
            ],
            "ACSF1: {:.3f} against {:.3f}": [
                value(accuracy, "MiniRocket", "ACSF1"), value(accuracy, ours, "ACSF1"),
            ],
        },
        "docs/guide/explanation.md": {
            "the median correlation along a signal is ${:.2f}$. On GunPoint (a hand that "
            "draws a gun, or points) it is ${:.2f}$": [
                printed("which_part_decides", rf"{name}, less the usual +correlation (-?[\d.]+)")
                for name in ("patterns, class 0", "GunPoint")
            ],
            "the largest contribution is there in {:.0f} of 40 strokes, and in {:.0f} of 40 if": [
                printed("what_the_model_has_learned", rf"{kind}: the largest .* in (\d+) of 40")
                for kind in ("less the usual ones", "as they are")
            ],
        },
        "docs/guide/drift.md": {
            "worst of these draws of a plant has an accuracy of {:.3f}": [
                stated("estimators", r"worst draw of a plant has ([\d.]+)\. A"),
            ],
            "is right on {:.0f} % of the signals, and MiniRocket on {:.0f} %": [
                100 * noisy(0.1)[1], 100 * noisy(0.1)[2],
            ],
        },
        "docs/guide/number_of_signals.md": {
            "with 10: {:.2f} against {:.2f} and {:.2f}":
                curve("JapaneseVowels", 10, ours, "MiniRocket", "MultiRocketHydra"),
            "with 5 signals ({:.2f}) and with 10 ({:.2f})": [
                *curve("JapaneseVowels", 5, "1-NN DTW"),
                *curve("JapaneseVowels", 10, "1-NN DTW"),
            ],
            "{:.2f} against {:.2f} and {:.2f}); from 10":
                curve("BasicMotions", 5, ours, "MiniRocket", "MultiRocketHydra"),
            "80 % intervals contain {:.0f} % of the errors at twice the signals, and from "
            "{:.0f} % to {:.0f} % of the errors of a single set. The median ratio of upper to "
            "lower limit is {:.1f}. At four times the signals they contain {:.0f} %, and the "
            "ends differ by a factor of {:.1f}": [
                inside("**all eight**"), min(map(inside, eight)), max(map(inside, eight)),
                stated("forecast", r"was wrong: ([\d.]+)"),
                inside("**all eight**", -1), stated("forecast", r"and ([\d.]+) at 4 times"),
            ],
            "the only set for regressors, has {:.0f} % and {:.0f} %": [
                inside("Tecator, 1 − R²"), inside("Tecator, 1 − R²", -1),
            ],
            "landmarks reach {:.1f} % of the accuracy": [
                100 * value("many_signals", "accuracy", "2000", "500")
                / value("many_signals", "accuracy", "2000", "all"),
            ],
        },
        "docs/guide/condensed_models.md": {
            "4 chosen signals are right for {:.0f} % of the test signals, 4 learned signals "
            "for {:.0f} %, all 67 for {:.0f} %. On JapaneseVowels 9 chosen signals are right "
            "for {:.0f} %, 9 learned signals for {:.0f} %, all 270 for {:.0f} %": [
                100 * value("learned_signals", kind, *row)
                for row in (("ItalyPowerDemand", "4"), ("JapaneseVowels", "9"))
                for kind in ("chosen", "learned", "all")
            ],
            "10 learned images are right for {:.0f} % of the other 797, 10 chosen ones for "
            "{:.0f} %, all 1000 for {:.0f} %": [
                100 * value("learned_signals", kind, "digits", "10")
                for kind in ("learned", "chosen", "all")
            ],
            "100 learned landmarks take {:.0f} processor seconds and reach "
            "{:.1f} %, 300 chosen ones take {:.1f} and reach {:.1f} %, all 1000 take {:.1f} "
            "and reach {:.1f} %": [
                factor * value("learned_signals", column, "landmarks", *row)
                for row in (("learned", "100"), ("chosen", "300"), ("chosen", "1000"))
                for column, factor in (("seconds", 1), ("accuracy", 100))
            ],
        },
        "docs/guide/regression.md": {
            f"| {name} | {{:.0f}} % | {{:.0f}} % |": covered(name)
            for name in ("Covid3Month", "CardanoSentiment", "Tecator")
        },
        "docs/theory/found_here.md": {
            "measured minus predicted is −{:.3f} in the mean over {:.0f} points, {:.3f} in the "
            "root mean square, with standard errors of {:.3f}": [
                printed("what_is_learned_first", pattern) for pattern in (
                  r"predicted share -([\d.]+)", r"(\d+) points: measured",
                  r"([\d.]+) in the root mean square", r"error of a point ([\d.]+)",
              )
            ],
        },
        "docs/guide/finite_networks.md": {
            "figure 3a takes {:.0f} minutes, figure 1b {:.0f}, figure 1c {:.0f}": [
                experiment(f"figure_{name}")["seconds"] / 60 for name in ("3a", "1b", "1c")
            ],
        },
        "docs/guide/own_signals.md": {
            f"| {version} | {{:.2f}} |": values("unequal", "PickupGestureWiimoteZ", method)
            for version, method in (
                ("a list of signals, own lengths", "rescntk, own lengths"),
                ("padded to one length", "rescntk, padded (aeon)"),
                ("resampled to one length", "rescntk, resampled"),
            )
        },
        "docs/guide/signals.md": {
            "costs {:.2f} times as much": [relative("only the Gaussian process kernel")],
        },
        "docs/guide/choosing.md": {
            "costs {:.0f} µs with GAP and {:.1f} µs with trace": [pair("gap"), pair("trace")],
        },
        "docs/guide/neural_tangents.md": {
            "is {:.0f} to {:.0f} times as fast": [
                min(gains("float64", "gap", "100")), max(gains("float32", "gap", "100")),
            ],
        },
        "docs/guide/speed.md": {
            "float32 is {:.1f} to {:.1f} times as fast for signals, and {:.1f} to {:.1f} times "
            "for images": [
                min(float32("cpu")), max(float32("cpu")),
                min(float32("images")), max(float32("images")),
            ],
            "{:.0f} times faster": [pair("gap") / pair("trace")],
            "10^4 \\times 5 \\times {:.2f}$ ns in float64, about {:.0f} s": [entry, 0.25e2 * entry],
            "takes {:.1f} times (float64) and {:.1f} times (float32) the time of random "
            "signals with filters of 3, and {:.1f} times with filters of 9": [
                real("float64"), real("float32"), real("float64", 9),
            ],
            "{:.1f} to {:.1f} times as much for a pixel pair at 100 to 200 time points. At "
            "1000 time points they cost up to {:.1f} times as much": [
                min(longer(100, 3) + longer(200, 3)), max(longer(100, 3) + longer(200, 3)),
                max(longer(1000, 3)),
            ],
            "cost {:.1f} to {:.1f} times as much for a pixel pair as signals with as many "
            "pixels, with GAP. With trace it is {:.1f} times in float64 and {:.1f} times in": [
                min(values("images", "ratio", "gap")), max(values("images", "ratio", "gap")),
                value("images", "ratio", "trace", "float64"),
                value("images", "ratio", "trace", "float32"),
            ],
            "take {:.2f} s in float32 and {:.2f} s in float64, with GAP and depth 9. JAX takes "
            "{:.1f} and {:.1f} times as long for a pair": [
                value("gpu", f"{column} {dtype}", "1000", "128", "3")
                for column in ("seconds", "JAX takes") for dtype in ("float32", "float64")
            ],
            "takes {:.1f} times (float64) and {:.1f} times (float32) the time of the value": [
                value("cpu", "of the value", dtype, "numba") for dtype in ("float64", "float32")
            ],
            "take {:.1f} core hours in float32 and {:.1f} in float64": [
                value("images", "core hours", "float32"), value("images", "core hours", "float64"),
            ],
        },
        "docs/guide/accuracy.md": {
            "reach {:.1e} where only the input is trained": [
                value("accuracy", "float32, largest", "ReLU, only the input trained"),
            ],
            "errors reach {:.1e} in float64 and {:.1e} in float32": [
                max(values("accuracy", f"{dtype}, largest")) for dtype in ("float64", "float32")
            ],
            "Then a Gram takes {:.1f} times as long": [
                relative("smooth signals of one channel, filters of 1"),
            ],
            "the Gram takes {:.1f} (float64) and {:.1f} times (float32) as long": [
                real("float64"), real("float32"),
            ],
        },
        "docs/guide/large_data.md": {
            "A pair takes {:.0f} µs of a core: the {:.1f} µs [measured]": [
                hours(1) * 3.6e9, pair("gap", "float32"),
            ],
            **{f"| {n // 1000} 000 | {{:.2g}} | {size} GB | {{:.2g}} |":
               [hours(n * n / 2), hours(500 * n)]
               for n, size in ((5000, 0.2), (10_000, 0.8), (20_000, 3.2), (50_000, 20))},
            "takes a cluster of 1000 cores {:.0f} hours, and 8 TB on disk. 500 landmarks take "
            "ten cores {:.1f} hours": [hours(1e12 / 2) / 1000, hours(500e6) / 10],
            "two workers took {:.1f} % more processor time than `rescntk.gram` in memory, each "
            "with {:.0f} MB more than at rest. One process took {:.1f} % less": [
                stated("scale", rf"5000 signals: .*? {words}")
                for words in (r"\+([\d.]+) % on 2", r"with (\d+) MB", r"-([\d.]+) % stored")
            ],
            "in {:.0f} iterations with 500 landmarks as preconditioner, and in {:.0f} without": [
                stated("scale", r"10000 equations.*: (\d+) iterations"),
                stated("scale", r"10000 equations.*, (\d+) without"),
            ],
        },
    }  # fmt: skip


def pattern(sentence: str) -> re.Pattern[str]:
    """Return what finds a sentence, its lines broken anywhere, with any numbers in its fields."""
    words = [
        r"\s+".join(map(re.escape, part.split(" "))) for part in re.split(r"\{.*?\}", sentence)
    ]
    return re.compile(r"(-?\d+(?:\.\d+)?(?:e-\d+)?)".join(f"({part})" for part in words))


def updated(page: str, text: str) -> str:
    """Return a page's text with today's numbers; a sentence that it lacks is an error."""
    for sentence, numbers in sentences().get(page, {}).items():
        matches = list(pattern(sentence).finditer(text))
        assert len(matches) == 1, f"{page} has {len(matches)} times: {sentence}"
        parts = list(matches[0].groups())
        fields = re.findall(r"\{.*?\}", sentence)
        parts[1::2] = [f.format(n) for f, n in zip(fields, numbers, strict=True)]
        text = text[: matches[0].start()] + "".join(parts) + text[matches[0].end() :]
    return re.sub(r"(?:^\|.*\n)+", lambda block: _rows(block[0]), text, flags=re.M)


def _rows(block: str) -> str:
    """Return a table with the rows of the table of results that has the same header."""
    first, rule, *lines = block.splitlines()
    header = cells(first)
    keys = [k for k, name in enumerate(header) if k == 0 or name in KEYS]
    by_keys: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for path in (ROOT / "benchmarks/results").glob("*.md"):
        for row in (r for table in tables(path.stem) if table.header == header for r in table.rows):
            by_keys.setdefault(tuple(row[k] for k in keys), []).append(row)
    if by_keys:
        wanted = [by_keys[tuple(cells(line)[k] for k in keys)] for line in lines]
        assert all(len(rows) == 1 for rows in wanted), f"rows that {header} does not tell apart"
        lines = [f"| {' | '.join(row)} |" for (row,) in wanted]
    return "\n".join([first, rule, *lines]) + "\n"


def pages() -> dict[str, Path]:
    """Return the README, the guide and the theory by name."""
    folders = (sorted((ROOT / "docs" / name).glob("*.md")) for name in ("guide", "theory"))
    paths = [ROOT / "README.md", *itertools.chain(*folders)]
    return {path.relative_to(ROOT).as_posix(): path for path in paths}


if __name__ == "__main__":
    for page, path in pages().items():
        text = path.read_text("utf-8")
        new = updated(page, text)
        if new != text:
            path.write_text(new, encoding="utf-8")
            print(f"written: {page}")
