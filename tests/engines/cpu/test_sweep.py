"""The sweep against the other loops, on signals that are hard for it; and on other processors."""

import hashlib

import numpy as np
import pytest
from rescntk.engines.cpu.run import NumbaRun

import rescntk as rk
from rescntk.validation import DTYPES
from tests import tolerances
from tests.difficult_signals import SIGNALS, UNEVEN
from tests.engine_names import needs_numba
from tests.processes import run

pytestmark = needs_numba


@pytest.fixture(autouse=True)
def sweeps(monkeypatch):
    """Take the sweep on every processor, whether or not it is faster there."""
    monkeypatch.setattr("rescntk.engines.cpu.gains_by_sweeping", lambda: True)


def both_ways(monkeypatch, compute):
    """Return results of the sweep and of the other loops, and the pairs that each repeated."""
    in_deficits, found = NumbaRun.in_deficits, []
    for swept in (True, False):
        repeated = []

        def counting(run, left, right, rows, columns, *rest, seen=repeated):
            seen.append(len(rows))
            return in_deficits(run, left, right, rows, columns, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(NumbaRun, "in_deficits", counting)
            if not swept:
                patch.setattr("rescntk.engines.cpu.plan.is_swept", lambda *_: False)
            found.append((compute(), sum(repeated)))
    return found


NETWORKS = {
    "windows in registers": rk.Network(4, 3, alpha=0.5),
    "windows through memory": rk.Network(4, 5, outer_filter_size=9, alpha=0.5),
    "a dilation for each layer": rk.Network(4, 3, dilation=(2, 1, 5, 3)),
}


@pytest.mark.parametrize("head", ["gap", "trace"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("some", NETWORKS.values(), ids=NETWORKS)
def test_difficult_signals_as_in_the_other_loops(some, dtype, head, rng, monkeypatch):
    """Pair by pair, at two depths; what is doubtful is doubtful in both."""
    repeats = []
    for make in (*SIGNALS, *UNEVEN):
        X = make(2, 19, rng)

        def compute(X=X):
            return rk.gram(some, X, head=head, depths=(2, 4), dtype=dtype, engine="numba")

        (ours, swept), (theirs, other) = both_ways(monkeypatch, compute)
        repeats.append((swept, other))
        for K, L in zip(ours, theirs, strict=True):
            own = np.sqrt(np.abs(L.diagonal(axis1=1, axis2=2)))
            size = own[:, :, None] * own[:, None, :]
            assert (np.abs(K.astype(float) - L) <= tolerances.KERNEL[dtype] * size).all()
            assert (K == K.swapaxes(1, 2)).all()
    swept, other = np.sum(repeats, axis=0)
    assert abs(swept - other) <= 0.1 * other  # E near the bound may fall on either side
    assert other > 0


@pytest.mark.parametrize("d", [100, 128, 129])
def test_spiky_signals_keep_the_digits_of_float32(d, rng):
    """Kernels far below the bound of their terms, which sums on one grid are rounded to."""
    X = 1e-3 * rng.standard_normal((6, 2, d))
    X[:, :, :: d // 2] *= np.logspace(0, 7, 6)[:, None, None]
    X[5] = 0.0
    X[5, :, 3] = 1.0
    ours = rk.gram(rk.Network(3), X, dtype="float32", engine="numba")
    exact = rk.gram(rk.Network(3), X, engine="reference")
    for K, P in zip(ours, exact, strict=True):
        size = np.sqrt(np.outer(P.diagonal(), P.diagonal()))
        assert (np.abs(K - P) <= tolerances.KERNEL["float32"] * size).all()


CODE = """
import hashlib, numpy as np
import llvmlite.binding as llvm
features = llvm.get_host_cpu_features()
features.update({name: False for name in features if name.startswith("avx512")})
llvm.get_host_cpu_features = lambda: features
import rescntk as rk
from rescntk.engines import cpu
from rescntk.engines.cpu.vectors import REGISTER_BYTES
cpu.gains_by_sweeping = lambda: True
X = np.random.default_rng(0).standard_normal((5, 3, 23))
kernels = rk.gram(rk.Network(3), X, engine="numba")
print(REGISTER_BYTES, hashlib.sha256(np.stack(kernels).tobytes()).hexdigest())
"""


def test_first_layers_of_dilated_networks_have_their_own_bits(rng):
    """The first layers are a network that is swept, and the later layers are not."""
    dilated = rk.Network(4, 3, dilation=(1, 1, 2, 4))
    X = rng.standard_normal((4, 2, 9))
    for signals, Z in ((X, None), (X[:3], X[2:]), ([X[0], X[1, :, :5]], None)):
        ladder = rk.gram(dilated, signals, Z, depths=(1, 2, 3, 4), engine="numba")
        for depth in (1, 2, 3, 4):
            alone = rk.gram(dilated.replace(depth=depth), signals, Z, engine="numba")
            one = rk.gram(dilated, signals, Z, depths=(depth,), engine="numba")
            for K, A, B in zip(ladder, alone, one, strict=True):
                assert (K[depth - 1] == A).all() and (B[0] == A).all()
    kernel = rk.Kernel(dilated, "ntk")
    assert (kernel.prepare(X)(X) == kernel(X, X)).all()


@pytest.mark.slow
def test_processors_without_avx512_have_the_same_bits(tmp_path):
    kernels = rk.gram(
        rk.Network(3), np.random.default_rng(0).standard_normal((5, 3, 23)), engine="numba"
    )
    ours = hashlib.sha256(np.stack(kernels).tobytes()).hexdigest()
    features = "+avx,+avx2,+fma,+bmi,+bmi2,+popcnt,+lzcnt"
    settings = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": features}
    assert run(CODE, NUMBA_CACHE_DIR=str(tmp_path), **settings) == f"32 {ours}"
