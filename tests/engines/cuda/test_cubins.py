"""The kernels as NVIDIA's compiler makes them, without a GPU: registers, records, instructions."""

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines.cuda import compiler, launch_plan
from rescntk.engines.cuda.launch_plan import DeviceLimits, LaunchPlan
from rescntk.engines.cuda.structs import layouts
from rescntk.engines.protocol import Request
from tests.engines.cuda import nvrtc

pytestmark = [pytest.mark.skipif(nvrtc.LIBRARY is None, reason=nvrtc.MISSING), pytest.mark.slow]
disassembled = pytest.mark.skipif(nvrtc.DISASSEMBLER is None, reason=nvrtc.MISSING)

BOTH = ("gpk", "ntk")

# Architecture -> shared memory of a block, in KiB.
ARCHITECTURES = {"sm_75": 64, "sm_90": 227}

# The longest segments and filters, which need most registers; then other heads, kinds and cuts.
KERNELS = [
    (128, (3, 3), BOTH, "gap", "float32"),
    (128, (3, 3), BOTH, "gap", "float64"),
    (192, (11, 11), BOTH, "gap", "float64"),
    (1024, (15, 15), BOTH, "pixels", "float32", "inner differs"),
    (512, (15, 15), BOTH, "pixels", "float64", "inner differs"),
    (384, (15, 15), BOTH, "pixels", "float32", "inner differs"),
    (256, (15, 15), BOTH, "gap", "float64", "inner differs"),
    (1000, (3, 31), BOTH, "gap", "float64", "inner differs"),
    (1000, (9, 31), BOTH, "pixels", "float32", "inner differs", "dilated"),
    (800, (9, 9), BOTH, "gap", "float64", "inner differs", "dilated"),
    (25, (9, 5), ("ntk",), "trace", "float64", "inner differs"),
    (150, (5, 9), BOTH, "equivariant", "float32", "inner differs"),
    (12, (1, 7), ("gpk",), "gap", "float32"),
]


def plan(architecture, d, filters, kinds, head, dtype, *special):
    """Return the plan of a kernel that is given in short."""
    network = rk.Network(
        2,
        filters[0],
        outer_filter_size=filters[1],
        trained=("inner",) if "inner differs" in special else rk.Network(2).trained,
        dilation=2 if "dilated" in special else 1,
    )
    limits = DeviceLimits(ARCHITECTURES[architecture] * 1024, 132, 2)
    return LaunchPlan(Request(network, head, kinds, (2,), dtype), 2, d, limits)


def in_registers(architecture, *kernels):
    """Compile kernels and return their cubin, the last plan, and each kernel's registers."""
    launches = [plan(architecture, *kernel) for kernel in kernels]
    names = {launch.name for launch in launches}
    cubin, log = nvrtc.compile_kernels(names, architecture)
    used = nvrtc.resources(log)
    assert len(used) == len(names)
    for kernel, pixels, itemsize, _, local in used:
        usual, _ = launch_plan.MOST_PIXELS["float32" if itemsize == 4 else "float64"]
        # The longest segments spill at most half of the state's six numbers of each pixel.
        longer = kernel == "short_rows" and pixels > usual
        assert local <= (6 * pixels * itemsize // 2 if longer else 0), kernels
    return cubin, launches[-1], [registers for *_, registers, _ in used]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_compile_and_stay_in_registers(architecture):
    """Also some of the tens of thousands there are: mostly near the longest rows in registers."""
    number = list(ARCHITECTURES).index(architecture)
    rng = np.random.default_rng(number)
    sample = []
    for longest, dtype in ((400, "float64"), (1300, "float32")):
        d, sizes = (
            int(rng.integers(1, longest)),
            tuple(int(2 * k + 1) for k in rng.integers(0, 9, 2)),
        )
        kinds = (BOTH, BOTH, ("ntk",), ("gpk",))[rng.integers(4)]
        head = ("gap", "trace", "equivariant", "pixels")[rng.integers(4)]
        special = [name for name in ("inner differs", "dilated") if rng.integers(2)]
        sample.append((d, sizes, kinds, head, dtype, *special))
    in_registers(architecture, *KERNELS[:2], *KERNELS[2 + number :: 3], *sample)


@disassembled
@pytest.mark.parametrize(("dtype", "bar"), [("float32", 60), ("float64", 140)])
def test_issue_slots_of_a_pixel_pair_and_layer(dtype, bar, tmp_path, monkeypatch):
    """GPK and NTK, q = 3. The bound is what takes longest: issuing, or the FP64 units."""
    cubin, launch, (registers,) = in_registers("sm_90", (128, (3, 3), BOTH, "gap", dtype))
    # Warps hide latencies: three for each quarter of a multiprocessor, with its 16384 registers.
    assert launch.threads == 128 and 16384 // (32 * 8 * -(-registers // 8)) >= 3
    found = nvrtc.disassemble(cubin, tmp_path)
    layer = nvrtc.shortest_round(*found, nvrtc.ROOTS[dtype])
    # The path is a whole layer: one root for each of the segment's pixels.
    assert sum(nvrtc.ROOTS[dtype] in line for line in layer) == launch.pixels
    # The mean over 10 layers: all add GAP's linear part, and two look at doubt.
    mean = nvrtc.mean_slots(found, launch.pixels, dtype, depth=10)
    assert max(*nvrtc.slots(layer, launch.pixels).values(), *mean.values()) <= bar
    if dtype == "float32":  # the end of a row
        assert nvrtc.slots(found[0], pixels=2)["fp64"] <= 80
        monkeypatch.setattr(launch_plan, "WARPS", 8)  # other blocks, which benchmarks/gpu.py tries
        in_registers("sm_90", (128, (3, 3), BOTH, "gap", dtype))
    assert_calls_nothing(found[0])


@disassembled
@pytest.mark.parametrize(
    ("dtype", "special", "bar"),
    [("float32", (), 65), ("float64", (), 120), ("float64", ("dilated",), np.inf)],
)
def test_rows_in_shared_memory(special, dtype, bar, tmp_path):
    """Slots from box(D) to the branches, and registers, which the plan knows; no calls."""
    kernel = (2048, (3, 3), BOTH, "gap", dtype, *special)
    cubin, launch, (registers,) = in_registers("sm_90", kernel)
    found = nvrtc.disassemble(cubin, tmp_path)
    layer = nvrtc.shortest_round(*found, nvrtc.ROOTS[dtype])
    assert sum(nvrtc.ROOTS[dtype] in line for line in layer) == launch.pixels
    assert max(nvrtc.slots(layer, launch.pixels).values()) <= bar
    assert special or registers <= launch_plan.LONG_REGISTERS[dtype]
    assert_calls_nothing(found[0])


def assert_calls_nothing(instructions):
    """No root or quotient calls a function, not even for rare arguments; nothing spills."""
    assert len(instructions) > 1000
    assert not any(line.startswith(("CALL", "STL", "LDL")) for line in instructions)


def text_with_assertions():
    """Return C++ text that compiles only if sizes and offsets of all fields agree."""
    lines = [compiler.source()]
    for real, dtype in (("float", "float32"), ("double", "float64")):
        for struct, layout in layouts(dtype).items():
            name = f"{struct}_{real}"
            lines.append(f"typedef {struct}<{real}> {name};")
            lines.append(f"static_assert(sizeof({name}) == {layout.itemsize});")
            for field, (kind, offset) in layout.fields.items():
                lines.append(f"static_assert(__builtin_offsetof({name}, {field}) == {offset});")
                lines.append(f"static_assert(sizeof((({name} *)0)->{field}) == {kind.itemsize});")
    return "\n".join(lines)


def test_the_compiler_lays_records_out_alike():
    nvrtc.compile_kernels([], "sm_90", text_with_assertions())
