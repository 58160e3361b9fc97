"""Stored Grams under kills, among workers, with two jobs at once, and where nothing can be written.

Real processes are killed with SIGKILL; what is resumed has the bits of one call in memory.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import distributed
import pytest

from rescntk import stored
from rescntk.stored import jobs
from rescntk.stored.folder import Folder
from rescntk.stored.places import locked
from tests.processes import run
from tests.stored.cases import BLOCK, assert_same, compute, in_memory, signals

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="SIGKILL")]

JOB = """
import sys, time
from rescntk.stored import jobs
from tests.stored.cases import compute, signals
original = jobs.compute_block
def slowly(*arguments):
    time.sleep(0.1)
    return original(*arguments)
jobs.compute_block = slowly
compute(sys.argv[1], signals(int(sys.argv[2])))
"""


def finished(path):
    """Return the number of blocks on disk."""
    try:
        K = stored.open(path)
    except (OSError, ValueError):  # the folder is not there yet
        return 0
    n = -(-K.shape[-1] // BLOCK)
    return n * (n + 1) // 2 - len(K.missing)


def start(path, n, blocks):
    """Start a job in a process of its own, and wait until some blocks are finished."""
    root, command = Path(__file__).parents[2], [sys.executable, "-c", JOB, str(path), str(n)]
    job = subprocess.Popen(command, cwd=root, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    end = time.monotonic() + 60
    while finished(path) < blocks:
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.005)
    return job


def test_kill_of_the_whole_job(tmp_path, monkeypatch, rng):
    path, n = tmp_path / "K.zarr", 8 * BLOCK + 3
    job, X = start(path, n, rng.integers(1, 20)), signals(n)
    with pytest.raises(RuntimeError, match=f"by process {job.pid} on {socket.gethostname()}"):
        compute(path, X)
    with pytest.raises(RuntimeError, match=f"by process {job.pid}"):
        stored.open(path).append(signals(1), progress=False)
    time.sleep(rng.uniform(0, 0.2))
    os.kill(job.pid, signal.SIGKILL)  # not waited for: the lock's process is a zombie
    time.sleep(0.1)
    missing = stored.open(path).missing
    assert 0 < len(missing) < 45
    files = [*path.glob("gpk/c/*/*"), *path.glob("ntk/c/*/*")]
    written = {tuple(map(int, file.parts[-2:])) for file in files if file.name.isdigit()}
    assert len(written & set(missing)) <= 1  # at most one block is computed twice
    again, original = [], jobs.compute_block
    monkeypatch.setattr(jobs, "compute_block", lambda *a: (again.append(a[1]), original(*a))[1])
    assert_same(compute(path, X), in_memory(X))
    assert again == missing
    assert not list(path.rglob("*.partial"))
    job.communicate()


def test_locks(tmp_path):
    path = tmp_path / "K.zarr"
    compute(path, signals(3))
    lock = path / "lock"
    with locked(path), pytest.raises(RuntimeError, match=f"by process {os.getpid()}"), locked(path):
        pass
    dead = {"host": socket.gethostname(), "pid": os.getpid()}
    odd = '{"host": null, "pid": Infinity}', json.dumps({**dead, "pid": -1}), "{", "7", ""
    for stale in (json.dumps(dead).encode(), b"\xff\x00", *(text.encode() for text in odd)):
        lock.write_bytes(stale)  # as of a dead process, or cut by a kill
        with locked(path):
            pass
    lock.write_text(json.dumps({**dead, "host": "elsewhere"}))
    message = f"on elsewhere; if no such job runs, delete {lock}"
    with pytest.raises(RuntimeError, match=message), locked(path):
        pass


READ_ONLY = """
import os, tempfile
from pathlib import Path
from rescntk import stored
from tests.stored.cases import BLOCK, compute, signals

X, folder = signals(BLOCK + 1), Path(tempfile.mkdtemp())
done, begun, new = (folder / name for name in ("done.zarr", "begun.zarr", "new.zarr"))
for path in (done, begun):
    compute(path, X)
(begun / "ntk" / "c" / "1" / "1").unlink()  # the last block
for place in [folder, *folder.rglob("*")]:
    place.chmod(0o555 if place.is_dir() else 0o444)
if os.geteuid() == 0:
    os.seteuid(65534)
print(compute(done, X).complete)  # reading alone is enough
for path in (begun, new):
    try:
        compute(path, X)
    except PermissionError as error:
        print(path.name in str(error))
print(len(stored.open(begun).missing))
os.seteuid(os.getuid())
os.system(f"chmod -R u+w {folder} && rm -r {folder}")
"""


def test_a_read_only_folder():
    assert run(READ_ONLY).split() == ["True", "True", "True", "1"]


def test_a_full_disk(tmp_path, monkeypatch):
    path, X = tmp_path / "K.zarr", signals(2 * BLOCK)
    original = Folder.write

    def full(folder, block, values):
        if finished(path) == 1:
            raise OSError(28, "No space left on device")
        original(folder, block, values)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "write", full)
        with pytest.raises(OSError, match="No space left"):
            compute(path, X)
    assert len(stored.open(path).missing) == 2
    assert_same(compute(path, X), in_memory(X))


@pytest.fixture(scope="module")
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def test_workers_compute_the_same_bits(tmp_path, cluster):
    X, Z = signals(5 * BLOCK + 3), signals(BLOCK + 1, seed=1)
    K = compute(tmp_path / "K.zarr", X[:-9], client=cluster, normalized=True)
    assert_same(K.append(X[-9:], client=cluster, progress=False), in_memory(X, normalized=True))
    assert_same(compute(tmp_path / "R.zarr", X, Z, client=cluster), in_memory(X, Z))


def test_kill_of_a_worker(tmp_path, cluster, monkeypatch):
    X = signals(6 * BLOCK)
    worker, *_ = cluster.run(os.getpid).values()

    def kill_after_seven(*arguments):
        def count(blocks):
            done.append(blocks)
            if len(done) == 7:
                os.kill(worker, signal.SIGKILL)

        original(*arguments[:-1], count)

    original, done = jobs.compute, []
    monkeypatch.setattr(jobs, "compute", kill_after_seven)
    assert_same(compute(tmp_path / "K.zarr", X, client=cluster), in_memory(X))
    assert len(done) == 21 and (tmp_path / "K.zarr" / "lock").read_text() == ""


def test_an_error_is_raised_as_in_memory(tmp_path, cluster):
    for client in (None, cluster):
        with pytest.raises(OverflowError):
            compute(tmp_path / "K.zarr", 1e30 * signals(3 * BLOCK), client=client)
    X = signals(2 * BLOCK)
    assert_same(compute(tmp_path / "other.zarr", X, client=cluster), in_memory(X))


def test_clients_are_checked_first(tmp_path):
    with distributed.Client(processes=False, n_workers=1, dashboard_address=":0") as closed:
        pass
    K = compute(tmp_path / "K.zarr", signals(3))
    for client, message in (
        ("tcp://127.0.0.1:1", "client is 'tcp://127.0.0.1:1', expected a dask.distributed.Client"),
        (4, "client is 4, expected a dask"),
        (closed, "client is closed, expected a running"),
    ):
        for call in (
            lambda client: compute(tmp_path / "new.zarr", signals(3), client=client),
            lambda client: K.append(signals(1), client=client),
            lambda client: K.resume(client=client),
        ):
            with pytest.raises(ValueError, match=message):
                call(client)
    assert not (tmp_path / "new.zarr").exists() and K.shape == stored.open(K.path).shape
