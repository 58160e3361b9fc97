"""Stored Grams: values of one call in memory, under kills, on workers; refusals; products."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import rescntk as rk
from rescntk import regression

pytest.importorskip("zarr")
distributed = pytest.importorskip("distributed")
from rescntk import stored  # noqa: E402

NET = rk.Network(depth=2, filter_size=3)
BLOCK = 8


def signals(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 2, 8))


def lists(n):
    """Signals of 4, 5 and 6 time points."""
    return [x[:, : 4 + k % 3] for k, x in enumerate(signals(n))]


def compute(path, X, Z=None, **options):
    return stored.gram(path, NET, X, Z, **{"block": BLOCK, "progress": False, **options})


def assert_same(K, X, Z=None, **options):
    """Every value of every kind has the bits of a call in memory."""
    assert K.complete and K.missing == []
    for kind, values in rk.gram(NET, X, Z, dtype="float32", **options)._asdict().items():
        found = getattr(K, kind)[...]
        assert found.dtype == values.dtype and found.shape == values.shape == K.shape
        assert found.tobytes() == values.tobytes()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "K.zarr"


@pytest.fixture
def computed(monkeypatch):
    """The blocks that are computed in this process."""
    blocks, original = [], stored._compute_block

    def count(path, block, *arguments):
        blocks.append(block)
        original(path, block, *arguments)

    monkeypatch.setattr(stored, "_compute_block", count)
    return blocks


@pytest.mark.parametrize("n", [1, BLOCK, 2 * BLOCK + 3])
@pytest.mark.parametrize(
    "options", [{}, {"depths": (3, 1)}, {"normalized": True, "head": "trace"}, {"kinds": "ntk"}]
)
def test_values_are_those_of_one_call(path, computed, n, options):
    assert_same(compute(path, signals(n), **options), signals(n), **options)
    blocks = -(-n // BLOCK)
    assert len(computed) == blocks * (blocks + 1) // 2  # half of a symmetric Gram
    assert_same(compute(path, signals(n), **options), signals(n), **options)
    assert len(computed) == blocks * (blocks + 1) // 2  # nothing is computed twice


def test_rectangles_and_signals_of_different_lengths(path):
    X, Z = signals(BLOCK + 3), signals(3, seed=1)
    K = compute(path, X, Z, depths=(1, 2))
    assert K.ntk.chunks == (1, BLOCK, 3)
    assert_same(K, X, Z, depths=(1, 2))
    for name, Z in (("symmetric", None), ("rectangle", lists(5))):
        K = compute(path.with_name(name), lists(2 * BLOCK + 1), Z, normalized=True)
        assert_same(K, lists(2 * BLOCK + 1), Z, normalized=True)


def test_equal_calls_in_other_words(path):
    K = compute(path, signals(3), dtype=np.float64, kinds=iter(["gpk"]), depths=iter([2]))
    assert (K.gpk[0] == rk.gram(NET, signals(3)).gpk).all()
    assert compute(path, signals(3), dtype="float64", kinds=["gpk"], depths=[2]).complete
    X = -signals(5) * (np.arange(8) > 0)
    for signed in (X, X + 0.0):  # zeros of both signs are one signal
        assert_same(compute(path.with_name("0.zarr"), signed), X)


def test_the_home_folder_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert compute("~/K.zarr", signals(3)).path == tmp_path.resolve() / "K.zarr"
    assert stored.open("~/K.zarr").complete


def test_addresses_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for address in ("s3://bucket/K", "file:///K", "gs:/bucket/K", Path("s3://bucket/K"), 3, None):
        for call in (stored.open, lambda path: compute(path, signals(3))):
            with pytest.raises(ValueError, match=r"path is .*, expected a local folder"):
                call(address)
    assert not list(tmp_path.iterdir())
    (tmp_path / "a:b").mkdir()
    assert compute("a:b/K", signals(3)).complete


def test_what_is_no_gram_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note").write_text("x")
    for text in ("{", "[]", '{"attributes": {}}', '{"attributes": {"rescntk": {"X": 1}}}'):
        (tmp_path / text[-9:]).mkdir()
        (tmp_path / text[-9:] / "zarr.json").write_text(text)
    for place in tmp_path.iterdir():
        before = sorted(tmp_path.rglob("*"))
        for call in (stored.open, lambda path: compute(path, signals(3))):
            with pytest.raises(ValueError, match="is not a Gram of rescntk.stored"):
                call(place)
        assert sorted(tmp_path.rglob("*")) == before
    with pytest.raises(ValueError, match="none is not a Gram of rescntk.stored: FileNotFound"):
        stored.open(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    assert compute(tmp_path / "empty", signals(3)).complete


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": signals(5, seed=5)}, "X checksum is '.*' there, '.*' here"),
        ({"X": signals(6)}, r"X shape is \[5, 2, 8\] there, \[6, 2, 8\] here"),
        ({"X": lists(5)}, r"X shape is \[5, 2, 8\] there, \[5, 2, \[4, 5, 6, 4, 5\]\] here"),
        ({"Z": signals(3)}, "Z is None there, .* here"),
        ({"network": NET.replace(alpha=0.5)}, "network alpha is 1.0 there, 0.5 here$"),
        ({"dtype": "float64"}, "dtype is 'float32' there, 'float64' here$"),
        ({"head": "trace", "normalized": True}, "head is 'gap' there, .*; normalized is False"),
        ({"kinds": "ntk"}, r"kinds is \['gpk', 'ntk'\] there, \['ntk'\] here$"),
        ({"depths": (2,)}, r"depths is None there, \[2\] here$"),
        ({"block": 4}, "block is 8 there, 4 here$"),
    ],
)
def test_another_computation_is_refused(path, changes, message):
    compute(path, signals(5))
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    call = {"network": NET, "X": signals(5), "block": BLOCK, **changes}
    with pytest.raises(ValueError, match=f"K.zarr holds another computation: .*{message}"):
        stored.gram(path, **call)
    assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_another_version_is_refused(path, monkeypatch):
    compute(path, signals(5))
    monkeypatch.setattr(stored, "__version__", "99")
    with pytest.raises(ValueError, match="version is '.*' there, '99' here"):
        compute(path, signals(5))
    assert stored.open(path).complete  # values are read all the same
    with pytest.raises(ValueError, match="a worker has rescntk 99, expected .* as in .*K.zarr"):
        stored._compute_block(path, (0, 0), None, None, {})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"block": 0}, "block is 0, expected an integer"),
        ({"head": "sum"}, "head is 'sum', expected one of"),
        ({"kinds": "both"}, "kinds is 'both'"),
        ({"depths": ()}, "depths is empty"),
        ({"normalized": 1}, "normalized is 1"),
        ({"dtype": "half"}, "dtype is 'half'"),
        ({"progress": 1}, "progress is 1, expected True or False"),
        ({"client": "here"}, "client is 'here', expected a running dask.distributed.Client"),
        ({"Z": np.ones((2, 3, 8))}, "Z has shape"),
        ({"X": lists(3), "head": "trace"}, "head is 'trace', which takes signals of one length"),
        ({"X": np.full((3, 2, 8), np.nan)}, "X of shape .* contains NaN"),
        ({"network": "deep"}, "network is 'deep'"),
    ],
)
def test_wrong_arguments_are_refused_before_a_value_is_written(path, wrong, message):
    with pytest.raises(ValueError, match=message):
        stored.gram(path, **{"network": NET, "X": signals(3), **wrong})
    assert not list(path.rglob("c"))


def test_a_full_disk_is_told_before_the_work(path, monkeypatch, computed):
    monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=3199))
    with pytest.raises(OSError, match="K.zarr needs 3,200 bytes, and its disk has 3,199 free"):
        compute(path, signals(20))
    assert not computed
    monkeypatch.undo()
    assert_same(compute(path, signals(20)), signals(20))


JOB = """
import sys, time
from rescntk import stored
from tests.test_stored import compute, signals
original = stored._compute_block
def slowly(*arguments):
    time.sleep(0.05)
    original(*arguments)
stored._compute_block = slowly
compute(sys.argv[1], signals(int(sys.argv[2])))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_a_killed_process_is_resumed(path, computed, rng):
    """Blocks that are on disk stay there with their bytes; the others are computed."""
    n, blocks = 6 * BLOCK + 3, 28
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, str(path), str(n)], cwd=Path(__file__).parents[1]
    )
    end, wanted = time.monotonic() + 60, rng.integers(1, 20)
    while len(list(path.glob("ntk/c/*/*"))) < wanted:
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.005)
    time.sleep(rng.uniform(0, 0.1))
    os.kill(job.pid, signal.SIGKILL)
    job.wait()
    K = stored.open(path)
    missing = K.missing
    assert 0 < len(missing) < blocks and not K.complete
    assert f"{len(missing)} blocks missing" in repr(K)
    rows = slice(BLOCK * missing[-1][0], BLOCK * missing[-1][0] + 1)
    assert np.isnan(K.ntk[rows, -1]).all()
    with pytest.raises(ValueError, match=f"lacks {len(missing)} blocks, expected none: resume it"):
        K.matrix("ntk")
    written = [
        (f, f.stat().st_mtime_ns) for b in set(K._blocks()) - {*missing} for f in K._files(b)
    ]
    assert_same(compute(path, signals(n)), signals(n))
    assert computed == missing
    assert all(file.stat().st_mtime_ns == then for file, then in written)


def test_a_kill_before_the_first_block_is_resumed(path, monkeypatch):
    """The description is written whole or not at all, and the arrays are made anew."""
    monkeypatch.setattr("shutil.disk_usage", lambda place: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        compute(path, signals(3))
    assert stored.open(path).missing == [(0, 0)]
    monkeypatch.undo()
    assert_same(compute(path, signals(3)), signals(3))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("batch", [signals, lists])
def test_workers_of_dask(path, batch):
    n = 3 * BLOCK + 1
    workers = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.Client(processes=False, **workers) as client:
        assert_same(compute(path, batch(n), client=client), batch(n))
        for file in path.glob("ntk/c/1/*"):
            file.unlink()
        assert compute(path, batch(n), client=client).complete
        with pytest.raises(ValueError, match="network depth is 2 there, 3 here"):
            stored.gram(path, NET.replace(depth=3), batch(n), block=BLOCK, client=client)
    with pytest.raises(ValueError, match="client is .*, expected a running dask"):
        compute(path, batch(n), client=client)


def test_products(path, rng):
    X, Z = signals(2 * BLOCK + 3), signals(BLOCK + 4, seed=1)
    K, V = compute(path, X, kinds="ntk"), rng.standard_normal((len(X), 3))
    dense = rk.gram(NET, X, dtype="float32").ntk.astype(float)
    for v in (V, V[:, 0], V[:, :1]):
        # 19 products of a row in float64, in another order.
        assert np.abs(K @ v - dense @ v).max() <= 19 * 2e-16 * (np.abs(dense) @ np.abs(v)).max()
    with pytest.raises(ValueError, match="kind is 'gpk', expected one of 'ntk'"):
        _ = K.gpk
    with pytest.raises(ValueError, match="dimension mismatch"):
        K @ np.ones(4)
    K = compute(path.with_name("Z.zarr"), X, Z, depths=(1, 3))
    expected = rk.gram(NET, X, Z, depths=(1, 3), dtype="float32").gpk[1].astype(float)
    assert np.allclose(K.matrix("gpk", 3) @ Z[:, 0, 0], expected @ Z[:, 0, 0], rtol=1e-12)
    assert K.matrix("gpk", 3).shape == (len(X), len(Z))
    with pytest.raises(ValueError, match="kind is None, expected one of 'gpk', 'ntk'"):
        K @ Z[:, 0, 0]
    for depth in (None, 2):
        with pytest.raises(ValueError, match=rf"depth is {depth}, expected one of \[1, 3\]"):
            K.matrix("ntk", depth)


def test_equations_are_solved_from_the_disk(path):
    X = signals(2 * BLOCK + 3)
    K, Y = compute(path, X, kinds="ntk"), X[:, 0, :2]
    low = regression.pivoted_cholesky(rk.Kernel(NET, "ntk"), X, 10)
    found = regression.solve(K, Y, 0.5, preconditioner=low, tolerance=1e-10)
    A = np.linalg.solve(K.ntk[:].astype(float) + 0.5 * np.eye(len(X)), Y)
    assert np.allclose(found, A, rtol=1e-6, atol=1e-8)
