"""Pieces of the kernels, compiled for the host: windows, indices, roots, polynomials."""

import ctypes

import numpy as np
import pytest

from rescntk.engines import exact_sum, polynomials
from rescntk.engines.cuda import kernels, launch
from tests import tolerances
from tests.engines.cuda import emulated

pytestmark = [emulated.on_host, pytest.mark.slow]


DRIVER = """
static const double *given;
static double *taken;
static int length, team_segments;

template <bool EVEN, int P, int Q> static void through_a_team()
{
    const Team team(team_segments);
    const int first = begin(team.segment, team_segments, length);
    const int count = begin(team.segment + 1, team_segments, length) - first;
    double own[P], out[P];
    for (int j = 0; j < P; ++j)
        own[j] = j < count ? given[(first + j) % length] : NAN;
    team_sums<EVEN, Q>(team, count < P, own, out);
    for (int j = 0; team.whole && j < count; ++j)
        taken[team.number * length + first + j] = out[j];
}

extern "C" int team_windows(int even, int pixels, int size, int d, int segments, const double *row,
    double *out)
{
    given = row, taken = out, length = d, team_segments = segments;
    switch ((even * 100 + pixels) * 100 + size) {
TEAMS
    }
    return -1;
}

template <int Q, int P>
static void through_memory_of(
    const double *row, double *out, int d, int size, int step, int segments)
{
    for (int segment = 0; segment < segments; ++segment) {
        const int first = begin(segment, segments, d), end = begin(segment + 1, segments, d);
        double sums[P];
        if (step)
            ring_sums<Q, true>(row, d, size, step, first, sums);
        else
            ring_sums<Q, false>(row, d, size, step, first, sums);
        for (int j = 0; first + j < end; ++j)
            out[first + j] = sums[j];
    }
}

extern "C" int memory_windows(int pixels, int size, int step, int d, int segments,
    const double *row, double *out)
{
    switch (pixels * 100 + (size > 15 ? 0 : size)) {
MEMORY
    }
    return -1;
}

// Where a segment of a row begins to read and to write, in numbers.
extern "C" void addresses(long long row, long long column, long long rows, long long columns,
    int depth, int features, int d, int segments, int segment, int offset, int slots, int head,
    long long *out)
{
    Job<double> job{};
    job.depth = depth, job.features = features, job.d = d, job.segments = segments;
    job.n_slots = slots, job.rows = rows, job.columns = columns, job.head = head;
    const CasePair cases{row, column, true};
    const SegmentTables<double> tables = segment_tables<5>(job, cases, segment, offset);
    using Net = Network<double, 5, 3, 3, true, true, false, false>;
    job.head = head == SUM ? FIRST_PAIR : head;  // which does not read bounds
    out[0] = tables.left - (PixelRoots<double> *)0;
    out[1] = tables.right - (PixelRoots<double> *)0;
    out[2] = tables.left_units - (double *)0;
    out[3] = tables.right_units - (double *)0;
    out[4] = result_of<Net>(job, cases, 1, slots - 1).at - (double *)0;
}
extern "C" void summation_grids(const double *bounds, int headroom, double *out, int n)
{
    for (int k = 0; k < n; ++k)
        for (int grid = 0; grid < MOST_GRIDS; ++grid)
            out[MOST_GRIDS * k + grid] = grids(bounds[k], headroom).constant[grid];
}
extern "C" void roots(const double *a, double *out, int n)
{
    for (int k = 0; k < n; ++k)
        out[k] = square_root(at_least_0(a[k]));
}
extern "C" void polynomials64(const double *a, double *p, double *r, int n)
{
    for (int k = 0; k < n; ++k)
        p[k] = p_poly(a[k]), r[k] = r_poly(a[k]);
}
extern "C" void polynomials32(const float *a, float *p, float *r, int n)
{
    for (int k = 0; k < n; ++k)
        p[k] = p_poly(a[k]), r[k] = r_poly(a[k]);
}
"""
SIZES = range(1, 16, 2)


@pytest.fixture(scope="module")
def driver(folder):
    """Yield pieces of rows.h and rows.cu, compiled for the host."""
    teams = [
        f"    case {(even * 100 + pixels) * 100 + size}: return host::run(1, 32, 32, 0, "
        f"through_a_team<{'true' if even else 'false'}, {pixels}, {size}>);"
        for even in (0, 1)
        for pixels in range(1, 13)
        for size in SIZES
        if size // 2 <= pixels - (not even)
    ]
    memory = [
        f"    case {pixels * 100 + size}: "
        f"through_memory_of<{size}, {pixels}>(row, out, d, size, step, segments); return 0;"
        for pixels in range(1, 6)
        for size in (0, *SIZES)
    ]
    text = DRIVER.replace("TEAMS", "\n".join(teams)).replace("MEMORY", "\n".join(memory))
    return emulated.build(emulated.on_the_host(kernels.source()) + text, folder)


def at(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def windows(row, size, step=1):
    """Sums over circular windows, exactly: the numbers are integers."""
    taps = np.arange(len(row))[:, None] + step * np.arange(-(size // 2), size // 2 + 1)
    return row[taps % len(row)].sum(axis=1)


def test_halos_of_every_segment_layout(driver, rng):
    """Segment by segment, for every cut of a row that `plan` can choose, and all filters.

    The longer of two filters chooses; the other filter has the same segments.
    """
    seen = 0
    for d in range(1, 385):
        row = rng.integers(-(2**40), 2**40, d).astype(np.float64)
        longest = {}
        for size in SIZES:
            for dtype in launch.MOST_PIXELS:
                rows = launch.Rows(
                    d=d,
                    filter_size=size,
                    outer_filter_size=1,
                    dtype=dtype,
                    kinds=("ntk",),
                    head="gap",
                )
                if cut := launch.cut_for_registers(rows):
                    longest[cut] = size
        expected = {size: windows(row, size) for size in SIZES}
        for (segments, pixels), most in longest.items():
            for size in range(1, most + 1, 2):
                teams = 32 // segments
                out = np.full((teams, d), np.nan)
                parted = driver.team_windows(
                    d % segments == 0, pixels, size, d, segments, at(row), at(out)
                )
                assert parted == 0
                assert (out == expected[size]).all(), (d, size, segments, pixels)
                seen += 1
    assert seen > 4000


def test_windows_in_memory(driver, rng):
    """Of rows of all lengths, also of filters that wrap around more than once."""
    lengths = [*range(1, 60), 192, 193, 385, 1000, 4095, 4096]
    for d in lengths:
        row = rng.integers(-(2**40), 2**40, d).astype(np.float64)
        segments = -(-d // launch.LONG_PIXELS)
        pixels = -(-d // segments)
        for size in (*SIZES, 17, 31, 33, 101, 4097):
            out = np.full(d, np.nan)
            if size <= 101 or d <= 60:
                assert driver.memory_windows(pixels, size, 0, d, segments, at(row), at(out)) == 0
                assert (out == windows(row, size)).all(), (d, size)


def test_dilated_windows_in_memory(driver, rng):
    """Of steps up to a ring's length, at which all taps meet one pixel."""
    for d in (1, 2, 5, 7, 24, 61, 4096):
        row = rng.integers(-(2**30), 2**30, d).astype(np.float64)
        segments = -(-d // launch.LONG_PIXELS)
        pixels = -(-d // segments)
        for size in (*SIZES, 17, 101, 2**20 + 1):
            for step in {1, 2, 3, 8, d // 2, d - 1, d} & set(range(1, d + 1)):
                out = np.full(d, np.nan)
                if size <= 101 or d <= 7:
                    code = driver.memory_windows(pixels, size, step, d, segments, at(row), at(out))
                    assert code == 0
                    expected = windows(row, size, step)
                    assert (out == expected).all(), (d, size, step)


@pytest.mark.parametrize("head", [1, 2])
def test_no_index_overflows(driver, head):
    """Tables, units and results of far more than 2^31 numbers."""
    row, column, rows, columns = 70_000, 90_001, 80_000, 100_000
    depth, features, d, segments, segment, offset, slots = 60, 500, 4094, 819, 818, 4093, 3
    out = np.zeros(5, dtype=np.int64)
    long = ctypes.c_longlong
    driver.addresses(
        long(row), long(column), long(rows), long(columns),
        depth, features, d, segments, segment, offset, slots, head, at(out),
    )  # fmt: skip
    other = (segment * d // segments + offset) % d
    from_segment = ((other + 1) * segments - 1) // d
    seen = (other - from_segment * d // segments) * segments + from_segment
    size = d * d if head == 2 else 1
    expected = [
        row * (depth + 1) * 5 * segments + segment,
        column * (depth + 1) * 10 * segments + seen,
        row * features * 5 * segments + segment,
        column * features * 10 * segments + seen,
        (((slots + slots - 1) * rows + row) * columns + column) * size,
    ]
    assert out.tolist() == expected
    assert min(expected) > 2**31


@pytest.mark.parametrize("count", [1, 2, 676, 2**16, 2**16 + 1, 4096**2])
def test_grids_are_those_of_all_engines(driver, count, rng):
    """To the bit, as many as the number of terms asks for."""
    bounds = np.concatenate([rng.uniform(0, 4, 100), 2.0 ** np.arange(-200, 200, 7)])
    expected = np.array(exact_sum.grids(np, bounds, count)).T
    out = np.empty((len(bounds), 3))
    driver.summation_grids(at(bounds), (count - 1).bit_length() + 1, at(out), len(bounds))
    assert (out[:, : expected.shape[1]] == expected).all()
    assert expected.shape[1] == 2 + (count > 2**16)


def test_square_roots(driver, rng):
    """From a seed that is right to 20 bits, within a unit of the last place; 0 is next to 0."""
    a = np.concatenate([rng.uniform(0, 1, 20000), np.geomspace(1e-300, 1, 20000), [1.0, 0.5]])
    out = np.empty_like(a)
    driver.roots(at(a), at(out), len(a))
    assert np.abs(out / np.sqrt(a) - 1).max() <= tolerances.EPS["float64"]
    small = np.array([0.0, -0.0, -1e-16, -5e-324])
    out = np.empty_like(small)
    driver.roots(at(small), at(out), len(small))
    assert ((out >= 0) & (out < 1e-150)).all()


@pytest.mark.parametrize("bits", [64, 32])
def test_polynomials_are_those_of_the_cpu(driver, bits, rng):
    """The same coefficients, summed up in another order."""
    a = rng.uniform(0, 1, 10000).astype(f"float{bits}")
    p, r = np.empty_like(a), np.empty_like(a)
    getattr(driver, f"polynomials{bits}")(at(a), at(p), at(r), len(a))
    for ours, name in ((p, "p"), (r, "r")):
        theirs = getattr(polynomials, f"{name}{bits}")(a)
        # Both are right to 1.75 units (test_numba.py).
        assert np.abs(ours / theirs - 1).max() <= 3.5 * tolerances.EPS[f"float{bits}"]
