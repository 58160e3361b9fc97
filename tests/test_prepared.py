"""Kernels with prepared signals: the bits of the kernel itself, and what they refuse."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines import tables
from rescntk.kernels import prepare
from tests.difficult_signals import duplicates, uneven
from tests.engine_names import CPU, ENGINES, needs_cpu, skip_unless_taken

RNG = np.random.default_rng(0)
X, Z = RNG.standard_normal((3, 2, 9)), RNG.standard_normal((40, 2, 9))
Z[3], Z[4], Z[5] = X[0], 3 * X[1], X[2] * (1 + 1e-9)  # some pairs are computed again
LISTS = [RNG.standard_normal((2, n)) for n in (9, 66, 4, 9, 9, 32, 1)]
NETWORKS = [
    rk.Network(3),
    rk.Network(12, skip=False),
    rk.Network(
        2, input_filter_size=3, dilation=2, bias=0.3, negative_slope=0.1, trained=("inner", "outer")
    ),
    rk.Network(3, activation="erf"),
]


def same(prepared, kernel, left, right, **options):
    """Assert that both have the same bits, twice: the second call finds tables of the first."""
    expected = kernel(left, right, **options)
    for threads in (1, 2):
        found = prepared(left, threads=threads)
        assert found.dtype == expected.dtype and (found == expected).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("head", ["gap", "trace", "equivariant"])
def test_same_bits(engine, dtype, network, head):
    skip_unless_taken(engine, network)
    for kind, normalized in (("gpk", False), ("ntk", True)):
        kernel = rk.Kernel(network, kind, head, normalized)
        options = {"engine": engine, "dtype": dtype}
        prepared = kernel.prepare(Z, **options)
        same(prepared, kernel, X, Z, **options)
        same(prepared, kernel, Z, Z, **options)
        same(prepared, kernel, Z[:4].copy(), Z, **options)
        assert (prepared(Z) == prepared(Z).T).all()


@pytest.mark.parametrize("engine", CPU)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("network", NETWORKS[:3])
def test_lists(engine, dtype, network):
    for normalized in (False, True):
        kernel, options = rk.Kernel(network, "ntk", "gap", normalized), {"dtype": dtype}
        options["engine"] = engine
        other = [RNG.standard_normal((2, n)) for n in (34, 12)]
        for right in (LISTS, Z[:5]):
            prepared = kernel.prepare(right, **options)
            for left in (other, LISTS, list(LISTS), X, other[:1]):
                if isinstance(left, list) or isinstance(right, list):
                    same(prepared, kernel, left, right, **options)
    right = list(Z[:5])  # lists of one length take other lengths too
    for left in (X, X[:, :, :4], right):
        same(kernel.prepare(right, **options), kernel, left, right, **options)


@pytest.mark.parametrize("engine", CPU)
def test_images(engine):
    images = RNG.standard_normal((6, 2, 4, 5))
    for head in ("gap", "trace", "equivariant"):
        kernel = rk.ResCNTK(3, head=head, normalized=True)
        prepared = kernel.prepare(images, engine=engine)
        for left in (images[:2] + 1, images):
            same(prepared, kernel, left, images, engine=engine)
    with pytest.raises(ValueError, match="Z has shape .*, and X has shape"):
        prepared(images[:, :, :, :4])


@pytest.mark.parametrize("engine", CPU)
def test_difficult_signals(engine):
    signals = np.concatenate([duplicates(2, 16, RNG), uneven(2, 16, RNG)])
    kernel = rk.ResCNTK(3, normalized=True)
    same(kernel.prepare(signals, engine=engine), kernel, signals[::-1], signals, engine=engine)


def test_several_kinds_and_depths():
    network, options = rk.Network(4), {"depths": (4, 1), "kinds": ("ntk", "gpk")}
    for normalized in (False, True):
        ready = prepare(network, Z, head="gap", normalized=normalized, **options)
        found = rk.gram(network, X, ready, normalized=normalized, **options)
        for one, other in zip(
            found, rk.gram(network, X, Z, normalized=normalized, **options), strict=True
        ):
            assert (one == other).all()


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
    few, many = (rk.ResCNTK(3).prepare(signals) for signals in (Z[:10], Z))
    assert 3 * few.nbytes < many.nbytes < 5 * few.nbytes
    assert few.nbytes >= Z[:10].nbytes and len(many) == 40
    assert "40 signals" in repr(many) and str(many.nbytes) in repr(many)


def test_signals_are_copied():
    signals = Z.copy()
    kernel = rk.ResCNTK(3)
    prepared, expected = kernel.prepare(signals), kernel(X, Z)
    signals[:] = 0
    assert (prepared(X) == expected).all()
    assert (prepared(signals) == kernel(signals, Z)).all()  # given once, and changed since
    several = list(Z)
    prepared = kernel.prepare(several)
    several[0] = several.pop()[:, :4]
    assert (prepared(several) == kernel(several, list(Z))).all()


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
    prepared = rk.ResCNTK(3).prepare(Z)
    with pytest.raises(ValueError, match="Z has shape .*, expected 1 channels as in X"):
        prepared(X[:, :1])
    with pytest.raises(ValueError, match="X of shape .* contains NaN"):
        prepared(X * np.nan)
    with pytest.raises(ValueError, match=r"Z has shape \(2, 9\), expected"):
        rk.ResCNTK(3).prepare(Z[0])
    with pytest.raises(ValueError, match="Z is empty"):
        rk.ResCNTK(3).prepare([])


@pytest.mark.parametrize("signals", [Z, LISTS])
def test_pickled_without_tables(signals):
    kernel = rk.ResCNTK(3, normalized=True)
    prepared = kernel.prepare(signals, dtype="float32")
    data = pickle.dumps(prepared)
    assert len(data) < 2000 + 2 * sum(signal.nbytes for signal in signals)
    again = pickle.loads(data)
    assert (again(LISTS) == prepared(LISTS)).all() if signals is LISTS else True
    assert (again(list(X)) == prepared(list(X))).all()
    assert (again.engine, again.dtype, again.kernel) == (prepared.engine, "float32", kernel)


def test_threads_share_tables():
    kernel, left = rk.ResCNTK(3), RNG.standard_normal((20, 2, 9))
    prepared, expected = kernel.prepare(Z), kernel(left, Z)
    with ThreadPoolExecutor(4) as pool:
        rows = pool.map(lambda i: prepared(left[i : i + 1], threads=1)[0], range(20))
        assert (np.array(list(rows)) == expected).all()
