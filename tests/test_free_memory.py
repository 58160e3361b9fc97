"""Calls that exceed the free memory are refused before any work, with the figures."""

import subprocess
import sys

import numpy as np
import pytest

import rescntk as rk
from rescntk import engines, free_memory
from rescntk.engines.footprint import result_bytes, table_bytes
from rescntk.engines.protocol import Request
from rescntk.vocabulary import KINDS

X = np.ones((100, 1, 8))
NETWORK = rk.Network(2)


def no_work(monkeypatch):
    for name in ("gram", "diagonal"):
        for engine in ("reference", "cpu.engine"):
            module = sys.modules.get(f"rescntk.engines.{engine}")
            if module is not None:
                monkeypatch.setattr(module, name, lambda *arguments: pytest.fail("worked"))


@pytest.mark.parametrize("engine", ["reference", "auto"])
def test_a_gram_larger_than_the_free_memory_is_refused_before_work(engine, free, monkeypatch):
    rk.gram(NETWORK, X[:1], engine=engine)
    no_work(monkeypatch)
    free(70_000)
    says = r"takes at least [\d.]+ MB of memory, and [\d.]+ MB are free: give fewer signals"
    for call, what in (
        (lambda: rk.ResCNTK(2)(X, engine=engine), r"the NTK, 100 × 100 numbers"),
        (
            lambda: rk.gram(NETWORK, X, X[:50], normalized=True, depths=(1, 2), engine=engine),
            r"the GPK and NTK, 100 × 50 numbers, at 2 depths,",
        ),
        (
            lambda: rk.pixel_pairs(NETWORK, X[:20], engine=engine),
            r"the NTK, 20 × 20 × 8 × 8 numbers",
        ),
    ):
        with pytest.raises(MemoryError, match=f"^{what} {says}"):
            call()


def test_the_same_call_is_served_where_memory_is_free_or_unknown(free):
    expected = rk.ResCNTK(2)(X)
    for amount in (None, 300_000):
        free(amount)
        assert (rk.ResCNTK(2)(X) == expected).all()


def test_depths_larger_than_the_free_memory_are_refused():
    deep = 99_999_999_999
    for call in (
        lambda: rk.ResCNTK(deep)(X),
        lambda: rk.ResCNTK(deep).diag(X),
        lambda: rk.gram(NETWORK, X, depths=(1, deep)),
        lambda: rk.pixel_pairs(NETWORK.replace(depth=deep), X),
        lambda: rk.theory.conditioning.compare(X, (1, deep)),
    ):
        with pytest.raises(MemoryError, match=f"^depth {deep} for signals of 8 timepoints takes"):
            call()
    with pytest.raises(ValueError, match=f"depths has {deep}, expected at most 100000000 layers"):
        rk.theory.depth.check(NETWORK, depths=[2, 4, 8, 16, 32, deep])


def test_footprints():
    request = Request(NETWORK, "gap", KINDS, (1, 2))
    assert result_bytes(request, 10, held=1) == 2 * 2 * 8 * 10
    assert result_bytes(request, 10, held=2) == 2 * 2 * 2 * 8 * 10
    copied = Request(NETWORK, "gap", KINDS, (1, 2), copied_bytes=8)
    assert result_bytes(copied, 10, held=1) == 2 * 2 * 8 * 10 + 8 * 10
    assert table_bytes(request, 5) == 3 * (2 * 2 * 5 * 8 + 8)


def test_the_engines_hold_what_they_say():
    """Against the peak of memory while a Gram is computed; buffers take some 40 MB."""
    import tracemalloc

    signals = np.random.default_rng(0).standard_normal((700, 1, 2))
    for name, state in rk.engines.available().items():
        if state is not True or name == "cuda":
            continue
        request = Request(NETWORK, "trace", KINDS, (1, 2))
        engine = engines.choose(name, request, signals)
        rk.gram(NETWORK, signals[:2], depths=(1, 2), engine=name, head="trace")
        tracemalloc.start()
        rk.gram(NETWORK, signals, depths=(1, 2), engine=name, head="trace")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        said = result_bytes(request, 700 * 700, engines.held_results(engine, request))
        assert said <= peak <= said + 60e6, name


def under(tmp_path, monkeypatch, **files):
    """Put files into a folder that stands for the root of the file system."""
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(free_memory, "_ROOT", tmp_path)
    monkeypatch.setattr(free_memory, "_address_space", lambda: None)


MEMINFO = "MemTotal: 9000 kB\nMemAvailable:    4000 kB\nSwapFree:  100 kB\n"


def test_the_machine_says_what_is_free(tmp_path, monkeypatch):
    under(tmp_path, monkeypatch, proc__meminfo=MEMINFO)
    assert free_memory.free_bytes() == 4100 * 1024


@pytest.mark.parametrize("own", ["/job/step", "/../.."])
def test_control_groups_of_version_2(own, tmp_path, monkeypatch):
    group = "sys__fs__cgroup" if ".." in own else "sys__fs__cgroup__job"
    files = {
        "proc__meminfo": MEMINFO,
        "proc__self__cgroup": f"0::{own}\n",
        f"{group}__memory_dot_max": "1000000\n",
        f"{group}__memory_dot_current": "900000\n",
        f"{group}__memory_dot_stat": "anon 5\ninactive_file 2000\nactive_file 3000\n",
        "sys__fs__cgroup__job__step__memory_dot_max": "max\n",
        "sys__fs__cgroup__job__step__memory_dot_current": "900000\n",
    }
    under(tmp_path, monkeypatch, **files)
    assert free_memory.free_bytes() == 105_000 + 100 * 1024


def test_control_groups_of_version_1(tmp_path, monkeypatch):
    group = "sys__fs__cgroup__memory__job__memory_dot"
    files = {
        "proc__meminfo": MEMINFO,
        "proc__self__cgroup": "5:cpu,cpuacct:/other\n4:memory:/job\n",
        f"{group}_limit_in_bytes": "1000000\n",
        f"{group}_usage_in_bytes": "400000\n",
        "sys__fs__cgroup__memory__memory_dot_limit_in_bytes": "9223372036854771712\n",
        "sys__fs__cgroup__memory__memory_dot_usage_in_bytes": "1\n",
    }
    under(tmp_path, monkeypatch, **files)
    assert free_memory.free_bytes() == 600_000 + 100 * 1024


def test_other_systems(tmp_path, monkeypatch):
    under(tmp_path, monkeypatch)
    monkeypatch.setitem(sys.modules, "psutil", None)
    total = free_memory.free_bytes()
    assert total is None or total > 2**20
    monkeypatch.setattr(free_memory, "_by_sysconf", lambda: None)
    assert free_memory.free_bytes() is None


def test_a_limit_of_the_address_space_counts():
    pytest.importorskip("resource")
    code = (
        "import resource, numpy as np, rescntk as rk\n"
        "X = np.ones((9000, 1, 2))\n"
        "rk.ResCNTK(2)(X[:2], engine='reference')\n"
        "from rescntk.free_memory import _table, _ROOT\n"
        "used = 1024 * _table(_ROOT / 'proc/self/status')['VmSize']\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, -1))\n"
        "try: rk.ResCNTK(2)(X, engine='reference')\n"
        "except MemoryError as error: print(error)"
    )
    if not (free_memory._ROOT / "proc/self/status").exists():
        pytest.skip("the system does not say how much address space is in use")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.startswith("the NTK, 9000 × 9000 numbers takes at least 0.6 GB"), run
