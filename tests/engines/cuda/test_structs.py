"""What kernels take: the layout of their argument, and tables of signals as NumPy makes them."""

import numpy as np
import pytest

import rescntk as rk
from rescntk.engines.cuda import compiler
from rescntk.engines.cuda import engine as cuda
from rescntk.engines.cuda.structs import layouts
from rescntk.engines.protocol import Request
from rescntk.engines.scaling import Scaling
from rescntk.engines.signal_tables import signal_tables
from rescntk.validation import KINDS
from tests.engines.cuda import emulated, nvrtc

pytestmark = pytest.mark.slow


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


@pytest.mark.skipif(nvrtc.LIBRARY is None, reason=nvrtc.MISSING)
def test_the_compiler_lays_records_out_alike():
    nvrtc.compile_kernels([], "sm_90", text_with_assertions())


@emulated.on_host
@pytest.mark.parametrize(("head", "dtype"), [("gap", "float64"), ("equivariant", "float32")])
def test_packed_tables(device, head, dtype, rng):
    """Tables of a segment's registers are NumPy's tables, to the bit."""
    X = rng.standard_normal((3, 2, 26))
    network = rk.Network(3, 3, outer_filter_size=5, input_filter_size=3, alpha=3.0)
    request = Request(network, head, KINDS, (1, 3), dtype)
    run, expected = cuda.CudaRun(request, X), signal_tables(Scaling(request, 2, 26), X)
    for copies in (1, 2):
        packed = run._pack(run._tables(X, slice(None)), right=copies == 2)
        order = [
            (segment * run.d // run.plan.segments + register) % run.d
            for register in range(copies * run.plan.pixels)
            for segment in range(run.plan.segments)
        ]
        roots = np.array([2.0 / copies, 1.0], dtype)[:, None, None, None] * expected.layers
        for ours, theirs in (
            (packed.roots, roots[:, :, order].transpose(3, 1, 2, 0)),
            (packed.units, expected.unit_vectors[:, order].transpose(2, 0, 1)),
            (packed.scale, expected.scale),
            (packed.means, expected.means),
            (packed.bounds, expected.bounds.reshape(-1, len(X))),
        ):
            ours = device.asnumpy(ours)
            assert ours.shape == theirs.shape and (ours == theirs).all()
