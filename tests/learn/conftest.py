"""Fixtures: signals of one channel, pandas, polars, and the views that estimators fit."""

import pytest

from rescntk.learn.ensemble import ensemble
from rescntk.learn.views import kernels
from tests.learn.cases import waves


@pytest.fixture
def little_memory(monkeypatch):
    """A function that has as few signals as possible computed at once."""

    def set_limits():
        monkeypatch.setattr(ensemble, "_NUMBERS_OF_A_BATCH", 1)
        monkeypatch.setattr(kernels, "_SHARES_AT_ONCE", 1)

    return set_limits


@pytest.fixture
def flat(rng):
    """Twenty signals of one channel, (n_cases, n_timepoints), and labels."""
    X, y = waves(rng, 20, 2)
    return X[:, 0], y


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


@pytest.fixture
def pl():
    return pytest.importorskip("polars")
