"""The engine "numba" against the reference engine; its threads and its progress."""

import numpy as np
import pytest

import rescntk as rk
from tests import tolerances
from tests.engine_names import needs_numba
from tests.processes import run

pytestmark = needs_numba


def test_threads_follow_the_environment_and_the_caller():
    code = (
        "import numpy as np, rescntk as rk; from rescntk.engines.cpu import engine as n\n"
        "pools = []; pool = n.ThreadPoolExecutor\n"
        "n.ThreadPoolExecutor = lambda k: pools.append(k) or pool(k)\n"
        "X = np.ones((2, 1, 3)); k = rk.ResCGPK(2)\n"
        "k(X); k(X, threads=5); k.diag(X, threads=2); k(X)\n"
        "import numba; print(pools, numba.get_num_threads())"
    )
    assert run(code, NUMBA_NUM_THREADS="3") == "[3, 5, 2, 3] 3"


def test_progress_counts_every_pair(capsys):
    pytest.importorskip("tqdm")
    signals = np.random.default_rng(0).standard_normal((30, 1, 4))
    rk.ResCGPK(2)(signals, progress=True, engine="numba")
    assert "465/465" in capsys.readouterr().err.replace(".0", "")


@pytest.mark.parametrize("d", [1, 2, 3, 17, 64, 200])
@pytest.mark.parametrize("head", ["trace", "gap"])
def test_every_length_and_filter(d, head, rng):
    """Against the reference engine, where rows and filters fit badly."""
    Z = rng.standard_normal((3, 2, d))
    for q, outer in ((1, 3), (3, 1), (3, 5), (7, 9), (11, 13), (15, 17), (31, 3)):
        network = rk.Network(3, q, outer_filter_size=outer)
        for dtype, bar in tolerances.KERNEL.items():
            ours = rk.gram(network, Z[:2], Z, head=head, engine="numba", dtype=dtype)
            theirs = rk.gram(network, Z[:2], Z, head=head, engine="reference", dtype=dtype)
            for A, B in zip(ours, theirs, strict=True):
                assert np.abs(A - B).max() <= bar * np.abs(B).max()


@pytest.mark.parametrize("head", ["trace", "gap"])
def test_long_filters(head, rng):
    """Blocks of a window begin at pixel 0: a shift may change the last bits, nothing else may."""
    X, Z = rng.standard_normal((2, 9, 2, 20))
    kernel = rk.ResCNTK(3, 31, head=head)
    K = kernel(X, Z, engine="numba")
    assert (kernel(X[2:3], Z[4:5], engine="numba", threads=1) == K[2, 4]).all()
    assert (kernel(X[::-1], Z, engine="numba", threads=5) == K[::-1]).all()
    size = np.sqrt(np.outer(kernel.diag(X), kernel.diag(Z)))
    shifted = kernel(np.roll(X, 7, axis=2), np.roll(Z, 7, axis=2), engine="numba")
    assert (np.abs(shifted - K) <= tolerances.KERNEL["float64"] * size).all()
    assert (
        np.abs(kernel(Z, X, engine="numba").T - K) <= 2 * tolerances.KERNEL["float64"] * size
    ).all()
