"""Shared by all tests: hypothesis profiles, a source of randomness, the order of the tests."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# The same examples on every run: a red suite must be the code's doing, not the draw's.
settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    max_examples=60,
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


NOTEBOOKS = "tests/project/test_notebooks.py"

# Left out of `make check`, kept in `make test`.
SLOW = (NOTEBOOKS,)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Mark the slow tests, and run notebooks first, then other slow tests, then the rest."""
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")

    def place(item):
        return not item.nodeid.startswith(NOTEBOOKS), item.get_closest_marker("slow") is None

    items.sort(key=place)
