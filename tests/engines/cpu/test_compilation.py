"""Compiled code on disk: found again, and compiled again after a change of any source file."""

import os
from pathlib import Path

import numpy as np
import pytest
from rescntk.engines.cpu.plan import Plan
from rescntk.engines.cpu.run import NumbaRun
from rescntk.engines.cpu.tables import NumbaSignals

import rescntk as rk
from rescntk.engines import cpu
from rescntk.engines.cpu import compilation, rows, sweep
from rescntk.engines.protocol import Request
from tests.engine_names import needs_numba
from tests.processes import run

pytestmark = [needs_numba, pytest.mark.slow]


def test_the_stamp_follows_every_file_that_is_compiled(monkeypatch):
    stamp, read = compilation.source_stamp(), Path.read_bytes
    for name in ("vectors.py", "rows.py", "polynomials.py", "doubt.py", "activations.py"):
        changed = {name: b"#"}
        monkeypatch.setattr(
            Path, "read_bytes", lambda path, c=changed: read(path) + c.get(path.name, b"")
        )
        assert compilation.source_stamp() != stamp
    monkeypatch.setattr(Path, "read_bytes", read)
    assert compilation.source_stamp() == stamp


def test_another_stamp_is_another_key_on_disk(tmp_path):
    """The stamp is the default of an argument, and numba's key contains defaults."""
    (tmp_path / "one.py").write_text(
        "import os; from rescntk.engines.cpu.compilation import compiled_on_disk\n"
        "@compiled_on_disk\n"
        "def twice(x: float, stamp: str = os.environ['STAMP']) -> float: return 2 * x\n"
    )
    code = (
        "import importlib, os, one\n"
        "for stamp in os.environ['STAMPS']:\n"
        "    os.environ['STAMP'] = stamp; importlib.reload(one)\n"
        "    assert one.twice(2.0) == 4.0; s = one.twice.stats\n"
        "    print(sum(s.cache_hits.values()), sum(s.cache_misses.values()))"
    )
    place = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": python_path(tmp_path)}
    assert run(code, STAMP="a", STAMPS="a", **place) == "0 1"
    assert run(code, STAMP="a", STAMPS="ab", **place).splitlines() == ["1 0", "0 1"]


def test_processes_that_compile_at_once_keep_their_own_files(tmp_path):
    """Two processes read the same index; one saves its code between the other's index and code."""
    (tmp_path / "one.py").write_text(
        "from rescntk.engines.cpu.compilation import compiled_on_disk\n"
        "@compiled_on_disk\n"
        "def twice(x): return 2 * x\n"
    )
    code = (
        "import one; files = one.twice._cache._cache_file; write = files._save_index\n"
        "def meanwhile(index):\n"
        "    write(index); files._save_index, files._load_index = write, dict\n"
        "    files.save('theirs', 'code of theirs'); del files._load_index\n"
        "files._save_index = meanwhile; files.save('ours', 'code of ours')\n"
        "for key in ('ours', 'theirs'): print(files.load(key))"
    )
    place = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": python_path(tmp_path)}
    assert run(code, **place).splitlines() == ["None", "code of theirs"]


def test_loops_take_one_signal_and_many_as_one_type(rng):
    """The trial of one signal compiles what later calls use: read-only arrays are another type."""
    for head in ("gap", "equivariant"):
        for n in (1, 3):
            rk.ResCNTK(2, head=head)(rng.standard_normal((n, 2, 9)), engine="numba")
    for loops in (rows.compute, sweep.sweep):
        assert "readonly" not in str(loops.signatures)


@pytest.mark.parametrize(
    "network",
    [
        rk.Network(31),
        rk.Network(32),
        rk.Network(32, bias=0.1),
        rk.Network(40, skip=False),
        rk.Network(3, alpha=1e9),
        rk.Network(3, 5, negative_slope=0.2, trained=("inner",)),
    ],
)
def test_the_trial_of_a_network_compiles_the_loops_of_all_depths(network):
    """The layers of both have the same fields: numba compiles loops for each set of fields."""

    def fields(request):
        signals = NumbaSignals(np.ones((1, 2, 9)))
        plan = Plan(request, 2, True, signals.lengths, signals.lengths)
        return NumbaRun(plan, 1, 1).constants.layers.dtype

    request = Request(network, "gap", ("ntk",), (network.depth,))
    assert fields(request) == fields(cpu.sample(request, 2))


def python_path(folder):
    """Return PYTHONPATH with a folder, and the folder of the library under test."""
    library = Path(compilation.__file__).parents[3]
    return os.pathsep.join([str(folder), str(library)])
