"""Work cut into blocks and threads, and mirrored results, against cases by hand."""

import numpy as np
import pytest

from rescntk.engines import work
from rescntk.engines.request import ScaledKernel


def test_blocks_cover_a_range():
    assert list(work.blocks(2, 10, 3)) == [slice(2, 5), slice(5, 8), slice(8, 10)]
    assert list(work.blocks(4, 4, 3)) == []


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([3, 3, 3, 5, 1], [slice(0, 2), slice(2, 3), slice(3, 5)]),
        ([9, 1], [slice(0, 1), slice(1, 2)]),  # more than fits is a slice of its own
        ([], []),
    ],
)
def test_cuts_have_sizes_of_at_most_six(sizes, expected):
    assert list(work.cut(np.array(sizes, dtype=int), 6)) == expected


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_results_come_in_the_order_of_tasks(threads):
    with work.pool_of(threads) as pool:
        assert list(pool.map(lambda task: task**2, range(20))) == [n**2 for n in range(20)]


def test_threads_hear_that_their_pool_has_ended():
    flags = []
    with work.pool_of(2) as pool:
        flags += pool.map(lambda _: work.stop_flag(), range(4))
        assert not any(flag[0] for flag in flags)
    assert all(flag[0] for flag in flags) and not work.stop_flag()[0]


@pytest.mark.parametrize("n", [1, 2, 127, 128, 129, 300])
def test_kernels_are_mirrored(n, rng):
    K = rng.standard_normal((2, n, n))
    expected = np.triu(K) + np.triu(K, 1).swapaxes(1, 2)
    found = ScaledKernel({"gpk": K.copy()}, np.ones(n), np.ones(n), (0, 0)).mirrored()
    assert (found.values["gpk"] == expected).all()


def test_mirrored_pixel_pairs_change_places(rng):
    K = rng.standard_normal((1, 3, 3, 4, 4))
    found = ScaledKernel({"ntk": K.copy()}, np.ones(3), np.ones(3), (0,)).mirrored().values["ntk"]
    assert (found[0, 2, 0] == K[0, 0, 2].T).all()
    assert (found[0, 0, 2] == K[0, 0, 2]).all() and (found[0, 1, 1] == K[0, 1, 1]).all()
