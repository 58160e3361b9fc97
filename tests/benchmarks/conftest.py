"""The emulated device of the GPU benchmark's tests, and an nvidia-smi of any text."""

import os
import sys
from pathlib import Path

import pytest

from rescntk.engines.cuda import compiler, selfcheck
from tests.engines.cuda import emulated

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))


def program(path, text):
    """Put something to be run in place: a file that is being written cannot be run."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o755)
    return new.replace(path)


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Put an nvidia-smi on the path that names the clocks of two GPUs."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    clocks = "echo '00000000:17:00.0, 345'; echo '00000000:18:00.0, 1980'"
    program(tmp_path / "nvidia-smi", f"#!/bin/sh\n{clocks}\n")


@pytest.fixture(scope="module")
def cupy(request):
    """Put CuPy's stand-in in its place, with what a benchmark asks a device."""
    if emulated.COMPILER is None:
        pytest.skip(emulated.MISSING)
    fake = emulated.module(request.config.cache.mkdir("kernels"))

    class Device:
        id, pci_bus_id, compute_capability = 0, "0000:18:00.0", "90"
        attributes = {"MultiProcessorCount": 132}  # noqa: RUF012
        synchronize = staticmethod(lambda: None)

    fake.cuda.Device = Device
    fake.get_default_memory_pool().free_all_blocks = lambda: None
    fake.cuda.runtime.getDeviceProperties = lambda number: {"name": b"NVIDIA H200, emulated"}
    fake.cuda.runtime.driverGetVersion = fake.cuda.runtime.runtimeGetVersion = lambda: 13000
    fake.__version__ = "emulated"
    with pytest.MonkeyPatch.context() as patch:
        compiler.compiled.cache_clear()
        patch.setitem(sys.modules, "cupy", fake)
        patch.setattr(selfcheck, "failure", lambda *_: None)
        yield fake
    compiler.compiled.cache_clear()
