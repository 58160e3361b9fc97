"""The emulated device of the CUDA engine's tests, and a device that counts its memory."""

import sys
import types

import pytest

from rescntk.engines.cuda import kernels, selfcheck
from tests.engines.cuda import emulated, fake_cupy


@pytest.fixture(scope="module")
def folder(request):
    """Return the folder of compiled kernels, kept from one run of the suite to the next."""
    return request.config.cache.mkdir("kernels")


@pytest.fixture(scope="module")
def device(folder):
    """Yield CuPy's stand-in, in place of CuPy, as a device that has passed its check."""
    with pytest.MonkeyPatch.context() as patch:
        kernels.compiled.cache_clear()
        fake = emulated.module(folder)
        patch.setitem(sys.modules, "cupy", fake)
        patch.setattr(selfcheck, "failure", lambda *_: None)
        yield fake
    kernels.compiled.cache_clear()
    fake_cupy.ndarray.memory = None


@pytest.fixture
def work(monkeypatch):
    """Count what a device is asked to do, and how often the host waits for an answer."""
    counts = dict.fromkeys(("operations", "launches", "waits"), 0)

    def counting(owner, method, what):
        original = getattr(owner, method)

        def call(*args, **kwargs):
            counts[what] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, method, call)

    for method in ("__init__", "__setitem__"):
        counting(fake_cupy.ndarray, method, "operations")
    for method in ("__float__", "__int__", "__bool__"):
        counting(fake_cupy.ndarray, method, "waits")
    counting(emulated.Kernel, "__call__", "launches")
    # CuPy's nonzero waits for the number of what it has found.
    for name in ("asnumpy", "nonzero", "flatnonzero"):
        counting(sys.modules["cupy"], name, "waits")
    return counts


@pytest.fixture
def small(monkeypatch):
    """Yield a device of 48 MB whose kernels only write 1; `begun` counts the rows' launches."""

    class Kernel:
        def __init__(self, name):
            self.name = name

        def __call__(self, grid, block, arguments, shared_mem):
            small.begun += 1
            (job,) = arguments
            fake_cupy.LIVE[int(job["results"][0])][...] = 1

    memory = fake_cupy.Memory(48_000_000)
    monkeypatch.setattr(fake_cupy.ndarray, "memory", memory)
    small = emulated.module(None, memory)
    small.RawModule = lambda code, options, name_expressions: types.SimpleNamespace(
        get_function=Kernel
    )
    monkeypatch.setitem(sys.modules, "cupy", small)
    monkeypatch.setattr(selfcheck, "failure", lambda *_: None)
    small.begun, small.memory = 0, memory
    kernels.compiled.cache_clear()
    yield small
    kernels.compiled.cache_clear()
