"""Kernels with prepared signals: their tables, copies, and what they refuse."""

import pickle

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines import tables
from rescntk.kernels import prepare
from tests.engine_names import CPU, needs_cpu

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
