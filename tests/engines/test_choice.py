"""The engine that serves, with its reasons; Ctrl-C, forks and threads."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk import engines
from rescntk.arrays import SignalList
from rescntk.checks.values import KINDS
from rescntk.engines import work
from rescntk.engines.array import pairs as reference
from rescntk.engines.cpu import build, engine, library
from rescntk.engines.request import Request
from rescntk.engines.signals import tables
from rescntk.network.activations import ACTIVATIONS
from tests import tolerances
from tests.helpers import CPU, HEADS, needs_cpu, rarely

NETWORK = rk.Network(2)
REQUEST = Request(NETWORK, "gap", KINDS, (2,))
X = np.ones((2, 1, 3))
ERF = NETWORK.replace(activation="erf")


SIGNALS = [X, SignalList([X[0], X[0, :, :2]])]


@needs_cpu
@pytest.mark.parametrize("signals", SIGNALS, ids=["array", "list"])
@pytest.mark.parametrize(("network", "name"), [(NETWORK, "cpu"), (ERF, "array")])
def test_auto_is_the_fastest_engine_that_takes_the_call(network, name, signals):
    assert engines.choose("auto", replace(REQUEST, network=network), signals).name == name


@needs_cpu
@pytest.mark.parametrize(
    "call", [rk.Kernel(ERF, "ntk"), partial(rk.gram, ERF), partial(rk.pixel_pairs, ERF)]
)
def test_a_refusal_says_why_and_which_engines_can(call):
    with pytest.raises(ValueError, match=r"^engine='cpu' cannot compute this call") as refusal:
        call(X, engine="cpu")
    reason, serving = str(refusal.value).split("; engines that can: ")
    assert reason.endswith("it supports only activation='relu' (got 'erf')")
    assert "'array'" in serving and "'cpu'" not in serving


def test_an_engine_without_lists_refuses_them():
    with pytest.raises(ValueError, match="signals of one length, and these have different lengths"):
        rk.gram(NETWORK, [X[0], X[0, :, :2]], engine="cuda")


class Newest(type(engines.ENGINES["array"])):
    """An engine behind all others in the table."""

    name, missing_warning = "newest", "kernels are computed by another engine"


@pytest.fixture
def newest(monkeypatch):
    engines.warn_of_missing.cache_clear()
    monkeypatch.setattr(engines, "ENGINES", engines.ENGINES | {"newest": Newest()})


@pytest.mark.usefixtures("newest")
@pytest.mark.parametrize("lists", [True, False])
def test_auto_is_the_last_engine_of_the_table_that_serves(lists, monkeypatch):
    monkeypatch.setattr(Newest, "lists", lists)
    array, signals = SIGNALS
    assert engines.choose("auto", REQUEST, array).name == "newest"
    assert (engines.choose("auto", REQUEST, signals).name == "newest") is lists


@pytest.mark.usefixtures("newest")
@pytest.mark.parametrize(("arrays", "serves"), [("numpy", True), ("cupy", False)])
def test_auto_asks_an_engine_for_its_arrays_alone(arrays, serves, monkeypatch):
    monkeypatch.setattr(Newest, "auto_arrays", frozenset((arrays,)))
    assert (engines.choose("auto", REQUEST, X).name == "newest") is serves


@pytest.mark.usefixtures("newest")
def test_auto_tells_why_an_engine_does_not_work_here(monkeypatch):
    monkeypatch.setattr(Newest, "why_not", lambda _: "it is not built")
    with pytest.warns(UserWarning, match="computed by another engine: it is not built"):
        assert engines.choose("auto", REQUEST, X).name != "newest"


@pytest.mark.filterwarnings("ignore:kernels are computed by another engine")
def test_auto_without_any_engine_is_refused(monkeypatch):
    monkeypatch.setattr(Newest, "why_not", lambda _: "it is not built")
    monkeypatch.setattr(engines, "ENGINES", {"newest": Newest()})
    with pytest.raises(ValueError, match="no engine can compute .* numpy arrays: it is not built"):
        engines.choose("auto", REQUEST, X)


@pytest.fixture(autouse=True)
def forgotten():
    """Look for the compiled library anew, for each test."""
    library.library.cache_clear()
    yield
    library.library.cache_clear()
    if engines.available()["cpu"] is True:
        engines.warn_of_missing.cache_clear()


def refused():
    """Return why there are no compiled loops, after asking in all ways; "auto" serves.

    It tells why, with the remedy, at the first call alone. By its name, "array" says nothing.
    """
    engines.warn_of_missing.cache_clear()
    reason = engines.available()["cpu"]
    assert rk.ResCGPK(2)(X, engine="array").shape == (2, 2)
    with pytest.warns(UserWarning, match="computed by NumPy, several times slower") as told:
        assert engines.choose("auto", REQUEST, X).name == "array"
    assert str(told[0].message).endswith(reason)
    with pytest.raises(ValueError, match="^engine='cpu' cannot") as refusal:
        rk.ResCGPK(2)(X, engine="cpu")
    assert f": {reason}; engines that can: 'array'" in str(refusal.value)
    assert rk.ResCGPK(2)(X).shape == (2, 2)
    assert reason.count("\n") == 0
    return reason


def test_loops_that_were_never_compiled_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "HERE", tmp_path)
    assert "never compiled; to compile: python -m rescntk.engines.cpu.build" in refused()


def test_the_reason_of_a_build_without_a_compiler_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "HERE", tmp_path)
    (tmp_path / "missing.txt").write_text("no C++ compiler was found\n")
    assert "there are no compiled loops: no C++ compiler was found; to compile" in refused()


def test_a_damaged_library_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(library, "HERE", tmp_path)
    (tmp_path / "loops-2.so").write_bytes(b"no library")
    assert refused().startswith("the compiled loops do not load: ")


@needs_cpu
def test_a_library_of_other_sources_is_told(monkeypatch):
    library.library.cache_clear()
    monkeypatch.setattr(build, "digest", lambda: "other")
    assert "the compiled loops are not of loops.cpp beside them" in refused()


LEVEL = "int rescntk_level() { return 2; } "
SOURCES = 'char *rescntk_sources() { return "0"; } '


@needs_cpu
@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("", "rescntk_level"),
        (LEVEL, "rescntk_sources"),
        (LEVEL + SOURCES, "rescntk_bytes"),
        (LEVEL + SOURCES + "int rescntk_bytes() { return 16; }", "rescntk_run_float64"),
    ],
)
def test_libraries_without_a_function(text, lacks, tmp_path, monkeypatch):
    """Of another program, or of another time."""
    (tmp_path / "other.c").write_text(text)
    command = [*build.compiler(), "-xc", "-shared", "-fPIC", tmp_path / "other.c", "-o"]
    subprocess.run([*command, tmp_path / "loops-2.so"], check=True)
    monkeypatch.setattr(library, "HERE", tmp_path)
    assert f"loops-2.so has no function {lacks}; to compile: python -m" in refused()


@needs_cpu
def test_libraries_of_another_command_are_loaded(monkeypatch):
    """And on machines without a compiler: loading asks for the sources alone."""
    library.library.cache_clear()
    monkeypatch.setenv("CXX", "/nonexistent")
    monkeypatch.setenv("CXXFLAGS", "-DOTHER")
    assert engines.available()["cpu"] is True


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity there")
def test_threads_follow_the_processors_of_the_process(monkeypatch):
    """By default threads are the processors of its affinity, within its container's limit."""
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
def test_limits_of_containers(text, processors, monkeypatch):
    monkeypatch.setattr(work.Path, "read_text", lambda _: text)
    assert work._quota.__wrapped__() == processors


@needs_cpu
@pytest.mark.parametrize("level", ["7", "x"])
def test_levels_that_there_are_not(level, monkeypatch):
    monkeypatch.setenv("RESCNTK_ISA", level)
    assert f"level {level}" in refused()


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
    """The call takes a minute and more."""
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
def test_the_reference_engine_looks_for_its_end_every_few_steps(
    activation, head, fields, channels, monkeypatch, rng
):
    """Not a time, but numbers that are computed: six arrays of all pixel pairs, or of a
    piece of them the 386 that GELU makes."""
    made, piece = tables.signal_tables, 16
    monkeypatch.setattr(reference, "_PIECE", piece)
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
def test_forks_while_threads_compute(engine):
    """No lock is shared by all calls, which a fork would leave taken for ever."""
    command = [sys.executable, "-c", FORKS.format(engine=engine)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "done\n"


@pytest.mark.parametrize(("name", "kept"), [*product(CPU, [1 << 20]), (CPU[-1], 0)])
def test_threads_of_the_caller(name, kept, monkeypatch, rng):
    """Calls side by side, of several networks and lengths, and of shared tables of many blocks."""
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
