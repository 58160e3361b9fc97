"""The shape of a launch: a pure function, tested over all lengths and many filters."""

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines.cuda import launch as launches
from rescntk.engines.cuda.packing import LEFT, RIGHT, segment_order
from rescntk.engines.protocol import Request

pytestmark = pytest.mark.slow

BOTH = ("gpk", "ntk")


def plan(d, filters, dtype, kinds, head, memory=None, linear_apart=False):
    """Return the launch of rows that are given in short."""
    rows = launches.Rows(
        d=d,
        filter_size=filters[0],
        outer_filter_size=filters[1],
        dtype=dtype,
        kinds=kinds,
        head=head,
        linear_apart=linear_apart,
    )
    return launches.plan(rows, memory or launches.SHARED_BYTES)


def short(launch):
    """Return whether rows are in registers."""
    return launch.name.startswith("short_rows")


def busy(launch, d, offsets):
    """Return the share of threads that have work, and of their registers."""
    if short(launch):
        teams = launch.threads // 32 * (32 // launch.segments)
        rounds = -(-offsets // launch.teams_per_pair)
        threads = launch.pairs_per_block * offsets * launch.segments / (rounds * launch.threads)
        assert launch.teams_per_pair * launch.pairs_per_block <= teams
    else:
        width = launch.threads // launch.pairs_per_block
        threads = (
            launch.pairs_per_block
            * launch.segments
            / (-(-launch.segments // width) * launch.threads)
        )
    return threads, d / (launch.segments * launch.pixels)


def each_launch(lengths, sizes, heads=("gap", "trace", "equivariant", "pixels")):
    for d in lengths:
        for filters in sizes:
            for dtype in ("float32", "float64"):
                for head in heads:
                    yield d, filters, dtype, head, plan(d, filters, dtype, BOTH, head)


def test_every_launch_covers_every_row():
    """Of some filters: it is the longer one that counts."""
    sizes = [(1, 1), (3, 3), (9, 5), (3, 15), (31, 3)]
    lengths = [*range(1, 500), *range(500, 4097, 29), 4096]
    for d, filters, dtype, head, launch in each_launch(lengths, sizes, ("gap", "trace")):
        half = max(filters) // 2
        counts = np.diff(np.arange(launch.segments + 1) * d // launch.segments)
        assert counts.sum() == d
        assert set(counts) <= {launch.pixels, launch.pixels - 1} and counts.max() == launch.pixels
        assert launch.threads % 32 == 0 and launch.threads <= 256
        if short(launch):
            assert launch.segments <= 32 and launch.pixels <= launches.MOST_PIXELS[dtype]
            assert half <= counts.min()  # a halo comes from the next segment
            teams = launch.threads // 32 * (32 // launch.segments)
            assert launch.teams_per_pair * launch.pairs_per_block <= teams
            assert launch.teams_per_pair <= (d if head == "gap" else 1)
            assert launch.pairs_per_block % launch.pairs_high == 0
        else:
            assert (
                launch.pixels <= 5
                and launch.teams_per_pair == 1
                and launch.pairs_per_block % launch.pairs_high == 0
            )
            assert launch.shared_bytes <= launches.SHARED_BYTES
            # A pair's threads get all of its segments at once, or the whole block works for it.
            assert (
                launch.segments <= launch.threads // launch.pairs_per_block
                or launch.pairs_per_block == 1
            )


def test_short_rows_stay_in_registers():
    """Whatever fits 32 segments, and so all lengths of the issue's benchmarks, to d = 256."""
    for dtype, longest in (("float32", 384), ("float64", 256)):
        for d in range(1, longest + 1):
            assert short(plan(d, (1, 3), dtype, BOTH, "gap"))
            if d >= 9:
                assert short(plan(d, (9, 9), dtype, BOTH, "gap"))
        assert not short(plan(longest + 1, (3, 3), dtype, BOTH, "gap"))


@pytest.mark.parametrize("head", ["gap", "trace"])
def test_threads_have_work(head):
    """Of nearly all threads' registers; fewer where a filter of 11 and more needs long segments."""
    least = {3: 0.78, 9: 0.78, 11: 0.65, 15: 0.49, 31: 0.8}
    for q, bar in least.items():
        shares = []
        lengths = [*range(1, 500), *range(500, 4097, 7)]
        for d, _, dtype, _, launch in each_launch(lengths, [(q, q)], (head,)):
            if head == "gap" and d > 500:
                continue
            threads, registers = busy(launch, d, d if head == "gap" else 1)
            shares.append(threads * registers)
            if not short(launch):
                assert threads >= 0.8, (d, q, dtype)
            assert shares[-1] >= bar, (d, q, dtype, shares[-1])
        assert np.mean(shares) >= 0.85
    launch = plan(1285, (3, 3), "float64", BOTH, head)
    assert busy(launch, 1285, 1)[0] >= 0.8


def test_dilated_filters_take_shared_memory():
    """If a step is more than one pixel on the ring, and the filter has more than one tap."""
    for network, d, expected in (
        (rk.Network(3, 3, dilation=(1, 2, 4)), 13, [1, 1, 2, 4]),
        (rk.Network(3, 1, outer_filter_size=5, dilation=(1, 2, 4)), 3, [1, 1, 2, 1]),
        (rk.Network(3, 3, dilation=6), 5, [1, 1, 1, 1]),
        (rk.Network(3, 1, dilation=6), 13, [1, 1, 1, 1]),
    ):
        request = Request(network, "gap", BOTH, (3,))
        assert launches.steps(request, d) == expected
        assert short(launches.plan(launches.Rows.of(request, d))) == (max(expected) == 1)


def test_tables_lie_as_segments_read_them():
    """A row of any offset: what a segment reads at `seen` are the pixels after its own."""
    for d, _, _, _, launch in each_launch((1, 2, 5, 7, 25, 97, 128, 385), [(3, 3)], ("gap",)):
        left, right = (
            segment_order(launch, d, side.registers(launch)).reshape(-1, launch.segments)
            for side in (LEFT, RIGHT)
        )
        begin = np.arange(launch.segments + 1) * d // launch.segments
        for offset in {0, 1, d // 2, d - 1}:
            other = (begin[:-1] + offset) % d
            segment = ((other + 1) * launch.segments - 1) // d
            register = other - begin[segment]
            assert (register >= 0).all() and (register < launch.pixels).all()
            for j in range(launch.pixels):
                assert (right[register + j, segment] == (left[j] + offset) % d).all()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((4097, (3, 3), "float32", BOTH, "gap"), "X has 4097 timepoints, expected at most 4096"),
        ((10**9, (3, 3), "float32", BOTH, "gap"), "X has 1000000000 timepoints"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, says):
    with pytest.raises(ValueError, match=f"^{says}.*engine='reference'"):
        plan(*arguments)


@pytest.mark.parametrize("memory", [48 * 1024, 99 * 1024, 163 * 1024, 227 * 1024])
@pytest.mark.parametrize(
    ("head", "apart", "rings"), [("gap", False, 5), ("gap", True, 6), ("pixels", False, 6)]
)
def test_rows_fit_in_shared_memory_or_are_refused(memory, head, apart, rings):
    """Rows of D, A and F, of their branches, and of F⁰; with more or less shared memory."""
    for dtype, size in (("float32", 4), ("float64", 8)):
        longest = min(4096, memory // (rings * size))
        for d in (1, 5, 40, 192, 193, 256, 257, 400, 1000, longest):
            arguments = (d, (31, 31), dtype, BOTH, head, memory, apart)
            assert 0 < plan(*arguments).shared_bytes <= memory
        if longest < 4096:
            with pytest.raises(ValueError, match=f"shared memory, expected at most {memory} on"):
                plan(longest + 1, *arguments[1:])
