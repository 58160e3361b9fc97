"""Tools of the benchmarks: options, clocks, rounds in turn, processes, files, tables.

As a program, with a function's dotted name and its arguments, it is the process that
`in_own_process` starts.
"""

import argparse
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

RESULTS = Path(__file__).parent / "results"
Row = dict[str, Any]
T = TypeVar("T")
Clock = Callable[[], float]


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
    asked = parser.parse_args(arguments)
    asked.out = asked.out or (Path(tempfile.mkdtemp()) if asked.quick else RESULTS)
    asked.out.mkdir(parents=True, exist_ok=True)
    return asked


Measure = Callable[[argparse.Namespace, Path], Any]
"""Measures what a file of results lacks, with the options of a script."""


def script(
    doc: str | None,
    file: str,
    measure: Measure,
    page: Callable[[Any], str],
    picture: Callable[[Any], Any] | None = None,
    arguments: Sequence[str] | None = None,
    **more: Row,
) -> None:
    """Measure, unless --page is given, and write the page of the results that the file has."""
    only = {"action": "store_true", "help": "measure nothing, write the page of saved results"}
    asked = options(doc, arguments, page=only, **more)
    path = asked.out / file
    if not asked.page:
        measure(asked, path)
    results = load(path)
    publish(path, page(results), picture and picture(results))


def call_by_name(path: str, /, *arguments: Any, **options: Any) -> Any:
    """Call a function or a class by its dotted name, which is imported now."""
    module, name = path.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)(*arguments, **options)


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


def machine_in_words(machine: Row) -> str:
    """Return the processor and the versions of a machine for a page."""
    return "{processor}, {cores} cores; Python {python}, NumPy {numpy}".format(**machine)


# -- measuring


def timed(call: Callable[[], T], clock: Clock = time.process_time) -> tuple[T, float]:
    """Return a call's result and its seconds, of the processor or of another clock."""
    start = clock()
    result = call()
    return result, clock() - start


def fit_and_predict(
    make_one: Callable[[], Any], X: Any, y: Any, Z: Any, clock: Clock = time.process_time
) -> tuple[Any, np.ndarray, float]:
    """Return a new model, fitted, what it predicts, and the seconds of all three."""

    def run() -> tuple[Any, np.ndarray]:
        model = make_one().fit(X, y)
        return model, model.predict(Z)

    (model, predicted), seconds = timed(run, clock)
    return model, predicted, seconds


def processor_seconds(call: Callable[[], Any]) -> float:
    return timed(call)[1]


def interleaved(calls: Mapping[Any, Callable[[], float]], rounds: int) -> dict[Any, list[float]]:
    """Return what each call measured, round by round; in a round the calls take turns."""
    measured: dict[Any, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            measured[name].append(call())
    return measured


def entry_costs(
    gram: Callable[..., Any], batches: Sequence[Any], rounds: int, head: str = "gap"
) -> np.ndarray:
    """Return nanoseconds of an entry, a pixel pair, in Grams of batches, (n_batches, rounds)."""
    sizes = [np.array([x[0].size for x in X]) for X in batches]
    pairs = [s.sum() ** 2 if head == "gap" else len(s) * s.sum() for s in sizes]
    diagonal = [(s ** (1 + (head == "gap"))).sum() for s in sizes]
    entries = np.add(pairs, diagonal)[:, None] / 2  # half of a symmetric Gram is computed
    gram = partial(gram, head=head)
    calls = {k: partial(processor_seconds, partial(gram, X)) for k, X in enumerate(batches)}
    return 1e9 * np.array([*interleaved(calls, rounds).values()]) / entries


def median_ratio(above: list[float], below: list[float]) -> float:
    return float(np.median(np.divide(above, below)))


def peak_megabytes() -> float:
    """Return the peak of this process's memory; getrusage would include the parent's peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(x.split()[1]) / 1024 for x in lines if x.startswith("VmHWM"))


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
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
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,
            env=os.environ | environment,
        )
        assert self.process.stdin and self.process.stdout  # as asked for
        self.requests, self.answers = self.process.stdin, self.process.stdout
        try:
            self.version = self._answer(timeout)["ready"]
        except BaseException:
            self.close()
            raise

    def _answer(self, timeout: float) -> Row:
        line, end = b"", time.monotonic() + timeout
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                raise TimeoutError(f"no answer within {timeout:.0f} s")
            part = self.answers.read(2**16)
            if not part:
                self.errors.seek(0)
                words = self.errors.read().decode(errors="replace").strip()[-500:]
                raise RuntimeError(f"the worker ended with {self.process.wait()}: {words}")
            line += part
        return json.loads(line)

    def ask(self, request: Row, timeout: float) -> Row:
        self.requests.write(json.dumps(request).encode() + b"\n")
        reply = self._answer(timeout)
        if "error" in reply:
            raise ChildProcessError(reply["error"])
        return reply

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for file in (self.requests, self.answers, self.errors):
            file.close()


def log(*words: Any) -> None:
    print(*words, file=sys.stderr, flush=True)


# -- files


def load(path: Path, empty: Any = None) -> Any:
    """Return what a file of results has: a table of a CSV file. `empty` stands for no file."""
    if path.suffix == ".csv":
        return read_rows(path)
    return json.loads(path.read_text()) if path.exists() or empty is None else empty


def save(path: Path, report: Any) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(report, indent=1) + "\n")
    new.replace(path)  # never half a file


def measure_parts(parts: Sequence[Callable[[bool], Iterable[Row]]]) -> tuple[Measure, Row]:
    """Return what measures the rows of all parts, or of parts named by --part, and the option."""
    functions = {part.__name__: part for part in parts}

    def measure(asked: argparse.Namespace, path: Path) -> None:
        report = load(path, {"machines": {}})
        for part in asked.part or functions:
            rows = []
            for row in functions[part](asked.quick):
                rows.append(row)
                log(row)
            report[part], report["machines"][part] = rows, machine()
            save(path, report)  # never half of a part
        if lacking := set(functions) - set(report):
            sys.exit(f"{path} still lacks {', '.join(sorted(lacking))}: no page is written")

    only = {"action": "append", "choices": functions, "help": "only this (and this …)"}
    return measure, {"part": only}


def load_or_begin(path: Path, machine: Row, same: Sequence[str]) -> Row:
    """Return a file's report, or a new one; one of another machine ends the script."""
    report = load(path, {"machine": machine, "rows": []})
    differ = [name for name in same if report["machine"].get(name) != machine[name]]
    if differ:
        sys.exit(f"{path} is of another machine or version ({', '.join(differ)}): move it away")
    return report


def row_of(rows: Iterable[Row], spec: Row) -> Row:
    """Return the row that has all values of a spec, or nothing."""
    return next((row for row in rows if spec.items() <= row.items()), {})


def measure_specs(
    path: Path, report: Any, rows: list[Row], specs: Iterable[Row], measure: Callable[[Row], Row]
) -> None:
    """Measure what the rows lack; save the report after each."""
    for spec in specs:
        if not row_of(rows, spec):
            log(spec)
            rows.append(spec | measure(spec))
            save(path, report)


def read_rows(path: Path) -> pd.DataFrame:
    """Return the rows of a CSV file, none if there is no such file."""
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def measure_missing(path: Path, keys: Iterable[Row], measure: Callable[..., list[Row]]) -> None:
    """Measure the rows of keys that a CSV file lacks; write all after each key, with six digits.

    `measure` takes the values of a key and returns rows without it.
    """
    rows = read_rows(path)
    for key in keys:
        if row_of(rows.to_dict("records"), key):
            continue
        new = [key | row for row in measure(*key.values())]
        log(*new)
        rows = pd.concat([rows, pd.DataFrame(new)], ignore_index=True)
        new_file = path.with_suffix(".new")
        rows.to_csv(new_file, index=False, float_format="%.6g", lineterminator="\n")
        new_file.replace(path)  # never half a file


def publish(path: Path, text: str, picture: Any = None) -> None:
    """Print a report; write it, and a figure if any, to files of this name."""
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    if picture is not None:
        picture.savefig(path.with_suffix(".png"))
    print(text)


# -- tables


def table(
    header: Iterable[Any], rows: Iterable[Iterable[Any]], left: Sequence[int] = (0,)
) -> list[str]:
    """Return the lines of a Markdown table; numbers are to the right, columns `left` are not."""
    names = list(header)
    head, *lines = (f"| {' | '.join(map(str, cells))} |" for cells in (names, *rows))
    rule = "".join("---|" if k in left else "--:|" for k in range(len(names)))
    return [head, f"|{rule}", *lines]


def rows_table(rows: Sequence[Row], left: Sequence[int]) -> list[str]:
    """Return the table of rows that have the same names."""
    return table(tuple(rows[0]), map(dict.values, rows), left)


def page(*parts: str | Sequence[str]) -> str:
    """Return Markdown with a blank line between its parts: words, or lines of a table or list."""
    words = (part.strip() if isinstance(part, str) else "\n".join(part) for part in parts)
    return "\n\n".join(filter(None, words)) + "\n"


def decimals(values: Iterable[float], digits: int = 3) -> list[str]:
    """Return texts of numbers; a dash where a number is missing."""
    return ["–" if np.isnan(value) else f"{value:.{digits}f}" for value in values]


def with_errors(groups: Any) -> pd.Series:
    """Return texts of means and standard errors of grouped values."""
    return groups.agg(lambda values: f"{values.mean():.3f} ± {values.sem():.3f}")


def bold(values: Iterable[float], texts: Iterable[str] | None = None, digits: int = 3) -> list[str]:
    """Return the texts, in bold where a value is the largest to three digits."""
    rounded = np.array([round(float(value), 3) for value in values])
    texts = decimals(values, digits) if texts is None else texts
    pairs = zip(texts, rounded == np.nanmax(rounded), strict=True)
    return [f"**{text}**" if best else text for text, best in pairs]


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(json.dumps(call_by_name(sys.argv[1], *json.loads(sys.argv[2]))))
