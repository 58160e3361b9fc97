"""Kernels and Grams as values, the kinds of arrays that they take, and prepared signals."""

import copy
import dataclasses
import gc
import pickle
import tracemalloc

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines.cpu import engine
from rescntk.engines.signals import tables
from rescntk.kernels.gram import prepare
from tests import tolerances
from tests.helpers import CPU, HEADS, assert_within, needs_cpu
from tests.oracles.strided import strided

KERNEL = rk.ResCNTK(depth=3, filter_size=5)
WHOLE = np.random.default_rng(1).integers(-4, 5, (5, 2, 9))
EXPECTED = KERNEL(WHOLE.astype(np.float64))


values = pytest.mark.parametrize(
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
        (rk.CNTK(5), rk.Kernel(rk.Network(5, skip=False), "ntk", "gap"), rk.CGPK(5)),
        (
            rk.CGPK(5, 7, "trace", True),
            rk.Kernel(rk.Network(5, 7, skip=False), "gpk", "trace", True),
            rk.ResCGPK(5, 7, "trace"),
        ),
    ],
)


@values
def test_values_with_equal_parameters_are_equal(value, equal, other):
    assert value == equal != other
    assert hash(value) == hash(equal)


@values
def test_values_are_printed_as_code(value, equal, other):
    assert eval(repr(value), vars(rk)) == value


@values
def test_values_can_be_pickled(value, equal, other):
    assert pickle.loads(pickle.dumps(value)) == value


@values
def test_values_are_frozen(value, equal, other):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, 7)


def test_kernels_replace_their_own_fields_and_their_networks():
    kernel = rk.ResCNTK(5, head="trace", alpha=0.5)
    assert kernel.replace(depth=7, kind="gpk", head="gap") == rk.ResCGPK(7, alpha=0.5)


def test_depths_of_a_gram_have_values_of_layers():
    with pytest.raises(ValueError, match=r"depths has 4: expected depths of at most 3"):
        rk.gram(rk.Network(3, dilation=(1, 2, 4)), np.ones((1, 1, 3)), depths=(1, 4))


batches = pytest.mark.parametrize(
    "X",
    [
        *(WHOLE.astype(dtype) for dtype in (np.int8, np.float32, np.float16, ">f8")),
        WHOLE.tolist(),
        memoryview(WHOLE),
        np.asfortranarray(WHOLE, dtype=np.float64),
        np.repeat(WHOLE, 2, axis=2)[:, :, ::2],
        WHOLE[::-1][::-1],
        [WHOLE[0].astype(np.int8), *WHOLE[1:4].astype(np.float32), np.asfortranarray(WHOLE[4])],
    ],
)


@batches
def test_equal_numbers_of_any_type_have_one_kernel(X):
    assert KERNEL(X).dtype == np.float64
    assert (KERNEL(X) == EXPECTED).all()


@batches
def test_equal_numbers_of_any_type_have_one_kernel_in_float32(X):
    assert (KERNEL(X, dtype="f4") == KERNEL(WHOLE, dtype=np.float32)).all()


@batches
def test_booleans_are_the_numbers_0_and_1(X):
    booleans = np.asarray(X) > 0
    assert (KERNEL(booleans) == KERNEL(booleans.astype(np.uint8))).all()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda gram: pickle.loads(pickle.dumps(gram))])
@pytest.mark.parametrize("kinds", [("gpk", "ntk"), ["ntk", "gpk"], ("gpk",), ["ntk"]])
def test_grams_are_named_tuples_that_can_be_copied(kinds, copied):
    both, found = rk.gram(KERNEL.network, WHOLE), rk.gram(KERNEL.network, WHOLE, kinds=kinds)
    again = copied(found)
    assert type(again) is type(found) and again._fields == tuple(kinds)
    for kind, K in again._asdict().items():
        assert (K == getattr(both, kind)).all()


def test_what_is_written_into_a_gram_changes_no_other_call():
    for K in rk.gram(KERNEL.network, WHOLE):
        K[:] = 0
    assert (KERNEL(WHOLE) == EXPECTED).all()


RNG = np.random.default_rng(0)
X, Z = RNG.standard_normal((3, 2, 9)), RNG.standard_normal((24, 2, 9))
LISTS = [RNG.standard_normal((2, n)) for n in (9, 66, 4, 9, 32, 1)]


@pytest.mark.parametrize("engine", CPU)
def test_prepared_signals_of_one_length_meet_other_lengths(engine):
    """Bits of other calls are compared in tests/engines/test_properties.py."""
    kernel, right = rk.ResCNTK(3), list(Z[:5])
    prepared = kernel.prepare(right, engine=engine)
    for left in (X, X[:, :, :4], right, LISTS):
        assert (prepared(left) == kernel(left, right, engine=engine)).all()


def test_prepared_for_several_kinds_and_depths():
    network, options = rk.Network(4), {"depths": (4, 1), "kinds": ("ntk", "gpk")}
    for normalized in (False, True):
        ready = prepare(network, Z, head="gap", normalized=normalized, **options)
        found, expected = (
            rk.gram(network, X, right, normalized=normalized, **options) for right in (ready, Z)
        )
        assert np.array_equal(found, expected)


@pytest.fixture
def made(monkeypatch):
    """Return the numbers of signals whose tables are made, by the engine "cpu"."""
    made = []

    def counted(*arguments, **options):
        made.append(len(arguments[2]))
        return tables.signal_tables(*arguments, **options)

    monkeypatch.setattr("rescntk.engines.compiled.tabled_signals.signal_tables", counted)
    return made


@needs_cpu
@pytest.mark.parametrize("normalized", [False, True])
def test_tables_are_made_once(normalized, made):
    prepared = rk.ResCNTK(3, normalized=normalized).prepare(Z, engine="cpu")
    prepared(X[:1]), prepared(X[:1]), prepared(Z)
    assert sorted(made) == [1, 1, len(Z)]


def test_prepared_signals_tell_their_number_and_their_bytes():
    prepared = rk.ResCNTK(3).prepare(Z)
    assert len(prepared) == len(Z)
    assert f"{len(Z)} signals, {prepared.nbytes} bytes" in repr(prepared)


MANY = np.random.default_rng(2).standard_normal((100, 2, 40)).astype(np.float32)
IMAGES = MANY.reshape(100, 2, 5, 8)


@pytest.mark.slow
@needs_cpu
@pytest.mark.parametrize(
    ("signals", "head"),
    [
        *((MANY, head) for head in (*HEADS, 3, 11)),
        *((IMAGES, head) for head in ("gap", 3)),
        ([*MANY[:, :, :30], *MANY], "gap"),
    ],
)
@pytest.mark.parametrize("budget", ["all", "some", "free", "one"])
def test_prepared_tables_have_a_budget(signals, head, budget, made, monkeypatch):
    """For all blocks if it has room, else for the first ones; further ones are made in each call.

    The memory that is held between calls is what `nbytes` says.
    """
    own = 2 * sum(x.nbytes for x in signals)  # in float64
    options = {"engine": "cpu", "dtype": "float32"}
    kernel, left = rk.ResCNTK(8, head=head), signals[:1]
    expected = kernel(left, signals, **options)
    whole = kernel.prepare(signals, **options).nbytes - own
    block, some = whole // 5, 7 * whole // 10
    held_bytes = {"all": 2 * whole, "some": some, "free": 2 * whole, "one": 0}
    monkeypatch.setattr(engine, "_TABLE_BYTES", block)
    monkeypatch.setattr(engine, "_HELD_BYTES", held_bytes[budget])
    monkeypatch.setattr(engine, "free_bytes", lambda: 8.0 * some if budget == "free" else 1e12)
    gc.freeze()  # what other tests have left is not collected: a second for each case
    tracemalloc.start()
    prepared = kernel.prepare(signals, **options)
    assert (prepared(left) == expected).all()
    made.clear()
    assert (prepared(left) == expected).all()
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    of_tables, again = prepared.nbytes - own, sum(made) - 1  # besides the left signal
    of_objects = 10**5  # Python's
    if budget == "all":
        assert again == 0 and whole <= of_tables <= 1.2 * whole
        assert held >= prepared.nbytes
    elif budget == "one":
        assert 0.7 * len(signals) < again and of_tables <= 1.01 * block
    else:
        assert 0 < again < len(signals) and block < of_tables <= 1.01 * some
    assert prepared.nbytes - block <= held <= prepared.nbytes + of_objects


@pytest.mark.parametrize("call", [rk.ResCNTK(2), rk.ResCNTK(2).diag])
def test_the_engine_array_makes_a_table_once(call, monkeypatch):
    """For lists it makes one for each length, and not again for each length of the other side."""
    made = []

    def counted(steps, request, signals):
        made.append(signals.shape[2])
        return tables.signal_tables(steps, request, signals)

    monkeypatch.setattr("rescntk.engines.array.engine.signal_tables", counted)
    call(LISTS, engine="array")
    assert sorted(made) == sorted({signal.shape[1] for signal in LISTS})


@pytest.mark.parametrize("engine", CPU)
def test_prepared_bytes_include_the_signals(engine):
    prepared = rk.ResCNTK(1, 1).prepare(Z, engine=engine)
    assert prepared.nbytes >= Z.nbytes + (engine == "cpu") * Z.nbytes


def test_a_list_that_has_grown_since_is_another_one(rng):
    X = [*rng.standard_normal((2, 2, 5))]
    kept = KERNEL.prepare(X)
    X.append(X[0] + X[1])
    assert np.array_equal(KERNEL(X, kept), KERNEL(X, X[:2]))


@pytest.mark.parametrize("head", ["gap", "trace", 3])
@pytest.mark.parametrize("engine", CPU)
def test_shares_take_prepared_signals(engine, head, rng):
    """They have the same bits."""
    network = rk.Network(2, input_filter_size=3)
    X, Z = rng.standard_normal((2, 3, 2, 7))
    kernel = rk.Kernel(network, "ntk", head, normalized=True)
    options = {"head": head, "normalized": True, "engine": engine}
    shares = rk.pixel_shares(network, X, Z, **options)
    kept = kernel.prepare(Z, engine=engine)
    assert np.array_equal(rk.pixel_shares(network, X, kept, **options), shares)


@pytest.mark.parametrize("head", ["gap", "trace", 3])
@pytest.mark.parametrize("engine", CPU)
def test_normalized_shares_add_up_to_the_kernel(engine, head, rng):
    kernel = rk.Kernel(rk.Network(2, input_filter_size=3), "ntk", head, normalized=True)
    X, Z = rng.standard_normal((2, 3, 2, 7))
    shares = rk.pixel_shares(kernel.network, X, Z, head=head, normalized=True, engine=engine)
    assert_within(shares.sum(axis=2), kernel(X, Z, engine=engine), tolerances.ROUTES, 1)


def test_prepared_signals_are_copied():
    signals, kernel = Z.copy(), rk.ResCNTK(3)
    prepared, expected = kernel.prepare(signals), kernel(X, Z)
    signals[:] = 0
    assert (prepared(X) == expected).all()


def test_an_array_that_was_prepared_and_then_changed_is_another_one():
    signals, kernel = Z.copy(), rk.ResCNTK(3)
    prepared = kernel.prepare(signals)
    signals[:] = 0
    assert (prepared(signals) == kernel(signals, Z)).all()


def test_a_list_that_was_prepared_and_then_changed_is_another_one():
    several, kernel = list(Z), rk.ResCNTK(3)
    prepared = kernel.prepare(several)
    several[0] = several.pop()[:, :4]
    assert (prepared(several) == kernel(several, list(Z))).all()


@pytest.mark.parametrize("signals", [Z, LISTS])
def test_prepared_signals_are_pickled_without_tables(signals):
    prepared = rk.ResCNTK(3, normalized=True).prepare(signals, dtype="float32")
    most = 2000 + 2 * sum(signal.nbytes for signal in signals)
    assert len(pickle.dumps(prepared)) < most


@pytest.mark.parametrize("signals", [Z, LISTS])
def test_pickled_prepared_signals_have_the_same_kernels(signals):
    kernel = rk.ResCNTK(3, normalized=True)
    prepared = kernel.prepare(signals, dtype="float32")
    again = pickle.loads(pickle.dumps(prepared))
    left = list(X) + LISTS if signals is LISTS else list(X)
    assert (again(left) == prepared(left)).all()
    assert (again.engine, again.dtype, again.kernel) == (prepared.engine, "float32", kernel)


PREPARED = rk.ResCNTK(3).prepare(Z, engine="array")


@pytest.mark.parametrize(
    ("kernel", "X", "options", "message"),
    [
        (rk.ResCNTK(4), X, {}, "Z was prepared .*network depth is 3, expected 4"),
        (rk.ResCGPK(3), X, {}, r"Z was prepared .*kinds is \('ntk',\), expected \('gpk',\)"),
        (rk.ResCNTK(3, head="trace"), X, {}, "Z was prepared .*head is 'gap', expected 'trace'"),
        (rk.ResCNTK(3), X, {"dtype": "f4"}, "Z was prepared .*dtype is 'float64', expected 'fl"),
        pytest.param(
            rk.ResCNTK(3),
            X,
            {"engine": "cpu"},
            "Z was prepared .*'array', expected 'cpu'",
            marks=needs_cpu,
        ),
        (rk.ResCNTK(3), X[:, :1], {}, "Z has shape .*, expected 1 channels as in X"),
        (rk.ResCNTK(3), X * np.nan, {}, "X of shape .* contains NaN"),
    ],
)
def test_other_calls_are_refused(kernel, X, options, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        kernel(X, PREPARED, **options)


@pytest.mark.parametrize("kind", ["gpk", "ntk"])
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize(("depth", "stride", "d"), [(2, 2, 16), (3, 2, 24), (2, 3, 27)])
def test_strided_networks_are_dilated_ones_read_at_some_pixels(depth, stride, d, skip, kind):
    trained = ("input", "inner", "outer", "readout")
    options = {"outer_filter_size": 5, "skip": skip, "bias": 0.3, "trained": trained}
    network = rk.Network(depth, **options)
    dilated = network.replace(dilation=[stride**k for k in range(depth)])
    X = np.random.default_rng(0).standard_normal((3, 2, d))
    step = stride**depth
    found = rk.pixel_pairs(dilated, X, kind=kind)[..., ::step, ::step]
    expected = strided(network, X, stride, kind)
    assert found.shape == expected.shape == (3, 3, d // step, d // step)
    others = ~np.eye(3, dtype=bool)  # a signal with itself has ρ = 1, the root of κ0
    assert np.abs(found / expected - 1)[others].max() <= tolerances.TRANSCRIPTION
