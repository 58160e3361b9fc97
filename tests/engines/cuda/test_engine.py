"""The engine "cuda" on the emulated device: which requests it serves, launches and waits."""

import dataclasses
import sys
import types

import numpy as np
import pytest

import rescntk as rk
from rescntk import engines
from rescntk.engines.compiled.program import operations_of
from rescntk.engines.cuda import compiler, launch_plan
from rescntk.engines.cuda import engine as cuda
from rescntk.engines.request import Request
from tests import tolerances
from tests.engines.cuda import emulated

pytestmark = [emulated.on_host, pytest.mark.slow]
REQUEST = Request(rk.Network(2), "gap", ("gpk", "ntk"), (2,))
ERF = rk.Network(2, activation="erf")


def chosen(X, **fields):
    """Return the name of the engine that "auto" takes, of `REQUEST` with other fields."""
    return engines.choose("auto", dataclasses.replace(REQUEST, **fields), X).name


@pytest.mark.parametrize("network", [rk.Network(2), rk.Network(2, dilation=2)])
def test_auto_takes_it_for_relu_on_the_device(device, network):
    X = device.asarray(np.ones((2, 1, 3)))
    assert chosen(X, network=network) == "cuda"


def test_auto_leaves_erf_on_the_device_to_the_engine_array(device):
    X = device.asarray(np.ones((2, 1, 3)))
    assert chosen(X, network=ERF) == "array"


def test_auto_leaves_signals_longer_than_a_launch_takes_to_the_engine_array(device):
    X = device.asarray(np.ones((2, 1, 4097)))
    assert chosen(X) == "array"


def test_auto_leaves_signals_of_the_host_to_other_engines(device):
    assert chosen(np.ones((2, 1, 3))) != "cuda"


def test_it_refuses_erf_by_name(device):
    with pytest.raises(ValueError, match="it supports only activation='relu' .got 'erf'"):
        engines.choose("cuda", dataclasses.replace(REQUEST, network=ERF), np.ones((2, 1, 3)))


LONG = np.ones((1, 1, 2600))


@pytest.fixture
def little_shared_memory(device, monkeypatch):
    monkeypatch.setitem(emulated.ATTRIBUTES, "MaxSharedMemoryPerBlockOptin", 60 * 1024)


def test_a_device_with_little_shared_memory_refuses_long_signals_by_name(little_shared_memory):
    refusal = "compute this call: X has 2600 timepoints.*at most 61440"
    with pytest.raises(ValueError, match=refusal):
        rk.gram(rk.Network(2, 3), LONG, head="trace", engine="cuda")


def test_auto_leaves_what_exceeds_shared_memory_to_the_engine_array(device, little_shared_memory):
    X = device.asarray(LONG)
    assert chosen(X, head="trace") == "array"
    assert chosen(X[:, :, :2100], head="trace") == "cuda"
    assert chosen(X, head="trace", dtype="float32") == "cuda"


def state():
    """Return True where the engine serves, or the reason why it does not."""
    return engines.available()["cuda"]


def test_it_serves_where_a_device_passed_its_check(device):
    assert state() is True


@pytest.mark.parametrize(
    ("part", "call", "error", "says"),
    [
        (
            "runtime",
            "getDeviceCount",
            emulated.CUDARuntimeError(100, "cudaErrorNoDevice: no CUDA-capable device"),
            "no CUDA device: cudaErrorNoDevice",
        ),
        (
            "nvrtc",
            "getVersion",
            RuntimeError('Failure finding "libnvrtc.so.13"'),
            "no NVRTC to compile kernels with: pip install 'rescntk[cuda",
        ),
    ],
)
def test_errors_of_cuda_are_reasons(device, monkeypatch, part, call, error, says):
    def fail():
        raise error

    monkeypatch.setattr(getattr(device.cuda, part), call, fail)
    assert state().startswith(says)


def test_a_cupy_that_is_not_installed_is_a_reason(device, monkeypatch):
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.setattr(cuda, "find_spec", lambda name: None)
    assert state().startswith("CuPy is not installed: pip install 'rescntk[cuda")


def test_calls_by_name_are_refused_with_the_reason(device, monkeypatch):
    """The reason is that CuPy cannot be imported."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ValueError, match="engine='cuda' cannot compute this call: CuPy does not"):
        rk.ResCNTK(2)(np.ones((1, 1, 3)), engine="cuda")


def test_the_current_device_computes_signals_of_another(device, monkeypatch, rng):
    X = rng.standard_normal((3, 1, 5))
    other = device.asarray(X)
    monkeypatch.setattr(emulated.Device, "current", 1)
    kernel, here = rk.ResCNTK(2), device.asarray(X)
    for engine in ("cuda", "array"):
        computed = [kernel(other, here, engine=engine), kernel(here, other, engine=engine)]
        computed.append(kernel([other[0], *here[1:]], engine=engine))
        assert [K.number for K in computed] == [1, 1, 1]
        bar = tolerances.ROUTES * float(computed[0].max())
        assert all(float(abs(K - computed[0]).max()) <= bar for K in computed)


def test_a_lost_device_asks_for_another_process(device, monkeypatch, rng):
    def fail(*_, **__):
        raise emulated.CUDARuntimeError(700, "cudaErrorIllegalAddress")

    monkeypatch.setattr(emulated.Kernel, "__call__", fail)
    with pytest.raises(emulated.CUDARuntimeError, match="IllegalAddress") as error:
        rk.ResCNTK(2)(rng.standard_normal((2, 1, 5)), engine="cuda")
    assert any("restart the process" in note for note in error.value.__notes__)


@pytest.mark.parametrize("head", ["equivariant", "gap"])
def test_launches_and_array_operations_do_not_grow_with_pairs(device, work, head, rng):
    """A launch has all pairs and layers; array operations do not grow with pairs."""
    seen = {}
    for n, depth in ((3, 2), (3, 22), (3, 42), (6, 2)):
        X, network = device.asarray(rng.standard_normal((n, 3, 5))), rk.Network(depth, alpha=0.1)
        rk.gram(network, X, head=head, engine="cuda")  # which keeps the network's records
        work.clear()
        rk.gram(network, X, head=head, engine="cuda")
        seen[n, depth] = dict(work)
    assert {counts["launches"] for counts in seen.values()} == {1}
    first, second, third, many = (counts["operations"] for counts in seen.values())
    assert third - second == second - first and many == first
    if head == "gap":  # tables of all pixel pairs are NumPy's
        assert third == first <= 120


@pytest.mark.parametrize("with_progress", [True, False])
def test_progress_counts_pairs_that_are_computed(device, monkeypatch, with_progress, rng):
    """The host waits for the device before it tells of a tile; else tiles are queued at once."""
    X, Z = (device.asarray(rng.standard_normal((n, 1, 5))) for n in (7, 6))
    events = []
    wait = types.SimpleNamespace(synchronize=lambda: events.append("wait"))
    launch = emulated.Kernel.__call__

    def launched(*args, **kwargs):
        events.append("launch")
        launch(*args, **kwargs)

    monkeypatch.setattr(device.cuda, "get_current_stream", lambda: wait)
    monkeypatch.setattr(emulated.Kernel, "__call__", launched)
    monkeypatch.setattr(launch_plan.LaunchPlan, "tile", lambda *_: (4, 4))
    plan = engines.ENGINES["cuda"].plan(REQUEST, X, Z)
    if with_progress:
        plan.compute(events.append)
        pairs = [16, 8, 12, 6]  # four tiles of 7 and 6 signals
        assert events == [event for n in pairs for event in ("launch", "wait", n)]
    else:
        plan.compute()
        assert events == 4 * ["launch"]


def test_results_of_the_host_may_be_larger_than_the_memory_of_the_device(device, monkeypatch, rng):
    """They are computed in tiles."""
    X = rng.standard_normal((40, 2, 5))
    expected = rk.ResCNTK(2)(X, engine="cuda")
    monkeypatch.setattr(device.cuda.runtime, "memGetInfo", lambda: (10_000, 2**30))
    assert (rk.ResCNTK(2)(X, engine="cuda") == expected).all()


def test_results_larger_than_the_memory_of_the_device_are_refused(device, monkeypatch, free, rng):
    """On the device they must be whole."""
    X = rng.standard_normal((40, 2, 5))
    monkeypatch.setattr(device.cuda.runtime, "memGetInfo", lambda: (10_000, 2**30))
    free(np.inf)  # the memory of the host
    with pytest.raises(MemoryError, match=r"numbers takes at least .* MB of memory, and 0.0075 MB"):
        rk.ResCNTK(2)(device.asarray(X))


def test_tables_that_32_bits_do_not_number_are_refused():
    limits = compiler.DeviceLimits(shared_bytes=200_000, multiprocessors=100, double_cost=2)
    request = Request(rk.Network(5000, 31), "gap", ("ntk",), (5000,))
    with pytest.raises(ValueError, match=r"tables have 2,.* numbers a signal, expected less than"):
        launch_plan.LaunchPlan(request, 4096, operations_of(request, 1, 1), limits)


def test_blocks_on_disk_are_computed_on_the_device(device, work, tmp_path, rng):
    """Each block goes to the device and back: chunks are NumPy's, with the bits of one call."""
    stored = pytest.importorskip("rescntk.stored")
    X, options = rng.standard_normal((5, 2, 6)), {"engine": "cuda", "dtype": "float32"}
    K = stored.gram(tmp_path / "K", REQUEST.network, X, block=2, progress=False, **options)
    assert K.complete and work["launches"] >= 6
    for kind, values in rk.gram(REQUEST.network, X, **options)._asdict().items():
        assert getattr(K, kind)[:].tobytes() == values.tobytes()
