"""Deep erf networks, chaotic where variances are large, against hundreds of digits."""

import functools

import numpy as np
import pytest

import rescntk as rk
from rescntk.validation import HEADS, KINDS
from tests import tolerances
from tests.covering import pairs_meet
from tests.difficult_signals import near
from tests.engine_names import ENGINES, skip_unless_taken
from tests.oracles import definition

pytestmark = pytest.mark.parametrize("engine", ENGINES)

CONSTANTS = {"default": {}, "four": {"c_v": 4.0, "c_w": 4.0}}
LADDER = (6, 50, 200, 500)


def signals(d, number=4):
    """A signal, near copies at 1e-3 and, negated, at 1e-6, and another signal."""
    rng = np.random.default_rng(d)
    x, z = rng.standard_normal((2, 2, d))
    return np.stack([x, near(x, rng), -near(x, rng, 1e-6), z])[:number]


def network(depth, skip, constants):
    return rk.Network(depth, activation="erf", skip=skip, **CONSTANTS[constants])


@functools.cache
def exact(d, depth, skip, constants, number):
    """Return the definition's results, and the largest change by relative changes of 1e-30.

    The layers multiply errors by 10^0.45 at most, so that half a digit a layer is enough.
    """
    X = signals(d, number)
    signs = np.random.default_rng(1).choice([-1, 1], X.shape)
    with definition.mp.workdps(60 + depth // 2):
        moved = X * (1 + signs * definition.mp.mpf("1e-30"))
        return tuple(definition.pixel_pairs(x, network(depth, skip, constants)) for x in (X, moved))


def compared(computed, P, moved, head):
    """Return the largest error of a normalized Gram, and its change per relative change of X.

    An odd activation has terms of both signs, which GAP may cancel altogether: for GAP both
    are shares of the trace head's kernel.
    """
    mp = definition.mp
    H, M = definition.head(P, head), definition.head(moved, head)
    size = definition.head(P, "trace" if head == "gap" else head).diagonal()
    error = change = 0.0
    for (i, k), value in np.ndenumerate(computed):
        yardstick = mp.sqrt(size[i] * size[k])
        wanted = mp.mpf(float(value)) * mp.sqrt(H[i, i] * H[k, k])
        error = max(error, float(abs(wanted - H[i, k]) / yardstick))
        change = max(change, float(abs(M[i, k] - H[i, k]) / yardstick / mp.mpf("1e-30")))
    return error, change


# Layers 6, 50, 200 and 500, as far as the depth goes.
RESOLVED = [
    *((3, 50, skip, constants) for skip in (False, True) for constants in CONSTANTS),
    (1, 200, True, "four"),
    (1, 200, False, "default"),
    (1, 500, True, "default"),
    (1, 500, False, "four"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("d", "depth", "skip", "constants"), RESOLVED)
def test_as_resolved(engine, d, depth, skip, constants):
    net = network(depth, skip, constants)
    skip_unless_taken(engine, net)
    number = 3 if depth == 500 else 4
    X = signals(d, number)
    P, moved = exact(d, depth, skip, constants, number)
    depths = [layer for layer in LADDER if layer <= depth]
    for head in HEADS:
        for normalized in (True, False):
            kinds = KINDS if normalized else ("gpk",)
            grams = rk.gram(
                net, X, head=head, kinds=kinds, depths=depths, normalized=normalized,
                engine=engine,
            )  # fmt: skip
            for index, Ks in enumerate(grams):
                for layer, K in zip(depths, Ks, strict=True):
                    H, M = (table[layer][index] for table in (P, moved))
                    with definition.mp.workdps(60 + depth // 2):
                        if not normalized:
                            own = np.sqrt(definition.head(H, head).diagonal().astype(float))
                            K = K / np.outer(own, own)
                        error, change = compared(K, H, M, head)
                    bar = tolerances.chaotic("float64", layer, change)
                    assert error <= bar, (head, normalized, index, layer, error, bar)


@pytest.mark.parametrize(("head", "constants", "skip"), pairs_meet(HEADS, CONSTANTS, [False, True]))
@pytest.mark.parametrize("depth", [50, 300])
def test_duplicates_and_opposites_stay_exact(engine, head, depth, skip, constants):
    """D = 0 at every layer, whatever the growth of errors: in all digits."""
    net = network(depth, skip, constants)
    skip_unless_taken(engine, net)
    x, z = np.random.default_rng(5).standard_normal((2, 3, 7))
    X = np.stack([x, x.copy(), -x, z])
    for K in rk.gram(net, X, head=head, engine=engine, normalized=True):
        assert K[0, 1] == 1
        assert abs(K[0, 2] + 1) <= 4 * tolerances.EPS["float64"]
        assert abs(K[0, 3] + K[2, 3]) <= 4 * tolerances.EPS["float64"] * depth


@pytest.mark.parametrize("alpha", [1e-9, 0.1, 1e3])
def test_gap_of_zero_mean_signals(engine, alpha):
    """The input's linear part averages to 0: errors are shares of the branches, of order α²."""
    net = rk.Network(3, activation="erf", alpha=alpha)
    skip_unless_taken(engine, net)
    X = np.random.default_rng(2).standard_normal((3, 2, 6))
    X -= X.mean(axis=2, keepdims=True)
    exact = definition.pixel_pairs(X, net)[3]
    entering = np.square(definition._mpf(X)).sum(axis=(1, 2)) / X[0].size  # the trace of F⁰
    for K, P in zip(rk.gram(net, X, head="gap", engine=engine), exact, strict=True):
        branches = definition.head(P, "trace").diagonal() - entering
        error = definition.errors(K, definition.head(P, "gap"), branches)
        assert error <= tolerances.KERNEL["float64"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", HEADS)
def test_refusals(engine, kind, head):
    """A near copy separates at some depths: its kernel there is lost in rounding errors."""
    net = network(50, False, "four")
    skip_unless_taken(engine, net)
    rng = np.random.default_rng(3)
    x = rng.standard_normal((1, 2, 5))
    X = np.concatenate([x, near(x, rng, 1e-12)])
    kernel = rk.Kernel(net, kind, head, normalized=True)
    for refused in (
        kernel,
        functools.partial(kernel.paired, Z=X[::-1]),
        functools.partial(rk.pixel_pairs, net, kind=kind),
    ):
        with pytest.raises(ValueError, match="at depth 50 is not resolved in .* fewer layers"):
            refused(X, engine=engine)
    shallow, deep = (kernel.replace(depth=depth)(X, engine=engine) for depth in (6, 300))
    assert abs(shallow[0, 1] - 1) <= tolerances.KERNEL["float64"]
    assert abs(deep[0, 1]) <= tolerances.KERNEL["float64"]
    assert (kernel.diag(X, engine=engine) == 1).all()
    # Signals that differ, and equal ones, are resolved at any depth.
    far = np.concatenate([x, x, -x, rng.standard_normal((2, 2, 5))])
    assert np.isfinite(kernel(far, engine=engine)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("constants", CONSTANTS)
def test_promise(engine, constants, kind, rng):
    """Whatever the signals' difference, a kernel has half of its digits or is refused."""
    net = network(48, False, constants)
    skip_unless_taken(engine, net)
    refused = 0
    for difference in (1e-3, 1e-6, 1e-8, 1e-10, 1e-13):
        x = rng.standard_normal((1, 2, 1))
        X = np.concatenate([x, near(x, rng, difference)])
        with definition.mp.workdps(80):
            exact = definition.pixel_pairs(X, net)
            for depth in range(4, 49, 4):
                H = exact[depth][KINDS.index(kind)][:, :, 0, 0]
                wanted = float(H[0, 1] / definition.mp.sqrt(H[0, 0] * H[1, 1]))
                kernel = rk.Kernel(net.replace(depth=depth), kind, "trace", normalized=True)
                try:
                    error = abs(kernel(X, engine=engine)[0, 1] - wanted)
                except ValueError:
                    refused += 1
                else:
                    assert error <= tolerances.RESOLVED_ERF, (difference, depth, error)
    assert refused == 0 if constants == "default" else refused > 0


@pytest.mark.parametrize("normalized", [False, True])
def test_tangent_kernels_beyond_float64(engine, normalized, rng):
    net = network(800, False, "four")
    skip_unless_taken(engine, net)
    X = rng.standard_normal((2, 2, 1))
    assert np.isfinite(
        rk.CGPK(800, 1, activation="erf", c_v=4.0, c_w=4.0, normalized=normalized)(X)
    ).all()
    with pytest.raises(OverflowError, match="exceeds float64 at depth 800, expected fewer layers"):
        rk.Kernel(net, "ntk", "trace", normalized)(X, engine=engine)


@pytest.mark.parametrize("kind", KINDS)
def test_cancelled_means_are_refused(engine, kind, rng):
    """Small signals of zero mean: erf is odd, and its terms over pixel pairs cancel."""
    net = rk.Network(2, activation="erf", trained=("inner", "readout"))
    skip_unless_taken(engine, net)
    X = rng.standard_normal((3, 2, 8))
    Z = X - X.mean(axis=2, keepdims=True)
    kernel = rk.Kernel(net, kind, "gap")
    for small in (1e-3 * Z, np.tile([1.0, -1.0], (2, 2, 4))):
        for refused in (
            lambda small=small: kernel(small, engine=engine),
            lambda small=small: kernel(X, small, engine=engine),
            lambda small=small: kernel.diag(small, engine=engine),
            lambda small=small: kernel.paired(X[: len(small)], small, engine=engine),
            lambda small=small: kernel(list(small), list(X), engine=engine),
        ):
            with pytest.raises(ValueError, match=r"expected at least 1e-08.*head='trace'"):
                refused()
    kernel(Z, engine=engine)
    kernel(0 * X, engine=engine)
    kernel.replace(head="trace")(1e-3 * Z, engine=engine)


def test_float32_is_float64_rounded(engine, rng):
    """erf's recursion runs in float64: float32 would lose digits with depth."""
    net = rk.Network(20, activation="erf", skip=False)
    skip_unless_taken(engine, net)
    X = rng.standard_normal((3, 2, 7))
    for head in HEADS:
        wide, narrow = (
            rk.gram(net, X, head=head, engine=engine, dtype=dtype)
            for dtype in ("float64", "float32")
        )
        for one, other in zip(wide, narrow, strict=True):
            assert other.dtype == np.float32
            assert (one.astype(np.float32) == other).all()
