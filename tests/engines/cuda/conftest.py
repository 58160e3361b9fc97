"""The emulated device of the CUDA engine's tests."""

import sys

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


@pytest.fixture
def work():
    """Count what a device is asked to do, and how often the host waits for an answer."""
    emulated.counts.clear()
    return emulated.counts
