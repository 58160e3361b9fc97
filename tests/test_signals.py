"""Every kind of array that holds real numbers is taken, and none is written to."""

import numpy as np
import pytest

import rescntk as rk
from tests.engine_names import ENGINES, serves

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
    if not serves(engine, kernel.network):
        pytest.skip("numba takes ReLU alone")
    for dtype, large, too_large in (("float64", 1e70, 1e78), ("float32", 1e8, 1e10)):
        limit = kernel(X * 1e4, engine=engine, dtype=dtype)
        K = kernel(X * large, engine=engine, dtype=dtype)
        assert np.abs(K - limit).max() <= 1e-3
        for scale in (too_large, 1e200):
            with pytest.raises(OverflowError, match="signals are too large"):
                kernel(X * scale, engine=engine, dtype=dtype)


def test_dtype_in_other_words():
    for name in (np.float32, "f4", np.dtype("float32")):
        assert (KERNEL(WHOLE, dtype=name) == KERNEL(WHOLE, dtype="float32")).all()


def test_progress(capsys):
    pytest.importorskip("tqdm")
    K = KERNEL(WHOLE, progress=True)
    assert (K == EXPECTED).all()
    assert "15/15" in capsys.readouterr().err.replace(".0", "")


def test_without_tqdm_progress_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match=r"tqdm: pip install 'rescntk\[plot\]'"):
        KERNEL(WHOLE, progress=True)
