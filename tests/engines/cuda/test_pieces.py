"""Pieces of the kernels, compiled for the host: halos of every cut of a row, and large indices."""

import ctypes

import numpy as np
import pytest

from rescntk.engines.cuda import compiler, launch_plan
from tests.engines.cuda import emulated

pytestmark = [emulated.on_host, pytest.mark.slow]

DRIVER = """
static const double *given;
static double *taken;
static int length, team_segments;

template <bool EVEN, int P, int Q> static void through_a_team()
{
    const Team team(team_segments);
    const Segments<P> segments{team_segments, length};
    const int first = segments.begin(team.segment), count = P - segments.is_short(team.segment);
    double own[P], out[P];
    for (int j = 0; j < P; ++j)
        own[j] = j < count ? given[(first + j) % length] : NAN;
    team_sums<EVEN, Q>(team, count < P, own, out);
    for (int j = 0; team.whole && j < count; ++j)
        taken[team.number * length + first + j] = out[j];
}

extern "C" int team_windows(int kind, int d, int segments, const double *row, double *out)
{
    given = row, taken = out, length = d, team_segments = segments;
    switch (kind) {
TEAMS
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
"""


def kind_of(even, pixels, size):
    return (even * 100 + pixels) * 100 + size


def cuts():
    """Yield lengths of rows, halos, cuts into (segments, pixels), and whether a cut is even.

    Of rows up to 384 pixels long every length.
    """
    for d in [*range(1, 385), *range(385, 1025, 27), 1024]:
        for half in range(8):
            for dtype in launch_plan.MOST_PIXELS:
                if cut := launch_plan.cut_for_registers(d, half, dtype):
                    yield d, half, cut, d % cut[0] == 0


@pytest.fixture(scope="module")
def driver(folder):
    """Return pieces of rows.h and short_rows.cu, compiled for the host."""
    teams = [
        f"    case {kind_of(even, pixels, size)}: return host::run(1, 32, 32, 0, "
        f"through_a_team<{str(even).lower()}, {pixels}, {size}>);"
        for even, pixels, size in sorted(
            {(even, P, 2 * half + 1) for _, half, (_, P), even in cuts()}
        )
    ]
    text = emulated.on_the_host(compiler.source()) + DRIVER.replace("TEAMS", "\n".join(teams))
    return emulated.build(text, folder)


def at(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def test_halos_of_every_segment_layout(driver, rng):
    """Sums of whole numbers over windows, for every cut of a row that a plan can choose.

    The longer of two filters chooses; the other filter has the same segments.
    """
    seen = set()
    rows = rng.integers(-(2**40), 2**40, (1025, 1024)).astype(np.float64)
    for d, half, cut, even in cuts():
        kind = kind_of(even, cut[1], 2 * half + 1)
        # Every kind for some lengths, every length for some kinds.
        if kind in seen and (d + half) % 4:
            continue
        seen.add(kind)
        row, out = rows[d, :d], np.full((32 // cut[0], d), np.nan)
        assert driver.team_windows(kind, d, cut[0], at(row), at(out)) == 0, "threads parted"
        taps = np.arange(d)[:, None] + np.arange(-half, half + 1)
        assert (out == row[taps % d].sum(axis=1)).all(), (d, half, cut)
    assert len(seen) > 200


@pytest.mark.parametrize("head", [1, 2])
def test_no_index_overflows(driver, head):
    """Tables, units and results of far more than 2^31 numbers."""
    row, column, rows, columns = 70_000, 90_001, 80_000, 100_000
    depth, features, d, segments, segment, offset, slots = 60, 500, 4094, 819, 818, 4093, 3
    out = np.zeros(5, dtype=np.int64)
    cases = map(ctypes.c_longlong, (row, column, rows, columns))
    driver.addresses(*cases, depth, features, d, segments, segment, offset, slots, head, at(out))
    begin = np.append(5 * np.arange(818), [4090])  # the last segment is short
    other = (begin[segment] + offset) % d
    from_segment = np.searchsorted(begin, other, side="right") - 1
    seen = (other - begin[from_segment]) * segments + from_segment
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
