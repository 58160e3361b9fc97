"""Networks, kernels and Grams are values; every kind of array is taken; prepared signals."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines import tables
from rescntk.kernels import prepare
from tests.engine_names import CPU, needs_cpu

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


RNG = np.random.default_rng(0)
X, Z = RNG.standard_normal((3, 2, 9)), RNG.standard_normal((24, 2, 9))
IMAGES = RNG.standard_normal((6, 2, 4, 5))
LISTS = [RNG.standard_normal((2, n)) for n in (9, 66, 4, 9, 32, 1)]


@pytest.mark.parametrize("engine", CPU)
def test_lists_of_one_length_take_other_lengths(engine):
    """Bits of other calls are compared in tests/engines/test_properties.py."""
    kernel, right = rk.ResCNTK(3), list(Z[:5])
    prepared = kernel.prepare(right, engine=engine)
    for left in (X, X[:, :, :4], right, LISTS):
        assert (prepared(left) == kernel(left, right, engine=engine)).all()


def test_several_kinds_and_depths():
    network, options = rk.Network(4), {"depths": (4, 1), "kinds": ("ntk", "gpk")}
    for normalized in (False, True):
        ready = prepare(network, Z, head="gap", normalized=normalized, **options)
        found, expected = (
            rk.gram(network, X, right, normalized=normalized, **options) for right in (ready, Z)
        )
        assert np.array_equal(found, expected)


@needs_cpu
def test_tables_are_made_once(monkeypatch):
    made = []

    def counted(*arguments, **options):
        made.append(len(arguments[1]))
        return tables.signal_tables(*arguments, **options)

    monkeypatch.setattr("rescntk.engines.program.signal_tables", counted)
    for normalized in (False, True):
        prepared = rk.ResCNTK(3, normalized=normalized).prepare(Z, engine="cpu")
        prepared(X[:1]), prepared(X[:1])
        assert sorted(made) == [1, 1, len(Z)]
        del made[:]
        prepared(Z)
        assert not made


def test_memory_is_told():
    few, many = (rk.ResCNTK(3).prepare(signals) for signals in (Z[:6], Z))
    assert 3 * few.nbytes < many.nbytes < 5 * few.nbytes
    assert few.nbytes >= Z[:6].nbytes and len(many) == 24
    assert "24 signals" in repr(many) and str(many.nbytes) in repr(many)


def test_signals_are_copied():
    signals, kernel = Z.copy(), rk.ResCNTK(3)
    prepared, expected = kernel.prepare(signals), kernel(X, Z)
    signals[:] = 0
    assert (prepared(X) == expected).all()
    assert (prepared(signals) == kernel(signals, Z)).all()  # given once, and changed since
    several = list(Z)
    prepared = kernel.prepare(several)
    several[0] = several.pop()[:, :4]
    assert (prepared(several) == kernel(several, list(Z))).all()


@pytest.mark.parametrize("signals", [Z, LISTS])
def test_pickled_without_tables(signals):
    kernel = rk.ResCNTK(3, normalized=True)
    prepared = kernel.prepare(signals, dtype="float32")
    data = pickle.dumps(prepared)
    assert len(data) < 2000 + 2 * sum(signal.nbytes for signal in signals)
    again, left = pickle.loads(data), list(X) + LISTS if signals is LISTS else list(X)
    assert (again(left) == prepared(left)).all()
    assert (again.engine, again.dtype, again.kernel) == (prepared.engine, "float32", kernel)


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        (rk.ResCNTK(4), {}, "network depth is 3, expected 4"),
        (rk.ResCNTK(3, alpha=0.5), {}, r"network alpha is 1\.0, expected 0\.5"),
        (rk.ResCGPK(3), {}, r"kinds is \('ntk',\), expected \('gpk',\)"),
        (rk.ResCNTK(3, head="trace"), {}, "head is 'gap', expected 'trace'"),
        (rk.ResCNTK(3), {"dtype": "float32"}, "dtype is 'float64', expected 'float32'"),
        (rk.ResCNTK(3), {"engine": "cpu"}, "for engine 'reference', expected 'cpu'"),
    ],
)
@needs_cpu
def test_other_calls_are_refused(kernel, options, message):
    prepared = rk.ResCNTK(3).prepare(Z, engine="reference")
    with pytest.raises(ValueError, match=f"Z was prepared .*{message}"):
        kernel(X, prepared, **options)
    assert (rk.ResCNTK(3)(X, prepared, engine="reference") == prepared(X)).all()


def test_wrong_signals_are_refused():
    kernel = rk.ResCNTK(3)
    for call, given, message in (
        (kernel.prepare(Z), X[:, :1], "Z has shape .*, expected 1 channels as in X"),
        (kernel.prepare(Z), X * np.nan, "X of shape .* contains NaN"),
        (kernel.prepare(IMAGES), IMAGES[..., :4], "Z has shape .*, and X has shape"),
        (kernel.prepare, Z[0], r"Z has shape \(2, 9\), expected"),
        (kernel.prepare, [], "Z is empty"),
    ):
        with pytest.raises(ValueError, match=message):
            call(given)
