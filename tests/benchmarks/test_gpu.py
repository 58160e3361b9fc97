"""The GPU benchmark without a GPU: all parts at toy sizes, on the emulated device, and goals."""

import json

import pytest

pytest.importorskip("pandas")
import gpu
import harness

from tests import tolerances
from tests.engines.cuda import emulated
from tests.engines.cuda.conftest import device, folder  # noqa: F401, fixtures

pytestmark = pytest.mark.slow


def test_without_a_gpu_nothing_is_written(tmp_path):
    with pytest.raises(SystemExit, match="not measured"):
        gpu.main(["--out", str(tmp_path)])
    assert not list(tmp_path.iterdir())


@emulated.on_host
def test_every_part_runs(device, tmp_path, monkeypatch):  # noqa: F811
    for name in ("jax", "sklearn"):
        pytest.importorskip(name)
    runtime, pool = device.cuda.runtime, device.get_default_memory_pool()
    monkeypatch.setattr(runtime, "getDeviceProperties", lambda _: {"name": b"H100"}, raising=False)
    monkeypatch.setattr(pool, "free_all_blocks", lambda: None, raising=False)
    monkeypatch.setattr(device, "__version__", "emulated", raising=False)
    monkeypatch.setattr(harness, "in_own_process", lambda function: function())
    monkeypatch.setattr(gpu, "ROUNDS", 1)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setattr(gpu, "PEER", [*gpu.PEER[:-1], "cpu"])
    gpu.main(["--quick", "--out", str(tmp_path)])
    rows = json.loads((tmp_path / "gpu.json").read_text())["rows"]
    page = (tmp_path / "gpu.md").read_text()
    assert [row.get("error") for row in rows] == [None] * len(gpu.plan(True))
    for row in rows:
        found = row["values"].values()
        if row["part"] == "errors":
            assert max(found) < tolerances.KERNEL[row["dtype"]]
        else:
            assert not any(found) if row["part"] == "bits" else min(found) > 0
    assert "Not measured" not in page and "| trace | 40 | 12 | 3 | float64 | random |" in page


def test_goals_are_judged():
    machine = {"hardware": "NVIDIA H200", "cupy": "14", "date": "2026-11-28", "sizes": "full"}
    rows = [x | {"values": {"cuda": 1.0, "JAX": 0.5, "x": 0.5}} for x in gpu.plan(False)]
    verdicts = {line[-1] for line in gpu.goals({"machine": machine, "rows": rows[1:]})}
    assert verdicts == {"met", "missed", "not measured"}
