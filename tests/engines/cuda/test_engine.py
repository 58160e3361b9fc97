"""The engine "cuda" without a GPU: launches, and the kernels' own text, run on the host.

`emulated` compiles rows.cu as it is by the C++ compiler and runs a fiber for each thread. That
proves indices, halos, sums and formulas; what it cannot prove is in test_cubins.py (what the
compiler for GPUs makes of them) and in the tests marked gpu.
"""

import ctypes
import dataclasses
import itertools
import sys
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rescntk as rk
from rescntk import calls, engines
from rescntk.engines import polynomials
from rescntk.engines.cuda import engine as cuda
from rescntk.engines.cuda import launch as launches
from rescntk.engines.protocol import Request
from tests import difficult_signals, tolerances
from tests.engines.bodies import accuracy, cupy_arrays, cutting, deep, properties
from tests.engines.cuda import emulated, fake_cupy
from tests.engines.cuda import test_tables as test_cuda_tables
from tests.strategies import heads, kinds, networks, signals

on_host = pytest.mark.skipif(emulated.COMPILER is None, reason=emulated.MISSING)
BOTH = ("gpk", "ntk")


@pytest.fixture(scope="module")
def folder(request):
    """Where compiled kernels are kept, from one run of the suite to the next."""
    return request.config.cache.mkdir("kernels")


@pytest.fixture(scope="module")
def device(folder):
    """Yield CuPy's stand-in, in place of CuPy."""
    with pytest.MonkeyPatch.context() as patch:
        cuda._kernel.cache_clear()
        fake = emulated.module(folder)
        patch.setitem(sys.modules, "cupy", fake)
        yield fake
    cuda._kernel.cache_clear()
    fake_cupy.ndarray.memory = None


# ---------------------------------------------------------------- launches


@on_host
def test_a_device_with_little_shared_memory(device, monkeypatch):
    """Refuses by name what "auto" leaves to the reference engine."""
    monkeypatch.setattr(device.cuda.runtime, "deviceGetAttribute", lambda what, number: 99 * 1024)
    X = np.ones((1, 1, 2600))
    kernel = rk.gram, rk.Network(2, 3), X
    with pytest.raises(ValueError, match="^X has 2600 timepoints.*expected at most 101376"):
        kernel[0](*kernel[1:], head="trace", engine="cuda")
    request = Request(rk.Network(2), "trace", BOTH, (2,))
    for array, numbers in ((X, "float32"), (X[:, :, :2500], "float64")):
        served = dataclasses.replace(request, dtype=numbers)
        assert engines.choose("auto", served, device.asarray(array)) is cuda
    automatic = engines.choose("auto", request, device.asarray(X))
    assert automatic.__name__.endswith("reference")
    assert automatic is engines.choose("auto", request, device.asarray(np.ones((1, 1, 4097))))


@on_host
def test_lengths_in_any_order(device, rng):
    """Rows of these lengths have one kernel, and each launch its own shared memory."""
    network = rk.Network(1, 31)
    names = set()
    for d in (4096, 2048, 4096):
        X = rng.standard_normal((1, 1, d))
        names.add(launches.plan(d, (31, 31), "float64", BOTH, "trace").name)
        ours = rk.gram(network, X, head="trace", engine="cuda")
        theirs = rk.gram(network, X, head="trace", engine="reference")
        for A, B in zip(ours, theirs, strict=True):
            assert abs(A - B) <= tolerances.KERNEL["float64"] * B
    assert len(names) == 1


# ---------------------------------------------------------------- serving


def test_reasons(monkeypatch, device):
    assert engines.available()["cuda"] is True
    monkeypatch.setattr(device.cuda.runtime, "getDeviceCount", lambda: 0)
    assert engines.available()["cuda"] == "no CUDA device"
    monkeypatch.setattr(device.cuda, "runtime", type(device.cuda.runtime)())
    assert engines.available()["cuda"].startswith("no CUDA device: cudaErrorNoDevice")
    monkeypatch.undo()

    def missing():
        raise RuntimeError('Failure finding "libnvrtc.so.13"')

    monkeypatch.setattr(device.cuda.nvrtc, "getVersion", missing)
    assert engines.available()["cuda"].startswith("no NVRTC to compile kernels with")
    assert "libnvrtc.so.13" in engines.available()["cuda"]
    assert "rescntk[cuda" in engines.available()["cuda"]
    monkeypatch.delitem(sys.modules, "cupy")
    monkeypatch.setattr(engines, "find_spec", lambda name: None)
    assert engines.available()["cuda"].startswith(
        "CuPy is not installed: pip install 'rescntk[cuda"
    )
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert engines.available()["cuda"].startswith("CuPy does not work here: ")
    with pytest.raises(
        ValueError, match="engine is 'cuda', which cannot serve here: CuPy does not"
    ):
        rk.ResCNTK(2)(np.ones((1, 1, 3)), engine="cuda")


def test_auto(device):
    X = np.ones((2, 1, 3))
    for network in (rk.Network(2), rk.Network(2, activation="erf")):
        request = Request(network, "gap", BOTH, (2,))
        assert engines.choose("auto", request, device.asarray(X)) is cuda
        assert engines.choose("cuda", request, X) is cuda
        assert engines.choose("auto", request, X) is not cuda
    long = device.asarray(np.ones((2, 1, 4097)))
    assert engines.choose("auto", request, long).__name__.endswith("reference")


# ---------------------------------------------------------------- pieces


DRIVER = """
static const double *given;
static double *taken;
static int length, team_lanes;

template <bool EVEN, int P, int Q> static void through_a_team()
{
    const Team team(team_lanes);
    const int first = begin(team.lane, team_lanes, length);
    const int count = begin(team.lane + 1, team_lanes, length) - first;
    double own[P], out[P];
    for (int j = 0; j < P; ++j)
        own[j] = j < count ? given[(first + j) % length] : NAN;
    team_sums<EVEN, Q>(team, count < P, own, out);
    for (int j = 0; team.whole && j < count; ++j)
        taken[team.number * length + first + j] = out[j];
}

extern "C" int team_windows(int even, int pixels, int size, int d, int lanes, const double *row,
    double *out)
{
    given = row, taken = out, length = d, team_lanes = lanes;
    switch ((even * 100 + pixels) * 100 + size) {
TEAMS
    }
    return -1;
}

template <int Q, int P>
static void through_memory_of(const double *row, double *out, int d, int size, int lanes)
{
    for (int lane = 0; lane < lanes; ++lane) {
        const int first = begin(lane, lanes, d), end = begin(lane + 1, lanes, d);
        double sums[P];
        ring_sums<Q>(row, d, size, first, sums);
        for (int j = 0; first + j < end; ++j)
            out[first + j] = sums[j];
    }
}

extern "C" int memory_windows(int pixels, int size, int d, int lanes, const double *row,
    double *out)
{
    switch (pixels * 100 + (size > 15 ? 0 : size)) {
MEMORY
    }
    return -1;
}

// Where a lane of a row begins to read and to write, in numbers.
extern "C" void addresses(long long row, long long column, long long rows, long long columns,
    int depth, int channels, int d, int lanes, int lane, int offset, int slots, int head,
    long long *out)
{
    Job<double> job{};
    job.depth = depth, job.channels = channels, job.d = d, job.lanes = lanes;
    job.n_slots = slots, job.rows = rows, job.columns = columns, job.head = head;
    const Side<double> side{};
    const Place place{row, column, true};
    const Tables<double> tables = tables_of<5>(job, side, side, place, lane, offset);
    using Net = Network<double, 5, 3, 3, true, true, RELU, false>;
    job.head = head == SUM ? FIRST_PAIR : head;  // which does not read bounds
    out[0] = tables.left - (Two<double> *)0;
    out[1] = tables.right - (Two<double> *)0;
    out[2] = tables.left_units - (double *)0;
    out[3] = tables.right_units - (double *)0;
    out[4] = result<Net>(job, side, side, place, 1, slots - 1).at - (double *)0;
}
extern "C" void roots(const double *a, double *out, int n)
{
    for (int k = 0; k < n; ++k)
        out[k] = square_root(at_least_0(a[k]));
}
extern "C" void inverse_roots64(const double *a, double *out, int n)
{
    for (int k = 0; k < n; ++k)
        out[k] = inverse_root(a[k]);
}
extern "C" void inverse_roots32(const float *a, float *out, int n)
{
    for (int k = 0; k < n; ++k)
        out[k] = inverse_root(a[k]);
}
extern "C" void polynomials64(const double *a, double *p, double *r, int n)
{
    for (int k = 0; k < n; ++k)
        p[k] = angle(a[k]), r[k] = gap(a[k]);
}
extern "C" void polynomials32(const float *a, float *p, float *r, int n)
{
    for (int k = 0; k < n; ++k)
        p[k] = angle(a[k]), r[k] = gap(a[k]);
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
        f"through_memory_of<{size}, {pixels}>(row, out, d, size, lanes); return 0;"
        for pixels in range(1, 6)
        for size in (0, *SIZES)
    ]
    text = DRIVER.replace("TEAMS", "\n".join(teams)).replace("MEMORY", "\n".join(memory))
    source = cuda.source().replace(emulated.DYNAMIC, emulated.DYNAMIC_HERE)
    return emulated.build(emulated.PRELUDE.read_text() + source + text, folder)


def at(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def windows(row, size):
    """Sums over circular windows, exactly: the numbers are integers."""
    taps = (np.arange(len(row))[:, None] + np.arange(-(size // 2), size // 2 + 1)) % len(row)
    return row[taps].sum(axis=1)


@on_host
def test_halos_of_every_segment_layout(driver, rng):
    """Lane by lane, for every cut of a row in registers that `plan` can choose, and all filters.

    The longer of two filters chooses; the other one has the same lanes.
    """
    seen = 0
    for d in range(1, 385):
        row = rng.integers(-(2**40), 2**40, d).astype(np.float64)
        longest = {}
        for size in SIZES:
            for dtype, activation in itertools.product(launches.MOST_PIXELS, launches.LONG_PIXELS):
                if cut := launches._cut(d, size // 2, dtype, activation):
                    longest[cut] = size
        expected = {size: windows(row, size) for size in SIZES}
        for (lanes, pixels), most in longest.items():
            for size in range(1, most + 1, 2):
                teams = 32 // lanes
                out = np.full((teams, d), np.nan)
                parted = driver.team_windows(
                    d % lanes == 0, pixels, size, d, lanes, at(row), at(out)
                )
                assert parted == 0
                assert (out == expected[size]).all(), (d, size, lanes, pixels)
                seen += 1
    assert seen > 4000


@on_host
@pytest.mark.parametrize("most", sorted(set(launches.LONG_PIXELS.values())))
def test_windows_in_memory(driver, most, rng):
    """Of rows of all lengths, also of filters that wrap around more than once."""
    lengths = [*range(1, 60), 192, 193, 385, 1000, 4095, 4096]
    for d in lengths:
        row = rng.integers(-(2**40), 2**40, d).astype(np.float64)
        lanes = -(-d // most)
        pixels = -(-d // lanes)
        for size in (*SIZES, 17, 31, 33, 101, 4097):
            out = np.full(d, np.nan)
            if size <= 101 or d <= 60:
                assert driver.memory_windows(pixels, size, d, lanes, at(row), at(out)) == 0
                assert (out == windows(row, size)).all(), (d, size)


@on_host
@pytest.mark.parametrize("head", [1, 2])
def test_no_index_overflows(driver, head):
    """Tables, units and results of far more than 2^31 numbers."""
    row, column, rows, columns = 70_000, 90_001, 80_000, 100_000
    depth, channels, d, lanes, lane, offset, slots = 60, 500, 4094, 819, 818, 4093, 3
    out = np.zeros(5, dtype=np.int64)
    long = ctypes.c_longlong
    driver.addresses(
        long(row), long(column), long(rows), long(columns),
        depth, channels, d, lanes, lane, offset, slots, head, at(out),
    )  # fmt: skip
    other = (lane * d // lanes + offset) % d
    from_lane = ((other + 1) * lanes - 1) // d
    seen = (other - from_lane * d // lanes) * lanes + from_lane
    size = d * d if head == 2 else 1
    expected = [
        row * (depth + 1) * 5 * lanes + lane,
        column * (depth + 1) * 10 * lanes + seen,
        row * channels * 5 * lanes + lane,
        column * channels * 10 * lanes + seen,
        (((slots + slots - 1) * rows + row) * columns + column) * size,
    ]
    assert out.tolist() == expected
    assert min(expected) > 2**31


@on_host
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


@on_host
@pytest.mark.parametrize("bits", [64, 32])
def test_inverse_roots(driver, bits, rng):
    """As far as erf's discriminant may go, within two units of the last place."""
    far = {64: 1e300, 32: 1e37}[bits]
    a = np.concatenate([rng.uniform(1, 4, 20000), np.geomspace(1, far, 20000)])
    a = a.astype(f"float{bits}")
    out = np.empty_like(a)
    getattr(driver, f"inverse_roots{bits}")(at(a), at(out), len(a))
    exact = 1 / np.sqrt(a.astype(np.longdouble))
    assert np.abs(out / exact - 1).max() <= tolerances.EPS[f"float{bits}"]


@on_host
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


def test_coefficients_are_in_the_source():
    text = cuda.source()
    for name in ("P64", "R64", "P32", "R32"):
        numbers = getattr(polynomials, name)
        line = next(
            line for line in text.splitlines() if line.startswith("__constant__") and name in line
        )
        found = [
            float.fromhex(word.rstrip("f")) for word in line.split("{")[1].rstrip("};").split(", ")
        ]
        assert found == [float(number) for number in numbers]


# ---------------------------------------------------------------- tables


@on_host
@given(networks(), signals(max_length=9), heads)
def test_tables_are_those_of_every_engine(device, network, X, head):
    test_cuda_tables.assert_tables(device, network, X, head)


@on_host
@pytest.mark.parametrize("name", test_cuda_tables.NETWORKS)
@pytest.mark.parametrize("head", ["equivariant", "gap"])
def test_tables_of_difficult_signals(device, name, head, rng):
    network, d = test_cuda_tables.NETWORKS[name]
    X = test_cuda_tables.difficult(network, d, rng)
    test_cuda_tables.assert_tables(device, network, X, head)


@on_host
@pytest.mark.parametrize("size", [1e200, 1e80, 1e30])
def test_signals_that_are_too_large_are_told_alike(device, size):
    network, X = rk.Network(2, activation="erf"), np.full((2, 1, 3), size)
    for dtype in ("float32", "float64"):
        says = []
        for engine in ("reference", "cuda"):
            try:
                rk.gram(network, X, dtype=dtype, engine=engine)
            except OverflowError as error:
                says.append(str(error))
        assert len(says) in (0, 2) and len(set(says)) <= 1
        assert says or size == 1e30


@pytest.fixture
def work(monkeypatch):
    """Count what a device is asked to do, and how often the host waits for an answer."""
    counts = dict.fromkeys(("operations", "launches", "waits"), 0)

    def counting(owner, method, what):
        original = getattr(owner, method)

        def call(*args, **kwargs):
            counts[what] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, method, call)

    for method in ("__init__", "__setitem__"):
        counting(fake_cupy.ndarray, method, "operations")
    for method in ("__float__", "__int__", "__bool__"):
        counting(fake_cupy.ndarray, method, "waits")
    counting(emulated.Kernel, "__call__", "launches")
    cupy = sys.modules["cupy"]
    counting(cupy, "asnumpy", "waits")
    return counts


@on_host
@pytest.mark.parametrize("activation", ["relu", "erf"])
@pytest.mark.parametrize("head", ["equivariant", "gap"])
def test_launches_and_waits_do_not_grow_with_depth(device, work, activation, head, rng):
    """One kernel for a side's tables, one for rows; waits are for the checks of X and K alone."""
    X = device.asarray(rng.standard_normal((3, 1, 5)))
    seen = []
    for depth in (2, 41):
        network = rk.Network(depth, alpha=0.1, activation=activation)
        for name in work:
            work[name] = 0
        rk.gram(network, X, head=head, engine="cuda")
        seen.append(dict(work))
    assert seen[0] == seen[1]
    assert seen[0]["launches"] == 3
    # X and both kernels are checked to be finite; of erf, whether tables of both sides are.
    assert seen[0]["waits"] == 3 + 2 * (activation == "erf")


@on_host
@pytest.mark.parametrize("symmetric", [False, True])
def test_right_tables_are_made_once_where_they_fit(device, symmetric, rng, monkeypatch):
    X, Z = rng.standard_normal((2, 30, 1, 4))
    Z = None if symmetric else Z
    made, original = [], cuda._Run.lay

    def counting(self, X, some, registers):
        made.append((some.start, some.stop, registers))
        return original(self, X, some, registers)

    def tables():
        made.clear()
        K = rk.ResCNTK(2)(X, Z, engine="cuda")
        return K, len(made), len(set(made))

    whole = tables()[0]
    monkeypatch.setattr(cuda._Run, "lay", counting)
    monkeypatch.setattr(cuda, "_RESULT_SHARE", 1e-6)
    kept, asked, different = tables()
    assert asked == different > 6
    monkeypatch.setattr(cuda, "_KEPT_SHARE", 0.0)
    again, asked, different = tables()
    assert asked > different > 6
    assert (whole == kept).all() and (whole == again).all()


# ---------------------------------------------------------------- whole kernels

# Lengths and filters: each is a kernel to be compiled, in every precision and for every head.
# A lane for a signal, two and four of different lengths, and several pairs in a block.
SHORT = st.sampled_from([(1, 1, 3), (13, 7, 1), (26, 3, 5)])
SHAPES = st.sampled_from([(1, 1, 3), (13, 7, 1), (26, 3, 5), (3, 17, 3)])


@st.composite
def drawn(draw, batches=1, shapes=SHAPES):
    """Return a network, and signals for it, of one of a few shapes."""
    d, inner, outer = draw(shapes)
    network = draw(networks()).replace(filter_size=inner, outer_filter_size=outer)
    return network, draw(signals(batches=batches, length=d))


@on_host
@given(drawn(batches=2), heads)
def test_the_reference_engine_agrees(device, case, head):
    network, (X, Z) = case
    yardstick = "trace" if network.activation == "erf" and head == "gap" else head
    for dtype, bar in tolerances.KERNEL.items():
        ours = rk.gram(network, X, Z, head=head, engine="cuda", dtype=dtype)
        theirs = rk.gram(network, X, Z, head=head, engine="reference", dtype=dtype)
        if network.activation == "erf":
            largest = max(np.square(X).sum(1).max(), np.square(Z).sum(1).max())
            bar *= tolerances.erf_spread(network.c_w * (largest + network.depth * network.c_v))
        for kind, A, B in zip(BOTH, ours, theirs, strict=True):
            own = rk.Kernel(network, kind, yardstick)
            sizes = own.diag(X), own.diag(Z)
            assert A.dtype == dtype
            assert properties.relative(A, B, *sizes) <= bar


@on_host
@settings(max_examples=30)
@given(drawn(shapes=SHORT), heads, kinds)
def test_properties_of_one_batch(device, case, head, kind):
    """To the bit: symmetric, the same with one argument or two, on the diagonal, and read-only."""
    network, X = case
    properties.a_gram_is_symmetric_to_the_bit_and_semidefinite("cuda", network, X, head)
    properties.one_argument_or_two_and_the_diagonal_agree_to_the_bit("cuda", network, X, head, kind)
    properties.normalized("cuda", network, X, head, kind)


@on_host
@settings(max_examples=20)
@given(drawn(shapes=st.just((7, 3, 5))), heads)
def test_kinds_may_be_asked_for_one_by_one(device, case, head):
    properties.kinds_may_be_asked_for_one_by_one("cuda", *case, head)


@on_host
@settings(max_examples=30)
@given(
    drawn(batches=2, shapes=SHORT), heads, kinds, st.data(), st.integers(-9, 9), st.integers(-9, 9)
)
def test_properties_of_two_batches(device, case, head, kind, data, one, other):
    """To the bit: a pair depends on itself alone, and shifts change nothing."""
    network, batches = case
    properties.a_pair_depends_on_itself_alone("cuda", network, batches, head, kind, data)
    properties.shifts("cuda", network, batches, kind, one, other)
    properties.inputs_stay_as_they_are("cuda", network, batches, head)


@on_host
@settings(max_examples=10)
@given(drawn(batches=2), kinds)
def test_heads_are_means_of_pixel_pairs(device, case, kind):
    properties.heads_are_means_of_pixel_pairs("cuda", *case, kind)


@on_host
@pytest.mark.parametrize("make", difficult_signals.SIGNALS)
@pytest.mark.parametrize("name", ["all trained", "erf", "long filter", "one pixel"])
def test_difficult_signals(device, name, make, rng):
    """Against the definition in 40-digit arithmetic."""
    network, d = accuracy.NETWORKS[name]
    accuracy.assert_accurate(["cuda"], network, make(3, d, rng))


@on_host
@pytest.mark.parametrize("make", [difficult_signals.duplicates, difficult_signals.opposites])
def test_deep_and_difficult(device, make, rng):
    network, d = accuracy.NETWORKS["depth 50"]
    accuracy.assert_accurate(["cuda"], network, make(1, d, rng)[:4])


@on_host
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("d", "inner", "outer"),
    [
        (2, 3, 5), (17, 7, 9), (33, 15, 11), (12, 31, 3), (40, 17, 33), (64, 3, 3),
        (200, 3, 3), (256, 9, 9), (385, 3, 3), (70, 9, 9),
    ],
)  # fmt: skip
def test_lengths_and_filters(device, d, inner, outer, dtype, rng):
    """Where lanes, warps and filters fit badly; filters above 15 and d = 385 take shared memory."""
    network = rk.Network(3, inner, outer_filter_size=outer)
    head = "trace" if d > 100 else "gap"
    X, Z = rng.standard_normal((2, 2, d)), rng.standard_normal((3, 2, d))
    ours = rk.gram(network, X, Z, head=head, engine="cuda", dtype=dtype)
    theirs = rk.gram(network, X, Z, head=head, engine="reference", dtype=dtype)
    for A, B in zip(ours, theirs, strict=True):
        assert np.abs(A - B).max() <= tolerances.KERNEL[dtype] * np.abs(B).max()


@on_host
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_filters_as_long_as_signals(device, dtype, rng):
    """Sums of hundreds of terms, layer by layer, of signals that nearly agree."""
    x = 1 + 1e-3 * rng.standard_normal((2, 600))
    X = np.stack([x, difficult_signals.near(x, rng), difficult_signals.near(x, rng, 1e-6)])
    network = rk.Network(40, 601, outer_filter_size=599)
    theirs = rk.gram(network, X, head="trace", engine="reference")
    ours = rk.gram(network, X, head="trace", engine="cuda", dtype=dtype)
    for A, B in zip(ours, theirs, strict=True):
        assert np.abs(A - B).max() <= tolerances.KERNEL[dtype] * np.abs(B).max()


@on_host
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("head", ["trace", "gap"])
def test_results_do_not_depend_on_how_the_work_is_cut(device, dtype, head, monkeypatch, rng):
    cutting.results_do_not_depend_on_how_the_work_is_cut("cuda", head, dtype, monkeypatch, rng)


@on_host
def test_depth_5000(device, rng):
    deep.normalized_at_depth_5000("cuda", 0.3, "float64", rng)


@on_host
def test_extreme_networks(device, rng):
    deep.networks_that_shrink_and_that_explode("cuda", rng)
    deep.degenerate_constants("cuda", rng)
    deep.unnormalized_and_too_deep("cuda")


@on_host
@pytest.mark.parametrize("head", ["equivariant", "gap"])
@pytest.mark.parametrize("network", [cupy_arrays.NETWORKS[0], cupy_arrays.NETWORKS[2]])
def test_cupy_in_cupy_out(device, network, head, rng):
    cupy_arrays.same_values_dtypes_and_shapes((device, "cuda"), network, head, "float64", rng)


@on_host
def test_pixel_pairs(device, rng):
    cupy_arrays.pixel_pairs((device, "cuda"), rng)


@on_host
def test_results_larger_than_the_free_memory(device, monkeypatch, rng):
    """Are tiled for NumPy's arrays, and refused on the device, where they have to be whole."""
    X = rng.standard_normal((40, 2, 5))
    expected = rk.ResCNTK(2)(X, engine="cuda")
    monkeypatch.setattr(device.cuda.runtime, "memGetInfo", lambda: (10_000, 2**30))
    assert (rk.ResCNTK(2)(X, engine="cuda") == expected).all()
    with pytest.raises(ValueError, match="results that need 12832 bytes, expected at most 7500"):
        rk.ResCNTK(2)(device.asarray(X))


@pytest.fixture
def small(monkeypatch):
    """Yield a device of 48 MB whose kernels only write 1; `begun` counts the rows' launches."""

    class Kernel:
        def __init__(self, name):
            self.name = name

        def __call__(self, grid, block, arguments, shared_mem):
            small.begun += self.name.startswith(("short_rows", "long_rows"))
            for array in arguments:
                if isinstance(array, fake_cupy.ndarray) and array.dtype.kind == "f":
                    array[...] = 1

    memory = fake_cupy.Memory(48_000_000)
    monkeypatch.setattr(fake_cupy.ndarray, "memory", memory)
    small = emulated.module(None, memory)
    small.RawModule = lambda code, options, name_expressions: types.SimpleNamespace(
        get_function=Kernel
    )
    monkeypatch.setitem(sys.modules, "cupy", small)
    small.begun, small.memory = 0, memory
    cuda._kernel.cache_clear()
    yield small
    cuda._kernel.cache_clear()


OPTIONS = {
    "GPK": {"kinds": ("gpk",)},
    "both kinds": {},
    "normalized": {"normalized": True},
    "float32": {"dtype": "float32"},
    "normalized, float32": {"dtype": "float32", "normalized": True},
    "depths upside down": {"depths": (3, 1), "kinds": ("ntk",)},
    "a depth twice": {"depths": (1, 1), "kinds": ("ntk",)},
}


@pytest.mark.parametrize("two", [False, True], ids=["X", "X, Z"])
@pytest.mark.parametrize("options", OPTIONS)
def test_memory_suffices_or_nothing_is_begun(small, options, two):
    """Whatever share of the memory results take; up to half of it they have to be served."""
    options, served = OPTIONS[options], []
    kinds, depths = len(options.get("kinds", BOTH)), len(options.get("depths", (3,)))
    shares = (0.05, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99, 1.1)
    for share in shares:
        n = int((share * small.memory.size / (8 * kinds * depths)) ** 0.5)
        X = small.asarray(np.ones((n, 1, 3)))
        Z = small.asarray(np.ones((n, 1, 3))) if two else None
        small.begun, refused = 0, ""
        try:
            results = rk.gram(rk.Network(3), X, Z, head="trace", **options)
        except ValueError as error:
            refused = str(error)
        if refused:
            assert "expected at most" in refused and small.begun <= 2 * two  # diagonals
        else:
            served.append(share)
            assert small.memory.used >= sum(np.prod(K.shape) * K.dtype.itemsize for K in results)
            del results
        del X, Z
        assert small.memory.used == 0
    # A copy of one kind is needed beside the results in float32 and for depths in another order.
    expected = 0.7 if options.get("dtype") is None and "depths" not in options else 0.35
    assert expected <= served[-1] < 0.8 and tuple(served) == shares[: len(served)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_memory_for_pixel_pairs(small, dtype):
    """Of a few long signals, whose every pair is a large part of the results."""
    for d in (300, 500, 900, 1000, 1400, 1800, 2000, 2100, 2300):
        X = small.asarray(np.ones((1, 1, d)))
        small.begun, refused = 0, ""
        try:
            rk.pixel_pairs(rk.Network(2), X, dtype=dtype)
        except ValueError as error:
            refused = str(error)
        assert bool(refused) == (d > 1000)
        assert small.begun == (not refused)


def test_the_limit_of_the_pool_counts(small, monkeypatch):
    pool = small.get_default_memory_pool()
    monkeypatch.setattr(pool, "get_limit", lambda: 2_000_000)
    X = small.asarray(np.ones((400, 1, 3)))
    rk.ResCGPK(2)(X)
    with pytest.raises(ValueError, match="expected at most 14"):
        rk.ResCNTK(2)(small.asarray(np.ones((450, 1, 3))))


@on_host
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_pieces_of_results_are_finished_alike(device, normalized, dtype, monkeypatch, rng):
    """To the bit: with results in one piece, and in pieces of rows and of less than a row."""
    X, Z = rng.standard_normal((2, 9, 2, 5))
    network = rk.Network(3)

    def everything(convert):
        own, other = convert(X), convert(Z)
        options = {"dtype": dtype, "normalized": normalized}
        grams = [
            rk.gram(network, own, depths=(3, 1, 3), **options),
            rk.gram(network, own, other, **options),
        ]
        pairs = rk.pixel_pairs(network, own, other, dtype=dtype)
        return [np.array(getattr(K, "_array", K)) for K in (*grams[0], *grams[1], pairs)]

    for convert in (np.asarray, device.asarray):
        whole = everything(convert)
        for piece in (1, 7, 30):
            monkeypatch.setattr(calls, "_PIECE", piece)
            for one, part in zip(whole, everything(convert), strict=True):
                assert (one == part).all() and part.dtype == dtype
        monkeypatch.undo()


@on_host
def test_both_triangles_come_from_the_device(device, monkeypatch, rng):
    """A symmetric Gram is transposed there, tile by tile; the host only takes what it gets."""
    copied, original = [], device.asnumpy

    def counting(array):
        copied.append(array.shape)
        assert array._array.flags.c_contiguous
        return original(array)

    monkeypatch.setattr(device, "asnumpy", counting)
    monkeypatch.setattr(cuda, "_RESULT_SHARE", 1e-6)
    K = rk.ResCGPK(2)(rng.standard_normal((40, 1, 4)), engine="cuda")
    assert (K == K.T).all()
    tiles = [shape for shape in copied if len(shape) == 3]
    assert len(tiles) > 10 and sum(np.prod(shape) for shape in tiles) == 40 * 40


@on_host
def test_progress_counts_every_pair(device, capsys, rng, monkeypatch):
    """Half of the pairs of a symmetric Gram, in tiles, each of which is waited for."""
    pytest.importorskip("tqdm")
    waits = []
    stream = types.SimpleNamespace(synchronize=lambda: waits.append(1))
    monkeypatch.setattr(device.cuda, "get_current_stream", lambda: stream)
    monkeypatch.setattr(cuda, "_RESULT_SHARE", 1e-6)
    X = device.asarray(rng.standard_normal((30, 1, 4)))
    rk.ResCGPK(2)(X, progress=True)
    assert "465/465" in capsys.readouterr().err.replace(".0", "")
    assert len(waits) > 5
    waits.clear()
    rk.ResCGPK(2)(X)
    assert not waits


@on_host
def test_a_symmetric_gram_computes_half_of_its_pairs(device, rng, monkeypatch):
    """Tiles below the diagonal are not launched, and blocks below it have nothing to do."""
    tiles, original = [], cuda._Run.fill

    def counting(self, values, where, left, right, shape, above, **options):
        tiles.append((where, above))
        original(self, values, where, left, right, shape, above, **options)

    monkeypatch.setattr(cuda._Run, "fill", counting)
    monkeypatch.setattr(cuda, "_RESULT_SHARE", 1e-6)
    X = rng.standard_normal((60, 1, 4))
    rk.ResCGPK(2)(X, engine="cuda")
    computed = sum(
        column >= row
        for (rows, columns), _ in tiles
        for row in range(rows.start, rows.stop)
        for column in range(columns.start, columns.stop)
    )
    assert computed == 60 * 61 // 2 and len(tiles) > 10
    whole = sum((r.stop - r.start) * (c.stop - c.start) for (r, c), _ in tiles)
    assert whole <= 0.7 * 60**2
