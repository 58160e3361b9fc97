"""Kernels on every kind of array that holds real numbers, and the results of `gram`."""

import copy
import pickle

import numpy as np
import pytest

import rescntk as rk
from rescntk.kernels import call
from tests.engine_names import ENGINES, skip_unless_taken
from tests.processes import run

KERNEL = rk.ResCNTK(depth=3, filter_size=5)
WHOLE = np.random.default_rng(1).integers(-4, 5, (5, 2, 9))
EXPECTED = KERNEL(WHOLE.astype(np.float64))


@pytest.mark.parametrize(
    "X",
    [
        WHOLE,
        WHOLE.astype(np.int8),
        WHOLE.astype(np.float32),
        WHOLE.astype(np.float16),
        WHOLE.tolist(),
        np.asfortranarray(WHOLE, dtype=np.float64),
        np.repeat(WHOLE, 2, axis=2)[:, :, ::2],
        WHOLE[::-1][::-1],
        WHOLE.astype(">f8"),
    ],
)
def test_same_numbers_same_kernel(X):
    assert (KERNEL(X) == EXPECTED).all()
    assert (KERNEL(np.asarray(X) > 0) == KERNEL((np.asarray(X) > 0).astype(np.uint8))).all()


def test_dtypes_of_results():
    assert KERNEL(WHOLE.astype(np.float32)).dtype == np.float64
    for normalized in (False, True):
        kernel = KERNEL.replace(normalized=normalized)
        assert kernel(WHOLE, dtype="float32").dtype == np.float32
        assert kernel.diag(WHOLE, dtype="float32").dtype == np.float32
    pairs = rk.pixel_pairs(KERNEL.network, WHOLE, dtype="float32")
    beside = rk.pixel_pairs(KERNEL.network, np.append(WHOLE, 0 * WHOLE, axis=0), dtype="float32")
    assert pairs.dtype == np.float32 and (beside[: len(WHOLE), : len(WHOLE)] == pairs).all()
    for name in (np.float32, "f4", np.dtype("float32")):
        assert (KERNEL(WHOLE, dtype=name) == KERNEL(WHOLE, dtype="float32")).all()


def test_results_are_the_callers_own():
    for K in rk.gram(KERNEL.network, WHOLE, depths=(1, 2)):
        K[:] = 0
    assert (KERNEL(WHOLE) == EXPECTED).all()


def test_extreme_sizes():
    """Squares that would leave float64 are no obstacle; results that would are an error."""
    X = WHOLE.astype(np.float64)
    np.testing.assert_allclose(KERNEL(X * 1e-150) * 1e300, EXPECTED, rtol=1e-13)
    assert (
        KERNEL.replace(normalized=True)(X * 2.0**900) == KERNEL.replace(normalized=True)(X)
    ).all()
    with pytest.raises(OverflowError, match=r"exceeds float64 .* normalized=True"):
        KERNEL(X * 1e200)
    with pytest.raises(OverflowError, match="exceeds float32"):
        KERNEL(X * 1e20, dtype="float32")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("normalized", [False, True])
def test_signals_too_large_for_erf_are_refused(engine, normalized):
    """Its kernels tend to a limit, and then would leave the range of squared variances."""
    X = WHOLE.astype(np.float64)
    kernel = rk.CGPK(3, head="trace", activation="erf", normalized=normalized)
    skip_unless_taken(engine, kernel.network)
    for dtype in ("float64", "float32"):  # rounded results of float64
        limit = kernel(X * 1e4, engine=engine, dtype=dtype)
        K = kernel(X * 1e70, engine=engine, dtype=dtype)
        assert np.abs(K - limit).max() <= 1e-3
        for scale in (1e78, 1e200):
            with pytest.raises(OverflowError, match="signals are too large"):
                kernel(X * scale, engine=engine, dtype=dtype)


KINDS = [("gpk", "ntk"), ("ntk", "gpk"), ("gpk",), ("ntk",)]


def test_grams_are_named_tuples_that_travel(tmp_path):
    """Copied, pickled, and read by another process."""
    both = rk.gram(KERNEL.network, WHOLE)
    grams = [rk.gram(KERNEL.network, WHOLE, kinds=kinds) for kinds in KINDS]
    (tmp_path / "grams").write_bytes(pickle.dumps(grams))
    for kinds, found, copied in zip(KINDS, grams, copy.deepcopy(grams), strict=True):
        assert type(found) is type(copied) and found._fields == kinds
        for kind in kinds:
            assert (getattr(found, kind) == getattr(both, kind)).all()
            assert (getattr(copied, kind) == getattr(both, kind)).all()
    code = (
        "import os, pickle; grams = pickle.load(open(os.environ['GRAMS'], 'rb'))\n"
        "print([(g._fields, [m.shape for m in g]) for g in grams])"
    )
    expected = [(kinds, [(5, 5)] * len(kinds)) for kinds in KINDS]
    assert run(code, GRAMS=str(tmp_path / "grams")) == str(expected)


@pytest.mark.parametrize("piece", [1, 7, 60])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_results_do_not_depend_on_pieces(piece, dtype, monkeypatch):
    def everything():
        options = {"dtype": dtype, "depths": (3, 1)}
        yield from rk.gram(KERNEL.network, WHOLE, **options)
        yield from rk.gram(KERNEL.network, WHOLE, WHOLE[:3], normalized=True, **options)
        yield rk.pixel_pairs(KERNEL.network, WHOLE, dtype=dtype)

    expected = list(everything())
    monkeypatch.setattr(call, "_PIECE", piece)
    for ours, theirs in zip(everything(), expected, strict=True):
        assert (ours == theirs).all()
