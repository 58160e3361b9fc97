"""The shape of launches, against cases that were worked out by hand; no device is asked."""

import pytest

from rescntk import Network
from rescntk.engines.compiled.program import operations_of
from rescntk.engines.cuda.compiler import DeviceLimits
from rescntk.engines.cuda.launch_plan import LaunchPlan
from rescntk.engines.request import Request

DEVICE = DeviceLimits(shared_bytes=48 << 10, multiprocessors=10, double_cost=2)


NETWORK = Network(3, 3)


def plan(
    d, head="gap", dtype="float32", network=NETWORK, kinds=("gpk", "ntk"), device=DEVICE, **options
):
    request = Request(network, head, kinds, (network.depth,), dtype, **options)
    return LaunchPlan(request, d, operations_of(request, 2, 1), device)


def test_strips_of_all_pixel_pairs():
    """For 100 pixels there are four lanes, a thread for each pixel, and two teams of 256 threads.
    The 25 strips are too few for several blocks."""
    found = plan(100)
    assert (found.lanes, found.thread_pixels, found.threads, found.teams) == (4, 1, 100, 2)
    assert found.blocks_per_pair == found.n_partial_sums == 1
    assert found.team_bytes == 3 * (100 + 4) * 4 * 4  # U, U⁺ and A, with a halo of two pixels
    assert found.name == "strips<float, 4, 1, true, false, false, true, false>"


def test_kernels_of_pooled_heads_are_compiled_for_pools():
    assert plan(100, 30).name == "strips<float, 4, 1, true, true, false, true, false>"


def test_pooled_heads_have_blocks_for_offsets_below_their_width():
    """Pools of 129 of 2000 pixels share 257 offsets: 32 blocks of 8 strips."""
    assert plan(2000, 129, kinds=("gpk",), dtype="float64").blocks_per_pair == 257 // 8


def test_launches_for_pooled_heads_have_more_pairs():
    """Pools of 30 of 100 pixels share 59 offsets. Both numbers are rounded down to whole pairs."""
    of_all_offsets = plan(100).most_pairs
    least, beyond = of_all_offsets * 100 / 59 - 1, (of_all_offsets + 1) * 100 / 59
    assert least < plan(100, 30).most_pairs < beyond


def test_long_strips_have_several_pixels_for_each_thread_and_several_blocks():
    """For 2000 pixels in float64 there is one lane, and a thread has four pixels. A team computes
    eight strips of a block."""
    found = plan(2000, dtype="float64", kinds=("gpk",))
    assert (found.lanes, found.thread_pixels, found.threads, found.teams) == (1, 4, 500, 1)
    assert found.blocks_per_pair == 64  # of 2000 / 8 = 250
    assert found.team_bytes == 2 * 2004 * 8


def test_strips_of_equal_pixels_take_right_signals_as_lanes():
    found = plan(100, "trace")
    assert (found.lanes, found.threads, found.teams, found.blocks_per_pair) == (4, 100, 2, 1)
    assert found.team_bytes == 2 * 8 * 100 * 4  # sums of four signals in float64
    assert found.name.startswith("strips<float, 4, 1, false")


@pytest.mark.parametrize(
    ("head", "rows", "columns", "paired", "expected"),
    [
        ("gap", slice(0, 10), slice(0, 7), False, 70),
        ("gap", slice(0, 10), slice(0, 10), True, 10),
        (8, slice(0, 10), slice(0, 7), False, 70),
        ("trace", slice(0, 10), slice(0, 7), False, 10),  # 10 · ⌈7/4⌉ strips, two a block
        ("trace", slice(0, 10), slice(3, 7), False, 10),  # signals 3 to 6 lie in two blocks
        ("trace", slice(0, 5), slice(0, 3), False, 3),  # the last block has one of five strips
        ("trace", slice(0, 5), slice(0, 5), True, 3),
    ],
)
def test_blocks_of_a_launch(head, rows, columns, paired, expected):
    assert plan(100, head).blocks(rows, columns, paired) == expected


def test_tiles_fit_into_memory():
    found = plan(100)
    assert found.pair_bytes == 8 * 2  # two kinds
    # A quarter of 6,400 bytes has results of 100 pairs.
    assert found.tile(1000, 1000, 6400) == (10, 10)
    assert found.tile(3, 1000, 6400) == (3, 33)


def test_tiles_of_the_diagonal_have_whole_blocks_of_right_signals():
    rows, columns = plan(100, "trace").tile(1000, 1000, 6400)
    assert columns % 4 == 0 and rows * columns <= 100


def test_table_rows_of_joined_layers_are_counted_joined():
    """The 226 rows of each layer have 1.85e9 numbers. Without joined steps they have 2.4e9."""
    network = Network(1000, 3**37)
    assert plan(4096, network=network, kinds=("gpk",)).lanes == 1
    with pytest.raises(ValueError, match="tables have 2,.* numbers a signal"):
        plan(4096, network=network, kinds=("gpk",), shares=True)


@pytest.mark.parametrize(
    ("d", "options", "says"),
    [
        (4097, {}, "X has 4097 timepoints, expected at most 4096 for engine 'cuda'"),
        (4000, {"dtype": "float64"}, "which need .* bytes of shared memory in float64"),
        (4000, {"network": Network(10**5, 9)}, "tables have .* numbers a signal, expected less"),
    ],
)
def test_launches_that_cannot_fit_are_refused(d, options, says):
    with pytest.raises(ValueError, match=says):
        plan(d, **options)


def test_a_strip_may_take_all_the_shared_memory_of_a_block():
    needed = plan(1000).team_bytes
    assert plan(1000, device=DEVICE._replace(shared_bytes=needed)).team_bytes == needed
    with pytest.raises(ValueError, match=f"expected at most {needed - 1} on this device"):
        plan(1000, device=DEVICE._replace(shared_bytes=needed - 1))
