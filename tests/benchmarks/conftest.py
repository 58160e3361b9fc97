"""The emulated device of the GPU benchmark's tests, and an nvidia-smi of any text."""

import os
import sys

import pytest

from rescntk.engines.cuda import kernels, selfcheck
from tests.benchmarks.gpu_parts import program
from tests.engines.cuda import emulated, fake_cupy


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """Return a function that puts an nvidia-smi of its text on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return lambda text: program(folder / "nvidia-smi", f"#!/bin/sh\n{text}\n")


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
        kernels.compiled.cache_clear()
        patch.setitem(sys.modules, "cupy", fake)
        patch.setattr(selfcheck, "failure", lambda *_: None)
        yield fake
    kernels.compiled.cache_clear()
    fake_cupy.ndarray.memory = None
