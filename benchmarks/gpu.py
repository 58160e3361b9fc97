"""The engine "cuda" against the hardware, the reference engine on CuPy arrays, and JAX.

    python benchmarks/gpu.py [--limit SECONDS] [--part PART ...] [--to FOLDER] [--small] [--draw]

Four parts, on one GPU:

* layer: picoseconds of a pixel pair and layer, GPK and NTK, q = 3, against the bound of the issue
  slots: warps' instructions of a layer as counted in the compiled kernel
  (tests/engines/cuda/nvrtc.py), at the clock that the GPU has meanwhile.
* large: the Gram of 10 000 signals, from NumPy's arrays to NumPy's.
* grams: Grams of n signals of d time points and filters q, from CuPy's arrays to CuPy's. A star:
  every d and q for n = 1000, every n for d = 128 and q = 3.
* peers: seconds of a pair of signals for the reference engine on CuPy arrays, with tiles of a size
  for a GPU, and for the kernel written the usual way in JAX (jax_peer.py). Each tries larger and
  larger batches, until they are no faster or do not fit. What they compute is compared with ours.

Every row, or its error, is written to gpu.json at once (in benchmarks/results, or the folder
said); the next run goes on from there, and repeats rows that failed. With a limit, a row is not
begun if it is likely to take longer than what is left. Nothing is written without a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gpu_report
import numpy as np
from gpu_measure import Bench, OutOfTime, describe
from gpu_rows import CHANNELS, DEPTH, FULL, PARTS, SMALL, Row, Sizes, plan

import rescntk as rk

BEGUN = time.monotonic()
HERE = Path(__file__).parent
RESULTS = HERE / "results"

FIRST_SECONDS = 60.0
"""Seconds of a row before one of its part is measured. Larger numbers leave more rows to another
run. Chosen: twice the bars of gpu_report.py, and JAX's compilation."""


def machine(cupy: Any, sizes: Sizes) -> dict[str, Any]:
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    engines = sorted((HERE.parent / "rescntk" / "engines").rglob("*"))
    text = b"".join(path.read_bytes() for path in engines if path.suffix in (".py", ".h", ".cu"))
    return {
        "hardware": properties["name"].decode(),
        "multiprocessors": cupy.cuda.Device().attributes["MultiProcessorCount"],
        "cuda_driver": cupy.cuda.runtime.driverGetVersion(),
        "cuda_runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "rescntk": rk.__version__,
        "engines_sha256": hashlib.sha256(text).hexdigest()[:16],
        "date": datetime.date.today().isoformat(),
        "depth": DEPTH,
        "channels": CHANNELS,
        "sizes": "full" if sizes == FULL else "small",
    }


def resumed(folder: Path, name: str, here: dict[str, Any]) -> dict[str, Any]:
    """Return the report to go on with; one of another machine or engine is kept aside."""
    for path in (folder / name, RESULTS / name):
        if not path.exists():
            continue
        report = json.loads(path.read_text())
        differ = [
            k for k in ("hardware", "engines_sha256", "sizes") if report["machine"][k] != here[k]
        ]
        if not differ:
            print(f"going on from {path}: {len(report['rows'])} rows", flush=True)
            return report
        aside = folder / f"{path.stem}-{report['machine']['engines_sha256']}.json"
        folder.mkdir(parents=True, exist_ok=True)
        aside.write_text(path.read_text())
        print(f"{path} is of other {', '.join(differ)}: kept as {aside}, begun anew", flush=True)
        break
    return {"machine": here, "rows": []}


def save(report: dict[str, Any], path: Path) -> None:
    report["verdicts"] = gpu_report.verdicts(report)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(report, indent=1) + "\n")
    new.replace(path)  # never half a file


def run(
    rows: Sequence[Row],
    report: dict[str, Any],
    measure: Callable[[Row, float], dict[str, Any]],
    keep: Callable[[], None],
    limit: float,
    spent: Callable[[], float],
) -> list[Row]:
    """Measure new rows, then rows that failed, and return those that there was no time for."""
    late, old = [], {row: r for row in rows for r in report["rows"] if row.of(r)}
    new = [row for row in rows if row not in old]
    for row in [*new, *(row for row in old if "error" in old[row])]:
        start = spent()
        alike = [r["wall"] for r in report["rows"] if (r["part"], r["who"]) == (row.part, row.who)]
        expected = 1.2 * max(alike, default=FIRST_SECONDS)
        print(f"{row}: about {expected:.0f} s, {limit - start:.0f} s left", flush=True)
        try:
            if expected > limit - start:
                raise OutOfTime
            found = measure(row, limit - start)
        except OutOfTime:
            print("  left for another run", flush=True)
            late.append(row)
            continue
        except Exception as error:
            found = {"error": describe(error)}
        if row in old:
            report["rows"].remove(old[row])
        report["rows"].append(vars(row) | found | {"wall": spent() - start})
        keep()
        print(f"  {gpu_report.summary(report['rows'][-1])}", flush=True)
    return late


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds, all in all")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this (and this …)")
    parser.add_argument("--to", type=Path, default=RESULTS, help="folder for gpu.json and gpu.png")
    parser.add_argument("--small", action="store_true", help="toy sizes, to gpu-small.json")
    parser.add_argument("--draw", action="store_true", help="only draw gpu.png from gpu.json")
    parser.add_argument("--jax-python", default=sys.executable, help="a Python that has JAX")
    parser.add_argument("--jax-platform", default="gpu", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    name = "gpu-small.json" if options.small else "gpu.json"
    path = options.to / name
    if options.draw:
        if not path.exists():
            sys.exit(f"not measured: there is no {path}")
        gpu_report.draw(json.loads(path.read_text()), path.with_suffix(".png"))
        return
    state = rk.engines.available()["cuda"]
    if state is not True:
        sys.exit(f"not measured: {state}")
    import cupy

    sizes = SMALL if options.small else FULL
    here = machine(cupy, sizes)
    print(json.dumps(here), flush=True)
    report = resumed(options.to, name, here)
    # -P: nothing here is to be taken for a module of JAX's.
    worker = [options.jax_python, "-P", str(HERE / "jax_peer.py"), options.jax_platform]
    bench = Bench(cupy, sizes, worker)

    def keep() -> None:
        save(report, path)
        try:
            cupy.zeros(1)
            cupy.cuda.Device().synchronize()
        except Exception as error:
            sys.exit(f"the GPU is lost to this process, run again to go on: {describe(error)}")

    try:
        late = run(
            [row for row in plan(sizes) if row.part in (options.part or PARTS)],
            report, bench, keep, options.limit, lambda: time.monotonic() - BEGUN,
        )  # fmt: skip
    finally:
        bench.close()
    save(report, path)
    print(gpu_report.table(report))
    if late:
        print(f"left for another run: {len(late)} rows")
    try:
        gpu_report.draw(report, path.with_suffix(".png"))
    except ImportError as error:
        print(f"not drawn, python benchmarks/gpu.py --draw will: {error}")


if __name__ == "__main__":
    main()
