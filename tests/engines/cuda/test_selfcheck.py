"""The engine's check of itself: on the emulated device, as it is and with planted faults."""

import sys
import threading

import numpy as np
import pytest

import rescntk as rk
from rescntk import cli, engines
from rescntk.engines import polynomials, reference
from rescntk.engines.cuda import engine as cuda
from rescntk.engines.cuda import kernels, selfcheck
from rescntk.engines.protocol import Request
from tests import tolerances
from tests.engines.cuda import emulated, fake_cupy

pytestmark = [emulated.on_host, pytest.mark.slow]
KINDS = ("gpk", "ntk")


@pytest.fixture
def cupy(folder, monkeypatch):
    """Yield an emulated device that has not been checked, without compiled kernels."""
    fake = emulated.module(folder)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    kernels.compiled.cache_clear()
    selfcheck.forget()
    yield fake
    kernels.compiled.cache_clear()
    selfcheck.forget()
    fake_cupy.ndarray.memory = None


def plant(monkeypatch, right, wrong):
    """Replace what stands once in the kernels' text."""
    text = kernels.source()
    assert text.count(right) == 1
    monkeypatch.setattr(kernels, "source", lambda: text.replace(right, wrong))


def refusal(cupy):
    """Return why the engine cannot serve, after comparing all ways of hearing it."""
    reason = engines.available()["cuda"]
    assert isinstance(reason, str)
    with pytest.raises(ValueError, match="^engine is 'cuda', which cannot serve here") as error:
        rk.ResCNTK(2)(np.ones((1, 1, 3)), engine="cuda")
    assert reason in str(error.value)
    X = np.random.default_rng(0).standard_normal((3, 2, 5))
    request = Request(rk.Network(2), "gap", KINDS, (2,))
    assert engines.choose("auto", request, cupy.asarray(X)) is reference
    ours = cupy.asnumpy(rk.ResCNTK(2)(cupy.asarray(X)))
    assert np.abs(ours - rk.ResCNTK(2)(X, engine="reference")).max() <= 1e-14 * ours.max()
    return reason


def test_the_tolerance_is_that_of_the_suite():
    assert selfcheck.TOLERANCE == tolerances.KERNEL


def test_cases_cover_rows_and_precisions():
    names = set()
    for case in selfcheck.CASES:
        request = Request(case.network, "gap", KINDS, (case.network.depth,), case.dtype)
        launch = cuda.plan(cuda.Rows.of(request, selfcheck.signals().shape[2]))
        assert launch.segments > 1
        dilated = case.network.dilation != 1
        names.add((launch.name.split("<")[0], dilated, case.dtype))
    ways = (("short_rows", False), ("long_rows", False), ("long_rows", True))
    assert names == {(*way, dtype) for way in ways for dtype in tolerances.KERNEL}


def test_a_sound_device_passes_once(cupy, work, monkeypatch):
    """Six launches and a few tiny arrays; afterwards nothing but a look into a table."""
    copied, original = [], cupy.asarray
    monkeypatch.setattr(
        cupy, "asarray", lambda a, **k: copied.append(np.size(a)) or original(a, **k)
    )
    assert engines.available()["cuda"] is True
    assert work["launches"] == len(selfcheck.CASES) == 6
    # Cases of short filters have doubtful pairs, which the array code computes again.
    assert work["operations"] <= 400 * len(selfcheck.CASES) + 4 * 2400
    # Two scales and two kernels of each case come back, the doubtful pairs, and what the array code
    # asks of them.
    assert work["waits"] <= 10 * len(selfcheck.CASES)
    assert max(copied) <= selfcheck.signals().size
    before = dict(work)
    assert engines.available()["cuda"] is True
    assert work == before
    request = Request(rk.Network(2), "gap", KINDS, (2,))
    assert engines.choose("auto", request, original(np.ones((1, 1, 3)))) is cuda


def test_errors_of_a_sound_device_are_a_tenth_of_the_bars(cupy):
    for case in selfcheck.CASES:
        for found in selfcheck.errors_of(case, cuda.gram):
            assert found.error <= 0.1 * found.bar


@pytest.mark.parametrize("name", ["P64", "R64", "P32", "R32"])
def test_a_wrong_coefficient(cupy, name, monkeypatch):
    """In either precision the figures name it; "auto" and the command line know."""
    wrong = list(getattr(polynomials, name))
    wrong[0] *= 1 + (1e-10 if name.endswith("64") else 1e-4)
    monkeypatch.setattr(polynomials, name, tuple(wrong))
    dtype = f"float{name[1:]}"
    start = f"{dtype}, rows in r"
    cases = tuple(case for case in selfcheck.CASES if case.name.startswith(start))
    monkeypatch.setattr(selfcheck, "CASES", cases)
    reason = refusal(cupy)
    assert reason.startswith("its kernels are wrong on this device: error ")
    bar = f"{selfcheck.TOLERANCE[dtype]:g}"
    assert f"({dtype}, rows in registers), expected at most {bar} of" in reason
    assert "comparisons with the reference engine failed" in reason


FAULTS = {
    "halo": ("__shfl_sync(~0u, to_previous(own, k), team.next)",
             "__shfl_sync(~0u, to_previous(own, k), team.previous)", "rows in registers"),
    "ring": ("int pixel = wrapped(first - Q / 2, d);",
             "int pixel = wrapped(first - Q / 2 + 1, d);", "rows in shared memory"),
    "NaN": ("branch.K = g - deficit;", "branch.K = g - deficit + real(NAN);", "rows in registers"),
    "sum": ("if (k < job.grids)", "if (k < 1)", "rows in shared memory"),
    "doubt": ("const float found =", "const float found = 0.0f *", "rows in registers"),
    "dilation": ("job.steps[layer] : 1", "1 : 1", "dilated filters"),
    "linear part": ("linear.put(boxes);", "linear.put(state.tangent);", "rows in registers"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault(cupy, fault, monkeypatch):
    """Of the kernel's text, also of the doubt that no pair has; and NaN, which is no pass."""
    right, wrong, where = FAULTS[fault]
    plant(monkeypatch, right, wrong)
    cases = tuple(c for c in selfcheck.CASES if where in c.name and "float64" in c.name)
    monkeypatch.setattr(selfcheck, "CASES", cases)
    reason = refusal(cupy)
    assert where in reason and reason.startswith("its kernels are wrong on this device: error ")
    assert ("error nan of" in reason) == (fault == "NaN")
    assert selfcheck._verdicts[0].lasting


def test_the_command_line_says_so(cupy, monkeypatch, capsys):
    verdict = selfcheck.Verdict("its kernels are wrong on this device: error 1 of ntk")
    monkeypatch.setattr(selfcheck, "check", lambda gram: verdict)
    cli.main(["engines"])
    assert "its kernels are wrong on this device: error 1 of ntk" in capsys.readouterr().out


class CUDADriverError(RuntimeError):
    """An error with a status, as CuPy's are."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


LASTING = [RuntimeError("CompileException: no such thing"), CUDADriverError(719, "launch failure")]
PASSING = [
    MemoryError("Out of memory allocating 512 bytes"),
    CUDADriverError(2, "CUDA_ERROR_OUT_OF_MEMORY"),
    OSError(28, "No space left on device"),
]


@pytest.mark.parametrize("error", LASTING + PASSING, ids=repr)
@pytest.mark.parametrize("where", ["compile", "launch"])
def test_exceptions_are_failures(cupy, error, where, monkeypatch):
    """With their message. A full memory or disk is no verdict: the next use checks again."""
    calls = []

    def fail(*_, **__):
        calls.append(where)
        raise error

    owner, name = {
        "compile": (cupy.RawModule, "get_function"),
        "launch": (emulated.Kernel, "__call__"),
    }[where]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fail)
        reason = refusal(cupy)
        assert reason.startswith("its check on this device failed with ")
        assert type(error).__name__ in reason and str(error) in reason
        assert (len(calls) == 1) == (error in LASTING)
    if error in PASSING:
        assert selfcheck._verdicts == {}
        assert engines.available()["cuda"] is True
    else:
        assert engines.available()["cuda"] == reason


def test_an_interrupted_check_is_no_verdict(cupy, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(emulated.Kernel, "__call__", interrupt)
        with pytest.raises(KeyboardInterrupt):
            engines.available()
    assert engines.available()["cuda"] is True


def test_each_device_is_checked(cupy, monkeypatch):
    asked = []
    monkeypatch.setattr(selfcheck, "check", lambda gram: asked.append(1) or selfcheck.Verdict(None))
    for number in (0, 1, 0, 1):
        monkeypatch.setattr(cupy.cuda.runtime, "getDevice", lambda number=number: number)
        assert engines.available()["cuda"] is True
    assert len(asked) == 2


def test_threads_wait_for_one_check(cupy, monkeypatch):
    begun = []

    def slow(gram):
        begun.append(1)
        threading.Event().wait(0.2)
        return selfcheck.Verdict("its kernels are wrong")

    monkeypatch.setattr(selfcheck, "check", slow)
    heard = []
    threads = [
        threading.Thread(target=lambda: heard.append(selfcheck.failure(cupy, cuda.gram)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert begun == [1] and heard == ["its kernels are wrong"] * 4


def test_without_a_device_nothing_is_checked(cupy, monkeypatch):
    def never(*_):
        raise AssertionError("checked")

    monkeypatch.setattr(selfcheck, "check", never)
    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", lambda: 0)
    assert engines.available()["cuda"] == "no CUDA device"
