"""Verdicts on sequences of numbers with known limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescntk.theory import depth, limits
from rescntk.theory.verdict import judge
from tests.ladders import powers

pytestmark = pytest.mark.slow

PATTERN = np.linspace(-1, 1, 10)
LIMIT = 0.7 + 0.1 * PATTERN


def judged(function, last=16, limit=None, **prediction):
    """Judge ten pairs, given by a function of depth and of a pattern over pairs."""
    ladder = powers(last)
    values = np.array([function(float(n), PATTERN) for n in ladder])
    known = None if limit is None else limits.Prediction(0.5, **prediction)
    constant = prediction.get("constant")
    return judge(ladder, values, np.full(len(ladder), 1e-15), known, limit, constant)


def test_verdicts_on_sequences():
    # 1/log L converges more slowly than any power: the limit cannot be told.
    slow = judged(lambda n, u: LIMIT + 0.1 * u / np.log(n), limit=LIMIT, exponent=1.0)
    assert slow.findings[0].verdict == depth.OPEN
    left = judged(lambda n, u: LIMIT + u / n + 1e-4, limit=LIMIT, exponent=1.0)
    assert left.verdict == depth.CONTRADICTS
    assert left.remainder.admits(1e-4)
    hidden = judged(lambda n, u: LIMIT + u * n**-0.2 + 1e-3, limit=LIMIT, exponent=0.2)
    assert hidden.remainder.admits(1e-3)  # below L^-0.2 = 0.1
    far = judged(lambda n, u: LIMIT + 0.3 * u * n**-0.2 + 0.2, limit=LIMIT, exponent=0.2)
    assert far.findings[0].verdict == depth.CONTRADICTS
    # Everything to one value.
    for known in ({}, {"limit": LIMIT, "exponent": 1.0}):
        same = judged(lambda n, u: 0.4 + u / n, **known)
        assert same.forgets is True
        assert same.verdict == (depth.CONTRADICTS if known else depth.OPEN)


@pytest.mark.parametrize(
    "wild",
    [
        lambda n, u: 0.5 + 0.1 * u * np.sin(np.log(n)),
        lambda n, u: 0.5 + 0.01 * u * np.log(n),
        lambda n, u: 0.5 + 0.01 * u * n**0.1,
    ],
)
def test_what_does_not_converge_has_no_limit(wild):
    report = judged(wild, limit=LIMIT, exponent=1.0)
    assert report.findings[0].verdict == depth.OPEN
    assert report.forgets is None
    assert report.verdict != depth.AGREES


@given(
    st.floats(0.02, 2.0),
    st.floats(-1.0, 1.0),
    st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 0.3]),
    st.integers(9, 17),
    st.booleans(),
)
def test_limits_are_never_judged_wrongly(p, b, left, last, alone):
    """limit + left + u L^-p (1 + b u L^-p), left over in one pair or in all."""
    rest = left * (np.arange(10) == 3) if alone else left

    def kernel(n, u):
        return LIMIT + rest + 0.3 * u * n**-p * (1 + b * u * n**-p)

    report = judged(kernel, last, limit=LIMIT, exponent=p, correction=p)
    found = report.findings[0]
    if left == 0:
        assert report.verdict != depth.CONTRADICTS
    if found.verdict == depth.CONTRADICTS:
        assert report.remainder.admits(left)
    elif report.remainder.uncertainty < np.inf:
        assert left <= found.largest_error
    if left > 100 * 0.3 * 2.0 ** (-p * last) and p >= 0.2:
        assert report.verdict == depth.CONTRADICTS
    if left == 0 and p >= 0.4 and last >= 12:
        assert report.verdict == depth.AGREES


@given(st.floats(0.02, 0.5), st.floats(0.01, 0.3), st.sampled_from([0.03, 0.1, 0.3]))
def test_a_spread_that_is_left_is_not_forgotten(p, left, size):
    report = judged(lambda n, u: 0.4 + u * (left + size * n**-p), 14)
    assert report.forgets is not True
