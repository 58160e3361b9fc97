"""Rows of the GPU benchmark and how long they may take."""

import gpu_rows
import pytest
from gpu_rows import FULL, JAX, OURS, REFERENCE, Row

from tests.benchmarks.gpu_parts import CENTRE, done

pytestmark = pytest.mark.slow


def test_the_plan_is_a_star():
    rows = gpu_rows.plan(FULL)
    assert len(set(rows)) == len(rows)
    grams = {(r.dtype, r.n, r.d, r.q) for r in rows if r.part in ("grams", "large")}
    star = {(1000, d, q) for d in (32, 64, 128, 256) for q in (3, 9)}
    star |= {(n, 128, 3) for n in (2000, 5000, 10000)}
    assert grams == {(dtype, *size) for dtype in gpu_rows.DTYPES for size in star}
    for row in rows:
        if row.who == OURS:
            for peer in (REFERENCE, JAX):
                assert Row("peers", peer, row.dtype, None, row.d, row.q) in rows
    assert [r.part for r in rows[:4]] == ["layer", "layer", "large", "large"]


def test_pairs_and_entries():
    assert CENTRE.pairs == 1000 * 1001 / 2
    assert CENTRE.entries == CENTRE.pairs * 128 * 128 * 9
    assert Row("layer", OURS, "float32", 1024, 128, 3).pairs == 1024 * 512


@pytest.mark.parametrize("d", [1, 32, 128, 256])
def test_batches_grow_from_four(d):
    sizes = FULL.batch_sizes(d)
    assert sizes == sorted(set(sizes))
    assert sizes[0] >= 4
    assert sizes[-1] ** 2 * d**2 <= 2**28


def test_estimates_follow_what_was_measured():
    large = Row("large", OURS, "float64", 10_000, 128, 3)
    unknown = gpu_rows.estimate(large, [])
    assert 2 * 60 < unknown < 3 * 60  # twice the bar
    layer = Row("layer", OURS, "float64", 1024, 128, 3)
    tiny = Row("grams", OURS, "float64", 4, 32, 3)
    slow = done(tiny, rate=1e-6)  # launches alone
    assert gpu_rows.estimate(large, [slow, done(layer, 5e-12)]) == pytest.approx(
        10 + 1.2 * 5e-12 * large.entries + 2
    )
    assert gpu_rows.estimate(large, [done(CENTRE, 1e-15)]) == unknown  # another precision
    failed = vars(layer) | {"error": "?", "wall": 500.0}
    assert gpu_rows.estimate(large, [failed]) == unknown


@pytest.mark.parametrize("who", [REFERENCE, JAX])
def test_estimates_of_peers(who):
    row = Row("peers", who, "float32", None, 128, 3)
    first = gpu_rows.estimate(row, [])
    assert 30 < first < 120
    rows = [vars(row) | {"wall": wall, "seconds_of_a_pair": 1e-6} for wall in (5.0, 10.0)]
    assert gpu_rows.estimate(row, rows) == 12.0


def test_the_full_plan_fits_two_commands():
    """At the bars' rates, and JAX's compiler taking a quarter of a minute a row."""
    found, total = [], 0.0
    for row in gpu_rows.plan(FULL):
        rate = {"float32": 3e-12, "float64": 8e-12}[row.dtype]
        total += gpu_rows.estimate(row, found)
        if row.who == OURS:
            found.append(done(row, rate))
        else:
            wall = {REFERENCE: 6.0, JAX: 15.0}[row.who]
            found.append(vars(row) | {"wall": wall, "seconds_of_a_pair": 1e-6})
    assert total < 2 * 580
