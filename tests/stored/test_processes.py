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

import pytest

pytest.importorskip("zarr")
pytest.importorskip("distributed")

import distributed

from rescntk import stored
from rescntk.stored import jobs
from rescntk.stored.folder import Folder
from rescntk.stored.lock import locked
from tests.stored.cases import BLOCK, assert_same, compute, in_memory, signals

pytestmark = [pytest.mark.skipif(os.name == "nt", reason="SIGKILL"), pytest.mark.slow]
ROOT = Path(__file__).parents[2]

JOB = """
import sys, time
from rescntk.stored import jobs
from tests.stored.cases import compute, signals
original = jobs.compute_block
def slowly(*arguments):
    time.sleep(0.03)
    original(*arguments)
jobs.compute_block = slowly
compute(sys.argv[1], signals(int(sys.argv[2])))
"""


def start(path, n, script=JOB, **options):
    """Start a job in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script, str(path), str(n)]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, **options)


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.005)


def finished(path):
    """Return the number of blocks recorded."""
    record = path / "record" / "blocks.txt"
    return record.read_text().count(";\n") if record.exists() else 0


def chunks(path, kind="ntk"):
    """Return the chunks in the upper half."""
    found = [
        tuple(map(int, file.parts[-2:]))
        for file in (path / kind / "c").glob("*/*")
        if file.name.isdigit()
    ]
    return {chunk for chunk in found if chunk[0] <= chunk[1]}


def test_kill_of_the_whole_job(tmp_path, monkeypatch, rng):
    path, n = tmp_path / "K.zarr", 8 * BLOCK + 3
    job = start(path, n)
    wait_for(lambda: finished(path) >= rng.integers(1, 20))
    time.sleep(rng.uniform(0, 0.06))
    os.kill(job.pid, signal.SIGKILL)  # not waited for: the lock's process is a zombie
    time.sleep(0.1)
    K, X = stored.open(path), signals(n)
    missing = K.missing
    assert 0 < len(missing) < 45
    written = chunks(path, "gpk") | chunks(path)
    assert len(written & set(missing)) <= 1  # at most one block is computed twice
    again, original = [], jobs.compute_block
    monkeypatch.setattr(jobs, "compute_block", lambda *a: (again.append(a[1][:2]), original(*a)))
    assert_same(compute(path, X), in_memory(X))
    assert again == missing
    assert not list(path.rglob("*.partial"))
    job.communicate()


def test_two_jobs_on_one_folder(tmp_path):
    path, n = tmp_path / "K.zarr", 8 * BLOCK
    job = start(path, n)
    wait_for(lambda: finished(path) >= 1)
    with pytest.raises(RuntimeError, match=f"by process {job.pid} on {socket.gethostname()}"):
        compute(path, signals(n))
    with pytest.raises(RuntimeError, match=f"by process {job.pid}"):
        stored.open(path).append(signals(1), progress=False)
    job.kill()
    job.communicate()
    X = signals(n)
    assert_same(compute(path, X), in_memory(X))


def test_locks(tmp_path):
    path = tmp_path / "K.zarr"
    compute(path, signals(3))
    lock = path / "record" / "lock"
    with locked(path), pytest.raises(RuntimeError, match=f"by process {os.getpid()}"), locked(path):
        pass
    own = {"host": socket.gethostname(), "pid": os.getpid(), "start": 0.0}
    for stale in (json.dumps(own), "{", ""):  # a later process of the same number; cut by a kill
        lock.write_text(stale)
        with locked(path):
            pass
    lock.write_text(json.dumps({**own, "host": "elsewhere"}))
    message = f"on elsewhere; if no such job runs, delete {lock}"
    with pytest.raises(RuntimeError, match=message), locked(path):
        pass


READ_ONLY = """
import os, sys
from rescntk import stored
from tests.stored.cases import compute, signals
folder, n = sys.argv[1], int(sys.argv[2])
compute(folder + "/warm.zarr", signals(n))  # imports happen before the change of user
os.chmod(folder, 0o555)
done, begun = folder + "/done.zarr", folder + "/begun.zarr"
if os.geteuid() == 0:
    os.setuid(65534)
assert compute(done, signals(n)).complete  # reading alone is enough
for path in (begun, folder + "/new.zarr"):
    try:
        compute(path, signals(n))
    except PermissionError as error:
        assert path in str(error) or ".new.zarr" in str(error), error
    else:
        raise AssertionError(path)
assert len(stored.open(begun).missing) == 1
"""


def test_a_read_only_folder(tmp_path):
    n = BLOCK + 1
    for name in ("done.zarr", "begun.zarr"):
        compute(tmp_path / name, signals(n))
    record = tmp_path / "begun.zarr" / "record" / "blocks.txt"
    record.write_text(record.read_text().replace("1 1 1 1 ;\n", ""))
    places = [tmp_path, *tmp_path.parents][:4]
    modes = {place: place.stat().st_mode for place in places}
    try:
        for place in places[1:]:  # another user has to reach the folder
            place.chmod(modes[place] | 0o055)
        for place in [*(tmp_path / "done.zarr").rglob("*"), *(tmp_path / "begun.zarr").rglob("*")]:
            place.chmod(0o555 if place.is_dir() else 0o444)
        job = start(tmp_path, n, READ_ONLY)
        assert job.wait(60) == 0, job.stderr.read().decode()
    finally:
        for place, mode in modes.items():
            place.chmod(mode)


def test_a_full_disk(tmp_path, monkeypatch):
    path, X = tmp_path / "K.zarr", signals(2 * BLOCK)
    original = os.fsync

    def full(handle):
        if finished(path) == 1 and "/ntk/" in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(28, "No space left on device")
        original(handle)

    if not Path("/proc/self/fd").exists():
        pytest.skip("no /proc")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        compute(path, X)
    assert len(stored.open(path).missing) == 2
    monkeypatch.undo()
    assert_same(compute(path, X), in_memory(X))


# ---------------------------------------------------------------- workers


@pytest.fixture(scope="module")
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def test_workers_compute_the_same_bits(tmp_path, cluster):
    X, Z = signals(5 * BLOCK + 3), signals(BLOCK + 1, seed=1)
    K = compute(tmp_path / "K.zarr", X[:-9], client=cluster, normalized=True)
    assert_same(K, in_memory(X[:-9], normalized=True))
    assert_same(K.append(X[-9:], client=cluster, progress=False), in_memory(X, normalized=True))
    assert_same(compute(tmp_path / "R.zarr", X, Z, client=cluster), in_memory(X, Z))


def test_kill_of_a_worker(tmp_path, cluster, monkeypatch):
    X, killed = signals(8 * BLOCK), []
    workers = list(cluster.run(os.getpid).values())

    def mark_and_kill(folder, blocks):
        mark(folder, blocks)
        if finished(folder.path) == 7 and not killed:
            killed.append(workers[0])
            os.kill(workers[0], signal.SIGKILL)

    mark = Folder.mark
    monkeypatch.setattr(Folder, "mark", mark_and_kill)
    assert_same(compute(tmp_path / "K.zarr", X, client=cluster), in_memory(X))
    assert killed and (tmp_path / "K.zarr" / "record" / "lock").read_text() == ""


def test_an_error_on_a_worker_is_raised(tmp_path, cluster):
    with pytest.raises(OverflowError):
        compute(tmp_path / "K.zarr", 1e30 * signals(3 * BLOCK), client=cluster)
    X = signals(2 * BLOCK)
    assert_same(compute(tmp_path / "other.zarr", X, client=cluster), in_memory(X))
