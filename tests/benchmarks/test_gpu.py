"""The GPU benchmark without a GPU: verdicts, the way through its rows, and every part at toy sizes.

What it runs on is `emulated`, with what the benchmark asks a device besides; JAX is a worker that
answers from the reference engine, or fails in all the ways that a peer may fail.
"""

import importlib.util
import json
import math
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines import reference
from rescntk.engines.cuda import engine as cuda
from tests.engines.cuda import emulated, fake_cupy, nvrtc

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import gpu
import gpu_report
import gpu_rows
from gpu_rows import FULL, JAX, OURS, REFERENCE, SMALL, Row

HERE = Path(__file__).parent
BENCHMARKS = HERE.parents[1] / "benchmarks"
CENTRE = Row("grams", OURS, "float32", 1000, 128, 3)


# ---------------------------------------------------------------- rows and estimates


def test_the_plan_is_a_star():
    rows = gpu_rows.plan(FULL)
    assert len(set(rows)) == len(rows)
    grams = {(r.dtype, r.n, r.d, r.q) for r in rows if r.part in ("grams", "large")}
    star = {(1000, d, q) for d in (32, 64, 128, 256) for q in (3, 9)}
    star |= {(n, 128, 3) for n in (2000, 5000, 10000)}
    assert grams == {(dtype, *size) for dtype in gpu_rows.DTYPES for size in star}
    for row in rows:
        if row.who == OURS:
            for peer in (REFERENCE, JAX):
                assert Row("peers", peer, row.dtype, None, row.d, row.q) in rows
    assert [r.part for r in rows[:4]] == ["layer", "layer", "large", "large"]


def test_pairs_and_entries():
    assert CENTRE.pairs == 1000 * 1001 / 2
    assert CENTRE.entries == CENTRE.pairs * 128 * 128 * 9
    assert Row("layer", OURS, "float32", 1024, 128, 3).pairs == 1024 * 512


@pytest.mark.parametrize("d", [1, 32, 128, 256])
def test_batches_grow_from_four(d):
    sizes = FULL.batch_sizes(d)
    assert sizes == sorted(set(sizes))
    assert sizes[0] >= 4
    assert sizes[-1] ** 2 * d**2 <= 2**28


def done(row, rate=1e-12, wall=3.0, **more):
    """Return what a row of ours might have found, at a rate of seconds an entry."""
    return vars(row) | {"seconds": rate * row.entries, "entries": row.entries, "wall": wall} | more


def test_estimates_follow_what_was_measured():
    large = Row("large", OURS, "float64", 10_000, 128, 3)
    unknown = gpu_rows.estimate(large, [])
    assert 2 * 60 < unknown < 3 * 60  # twice the bar
    layer = Row("layer", OURS, "float64", 1024, 128, 3)
    tiny = Row("grams", OURS, "float64", 4, 32, 3)
    slow = done(tiny, rate=1e-6)  # launches alone
    assert gpu_rows.estimate(large, [slow, done(layer, 5e-12)]) == pytest.approx(
        10 + 1.2 * 5e-12 * large.entries + 2
    )
    assert gpu_rows.estimate(large, [done(CENTRE, 1e-15)]) == unknown  # another precision
    failed = vars(layer) | {"error": "?", "wall": 500.0}
    assert gpu_rows.estimate(large, [failed]) == unknown


@pytest.mark.parametrize("who", [REFERENCE, JAX])
def test_estimates_of_peers(who):
    row = Row("peers", who, "float32", None, 128, 3)
    first = gpu_rows.estimate(row, [])
    assert 30 < first < 120
    rows = [vars(row) | {"wall": wall, "seconds_of_a_pair": 1e-6} for wall in (5.0, 10.0)]
    assert gpu_rows.estimate(row, rows) == 12.0


def test_the_full_plan_fits_two_commands():
    """At the bars' rates, and JAX's compiler taking a quarter of a minute a row."""
    found, total = [], 0.0
    for row in gpu_rows.plan(FULL):
        rate = {"float32": 3e-12, "float64": 8e-12}[row.dtype]
        total += gpu_rows.estimate(row, found)
        if row.who == OURS:
            found.append(done(row, rate))
        else:
            wall = {REFERENCE: 6.0, JAX: 15.0}[row.who]
            found.append(vars(row) | {"wall": wall, "seconds_of_a_pair": 1e-6})
    assert total < 2 * 580


# ---------------------------------------------------------------- the way through the rows


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


OWN = [row for row in gpu_rows.plan(FULL) if row.who == OURS]


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
            raise gpu.OutOfTime
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


# ---------------------------------------------------------------- climbing to the best batch


def test_climb_until_no_faster():
    found = gpu.climb([4, 8, 16, 32], lambda n: 1e-6 * n**2 + (16e-6 if n < 16 else 0.0))
    assert found["seconds_of_a_pair"] == pytest.approx(1e-6)
    assert [one["n"] for one in found["batches"]] == [4, 8, 16, 32]
    assert found["stopped"] == "n = 32 is no faster"


def test_climb_until_long():
    found = gpu.climb([4, 8, 16], lambda n: 0.3 * n)
    assert found["batches"] == [{"n": 4, "seconds": pytest.approx(1.2)}]
    assert found["stopped"] == "n = 4 takes 1.2 s"


@pytest.mark.parametrize("says", ["RESOURCE_EXHAUSTED: 9 GiB", "Out of memory allocating 9"])
def test_climb_until_memory_is_full(says):
    def measure(n):
        if n > 4:
            raise RuntimeError(says)
        return 1e-3

    found = gpu.climb([4, 8], measure)
    assert found["seconds_of_a_pair"] == 1e-3 / 16
    assert says in found["stopped"]
    with pytest.raises(RuntimeError, match=says):
        gpu.climb([8], measure)


def test_a_climb_that_breaks_off_is_a_failure():
    def measure(n):
        if n > 4:
            raise RuntimeError("illegal memory access")
        return 1e-3

    with pytest.raises(RuntimeError, match="illegal"):
        gpu.climb([4, 8], measure)


# ---------------------------------------------------------------- verdicts

MACHINE = {
    "hardware": "NVIDIA H200",
    "multiprocessors": 132,
    "engines_sha256": "new",
    "depth": 9,
    "channels": 4,
    "sizes": "full",
}


def full_report(rate=None, faster=10.0):
    """Return a report of everything, at these picoseconds an entry; peers so much slower."""
    rate = rate or {"float32": 2.0, "float64": 6.0}
    rows = []
    for row in gpu_rows.plan(FULL):
        ps = rate[row.dtype]
        if row.who == OURS:
            found = done(row, 1e-12 * ps)
            if row.part == "layer":
                found |= {"picoseconds": ps, "bound_picoseconds": 0.6 * ps, "share_of_bound": 0.6}
        else:
            slower = faster * (1.0 if row.who == JAX else 1.5)
            # 1 − 1/n of a pair's entries, as in a Gram with its diagonal counted.
            pair = slower * 1e-12 * ps * row.d**2 * 9
            found = vars(row) | {"seconds_of_a_pair": pair, "wall": 20.0}
        rows.append(found)
    return {"machine": MACHINE, "rows": rows}


def met(report):
    return {name: one["met"] for name, one in gpu_report.verdicts(report).items()}


def changed(report, keep, **fields):
    """Return the report with fields of some rows changed; without these rows if there are none."""
    rows = [r | fields if keep(r) else r for r in report["rows"] if fields or not keep(r)]
    return report | {"rows": rows}


def test_all_is_met():
    found = gpu_report.verdicts(full_report())
    assert len(found) == 8 and all(one["met"] is True for one in found.values())
    assert found["times the better peer, float32"]["value"] == pytest.approx(10.0)
    assert found["picoseconds of a pixel pair and layer, float64"]["value"] == 6.0


def test_all_is_missed():
    report = full_report({"float32": 3.6, "float64": 8.5}, faster=4.9)
    report = changed(report, lambda r: r["part"] == "layer", share_of_bound=0.49)
    assert set(met(report).values()) == {False}
    assert gpu_report.table(report | {"verdicts": gpu_report.verdicts(report)}).count("missed") == 8


@pytest.mark.parametrize("who", [REFERENCE, JAX, OURS])
@pytest.mark.parametrize("how", ["missing", "failed", "nan"])
def test_nothing_is_met_without_its_numbers(who, how):
    """Of any one row: the bars that need it are not judged, the others are."""
    for row in gpu_rows.plan(FULL):
        if row.who != who:
            continue
        fields = {
            "missing": {},
            "failed": {"error": "ModuleNotFoundError: No module named 'jax'"},
            "nan": dict.fromkeys(
                ("seconds", "seconds_of_a_pair", "picoseconds", "share_of_bound"), math.nan
            ),
        }[how]
        report = changed(full_report(), row.of, **fields)
        found = gpu_report.verdicts(report)
        unjudged = {name for name, one in found.items() if one["met"] is None}
        if row.part == "layer":
            expected = {
                "picoseconds of a pixel pair and layer",
                "share of the bound of issue slots",
            }
        else:
            expected = {"times the better peer"}
            expected |= {"seconds of 10 000 signals"} if row.part == "large" else set()
        assert unjudged == {f"{name}, {row.dtype}" for name in expected}
        assert all(str(row) in found[name]["why"] for name in unjudged)
        assert all(found[name]["value"] is None for name in unjudged)
        assert all(one["met"] for name, one in found.items() if name not in unjudged)


def test_one_peer_is_enough_to_miss():
    report = changed(full_report(faster=2.0), lambda r: r["who"] == REFERENCE)
    found = gpu_report.verdicts(report)["times the better peer, float32"]
    assert found["met"] is False and found["value"] == pytest.approx(2.0)


def test_one_slow_size_misses():
    slow = Row("grams", OURS, "float64", 1000, 256, 9)
    report = changed(full_report(), slow.of, seconds=1e-12 * 13 * slow.entries)
    assert met(report)["times the better peer, float64"] is False
    assert met(report)["times the better peer, float32"] is True


def test_a_bound_without_a_clock():
    layer = Row("layer", OURS, "float32", 1024, 128, 3)
    report = changed(full_report(), layer.of, share_of_bound=None, missing=["nvidia-smi: gone"])
    found = gpu_report.verdicts(report)["share of the bound of issue slots, float32"]
    assert found["met"] is None and "nvidia-smi: gone" in found["why"]


@pytest.mark.parametrize("other", [{"hardware": "NVIDIA A100"}, {"sizes": "small"}])
def test_bars_are_for_one_gpu_and_its_sizes(other):
    report = full_report() | {"machine": MACHINE | other}
    assert set(met(report).values()) == {None}


def test_what_is_committed_says_what_its_rows_say():
    report = json.loads((BENCHMARKS / "results" / "gpu.json").read_text())
    assert report["verdicts"] == gpu_report.verdicts(report)
    if report["machine"]["hardware"] == "not measured":
        assert report["rows"] == []
        assert {one["met"] for one in report["verdicts"].values()} == {None}


# ---------------------------------------------------------------- the bound


def test_the_bound_of_issue_slots():
    """49 slots: 132 multiprocessors issue 128 lanes' instructions a clock of 1980 MHz."""
    found = gpu.bound({"issued": 49.0, "fp64": 0.0}, 132, 1980.0)
    assert found == pytest.approx(1e12 * 49 / (132 * 128 * 1.98e9))
    assert gpu.bound({"issued": 49.0, "fp64": 98.0}, 132, 1980.0) == pytest.approx(2 * found)


@pytest.mark.skipif(nvrtc.LIBRARY is None or nvrtc.DISASSEMBLER is None, reason=nvrtc.MISSING)
def test_slots_are_counted_in_the_kernel():
    single, double = (gpu.slots(dtype, "90", 128, 3) for dtype in gpu_rows.DTYPES)
    assert 20 < single["issued"] <= 60 and single["fp64"] == 0
    assert 60 < max(double.values()) <= 140


def test_slots_say_why_they_are_missing(monkeypatch):
    with pytest.raises(LookupError, match="sm_86"):
        gpu.slots("float32", "86", 128, 3)
    monkeypatch.setattr(nvrtc, "DISASSEMBLER", None)
    with pytest.raises(LookupError, match="nvdisasm"):
        gpu.slots("float32", "90", 128, 3)


def program(path, text):
    """Put something to be run in place: a file that is being written cannot be run."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o755)
    return new.replace(path)


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Return a function that puts an nvidia-smi of its text on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return lambda text: program(folder / "nvidia-smi", f"#!/bin/sh\n{text}\n")


def watched(bus="0000:18:00.0", seconds=5.0):
    with gpu.Clock(bus) as clock:
        end = time.monotonic() + seconds
        while len(clock.seen) < 3 and not clock.why and time.monotonic() < end:
            time.sleep(0.01)
    return clock


def test_the_clock_is_that_of_the_device(smi):
    smi("echo '00000000:17:00.0, 345'; echo '00000000:18:00.0, 1980'")
    assert watched().mhz == 1980.0
    assert watched("0000:17:00.0").mhz == 345.0
    smi("echo '00000000:01:00.0, 1755'")  # a machine that counts otherwise, with one GPU
    assert watched().mhz == 1755.0


def test_the_clock_says_why_it_is_missing(smi, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        assert watched().mhz is None
        assert "No such file" in watched().why
    smi("exit 9")
    assert "exit status 9" in watched().why
    smi("echo '00000000:18:00.0, [N/A]'")
    assert "no clock of 18:00.0" in watched().why
    smi("sleep 1; echo '00000000:18:00.0, 1980'")
    late = watched(seconds=0.1)
    assert late.mhz is None and "longer than the measurement" in late.why


# ---------------------------------------------------------------- all of it, at toy sizes

STAND_IN = f"""#!{sys.executable}
import json, sys, time
print(json.dumps({{"ready": "stand-in"}}), flush=True)
sys.path[:0] = [{str(BENCHMARKS)!r}, {str(HERE.parents[1])!r}]
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


@pytest.fixture(scope="module")
def cupy(request):
    """Put CuPy's stand-in in its place, with what a benchmark asks a device."""
    if emulated.COMPILER is None:
        pytest.skip(emulated.MISSING)
    fake = emulated.module(request.config.cache.mkdir("kernels"))
    pool = fake.get_default_memory_pool

    class Device:
        id, pci_bus_id, compute_capability = 0, "0000:18:00.0", "90"

        def __init__(self, number=0):
            self.attributes = {"MultiProcessorCount": 132}

        def synchronize(self):
            pass

    class Pool:
        def __getattr__(self, name):
            return getattr(pool(), name)

        def free_all_blocks(self):
            pass

    fake.cuda.Device, fake.get_default_memory_pool = Device, Pool
    fake.cuda.runtime.getDeviceProperties = lambda number: {"name": b"NVIDIA H200, emulated"}
    fake.cuda.runtime.driverGetVersion = fake.cuda.runtime.runtimeGetVersion = lambda: 13000
    fake.__version__ = "emulated"
    with pytest.MonkeyPatch.context() as patch:
        cuda._kernel.cache_clear()
        patch.setitem(sys.modules, "cupy", fake)
        yield fake
    cuda._kernel.cache_clear()
    fake_cupy.ndarray.memory = None


@pytest.fixture
def benchmark(cupy, smi, tmp_path, monkeypatch):
    """Return a function that runs the small benchmark and returns its report."""
    smi("echo '00000000:18:00.0, 1980'")
    monkeypatch.setattr(gpu, "ENOUGH_ROUNDS", 0.3)
    monkeypatch.setattr(
        gpu, "slots", lambda *_: {"issued": 49.0, "fp64": 0.0}, raising=True
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
            assert found["difference"] <= gpu.AGREE[row.dtype]
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
        monkeypatch.setattr(gpu, "PEER_SECONDS", 1.0)
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
    bench, row = gpu.Bench(cupy, SMALL, hangs), Row("peers", JAX, "float32", None, 8, 3)
    for left in (0.0, 0.5):
        with pytest.raises(gpu.OutOfTime):
            bench(row, left)
    monkeypatch.setattr(gpu, "PEER_SECONDS", 0.5)
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

    monkeypatch.setattr(gpu.Bench, "gram", broken)
    with pytest.raises(SystemExit, match="run again to go on: RuntimeError: cudaErrorIllegal"):
        benchmark("--part", "large")
    assert len(asked) == 1
    rows = json.loads((tmp_path / "gpu-small.json").read_text())["rows"]
    assert len(rows) == 1 and "cudaErrorIllegalAddress" in rows[0]["error"]


def test_the_reference_engine_gets_one_tile(cupy):
    """And its own size back, whatever happens."""
    kept = reference._TILE_ENTRIES, reference._TABLE_BYTES
    n, d = 12, 128
    X = np.zeros((n, 4, d))
    with gpu.one_tile((n * d) ** 2):
        run = reference._Run(rk.engines.Request(rk.Network(9), "gap", ("gpk",), (9,), "float32"), X)
        assert run.columns_per_tile(n) == n
        assert list(run.parts(slice(0, n), slice(0, n), False)) == [(slice(0, n), slice(0, n))]
        side = run.tables.make(X)
        assert [some for some, *_ in run.right_views(side)] == [slice(0, d)]
    assert (reference._TILE_ENTRIES, reference._TABLE_BYTES) == kept
    with pytest.raises(ZeroDivisionError), gpu.one_tile(2**20):
        raise ZeroDivisionError
    assert (reference._TILE_ENTRIES, reference._TABLE_BYTES) == kept


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="no JAX: pip install jax")
def test_jax_computes_our_kernels(monkeypatch):
    monkeypatch.setitem(os.environ, "JAX_PLATFORMS", "cpu")
    worker = gpu.Worker([sys.executable, str(BENCHMARKS / "jax_peer.py"), "cpu"], 100.0)
    try:
        for dtype in gpu_rows.DTYPES:
            for q in (3, 9):
                size = {"d": 16, "n": 4, "channels": 4, "depth": 9, "q": q}
                reply = worker.ask(size | {"dtype": dtype, "calls": 1, "enough": 1.0}, 100.0)
                X = gpu.signals(4, 4, 16)
                ours = rk.gram(rk.Network(9, q), X[:2], X[::-1][:2])
                theirs = [np.array(reply[kind]) for kind in ("gpk", "ntk")]
                assert gpu.difference(ours, theirs) <= gpu.AGREE[dtype]
        with pytest.raises(ChildProcessError, match="KeyError"):
            worker.ask({}, 100.0)
    finally:
        worker.close()
