"""The emulated device of the CUDA engine's tests, and a device that counts its memory."""

import sys
import types

import pytest

from rescntk.engines.cuda import compiler, selfcheck
from tests.engines.cuda import emulated


@pytest.fixture(scope="module")
def folder(request):
    """Return the folder of compiled kernels, kept from one run of the suite to the next."""
    return request.config.cache.mkdir("kernels")


@pytest.fixture(scope="module")
def device(folder):
    """Yield CuPy's stand-in, in place of CuPy, as a device that has passed its check."""
    with pytest.MonkeyPatch.context() as patch:
        compiler.compiled.cache_clear()
        fake = emulated.module(folder)
        patch.setitem(sys.modules, "cupy", fake)
        patch.setattr(selfcheck, "failure", lambda *_: None)
        yield fake
    compiler.compiled.cache_clear()
    emulated.ndarray.memory = None


@pytest.fixture
def work():
    """Count what a device is asked to do, and how often the host waits for an answer."""
    emulated.counts.clear()
    return emulated.counts


@pytest.fixture
def small(monkeypatch):
    """Yield a device of 48 MB whose kernels only write 1; `begun` counts the rows' launches."""

    class Kernel:
        def __init__(self, name):
            self.name = name

        def __call__(self, grid, block, arguments, shared_mem):
            small.begun += 1
            (job,) = arguments
            emulated.LIVE[int(job["results"][0])][...] = 1

    memory = emulated.Memory(48_000_000)
    monkeypatch.setattr(emulated.ndarray, "memory", memory)
    small = emulated.module(None, memory)
    small.RawModule = lambda code, options, name_expressions: types.SimpleNamespace(
        get_function=Kernel
    )
    monkeypatch.setitem(sys.modules, "cupy", small)
    monkeypatch.setattr(selfcheck, "failure", lambda *_: None)
    small.begun, small.memory = 0, memory
    compiler.compiled.cache_clear()
    yield small
    compiler.compiled.cache_clear()
