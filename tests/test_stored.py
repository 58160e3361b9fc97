"""Stored Grams: values of one call in memory, under kills, on workers; refusals; products."""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

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


def contents(path):
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "K.zarr"


@pytest.fixture
def computed(monkeypatch):
    """The blocks that are computed in this process."""
    compute = Mock(wraps=stored._compute_block)
    monkeypatch.setattr(stored, "_compute_block", compute)
    return lambda: [call.args[1] for call in compute.call_args_list]


@pytest.mark.parametrize(
    ("n", "options"),
    [
        (1, {"kinds": "ntk"}),
        (BLOCK, {"normalized": True, "head": "trace"}),
        (BLOCK, {"normalized": True, "head": 4}),
        (2 * BLOCK + 3, {"depths": (3, 1)}),
    ],
)
def test_values_are_those_of_one_call(path, computed, n, options):
    """Half of a symmetric Gram is computed, and nothing twice."""
    blocks = -(-n // BLOCK)
    for _ in range(2):
        assert_same(compute(path, signals(n), **options), signals(n), **options)
        assert len(computed()) == blocks * (blocks + 1) // 2


IMAGES = signals(9).reshape(9, 2, 2, 4)


@pytest.mark.parametrize(
    ("X", "Z", "options"),
    [
        pytest.param(signals(BLOCK + 3), signals(3, seed=1), {"depths": (1, 2)}, id="rectangle"),
        pytest.param(lists(2 * BLOCK + 1), None, {"normalized": True}, id="lists"),
        pytest.param(lists(BLOCK + 1), lists(5), {"normalized": True}, id="rectangle of lists"),
        pytest.param(IMAGES, None, {}, id="images"),
        pytest.param(IMAGES, IMAGES[:2], {}, id="rectangle of images"),
    ],
)
def test_rectangles_lists_and_images(path, X, Z, options):
    assert_same(compute(path, X, Z, **options), X, Z, **options)


def test_a_rectangle_has_blocks_of_both_sides(path):
    K = compute(path, signals(BLOCK + 3), signals(3, seed=1), depths=(1, 2))
    assert K.ntk.chunks == (1, BLOCK, 3)


def test_turned_images_are_other_signals(path):
    compute(path, IMAGES)
    with pytest.raises(ValueError, match="X shape is .* there, .* here"):
        compute(path, IMAGES.swapaxes(2, 3))


def test_equal_calls_in_other_words(path):
    K = compute(path, signals(3), dtype=np.float64, kinds=iter(["gpk"]), depths=iter([2]))
    assert (K.gpk[0] == rk.gram(NET, signals(3)).gpk).all()
    assert compute(path, signals(3), dtype="float64", kinds=["gpk"], depths=[2]).complete


def test_zeros_of_both_signs_are_one_signal(path):
    X = -signals(5) * (np.arange(8) > 0)
    assert_same(compute(path, X), X)
    assert_same(compute(path, X + 0.0), X)


def test_a_path_may_begin_at_home(tmp_path, monkeypatch):
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    assert compute("~/home.zarr", signals(3)).path == tmp_path.resolve() / "home.zarr"
    assert stored.open("~/home.zarr").complete


ADDRESSES = "s3://bucket/K", "file:///K", "gs:/bucket/K", Path("s3://bucket/K"), 3
OPEN_OR_COMPUTE = [stored.open, lambda path: compute(path, signals(3))]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("call", OPEN_OR_COMPUTE)
def test_addresses_are_refused(address, call):
    with pytest.raises(ValueError, match="path is .*, expected a local folder"):
        call(address)


@pytest.mark.parametrize("call", OPEN_OR_COMPUTE)
def test_places_that_hold_no_gram_are_refused(tmp_path, monkeypatch, call):
    """Files, and folders of others, are refused, and not changed."""
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("x")
    for text in ("note", "{", "[]", '{"attributes": {}}', '{"attributes": {"rescntk": {"X": 1}}}'):
        Path(text[-9:]).mkdir()
        Path(text[-9:], "note" if text == "note" else "zarr.json").write_text(text)
    before = sorted(tmp_path.rglob("*"))
    for place in sorted(tmp_path.iterdir()):
        with pytest.raises(ValueError, match="is not a Gram of rescntk.stored"):
            call(place)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_that_is_not_there_holds_no_gram(tmp_path):
    says = "none.zarr.json is not a Gram of rescntk.stored: FileNotFound"
    with pytest.raises(ValueError, match=says):
        stored.open(tmp_path / "none")


def test_a_folder_may_have_a_colon(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a:b").mkdir()
    assert compute("a:b", signals(3)).complete


def refuse(*_, **__):
    raise PermissionError("not here")


def test_disks_without_links_and_folders_without_rights(path, monkeypatch):
    monkeypatch.setattr(os, "link", refuse)
    compute(path, signals(3))
    assert not list(path.glob("*.partial")) and stored.open(path).complete
    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(PermissionError, match="not here"):
        compute(path.with_name("other"), signals(3))


DESCRIBED = [
    ({"block": 0}, "block is 0, expected an integer of at least 1"),
    ({"kinds": ["../other"]}, r"kinds is '../other', expected one of 'gpk', 'ntk'"),
    ({"kinds": []}, "kinds is"),
    ({"dtype": "<U9"}, "dtype is"),
    ({"depths": []}, "depths is empty"),
    ({"depths": 3}, "depths is 3, expected a sequence"),
    ({"X": {"shape": [-1, 2, 8]}}, "the length of X is -1, expected an integer of at least 1"),
    ({"X": {"shape": [10**12, 2, 8]}}, "the length of X is 10{12}, expected at most"),
    ({"Z": {"shape": ["9"]}}, "the length of Z is '9', expected an integer"),
    ({"Z": 1}, "Z is 1, expected an object of names and values"),
    ({"X": {"shape": []}}, "the length of X is None, expected an integer of at least 1"),
    (
        {"X": {"shape": [2**31, 2, 8], "checksum": "0"}, "block": 1},
        "list of blocks of .* takes at least",
    ),
]


@pytest.mark.parametrize(("changes", "says"), DESCRIBED)
@pytest.mark.parametrize("call", OPEN_OR_COMPUTE)
def test_descriptions_are_checked_like_arguments(path, changes, says, call):
    compute(path, signals(3))
    file = path / "zarr.json"
    group = json.loads(file.read_text())
    group["attributes"]["rescntk"] |= changes
    file.write_text(json.dumps(group))
    with pytest.raises((ValueError, MemoryError), match=says) as refusal:
        call(path)
    assert str(file) in str(refusal.value)


def places(value, place=()):
    """Yield the places of all values in what JSON holds, the whole at last."""
    if isinstance(value, dict | list):
        for name, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inside, (*place, name))
    yield place


GONE = object()
OTHERS = GONE, None, "x", True, -1, 7, 2.5, [], [3], {}, [None] * 200


def changed(value, place, other):
    """Return a copy of what JSON holds with another value in a place, or none."""
    if not place:
        return other
    value, (name, *inside) = value.copy(), place
    if inside or other is not GONE:
        value[name] = changed(value[name], inside, other)
    else:
        del value[name]
    return value


def refusal(call):
    """Return the message of the ValueError that a call ends with, or None."""
    try:
        call()
    except ValueError as error:
        return str(error)


def follow(remedy):
    """Delete the file or folder that a message says to delete."""
    assert len(remedy) <= 1000 and remedy.endswith("call stored.gram again")
    where, *_, what = remedy.split(": ")
    place = Path(where.split(" ")[0])
    if "delete it" in what:
        place.unlink()
    elif "delete this one" in what:
        shutil.rmtree(place.parent if place.name == "zarr.json" else place)


DAMAGED = ("", "null", "[]", "7", "{", '"x"', "\ud800", "[" * 5000, '{"a": 1', "\0")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["zarr.json", "ntk/zarr.json"])
def test_damaged_files_have_a_remedy(path, tmp_path, name):
    """Each value of each file, changed in each way: values are right, or there is a remedy."""
    X, options = lists(2), {"depths": (1, 2), "kinds": "ntk", "engine": "reference"}
    good = compute(path, X, **options).ntk[...]
    text = (path / name).read_text()
    content, damaged = json.loads(text), [each.encode("utf-8", "surrogatepass") for each in DAMAGED]
    for place, other in product(places(content), OTHERS):
        if place or other is not GONE:
            damaged.append(json.dumps(changed(content, place, other)).encode())
    damaged = [each for each in dict.fromkeys(damaged) if json.dumps(content).encode() != each]
    assert len(damaged) > 200
    for k, each in enumerate(damaged):
        copy = shutil.copytree(path, tmp_path / str(k))
        (copy / name).write_bytes(each)
        before, call = contents(copy), partial(compute, copy, X, **options)
        for read in (partial(stored.open, copy), call):
            says = refusal(lambda read=read: read().ntk)
            assert says or (read().ntk[...] == good).all(), each
            assert says is None or says.endswith("call stored.gram again"), each
            assert contents(copy) == before, each
        if says:  # of the call
            follow(says)
            assert_same(call(), X, **options)
        shutil.rmtree(copy)


@pytest.mark.parametrize("text", ["", "null", "{", None])
@pytest.mark.parametrize("kind", ["gpk", "ntk"])
def test_arrays_are_described_again_where_all_values_are_there(path, kind, text, computed):
    compute(path, signals(BLOCK + 3))
    file, done = path / kind / "zarr.json", len(computed())
    file.unlink() if text is None else file.write_text(text)
    if text is not None:
        for call in (lambda: getattr(stored.open(path), kind), lambda: compute(path, signals(11))):
            with pytest.raises(ValueError, match=f"^{file} is damaged.*: delete it, and call stor"):
                call()
        file.unlink()
    with pytest.raises(ValueError, match=f"^{file} is not there: .*: call stored.gram again"):
        getattr(stored.open(path), kind)
    assert_same(compute(path, signals(BLOCK + 3)), signals(BLOCK + 3))
    assert len(computed()) == done


@pytest.mark.parametrize("left", [0, 3, -1])
def test_chunks_without_all_bytes_are_computed_again(path, computed, left):
    compute(path, signals(BLOCK + 3))
    for file in (path / "ntk/c/0/1", path / "gpk/c/1/1"):
        file.write_bytes(file.read_bytes()[:left])
    assert stored.open(path).missing == [(0, 1), (1, 1)]
    assert_same(compute(path, signals(BLOCK + 3)), signals(BLOCK + 3))
    assert sorted(computed())[1:3] == [(0, 1), (0, 1)] and len(computed()) == 5


@pytest.mark.parametrize(
    "read", [lambda K: K.ntk[:], lambda K: K.ntk[-1, -1], lambda K: K @ np.ones(BLOCK + 3)]
)
def test_a_chunk_with_another_byte_is_named(path, read):
    K, file = compute(path, signals(BLOCK + 3), kinds="ntk"), path / "ntk/c/1/1"
    file.write_bytes(file.read_bytes()[:-5] + b"?" + file.read_bytes()[-4:])
    with pytest.raises(ValueError, match="ntk.c.1.1 is damaged, expected .*: delete it, and"):
        read(K)
    file.unlink()
    assert_same(compute(path, signals(BLOCK + 3), kinds="ntk"), signals(BLOCK + 3), kinds="ntk")


def share(path, n, barrier, queue):
    """Compute a Gram beside other processes, and report the number of blocks computed here."""
    original, calls = rk.kernels.gram, []
    rk.kernels.gram = lambda **options: (calls.append(0), time.sleep(0.05), original(**options))[2]
    barrier.wait()
    try:
        queue.put(compute(path, signals(n)).complete and len(calls) - 1)
    except Exception as error:
        queue.put(repr(error))


@pytest.mark.slow
def test_processes_that_begin_at_once_share_the_work(path):
    """Blocks are computed twice only where two processes are at one of them at once."""
    spawn, n, blocks = multiprocessing.get_context("spawn"), 6 * BLOCK + 3, 28
    barrier, queue = spawn.Barrier(4), spawn.Queue()
    jobs = [spawn.Process(target=share, args=(path, n, barrier, queue)) for _ in range(4)]
    for job in jobs:
        job.start()
    found = [queue.get(timeout=100) for _ in jobs]
    for job in jobs:
        job.join()
    assert all(isinstance(number, int) for number in found), found
    assert blocks <= sum(found) < 2 * blocks
    assert_same(stored.open(path), signals(n))
    assert not list(path.rglob("*.partial"))


ANOTHER = [
    ({"X": signals(5, seed=5)}, "X checksum is '.*' there, '.*' here"),
    ({"X": lists(5)}, r"X shape is \[5, 2, 8\] there, \[5, 2, \[4, 5, 6, 4, 5\]\] here"),
    ({"Z": signals(3)}, "Z is None there, .* here"),
    ({"network": NET.replace(alpha=0.5)}, "network alpha is 1.0 there, 0.5 here: give"),
    ({"head": "trace", "normalized": True}, "head is 'gap' there, .*; normalized is False"),
    (
        {"kinds": "ntk"},
        r"kinds is \['gpk', 'ntk'\] there, \['ntk'\] here: give",
    ),
    ({"block": 4}, "block is 8 there, 4 here: give"),
    ({"engine": "reference"}, "engine is 'auto' there, 'reference' here: give"),
]


@pytest.mark.parametrize(("changes", "message"), ANOTHER)
def test_another_computation_is_refused_and_changes_no_file(changes, message, path):
    compute(path, signals(5))
    before = contents(path)
    with pytest.raises(ValueError, match=f"K.zarr holds another computation: .*{message}"):
        stored.gram(path, **{"network": NET, "X": signals(5), "block": BLOCK, **changes})
    assert contents(path) == before


def test_another_version_reads_values_and_computes_none(path, monkeypatch):
    compute(path, signals(5))
    before = contents(path)
    monkeypatch.setattr(stored, "__version__", "99")
    with pytest.raises(ValueError, match="version is '.*' there, '99' here"):
        compute(path, signals(5))
    assert stored.open(path).complete
    with pytest.raises(ValueError, match="a worker has rescntk 99, expected .* as in .*K.zarr"):
        stored._compute_block(path, (0, 0), None, None, {})
    assert contents(path) == before


WRONG = [
    ({"block": 0}, "block is 0, expected an integer"),
    ({"engine": "gpu"}, "engine is 'gpu', expected one of 'auto', 'reference', 'cpu', 'cuda'"),
    ({"client": "here"}, "client is 'here', expected a running dask.distributed.Client"),
    ({"X": lists(3), "head": "trace"}, "head is 'trace', which takes signals of one length"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_wrong_arguments_are_refused_before_a_value_is_written(wrong, message, path):
    with pytest.raises(ValueError, match=message):
        stored.gram(path, **{"network": NET, "X": signals(3), **wrong})
    assert not list(path.rglob("c"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("on_workers", [False, True])
def test_an_engine_is_refused_where_it_does_not_work(path, monkeypatch, on_workers):
    """On the workers, if there are some: this process may be without a GPU."""
    monkeypatch.setitem(sys.modules, "cupy", None)
    with (
        distributed.Client(n_workers=1, dashboard_address=None, processes=False) as client,
        pytest.raises(ValueError, match="engine='cuda' cannot compute this call: CuPy does"),
    ):
        compute(path, signals(3), engine="cuda", client=client if on_workers else None)
    assert not path.exists()


@pytest.mark.parametrize(
    ("usage", "error", "says"),
    [
        (
            lambda _: SimpleNamespace(free=3199),
            OSError,
            "K.zarr needs 3,200 bytes, and its disk has 3,199 free",
        ),
        (lambda _: 1 / 0, ZeroDivisionError, "division"),
    ],
    ids=["full disk", "early end"],
)
def test_a_full_disk_and_an_early_end(path, monkeypatch, computed, usage, error, says):
    """Refused before the work; the description is whole, and the arrays are made anew."""
    monkeypatch.setattr("shutil.disk_usage", usage)
    with pytest.raises(error, match=says):
        compute(path, signals(20))
    assert not computed() and stored.open(path).missing[:1] == [(0, 0)]
    monkeypatch.undo()
    assert_same(compute(path, signals(20)), signals(20))


JOB = """
import sys, time
import numpy as np
from rescntk import Network, stored
original = stored._compute_block
stored._compute_block = lambda *arguments: (time.sleep(0.05), original(*arguments))
path, signals, block = sys.argv[1:]
stored.gram(path, Network(2), np.load(signals), block=int(block), progress=False)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_a_killed_process_is_resumed(path, computed, rng):
    """Blocks that are on disk stay there with their bytes; the others are computed."""
    n, blocks = 6 * BLOCK + 3, 28
    file = path.with_name("signals.npy")
    np.save(file, signals(n))
    command = [sys.executable, "-c", JOB, str(path), str(file), str(BLOCK)]
    job = subprocess.Popen(command, cwd=Path(__file__).parents[1])
    end, wanted = time.monotonic() + 60, 2 + rng.integers(1, 20)  # of three one block is whole
    while len(list(path.glob("ntk/c/*/*"))) < wanted:
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.005)
    job.kill()
    job.wait()
    K = stored.open(path)
    missing = K.missing
    assert 0 < len(missing) < blocks and not K.complete
    assert f"{len(missing)} blocks missing" in repr(K)
    assert np.isnan(K.ntk[tuple(BLOCK * k for k in missing[-1])])
    with pytest.raises(ValueError, match=f"lacks {len(missing)} blocks, expected none: resume it"):
        K.matrix("ntk")
    there = {*K._blocks()} - {*missing}
    written = [(file, file.stat().st_mtime_ns) for block in there for file in K._files(block)]
    assert_same(compute(path, signals(n)), signals(n))
    assert sorted(computed()) == missing
    assert all(file.stat().st_mtime_ns == then for file, then in written)


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


def test_products_and_equations(path, rng):
    X = signals(2 * BLOCK + 3)
    K, V = compute(path, X, kinds="ntk"), rng.standard_normal((len(X), 3))
    dense = rk.gram(NET, X, dtype="float32").ntk.astype(float)
    for v in (V, V[:, 0], V[:, :1]):
        # 19 products of a row in float64, in another order.
        assert np.abs(K @ v - dense @ v).max() <= 19 * 2e-16 * (np.abs(dense) @ np.abs(v)).max()
    found = regression.solve(K, V, 0.5, tolerance=1e-10)
    assert np.allclose(found, regression.ridge(dense, V, 0.5), rtol=1e-6, atol=1e-8)


def test_a_matrix_of_one_kernel_of_several(path):
    X, Z = signals(BLOCK + 1), signals(3, seed=1)
    several = compute(path, X, Z, depths=(1, 3))
    expected = rk.gram(NET, X, Z, depths=(1, 3), dtype="float32").gpk[1].astype(float)
    assert np.allclose(several.matrix("gpk", 3) @ Z[:, 0, 0], expected @ Z[:, 0, 0], rtol=1e-12)


ONE, SEVERAL = {"kinds": "ntk"}, {"depths": (1, 3)}


@pytest.mark.parametrize(
    ("options", "read", "says"),
    [
        (ONE, lambda K: K.gpk, "kind is 'gpk', expected one of 'ntk'"),
        (ONE, lambda K: K @ np.ones(4), "[Dd]imension mismatch"),
        (SEVERAL, lambda K: K @ np.ones(3), "kind is None, expected one of 'gpk', 'ntk'"),
        (SEVERAL, lambda K: K.matrix("ntk"), r"depth is None, expected one of \[1, 3\]"),
        (SEVERAL, lambda K: K.matrix("ntk", 2), r"depth is 2, expected one of \[1, 3\]"),
    ],
)
def test_readings_are_refused(path, options, read, says):
    K = compute(path, signals(3), **options)
    with pytest.raises(ValueError, match=says):
        read(K)
