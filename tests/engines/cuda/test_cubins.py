"""The kernel as NVIDIA's compiler makes it, without a GPU: registers, records, instructions."""

import pytest

from rescntk.engines.cuda import compiler
from rescntk.engines.cuda.engine import LAUNCH
from rescntk.engines.records import JOB, LAYER, SIDE, WINDOW
from tests.engines.cuda import nvrtc

pytestmark = [pytest.mark.skipif(nvrtc.LIBRARY is None, reason=nvrtc.MISSING), pytest.mark.slow]
disassembled = pytest.mark.skipif(nvrtc.DISASSEMBLER is None, reason=nvrtc.MISSING)

# Lanes, pixels of a thread, all pixel pairs, U⁺, NTK, heads of pixels.
INSTANCES = [
    "float, 4, 1, true, false, true, false",
    "double, 2, 1, true, false, true, false",
    "float, 2, 2, false, true, true, true",
    "float, 1, 8, true, false, false, true",
    "double, 1, 8, false, true, true, true",
]


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_kernels_compile_and_fit(architecture):
    """512 threads have 128 registers each; the states of many pixels are in local memory."""
    names = [f"rows<{words}>" for words in INSTANCES]
    _, log = nvrtc.compile_kernels(names, architecture)
    used = nvrtc.resources(log)
    assert len(used) == len(names)
    for pixels, registers, local in used:
        assert registers <= 128
        assert local <= (160 if pixels < 4 else 1200)


@disassembled
@pytest.mark.parametrize(("words", "bar"), [(INSTANCES[0], 135), (INSTANCES[1], 240)])
def test_issue_slots_of_a_pixel_pair_and_layer(words, bar, tmp_path):
    """GAP, GPK and NTK, of two filters of 3."""
    cubin, _ = nvrtc.compile_kernels([f"rows<{words}>"], "sm_90")
    instructions, following = nvrtc.disassemble(cubin, tmp_path)
    layer = nvrtc.joined_layer(instructions, following)
    lanes = int(words.split(", ")[1])
    roots = sum(line.startswith(("MUFU.SQRT", "MUFU.RSQ64H")) for line in layer)
    assert roots == lanes  # the path is a whole layer
    assert len(layer) / lanes <= bar


def test_the_compiler_lays_records_out_alike():
    """Text that compiles only if sizes and offsets of all fields agree."""
    lines = [compiler.source()]
    records = {"Window": WINDOW, "Layer": LAYER, "Side": SIDE, "Job": JOB, "Launch": LAUNCH}
    for struct, layout in records.items():
        lines.append(f"static_assert(sizeof({struct}) == {layout.itemsize});")
        for field, (kind, offset) in layout.fields.items():
            lines.append(f"static_assert(__builtin_offsetof({struct}, {field}) == {offset});")
            lines.append(f"static_assert(sizeof((({struct} *)0)->{field}) == {kind.itemsize});")
    nvrtc.compile_kernels([], "sm_90", "\n".join(lines))
