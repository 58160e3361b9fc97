"""Kernels with prepared signals: the bits of the kernel itself, and what they refuse."""

import pickle

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines import tables
from rescntk.kernels import prepare
from rescntk.validation import DTYPES
from tests.difficult_signals import duplicates, uneven
from tests.engine_names import CPU, ENGINES, needs_cpu, skip_unless_taken

RNG = np.random.default_rng(0)
X, Z = RNG.standard_normal((3, 2, 9)), RNG.standard_normal((24, 2, 9))
Z[3], Z[4], Z[5] = X[0], 3 * X[1], X[2] * (1 + 1e-9)  # some pairs are computed again
DIFFICULT = np.concatenate([duplicates(2, 16, RNG), uneven(2, 16, RNG)])
IMAGES = RNG.standard_normal((6, 2, 4, 5))
LISTS = [RNG.standard_normal((2, n)) for n in (9, 66, 4, 9, 32, 1)]
OTHER = [RNG.standard_normal((2, n)) for n in (34, 12)]
FEW = list(Z[:5])
NETWORKS = [
    rk.Network(3),
    rk.Network(5, skip=False),
    rk.Network(
        2, input_filter_size=3, dilation=2, bias=0.3, negative_slope=0.1, trained=("inner", "outer")
    ),
    rk.Network(3, activation="erf"),
]
BATCHES = {
    "array": (Z, [X, Z, Z[:4].copy()]),
    "difficult": (DIFFICULT, [DIFFICULT[::-1]]),
    "images": (IMAGES, [IMAGES[:2] + 1, IMAGES]),
    "list": (LISTS, [OTHER, LISTS, list(LISTS), X, OTHER[:1]]),
    "array beside lists": (Z[:5], [OTHER, LISTS]),
    "list of one length": (FEW, [X, X[:, :, :4], FEW]),
}
"""Signals to prepare, and others for calls: the same object, copies, and other lengths."""


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", BATCHES)
def test_same_bits(engine, dtype, network, name):
    """Twice, with other threads: the second call finds tables of the first."""
    skip_unless_taken(engine, network)
    right, lefts = BATCHES[name]
    if "list" in name and engine not in CPU:
        pytest.skip("of arrays alone")
    options = {"engine": engine, "dtype": dtype}
    every = [("gap", "ntk", True), ("gap", "gpk", False), ("trace", "ntk", False)]
    every.append(("equivariant", "gpk", True))
    for head, kind, normalized in every[:2] if "list" in name else every:
        kernel = rk.Kernel(network, kind, head, normalized)
        prepared = kernel.prepare(right, **options)
        for left in lefts:
            expected = kernel(left, right, **options)
            for threads in (1, 2):
                found = prepared(left, threads=threads)
                assert found.dtype == expected.dtype and (found == expected).all()
        assert (prepared(right) == prepared(right).T).all()


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
