"""`Kernel.vjp` against differences in 40 digits, and against what gradients must fulfil."""

import tracemalloc
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk.kernels.gradients import signal_gradients
from rescntk.validation import DTYPES, HEADS, KINDS
from tests import tolerances
from tests.engine_names import CPU, needs_numba
from tests.oracles import gradients as oracle

ALL = "input", "inner", "outer", "readout"
NETWORKS = {
    "default": {"alpha": 0.7},
    "no skip": {"skip": False, "trained": ("inner", "readout"), "c_v": 1.3},
    "all trained, dilated": {"trained": ALL, "dilation": 2, "filter_size": 5, "c_w": 0.8},
    "leaky, windows": {"negative_slope": 0.3, "input_filter_size": 3, "outer_filter_size": 1},
    "frozen parts": {"trained": ("input", "outer"), "alpha": 0.2, "readout_scale": 3.0},
    "biases": {"bias": 0.6, "alpha": 0.8, "input_scale": 0.3, "filter_size": 5},
    "biases, no skip": {"bias": 0.3, "skip": False},
}


def pairs_of_signals(rng):
    """Return pairs (x, z), with the step of differences that sees their angles."""
    x, z = rng.standard_normal((2, 2, 3))
    zeros = x.copy()
    zeros[:, 1] = 0.0
    near = rng.standard_normal((2, 3))
    return {
        "random": (x, 10.0 * z, 2.0**-15),
        "a pixel of zeros": (zeros, z, 2.0**-40),
        "equal": (x, x, 2.0**-40),
        "near": (x, x + 1e-3 * near, 2.0**-25),
        "nearer": (x, x + 1e-6 * near, 2.0**-35),
        "nearest": (x, x + 1e-8 * near, 2.0**-42),
        "near multiples": (x, 3.0 * x + 1e-6 * near, 2.0**-35),
        "near opposites": (x, -x + 1e-3 * near, 2.0**-25),
        "one channel": (x[:1], z[:1], 2.0**-15),
        "images": (x.reshape(1, 2, 3), z.reshape(1, 2, 3), 2.0**-15),
        "one pixel and three": (x[:, :1], z, 2.0**-15),
        "three pixels and one": (x, z[:, :1], 2.0**-15),
    }


OPTIONS = [{"engine": engine, "dtype": dtype} for engine in CPU for dtype in DTYPES]


def assert_exact(network, *pairs):
    """Compare with differences the derivatives of a sum over pairs (x, z, step), in one call."""
    exact = [oracle.by_signals(network, *pair) for pair in pairs]
    X, Z = ([pair[side] for pair in pairs] for side in (0, 1))
    if not (lists := X[0].shape != Z[0].shape):
        X, Z = np.stack(X), np.stack(Z)
    for place, (kind, head, normalized) in enumerate(oracle.KERNELS):
        if lists and head != "gap":
            continue
        kernel = rk.Kernel(network, kind, head, normalized)
        for option in OPTIONS:
            found = kernel.vjp(X, Z, np.eye(len(X)), **option)
            assert (found.K == kernel(X, Z, **option)).all()
            for k, (x, *_) in enumerate(pairs):
                for gradient, of_side in zip((found.X[k], found.Z[k]), exact[k], strict=True):
                    # Two derivatives of a normalized kernel cancel at kinks and at extrema.
                    size = np.abs(of_side[place]).max()
                    size = max(size, 0.1 * np.abs(found.K[k, k]) / np.abs(x).max())
                    error = np.abs(gradient - of_side[place]).max()
                    bar = tolerances.GRADIENT[option["dtype"]]
                    assert error <= bar * size, (k, kernel, option)


@pytest.mark.usefixtures("general_loops")
@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_differences_in_40_digits(name, rng):
    assert_exact(rk.Network(3, **NETWORKS[name]), pairs_of_signals(rng)["random"])


PAIRS = pairs_of_signals(np.random.default_rng(0))
ALIKE = [name for name, (x, z, _) in PAIRS.items() if x.shape == z.shape == (2, 3)]


@pytest.mark.usefixtures("general_loops")
@pytest.mark.parametrize(
    ("window", "names"),
    [(3, ALIKE), *((1, names) for names in (ALIKE, *([n] for n in PAIRS if n not in ALIKE)))],
    ids=str,
)
def test_near_and_equal_windows(window, names, rng):
    """Of the input filter too: layer 1 then has the windows of rounded vectors."""
    pairs = pairs_of_signals(rng)
    network = rk.Network(2, alpha=0.7, input_filter_size=window)
    assert_exact(network, *(pairs[name] for name in names))


@pytest.mark.usefixtures("general_loops")
@pytest.mark.parametrize("constants", [{"input_filter_size": 3}, {"bias": 0.2}], ids=str)
def test_near_copies_of_one_pixel(constants, rng):
    """Opposite numbers, of a constant normalized kernel; and copies that float32 cannot tell."""
    X = rng.standard_normal((2, 2, 1))
    Z = np.concatenate([-3.0 * X[:1], X[1:] * (1 + 1e-9)])
    Z[1, 0] += 1e-10
    for kind, head, normalized in product(KINDS, HEADS, (False, True)):
        kernel = rk.Kernel(rk.Network(1, **constants), kind, head, normalized)
        exact = kernel.vjp(X, Z, np.eye(2), engine="reference")
        for option in OPTIONS:
            found = kernel.vjp(X, Z, np.eye(2), **option)
            size = max(np.abs(exact.X).max(), 0.1 * np.abs(exact.K / X[:, 0]).max())
            bar = tolerances.GRADIENT[option["dtype"]] * size
            assert np.abs(found.X - exact.X).max() <= bar, (kernel, option)
            assert np.abs(found.Z - exact.Z).max() <= bar, (kernel, option)


DISTANCES = {"near": 1e-3, "nearer": 1e-6, "nearest": 1e-8, "near multiples": 1e-6}
DEEP = "default", "leaky, windows", "biases, no skip"


@pytest.mark.usefixtures("general_loops")
@pytest.mark.parametrize(
    ("name", "depth"), [*((name, 3) for name in NETWORKS), *((name, 20) for name in DEEP)]
)
def test_normalized_kernels_of_near_copies(name, depth, rng):
    """∂K̂/∂x is as small as the distance; its error is a share of it, not of ∂K/∂x."""
    network, pairs = rk.Network(depth, **NETWORKS[name]), pairs_of_signals(rng)
    exact = [oracle.by_signals(network, *pairs[near]) for near in DISTANCES]
    X, Z = (np.stack([pairs[near][side] for near in DISTANCES]) for side in (0, 1))
    for place, (kind, head, normalized) in enumerate(oracle.KERNELS):
        if kind == "ntk" or not normalized:
            continue
        kernel = rk.Kernel(network, kind, head, normalized)
        for option in OPTIONS:
            found = kernel.vjp(X, Z, np.eye(len(X)), **option)
            for k, (near, distance) in enumerate(DISTANCES.items()):
                bar = tolerances.near_gradient(option["dtype"], distance)
                for gradients, of_side in zip((found.X, found.Z), exact[k], strict=True):
                    error = np.abs(gradients[k] - of_side[place]).max()
                    assert error <= bar * np.abs(of_side[place]).max(), (near, kernel, option)


@pytest.mark.usefixtures("general_loops")
@pytest.mark.parametrize("distance", [1.0, 1e-3])
@pytest.mark.parametrize("name", ["default", "biases", "no skip"])
def test_derivatives_by_numbers_of_the_network(name, distance, rng):
    network, (x, z) = rk.Network(3, **NETWORKS[name]), rng.standard_normal((2, 2, 3))
    z = z if distance == 1.0 else x + distance * z
    exact = {number: np.zeros(len(oracle.KERNELS)) for number in ("alpha", "bias")}
    for number, known in (("alpha", network.skip), ("bias", network.bias > 0)):
        if known:
            exact[number] = oracle.by_number(network, number, x, z, 2.0**-17)
    for place, (kind, head, normalized) in enumerate(oracle.KERNELS):
        kernel = rk.Kernel(network, kind, head, normalized)
        for option in OPTIONS:
            found = kernel.vjp(x[None], z[None], np.full((1, 1), 2.0), **option)
            for number, slopes in exact.items():
                bar = tolerances.GRADIENT[option["dtype"]] * max(1.0, abs(slopes[place]))
                error = abs(getattr(found, number) - 2.0 * slopes[place])
                assert error <= 10.0 * bar, (number, kernel, option)


KERNEL = rk.ResCNTK(3, alpha=0.6)


@pytest.mark.parametrize("engine", CPU)
@pytest.mark.parametrize("head", ["gap", "trace"])
@pytest.mark.parametrize("normalized", [False, True])
def test_properties(engine, head, normalized, rng):
    kernel = KERNEL.replace(head=head, normalized=normalized)
    X, Z = rng.standard_normal((5, 3, 11)), rng.standard_normal((7, 3, 11))
    V, W = rng.standard_normal((2, 5, 7))
    one, other = (kernel.vjp(X, Z, weights, engine=engine) for weights in (V, W))
    both = kernel.vjp(X, Z, 2.0 * V - W, engine=engine)

    def near(found, expected, size=1.0):
        bar = 10.0 * tolerances.GRADIENT["float64"] * max(1.0, size) * np.abs(expected).max()
        return bool((np.abs(found - expected) <= bar).all())

    for name in ("X", "Z", "alpha"):  # linear in the weights
        parts = 2.0 * getattr(one, name) - getattr(other, name)
        size = np.abs(getattr(one, name)).max() / max(1e-300, np.abs(parts).max())
        assert near(getattr(both, name), parts, size)
    fixed = kernel.vjp(X, Z, V, fixed_Z=True, engine=engine)
    assert (fixed.X == one.X).all()
    assert fixed[2:] == (None, None, None)
    # Shifts move gradients along.
    shifted = kernel.vjp(np.roll(X, 7, axis=2), np.roll(Z, 7, axis=2), V, engine=engine)
    assert near(shifted.X, np.roll(one.X, 7, axis=2))
    # K(c x, z) = c K(x, z), and normalized kernels do not change.
    degree = 0.0 if normalized else 1.0
    along = (one.X * X).sum(axis=(1, 2))
    assert np.abs(along - degree * (V * one.K).sum(axis=1)).max() <= 1e-10
    # X with itself has the derivatives of both sides.
    U = rng.standard_normal((5, 5))
    own, sides = kernel.vjp(X, weights=U, engine=engine), kernel.vjp(X, X, U, engine=engine)
    assert own.Z is None
    assert (own.K == own.K.T).all()
    assert near(own.X, sides.X + sides.Z)
    # Other signals keep their derivatives beside a signal of zeros; normalized ones are 0 there.
    silent = X.copy()
    silent[2] = 0.0
    found = kernel.vjp(silent, Z, V, engine=engine).X
    assert np.isfinite(found).all() and not (normalized and found[2].any())
    assert near(np.delete(found, 2, axis=0), np.delete(one.X, 2, axis=0))
    # A large signal does not hide small ones.
    large = X * 10.0 ** np.array([0, 60, -60, 3, 0])[:, None, None]
    scaled = kernel.vjp(large, Z, V, engine=engine)
    ratio = np.abs(X).max(axis=(1, 2)) / np.abs(large).max(axis=(1, 2))
    expected = one.X * ratio[:, None, None] if normalized else one.X
    for found, exact in zip(scaled.X, expected, strict=True):
        assert near(found, exact)


LENGTHS = 1, 2, 3, 4, 6, 9


def euler_signals(rng):
    """Return lists X and Z of signals of all `LENGTHS`; half of Z are nearly multiples of X."""
    X, Z = ([rng.standard_normal((2, d)) for d in LENGTHS] for _ in "XZ")
    for x in X:
        near = np.tile(x, 1 + 9 // x.shape[1])[:, : max(x.shape[1], 9 - 9 % x.shape[1])]
        Z.append(3.0 * near + 1e-6 * rng.standard_normal(near.shape))
    return X, Z


def assert_euler(kernel, X, Z, rng):
    """⟨x̄_a, x_a⟩ = Σ_b W_ab K_ab: K is of degree 1 in each signal, and 0 where it is normalized."""
    W = rng.standard_normal((len(X), len(Z)))
    for option in OPTIONS:
        found = kernel.vjp(X, Z, W, **option)
        terms = W * np.asarray(found.K, np.float64)
        for axis, signals, gradients in ((1, X, found.X), (0, Z, found.Z)):
            degree = 0.0 if kernel.normalized else terms.sum(axis=axis)
            parts = [
                (x * np.asarray(g, np.float64)).ravel()
                for x, g in zip(signals, gradients, strict=True)
            ]
            error = np.abs(np.array([part.sum() for part in parts]) - degree)
            size = np.array([np.abs(part).sum() for part in parts]) + np.abs(terms).sum(axis=axis)
            bar = tolerances.GRADIENT[option["dtype"]] * size
            assert (error <= bar).all(), (kernel, option, error / bar)


@pytest.mark.usefixtures("general_loops")
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_eulers_identity(kind, size, rng):
    """Of all lengths with all others by the head "gap", and of each length by all heads.

    For each head, lengths are normalized in turns.
    """
    network = rk.Network(3, size, alpha=0.7)
    X, Z = euler_signals(rng)
    for normalized in (False, True):
        assert_euler(rk.Kernel(network, kind, "gap", normalized), X, Z, rng)
    for (k, head), (i, d) in product(enumerate(HEADS), enumerate(LENGTHS)):
        same = np.stack([z for z in Z if z.shape[1] == d])
        normalized = (k + i) % 2 == 0
        assert_euler(rk.Kernel(network, kind, head, normalized), X[i][None], same, rng)


@needs_numba
@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_give_the_same_bits(dtype, rng, monkeypatch):
    monkeypatch.setattr("rescntk.engines.cpu.gradient_run._PART_ENTRIES", 500_000)
    X, Z, W = *rng.standard_normal((2, 24, 3, 64)), rng.standard_normal((24, 24))
    one, other = (KERNEL.vjp(X, Z, W, engine="numba", threads=n, dtype=dtype) for n in (1, 3))
    assert (one.K == other.K).all()
    assert (one.X == other.X).all()
    assert (one.Z == other.Z).all()
    assert one.alpha == other.alpha


@needs_numba
def test_own_kernels_go_back_in_batches(rng, monkeypatch):
    monkeypatch.setattr("rescntk.engines.cpu.gradient_run._OWN_PAIRS", 3)
    X, W = rng.standard_normal((8, 2, 9)), rng.standard_normal((8, 8))
    kernel = KERNEL.replace(normalized=True)
    found, exact = (kernel.vjp(X, weights=W, engine=engine) for engine in ("numba", "reference"))
    bar = 10.0 * tolerances.GRADIENT["float64"]
    assert np.abs(found.X - exact.X).max() <= bar * np.abs(exact.X).max()
    assert abs(found.alpha - exact.alpha) <= bar * abs(exact.alpha)


LISTS = {
    "ntk": rk.ResCNTK(3, alpha=0.6),
    "normalized gpk": rk.ResCGPK(3, normalized=True, dilation=2, bias=0.3),
    "windows": rk.CNTK(2, input_filter_size=5, trained=ALL, negative_slope=0.2),
}


@pytest.mark.usefixtures("general_loops")
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("name", LISTS)
def test_signals_of_different_lengths_are_repeated_ones(name, option, rng):
    """A ring of pixels does not see where it begins again."""
    kernel, ring = LISTS[name], 36
    X, Z = ([rng.standard_normal((4, d)) for d in each] for each in ((4, 9, 4, 12), (6, 18, 3)))
    W = rng.standard_normal((4, 3))

    def tiled(signals):
        return np.stack([np.tile(x, ring // x.shape[1]) for x in signals])

    def agree(found, expected):
        assert isinstance(found, list)
        for gradient, whole in zip(found, expected, strict=True):
            summed = whole.reshape(len(whole), -1, gradient.shape[1]).sum(axis=1)
            assert np.abs(gradient - summed).max() <= bar * np.abs(summed).max()

    bar = 10.0 * tolerances.GRADIENT[option["dtype"]]
    found = kernel.vjp(X, Z, W, **option)
    expected = kernel.vjp(tiled(X), tiled(Z), W, engine="reference")
    agree(found.X, expected.X)
    agree(found.Z, expected.Z)
    assert np.abs(found.K - expected.K).max() <= 1e-6 * np.abs(expected.K).max()
    for number in ("alpha", "bias"):
        error = abs(getattr(found, number) - getattr(expected, number))
        assert error <= bar * np.abs(W * expected.K).sum()
    own, sides = kernel.vjp(X, weights=W @ W.T, **option), kernel.vjp(X, X, W @ W.T, **option)
    agree(own.X, [x + z for x, z in zip(sides.X, sides.Z, strict=True)])


@pytest.mark.usefixtures("general_loops")
def test_pairs_that_lose_digits_are_exact(rng, monkeypatch):
    """Of smooth signals, and of long windows with few values, in compiled loops."""
    t, phases = np.arange(60) / 60, rng.random((6, 1, 1, 5))
    waves = np.sin(2 * np.pi * (t[:, None] * np.arange(1, 6) + phases)) / np.arange(1, 6)
    smooth = (rng.standard_normal((6, 1, 1, 5)) * waves).sum(axis=3)
    steps = np.repeat(rng.standard_normal((6, 1, 8)), 6, axis=2)
    steps = steps + 1e-7 * rng.standard_normal(steps.shape)
    W = rng.standard_normal((6, 6))
    kernels, signals = (rk.ResCNTK(5), rk.ResCNTK(4, bias=0.1)), ((smooth, 1.0), (steps, 10.0))
    for kernel, (X, units) in product(kernels, signals):
        exact = kernel.vjp(X, weights=W, engine="reference")
        for option in OPTIONS:
            with monkeypatch.context() as patch:
                if option["engine"] == "numba":  # which takes 30 times as long in the reference
                    patch.setattr("rescntk.engines.derivatives.vjp", None)  # a call fails
                found = kernel.vjp(X, weights=W, **option)
            error = np.abs(found.X - exact.X).max() / np.abs(exact.X).max()
            assert error <= units * tolerances.GRADIENT[option["dtype"]], (kernel, option)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("engine", CPU)
def test_wide_windows_of_the_input_are_sums(engine, head, rng):
    """Windows as channels would take 30 MB for each of dozens of arrays."""
    X = rng.standard_normal((2, 17, 8, 8))
    kernel, W = rk.Kernel(rk.Network(1, input_filter_size=41), "ntk", head), np.ones((2, 2))
    signal_gradients(kernel, X[:1], None, W[:1, :1], engine=engine, dtype="float64", threads=1)
    tracemalloc.start()
    signal_gradients(kernel, X, None, W, engine=engine, dtype="float64", threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 60e6


VARIED = {
    "swept": {"depth": 3},
    "windows, no skip": {"depth": 2, "skip": False, "input_filter_size": 5},
    "biases": {"depth": 2, "bias": 0.3, "filter_size": 5},
    "dilated": {"depth": 4, "filter_size": 5, "dilation": 2},
}


def varied_batches(rng):
    """Return signals, lists and images with near copies and multiples, each (X, Z or None)."""
    X, Z = rng.standard_normal((6, 2, 20)), rng.standard_normal((4, 2, 20))
    X[3], X[4] = X[2] + 1e-9 * X[1], 2.0 * X[2]
    Z[:2] = X[2:4] + 1e-8
    lists = [[rng.standard_normal((2, d)) for d in each] for each in ((5, 9, 9, 1, 12), (3, 9, 20))]
    images = rng.standard_normal((4, 2, 5, 6))
    return (X, Z), (X, None), (X, X), (X[:1], Z), (images, None), lists, (lists[0], None)


def varied_calls(name, kind, rng):
    """Yield kernels of all heads, batches and weights; kernels are normalized in turns."""
    network, batches = rk.Network(**VARIED[name]), varied_batches(rng)
    for (i, head), (k, (left, right)) in product(enumerate(HEADS), enumerate(batches)):
        if isinstance(left, list) and head != "gap":
            continue
        normalized = (i + k + KINDS.index(kind)) % 2 == 1
        W = rng.standard_normal((len(left), len(left if right is None else right)))
        yield i + k // 2, rk.Kernel(network, kind, head, normalized), (left, right, W)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VARIED)
def test_the_kernel_has_the_bits_of_its_own_call(name, kind, rng):
    """Of every head, precision and batch, with doubtful pairs; precisions change with the batch."""
    for turn, kernel, (left, right, W) in varied_calls(name, kind, rng):
        for option in OPTIONS[turn % 2 :: 2]:
            K = kernel.vjp(left, right, W, **option).K
            assert (K == kernel(left, right, **option)).all(), (kernel, option)


@needs_numba
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", VARIED)
def test_pairs_go_forth_in_deficits(name, kind, rng, monkeypatch):
    """All pairs take the loops of pairs that lose digits in distances."""
    from rescntk.engines.cpu import gradient_run

    limits = gradient_run.LIMITS["float64"]._replace(doubt=-1.0)
    monkeypatch.setitem(gradient_run.LIMITS, "float64", limits)
    bar = 0.1 * tolerances.GRADIENT["float64"]
    for _, kernel, batch in varied_calls(name, kind, rng):
        found, exact = (kernel.vjp(*batch, engine=engine) for engine in ("numba", "reference"))
        sides = (
            [(found.X, exact.X)] if batch[1] is None else [(found.X, exact.X), (found.Z, exact.Z)]
        )
        for gradients, expected in sides:
            gradients, expected = (
                np.hstack([np.ravel(g) for g in e]) for e in (gradients, expected)
            )
            error = np.abs(gradients - expected).max() / np.abs(expected).max()
            assert error <= bar, (kernel, batch)
        for number in ("alpha", "bias"):
            error = abs(getattr(found, number) - getattr(exact, number))
            assert error <= bar * np.abs(batch[2] * exact.K).sum(), (kernel, number)


def test_refusals(rng):
    X = rng.standard_normal((2, 1, 6))
    masked = np.ma.masked_less(np.ones((2, 2)), 0.0)
    for weights, words in (
        (None, "weights is None"),
        (np.ones(2), r"weights has shape \(2,\), expected \(2, 2\)"),
        (np.ones((3, 2)), r"weights has shape \(3, 2\), expected \(2, 2\)"),
        (np.full((2, 2), np.nan), "weights of shape .* contains NaN"),
        (masked, "weights is a masked array"),
        (np.ones((2, 2), complex), "weights has dtype complex128"),
    ):
        with pytest.raises(ValueError, match=words):
            KERNEL.vjp(X, weights=weights)
    W = np.ones((2, 2))
    with pytest.raises(ValueError, match="activation 'erf', expected 'relu'"):
        KERNEL.replace(activation="erf").vjp(X, weights=W)
    with pytest.raises(ValueError, match="engine='cuda' cannot compute this call: it has no gra"):
        KERNEL.vjp(X, weights=W, engine="cuda")
    with pytest.raises(OverflowError, match="exceeds float64"):
        KERNEL.vjp(X * 1e200, weights=W * 1e200)
    with pytest.raises(OverflowError, match="derivative by alpha, or by bias, exceeds float64"):
        KERNEL.vjp(X * 1e100, weights=W * 1e150)
    with pytest.raises(ValueError, match="fixed_Z is True and Z is None"):
        KERNEL.vjp(X, weights=W, fixed_Z=True)
    with pytest.raises(ValueError, match="fixed_Z is 1, expected True or False"):
        KERNEL.vjp(X, X, W, fixed_Z=1)
