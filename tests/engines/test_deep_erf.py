"""Deep erf networks: chaotic where the variances are large (docs/erf.md)."""

import pytest

from rescntk.vocabulary import HEADS, KINDS
from tests.engine_names import ENGINES
from tests.engines.bodies import deep_erf

pytestmark = pytest.mark.parametrize("engine", ENGINES)
EVERY = pytest.mark.parametrize("constants", deep_erf.CONSTANTS)
SKIP = pytest.mark.parametrize("skip", [False, True])
DTYPE = pytest.mark.parametrize("dtype", ["float64", "float32"])


@EVERY
@SKIP
@DTYPE
@pytest.mark.parametrize(("d", "depth"), [(3, 50), (1, 200), (1, 1000)])
def test_as_resolved(engine, d, depth, skip, constants, dtype):
    deep_erf.as_resolved(engine, d, depth, skip, constants, dtype)


@EVERY
@SKIP
@DTYPE
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("depth", [50, 1000])
def test_duplicates_and_opposites_stay_exact(engine, head, depth, skip, constants, dtype):
    deep_erf.duplicates_and_opposites_stay_exact(engine, head, depth, skip, constants, dtype)


@DTYPE
@pytest.mark.parametrize("alpha", [1e-9, 1e-3, 0.1, 1.0, 1e3])
def test_gap_of_zero_mean_signals(engine, dtype, alpha):
    deep_erf.gap_of_zero_mean_signals(engine, dtype, alpha)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", HEADS)
def test_refusals(engine, kind, head):
    deep_erf.refusals(engine, kind, head)
