"""What a call does once: it checks each argument, asks for memory, and makes tables."""

import subprocess
import sys
import tracemalloc
from collections import Counter
from functools import partial
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines.compiled.tabled_signals import BlockTables
from rescntk.engines.signals import checks
from rescntk.kernels.arguments import check_arguments
from rescntk.kernels.call import KernelCall
from rescntk.kernels.prepared import PreparedKernel
from tests.helpers import CPU, needs_cpu

NETWORK = rk.Network(2)
KERNEL = rk.Kernel(NETWORK, "ntk", normalized=True)
X, Z = np.random.default_rng(0).standard_normal((2, 4, 1, 9))
CALLS = {
    "gram": partial(rk.gram, NETWORK, X, Z, head=3, normalized=True, threads=1),
    "kernel": partial(KERNEL, X, Z),
    "symmetric": partial(rk.gram, NETWORK, X),
    "paired": partial(KERNEL.paired, X, Z),
    "pixel pairs": partial(rk.pixel_pairs, NETWORK, X),
    "pixel shares": partial(rk.pixel_shares, NETWORK, X, Z),
    "prepare": partial(KERNEL.prepare, X),
    "prepared": partial(KERNEL.prepare(Z), X),
}
NOT_OF_ARGUMENTS = {"check_stop", "check_growth", *vars(checks)}
"""Checks that are not of arguments, but of threads, of layers, and of the signals of a block."""


def calls_of(call, is_wanted):
    """Return how often functions of the package were called: by name, argument and caller."""
    seen = Counter()

    def profile(frame, event, _):
        code = frame.f_code
        if event == "call" and "rescntk" in code.co_filename and is_wanted(code.co_name):
            caller = frame.f_back.f_globals["__name__"]
            seen[code.co_name, frame.f_locals.get("name"), caller] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return seen


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_each_argument_is_checked_once(call):
    seen = Counter()
    for (check, name, _), count in calls_of(call, lambda n: n.startswith("check_")).items():
        if check not in NOT_OF_ARGUMENTS and name != "kinds":  # two arguments have it
            seen[check, name] += count
    assert {"check_kernel_network", "check_dtype", "check_batches"} <= {name for name, _ in seen}
    assert max(seen.values()) == 1


@pytest.mark.parametrize("call", [*CALLS.values(), partial(KERNEL.diag, X)], ids=[*CALLS, "diag"])
def test_results_have_float64_where_no_dtype_is_given(call):
    """Signals that were prepared without one are taken by calls of float64 alone."""
    results = call()
    if isinstance(results, PreparedKernel):
        results = KERNEL(X, results, dtype="float64")
    for K in results if isinstance(results, tuple) else (results,):
        assert K.dtype == np.float64


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_head_is_resolved_once(call):
    seen = calls_of(call, lambda name: name in ("check_head", "pooled_head"))
    assert set(seen.values()) == {1} and len(seen) == 2
    assert {caller for *_, caller in seen} == {"rescntk.kernels.arguments"}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_memory_is_asked_for_in_one_place(call, free):
    free(np.inf)
    seen = calls_of(call, lambda name: name == "check_free_memory")
    assert {caller for *_, caller in seen} == {"rescntk.kernels.call"}


A_KIND = 8 * 700 * 700
"""Bytes of a kernel of 700 signals at one depth."""

OF_BATCHES = {"cpu": A_KIND - 1, "array": 12 * A_KIND}
"""Bytes that engines may hold beside results and plans. Those of the engine "cpu" are less than one
kind more. The engine "array" computes all pairs in one batch. Their 2 pixels in half of the matrix
are as many as the numbers of a kind, and arrays of them are indices, rows of both signals, states,
and what a layer computes."""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("engine", CPU)
def test_the_engines_hold_what_they_say(engine, dtype):
    """It is compared with the peak of memory while a Gram is computed."""
    signals = np.random.default_rng(0).standard_normal((700, 1, 2))
    rk.gram(NETWORK, signals[:2], engine=engine, dtype=dtype)
    depths = (2, 1) if dtype == "float64" else (1, 2)  # copies: another order, another dtype
    options = {"head": "trace", "depths": depths, "engine": engine, "dtype": dtype}
    call = KernelCall(check_arguments(NETWORK, signals, **options))
    tracemalloc.start()
    rk.gram(NETWORK, signals, **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    least, plan = call.results.peak_bytes(700 * 700), call.plan(call.left, None).peak_bytes
    assert least <= peak <= least + plan + OF_BATCHES[engine]


of_engines_and_heads = pytest.mark.parametrize(
    ("engine", "head"), [*product(CPU, ("trace", "equivariant"))]
)
LONG = np.random.default_rng(0).standard_normal((1, 1, 20_000))
"""A signal beside whose rows, more than 180 numbers a pixel, Python's own objects are small."""

OF_STATES = 30 * LONG.nbytes
"""Bytes of the arrays of pixels that are not of tables: of inputs, sums and states. Measured: 21
numbers a pixel at most."""

TABLES_AT_ONCE = {"cpu": 1, "array": 3}
"""Tables of one signal that an engine holds: the engine "array" copies, for each batch of pairs,
the rows of both sides."""


def plan_of_long_signals(engine, head, Z=None):
    """Return the plan of one pair, and its bytes without C++, which tracemalloc does not see."""
    options = {"head": head, "engine": engine, "threads": 1}
    call = KernelCall(check_arguments(rk.Network(12, 9), LONG, Z, **options))
    plan = call.plan(call.left, call.right, paired=Z is None)
    return plan, plan.peak_bytes - (plan._strip_bytes() if engine == "cpu" else 0)


@of_engines_and_heads
def test_a_plan_knows_the_bytes_of_its_tables(engine, head):
    plan, expected = plan_of_long_signals(engine, head)
    tracemalloc.start()
    plan.compute()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert expected <= peak <= TABLES_AT_ONCE[engine] * expected + OF_STATES


@of_engines_and_heads
def test_a_plan_of_two_batches_has_tables_of_both(engine, head):
    """The plan of a single signal has the tables of one batch, and states."""
    single, both = (plan_of_long_signals(engine, head, Z)[1] for Z in (None, LONG + 1.0))
    assert single - OF_STATES <= both - single <= single


OF_STRIPS = """
import re
from pathlib import Path
import numpy as np
from rescntk import Network
from rescntk.kernels.arguments import check_arguments
from rescntk.kernels.call import KernelCall

def planned(network, X):
    options = {{"head": {head!r}, "engine": "cpu", "threads": 1, "shares": True, "kinds": ("ntk",)}}
    call = KernelCall(check_arguments(network, X, X[:1], **options))
    return call.plan(call.left, call.right)

def peak():
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", status)[1])

X = np.random.default_rng(0).standard_normal((8, 1, {length}))
planned(Network(2), X[..., :50]).compute()
plan, before = planned(Network(200), X), peak()
rows = plan.left.bytes_of_all_rows.sum() if plan.left.n_interleaved > 1 else 0
expected = plan.peak_bytes - rows
plan.compute()
print(expected, peak() - before)
"""
"""A plan has the rows of left signals twice, as if they were right ones too, whose rows are copied
to lie side by side: left signals alone have them once."""

PAGES = 5e6
"""Bytes by which a process grows without arrays, or had grown before. Measured: 1.5 MB."""


@needs_cpu
@pytest.mark.skipif(sys.platform != "linux", reason="processes do not tell their peak there")
@pytest.mark.parametrize(("head", "length"), [("trace", 500), (5, 250)])
def test_a_plan_knows_the_bytes_of_its_strips(head, length):
    """For shares, sums over layers take most of them. The process grows by as much."""
    command = [sys.executable, "-c", OF_STRIPS.format(head=head, length=length)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected, grown = map(float, done.stdout.split())
    assert expected > 40 * PAGES
    assert abs(grown - expected) <= PAGES


DEEP = {
    "like layers": {},
    "windows and biases": {"filter_size": 3, "bias": 0.1},
    "ordinary layers": {"skip": False},
    "normalized layers": {"norm": True},
    "layers of their own": {"alpha": (0.5, 0.6) * 1000},
}


@pytest.mark.slow
@needs_cpu
@pytest.mark.parametrize("fields", DEEP.values(), ids=DEEP)
def test_a_plan_knows_the_bytes_of_the_objects_of_layers(fields):
    """Of 2,000 layers and one pixel. Up to two thirds of the bytes are not used: exact fractions
    are small where layers differ but are not normalized."""
    X, network = np.ones((1, 1, 1)), rk.Network(2000, **{"filter_size": 1} | fields)
    options = {"head": "trace", "normalized": True, "engine": "cpu", "threads": 1}
    call = KernelCall(check_arguments(network, X, None, **options))
    tracemalloc.start()
    plan = call.plan(call.left, call.right)
    plan.compute()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= plan.peak_bytes <= 3 * peak


@needs_cpu
@pytest.mark.parametrize("head", ["gap", "trace", 5])
def test_each_pair_of_blocks_makes_the_tables_that_it_needs(head, monkeypatch):
    """In a symmetric Gram each block is the left one once, and the right one of those before it."""
    made = []

    def counted(signals, block):
        made.append(block)
        return BlockTables(signals, block)

    X = np.random.default_rng(0).standard_normal((60, 1, 50))
    expected = rk.gram(NETWORK, X, head=head, engine="cpu")
    monkeypatch.setattr("rescntk.engines.compiled.tabled_signals.BlockTables", counted)
    monkeypatch.setattr("rescntk.engines.cpu.engine._TABLE_BYTES", 40_000)
    K = rk.gram(NETWORK, X, head=head, engine="cpu")
    assert all((one == other).all() for one, other in zip(K, expected, strict=True))
    n = len({(block.start, block.stop) for block in made})
    assert n > 3 and len(made) <= n * (n + 1) // 2
