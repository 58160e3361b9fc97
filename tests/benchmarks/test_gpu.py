"""The GPU benchmark without a GPU: the way through its rows, and every part at toy sizes.

The device is emulated; JAX is a worker that answers from the reference engine, or fails.
"""

import json
import math
import sys
import time

import gpu
import gpu_measure
import gpu_report
import harness
import numpy as np
import pytest
from gpu_report import DEPTH, FULL, JAX, OURS, SMALL
from harness import Worker
from peers import signals

import rescntk as rk
from rescntk.engines.cuda import compiler
from tests.benchmarks.conftest import BENCHMARKS, program

pytestmark = pytest.mark.slow
ROWS = gpu_report.plan(FULL)
MACHINE = {"hardware": "NVIDIA H200", "engines_sha256": "new", "sizes": "full"}

STAND_IN = f"""#!{sys.executable}
import json, sys, time
print(json.dumps({{"ready": "stand-in"}}), flush=True)
sys.path[:0] = [{str(BENCHMARKS)!r}, {str(BENCHMARKS.parent)!r}]
import rescntk as rk
from peers import signals
for line in sys.stdin:
    r = json.loads(line)
    X, Z = signals(r["n"], r["channels"], r["d"], r["seed"])
    network = rk.Network(r["depth"], r["q"])
    G = rk.gram(network, X[:2], Z[:2], engine="reference", dtype=r["dtype"])
    reply = {{"seconds": [1e-3] * r["calls"], "gpk": G.gpk.tolist(), "ntk": G.ntk.tolist()}}
    FAULT
    print(json.dumps(reply), flush=True)
"""


def test_rows_are_resumed_and_failures_repeated(tmp_path):
    """New rows come first; rows of another engine are refused."""
    report, asked, spent = {"machine": MACHINE, "rows": []}, [], [0.0]
    path = tmp_path / "gpu.json"

    def measure(row, left):
        asked.append(row)
        spent[0] += 10.0
        if row == ROWS[1] and len(asked) == 2:
            raise MemoryError("Out of\nmemory")
        return {"seconds": 1.0}

    def run(limit):
        keep = lambda: harness.save(path, report)  # noqa: E731
        return gpu.run(ROWS[:4], report, measure, keep, limit, lambda: spent[0])

    assert run(75.0) == ROWS[2:4]
    assert [row.get("error") for row in report["rows"]] == [None, "MemoryError: Out of memory"]
    report |= harness.begun(path, MACHINE, tuple(MACHINE))
    assert not run(math.inf) and len(report["rows"]) == 4
    assert asked == [*ROWS[:4], ROWS[1]]
    with pytest.raises(SystemExit, match=r"another machine or version \(engines_sha256\)"):
        harness.begun(path, MACHINE | {"engines_sha256": "x"}, tuple(MACHINE))


def test_verdicts():
    """Met or missed only with all numbers, and only on the bars' own device."""
    rows = []
    for row in ROWS:
        ps = {"float32": 2.0, "float64": 6.0}[row.dtype]
        found = {"seconds": 1e-12 * ps * row.entries, "picoseconds": ps, "share_of_bound": 0.6}
        if row.who != OURS:
            found = {"seconds_of_a_pair": 10e-12 * ps * row.d**2 * DEPTH}
        rows.append(row._asdict() | found)

    def met(rows, **machine):
        report = {"machine": MACHINE | machine, "rows": rows}
        return [verdict["met"] for verdict in gpu_report.verdicts(report).values()]

    assert met(rows) == [True] * 8
    assert met(rows, hardware="NVIDIA A100") == met(rows, sizes="small") == [None] * 8
    slow = [row | {"picoseconds": 9.0, "share_of_bound": 0.4} for row in rows]
    slow = [r | {"seconds": 3 * r["seconds"]} if "seconds" in r else r for r in slow]
    assert met(slow) == [False] * 8
    without = [r for r in rows if not (r["who"] == JAX and r["dtype"] == "float32")]
    assert met(without) == [True, True, None, True] + [True] * 4
    assert met(rows[1:]) == [None, None, True, True] + [True] * 4


def test_without_a_gpu_nothing_is_written(tmp_path):
    with pytest.raises(SystemExit, match="not measured"):
        gpu.main(["--out", str(tmp_path)])
    assert not list(tmp_path.iterdir())


@pytest.fixture
def benchmark(cupy, smi, tmp_path, monkeypatch):
    """Return a function that runs the small benchmark and returns its report."""
    monkeypatch.setattr(gpu_measure, "ENOUGH_ROUNDS", 0.3)
    monkeypatch.setattr(gpu_measure, "slots", lambda *_: {"issued": 49.0, "fp64": 0.0})
    monkeypatch.setattr(gpu, "BEGUN", time.monotonic())

    def run(*arguments, fault="pass"):
        worker = program(tmp_path / "jax", STAND_IN.replace("FAULT", fault))
        gpu.main(["--quick", "--out", str(tmp_path), "--jax-python", str(worker), *arguments])
        return json.loads((tmp_path / "gpu.json").read_text())

    return run


def test_every_part_runs(benchmark, capsys, monkeypatch):
    names, original = [], compiler.compiled
    monkeypatch.setattr(compiler, "compiled", lambda *key: names.append(key[1]) or original(*key))
    report = benchmark()
    assert not [row for row in report["rows"] if "error" in row or "missing" in row]
    measured = gpu_report.by_row(report)
    assert len(measured) == len(report["rows"])
    for row in gpu_report.plan(SMALL):
        found = measured[row]
        if row.part == "layer":
            assert found["clock_mhz"] == 1980.0
            assert found["bound_picoseconds"] == pytest.approx(1e12 * 49 / (132 * 128 * 1.98e9))
        elif row.part != "peers":
            assert found["seconds"] > 0 and found["entries"] == row.entries
        else:
            assert found["seconds_of_a_pair"] > 0
            assert found["difference"] <= gpu_measure.AGREE[row.dtype]
    said = capsys.readouterr().out
    swept = {name.partition("<")[0] for name in names if ", 64" in name}
    assert swept == {"short_rows", "long_rows"}
    assert "not judged" in said and "| float64 | 26 | 64 |" in said


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("sys.exit('no CUDA here')", "the worker ended with 1: no CUDA here"),
        ("reply['gpk'][0][0] = float('nan')", "differs from our kernels by nan"),
        ("time.sleep(60)", "no answer within"),
    ],
)
def test_a_peer_may_fail(benchmark, fault, error, monkeypatch):
    monkeypatch.setattr(gpu_measure, "PEER_SECONDS", 0.3 if "sleep" in fault else 150.0)
    for row in benchmark("--part", "peers", fault=fault)["rows"]:
        assert error in row["error"] if row["who"] == JAX else "error" not in row


def test_jax_computes_our_kernels(monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    request = {"dtype": "float64", "head": "gap", "depth": 3, "q": 3, "channels": 2, "d": 5, "n": 4}
    worker = Worker([sys.executable, "-P", BENCHMARKS / "peers.py", "jax", "cpu"], 300.0)
    try:
        reply = worker.ask(request | {"seed": 1, "calls": 1, "enough": 0.1}, 300.0)
    finally:
        worker.close()
    for kind, K in rk.gram(rk.Network(3, 3), *signals(4, 2, 5, 1))._asdict().items():
        assert np.allclose(reply[kind], K[:2, :2], rtol=gpu_measure.AGREE["float64"])
