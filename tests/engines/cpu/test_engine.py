"""The engine "numba" against the reference engine, with and without deficits; its threads."""

from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rescntk.engines.cpu.run import NumbaRun

import rescntk as rk
from rescntk.engines import signal_tables
from rescntk.engines.cpu import plan as sizes
from rescntk.engines.cpu import tables
from rescntk.validation import DTYPES, HEADS, KINDS
from tests import tolerances
from tests.covering import pairs_meet
from tests.difficult_signals import UNEVEN
from tests.engine_names import needs_numba
from tests.engines import test_properties
from tests.engines.bodies.deficits import all_pairs_in_deficits
from tests.processes import run
from tests.strategies import ALL_FIELDS, kinds, networks, signals

pytestmark = needs_numba

odd = st.integers(0, 40).map(lambda k: 2 * k + 1)
relu_networks = networks(ALL_FIELDS, activations=("relu",), max_depth=3)
FILTERS = ((1, 1), (1, 3), (3, 1), (3, 5), (7, 9), (11, 13), (15, 17), (31, 3))


def test_threads_follow_the_environment_and_the_caller():
    code = (
        "import numpy as np, rescntk as rk; from rescntk.engines import protocol as n\n"
        "rk.ResCGPK(1)(np.ones((1, 1, 1)))  # tries the engine\n"
        "pools = []; pool = n.ThreadPoolExecutor\n"
        "n.ThreadPoolExecutor = lambda k, **rest: pools.append(k) or pool(k, **rest)\n"
        "X = np.ones((8, 1, 400)); k = rk.ResCGPK(2)\n"
        "k(X); k(X, threads=5); k.diag(X, threads=2); k(X, threads=1); k(X[:, :, :9]); k(X)\n"
        "import numba; print(pools, numba.get_num_threads())"
    )
    assert run(code, NUMBA_NUM_THREADS="3") == "[3, 5, 2, 1, 3] 3"


@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_of_different_pixels_cancel(dtype, rng, monkeypatch):
    """Windows of smooth signals are nearly parallel, and most kernels keep their digits."""
    shifts, levels, noise = rng.random((16, 1, 1)), *rng.standard_normal((2, 16, 1, 150))
    X = np.sin(2 * np.pi * (np.arange(150) / 75 + shifts)) + levels[..., :1] + 1e-3 * noise
    repeated, in_deficits = [], NumbaRun.in_deficits
    monkeypatch.setattr("rescntk.engines.cpu.gains_by_sweeping", lambda: True)  # it has levels
    monkeypatch.setattr(
        NumbaRun,
        "in_deficits",
        lambda *args: repeated.append((len(args[3]), len(args[-1]))) or in_deficits(*args),
    )
    gram = partial(rk.gram, rk.Network(5), X[:8], X[8:], dtype=dtype, engine="numba")
    kernels, few = gram(), len(repeated)
    monkeypatch.setattr(signal_tables, "cancelled", lambda roots, gap: np.ones(roots.shape[1]))
    with_some_rows = gram()
    pairs, rows = np.sum(repeated[few:], axis=0)
    assert 2 * sum(number for number, _ in repeated[:few]) < pairs
    assert rows < 0.5 * 150 * pairs  # rows of a doubtful pair that have little doubt stay
    with all_pairs_in_deficits():
        for *ours, other in zip(kernels, with_some_rows, gram(), strict=True):
            for K in ours:
                assert np.abs(K / other - 1).max() <= tolerances.KERNEL[dtype]


@pytest.mark.parametrize("d", [1, 2, 3, 17, 64, 150])
@pytest.mark.parametrize("head", ["trace", "gap"])
def test_every_length_and_filter(d, head, rng):
    """Against the reference engine, where rows and filters fit badly."""
    Z = rng.standard_normal((3, 2, d))
    for q, outer in FILTERS:
        network = rk.Network(3, q, outer_filter_size=outer)
        theirs = rk.gram(network, Z[:2], Z, head=head, engine="reference")
        for dtype, bar in tolerances.KERNEL.items():
            ours = rk.gram(network, Z[:2], Z, head=head, engine="numba", dtype=dtype)
            for A, B in zip(ours, theirs, strict=True):
                assert np.abs(A - B).max() <= bar * np.abs(B).max()


@pytest.mark.parametrize("deficits", [False, True])
@pytest.mark.parametrize("input_filter_size", [1, 9])
def test_segments_have_the_bits_of_whole_rows(input_filter_size, deficits, rng, monkeypatch):
    network = rk.Network(3, 3, input_filter_size=input_filter_size, dilation=(1, 2, 3))
    X = rng.standard_normal((5, 3, 61))
    X[1] = X[0] + 1e-9 * X[2]
    batches = [(X, None, HEADS), ([X[0], X[1, :, :60], X[2, :, :17], X[3, :, :4]], X, ("gap",))]

    def values():
        """Return kernels of arrays and of lists, diagonals and shares."""
        with all_pairs_in_deficits() if deficits else nullcontext():
            for X, Z, heads in batches:
                for head in heads:
                    for dtype in DTYPES:
                        options = {"engine": "numba", "dtype": dtype}
                        yield from rk.gram(network, X, Z, head=head, depths=(1, 3), **options)
                        yield rk.Kernel(network, "ntk", head).diag(X, **options)
                        if head != "equivariant":
                            yield from rk.pixel_shares(network, X, Z, head=head, **options)

    whole = list(values())
    monkeypatch.setattr(sizes, "_SEGMENT", 9)
    monkeypatch.setattr(sizes, "_LOST_PART", 1)
    for ours, theirs in zip(values(), whole, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("activation", ["relu", "erf"])
def test_tables_of_few_signals_at_a_time_have_the_same_bits(activation, rng, monkeypatch):
    network, X = rk.Network(3, activation=activation), rng.standard_normal((40, 2, 21))

    def values():
        for head in HEADS:
            for dtype in DTYPES:
                kernel = rk.Kernel(network, "ntk", head)
                yield kernel(X, dtype=dtype)
                yield kernel(X[:2], X, dtype=dtype)
                yield kernel.diag(X, engine="reference", dtype=dtype)

    at_once = list(values())
    for module in (signal_tables, tables):
        monkeypatch.setattr(module, "TOGETHER", 1)
    for ours, theirs in zip(values(), at_once, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def assert_deficits_are_right(network, X, dtype):
    """Compare Grams, diagonals and pixel pairs in deficits with the reference engine's."""
    depths = (1, network.depth) if network.depth > 1 else (1,)
    bar, options = tolerances.KERNEL[dtype], {"engine": "numba", "dtype": dtype}
    with all_pairs_in_deficits():
        for head in HEADS:
            exact = rk.gram(network, X, head=head, depths=depths, engine="reference")
            computed = rk.gram(network, X, head=head, depths=depths, **options)
            for kind, ours, theirs in zip(KINDS, computed, exact, strict=True):
                for K, P in zip(ours, theirs, strict=True):
                    size = np.sqrt(np.outer(P.diagonal(), P.diagonal()))
                    assert (np.abs(K - P) <= bar * size).all()
                kernel = rk.Kernel(network, kind, head)
                assert (kernel(X, X[:1], **options) == ours[-1][:, :1]).all()
                assert (kernel.diag(X, **options) == ours[-1].diagonal()).all()
        ours = rk.pixel_pairs(network, X, X[:1], **options)
    own = rk.pixel_pairs(network, X, engine="reference")
    largest = np.sqrt([own[i, i].max() for i in range(len(X))])
    error = np.abs(ours - own[:, :1])[:, 0].max(axis=(1, 2))
    assert (error <= bar * largest * largest[0]).all()


@pytest.mark.slow
@given(networks(ALL_FIELDS, activations=("relu",)), odd, odd, signals())
def test_deficits_of_any_network_on_any_signals(network, inner, outer, X):
    network = network.replace(filter_size=inner, outer_filter_size=outer)
    assert_deficits_are_right(network, X, "float64")


SIZES = [(1, 1), (3, 3), (1, 5), (9, 3), (17, 27), (35, 1)]


@pytest.mark.parametrize(("make", "sizes", "dtype"), pairs_meet(UNEVEN, SIZES, DTYPES))
def test_deficits_of_uneven_amplitudes(make, sizes, dtype, rng):
    network = rk.Network(3, sizes[0], outer_filter_size=sizes[1])
    assert_deficits_are_right(network, make(2, 11, rng), dtype)


def test_float32_keeps_its_digits(rng):
    """Few large pixels, whose errors do not cancel; and many layers, whose errors add up."""
    few = 1e-3 * rng.standard_normal((20, 1, 60))
    few[:, :, ::30] = rng.standard_normal((20, 1, 2)) * [1, 10]
    deep = np.exp(4 * np.random.default_rng(10).standard_normal((5, 1, 2, 3)))
    networks = rk.Network(2), rk.Network(5), rk.Network(50, 5, skip=False, dilation=2)
    for X, network in zip((few, few, deep), networks, strict=True):
        with all_pairs_in_deficits():
            exact = rk.gram(network, X, engine="numba")
        for engine in ("numba", "reference"):
            computed = rk.gram(network, X, engine=engine, dtype="float32")
            for K, P in zip(computed, exact, strict=True):
                size = np.sqrt(np.outer(P.diagonal(), P.diagonal()))
                assert (np.abs(K - P) <= tolerances.KERNEL["float32"] * size).all()


@given(relu_networks, odd, odd, signals(batches=2), kinds, st.integers(-9, 9), st.integers(-9, 9))
def test_filters_of_any_size(network, inner, outer, batches, kind, one, other):
    """Symmetric, without an order, and free of shifts, to the bit; in deficits, too."""
    network = network.replace(filter_size=inner, outer_filter_size=outer)
    X, Z = batches
    for recursion in (nullcontext, all_pairs_in_deficits):
        with recursion():
            shifts = test_properties.test_shifts.hypothesis.inner_test
            shifts("numba", network, batches, kind, one, other)
            for head in HEADS:
                kernel = rk.Kernel(network, kind, head)
                K = kernel(X, Z, engine="numba")
                assert (kernel(Z, X, engine="numba") == K.T).all()
                assert (kernel(X[::-1], Z[-1:], engine="numba") == K[::-1, -1:]).all()


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 5, 120])
def test_the_pairs_of_many_signals(d, dtype, head, rng):
    """Tasks of many signals skip pairs off the diagonal, and keep the bits of a Gram matrix."""
    n = 150 if d < 100 else 30
    for channels, window in ((1, 1), (9, 1), (3, 9)):
        X = rng.standard_normal((n, channels, d))
        X[3], X[4] = X[2], 0.0
        kernel = rk.ResCNTK(3, head=head, input_filter_size=window)
        options = {"engine": "numba", "dtype": dtype}
        whole = kernel.diag(X, threads=1, **options)
        assert (kernel.diag(X, threads=2, **options) == whole).all()
        some = [0, 2, 3, 4, n - 1]
        assert (kernel(X[some], **options).diagonal() == whole[some]).all()
        Z = np.roll(X, 5, axis=0) * np.exp(rng.standard_normal((n, 1, d)))
        Z[3] = 2 * X[3]
        pairs = kernel.paired(X, Z, threads=2, **options)
        assert (kernel(X[some], Z[some], **options).diagonal() == pairs[some]).all()
        if head == "gap":
            cut = [x[:, : max(1, d - k % 7)] for k, x in enumerate(X)]
            alone = [kernel.diag(cut[k][None], **options)[0] for k in some]
            assert (kernel.diag(cut, **options)[some] == alone).all()
            shorter = [z[:, : max(1, d - k % 5)] for k, z in enumerate(Z)]
            alone = [kernel([cut[k]], [shorter[k]], **options)[0, 0] for k in some]
            for one, other in ((cut, shorter), (shorter, cut)):
                assert (kernel.paired(one, other, **options)[some] == alone).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head", ["trace", "gap"])
def test_many_channels_and_windows(head, dtype, rng):
    """Windows' distances as moving sums: right, symmetric, free of shifts, and of other pairs."""
    t = np.linspace(0, 1, 33)
    for channels, window in ((9, 1), (33, 1), (4, 5), (28, 9), (20, 41)):
        X = rng.standard_normal((6, channels, 33))
        X[1] = X[0] * (1 + 1e-5 * rng.standard_normal(X[0].shape))
        X[2], X[3] = -2 * X[0], X[0] * np.exp(-4 * t)  # opposite windows, and nearly parallel
        X[4] = np.sin(6 * t + np.arange(channels)[:, None])
        options = {"head": head, "normalized": True, "depths": (1, 3)}
        network = rk.Network(3, 3, input_filter_size=window)
        theirs = rk.gram(network, X, engine="reference", **options)
        options |= {"engine": "numba", "dtype": dtype}
        ours = rk.gram(network, X, **options)
        turned = rk.gram(network, np.roll(X, 5, axis=2), **options)
        for K, exact, shifted in zip(ours, theirs, turned, strict=True):
            assert np.abs(K - exact).max() <= tolerances.KERNEL[dtype]
            assert (K == K.swapaxes(1, 2)).all() and (K == shifted).all()
        alone = rk.gram(network, X[3:4], X[:1], **options)
        assert all((A[:, 0, 0] == K[:, 0, 3]).all() for A, K in zip(alone, ours, strict=True))
