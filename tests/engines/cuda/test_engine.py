"""The engine "cuda" on the emulated device: which requests it serves, launches and waits."""

import dataclasses
import sys

import numpy as np
import pytest

import rescntk as rk
from rescntk import engines
from rescntk.engines.cuda import engine as cuda
from rescntk.engines.cuda import launch as launches
from rescntk.engines.protocol import Request
from tests import tolerances
from tests.engines.cuda import emulated

pytestmark = pytest.mark.slow

on_host = emulated.on_host
BOTH = ("gpk", "ntk")


# ---------------------------------------------------------------- launches


@on_host
def test_a_device_with_little_shared_memory(device, monkeypatch):
    """Refuses by name what "auto" leaves to the reference engine."""
    monkeypatch.setattr(device.cuda.runtime, "deviceGetAttribute", lambda what, number: 99 * 1024)
    X = np.ones((1, 1, 2600))
    kernel = rk.gram, rk.Network(2, 3), X
    with pytest.raises(ValueError, match="^X has 2600 timepoints.*expected at most 101376"):
        kernel[0](*kernel[1:], head="trace", engine="cuda")
    request = Request(rk.Network(2), "trace", BOTH, (2,))
    for array, numbers in ((X, "float32"), (X[:, :, :2500], "float64")):
        served = dataclasses.replace(request, dtype=numbers)
        assert engines.choose("auto", served, device.asarray(array)) is cuda
    automatic = engines.choose("auto", request, device.asarray(X))
    assert automatic.__name__.endswith("reference")
    assert automatic is engines.choose("auto", request, device.asarray(np.ones((1, 1, 4097))))


@on_host
def test_lengths_in_any_order(device, rng):
    """Rows of these lengths have one kernel, and each launch its own shared memory."""
    network = rk.Network(1, 31)
    names = set()
    for d in (4096, 2048, 4096):
        X = rng.standard_normal((1, 1, d))
        rows = launches.Rows(
            d=d,
            filter_size=31,
            outer_filter_size=31,
            dtype="float64",
            kinds=BOTH,
            head="trace",
        )
        names.add(launches.plan(rows).name)
        ours = rk.gram(network, X, head="trace", engine="cuda")
        theirs = rk.gram(network, X, head="trace", engine="reference")
        for A, B in zip(ours, theirs, strict=True):
            assert abs(A - B) <= tolerances.KERNEL["float64"] * B
    assert len(names) == 1


# ---------------------------------------------------------------- serving


@on_host
def test_reasons(monkeypatch, device):
    assert engines.available()["cuda"] is True
    monkeypatch.setattr(device.cuda.runtime, "getDeviceCount", lambda: 0)
    assert engines.available()["cuda"] == "no CUDA device"
    monkeypatch.setattr(device.cuda, "runtime", type(device.cuda.runtime)())
    assert engines.available()["cuda"].startswith("no CUDA device: cudaErrorNoDevice")
    monkeypatch.undo()

    def missing():
        raise RuntimeError('Failure finding "libnvrtc.so.13"')

    monkeypatch.setattr(device.cuda.nvrtc, "getVersion", missing)
    assert engines.available()["cuda"].startswith("no NVRTC to compile kernels with")
    assert "libnvrtc.so.13" in engines.available()["cuda"]
    assert "rescntk[cuda" in engines.available()["cuda"]
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    assert engines.available()["cuda"].startswith(
        "CuPy is not installed: pip install 'rescntk[cuda"
    )
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert engines.available()["cuda"].startswith("CuPy does not work here: ")
    with pytest.raises(
        ValueError, match="engine is 'cuda', which cannot serve here: CuPy does not"
    ):
        rk.ResCNTK(2)(np.ones((1, 1, 3)), engine="cuda")


@on_host
def test_auto(device):
    X = np.ones((2, 1, 3))
    request = Request(rk.Network(2), "gap", BOTH, (2,))
    assert engines.choose("auto", request, device.asarray(X)) is cuda
    assert engines.choose("cuda", request, X) is cuda
    assert engines.choose("auto", request, X) is not cuda
    dilated = dataclasses.replace(request, network=rk.Network(2, dilation=2))
    assert engines.choose("auto", dilated, device.asarray(X)) is cuda
    erf = Request(rk.Network(2, activation="erf"), "gap", BOTH, (2,))
    assert engines.choose("auto", erf, device.asarray(X)).__name__.endswith("reference")
    with pytest.raises(ValueError, match="it takes activation 'relu', and the network has 'erf'"):
        engines.choose("cuda", erf, X)
    long = device.asarray(np.ones((2, 1, 4097)))
    assert engines.choose("auto", request, long).__name__.endswith("reference")


@on_host
@pytest.mark.parametrize("head", ["equivariant", "gap"])
def test_launches_and_waits(device, work, head, rng):
    """One kernel for all pairs; array operations of tables by the layer; waits by neither."""
    X = device.asarray(rng.standard_normal((3, 3, 5)))
    seen = {}
    for depth in (2, 22, 42):
        network = rk.Network(depth, alpha=0.1)
        for name in work:
            work[name] = 0
        rk.gram(network, X, head=head, engine="cuda")
        seen[depth] = dict(work)
    assert {counts["launches"] for counts in seen.values()} == {1}
    # X and both kernels are checked to be finite, and pairs to be doubtful.
    assert {counts["waits"] for counts in seen.values()} == {4}
    operations = [counts["operations"] for counts in seen.values()]
    layers = (operations[2] - operations[1]) / 20
    assert layers == (operations[1] - operations[0]) / 20
    # Array operations of a layer, views counted: two window sums, their activation, two tables, F
    # without F⁰. The equivariant head passes the layers twice, first for the signals' sizes.
    assert layers <= (93 if head == "equivariant" else 52)


@on_host
def test_operations_do_not_grow_with_pairs(device, work, rng):
    """Tables are made and packed for a block of signals at a time."""
    counts = []
    for n in (2, 40):
        X = device.asarray(rng.standard_normal((n, 1, 5)))
        for name in work:
            work[name] = 0
        rk.gram(rk.Network(4), X, X.copy(), engine="cuda")
        counts.append(dict(work))
    assert counts[0] == counts[1]
