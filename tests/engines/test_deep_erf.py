"""Deep erf networks: chaotic where the variances are large (docs/theory/erf.md)."""

import pytest

from rescntk.validation import HEADS, KINDS
from tests.covering import pairs_meet
from tests.engine_names import ENGINES
from tests.engines.bodies import deep_erf

pytestmark = pytest.mark.parametrize("engine", ENGINES)
EVERY = pytest.mark.parametrize("constants", deep_erf.CONSTANTS)
SKIP = pytest.mark.parametrize("skip", [False, True])


@pytest.mark.slow
@EVERY
@SKIP
@pytest.mark.parametrize(("d", "depth"), [(3, 50), (1, 200)])
def test_as_resolved(engine, d, depth, skip, constants):
    deep_erf.as_resolved(engine, d, depth, skip, constants)


@pytest.mark.slow
@pytest.mark.parametrize(("skip", "constants"), [(True, "default"), (False, "four")])
def test_as_resolved_at_depth_1000(engine, skip, constants):
    deep_erf.as_resolved(engine, 1, 1000, skip, constants)


@pytest.mark.parametrize(
    ("head", "constants", "skip"), pairs_meet(HEADS, deep_erf.CONSTANTS, [False, True])
)
@pytest.mark.parametrize("depth", [50, 1000])
def test_duplicates_and_opposites_stay_exact(engine, head, depth, skip, constants):
    deep_erf.duplicates_and_opposites_stay_exact(engine, head, depth, skip, constants)


@pytest.mark.parametrize("alpha", [1e-9, 0.1, 1e3])
def test_gap_of_zero_mean_signals(engine, alpha):
    deep_erf.gap_of_zero_mean_signals(engine, alpha)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", HEADS)
def test_refusals(engine, kind, head):
    deep_erf.refusals(engine, kind, head)


@pytest.mark.parametrize("kind", KINDS)
def test_cancelled_means_are_refused(engine, kind, rng):
    deep_erf.cancelled_means_are_refused(engine, kind, rng)


def test_float32_is_float64_rounded(engine, rng):
    deep_erf.float32_is_float64_rounded(engine, rng)
