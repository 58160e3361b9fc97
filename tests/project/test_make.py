"""What the Makefile says it does, as far as it needs no environment of its own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rescntk as rk

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_gpu_tests_without_a_gpu_fail_in_one_line():
    """Skipping all of them would look like success."""
    state = rk.engines.available()["cuda"]
    if state is True:
        pytest.skip("there is a GPU")
    python = Path(sys.executable).parent
    # Neither the environment's stamp nor anything on its account is to be made.
    command = ["make", "--no-print-directory", "-o", ".venv/cuda13.stamp", "test-gpu"]
    run = subprocess.run(
        [*command, f"BIN={python}"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert run.returncode != 0 and run.stdout == ""
    # make itself says that it failed, as "make" or, within another one, as "make[1]".
    said = [line for line in run.stderr.splitlines() if "***" not in line]
    assert said == [f"make test-gpu: {state}"]
