"""Verdicts on sequences of numbers with known limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescntk.theory import depth, limits
from rescntk.theory.findings import judge
from tests import tolerances
from tests.ladders import powers

pytestmark = pytest.mark.slow

EPS = tolerances.EPS["float64"]


def ladder_of(function, last=16):
    """Kernels of ten pairs that differ, from a function of depth."""
    L = np.array(powers(last), dtype=float)
    pattern = np.linspace(-1, 1, 10)
    return tuple(int(v) for v in L), np.array([function(n, pattern) for n in L])


def judged(function, last=16, **prediction):
    ladder, values = ladder_of(function, last)
    limit = prediction.pop("limit", None)
    handed = None if limit is None else limits.Prediction(0.5, **prediction)
    noise = np.full(len(ladder), 1e-15)
    return judge(ladder, values, noise, limit, handed, prediction.get("constant"))


def test_verdicts_on_sequences():
    """Sequences of numbers, without networks."""
    limit = 0.7 + 0.1 * np.linspace(-1, 1, 10)
    # 1/log L converges more slowly than any power: nobody can tell.
    slow = judged(lambda n, u: limit + 0.1 * u / np.log(n), limit=limit, exponent=1.0)
    assert slow.verdict == depth.UNDECIDED
    # A small thing left over after a fast decay, and after a slow one.
    left = judged(lambda n, u: limit + u / n + 1e-4, limit=limit, exponent=1.0)
    assert left.verdict == depth.ELSEWHERE
    assert left.remainder.admits(1e-4, 1e-8)
    hidden = judged(lambda n, u: limit + u * n**-0.2 + 1e-3, limit=limit, exponent=0.2)
    assert hidden.verdict != depth.ELSEWHERE  # not to be seen under L^-0.2 = 0.1
    far = judged(lambda n, u: limit + 0.3 * u * n**-0.2 + 0.2, limit=limit, exponent=0.2)
    assert far.verdict == depth.ELSEWHERE
    # Everything to one value: degenerate without any prediction, and against a wrong one.
    for handed in ({}, {"limit": limit, "exponent": 1.0}):
        same = judged(lambda n, u: 0.4 + u / n, **handed)
        assert same.verdict == depth.DEGENERATES
        assert same.as_predicted is (False if handed else None)
    # Growing, wandering, oscillating: no verdict.
    for wild in (
        lambda n, u: 0.5 + 0.1 * u * np.sin(np.log(n)),
        lambda n, u: 0.5 + 0.01 * u * np.log(n),
        lambda n, u: 0.5 + 0.01 * u * n**0.1,
    ):
        for handed in ({}, {"limit": limit, "exponent": 1.0}):
            assert judged(wild, **handed).verdict == depth.UNDECIDED


@given(
    st.floats(0.02, 2.0),
    st.floats(-1.0, 1.0),
    st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 0.3]),
    st.integers(9, 17),
    st.booleans(),
)
def test_verdicts_are_never_wrong(p, b, left, last, one):
    """limit + left + u L^-p (1 + b u L^-p): as predicted only if what is left, of all pairs or of
    one pair, is hidden below the distance at the deepest; something else only if something is
    left."""
    limit = 0.7 + 0.1 * np.linspace(-1, 1, 10)
    rest = left * (np.arange(10) == 3) if one else left

    def kernel(n, u):
        return limit + rest + 0.3 * u * n**-p * (1 + b * u * n**-p)

    found = judged(kernel, last, limit=limit, exponent=p)
    deepest = 0.3 * 2.0 ** (-p * last)
    if found.verdict == depth.AS_PREDICTED:
        assert left <= 0.1 * deepest
    elif found.verdict == depth.ELSEWHERE:
        assert left > 0
    else:
        assert found.verdict == depth.UNDECIDED
    if left == 0:
        assert found.as_predicted is not False
    if left > 100 * deepest or (left == 0 and p >= 0.4 and last >= 12):
        assert found.verdict != depth.UNDECIDED


@given(st.floats(0.02, 0.5), st.floats(0.01, 0.3), st.sampled_from([0.03, 0.1, 0.3]))
def test_what_is_left_is_not_taken_for_nothing(p, left, size):
    """To a spread, and a distance, of `left` at the slowest of rates: never to 0."""

    def kernel(n, u):
        return 0.4 + u * (left + size * n**-p)

    alone = judged(kernel, 14)
    assert alone.verdict in (depth.ELSEWHERE, depth.UNDECIDED)
    for rate in (None, p):
        found = judged(kernel, 14, limit=np.full(10, 0.4), exponent=rate)
        assert found.verdict in (depth.ELSEWHERE, depth.UNDECIDED)
        assert found.as_predicted is not True
