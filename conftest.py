"""Leave out the doctests of modules whose packages are not installed, and say so.

With ``--complete``, which `make test` gives, a missing package is an error.
"""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

# Finite networks of the tests are tiny: compiling them costs more than running them. JAX reads
# the setting when it is imported, here and in the processes of notebooks.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

# XLA's older code generator, on one thread, compiles tests/finite in 0.45 of the processor time of
# the newer (jaxlib 0.10.2 on two cores).
XLA_FLAGS = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"

# What XLA compiles in a tenth of a second or more is kept in pytest's cache for the next run, by
# the program itself, versions and flags. tests/test_jax.py then takes 0.55 of its processor time.
COMPILED = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1"}

# What modules import at their top, or their examples use. tests/test_imports.py collects all tests
# without OPTIONAL.
NEEDED = {
    "rescntk/datasets.py": ("aeon",),
    "rescntk/finite": ("jax", "optax"),
    "rescntk/jax.py": ("jax",),
    "rescntk/engines/jax": ("jax",),
    "rescntk/learn": ("sklearn", "threadpoolctl"),
    "rescntk/learn/aeon.py": ("aeon",),
    "rescntk/plots": ("matplotlib",),
    "rescntk/stored": ("zarr", "distributed", "tqdm"),
}

# Packages of the extra "all". A test that needs a missing package skips itself.
OPTIONAL = (
    "matplotlib",
    "tqdm",
    "aeon",
    "pandas",
    "polars",
    "sklearn",
    "threadpoolctl",
    "zarr",
    "distributed",
    "jax",
    "optax",
    "nbformat",
    "numpydoc",
    "sphinx",
    "yaml",
)

collect_ignore = [path for path, names in NEEDED.items() if not all(map(find_spec, names))]
collect_ignore_glob = ["tests/data/*.py"]  # scripts that wrote golden files


def pytest_report_header() -> str | None:
    """Return a line that names the doctests left out."""
    return f"doctests left out: {', '.join(collect_ignore)}" if collect_ignore else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--complete``."""
    parser.addoption("--complete", action="store_true", help="refuse to leave out optional parts")


def pytest_configure(config: pytest.Config) -> None:
    """With ``--complete``, stop if packages are missing, and have XLA compile faster and once."""
    if not config.getoption("complete"):
        return
    if missing := [name for name in OPTIONAL if find_spec(name) is None]:
        raise pytest.UsageError(f"not installed: {', '.join(missing)}")
    # Workers and notebooks inherit the answer, so that XLA is asked once.
    if "XLA_FLAGS" not in os.environ:
        os.environ["XLA_FLAGS"] = XLA_FLAGS if xla_takes(XLA_FLAGS) else ""
    cache = getattr(config, "cache", None)  # -p no:cacheprovider leaves none
    if cache and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        os.environ.update(COMPILED, JAX_COMPILATION_CACHE_DIR=str(cache.mkdir("jax")))


def xla_takes(flags: str) -> bool:
    """Return whether JAX runs with `flags`: XLA ends a process that names a flag it lacks."""
    command = [sys.executable, "-c", "import jax; jax.devices()"]
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    return not subprocess.run(command, env=environment, check=False, capture_output=True).returncode
