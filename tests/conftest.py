"""Hypothesis profiles, a source of randomness, and the order of the tests."""

import gc
import signal
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from rescntk import engines, memory

# Examples are the same in every run, so that a failure is due to the code and not to the draw.
settings.register_profile(
    "suite",
    derandomize=True,
    deadline=None,
    max_examples=16,
    # An engine supports a quarter of the networks that are drawn, so that examples are rare.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
# With --hypothesis-profile=stress there are many examples, which are new in every run.
settings.register_profile(
    "stress", settings.get_profile("suite"), derandomize=False, max_examples=2000
)
settings.load_profile("suite")


# A background job of a shell ignores Ctrl-C; the programs that tests interrupt would inherit this.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def warned_once():
    """Raise the warning that the compiled loops are missing, which appears once in a process.

    It is raised here, so that no test sees it.
    """
    if (reason := engines.available()["cpu"]) is not True:
        with warnings.catch_warnings(action="ignore"):
            engines.warn_of_missing(engines.ENGINES["cpu"].missing_warning, reason)


@pytest.fixture
def rng():
    return np.random.default_rng(20220317)


@pytest.fixture
def free(monkeypatch):
    """Return a function that sets the free bytes of memory, which the smallest calls ask for."""
    monkeypatch.setattr(memory, "_ALWAYS_FREE", 0)
    return lambda amount: monkeypatch.setattr(memory, "free_bytes", lambda: amount)


def pytest_addoption(parser):
    words = "leave out the tests that FILE names, and add to it those that pass"
    parser.addoption("--passed", metavar="FILE", type=Path, help=words)


def pytest_configure(config):
    if path := config.getoption("passed"):
        config.pluginmanager.register(Passed(path))


def pytest_collection_finish():
    """Exclude modules from garbage collection, which saves 5 % of the processor time."""
    gc.freeze()


class Passed:
    """The tests that passed in earlier runs. A file has their names; those that pass are added."""

    def __init__(self, path):
        self.path, self.before = path, set(path.read_text().splitlines() if path.exists() else [])

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if item.nodeid not in self.before]

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            with open(self.path, "a") as file:
                file.write(f"{report.nodeid}\n")


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(items):
    """Run the longest tests first, then the other slow tests.

    Of the tests for a GPU, run the fast ones first, because the device may be withdrawn.
    """
    longest = ["test_checker_cases.py", "test_site.py", "test_notebooks.py"]
    for item in items:  # a doctest has no place for a marker
        if item.nodeid.startswith(("rescntk/finite/", "rescntk/jax.py")):
            item.add_marker("slow")

    def place(item):
        slow, gpu = (item.get_closest_marker(name) is not None for name in ("slow", "gpu"))
        name = item.path.name
        return longest.index(name) if name in longest else len(longest), slow == gpu

    items.sort(key=place)
