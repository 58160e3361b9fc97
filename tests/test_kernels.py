"""Kernels on every kind of array that holds real numbers, and the results of `gram`."""

import copy
import multiprocessing
import pickle
import subprocess
import sys

import numpy as np
import pytest

import rescntk as rk
from tests.engine_names import ENGINES, skip_unless_taken

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
    ids=[
        "int64",
        "int8",
        "float32",
        "float16",
        "list",
        "Fortran",
        "strided",
        "views",
        "big-endian",
    ],
)
def test_same_numbers_same_kernel(X):
    assert (KERNEL(X) == EXPECTED).all()


def test_unsigned_and_boolean():
    X = WHOLE > 0
    assert (KERNEL(X) == KERNEL(X.astype(float))).all()
    assert (KERNEL(X.astype(np.uint8)) == KERNEL(X.astype(float))).all()


def test_dtypes_of_results():
    assert KERNEL(WHOLE.astype(np.float32)).dtype == np.float64
    for head in ("equivariant", "trace", "gap"):
        for normalized in (False, True):
            kernel = KERNEL.replace(head=head, normalized=normalized)
            assert kernel(WHOLE, dtype="float32").dtype == np.float32
            assert kernel.diag(WHOLE, dtype="float32").dtype == np.float32
    assert rk.pixel_pairs(KERNEL.network, WHOLE, dtype="float32").dtype == np.float32


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


def test_dtype_in_other_words():
    for name in (np.float32, "f4", np.dtype("float32")):
        assert (KERNEL(WHOLE, dtype=name) == KERNEL(WHOLE, dtype="float32")).all()


KINDS = [("gpk", "ntk"), ("ntk", "gpk"), ("gpk",), ("ntk",)]


def gram(kinds):
    return rk.gram(KERNEL.network, WHOLE, kinds=kinds)


def assert_same(found, expected, kinds):
    assert type(found) is type(expected) and found._fields == kinds
    for kind in kinds:
        assert (getattr(found, kind) == getattr(expected, kind)).all()


@pytest.mark.parametrize("kinds", KINDS, ids="-".join)
def test_grams_are_named_tuples_that_can_be_copied(kinds):
    expected = gram(kinds)
    both = gram(("gpk", "ntk"))
    assert all((getattr(expected, kind) == getattr(both, kind)).all() for kind in kinds)
    assert_same(copy.copy(expected), expected, kinds)
    assert_same(copy.deepcopy(expected), expected, kinds)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert_same(pickle.loads(pickle.dumps(expected, protocol)), expected, kinds)


def test_grams_come_back_from_other_processes():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for kinds, found in zip(KINDS, pool.map(gram, KINDS), strict=True):
            assert_same(found, gram(kinds), kinds)


def test_grams_are_read_by_a_fresh_process(tmp_path):
    path = tmp_path / "gram.pickle"
    path.write_bytes(pickle.dumps([gram(kinds) for kinds in KINDS]))
    code = (
        "import pickle, sys; grams = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print([(g._fields, [m.shape for m in g]) for g in grams])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    ).stdout
    assert found.strip() == str([(kinds, [(5, 5)] * len(kinds)) for kinds in KINDS])
