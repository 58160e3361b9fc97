"""The engine's check of itself: on the emulated device, with and without planted faults."""

import sys
import threading
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk import __main__ as cli
from rescntk import engines
from rescntk.engines.cuda import compiler, selfcheck
from rescntk.engines.cuda import engine as cuda
from rescntk.engines.cuda.launch_plan import HEADS, LaunchPlan
from rescntk.engines.protocol import Request
from tests import tolerances
from tests.engines.cuda import emulated

pytestmark = [emulated.on_host, pytest.mark.slow]
KINDS = ("gpk", "ntk")
WRONG = "its kernels are wrong on this device: error 1 of ntk"


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
    X = np.random.default_rng(0).standard_normal((3, 2, 5))
    request = Request(rk.Network(2), "gap", KINDS, (2,))
    assert engines.choose("auto", request, cupy.asarray(X)).name == "reference"
    ours = cupy.asnumpy(rk.ResCNTK(2)(cupy.asarray(X)))
    assert np.abs(ours - rk.ResCNTK(2)(X, engine="reference")).max() <= 1e-14 * ours.max()
    return reason


def test_cases_cover_rows_and_precisions():
    assert selfcheck.TOLERANCE == tolerances.KERNEL
    ways, heads = set(), set()
    for (network, head, d, _), dtype in product(selfcheck.CASES.values(), tolerances.KERNEL):
        request = Request(network, head, KINDS, (1, network.depth), dtype)
        launch = LaunchPlan(request, *selfcheck.signals(d).shape[1:])
        heads.add(launch.head)
        assert launch.segments > 1 and launch.shared_bytes <= 64 * 1024
        ways |= {dtype, launch.name.split("<")[0], f"grids: {launch.grids}"}
        ways |= {"dilated"} if max(launch.steps) > 1 else set()
        if launch.name.startswith("long"):
            ways |= {"strided"} if launch.segments > launch.threads else {"all at once"}
            ways |= {"much memory"} if launch.shared_bytes > 48 * 1024 else set()
    assert heads == set(HEADS.values())
    assert ways == {*tolerances.KERNEL, "short_rows", "long_rows", "dilated", "strided",
                    "all at once", "much memory", "grids: 2", "grids: 3"}  # fmt: skip


def test_a_sound_device_passes_once(cupy, work):
    """By a tenth of the bars, with few launches and waits; then nothing more."""
    assert engines.available()["cuda"] is True
    assert work["launches"] == 2 * 3 * len(selfcheck.CASES) == 42
    assert work["waits"] <= 10 * work["launches"]
    before = dict(work)
    assert engines.available()["cuda"] is True
    assert work == before
    for dtype, bar in selfcheck.TOLERANCE.items():
        errors = selfcheck.errors_of("rows in registers", dtype, cuda)
        assert max(errors.values()) <= 0.1 * bar


FAULTS = {
    "polynomial": ("r_poly(double a) { return horner(R64, a);",
                   "r_poly(double a) { return horner(P64, a);", "rows in registers"),
    "halo": ("__shfl_sync(~0u, to_previous(own, k), team.next)",
             "__shfl_sync(~0u, to_previous(own, k), team.previous)", "rows in registers"),
    "ring": ("const int start = first - Q / 2;", "const int start = first - Q / 2 + 1;",
             "rows in shared memory"),
    "NaN": ("result.K = at.g - deficit;", "result.K = at.g - deficit + real(NAN);",
            "rows in registers"),
    "sum": ("if (k < job.grids &&", "if (k < 1 &&", "rows in shared memory"),
    "doubt": ("const float found =", "const float found = 0.0f *", "rows in registers"),
    "dilation": ("job.layers[layer].step : 1", "1 : 1", "dilated filters"),
    "shared memory": ("row < job.offsets; row += job.blocks_per_pair",
                      "row < job.offsets - 1; row += job.blocks_per_pair", "rows in shared memory"),
    "segments": ("segment + THREADS;", "0x7fffffff;", "more than 48 KB"),
    "first pair": ("*result.at = values[0];", "*result.at = 0;", "the first pair"),
    "every pair": ("to < job.d ? to", "to < job.d ? pixel", "every pair"),
    "linear part": ("linear_box.put(boxes);", "linear_box.put(input);", "rows in registers"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault(cupy, fault, monkeypatch):
    """In the kernels' text, also in the doubt that no pair has; NaN is no pass. It is named."""
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
    assert "comparisons with the reference engine failed" in reason
    assert ("error nan of" in reason) == (fault in ("NaN", "segments"))
    assert selfcheck._reasons == {0: reason}


LOST = emulated.CUDARuntimeError(719, "launch failure")
LASTING = [RuntimeError("CompileException: no such thing"), LOST]
PASSING = [
    MemoryError("Out of memory allocating 512 bytes"),
    emulated.CUDARuntimeError(2, "CUDA_ERROR_OUT_OF_MEMORY"),
    OSError(28, "No space left on device"),
]


@pytest.mark.parametrize("error", LASTING + PASSING, ids=repr)
def test_exceptions_are_failures(cupy, error, monkeypatch):
    """With their message. A full memory or disk is no verdict: the next use checks again."""
    calls = []
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
        assert (len(calls) == 1) == (error in LASTING)
    assert engines.available()["cuda"] == (True if error in PASSING else reason)


def test_each_device_is_checked_once(cupy, monkeypatch, capsys):
    """Also if several threads ask at a time: they wait for one check. The command line says so."""
    begun, heard = [], []

    def check(engine):
        begun.append(emulated.Device.current)
        threading.Event().wait(0.1)
        return WRONG, True

    monkeypatch.setattr(selfcheck, "check", check)
    for number in (0, 1, 0):
        monkeypatch.setattr(emulated.Device, "current", number)
        threads = [
            threading.Thread(target=lambda: heard.append(selfcheck.failure(cupy, cuda)))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert begun == [0, 1] and heard == [WRONG] * 9
    cli.main(["engines"])
    assert WRONG in capsys.readouterr().out
