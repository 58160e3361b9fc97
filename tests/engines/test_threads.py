"""Threads of a call and of its caller, Ctrl-C, and forks."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk import engines
from rescntk.checks.values import KINDS
from rescntk.engines import work
from rescntk.engines.array import pairs as array_pairs
from rescntk.engines.cpu import engine
from rescntk.engines.request import Request
from rescntk.engines.signals import tables
from rescntk.network.activations import ACTIVATIONS
from tests import tolerances
from tests.helpers import CPU, HEADS, rarely


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity there")
def test_threads_follow_the_processors_of_the_process(monkeypatch):
    """By default there is a thread for each of them, up to the limit of the container."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    mine = os.sched_getaffinity(0)
    try:
        for some in ({min(mine)}, mine):
            os.sched_setaffinity(0, some)
            for quota in (sys.maxsize, 1):
                monkeypatch.setattr(work, "_quota", lambda quota=quota: quota)
                assert engine._threads() == min(len(some), quota)
    finally:
        os.sched_setaffinity(0, mine)


@pytest.mark.parametrize(
    ("text", "processors"), [("max 100000", sys.maxsize), ("150000 100000", 2), ("5 100000", 1)]
)
def test_the_limit_of_a_container_limits_threads(text, processors, monkeypatch):
    monkeypatch.setattr(work.Path, "read_text", lambda _: text)
    assert work._quota.__wrapped__() == processors


CODE = """
import threading, time
import numpy as np, rescntk as rk
options = {{"engine": {engine!r}, "threads": {threads}}}
network, X = rk.Network(50), np.random.default_rng(0).standard_normal((2, 2, 20_000))
if {head!r} == "trace":
    X = np.tile(X, (30, 1, 5))
elif {engine!r} == "array":
    X = np.tile(X[..., :400], (1000, 1, 1))
first = rk.gram(rk.Network(3), X[:2, :, :100], **options)
print("starts", flush=True)
try:
    rk.gram(network, X[:-1], X[-1:] if {head!r} == "gap" else X, head={head!r}, **options)
except KeyboardInterrupt:
    print("ends", flush=True)
before = time.process_time()
time.sleep(0.3)
idle = time.process_time() - before < 0.1
again = rk.gram(rk.Network(3), X[:2, :, :100], **options)
print(threading.active_count(), idle, np.array_equal(first, again))
"""


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is another event there")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "threads", "head"),
    [*[*product(CPU, (1, 2), ("gap",))][1:], (CPU[-1], 2, "trace")],
)
def test_a_long_call_is_interrupted(engine, threads, head):
    """Without the interruption the call would take more than a minute."""
    command = [sys.executable, "-c", CODE.format(engine=engine, threads=threads, head=head)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "starts\n"
            time.sleep(1.5)  # tables are made, and layers run
            process.send_signal(signal.SIGINT)
            sent = time.monotonic()
            assert process.stdout.readline() == "ends\n"
            assert time.monotonic() - sent < tolerances.REACTION
            assert process.stdout.read() == "1 True True\n"
        finally:
            process.kill()


class Counted(np.ndarray):
    """Arrays that count the numbers that are computed since the engine last called `check_stop`."""

    since = most = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        plain = [x.view(np.ndarray) if isinstance(x, Counted) else x for x in inputs]
        if out:
            options["out"] = tuple(x.view(np.ndarray) for x in out)
        found = np.asarray(getattr(ufunc, method)(*plain, **options))
        Counted.since += max(np.size(x) for x in (found, *plain))
        Counted.most = max(Counted.most, Counted.since)
        return found.view(Counted)

    @staticmethod
    def looked():
        Counted.since = 0
        return np.zeros(1, np.int64)


LONG_STEPS = [
    *product(ACTIVATIONS, [*HEADS, 11], [{}, {"filter_size": 31, "skip": False}]),
    *product(ACTIVATIONS, ["gap"], [{"bias": 0.1}, {"input_filter_size": 13}, {"alpha": 0.01}]),
]


@pytest.mark.parametrize(("activation", "head", "fields"), LONG_STEPS)
@pytest.mark.parametrize("channels", [1, *rarely(40)])
def test_the_engine_array_looks_for_its_end_every_few_steps(
    activation, head, fields, channels, monkeypatch, rng
):
    """Time is measured by the numbers that are computed. Between two looks these are six arrays of
    all pixel pairs, or the 386 arrays that GELU makes of a piece of them."""
    made, piece = tables.signal_tables, 16
    monkeypatch.setattr(array_pairs, "_PIECE", piece)
    monkeypatch.setattr(work, "stop_flag", Counted.looked)

    def counted(*arguments):
        tables_of = made(*arguments)
        return replace(tables_of, rows=tables_of.rows.view(Counted))

    monkeypatch.setattr("rescntk.engines.array.engine.signal_tables", counted)
    network, d = rk.Network(2, activation=activation, **fields), 30
    X = rng.standard_normal((1, channels, 600 if head in ("trace", "equivariant") else d))
    request = Request(network, head, KINDS, (2,))
    Counted.since = Counted.most = 0
    engines.ENGINES["array"].plan(request, X, X + 1.0).compute()
    pixel_pairs = X.shape[2] * request.n_offsets(X.shape[2])
    assert pixel_pairs <= Counted.most <= 6 * pixel_pairs + 400 * piece


FORKS = """
import os, threading
import numpy as np, rescntk as rk
def compute(seed, alpha):
    X = np.random.default_rng(seed).standard_normal((3, 1, 4))
    return rk.ResCNTK(2, alpha=alpha)(X, engine={engine!r}, threads=1)
def work():
    for k in range(10**9):
        if stopped:
            return
        compute(k, 1 + k / 1000)
compute(0, 1.0)
stopped = []
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for k in range(20):
    child = os.fork()
    if child == 0:
        compute(k, 2.0)
        os._exit(0)
    os.waitpid(child, 0)
stopped.append(True)
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize("engine", CPU)
def test_forks_compute_while_threads_do(engine):
    """Calls share no lock, which a fork could copy while it is taken."""
    command = [sys.executable, "-c", FORKS.format(engine=engine)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "done\n"


@pytest.mark.parametrize(("name", "kept"), [*product(CPU, [1 << 20]), (CPU[-1], 0)])
def test_threads_of_the_caller_may_compute_at_the_same_time(name, kept, monkeypatch, rng):
    """Calls at the same time have the results that they have one after the other.

    They have several networks and lengths, and share the tables of many blocks.
    """
    monkeypatch.setattr(engine, "_TABLE_BYTES", 20_000)
    monkeypatch.setattr(engine, "_HELD_BYTES", kept)
    kernel, Z = rk.ResCNTK(3), rng.standard_normal((20, 2, 9))
    prepared = kernel.prepare(Z, engine=name)

    def compute(k):
        X = Z[..., : 5 + k % 4]
        K = kernel.replace(depth=1 + k % 3)(X, engine=name, threads=1 + k % 2)
        return K, prepared(Z[k : k + 1] + 0.0)[0]

    expected = [compute(k) for k in range(20)]
    with ThreadPoolExecutor(4) as pool:
        for (K, row), (one, other) in zip(pool.map(compute, range(20)), expected, strict=True):
            assert (K == one).all() and (row == other).all()
