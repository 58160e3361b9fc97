"""The plan of launches, a pure function: over all lengths, many filters, devices and shapes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rescntk as rk
from rescntk.engines.cuda import launch_plan
from rescntk.engines.cuda.launch_plan import H200, LaunchPlan
from rescntk.engines.protocol import Request, blocks
from rescntk.validation import KINDS

pytestmark = pytest.mark.slow

ALL = ("input", "inner", "outer", "readout")


def plan(d, filters, dtype="float64", head="gap", device=H200, depth=2, **options):
    network = rk.Network(depth, filters[0], outer_filter_size=filters[1], **options)
    return LaunchPlan(Request(network, head, KINDS, (depth,), dtype), 1, d, device)


def short(launch):
    """Return whether rows are in registers."""
    return launch.name.startswith("short_rows")


def busy(launch, d, offsets):
    """Return the share of threads that have work, and of their registers."""
    pairs = launch.pairs_high * launch.pairs_wide
    if short(launch):
        rounds = -(-offsets // launch.teams_per_pair)
        work, threads = pairs * offsets * launch.segments, rounds * launch.threads
    else:
        rounds = -(-launch.segments // (launch.threads // pairs))
        work, threads = pairs * launch.segments, rounds * launch.threads
    return work / threads, d / (launch.segments * launch.pixels)


def useful_warps(launch, dtype):
    """Return the threads of an H200's multiprocessor that have segments, in warps."""
    registers = launch_plan.LONG_REGISTERS[dtype] * launch.threads
    blocks = min(65536 // registers, H200.shared_bytes // launch.shared_bytes)
    return blocks * launch.threads / 32 * busy(launch, launch.d, launch.offsets)[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("head", ["gap", "trace"])
def test_every_launch_covers_every_row(dtype, head):
    """And nearly all threads' registers have work; fewer where a long filter needs long segments.

    It is the longer filter that counts.
    """
    least = {(1, 3): 0.78, (3, 3): 0.78, (9, 5): 0.78, (3, 11): 0.65, (15, 15): 0.49, (31, 3): 0.8}
    shares = []
    for d in [*range(1, 200, 2), *range(200, 500, 7), *range(500, 4097, 83), 4096]:
        for filters, bar in least.items():
            launch = plan(d, filters, dtype, head)
            counts = np.diff(np.arange(launch.segments + 1) * d // launch.segments)
            assert counts.sum() == d
            assert set(counts) <= {launch.pixels, launch.pixels - 1}
            assert counts.max() == launch.pixels
            assert launch.threads % 32 == 0 and launch.threads <= 256
            pairs = launch.pairs_high * launch.pairs_wide
            # Whatever fits 32 segments is in registers.
            longest = max(filters)
            most = launch_plan.MOST_PIXELS[dtype][1]
            fits = longest <= min(d, 9) and d <= 32 * most
            assert short(launch) or not fits
            if short(launch):
                assert launch.segments <= 32
                assert launch.pixels <= most
                assert longest // 2 <= counts.min()  # a halo comes from the next segment
                teams = launch.threads // 32 * (32 // launch.segments)
                assert launch.teams_per_pair * pairs <= teams
                assert launch.teams_per_pair <= (d if head == "gap" else 1)
            else:
                assert launch.pixels <= 5 and launch.teams_per_pair == 1
                assert launch.shared_bytes <= H200.shared_bytes
                # A pair's threads get all of its segments at once, or the whole block works for it.
                assert launch.segments <= launch.threads // pairs or pairs == 1
                # On an H200, two blocks of 4 warps are faster than two of 7.
                assert useful_warps(launch, dtype) >= {"float32": 6, "float64": 5}[dtype]
            threads, registers = busy(launch, d, launch.offsets)
            if short(launch):
                shares.append(threads * registers)
                assert shares[-1] >= bar, (d, filters, shares[-1])
    assert np.mean(shares) >= 0.85


def test_dilated_filters_take_shared_memory():
    """If a step is more than one pixel on the ring, and the filter has more than one tap."""
    for filters, dilation, d, expected in (
        ((3, 3), (1, 2, 4), 13, (1, 1, 2, 4)),
        ((1, 5), (1, 2, 4), 3, (1, 1, 2, 1)),
        ((3, 3), 6, 5, (1, 1, 1, 1)),
        ((1, 1), 6, 13, (1, 1, 1, 1)),
    ):
        launch = plan(d, filters, depth=3, dilation=dilation)
        assert launch.steps == expected
        assert short(launch) == (max(expected) == 1)


@pytest.mark.parametrize("memory", [48 * 1024, 99 * 1024, 227 * 1024])
@pytest.mark.parametrize(("head", "trained", "rings"), [("gap", ("inner",), 5), ("pixels", ALL, 7)])
def test_rows_fit_in_shared_memory_or_are_refused(memory, head, trained, rings):
    """Rows of D, A and F, and of their branches; with more or less shared memory."""
    for dtype, size in (("float32", 4), ("float64", 8)):
        options = {"head": head, "trained": trained, "device": H200._replace(shared_bytes=memory)}
        longest = min(4096, memory // (rings * size))
        for d in (1, 192, 257, 400, longest):
            assert 0 < plan(d, (31, 31), dtype, **options).shared_bytes <= memory
        says = f"memory, expected at most {memory} on" if longest < 4096 else "at most 4096 for"
        with pytest.raises(ValueError, match=f"^X has {longest + 1} timepoints.*{says}"):
            plan(longest + 1, (31, 31), dtype, **options)


shapes = st.tuples(
    st.integers(1, 300), st.sampled_from([1, 3, 15]), st.sampled_from(["gap", "pixels", "trace"])
)


@given(shapes, st.integers(1, 60), st.integers(1, 60), st.integers(1, 2**28), st.booleans())
def test_tiles_cover_every_pair_once(shape, n, m, free, symmetric):
    """On and above the diagonal of a symmetric Gram, in one grid of tiles for both sides."""
    d, size, head = shape
    launch, m = plan(d, (size, size), head=head), n if symmetric else m
    height, width = launch.tile_shape(n, m, free)
    if symmetric:
        height = width = min(height, width)
    seen, told = np.zeros((n, m), int), 0
    for rows in blocks(0, n, height):
        for columns in blocks(rows.start if symmetric else 0, m, width):
            tile = launch_plan.PairTile(rows, columns, symmetric)
            row, column = np.ogrid[: tile.shape[0], : tile.shape[1]]
            seen[rows, columns] += column + tile.above >= row
            told += tile.pairs
    assert (seen == (np.triu(np.ones((n, m), int)) if symmetric else 1)).all()
    assert told == seen.sum()


DEVICES = {  # shared memory, multiprocessors, float32 operations in the time of one in float64
    "H200": H200,
    "RTX 3060": launch_plan.DeviceLimits(99 * 1024, 28, 64),
    "GTX 1650": launch_plan.DeviceLimits(64 * 1024, 14, 32),
}
FLOAT32_UNITS = {"H200": 128, "RTX 3060": 128, "GTX 1650": 64}  # of a multiprocessor


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_launches_take_less_than_two_seconds_and_fill_the_device(name, dtype):
    """By counts of instructions at 1.5 GHz, and 20 (FP64) for a pixel pair of a result."""
    device, units = DEVICES[name], FLOAT32_UNITS[name]
    for d, depth, head in product((1, 25, 128, 500, 1300), (1, 9, 1000), ("gap", "trace")):
        launch = plan(d, (3, 3), dtype, head, device, depth)
        (_, pairs), offsets = launch.tile_shape(1, 2**50, 2**37), launch.offsets_at_once
        layer = 90 if dtype == "float32" else 67 * device.double_cost
        slots = pairs * offsets * d * (depth * layer + 20 * device.double_cost)
        assert slots / (device.multiprocessors * units * 1.5e9) < 2.0
        assert pairs == 1 or offsets == launch.offsets
        for rectangles in (1, 36, 1000):  # no multiprocessor waits while teams have further offsets
            blocks = rectangles * launch.blocks_per_pair(rectangles)
            turns = -(-offsets // launch.teams_per_pair)
            warps = blocks * launch.threads // 32
            assert warps >= 128 * device.multiprocessors or blocks == rectangles * turns
            assert launch.blocks_per_pair(rectangles) <= turns


def test_every_layer_has_its_share_of_doubt():
    for depth in range(1, 300):
        counts = launch_plan.layers_seen(depth)
        assert sum(counts.values()) == depth - 1 and all(counts.values())
    assert launch_plan.layers_seen(10) == {2: 3, 8: 6}
    assert launch_plan.layers_seen(2) == {2: 1}
