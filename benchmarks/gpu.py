"""The engine "cuda" against the hardware, the reference engine on CuPy arrays, and JAX.

    python benchmarks/gpu.py [--limit SECONDS] [--part PART ...] [--out FOLDER] [--quick]

Five parts, on one GPU:

* layer: picoseconds of a pixel pair and layer, GPK and NTK, q = 3, against the bound of the issue
  slots, as counted in the compiled kernel (tests/engines/cuda/nvrtc.py), at the GPU's clock.
* large: the Gram of 10 000 signals, from NumPy's arrays to NumPy's.
* sweep: Grams by the threads of a block (launch_plan.py), the best first; 0: the plan's choice.
* grams: Grams of n signals of d time points and filters q, from CuPy's arrays to CuPy's.
* peers: seconds of a pair of signals, at the best batch. Peers are the reference engine on CuPy
  arrays, and the kernel written the usual way in JAX (peers.py).

Every row, or its error, is written to gpu.json at once; the next run goes on from there, and
repeats rows that failed. With a limit, a row is not begun if it is likely to take longer.
"""

import argparse
import datetime
import hashlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gpu_report
import harness
from gpu_measure import Bench, OutOfTime, describe
from gpu_report import FULL, PARTS, SMALL, Row, Sizes, plan

import rescntk as rk

BEGUN = time.monotonic()
HERE = Path(__file__).parent

FIRST_SECONDS = 60.0
"""Seconds of a row before one of its part is measured: larger ones leave more to another run.
Chosen: twice the bars of gpu_report.py, and JAX's compilation."""


def machine(cupy: Any, sizes: Sizes) -> dict[str, Any]:
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    engines = sorted((HERE.parent / "rescntk" / "engines").rglob("*"))
    text = b"".join(path.read_bytes() for path in engines if path.suffix in (".py", ".h", ".cu"))
    return harness.machine() | {
        "hardware": properties["name"].decode(),
        "cuda_driver": cupy.cuda.runtime.driverGetVersion(),
        "cuda_runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
        "engines_sha256": hashlib.sha256(text).hexdigest()[:16],
        "date": datetime.date.today().isoformat(),
        "sizes": "full" if sizes == FULL else "small",
    }


def run(
    rows: Sequence[Row],
    report: dict[str, Any],
    measure: Callable[[Row, float], dict[str, Any]],
    keep: Callable[[], None],
    limit: float,
    spent: Callable[[], float],
) -> list[Row]:
    """Measure new rows, then rows that failed, and return those that there was no time for."""
    late, old = [], gpu_report.by_row(report)
    new = [row for row in rows if row not in old]
    for row in [*new, *(row for row in rows if "error" in old.get(row, ()))]:
        start = spent()
        alike = [r["wall"] for r in report["rows"] if (r["part"], r["who"]) == (row.part, row.who)]
        expected = 1.2 * max(alike, default=FIRST_SECONDS)
        print(f"{row}: about {expected:.0f} s, {limit - start:.0f} s left", flush=True)
        try:
            if expected > limit - start:
                raise OutOfTime
            measured = measure(row, limit - start)
        except OutOfTime:
            print("  left for another run", flush=True)
            late.append(row)
            continue
        except Exception as error:
            measured = {"error": describe(error)}
        if row in old:
            report["rows"].remove(old[row])
        report["rows"].append(row._asdict() | measured | {"wall": spent() - start})
        keep()
        print(f"  {measured}", flush=True)
    return late


def measure(asked: argparse.Namespace, path: Path) -> None:
    """Measure what the file lacks, in the time that was given."""
    state = rk.engines.available()["cuda"]
    if state is not True:
        sys.exit(f"not measured: {state}")
    import cupy

    sizes = SMALL if asked.quick else FULL
    this_machine = machine(cupy, sizes)
    print(json.dumps(this_machine), flush=True)
    report = harness.begun(path, this_machine, ("hardware", "engines_sha256", "sizes"))
    # -P: nothing here is to be taken for a module of JAX's.
    bench = Bench(cupy, sizes, [asked.jax_python, "-P", str(HERE / "peers.py"), "jax", "gpu"])

    def keep() -> None:
        harness.save(path, report)
        try:
            cupy.zeros(1)
            cupy.cuda.Device().synchronize()
        except Exception as error:
            sys.exit(f"the GPU is lost to this process, run again to go on: {describe(error)}")

    try:
        late = run(
            [row for row in plan(sizes) if row.part in (asked.part or PARTS)],
            report, bench, keep, asked.limit, lambda: time.monotonic() - BEGUN,
        )  # fmt: skip
    finally:
        bench.close()
    if late:
        print(f"left for another run: {len(late)} rows")


def main(arguments: Sequence[str] | None = None) -> None:
    harness.script(
        __doc__, "gpu.json", measure, gpu_report.page, arguments=arguments,
        limit={"type": float, "default": float("inf"), "help": "seconds, all in all"},
        part=harness.several(PARTS),
        jax_python={"default": sys.executable, "help": "a Python that has JAX"},
    )  # fmt: skip


if __name__ == "__main__":
    main()
