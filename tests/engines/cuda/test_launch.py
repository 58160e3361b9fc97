"""How rows are cut up for the GPU: a pure function, tested over all lengths and many filters."""

import numpy as np
import pytest

from rescntk.engines.cuda import launch as launches

BOTH = ("gpk", "ntk")


def index(launch, d, registers):
    """Return the pixel at each (register, lane), in the order of the tables."""
    begin = np.arange(launch.lanes) * d // launch.lanes
    return (begin + np.arange(registers)[:, None]) % d


def short(launch):
    """Return whether rows are in registers."""
    return launch.name.startswith("short_rows")


def busy(launch, d, offsets):
    """Return the share of lanes that have work, and of their registers."""
    if short(launch):
        teams = launch.threads // 32 * (32 // launch.lanes)
        rounds = -(-offsets // launch.share)
        lanes = launch.pairs * offsets * launch.lanes / (rounds * launch.threads)
        assert launch.share * launch.pairs <= teams
    else:
        width = launch.threads // launch.pairs
        lanes = launch.pairs * launch.lanes / (-(-launch.lanes // width) * launch.threads)
    return lanes, d / (launch.lanes * launch.pixels)


def each_launch(lengths, sizes, heads=("gap", "trace", "equivariant", "pixels")):
    for d in lengths:
        for filters in sizes:
            for dtype in ("float32", "float64"):
                for head in heads:
                    yield d, filters, dtype, head, launches.plan(d, filters, dtype, BOTH, head)


def test_every_launch_covers_every_row():
    """Of some filters: it is the longer one that counts."""
    sizes = [(1, 1), (3, 3), (9, 5), (3, 15), (31, 3)]
    lengths = [*range(1, 500), *range(500, 4097, 29), 4096]
    for d, filters, dtype, head, launch in each_launch(lengths, sizes, ("gap", "trace")):
        half = max(filters) // 2
        counts = np.diff(np.arange(launch.lanes + 1) * d // launch.lanes)
        assert counts.sum() == d
        assert set(counts) <= {launch.pixels, launch.pixels - 1} and counts.max() == launch.pixels
        assert launch.threads % 32 == 0 and launch.threads <= 256
        if short(launch):
            assert launch.lanes <= 32 and launch.pixels <= launches.MOST_PIXELS[dtype]
            assert half <= counts.min()  # a halo comes from the next lane
            teams = launch.threads // 32 * (32 // launch.lanes)
            assert launch.share * launch.pairs <= teams
            assert launch.share <= (d if head == "gap" else 1)
            assert launch.pairs % launch.tall == 0
        else:
            assert launch.pixels <= 5 and launch.share == 1 and launch.pairs % launch.tall == 0
            assert launch.shared_bytes <= launches.SHARED_BYTES
            # A pair's threads get all of its lanes at once, or the whole block works for it.
            assert launch.lanes <= launch.threads // launch.pairs or launch.pairs == 1


def test_short_rows_stay_in_registers():
    """Whatever fits 32 lanes, and so all lengths of the issue's benchmarks, to d = 256."""
    for dtype, longest in (("float32", 384), ("float64", 256)):
        for d in range(1, longest + 1):
            assert short(launches.plan(d, (1, 3), dtype, BOTH, "gap"))
            if d >= 9:
                assert short(launches.plan(d, (9, 9), dtype, BOTH, "gap"))
        assert not short(launches.plan(longest + 1, (3, 3), dtype, BOTH, "gap"))


@pytest.mark.parametrize("head", ["gap", "trace"])
def test_lanes_have_work(head):
    """Of nearly all lanes' registers; fewer where a filter of 11 and more needs long segments."""
    least = {3: 0.78, 9: 0.78, 11: 0.65, 15: 0.49, 31: 0.8}
    for q, bar in least.items():
        shares = []
        lengths = [*range(1, 500), *range(500, 4097, 7)]
        for d, _, dtype, _, launch in each_launch(lengths, [(q, q)], (head,)):
            if head == "gap" and d > 500:
                continue
            lanes, registers = busy(launch, d, d if head == "gap" else 1)
            shares.append(lanes * registers)
            if not short(launch):
                assert lanes >= 0.8, (d, q, dtype)
            assert shares[-1] >= bar, (d, q, dtype, shares[-1])
        assert np.mean(shares) >= 0.85
    launch = launches.plan(1285, (3, 3), "float64", BOTH, head)
    assert busy(launch, 1285, 1)[0] >= 0.8


def test_tables_lie_as_lanes_read_them():
    """A row of any offset: what a lane reads at `seen` are the pixels after its own."""
    for d, _, _, _, launch in each_launch((1, 2, 5, 7, 25, 97, 128, 385), [(3, 3)], ("gap",)):
        left, right = index(launch, d, launch.pixels), index(launch, d, 2 * launch.pixels)
        begin = np.arange(launch.lanes + 1) * d // launch.lanes
        for offset in {0, 1, d // 2, d - 1}:
            other = (begin[:-1] + offset) % d
            lane = ((other + 1) * launch.lanes - 1) // d
            register = other - begin[lane]
            assert (register >= 0).all() and (register < launch.pixels).all()
            for j in range(launch.pixels):
                assert (right[register + j, lane] == (left[j] + offset) % d).all()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((4097, (3, 3), "float32", BOTH, "gap"), "X has 4097 timepoints, expected at most 4096"),
        ((10**9, (3, 3), "float32", BOTH, "gap"), "X has 1000000000 timepoints"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, says):
    with pytest.raises(ValueError, match=f"^{says}.*engine='reference'"):
        launches.plan(*arguments)


@pytest.mark.parametrize("memory", [48 * 1024, 99 * 1024, 163 * 1024, 227 * 1024])
@pytest.mark.parametrize(("head", "activation", "rings"), [("gap", "relu", 5), ("gap", "erf", 6)])
def test_rows_fit_in_shared_memory_or_are_refused(memory, head, activation, rings):
    """On devices that have so much of it: rows of D, A and F, and of what is added to them."""
    for dtype, size in (("float32", 4), ("float64", 8)):
        longest = min(4096, memory // (rings * size))
        for d in (1, 5, 40, 192, 193, 256, 257, 400, 1000, longest):
            plan = (d, (31, 31), dtype, BOTH, head, activation, False, memory)
            assert 0 < launches.plan(*plan).shared_bytes <= memory
        if longest < 4096:
            with pytest.raises(ValueError, match=f"shared memory, expected at most {memory} on"):
                launches.plan(longest + 1, *plan[1:])
