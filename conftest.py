"""Doctests of a module that needs a package which is not there are left out, and say so.

With ``--complete``, as `make test` has it, nothing may be missing.
"""

from importlib.util import find_spec

import pytest

NEEDED = {
    "rescntk/finite": "jax",
    "rescntk/learn": "sklearn",
    "rescntk/learn/aeon.py": "aeon",
    "rescntk/learn/sktime.py": "sktime",
}

# All of the extra "all": tests that need one of them skip themselves without it.
OPTIONAL = ("numba", "matplotlib", "tqdm", "aeon", "sklearn", "sktime", "jax", "optax")

collect_ignore = [path for path, package in NEEDED.items() if find_spec(package) is None]


def pytest_report_header() -> str | None:
    """Name what is left out."""
    return f"doctests left out: {', '.join(collect_ignore)}" if collect_ignore else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--complete``."""
    parser.addoption("--complete", action="store_true", help="refuse to leave out optional parts")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to begin if ``--complete`` is asked for and packages are missing."""
    missing = [name for name in OPTIONAL if find_spec(name) is None]
    if config.getoption("complete") and missing:
        raise pytest.UsageError(f"not installed: {', '.join(missing)}")
