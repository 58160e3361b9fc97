"""Networks, kernels and Grams are values; kernels take every kind of array of real numbers."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import rescntk as rk

KERNEL = rk.ResCNTK(depth=3, filter_size=5)
WHOLE = np.random.default_rng(1).integers(-4, 5, (5, 2, 9))
EXPECTED = KERNEL(WHOLE.astype(np.float64))


@pytest.mark.parametrize(
    ("value", "equal", "other"),
    [
        (rk.Network(5), rk.Network(np.int64(5), alpha=np.float32(1)), rk.Network(5, alpha=0.5)),
        (
            rk.Network(5, outer_filter_size=3, trained=["readout", "outer", "inner"]),
            rk.Network(5),
            rk.Network(5, trained=["inner"]),
        ),
        (rk.Network(5, skip=False, alpha=0.5), rk.Network(5, skip=False), rk.Network(5)),
        (rk.Network(3, dilation=[1, 2, np.int64(4)]), rk.Network(3, dilation=(1, 2, 4)), 3),
        (rk.Network(3, dilation=(2, 2, 2)), rk.Network(3, dilation=2), rk.Network(3)),
        (
            rk.ResCNTK(5, head="trace", alpha=0.5),
            rk.Kernel(rk.Network(5, alpha=0.5), "ntk", "trace"),
            rk.ResCNTK(5, alpha=0.5),
        ),
        (rk.CNTK(5), rk.Kernel(rk.Network(5, skip=False), "ntk", "gap"), rk.CGPK(5)),
        (
            rk.CGPK(5, 7, "trace", True),
            rk.Kernel(rk.Network(5, 7, skip=False), "gpk", "trace", True),
            rk.CGPK(5, 7, "trace"),
        ),
    ],
)
def test_values(value, equal, other):
    """Equal, hashable, printed as code, pickled, frozen."""
    assert value == equal != other and hash(value) == hash(equal)
    assert eval(repr(value), vars(rk)) == value == pickle.loads(pickle.dumps(value))
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, 7)


def test_defaults_are_the_papers():
    network = rk.Network(5)
    assert (network.filter_size, network.outer_filter_size, network.input_filter_size) == (3, 3, 1)
    assert (network.skip, network.alpha, network.c_v, network.c_w) == (True, 1.0, 2.0, 1.0)
    assert network.trained == ("inner", "outer", "readout") and network.input_scale is None
    with pytest.raises(TypeError):
        rk.Network(5, 3, 3)  # what follows the filter size goes by name


def test_replace():
    network, growing = rk.Network(5, alpha=0.5), rk.Network(3, dilation=(1, 2, 4))
    assert network.replace(depth=7) == rk.Network(7, alpha=0.5) and network.depth == 5
    assert network.replace(filter_size=5) == rk.Network(5, 5, alpha=0.5)
    assert rk.Network(5, outer_filter_size=1).replace(filter_size=5).outer_filter_size == 1
    assert network.replace(filter_size=5, outer_filter_size=3).outer_filter_size == 3
    assert growing.replace(depth=2).dilation == (1, 2)
    assert growing.replace(depth=4, dilation=3) == rk.Network(4, dilation=3)
    assert growing.replace(alpha=0.5).dilation == (1, 2, 4)
    assert rk.ResCNTK(3, dilation=(1, 2, 4)).replace(depth=1).network == rk.Network(1)
    kernel = rk.ResCNTK(5, head="trace", alpha=0.5)
    assert kernel.replace(depth=7, head="gap") == rk.ResCNTK(7, alpha=0.5)
    assert kernel.replace(kind="gpk") == rk.ResCGPK(5, head="trace", alpha=0.5)
    with pytest.raises(ValueError, match=r"dilation is \(1, 2, 4\), expected .* 5 of them"):
        growing.replace(depth=5)
    with pytest.raises(ValueError, match=r"depths has 4: expected depths of at most 3"):
        rk.gram(growing, np.ones((1, 1, 3)), depths=(1, 4))


def test_taps_of_filters():
    filters = rk.Network(2, 3, outer_filter_size=5, dilation=(2, 3)).filters()
    expected = [[0], [-4, -2, 0, 2, 4], [-3, 0, 3], [-6, -3, 0, 3, 6]]
    assert [list(window.taps) for window in filters] == expected


@pytest.mark.parametrize(
    "X",
    [
        WHOLE,
        *(WHOLE.astype(dtype) for dtype in (np.int8, np.float32, np.float16, ">f8")),
        WHOLE.tolist(),
        memoryview(WHOLE),
        np.asfortranarray(WHOLE, dtype=np.float64),
        np.repeat(WHOLE, 2, axis=2)[:, :, ::2],
        WHOLE[::-1][::-1],
        [WHOLE[0].astype(np.int8), *WHOLE[1:4].astype(np.float32), np.asfortranarray(WHOLE[4])],
    ],
)
def test_same_numbers_same_kernel(X):
    assert (KERNEL(X) == EXPECTED).all() and KERNEL(X).dtype == np.float64
    assert (KERNEL(np.asarray(X) > 0) == KERNEL((np.asarray(X) > 0).astype(np.uint8))).all()


def test_dtypes_of_results():
    for kernel in (KERNEL, KERNEL.replace(normalized=True)):
        for result in (kernel, kernel.diag):
            assert result(WHOLE, dtype="float32").dtype == np.float32
    pairs = rk.pixel_pairs(KERNEL.network, WHOLE, dtype="float32")
    beside = rk.pixel_pairs(KERNEL.network, np.append(WHOLE, 0 * WHOLE, axis=0), dtype="float32")
    assert pairs.dtype == np.float32 and (beside[: len(WHOLE), : len(WHOLE)] == pairs).all()
    for name in (np.float32, "f4", np.dtype("float32")):
        assert (KERNEL(WHOLE, dtype=name) == KERNEL(WHOLE, dtype="float32")).all()


def test_grams_are_named_tuples_of_the_callers_own():
    """Copied and pickled too; what the caller writes into them changes no other call."""
    both = rk.gram(KERNEL.network, WHOLE)
    for kinds in [("gpk", "ntk"), ("ntk", "gpk"), ("gpk",), ("ntk",)]:
        found = rk.gram(KERNEL.network, WHOLE, kinds=kinds)
        for gram in (found, copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
            assert type(gram) is type(found) and gram._fields == kinds
            for kind, K in gram._asdict().items():
                assert (K == getattr(both, kind)).all()
                K[:] = 0
    assert (KERNEL(WHOLE) == EXPECTED).all()
