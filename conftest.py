"""Leave out the doctests of modules whose packages are not installed, and say so.

With ``--complete``, which `make test` gives, a missing package is an error.
"""

import os
from importlib.util import find_spec

import pytest

# Finite networks of the tests are tiny: compiling them costs more than running them. JAX reads
# the setting when it is imported, here and in the processes of notebooks.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

NEEDED = {
    "rescntk/finite": "jax",
    "rescntk/learn": "sklearn",
    "rescntk/learn/aeon.py": "aeon",
    "rescntk/learn/sktime.py": "sktime",
    "rescntk/stored": "zarr",
}

# Packages of the extra "all". A test that needs a missing package skips itself.
OPTIONAL = (
    "numba",
    "matplotlib",
    "tqdm",
    "aeon",
    "sklearn",
    "sktime",
    "zarr",
    "distributed",
    "jax",
    "optax",
    "sphinx",
)

collect_ignore = [path for path, package in NEEDED.items() if find_spec(package) is None]


def pytest_report_header() -> str | None:
    """Return a line that names the doctests left out."""
    return f"doctests left out: {', '.join(collect_ignore)}" if collect_ignore else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--complete``."""
    parser.addoption("--complete", action="store_true", help="refuse to leave out optional parts")


def pytest_configure(config: pytest.Config) -> None:
    """Stop before the first test if ``--complete`` is given and packages are missing."""
    missing = [name for name in OPTIONAL if find_spec(name) is None]
    if config.getoption("complete") and missing:
        raise pytest.UsageError(f"not installed: {', '.join(missing)}")
