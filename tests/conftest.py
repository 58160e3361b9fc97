"""Hypothesis profiles, a source of randomness, and the order of the tests."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from rescntk.validation import memory

pytest.register_assert_rewrite("tests.engines.bodies")

# The same examples on every run: a red suite must be the code's doing, not the draw's.
settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
# pytest --hypothesis-profile=stress: new examples every time, and many of them.
settings.register_profile(
    "stress", settings.get_profile("suite"), derandomize=False, max_examples=2000
)
settings.load_profile("suite")


@pytest.fixture
def rng():
    return np.random.default_rng(20220317)


@pytest.fixture
def free(monkeypatch):
    """Return a function that sets the free bytes of memory, which the smallest calls ask for."""
    monkeypatch.setattr(memory, "_ALWAYS_FREE", 0)
    return lambda amount: monkeypatch.setattr(memory, "free_bytes", lambda: amount)


NOTEBOOKS = "tests/project/test_notebooks.py"

# Left out of `make check`, kept in `make test`: folders, files and tests, by the start of their
# names. An entry has tests that take 5 s of processor time or more in all their cases together,
# one run each on a machine with two cores. Fewer entries make `make check` longer.
SLOW = (
    NOTEBOOKS,
    "rescntk/finite/",
    "tests/benchmarks/",
    "tests/engines/cpu/test_compilation.py",
    "tests/engines/cpu/test_deficits.py::test_any_network_on_any_signals",
    "tests/engines/cuda/",
    "tests/engines/test_accuracy.py::test_any_network_on_any_signals",
    "tests/engines/test_accuracy.py::test_difficult_signals",
    "tests/engines/test_accuracy.py::test_pixelwise_and_deep",
    "tests/engines/test_deep.py",
    "tests/engines/test_deep_erf.py::test_as_resolved",
    "tests/engines/test_properties.py",
    "tests/engines/test_unequal.py",
    "tests/finite/",
    "tests/learn/test_checks.py",
    "tests/learn/test_wrappers.py",
    "tests/project/test_make.py::test_slow_tests_are_marked_and_run_first",
    "tests/project/test_make.py::test_slow_tests_exist",
    "tests/project/test_docstrings.py",
    "tests/project/test_package.py",
    "tests/project/test_pages.py::test_code_runs",
    "tests/project/test_site.py",
    "tests/stored/",
    "tests/test_derivative.py::test_exact",
    "tests/test_finite_network.py",
    "tests/theory/spectrum/",
    "tests/theory/test_degeneracy.py",
    "tests/theory/test_depth.py",
    "tests/theory/test_family_verdicts.py",
    "tests/theory/test_flow.py",
    "tests/theory/test_locality.py",
    "tests/theory/test_verdict.py",
)


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(items):
    """Mark the slow tests, and run notebooks first, then other slow tests, then the rest.

    Tests that need a GPU run in the other order: a borrowed device may be gone before the end.
    """
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")

    def place(item):
        slow, gpu = (item.get_closest_marker(name) is not None for name in ("slow", "gpu"))
        return not item.nodeid.startswith(NOTEBOOKS), slow == gpu

    items.sort(key=place)
