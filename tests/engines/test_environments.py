"""The engine "numba" in odd environments: "auto" serves in each of them, "numba" says why not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rescntk import engines

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
    ("name", "value"), [("NUMBA_DISABLE_JIT", "1"), ("NUMBA_NUM_THREADS", "0")]
)
def test_settings_that_numba_cannot_work_with(name, value):
    said, listed = run(**{name: value})
    assert listed.startswith("numba does not work here: ")
    assert f"{name}={value}" in listed
    assert said == (f"engine is 'numba', which cannot serve here: {listed}; these can: 'reference'")


@pytest.mark.slow
def test_damaged_files_of_compiled_code_are_compiled_anew(tmp_path):
    """Files that were cut short, as by a full disk or a killed process."""
    assert run("float64") == ("served", "ready")  # compiled beside the sources, and copied
    shutil.copytree(Path(engines.__file__).parents[1], tmp_path / "rescntk")
    files = sorted(tmp_path.rglob("*.nb[ic]"), key=lambda path: path.stat().st_size)
    for path in files:  # of this version of the sources, and of others; indices stay whole
        if path.suffix == ".nbc":
            os.truncate(path, 100)
    other = files[-1].with_name("rows.other.nbi")
    other.write_bytes(b"no pickle")
    # What the compiler makes of the loops does not matter here, and its level 1 takes less time.
    assert run("float64", PYTHONPATH=tmp_path, NUMBA_OPT=1) == ("served", "ready")
    assert any(path.stat().st_size > 100 for path in tmp_path.rglob("*.nbc"))
    assert not other.exists()


def test_a_folder_of_compiled_code_that_cannot_be_written(tmp_path):
    """Whatever the folder is, the kernels come; a user who may write anywhere has a file there."""
    folder = tmp_path / "file"
    folder.write_text("no folder")
    said, listed = run("float64", NUMBA_CACHE_DIR=folder)
    assert (said, listed) == ("served", "ready") or listed in said


@pytest.mark.filterwarnings("ignore:slow; NumPy computes")
def test_compilation_is_announced(monkeypatch, capsys):
    import time

    import numpy as np

    import rescntk as rk

    monkeypatch.setattr(engines, "_ANNOUNCE_AFTER", 0.01)
    monkeypatch.setattr(engines, "_numba_is_missing", lambda dtype: time.sleep(0.1) or "slow")
    rk.ResCGPK(1)(np.ones((1, 1, 2)))
    assert "compiling" not in capsys.readouterr().err
    rk.ResCGPK(1)(np.ones((1, 1, 2)), progress=True)
    assert "rescntk: reading or compiling the engine's loops" in capsys.readouterr().err
