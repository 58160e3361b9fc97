"""Work on a stored Gram: by several processes, after early ends, and calls that differ."""

import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import rescntk as rk
from tests.stored.grams import (
    BLOCK,
    NET,
    assert_same,
    compute,
    contents,
    description,
    distributed,
    lists,
    matrix,
    signals,
    stored,
)


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
    ({"engine": "array"}, "engine is 'auto' there, 'array' here: give"),
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
    for module in (matrix, description):
        monkeypatch.setattr(module, "__version__", "99")
    with pytest.raises(ValueError, match="version is '.*' there, '99' here"):
        compute(path, signals(5))
    assert stored.open(path).complete
    with pytest.raises(ValueError, match="a worker has rescntk 99, expected .* as in .*K.zarr"):
        matrix._compute_block(path, (0, 0), None, None, {})
    assert contents(path) == before


WRONG = [
    ({"block": 0}, "block is 0, expected an integer"),
    ({"engine": "gpu"}, "engine is 'gpu', expected one of 'auto', 'textbook', 'array'"),
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
    """If there are workers, the engine must work there. This process may have no GPU."""
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
def test_a_call_that_failed_before_its_work_can_be_made_again(
    path, monkeypatch, computed, usage, error, says
):
    """The description was already written, and the arrays are then created."""
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
from rescntk.stored import matrix
original = matrix._compute_block
matrix._compute_block = lambda *arguments: (time.sleep(0.05), original(*arguments))
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
    job = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    end, wanted = time.monotonic() + 60, 2 + rng.integers(1, 20)  # of three one block is whole
    while len(list(path.glob("ntk/c/*/*"))) < wanted:
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.005)
    job.kill()
    job.wait()
    K = stored.open(path)
    missing = K.missing
    assert 0 < len(missing) < blocks and not K.complete
    assert np.isnan(K.ntk[tuple(BLOCK * k for k in missing[-1])])
    with pytest.raises(ValueError, match=f"lacks {len(missing)} blocks, expected none: resume it"):
        K.matrix("ntk")
    there = {*K._blocks()} - {*missing}
    written = [(file, file.stat().st_mtime_ns) for block in there for file in K._files(block)]
    assert_same(compute(path, signals(n)), signals(n))
    assert sorted(computed()) == missing
    assert all(file.stat().st_mtime_ns == then for file, then in written)


OF_DASK = 3 * BLOCK + 1
"""Number of signals that workers of dask compute with."""


@pytest.fixture(scope="module")
def client():
    workers = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with distributed.Client(processes=False, **workers) as running:
            yield running


@pytest.mark.slow
@pytest.mark.parametrize("batch", [signals, lists])
def test_workers_of_dask_compute_the_same(path, batch, client):
    assert_same(compute(path, batch(OF_DASK), client=client), batch(OF_DASK))


@pytest.mark.slow
@pytest.mark.parametrize("batch", [signals, lists])
def test_workers_of_dask_compute_missing_blocks(path, batch, client):
    compute(path, batch(OF_DASK), client=client)
    for file in path.glob("ntk/c/1/*"):
        file.unlink()
    assert compute(path, batch(OF_DASK), client=client).complete


@pytest.mark.slow
def test_workers_of_dask_refuse_other_networks(path, client):
    compute(path, signals(OF_DASK), client=client)
    other = NET.replace(depth=3)
    with pytest.raises(ValueError, match="network depth is 2 there, 3 here"):
        stored.gram(path, other, signals(OF_DASK), block=BLOCK, client=client)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_client_that_is_closed_is_refused(path):
    with distributed.Client(processes=False, n_workers=1, dashboard_address=None) as closed:
        pass
    with pytest.raises(ValueError, match="client is .*, expected a running dask"):
        compute(path, signals(OF_DASK), client=closed)
