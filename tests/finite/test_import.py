"""jax and optax are needed by finite networks alone, and a missing one is said in a line."""

import subprocess
import sys

CODE = """
import sys, rescntk
print([name for name in ('jax', 'optax') if name in sys.modules])
for missing in ('jax', 'optax'):
    sys.modules[missing] = None
    try:
        from rescntk import finite
    except ImportError as error:
        print(error)
    del sys.modules[missing]
"""


def test_without_jax_or_optax():
    done = subprocess.run(
        [sys.executable, "-c", CODE], check=False, capture_output=True, text=True, timeout=300
    )
    expected = "rescntk.finite needs jax and optax: pip install 'rescntk[finite]'\n"
    assert done.stdout == "[]\n" + 2 * expected, done.stderr
