"""Memory of the device: what fits is served, tiled if need be; what does not is refused at once."""

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines.cuda import engine as cuda
from rescntk.engines.cuda import launch_plan
from rescntk.kernels import call
from tests.engines.cuda import emulated

pytestmark = pytest.mark.slow


@emulated.on_host
@pytest.mark.parametrize("symmetric", [False, True])
def test_right_tables_are_made_once_where_they_fit(device, symmetric, rng, monkeypatch):
    X, Z = rng.standard_normal((2, 30, 1, 4))
    Z = None if symmetric else Z
    made, original = [], cuda.CudaRun._pack

    def counting(self, tables, right):
        made.append((right, device.asnumpy(tables.scale).tobytes()))
        return original(self, tables, right)

    def tables():
        made.clear()
        K = rk.ResCNTK(2)(X, Z, engine="cuda")
        return K, len(made), len(set(made))

    whole = tables()[0]
    monkeypatch.setattr(cuda.CudaRun, "_pack", counting)
    monkeypatch.setattr(launch_plan, "RESULT_SHARE", 1e-6)
    kept, asked, different = tables()
    assert asked == different > 6
    monkeypatch.setattr(launch_plan, "KEPT_SHARE", 0.0)
    again, asked, different = tables()
    assert asked > different > 6
    assert (whole == kept).all() and (whole == again).all()


@emulated.on_host
def test_results_larger_than_the_free_memory(device, monkeypatch, rng):
    """Are tiled for NumPy's arrays, and refused on the device, where they have to be whole."""
    X = rng.standard_normal((40, 2, 5))
    expected = rk.ResCNTK(2)(X, engine="cuda")
    monkeypatch.setattr(device.cuda.runtime, "memGetInfo", lambda: (10_000, 2**30))
    assert (rk.ResCNTK(2)(X, engine="cuda") == expected).all()
    with pytest.raises(ValueError, match="results that need 12832 bytes, expected at most 7500"):
        rk.ResCNTK(2)(device.asarray(X))


OPTIONS = {
    "both kinds": {},
    "normalized, float32": {"dtype": "float32", "normalized": True},
    "depths upside down": {"depths": (3, 1), "kinds": ("ntk",)},
}


@pytest.mark.parametrize("two", [False, True], ids=["X", "X, Z"])
@pytest.mark.parametrize("options", OPTIONS)
def test_memory_suffices_or_nothing_is_begun(small, options, two):
    """Whatever share of the memory results take; up to half of it they have to be served."""
    options, served = OPTIONS[options], []
    kinds, depths = len(options.get("kinds", (1, 2))), len(options.get("depths", (3,)))
    shares = (0.05, 0.2, 0.35, 0.6, 0.7, 0.8, 0.99, 1.1)
    for share in shares:
        n = int((share * small.memory.size / (8 * kinds * depths)) ** 0.5)
        X = small.asarray(np.ones((n, 1, 3)))
        Z = small.asarray(np.ones((n, 1, 3))) if two else None
        small.begun, refused = 0, ""
        try:
            results = rk.gram(rk.Network(3), X, Z, head="trace", **options)
        except ValueError as error:
            refused = str(error)
        if refused:
            assert "expected at most" in refused and small.begun <= 2 * two  # diagonals
        else:
            served.append(share)
            assert small.memory.used >= sum(np.prod(K.shape) * K.dtype.itemsize for K in results)
            del results
        del X, Z
        assert small.memory.used == 0
    # A copy of one kind is needed beside the results in float32 and for depths in another order.
    expected = 0.35 if options else 0.7
    assert expected <= served[-1] < 0.8 and tuple(served) == shares[: len(served)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_memory_for_pixel_pairs(small, dtype):
    """Of a few long signals, whose every pair is a large part of the results."""
    for d in (300, 900, 1000, 1400, 2300):
        X = small.asarray(np.ones((1, 1, d)))
        small.begun, refused = 0, False
        try:
            rk.pixel_pairs(rk.Network(2), X, dtype=dtype)
        except ValueError:
            refused = True
        assert refused == (d > 1000)
        assert small.begun == (not refused)


def test_the_limit_of_the_pool_counts(small, monkeypatch):
    pool = small.get_default_memory_pool()
    monkeypatch.setattr(pool, "get_limit", lambda: 2_000_000)
    X = small.asarray(np.ones((400, 1, 3)))
    rk.ResCGPK(2)(X)
    with pytest.raises(ValueError, match="expected at most 14"):
        rk.ResCNTK(2)(small.asarray(np.ones((450, 1, 3))))


@emulated.on_host
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_pieces_of_results_are_finished_alike(device, normalized, dtype, monkeypatch, rng):
    """To the bit: with results in one piece, and in pieces of rows and of less than a row."""
    X, Z = rng.standard_normal((2, 4, 2, 3))
    network = rk.Network(3)

    def everything(convert):
        left, right = convert(X), convert(Z)
        options = {"dtype": dtype, "normalized": normalized}
        grams = [
            rk.gram(network, left, depths=(3, 1, 3), **options),
            rk.gram(network, left, right, **options),
        ]
        pairs = rk.pixel_pairs(network, left, right, dtype=dtype)
        return [np.array(getattr(K, "_array", K)) for K in (*grams[0], *grams[1], pairs)]

    for convert in (np.asarray, device.asarray):
        whole = everything(convert)
        for piece in (1, 7):  # numbers; a row of a Gram has 4, of pixel pairs 36
            monkeypatch.setattr(call, "_PIECE", piece)
            for K, part in zip(whole, everything(convert), strict=True):
                assert (K == part).all() and part.dtype == dtype
        monkeypatch.undo()


@emulated.on_host
def test_both_triangles_come_from_the_device(device, monkeypatch, rng):
    """A symmetric Gram is transposed there, tile by tile; the host only takes what it gets."""
    copied, original = [], device.asnumpy

    def counting(array):
        copied.append(array.shape)
        assert array._array.flags.c_contiguous
        return original(array)

    monkeypatch.setattr(device, "asnumpy", counting)
    monkeypatch.setattr(launch_plan, "RESULT_SHARE", 1e-6)
    K = rk.ResCGPK(2)(rng.standard_normal((40, 1, 4)), engine="cuda")
    assert (K == K.T).all()
    shapes = [shape for shape in copied if len(shape) == 3]
    assert len(shapes) > 10 and sum(np.prod(shape) for shape in shapes) == 40 * 40
