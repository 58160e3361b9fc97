"""The kernels as NVIDIA's compiler makes them, without a GPU: registers, spills, instructions."""

import itertools

import numpy as np
import pytest

from rescntk.engines.cuda import launch as launches
from tests.covering import pairs_meet
from tests.engines.cuda import nvrtc

pytestmark = [pytest.mark.skipif(nvrtc.LIBRARY is None, reason=nvrtc.MISSING), pytest.mark.slow]

BOTH = ("gpk", "ntk")

ARCHITECTURES = ["sm_80", "sm_90", "sm_100"]

# The kernels that need most registers, for every architecture: the longest segments and filters.
LARGE = [
    (128, (3, 3), BOTH, "gap", False),
    (192, (11, 11), BOTH, "gap", False),
    (256, (15, 15), BOTH, "gap", True),
    (384, (15, 15), BOTH, "pixels", True),
    (1000, (3, 31), BOTH, "gap", True),
    (1000, (9, 31), BOTH, "pixels", True, True),
]

# Kernels of other heads, kinds and cuts, for one architecture each.
OTHERS = [
    (97, (3, 3), BOTH, "gap", False),
    (25, (9, 5), ("ntk",), "trace", True),
    (150, (5, 9), BOTH, "equivariant", True),
    (200, (3, 3), BOTH, "gap", True),
    (12, (1, 7), ("gpk",), "gap", False),
    (3000, (15, 3), BOTH, "equivariant", False),
]
DTYPES = ["float32", "float64"]
KERNELS = [
    *itertools.product(LARGE[:1], ARCHITECTURES, DTYPES),
    *pairs_meet(LARGE[1:], ARCHITECTURES, DTYPES),
    *zip(OTHERS, itertools.cycle(ARCHITECTURES), itertools.cycle(DTYPES), strict=False),
]


def rows(d, filters, kinds, head, inner_differs=False, dilated=False, *, dtype):
    """Return rows that are given in short."""
    return launches.Rows(
        d=d,
        filter_size=filters[0],
        outer_filter_size=filters[1],
        dtype=dtype,
        kinds=kinds,
        head=head,
        inner_differs=inner_differs,
        dilated=dilated,
    )


def resident(launch, registers, architecture):
    """Return the warps that a multiprocessor takes at a time: what hides latencies."""
    warps = launch.threads // 32
    # Each quarter has 16384 registers; a warp takes them by 8 a lane.
    by_registers = 4 * (16384 // (32 * (-(-registers // 8) * 8))) // warps
    short = launch.name.startswith("short_rows")
    # Sums on three grids of two kinds, the doubt, and F⁰ of 16 bytes times a few for each thread.
    linear = -(-launch.pixels * (4 if "float" in launch.name else 8) // 16) * 16
    shared = 1024 + (launch.threads * (7 * 8 + linear) if short else launch.shared_bytes)
    by_memory = (164 if architecture == "sm_80" else 228) * 1024 // shared
    return warps * min(by_registers, by_memory, 64 // warps)


def registers_of(launch, architecture):
    """Return a kernel's registers, of which none may be in local memory."""
    cubin = nvrtc.compile_kernels([launch.name], architecture)
    ((_, (registers, local)),) = nvrtc.resources(cubin).items()
    assert local == 0, launch.name
    return registers


@pytest.mark.parametrize(("kernel", "architecture", "dtype"), KERNELS, ids=str)
def test_kernels_compile_and_stay_in_registers(kernel, architecture, dtype):
    memory = 163 * 1024 if architecture == "sm_80" else 227 * 1024
    launch = launches.plan(rows(*kernel, dtype=dtype), memory)
    registers = registers_of(launch, architecture)
    if kernel == LARGE[0]:
        # Warps hide latencies: three for each scheduler of a multiprocessor, or two where NVRTC
        # takes more registers.
        least = 8 if architecture == "sm_100" else 12
        assert resident(launch, registers, architecture) >= least


@pytest.mark.parametrize("seed", range(12))
def test_a_sample_of_all_kernels(seed):
    """There are tens of thousands: some of every precision and architecture."""
    rng = np.random.default_rng(seed)
    dtype = ("float32", "float64")[seed % 2]
    # Half of them in registers, near the longest rows and filters, which need most of these.
    d = int(rng.integers(1, 400)) if seed % 8 < 6 else int(rng.integers(400, 2500))
    sizes = tuple(int(2 * k + 1) for k in rng.integers(0, 9, 2))
    kinds = (BOTH, BOTH, ("ntk",), ("gpk",))[rng.integers(4)]
    head = ("gap", "trace", "equivariant", "pixels")[rng.integers(4)]
    one = rows(d, sizes, kinds, head, *(bool(rng.integers(2)) for _ in range(2)), dtype=dtype)
    registers_of(launches.plan(one), ARCHITECTURES[seed % 3])


def test_local_memory_would_be_seen():
    text = """extern "C" __global__ void spoilt(int *a, int n)
    {
        int local[64];
        for (int k = 0; k < 64; ++k)
            local[k] = a[k];
        for (int k = 0; k < n; ++k)
            a[k] = local[a[k] % 64] + local[(a[k] + 1) % 64];
    }"""
    cubin = nvrtc.compile_kernels([], "sm_90", text)
    ((name, (registers, local)),) = nvrtc.resources(cubin).items()
    assert name == "spoilt" and registers > 0 and local >= 4 * 64


@pytest.mark.skipif(nvrtc.DISASSEMBLER is None, reason=nvrtc.MISSING)
@pytest.mark.parametrize(("dtype", "bar"), [("float32", 60), ("float64", 140)])
def test_issue_slots_of_a_pixel_pair_and_layer(dtype, bar, tmp_path, record_property):
    """GPK and NTK, q = 3. The bound is what takes longest: issuing, or the FP64 units."""
    launch = launches.plan(rows(128, (3, 3), BOTH, "gap", dtype=dtype))
    found = disassembled(launch, tmp_path)
    layer = nvrtc.shortest_round(*found, nvrtc.ROOTS[dtype])
    # The path is a whole layer: one root for each of the segment's pixels.
    assert sum(nvrtc.ROOTS[dtype] in one for one in layer) == launch.pixels
    shortest = nvrtc.slots(layer, launch.pixels)
    # The mean over 10 layers: all add GAP's linear part, and two look at doubt.
    mean = nvrtc.mean_slots(found, launch, dtype, depth=10)
    for name in shortest:
        record_property(name, shortest[name])
        record_property(f"{name}, mean", mean[name])
    assert max(*shortest.values(), *mean.values()) <= bar
    assert_calls_nothing(found, dtype)


@pytest.mark.skipif(nvrtc.DISASSEMBLER is None, reason=nvrtc.MISSING)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dilated", [False, True])
def test_layers_in_shared_memory_call_nothing(dilated, dtype, tmp_path):
    one = rows(1000, (3, 3), BOTH, "gap", dilated=dilated, dtype=dtype)
    assert_calls_nothing(disassembled(launches.plan(one), tmp_path), dtype)


def disassembled(launch, folder):
    """Return the instructions of a kernel, and each one's successors."""
    return nvrtc.disassemble(nvrtc.compile_kernels([launch.name], "sm_90"), folder)


def assert_calls_nothing(found, dtype):
    """No root or quotient leads out of the loop, not even for rare arguments; nothing spills."""
    loop = nvrtc.whole_loop(*found, nvrtc.ROOTS[dtype])
    assert len(loop) > 1000
    assert not any(one.startswith(("CALL", "STL", "LDL")) for one in loop)
