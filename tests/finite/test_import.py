"""jax and optax are needed by finite networks alone, and a missing one is said in a line."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=300
    )


def test_the_library_does_not_import_jax():
    done = run("import sys, rescntk; print([m for m in ('jax', 'optax') if m in sys.modules])")
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("missing", ["jax", "optax"])
def test_a_missing_package_is_one_line(missing):
    code = f"""
import sys
sys.modules[{missing!r}] = None
try:
    from rescntk import finite
except ImportError as error:
    print(error)
"""
    expected = "rescntk.finite needs jax and optax: pip install 'rescntk[finite]'\n"
    assert run(code).stdout == expected
