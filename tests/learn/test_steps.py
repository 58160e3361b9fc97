"""Steps and levels. Tests of views have the formulas of steps."""

import numpy as np
import pytest

from rescntk.learn import steps
from rescntk.learn.steps import Step
from tests.learn.cases import EVERY_STEP


def test_a_step_says_whether_it_sees_levels():
    class Doubled(Step):
        def see(self, X):
            return 2 * X

    with pytest.raises(TypeError, match="abstract.*sees_levels"):
        Doubled()


def test_the_views_of_tests_have_every_step(rng):
    X = rng.standard_normal((6, 2, 200))
    found = {type(step) for view in EVERY_STEP for step in view.resolve(X).steps}
    of_file = [each for each in vars(steps).values() if isinstance(each, type)]
    assert found == {each for each in of_file if issubclass(each, Step) and each is not Step}


@pytest.mark.parametrize("view", EVERY_STEP)
def test_views_see_levels_if_all_steps_do(view, rng):
    X = rng.standard_normal((6, 2, 200))
    fitted, seen = view.resolve(X).measure(X, np.ones(6))
    changed = np.abs(fitted.see(X + np.array([[3.0], [-2.0]])) - seen).max() > 1e-9
    assert changed == fitted.sees_levels
