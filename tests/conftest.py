"""Hypothesis profiles and a source of randomness, for all tests."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("tests.engines.bodies")

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
