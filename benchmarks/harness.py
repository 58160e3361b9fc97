"""Tools of the benchmarks: options, clocks, rounds in turn, processes, files, tables.

As a program, with a function's dotted name and its arguments, it is the other process of `apart`.
"""

import argparse
import ast
import csv
import importlib
import json
import os
import platform
import select
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
Row = dict[str, Any]


def options(
    doc: str | None, arguments: Sequence[str] | None = None, **more: Row
) -> argparse.Namespace:
    """Return a script's options: --quick, --out, and `more`, each as add_argument takes it."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="toy sizes, in a temporary folder")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="default: benchmarks/results")
    for name, about in more.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **about)
    found = parser.parse_args(arguments)
    found.out = found.out or (Path(tempfile.mkdtemp()) if found.quick else RESULTS)
    found.out.mkdir(parents=True, exist_ok=True)
    return found


def make(path: str, /, **options: Any) -> Any:
    """Call a function or a class by its dotted name, which is imported now."""
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)(**options)


def machine() -> Row:
    import rescntk as rk

    model, cpuinfo = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), model)
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "rescntk": rk.__version__,
    }


# -- measuring


def processor_seconds(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def interleaved(calls: dict[Any, Callable[[], float]], rounds: int) -> dict[Any, list[float]]:
    """Return what each call measured, round by round; in a round the calls take turns."""
    measured: dict[Any, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            measured[name].append(call())
    return measured


def entry_costs(gram: Callable, batches: Sequence, rounds: int, head: str = "gap") -> np.ndarray:
    """Return nanoseconds of an entry, a pixel pair, in Grams of batches, (n_batches, rounds)."""
    sizes = [np.array([x[0].size for x in X]) for X in batches]
    pairs = [s.sum() ** 2 if head == "gap" else len(s) * s.sum() for s in sizes]
    own = [(s ** (1 + (head == "gap"))).sum() for s in sizes]
    entries = np.add(pairs, own)[:, None] / 2  # half of a symmetric Gram is computed
    gram = partial(gram, head=head)
    calls = {k: partial(processor_seconds, partial(gram, X)) for k, X in enumerate(batches)}
    return 1e9 * np.array([*interleaved(calls, rounds).values()]) / entries


def median_ratio(above: list[float], below: list[float]) -> float:
    return float(np.median(np.divide(above, below)))


def peak_megabytes() -> float:
    """Return the peak of this process's memory; getrusage would include the parent's peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(x.split()[1]) / 1024 for x in lines if x.startswith("VmHWM"))


def forget_peak() -> None:
    """Let the peak of this process's memory start from what it has now."""
    Path("/proc/self/clear_refs").write_text("5")


def apart(function: Callable[..., Any], arguments: Row) -> Any:
    """Call a benchmark's function in a process of its own; its result is what JSON can hold."""
    name = f"{Path(function.__code__.co_filename).stem}.{function.__name__}"
    command = [sys.executable, __file__, name, json.dumps(arguments)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"{name}: exit status {run.returncode}\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


class Worker:
    """A peer in a process of its own: a line of JSON answers another. It may fail or hang."""

    def __init__(self, command: Sequence[Any], timeout: float, **environment: str) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115, open as long as the worker
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, bufsize=0,
            env=os.environ | environment,
        )  # fmt: skip
        try:
            self.version = self._answer(timeout)["ready"]
        except BaseException:
            self.close()
            raise

    def _answer(self, timeout: float) -> Row:
        line, end = b"", time.monotonic() + timeout
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise TimeoutError(f"no answer within {timeout:.0f} s")
            some = self.process.stdout.read(2**16)
            if not some:
                self.errors.seek(0)
                words = self.errors.read().decode(errors="replace").strip()[-500:]
                raise RuntimeError(f"the worker ended with {self.process.wait()}: {words}")
            line += some
        return json.loads(line)

    def ask(self, request: Row, timeout: float) -> Row:
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        reply = self._answer(timeout)
        if "error" in reply:
            raise ChildProcessError(reply["error"])
        return reply

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for file in (self.process.stdin, self.process.stdout, self.errors):
            file.close()


def say(*words: Any) -> None:
    print(*words, file=sys.stderr, flush=True)


# -- files


def load(path: Path, empty: Any) -> Any:
    """Return what a JSON file has, `empty` if there is no such file."""
    return json.loads(path.read_text()) if path.exists() else empty


def save(path: Path, report: Any) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(report, indent=1) + "\n")
    new.replace(path)  # never half a file


def measured(doc: str | None, name: str, *parts: Callable[[bool], Any]) -> tuple[Path, Row]:
    """Measure all parts of a report, or the parts named by --part; return its file and itself."""
    functions = {part.__name__: part for part in parts}
    several = {"action": "append", "choices": functions, "help": "only this (and this …)"}
    asked = options(doc, part=several)
    path = asked.out / name
    report = load(path, {"machines": {}})
    for part in asked.part or functions:
        report[part] = functions[part](asked.quick)
        report["machines"][part] = machine()
        save(path, report)
    if lacking := set(functions) - set(report):
        sys.exit(f"{path} still lacks {', '.join(sorted(lacking))}: no page is written")
    return path, report


def begun(path: Path, machine: Row, same: Sequence[str]) -> Row:
    """Return a file's report, or a new one; one of another machine ends the script."""
    report = load(path, {"machine": machine, "rows": []})
    differ = [name for name in same if report["machine"].get(name) != machine[name]]
    if differ:
        sys.exit(f"{path} is of another machine or version ({', '.join(differ)}): move it away")
    return report


def resume(
    path: Path, report: Any, rows: list[Row], specs: Iterable[Row], measure: Callable[[Row], Row]
) -> None:
    """Measure what the rows lack; save the report after each."""
    for spec in specs:
        if not any(spec.items() <= row.items() for row in rows):
            say(spec)
            rows.append(spec | measure(spec))
            save(path, report)


def read(path: Path) -> list[Row]:
    """Return the rows of a CSV file, none if there is no such file; empty cells are None."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [{name: _parsed(x) for name, x in row.items()} for row in csv.DictReader(file)]


def _parsed(text: str) -> Any:
    try:
        return ast.literal_eval(text) if text else None
    except (SyntaxError, ValueError):
        return text


def write(path: Path, rows: list[Row]) -> None:
    """Write rows of the same columns as CSV; numbers have six digits."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, tuple(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            digits = {k: f"{x:.6g}" if isinstance(x, float) else x for k, x in row.items()}
            writer.writerow(digits)


def publish(path: Path, text: str, picture: Any = None) -> None:
    """Print a report; write it, and a figure if any, to files of this name."""
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    if picture is not None:
        picture.savefig(path.with_suffix(".png"))
    print(text)


# -- tables


def table(header: Sequence[str], rows: Iterable[Iterable[Any]], left: Sequence[int] = (0,)) -> list:
    """Return the lines of a Markdown table; numbers are to the right, columns `left` are not."""
    rule = "".join("---|" if k in left else "--:|" for k in range(len(header)))
    first, *others = (f"| {' | '.join(map(str, cells))} |" for cells in (header, *rows))
    return [first, f"|{rule}", *others]


def rows_table(rows: Sequence[Row], left: Sequence[int]) -> list:
    """Return the table of rows that have the same names."""
    return table(tuple(rows[0]), map(dict.values, rows), left)


def page(*parts: str | Sequence[str]) -> str:
    """Return Markdown with a blank line between its parts: words, or lines of a table or list."""
    words = (part if isinstance(part, str) else "\n".join(part) for part in parts)
    return "\n\n".join(filter(None, words)) + "\n"


def bold(values: Sequence[float | None], texts: Sequence[str]) -> list[str]:
    """Return the texts, in bold where a value is the largest to three digits."""
    best = max(round(value, 3) for value in values if value is not None)
    return [
        text if value is None or round(value, 3) != best else f"**{text}**"
        for value, text in zip(values, texts, strict=True)
    ]


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return a mean and its standard error, NaN for a single value."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(np.mean(values)), float(error)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(json.dumps(make(sys.argv[1], **json.loads(sys.argv[2]))))
