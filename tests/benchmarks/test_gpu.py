"""The GPU benchmark without a GPU: all parts at toy sizes, on the emulated device, and goals."""

import json

import gpu
import harness
import pytest

from tests.engines.cuda import emulated
from tests.engines.cuda.conftest import device, folder  # noqa: F401, fixtures

pytestmark = pytest.mark.slow
MACHINE = {"hardware": "NVIDIA H200", "cupy": "14", "date": "2026-11-28", "sizes": "full"}


def test_without_a_gpu_nothing_is_written(tmp_path):
    with pytest.raises(SystemExit, match="not measured"):
        gpu.main(["--out", str(tmp_path)])
    assert not list(tmp_path.iterdir())


@pytest.fixture
def benchmark(device, tmp_path, monkeypatch):  # noqa: F811
    """Return a function that runs the benchmark at toy sizes and returns its rows and its page."""
    runtime, pool = device.cuda.runtime, device.get_default_memory_pool()
    monkeypatch.setattr(runtime, "getDeviceProperties", lambda _: {"name": b"H100"}, raising=False)
    monkeypatch.setattr(pool, "free_all_blocks", lambda: None, raising=False)
    monkeypatch.setattr(device, "__version__", "emulated", raising=False)
    monkeypatch.setattr(harness, "apart", lambda function: function())
    monkeypatch.setattr(gpu, "ROUNDS", 1)

    def run(*arguments):
        gpu.main(["--quick", "--out", str(tmp_path), *arguments])
        rows = json.loads((tmp_path / "gpu.json").read_text())["rows"]
        return rows, (tmp_path / "gpu.md").read_text()

    return run


@emulated.on_host
def test_every_part_runs(benchmark, monkeypatch):
    for name in ("jax", "sklearn"):
        pytest.importorskip(name)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setattr(gpu, "PEER", [*gpu.PEER[:-1], "cpu"])
    rows, page = benchmark()
    assert [row.get("error") for row in rows] == [None] * len(gpu.plan(True))
    for row in rows:
        found = row["values"].values()
        if row["part"] == "errors":
            assert max(found) < {"float32": 1e-6, "float64": 1e-14}[row["dtype"]]
        else:
            assert not any(found) if row["part"] == "bits" else min(found) > 0
    assert "Not measured" not in page and "| trace | 40 | 12 | 3 | float64 | random |" in page


def test_goals_are_judged():
    def verdicts(value, **machine):
        rows = [x | {"values": {"cuda": 1.0, "JAX": value, "x": value}} for x in gpu.plan(False)]
        return {line[-1] for line in gpu.goals({"machine": MACHINE | machine, "rows": rows[1:]})}

    assert verdicts(0.5) == {"met", "missed", "not measured"}
