"""CuPy in, CuPy out: on a stand-in for CuPy, and on the real one where there is a device."""

import sys
from functools import partial
from importlib import import_module

import numpy as np
import pytest

import rescntk as rk
from rescntk.checks.values import DTYPES
from tests import tolerances
from tests.engines.cuda import emulated
from tests.helpers import HEADS, pairs_meet


def to_numpy(cupy, array):
    assert isinstance(array, cupy.ndarray)
    return array._array if hasattr(array, "_array") else cupy.asnumpy(array)


RELU = rk.Network(4, 3)
ERF = rk.Network(3, 9, input_filter_size=3, activation="erf", trained=("input", "readout"))
NETWORKS = (RELU, rk.Network(12, 5, skip=False, outer_filter_size=1, trained=("inner",)), ERF)


def device():
    """Return CuPy where it has a device; otherwise the test is skipped, with the reason."""
    state = rk.engines.available()["cuda"]
    if state is not True:
        pytest.skip(str(state))
    return import_module("cupy")


@pytest.fixture(
    params=[
        ("stand-in", "array"),
        pytest.param(("device", "auto"), marks=pytest.mark.gpu),
        pytest.param(("device", "array"), marks=pytest.mark.gpu),
    ],
    ids=" ".join,
)
def place(request, monkeypatch):
    """Yield CuPy, or the stand-in in its place, and the engine to ask for."""
    where, engine = request.param
    if where == "device":
        return device(), engine
    fake = emulated.module(None)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake, engine


@pytest.mark.slow
@pytest.mark.parametrize(("network", "head", "dtype"), pairs_meet(NETWORKS, HEADS, DTYPES))
def test_cupy_arrays_have_the_values_types_and_shapes_of_numpy(place, network, head, dtype, rng):
    """Pixel pairs, shares and lists, which the engine "array" computes, are compared too."""
    cupy, engine = place
    X, Z = rng.standard_normal((5, 2, 6)), rng.standard_normal((3, 2, 6))
    X[1] = X[0]
    X[2, :, 3:] = 0
    ratios = 1.5 ** np.arange(6)
    lists = [X[0], ratios[:4] * X[0][:, :1], ratios[:2] * X[0][:, :1], Z[1]]  # parallel windows

    def moved(S):
        return [cupy.asarray(x) for x in S] if isinstance(S, list) else cupy.asarray(S)

    def assert_same(function, *signals, engine=engine, **options):
        given = (moved(S) for S in signals)
        computed = function(*given, dtype=dtype, engine=engine, **options)
        expected = function(*signals, dtype=dtype, engine="array", **options)
        if not isinstance(computed, tuple):
            computed, expected = [computed], [expected]
        for A, B in zip(computed, expected, strict=True):
            A = to_numpy(cupy, A)
            assert A.dtype == B.dtype and A.shape == B.shape
            assert np.abs(A - B).max() <= tolerances.KERNEL[dtype] * np.abs(B).max()

    for normalized in (False, True):
        options = {"head": head, "normalized": normalized, "depths": (1, network.depth)}
        gram = partial(rk.gram, network)
        assert_same(gram, X, Z, **options)
        assert_same(gram, X, **options)
        kernel = rk.Kernel(network, "ntk", head, normalized)
        assert_same(kernel.diag, X)
        assert_same(kernel.paired, X[:3], Z)
        if head == "gap" and dtype == "float64":
            for pair in ((lists, lists[1:]), (lists,)):
                assert_same(gram, *pair, **options, engine="auto")
        if head != "equivariant":
            assert_same(partial(rk.pixel_shares, network, head=head, normalized=normalized), X)
    assert_same(partial(rk.pixel_pairs, network), X[:3])


def test_refusals_are_the_same(place, rng):
    cupy, engine = place
    kernel, X = rk.ResCNTK(2), rng.standard_normal((3, 2, 5))
    for bad in (X[0], X[:0], np.where(X > 1, np.nan, X), X + 0j):
        with pytest.raises(ValueError, match="^X ") as numpys:
            kernel(bad)
        with pytest.raises(ValueError, match="^X ") as cupys:
            kernel(cupy.asarray(bad), engine=engine)
        assert str(cupys.value) == str(numpys.value)
    with pytest.raises(ValueError, match="X and Z are of different array libraries"):
        kernel(X, cupy.asarray(X))
    with pytest.raises(OverflowError, match="normalized=True"):
        kernel.replace(depth=20, alpha=1e10)(cupy.asarray(X), engine=engine)


@pytest.mark.gpu
def test_work_goes_to_the_stream_of_the_caller(rng):
    """Work goes to the stream that is current, behind what is queued there."""
    cupy = device()
    X = rng.standard_normal((40, 3, 64))
    expected = rk.ResCNTK(5)(X, engine="cuda")
    late = cupy.empty(X.shape)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(200):  # keeps the stream busy while the rest is queued
            late[...] = cupy.sort(cupy.random.random(X.shape), axis=2)
        late[...] = cupy.asarray(X)
        K = rk.ResCNTK(5)(late)
        late[...] = 0
        stream.synchronize()
    assert (cupy.asnumpy(K) == expected).all()


@pytest.mark.gpu
def test_other_streams_are_not_waited_for(rng):
    """The host neither waits for the whole device nor works in the default stream."""
    cupy = device()
    text = "const long long start = clock64(); while (clock64() - start < cycles);"
    wait = cupy.RawKernel(f'extern "C" __global__ void wait(long long cycles) {{ {text} }}', "wait")
    X = cupy.asarray(rng.standard_normal((40, 3, 64)))
    other, done = cupy.cuda.Stream(), cupy.cuda.Event()
    with cupy.cuda.Stream(non_blocking=True):
        # Whatever is compiled or takes memory may wait for the device: all of it now.
        expected, again = rk.ResCNTK(5)(X), rk.ResCNTK(5)(X)
        assert (again == expected).all()
        del again
        with other:
            wait((1,), (1,), (1000,))
            other.synchronize()
            wait((1,), (1,), (4_000_000_000,))  # two seconds
            done.record()
        assert (rk.ResCNTK(5)(X) == expected).all()
        assert not done.done
    other.synchronize()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 2, 3, 17, 64, 200, 385, 512, 1000, 4096])
def test_every_length_and_filter_is_exact_on_a_device(d, dtype, rng):
    device()
    Z, head = rng.standard_normal((3, 2, d)), "gap" if d <= 512 else "trace"
    for q, outer in ((1, 3), (3, 1), (3, 3), (7, 9), (11, 13), (15, 17), (31, 3)):
        network = rk.Network(3, q, outer_filter_size=outer)
        ours, theirs = (
            rk.gram(network, Z[:2], Z, head=head, dtype=dtype, engine=name)
            for name in ("cuda", "array")
        )
        for A, B in zip(ours, theirs, strict=True):
            assert np.abs(A - B).max() <= tolerances.KERNEL[dtype] * np.abs(B).max()
