"""Deep networks: no overflow where there need be none, a clear one where there must."""

import pytest

from tests.engine_names import ENGINES
from tests.engines.bodies import deep

pytestmark = [pytest.mark.parametrize("engine", ENGINES), pytest.mark.slow]


@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_normalized_at_depth_5000(engine, alpha, dtype, rng):
    deep.normalized_at_depth_5000(engine, alpha, dtype, rng)


@pytest.mark.parametrize("head", ["trace", "gap"])
def test_normalized_signals_of_any_size(engine, head, rng):
    deep.normalized_signals_of_any_size(engine, head, rng)


def test_the_diagonal_on_the_multisphere_is_known(engine, rng):
    deep.the_diagonal_on_the_multisphere_is_known(engine, rng)


def test_unnormalized_and_too_deep(engine):
    deep.unnormalized_and_too_deep(engine)


def test_networks_that_shrink_and_that_explode(engine, rng):
    deep.networks_that_shrink_and_that_explode(engine, rng)


def test_degenerate_constants(engine, rng):
    deep.degenerate_constants(engine, rng)
