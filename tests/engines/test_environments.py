"""The engine "numba" in odd environments: "auto" serves in each of them, "numba" says why not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rescntk import engines
from tests import processes
from tests.engine_names import needs_numba

CODE = """
import numpy as np, rescntk as rk
X = np.random.default_rng(0).standard_normal((3, 2, 5))
expected = rk.ResCNTK(2)(X, engine="reference")
for dtype in {dtypes}:
    assert np.allclose(rk.ResCNTK(2)(X, dtype=dtype), expected, rtol=1e-5)
try:
    rk.ResCNTK(2)(X, engine="numba")
    print("served")
except ValueError as error:
    print(error)
from rescntk import __main__ as cli
cli.main(["engines"])
"""


def run(*dtypes, **environment):
    """Return the refusal of engine="numba", or "served", and the line of ``rescntk engines``."""
    if engines.available()["numba"] is not True:
        pytest.skip("numba does not work here at all")
    done = subprocess.run(
        [sys.executable, "-P", "-c", CODE.format(dtypes=dtypes or ("float64", "float32"))],
        env=os.environ | {name: str(value) for name, value in environment.items()},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    listed = next(line for line in lines if line.startswith("numba ")).removeprefix("numba").strip()
    assert (f"UserWarning: {listed}; NumPy computes" in done.stderr) == (listed != "ready")
    return lines[0], listed


@pytest.mark.parametrize(
    ("name", "value"),
    [("NUMBA_DISABLE_JIT", "1"), ("NUMBA_NUM_THREADS", "0"), ("NUMBA_NUM_THREADS", "abc")],
)
def test_settings_that_numba_cannot_work_with(name, value):
    said, listed = run(**{name: value})
    assert listed.startswith("numba does not work here: ")
    assert f"{name}={value}" in listed
    assert said == (
        f"engine='numba' cannot compute this call: {listed}; engines that can: 'reference'"
    )


@needs_numba
def test_damaged_files_of_compiled_code_are_compiled_anew(tmp_path):
    """Files that were cut short, as by a full disk or a killed process; a short loop has such."""
    compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(engines.__file__).parents[1], tmp_path / "rescntk", ignore=compiled)
    folder = tmp_path / "rescntk/engines/cpu"
    (folder / "engine.py").write_text("from .rows import compute as gram\n")
    (folder / "rows.py").write_text(
        "from .compilation import compiled_on_disk\n"
        "def compute(request, X, Z, tick): loop(X)\n"
        "@compiled_on_disk\n"
        "def loop(X): return X\n"
        "compute.stats = loop.stats\n"
    )

    def answers(*functions):
        code = (
            "from rescntk.engines.cpu import *; from rescntk.engines import cpu, protocol\n"
            f"for name in {functions}:\n"
            "    request = protocol.Request(Network(1), 'gap', ('ntk',), (1,))\n"
            "    print(getattr(cpu, name)(request))"
        )
        kept = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": ""}  # beside the modules
        return processes.run(code, PYTHONSAFEPATH="1", **kept).splitlines()

    assert answers("why_not") == ["None"]
    (file,) = folder.rglob("rows.*.nbc")
    os.truncate(file, 100)
    other = file.with_name("rows.other.nbi")
    other.write_bytes(b"no pickle")
    failure, reason = answers("_failure", "why_not")
    assert failure.startswith("UnpicklingError") and reason == "None"
    assert file.stat().st_size > 100 and not other.exists()


@needs_numba
@pytest.mark.slow
def test_versions_of_numba_that_were_not_tried(tmp_path):
    """Without what is private to numba compilation takes longer, and bits are the same."""
    code = (
        "import numpy as np, rescntk as rk; X = np.linspace(-1, 2, 20).reshape(2, 1, 10) ** 2;"
        "print(rk.ResCNTK(3)(X, engine='numba').tobytes().hex())"
    )
    other = f"import numba; numba.__version__ = '99.0.0'; {code}"
    assert processes.run(other, NUMBA_CACHE_DIR=str(tmp_path)) == processes.run(code)


def test_a_folder_of_compiled_code_that_cannot_be_written(tmp_path):
    """Whatever the folder is, the kernels come; a user who may write anywhere has a file there."""
    folder = tmp_path / "file"
    folder.write_text("no folder")
    said, listed = run("float64", NUMBA_CACHE_DIR=folder)
    assert (said, listed) == ("served", "ready") or listed in said


@needs_numba
def test_compilation_is_announced_once(capsys):
    """Loops of two types are compiled; what users compile themselves is not announced."""
    import numba

    from rescntk.engines.cpu import compilation

    compilation._announce.cache_clear()
    numba.njit(_same)(0)
    assert not capsys.readouterr().err
    try:
        for kind in (int, float):
            loop = numba.njit(_same)
            compilation._kept_on_disk.add(loop)
            loop(kind(0))
            said = capsys.readouterr().err
            assert said.startswith("rescntk: compiling loops") == (kind is int)
    finally:
        compilation._kept_on_disk.discard(loop)


def _same(x):
    return x
