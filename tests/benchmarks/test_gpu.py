"""The GPU benchmark without a GPU: the way through its rows, and every part at toy sizes.

The device is emulated; JAX is a worker that answers from the reference engine, or fails in all the
ways that a peer may fail.
"""

import json
import math
import sys
import time

import gpu
import gpu_measure
import gpu_peers
import gpu_report
import gpu_rows
import pytest
from gpu_rows import JAX, OURS, SMALL, Row

import rescntk as rk
from tests.benchmarks.gpu_parts import BENCHMARKS, CENTRE, MACHINE, OWN, ROOT, done, program

pytestmark = pytest.mark.slow


class Watch:
    """A clock that goes on only when it is told to."""

    now = 0.0

    def __call__(self):
        return self.now


def go(rows, report, seconds, limit=math.inf, **options):
    """Run rows that take so many seconds each; return what was measured, and what is late."""
    watch, asked = Watch(), []

    def measure(row, left):
        asked.append(row)
        watch.now += seconds(row)
        return {"seconds": seconds(row), "entries": row.entries}

    late = gpu.run(rows, report, measure, lambda: None, limit, watch, **options)
    return asked, late


def test_rows_are_not_measured_twice():
    report = {"rows": []}
    asked, late = go(OWN[:5], report, lambda row: 1.0)
    assert asked == OWN[:5] and not late
    asked, late = go(OWN, report, lambda row: 1.0)
    assert asked == OWN[5:] and not late
    assert len(report["rows"]) == len(OWN)


def test_what_does_not_fit_is_left():
    """Smaller rows that fit are measured all the same."""
    for limit in (0.0, 60.0, 150.0, 250.0, 1000.0):
        report = {"rows": []}
        asked, late = go(OWN, report, lambda row: 1e-11 * row.entries, limit)
        assert set(asked) | set(late) == set(OWN) and not set(asked) & set(late)
        assert sum(row["wall"] for row in report["rows"]) <= limit
    assert not late
    assert asked


def test_failures_are_kept_and_repeated_only_when_asked():
    report = {"rows": []}

    def fail(row, left):
        if row == OWN[1]:
            raise MemoryError("Out of\nmemory")
        if row == OWN[2]:
            raise gpu_peers.OutOfTime
        return {"seconds": 1.0, "entries": 1.0}

    late = gpu.run(OWN[:4], report, fail, lambda: None, math.inf, Watch())
    assert late == [OWN[2]]
    assert [row.get("error") for row in report["rows"]] == [
        None,
        "MemoryError: Out of memory",
        None,
    ]
    assert go(OWN[:4], report, lambda row: 1.0)[0] == [OWN[2]]
    assert go(OWN[:4], report, lambda row: 1.0, retry=True)[0] == [OWN[1]]
    assert len(report["rows"]) == 4 and not any("error" in row for row in report["rows"])


def test_an_interrupted_run_has_kept_its_rows(tmp_path):
    path, report = tmp_path / "new" / "gpu.json", {"machine": MACHINE, "rows": []}

    def measure(row, left):
        if row == OWN[3]:
            raise KeyboardInterrupt
        return {"seconds": 1.0, "entries": row.entries}

    with pytest.raises(KeyboardInterrupt):
        gpu.run(OWN, report, measure, lambda: gpu.save(report, path), math.inf, Watch())
    again = gpu.resumed(path.parent, path.name, MACHINE)
    assert again["rows"] == report["rows"] and len(again["rows"]) == 3
    assert [p.name for p in path.parent.iterdir()] == ["gpu.json"]


def test_rows_of_another_engine_are_kept_aside(tmp_path, capsys):
    old = {"machine": MACHINE | {"engines_sha256": "old"}, "rows": [done(CENTRE)]}
    gpu.save(old, tmp_path / "gpu.json")
    assert gpu.resumed(tmp_path, "gpu.json", MACHINE)["rows"] == []
    assert json.loads((tmp_path / "gpu-old.json").read_text())["rows"] == old["rows"]
    assert "engines_sha256" in capsys.readouterr().out


def test_a_committed_report_says_what_its_rows_say():
    """There is none before a device has been measured; then --draw says so."""
    path = BENCHMARKS / "results" / "gpu.json"
    if not path.exists():
        with pytest.raises(SystemExit, match="^not measured: there is no .*gpu.json"):
            gpu.main(["--draw"])
        return
    report = json.loads(path.read_text())
    assert report["rows"] and report["verdicts"] == gpu_report.verdicts(report)


STAND_IN = f"""#!{sys.executable}
import json, sys, time
print(json.dumps({{"ready": "stand-in"}}), flush=True)
sys.path[:0] = [{str(BENCHMARKS)!r}, {str(ROOT)!r}]
import rescntk as rk
from jax_peer import signals
for line in sys.stdin:
    r = json.loads(line)
    X = signals(r["n"], r["channels"], r["d"])
    network = rk.Network(r["depth"], r["q"])
    G = rk.gram(network, X[:2], X[::-1][:2], engine="reference", dtype=r["dtype"])
    reply = {{"seconds": [1e-3] * r["calls"], "gpk": G.gpk.tolist(), "ntk": G.ntk.tolist()}}
    FAULT
    print(json.dumps(reply), flush=True)
"""


def test_without_a_gpu_nothing_is_written(tmp_path):
    if rk.engines.available()["cuda"] is True:
        pytest.skip("there is a GPU")
    with pytest.raises(SystemExit, match="not measured"):
        gpu.main(["--to", str(tmp_path)])
    assert not list(tmp_path.iterdir())


@pytest.fixture
def benchmark(cupy, smi, tmp_path, monkeypatch):
    """Return a function that runs the small benchmark and returns its report."""
    smi("echo '00000000:18:00.0, 1980'")
    monkeypatch.setattr(gpu_measure, "ENOUGH_ROUNDS", 0.3)
    monkeypatch.setattr(
        gpu_measure, "slots", lambda *_: {"issued": 49.0, "fp64": 0.0}, raising=True
    )  # of NVIDIA's tools: above
    monkeypatch.setattr(gpu, "BEGUN", time.monotonic())

    def run(*arguments, fault="pass"):
        worker = program(tmp_path / "jax", STAND_IN.replace("FAULT", fault))
        given = ["--small", "--to", str(tmp_path), "--jax-python", str(worker), *arguments]
        gpu.main(given)
        return json.loads((tmp_path / "gpu-small.json").read_text())

    return run


def test_every_part_runs(benchmark, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    report = benchmark()
    rows = gpu_rows.plan(SMALL)
    assert len(report["rows"]) == len(rows)
    assert not [row for row in report["rows"] if "error" in row]
    for row in rows:
        (found,) = (r for r in report["rows"] if row.of(r))
        if row.part == "layer":
            assert found["clock_mhz"] == 1980.0 and found["slots"]["issued"] == 49.0
            assert found["missing"] == []
            alone = found["picoseconds_of_layers_alone"]
            assert found["bound_picoseconds"] / alone == pytest.approx(found["share_of_bound"])
            assert found["picoseconds"] == pytest.approx(1e12 * found["seconds"] / row.entries)
        elif row.who == OURS:
            assert found["seconds"] > 0 and found["entries"] == row.entries
        else:
            assert found["seconds_of_a_pair"] > 0
            assert found["difference"] <= gpu_peers.AGREE[row.dtype]
            assert (found.get("jax") == "stand-in") == (row.who == JAX)
    assert {one["met"] for one in report["verdicts"].values()} == {None}
    assert (tmp_path / "gpu-small.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert "not judged" in said and ": met" not in said
    benchmark()
    assert (
        f"going on from {tmp_path / 'gpu-small.json'}: {len(rows)} rows" in capsys.readouterr().out
    )
    (tmp_path / "gpu-small.png").unlink()
    benchmark("--draw")
    assert (tmp_path / "gpu-small.png").exists()


def test_parts_and_limits(benchmark, capsys):
    assert benchmark("--limit", "0")["rows"] == []
    assert f"left for another run: {len(gpu_rows.plan(SMALL))} rows" in capsys.readouterr().out
    report = benchmark("--part", "large", "--part", "layer")
    assert {row["part"] for row in report["rows"]} == {"large", "layer"}


FAULTS = {
    "sys.exit('no CUDA here')": "the worker ended with 1: no CUDA here",
    "reply = {'error': 'XlaRuntimeError: INTERNAL: autotuning'}": "INTERNAL: autotuning",
    "reply['ntk'][0][0] *= 1.01": "differs from our kernels by 9.",
    "reply['gpk'][0][0] = float('nan')": "differs from our kernels by nan",
    "time.sleep(60)": "no answer within",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_peer_may_fail(benchmark, fault, monkeypatch):
    if "sleep" in fault:
        monkeypatch.setattr(gpu_measure, "PEER_SECONDS", 1.0)
    report = benchmark("--part", "peers", fault=fault)
    for row in report["rows"]:
        if row["who"] == JAX:
            assert FAULTS[fault] in row["error"]
        else:
            assert "error" not in row


def test_a_peer_without_jax(benchmark, tmp_path):
    report = benchmark("--part", "peers", "--jax-python", str(tmp_path / "nothing"))
    errors = [row["error"] for row in report["rows"] if row["who"] == JAX]
    assert len(errors) == 4 and all("No such file" in error for error in errors)


@pytest.mark.parametrize("ready", ["", "print('{\"ready\": 1}', flush=True)\n"])
def test_too_little_time_is_no_failure(cupy, ready, monkeypatch):
    """The row is left, not marked; unless it took as long as a peer may."""
    hangs = [sys.executable, "-c", f"import time\n{ready}time.sleep(60)"]
    bench, row = gpu_measure.Bench(cupy, SMALL, hangs), Row("peers", JAX, "float32", None, 8, 3)
    for left in (0.0, 0.5):
        with pytest.raises(gpu_peers.OutOfTime):
            bench(row, left)
    monkeypatch.setattr(gpu_measure, "PEER_SECONDS", 0.5)
    with pytest.raises(TimeoutError):
        bench(row, 100.0)


def test_a_lost_gpu_ends_the_run(benchmark, cupy, monkeypatch, tmp_path):
    def zeros(*_):
        raise RuntimeError("cudaErrorIllegalAddress")

    asked = []

    def broken(self, row):
        asked.append(row)
        monkeypatch.setattr(cupy, "zeros", zeros)
        raise RuntimeError("cudaErrorIllegalAddress")

    monkeypatch.setattr(gpu_measure.Bench, "gram", broken)
    with pytest.raises(SystemExit, match="run again to go on: RuntimeError: cudaErrorIllegal"):
        benchmark("--part", "large")
    assert len(asked) == 1
    rows = json.loads((tmp_path / "gpu-small.json").read_text())["rows"]
    assert len(rows) == 1 and "cudaErrorIllegalAddress" in rows[0]["error"]
