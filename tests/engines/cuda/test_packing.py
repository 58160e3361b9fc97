"""Tables of signals as the kernels read them, against the tables that NumPy makes."""

import numpy as np
import pytest
from hypothesis import given

import rescntk as rk
from rescntk.engines.cuda import engine as cuda
from rescntk.engines.cuda.packing import LEFT, RIGHT
from rescntk.engines.protocol import Request
from rescntk.engines.scaling import Scaling
from rescntk.engines.signal_tables import signal_tables
from rescntk.vocabulary import KINDS
from tests import difficult_signals
from tests.engines.cuda import emulated
from tests.strategies import heads, networks, signals

pytestmark = pytest.mark.slow

NETWORKS = {
    "long signals": (rk.Network(3, 5), 700),
    "filters around the ring": (rk.Network(2, 31, outer_filter_size=101, input_filter_size=9), 5),
    "as long as the signal": (rk.Network(2, 257, outer_filter_size=255), 257),
    "shrinking": (rk.Network(150, 3, alpha=0.1, skip=False, c_w=0.01), 6),
    "exploding": (rk.Network(150, 3, alpha=3.0, c_w=20.0), 6),
    "nothing passes": (rk.Network(3, 3, skip=False, c_v=0.0), 6),
    "no input": (rk.Network(3, 3, input_scale=0.0), 6),
    "input windows": (rk.Network(9, 9, outer_filter_size=11, input_filter_size=3), 70),
}


def difficult(network, d, rng):
    """Signals of every kind and of all sizes, as one's pixels are."""
    X = np.concatenate([make(2, d, rng)[:2] for make in difficult_signals.SIGNALS])
    X[3] *= np.geomspace(1.0, 1e-200, d)
    X *= np.array([1e-300, 1e-160, 1e-3, 1.0, 1e150, 1e300, 0.0] * 2)[:, None, None]
    return X


def expected_order(launch, d, registers):
    """Return the pixel at each (register, segment), by the definition."""
    return [
        (segment * d // launch.segments + register) % d
        for register in range(registers)
        for segment in range(launch.segments)
    ]


def assert_tables(cupy, network, X, head):
    """Compare packed tables with NumPy's, to the bit."""
    ladder = tuple(sorted({1, network.depth}))
    for dtype in ("float64", "float32"):
        request = Request(network, head, KINDS, ladder, dtype)
        run = cuda.CudaRun(request, X)
        expected = signal_tables(Scaling(request, *X.shape[1:]), X)
        for side, copies in ((LEFT, 1), (RIGHT, 2)):
            packed = run.pack(run.make_tables(X, slice(None)), side)
            order = expected_order(run.launch, run.d, copies * run.launch.pixels)
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


@emulated.on_host
@given(networks(activations=("relu",)), signals(max_length=9), heads)
def test_tables_of_every_engine(device, network, X, head):
    assert_tables(device, network, X, head)


@emulated.on_host
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("head", ["equivariant", "gap"])
def test_tables_of_difficult_signals(device, name, head, rng):
    network, d = NETWORKS[name]
    assert_tables(device, network, difficult(network, d, rng), head)


@pytest.mark.gpu
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("head", ["equivariant", "gap"])
def test_on_a_device(name, head, rng):
    cupy = pytest.importorskip("cupy")
    if rk.engines.available()["cuda"] is not True:
        pytest.skip(str(rk.engines.available()["cuda"]))
    network, d = NETWORKS[name]
    assert_tables(cupy, network, difficult(network, d, rng), head)
