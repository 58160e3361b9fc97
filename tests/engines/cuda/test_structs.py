"""What kernels take: the layout of their argument, and tables of signals as NumPy makes them."""

from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings

import rescntk as rk
from rescntk.engines.cuda import compiler
from rescntk.engines.cuda import engine as cuda
from rescntk.engines.cuda.structs import layouts
from rescntk.engines.protocol import Request
from rescntk.engines.scaling import Scaling
from rescntk.engines.signal_tables import signal_tables
from rescntk.validation import KINDS
from tests import difficult_signals
from tests.engines.cuda import emulated, nvrtc
from tests.strategies import heads, networks, signals

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


@emulated.on_host
def test_the_compiler_lays_records_out_alike(folder):
    emulated.build(emulated.on_the_host(text_with_assertions()), folder)


@pytest.mark.skipif(nvrtc.LIBRARY is None, reason=nvrtc.MISSING)
def test_nvrtc_lays_records_out_alike():
    nvrtc.compile_kernels([], "sm_90", text_with_assertions())


def assert_tables(cupy, network, X, head):
    """Compare packed tables with NumPy's, to the bit."""
    ladder = tuple(sorted({1, network.depth}))
    for dtype in ("float64", "float32"):
        request = Request(network, head, KINDS, ladder, dtype)
        run = cuda.CudaRun(request, X)
        expected = signal_tables(Scaling(request, *X.shape[1:]), X)
        for copies in (1, 2):
            packed = run._pack(run._tables(X, slice(None)), right=copies == 2)
            order = [
                (segment * run.d // run.plan.segments + register) % run.d
                for register in range(copies * run.plan.pixels)
                for segment in range(run.plan.segments)
            ]
            roots = [(2.0 / copies * p.half_root, p.inverse) for p in expected.layers]
            bounds = [
                np.broadcast_to(expected.bounds[kind, layer], len(X))
                for kind in KINDS
                for layer in ladder
            ]
            for ours, theirs in (
                (packed.roots, np.array(roots)[:, :, order].transpose(3, 0, 2, 1)),
                (packed.units, expected.unit_vectors[:, order].transpose(2, 0, 1)),
                (packed.scale, expected.scale),
                (packed.means, expected.means),
                (packed.bounds, np.array(bounds)),
            ):
                ours = cupy.asnumpy(ours)
                assert ours.shape == theirs.shape and (ours == theirs).all()


@pytest.mark.gpu
@pytest.mark.skipif(find_spec("cupy") is None, reason="no CuPy")
@pytest.mark.parametrize("head", ["equivariant", "gap"])
def test_on_a_device(head, rng):
    """Of signals of every kind and of all sizes, as one's pixels are."""
    cupy = import_module("cupy")
    if rk.engines.available()["cuda"] is not True:
        pytest.skip(str(rk.engines.available()["cuda"]))
    X = np.concatenate([make(2, 70, rng)[:2] for make in difficult_signals.SIGNALS])
    X[3] *= np.geomspace(1.0, 1e-200, 70)
    X *= np.array([1e-300, 1e-160, 1e-3, 1.0, 1e150, 1e300, 0.0] * 2)[:, None, None]
    for options in ({}, {"input_filter_size": 9}, {"alpha": 3.0, "c_w": 20.0}):
        assert_tables(cupy, rk.Network(50, 3, outer_filter_size=101, **options), X, head)


@emulated.on_host
@settings(max_examples=20)
@given(networks(activations=("relu",)), signals(max_length=9), heads)
def test_tables_of_every_engine(device, network, X, head):
    assert_tables(device, network, X, head)
