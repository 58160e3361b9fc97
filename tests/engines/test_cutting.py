"""Results do not depend on how an engine cuts its work."""

import pytest

from rescntk.validation import DTYPES, HEADS
from tests.engine_names import ENGINES
from tests.engines.bodies import cutting


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_results_do_not_depend_on_how_the_work_is_cut(engine, head, dtype, monkeypatch, rng):
    cutting.results_do_not_depend_on_how_the_work_is_cut(engine, head, dtype, monkeypatch, rng)
