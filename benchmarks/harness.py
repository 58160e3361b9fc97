"""What the benchmarks share: clocks, rounds in turn, processes, files, tables, axes."""

from __future__ import annotations

import ast
import csv
import json
import os
import platform
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
Row = dict[str, Any]


def machine() -> Row:
    """Return the machine and the versions."""
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


def interleaved(calls: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Return what each call measured, round by round; in a round the calls take turns."""
    measured: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            measured[name].append(call())
    return measured


def median_ratio(above: list[float], below: list[float]) -> float:
    """Return the median of the rounds' ratios."""
    return float(np.median(np.divide(above, below)))


def peak_megabytes() -> float:
    """Return the peak of this process's memory; getrusage would include the parent's peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(x.split()[1]) / 1024 for x in lines if x.startswith("VmHWM"))


def apart(script: str | Path, *arguments: str, **environment: str) -> Any:
    """Run a script in a process of its own, and return its last line, which is JSON."""
    run = subprocess.run(
        [sys.executable, script, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
    )
    if run.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: exit status {run.returncode}\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


class Worker:
    """A peer in a process of its own: a line of JSON answers another. It may fail or hang."""

    def __init__(self, command: Sequence[str], timeout: float, **environment: str) -> None:
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
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")


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


def write(path: Path, rows: list[Row], columns: Sequence[str] = ()) -> None:
    """Write these columns of rows as CSV, by default all; numbers have six digits."""
    path.parent.mkdir(exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(
            file, columns or tuple(rows[0]), extrasaction="ignore", lineterminator="\n"
        )
        writer.writeheader()
        for row in rows:
            digits = {k: f"{x:.6g}" if isinstance(x, float) else x for k, x in row.items()}
            writer.writerow(digits)


# -- tables and pictures


def line(cells: Iterable[Any]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def table(header: Sequence[str], rows: Iterable[Iterable[Any]], left: Sequence[int] = (0,)) -> list:
    """Return the lines of a Markdown table; numbers are to the right, columns `left` are not."""
    rule = "".join("---|" if k in left else "--:|" for k in range(len(header)))
    return [line(header), f"|{rule}", *map(line, rows)]


def bold(values: Sequence[float | None], texts: Sequence[str]) -> list[str]:
    """Return the texts, in bold where a value is the largest to three digits."""
    best = max(round(value, 3) for value in values if value is not None)
    return [
        text if value is None or round(value, 3) != best else f"**{text}**"
        for value, text in zip(values, texts, strict=True)
    ]


def verdict(is_met: bool) -> str:
    return "met" if is_met else "missed"


def tidy(ax: Any, axis: str = "both") -> None:
    """Draw a light grid, and no frame above and to the right."""
    ax.grid(True, axis=axis, linewidth=0.4, alpha=0.6)
    ax.spines[["top", "right"]].set_visible(False)


def plain_ticks(axis: Any) -> None:
    """Name the major ticks of a logarithmic axis without powers, and no others."""
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter("")
