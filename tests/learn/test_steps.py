"""Steps and levels. Tests of views have the formulas of steps."""

import numpy as np
import pytest

from rescntk.learn import View
from rescntk.learn.steps import Step
from rescntk.learn.views import DEFAULT


def test_a_step_says_whether_it_sees_levels():
    class Doubled(Step):
        def see(self, X):
            return 2 * X

    with pytest.raises(TypeError, match="abstract.*sees_levels"):
        Doubled()


@pytest.mark.parametrize("view", [*DEFAULT, View(standardize="point"), View(statistics=True)])
def test_views_see_levels_if_all_steps_do(view, rng):
    X = rng.standard_normal((6, 2, 200))
    fitted, seen = view.resolve(X).measure(X, np.ones(6))
    changed = np.abs(fitted.see(X + np.array([[3.0], [-2.0]])) - seen).max() > 1e-9
    assert changed == fitted.sees_levels
