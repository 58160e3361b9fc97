"""The engine's check of itself: on the emulated device, with and without planted faults."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rescntk as rk
from rescntk import __main__ as cli
from rescntk import engines
from rescntk.checks.values import KINDS
from rescntk.engines.cuda import compiler, selfcheck
from rescntk.engines.cuda.engine import CudaEngine
from rescntk.engines.request import Request
from tests import tolerances
from tests.engines.cuda import emulated

pytestmark = [emulated.on_host, pytest.mark.slow]


@pytest.fixture
def cupy(folder, monkeypatch):
    """Yield an emulated device that has not been checked, without compiled kernels."""
    fake = emulated.module(folder)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(selfcheck, "_reasons", {})
    compiler.compiled.cache_clear()
    yield fake
    compiler.compiled.cache_clear()


def refusal(cupy):
    """Return why the engine cannot serve, after comparing all ways of hearing it."""
    reason = engines.available()["cuda"]
    assert isinstance(reason, str)
    with pytest.raises(ValueError, match="^engine='cuda' cannot compute this call") as error:
        rk.ResCNTK(2)(np.ones((1, 1, 3)), engine="cuda")
    assert reason in str(error.value)
    X, request = cupy.asarray(np.ones((1, 1, 3))), Request(rk.Network(2), "gap", KINDS, (2,))
    assert engines.choose("auto", request, X).name == "array"
    return reason


def test_a_sound_device_passes_once(cupy, work):
    """Its errors are a tenth of the tolerances, and the check needs few launches and waits."""
    assert selfcheck.TOLERANCE == tolerances.KERNEL
    assert engines.available()["cuda"] is True
    assert work["launches"] == 2 * 3 * len(selfcheck.CASES) == 42
    assert work["waits"] <= 10 * work["launches"]
    before = dict(work)
    assert engines.available()["cuda"] is True
    assert work == before
    for dtype, bar in selfcheck.TOLERANCE.items():
        errors = selfcheck.errors_of("joined layers", dtype, CudaEngine())
        assert max(errors.values()) <= 0.1 * bar


FAULTS = {
    "quotient": ("polynomial(t, square, q.r)", "polynomial(t, square, q.p)", "joined layers"),
    "weights": ("tap < 0 ? 3 + tap : 3 - tap", "tap < 0 ? 3 + tap : 3", "joined layers"),
    "NaN": ("K = g - U;", "K = g - U + V(NAN);", "joined layers"),
    "opposite": ("result.branch.U_plus = g * more;", "result.branch.U_plus = g;",
                 "few pixels, small branches"),
    "bias": ("sum.U = sum.U + N;", "", "biases and leaks"),
    "many pixels": ("if (thread < half && thread", "if (thread < half - 1 && thread",
                    "more than 48 KB"),
    "pooled": ("fused(strip.pool_counts[q], result.K, K)", "K + result.K", "pooled pixels"),
    "first pair": ("else if (strip.pixel(p) == 0)", "else if (strip.pixel(p) == 1)",
                   "the first pair"),
    "every pair": ("(column + offset + q) % line_pixels", "(column + offset) % line_pixels",
                   "every pair"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_text_of_the_kernel_is_found_and_named(cupy, fault, monkeypatch):
    """A fault in the text of the GPU kernel is found and named. NaN does not pass."""
    right, wrong, where = FAULTS[fault]
    dtype = "float32" if fault == "NaN" else "float64"
    text = compiler.source()
    assert text.count(right) == 1
    monkeypatch.setattr(compiler, "source", lambda: text.replace(right, wrong))
    monkeypatch.setattr(selfcheck, "CASES", {where: selfcheck.CASES[where]})
    monkeypatch.setattr(selfcheck, "TOLERANCE", {dtype: tolerances.KERNEL[dtype]})
    reason = refusal(cupy)
    assert reason.startswith("its kernels are wrong on this device: error ")
    assert f"({dtype}, {where}), expected at most {tolerances.KERNEL[dtype]:g} of" in reason
    assert "comparisons with engine 'array' failed" in reason
    assert "error nan of" in reason or fault != "NaN"
    assert selfcheck._reasons == {0: reason}


LOST = emulated.CUDARuntimeError(719, "launch failure")
FULL = emulated.CUDARuntimeError(2, "CUDA_ERROR_OUT_OF_MEMORY")


@pytest.mark.parametrize("error", [RuntimeError("no such thing"), LOST, FULL, OSError(28, "full")])
def test_exceptions_are_failures_of_the_check(cupy, error, monkeypatch):
    """The reason has their message. After a full memory or disk the next use checks again."""
    calls, passing = [], error is FULL or isinstance(error, OSError)
    monkeypatch.setattr(selfcheck, "CASES", dict([*selfcheck.CASES.items()][:1]))

    def fail(*_, **__):
        calls.append(1)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(emulated.Kernel, "__call__", fail)
        reason = refusal(cupy)
        assert reason.startswith("its check on this device failed with ")
        assert type(error).__name__ in reason and str(error) in reason
        assert ("restart the process" in reason) == (error is LOST)
        assert (len(calls) > 1) == passing
    assert engines.available()["cuda"] == (True if passing else reason)


def test_each_device_is_checked_once(cupy, monkeypatch, capsys):
    """Threads that ask at the same time wait for one check, which is announced on stderr."""
    begun, heard = [], []

    def check(engine):
        begun.append(emulated.Device.current)
        time.sleep(0.1)
        return "wrong", True

    monkeypatch.setattr(selfcheck, "check", check)
    for number in (0, 1, 0):
        monkeypatch.setattr(emulated.Device, "current", number)
        with ThreadPoolExecutor(3) as pool:
            heard += pool.map(lambda _: selfcheck.failure(cupy, CudaEngine()), range(3))
    assert begun == [0, 1] and heard == ["wrong"] * 9
    cli.main(["engines"])
    assert "cuda       wrong" in capsys.readouterr().out
