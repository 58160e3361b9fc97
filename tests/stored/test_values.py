"""Stored Grams hold the bits of Grams in memory: all options, resumed, repaired, extended."""

import json
import shutil

import numpy as np
import pytest
import zarr

import rescntk as rk
from rescntk import regression, stored
from rescntk.stored import jobs
from rescntk.stored.folder import Folder
from tests.stored.cases import BLOCK, NET, assert_same, compute, in_memory, signals

pytestmark = pytest.mark.slow


@pytest.fixture
def path(tmp_path):
    return tmp_path / "K.zarr"


@pytest.fixture
def computed(monkeypatch):
    """Return the list of blocks that this process computes."""
    found, original = [], jobs.compute_block

    def counted(path, block, threads):
        found.append(block)
        return original(path, block, threads)

    monkeypatch.setattr(jobs, "compute_block", counted)
    return found


@pytest.mark.parametrize(
    ("n", "options"),
    [
        (1, {}),
        (BLOCK, {"dtype": "float64", "head": "trace"}),
        (2 * BLOCK + 5, {"normalized": True, "depths": (3, 1)}),
        (BLOCK + 5, {"kinds": ("ntk",), "head": "equivariant"}),
        (BLOCK + 1, {"engine": "auto"}),
    ],
)
def test_bits(path, n, options):
    X, Z = signals(n), signals(BLOCK + 3, seed=1)
    assert_same(compute(path, X, **options), in_memory(X, **options))
    rectangle = path.with_name("rectangle.zarr")
    assert_same(compute(rectangle, X, Z, **options), in_memory(X, Z, **options))


def test_ordinary_zarr_arrays(path):
    """Any reader of Zarr gets the whole matrix, checked by its checksums."""
    X = signals(BLOCK + 2)
    compute(path, X)
    group = zarr.open_group(path, mode="r")
    assert group["ntk"][:].tobytes() == in_memory(X).ntk.tobytes()
    assert (group["X"][:] == X).all()
    described = json.loads((path / "ntk" / "zarr.json").read_text())
    assert [codec["name"] for codec in described["codecs"]] == ["bytes", "crc32c"]
    assert described["fill_value"] == "NaN"
    assert described["chunk_grid"]["configuration"]["chunk_shape"] == [BLOCK, BLOCK]


def test_damaged_chunks_are_found_and_computed_again(path, computed):
    X = signals(2 * BLOCK + 5)
    compute(path, X)
    assert len(computed) == 6  # the upper half alone
    assert_same(compute(path, X), in_memory(X))
    assert len(computed) == 6
    chunks = path / "ntk" / "c"
    (chunks / "1" / "1").unlink()
    K = stored.open(path)
    assert K.missing == [(1, 1)] and not K.complete and "1 blocks missing" in repr(K)
    with pytest.raises(ValueError, match="1 missing blocks"):
        K.matrix("ntk")
    computed.clear()
    assert_same(compute(path, X), in_memory(X))
    assert computed == [(1, 1)]
    (chunks / "1" / "1").unlink()
    data = bytearray((chunks / "0" / "2").read_bytes())
    data[len(data) // 3] ^= 4
    (chunks / "0" / "2").write_bytes(data)
    (chunks / "1" / "0").write_bytes((chunks / "1" / "0").read_bytes()[:-40])
    (chunks / "2" / "2").write_bytes(b"")
    computed.clear()
    assert_same(compute(path, X), in_memory(X))
    assert computed == [(0, 1), (0, 2), (1, 1), (2, 2)]


@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("name", ["X/c", "X/zarr.json", "Z/c"])
def test_damaged_signals_are_refused_and_repaired(path, name, lists):
    X, Z = signals(BLOCK), signals(3, seed=1)
    X = [x[:, : 5 + k % 3] for k, x in enumerate(X)] if lists else X
    K = compute(path, X[:-2], Z)
    damaged = path / name
    shutil.rmtree(damaged) if damaged.is_dir() else damaged.write_text("{")
    before = {file: file.read_bytes() for file in path.rglob("*.*") if file.is_file()}
    with pytest.raises(ValueError, match=f"K.zarr.{name[0]} is damaged.* stored.gram"):
        K.append(X[-2:], progress=False)
    assert before == {file: file.read_bytes() for file in path.rglob("*.*") if file.is_file()}
    compute(path, X[:-2], Z)
    assert_same(K.append(X[-2:], progress=False), in_memory(X, Z))


def test_other_computations_are_refused_by_name(path):
    pytest.importorskip("numba")
    compute(path, signals(20))
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    same = {"network": NET, "X": signals(20), "block": BLOCK, "engine": "reference"}
    for changes, message in (
        ({"network": NET.replace(alpha=0.5)}, "network alpha is 1.0 there, 0.5 here"),
        ({"head": "trace"}, "head is 'gap' there, 'trace' here"),
        ({"kinds": "ntk", "dtype": "float64"}, "kinds is .*; dtype is 'float32' there, 'float64'"),
        ({"depths": (2,), "normalized": True}, r"depths is None there, \[2\] here; normalized"),
        ({"block": 4}, "block is 8 there, 4 here"),
        ({"engine": "auto"}, "engine is 'reference' there, 'numba' here"),
        ({"X": signals(20, seed=5)}, "X has other values"),
        ({"X": signals(21)}, r"X has shape \(20, 2, 8\) there, \(21, 2, 8\) here"),
        ({"Z": signals(3)}, r"Z has shape None there, \(3, 2, 8\) here"),
    ):
        with pytest.raises(ValueError, match=f"another computation: .*{message}"):
            stored.gram(path, progress=False, **same | changes)
    assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    X = -signals(5) * (np.arange(8) > 0)  # with zeros of both signs
    for signed in (X, X + 0.0):
        assert_same(compute(path.with_name("0.zarr"), signed), in_memory(X))


def test_another_version_is_refused(path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "RECURSION", 99)
        with pytest.raises(ValueError, match="rescntk here is .*99.*expected"):
            compute(path, signals(5))
        before = (path / "zarr.json").read_bytes()
        with pytest.raises(ValueError, match="rescntk here is .*99.*expected"):
            stored.open(path).append(signals(1))
        assert (path / "zarr.json").read_bytes() == before
    monkeypatch.setattr("rescntk.kernels.description.RECURSION", 99)
    with pytest.raises(ValueError, match=f"recursion is {jobs.RECURSION} there, 99 here"):
        compute(path, signals(5))


def test_open_refuses_what_is_no_gram(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        stored.open(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    zarr.open_group(tmp_path / "group", mode="w")
    for name in ("file", "empty", "group"):
        with pytest.raises(ValueError, match="not a Gram"):
            stored.open(tmp_path / name)
        with pytest.raises(ValueError, match="not a Gram"):
            compute(tmp_path / name, signals(3))


def test_damaged_files_are_refused(path):
    K = compute(path, signals(3))
    for name in ("zarr.json", "ntk/zarr.json", "gpk/zarr.json"):
        damaged, kept = path / name, path / "kept"
        for data in (None, b"{", b"[]", b"\xff\x00"):
            damaged.rename(kept)
            if data:
                damaged.write_bytes(data)
            for call in (lambda: stored.open(path), K.resume, lambda: compute(path, signals(3))):
                with pytest.raises(ValueError, match="K.zarr is not a Gram of"):
                    call()
            damaged.unlink(missing_ok=True)
            kept.rename(damaged)
    description = json.loads((path / "zarr.json").read_text())
    description["attributes"]["rescntk"]["format"] = 1
    (path / "zarr.json").write_text(json.dumps(description))
    with pytest.raises(ValueError, match="its format is 1, of another version .*: begin it anew"):
        stored.open(path)
    with pytest.raises(ValueError, match="block is 1000000000000, expected at most 65536"):
        compute(path.with_name("large.zarr"), signals(3), block=10**12)
    assert not path.with_name("large.zarr").exists()


def test_remove(tmp_path):
    """A Gram may be damaged; another folder is left alone, whatever it has."""
    for name in (None, "gpk", "ntk/zarr.json", "X"):
        path = compute(tmp_path / "K.zarr", signals(3)).path
        if name:
            (path / name).rename(tmp_path / "kept")
            (tmp_path / "kept").rename(path / "moved")
        stored.remove(path)
        assert not list(tmp_path.iterdir())
    path = compute(tmp_path / "K.zarr", signals(3)).path
    for name in ("threads", "progress", "overwrite"):
        for replaces in (True, False):
            with pytest.raises(ValueError, match=f"{name} is 0, expected"):
                compute(path, signals(3), **{"overwrite": replaces, name: 0})
    for call in (stored.open(path).append, lambda X: compute(path, X, overwrite=True)):
        with pytest.raises(OverflowError, match="the kernel exceeds float32"):
            call(1e30 * signals(1))
        assert stored.open(path).complete and stored.open(path).shape == (3, 3)
    for text in ("{", "[]", '{"attributes": {"rescntk": {"format": 1}}}'):
        (path / "zarr.json").write_text(text)
        with pytest.raises(ValueError, match="K.zarr is not a Gram"):
            stored.remove(path)
        assert (path / "ntk" / "c" / "0" / "0").exists()


@pytest.mark.parametrize(("start", "normalized"), [(BLOCK, True), (BLOCK + 5, False)])
def test_append(path, monkeypatch, start, normalized):
    X, pairs, original = signals(3 * BLOCK + 1), [], jobs.gram

    def counted(network, left, right, **options):
        n = len(left)
        pairs.append(n * (n + 1) // 2 if right is None else n * len(right))
        return original(network, left, right, **options)

    monkeypatch.setattr(jobs, "gram", counted)
    K = compute(path, X[:start], normalized=normalized)
    assert sum(pairs) == start * (start + 1) // 2
    for stop in (start + 2, 2 * BLOCK + 7, len(X)):
        before = K.shape[0]
        pairs.clear()
        K.append(X[before:stop], progress=False)
        assert sum(pairs) == stop * (stop + 1) // 2 - before * (before + 1) // 2
        assert_same(K, in_memory(X[:stop], normalized=normalized))
    assert_same(compute(path, X, normalized=normalized), in_memory(X, normalized=normalized))


def test_append_rows_to_a_rectangle(path):
    X, Z = signals(BLOCK + 9), signals(BLOCK + 2, seed=1)
    K = compute(path, X[:5], Z, depths=(1, 2))
    K.append(X[5:], progress=False)
    assert_same(K, in_memory(X, Z, depths=(1, 2)))


def test_appends_that_are_interrupted(path, monkeypatch):
    X = signals(2 * BLOCK + 3)
    K = compute(path, X[: BLOCK + 3])
    with monkeypatch.context() as patch:
        patch.setattr("rescntk.stored.StoredGram.resume", lambda self, **options: self)
        patch.setattr(Folder, "resize", lambda self: None)
        K.append(X[BLOCK + 3 : -7])
        stored.open(path).append(X[-7:])  # before the first is finished
    K = stored.open(path)
    assert not K.complete and K.shape == (len(X), len(X))
    assert_same(K.resume(progress=False), in_memory(X))


def test_signals_of_different_lengths(path, computed, rng):
    """A list is stored with its lengths: the bits of a Gram in memory, resumed and extended."""
    X = [rng.standard_normal((2, d)) for d in rng.integers(1, 9, 2 * BLOCK + 5)]
    Z = [rng.standard_normal((2, 3 + k % 2)) for k in range(BLOCK + 3)]
    K = compute(path, X[: BLOCK + 9])
    assert_same(K.append(X[BLOCK + 9 :], progress=False), in_memory(X))
    count = len(computed)
    assert_same(compute(path, X), in_memory(X))
    assert len(computed) == count
    array, of_array, rectangle = signals(5), path.with_name("array.zarr"), path.with_name("Z.zarr")
    assert_same(compute(rectangle, array, Z, normalized=True), in_memory(array, Z, normalized=True))
    with pytest.raises(ValueError, match="X has other values"):
        compute(path, [2 * X[0], *X[1:]])
    with pytest.raises(ValueError, match="X_new has signals of .* expected signals of one length"):
        compute(of_array, array).append(X)
    with pytest.raises(
        ValueError, match=r"shape \(2, 2, 9\), expected cases like those of X, \(5, 2, 8\)"
    ):
        stored.open(of_array).append(signals(2, d=9))
    message = r"X_new has shape \(1, 3, 8\), expected 2 channels as in X of "
    for place in (of_array, path):
        with pytest.raises(ValueError, match=message):
            stored.open(place).append(np.ones((1, 3, 8)))
    with pytest.raises(ValueError, match="head is 'trace', which takes signals of one length"):
        compute(path.with_name("trace.zarr"), X, head="trace")
    far, cases = rk.Network(1, 3, dilation=10**6), [np.ones((1, d)) for d in (4, 5, 997)]
    K = stored.gram(path.with_name("far.zarr"), far, cases[:2], engine="numba", progress=False)
    with pytest.raises(ValueError, match="'numba' cannot compute this call"):
        K.append(cases[2:])
    assert stored.open(K.path).complete  # without the signal


def test_products_and_regression(path, rng):
    X = signals(2 * BLOCK + 3)
    K, dense = compute(path, X, kinds="ntk"), in_memory(X).ntk.astype(float)
    V = rng.standard_normal((len(X), 3))
    assert np.allclose(K @ V, dense @ V, rtol=1e-13, atol=1e-13 * np.abs(dense).max())
    assert np.allclose(K @ V[:, 0], dense @ V[:, 0], rtol=1e-12)
    low = regression.pivoted_cholesky(rk.Kernel(NET, "ntk"), X, 10, engine="reference")
    found = regression.solve(K.matrix(), V, 0.5, preconditioner=low, tolerance=1e-10)
    assert np.allclose(found, regression.ridge(dense, V, 0.5), rtol=1e-6, atol=1e-8)
    with pytest.raises(ValueError, match="kind is 'gpk', expected one of 'ntk'"):
        _ = K.gpk


def test_products_of_one_kind_and_depth(path, rng):
    X, Z = signals(5), signals(BLOCK + 4, seed=1)
    K, v = compute(path, X, Z, depths=(1, 3)), rng.standard_normal(BLOCK + 4)
    expected = in_memory(X, Z, depths=(1, 3)).gpk[1].astype(float) @ v
    assert np.allclose(K.matrix("gpk", depth=3) @ v, expected, rtol=1e-12)
    assert f"shape=(5, {BLOCK + 4}), dtype=float" in repr(K.matrix("gpk", depth=3))
    with pytest.raises(ValueError, match="kind is None"):
        K @ v
    for depth in (None, True, 2):
        with pytest.raises(ValueError, match=rf"depth is {depth}, expected one of \[1, 3\]"):
            K.matrix("ntk", depth)
    with pytest.raises(ValueError, match="v has shape"):
        K.matrix("ntk", 1) @ np.ones(4)
    matrix = K.matrix("gpk", 3)
    (path / "gpk" / "c" / "1" / "0" / "1").unlink()
    with pytest.raises(ValueError, match=r"block \(0, 1\) of .*K.zarr is lost: resume it"):
        matrix @ v
    with pytest.raises(ValueError, match="K.zarr has 1 missing blocks"):
        K.matrix("gpk", 3)


def test_labels(path):
    K = compute(path, signals(2))
    before = (path / "zarr.json").read_bytes()
    for labels, message in (
        ({"X": [1.0, np.nan]}, "labels of X of shape .* contains NaN"),
        ({"X": ["a", np.nan]}, "labels of X has dtype .* or texts"),
        ({"X": [None, 1]}, "labels of X has dtype object"),
        ({"X": [1j, 1]}, "labels of X has dtype complex"),
        ({"X": np.array(["2020-01-01"] * 2, "datetime64[D]")}, "labels of X has dtype datetime"),
        ({"X": [[1], [1, 2]]}, "labels of X has dtype object|labels of X is not a rectangular"),
        ({"X": np.ma.masked_array([1, 2], [True, False])}, "labels of X is a masked array"),
        ({"X": 1}, r"labels has shape \(\) for X"),
        ({1: [1, 2]}, "labels is 1, expected one of 'X', 'Z'"),
        ([1, 2], r"labels is \[1, 2\], expected a mapping"),
        ("ab", "labels is 'ab', expected a mapping"),
        (None, "labels is None, expected a mapping"),
    ):
        with pytest.raises(ValueError, match=message):
            K.label(labels)
    assert (path / "zarr.json").read_bytes() == before
    for values in (["a", "b"], [1, 2], [True, False], [[1.5, 2.0], [3.0, 4.0]]):
        K.label({"X": np.array(values)})
        assert stored.open(path).labels == {"X": values}
    for odd in ([], "a", {"X": 3}, None):
        whole = json.loads(before)
        whole["attributes"]["labels"] = odd
        (path / "zarr.json").write_text(json.dumps(whole))
        with pytest.raises(ValueError, match="labels in .*K.zarr are .*expected a mapping"):
            _ = stored.open(path).labels
