"""Peers of the GPU benchmark: the climb to the best batch, the reference engine's tile, JAX."""

import importlib.util
import os
import sys

import gpu_peers
import gpu_rows
import numpy as np
import pytest
from jax_peer import signals

import rescntk as rk
from rescntk.engines import reference
from tests.benchmarks.gpu_parts import BENCHMARKS

pytestmark = pytest.mark.slow


def test_climb_until_no_faster():
    found = gpu_peers.climb([4, 8, 16, 32], lambda n: 1e-6 * n**2 + (16e-6 if n < 16 else 0.0))
    assert found["seconds_of_a_pair"] == pytest.approx(1e-6)
    assert [one["n"] for one in found["batches"]] == [4, 8, 16, 32]
    assert found["stopped"] == "n = 32 is no faster"


def test_climb_until_long():
    found = gpu_peers.climb([4, 8, 16], lambda n: 0.3 * n)
    assert found["batches"] == [{"n": 4, "seconds": pytest.approx(1.2)}]
    assert found["stopped"] == "n = 4 takes 1.2 s"


@pytest.mark.parametrize("says", ["RESOURCE_EXHAUSTED: 9 GiB", "Out of memory allocating 9"])
def test_climb_until_memory_is_full(says):
    def measure(n):
        if n > 4:
            raise RuntimeError(says)
        return 1e-3

    found = gpu_peers.climb([4, 8], measure)
    assert found["seconds_of_a_pair"] == 1e-3 / 16
    assert says in found["stopped"]
    with pytest.raises(RuntimeError, match=says):
        gpu_peers.climb([8], measure)


def test_a_climb_that_breaks_off_is_a_failure():
    def measure(n):
        if n > 4:
            raise RuntimeError("illegal memory access")
        return 1e-3

    with pytest.raises(RuntimeError, match="illegal"):
        gpu_peers.climb([4, 8], measure)


def test_the_reference_engine_gets_one_tile(cupy):
    """And its own size back, whatever happens."""
    kept = reference._TILE_ENTRIES, reference._TABLE_BYTES
    n, d = 12, 128
    X = np.zeros((n, 4, d))
    with gpu_peers.one_tile((n * d) ** 2):
        request = rk.engines.Request(rk.Network(9), "gap", ("gpk",), (9,), "float32")
        work = reference.ReferenceGram(request, X)
        assert work.columns_per_tile(n) == n
        assert list(work.tiles(slice(0, n), slice(0, n), False)) == [(slice(0, n), slice(0, n))]
        assert [offsets for offsets, _ in work._offsets(n)] == [slice(0, d)]
    assert (reference._TILE_ENTRIES, reference._TABLE_BYTES) == kept
    with pytest.raises(ZeroDivisionError), gpu_peers.one_tile(2**20):
        raise ZeroDivisionError
    assert (reference._TILE_ENTRIES, reference._TABLE_BYTES) == kept


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="no JAX: pip install jax")
def test_jax_computes_our_kernels(monkeypatch):
    monkeypatch.setitem(os.environ, "JAX_PLATFORMS", "cpu")
    worker = gpu_peers.Worker([sys.executable, str(BENCHMARKS / "jax_peer.py"), "cpu"], 100.0)
    try:
        for dtype in gpu_rows.DTYPES:
            for q in (3, 9):
                size = {"d": 16, "n": 4, "channels": 4, "depth": 3, "q": q}
                reply = worker.ask(size | {"dtype": dtype, "calls": 1, "enough": 1.0}, 100.0)
                X = signals(4, 4, 16)
                ours = rk.gram(rk.Network(3, q), X[:2], X[::-1][:2])
                theirs = [np.array(reply[kind]) for kind in ("gpk", "ntk")]
                assert gpu_peers.difference(ours, theirs) <= gpu_peers.AGREE[dtype]
        with pytest.raises(ChildProcessError, match="KeyError"):
            worker.ask({}, 100.0)
    finally:
        worker.close()
