"""Extremes: great depth, numbers near overflow, pixels far apart, weak branches."""

import warnings
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest
import scipy.special

import rescntk as rk
from rescntk.activations import activation_of
from rescntk.theory import multisphere
from rescntk.validation import DTYPES, KINDS
from tests import tolerances
from tests.helpers import ENGINES, HEADS, LINEAR_AT_0, NOT_RELU, rarely, skip_unless_taken, takes
from tests.oracles import definition, quadruple

pytestmark = pytest.mark.parametrize("engine", ENGINES)
X = np.random.default_rng(0).standard_normal((3, 2, 6))


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "dtype"), list(zip([1.0, 0.3], DTYPES, strict=True)))
def test_normalized_at_depth_5000(engine, alpha, dtype, rng):
    X = multisphere.sample(4, 3, 6, rng)
    options = {"head": "trace", "normalized": True, "engine": engine, "dtype": dtype}
    G, T = rk.gram(rk.Network(5000, alpha=alpha), X, **options)
    exact = multisphere.normalized_gpk(
        rk.Network(5000, alpha=alpha), multisphere.dot_products(X)
    ).mean(axis=2)
    # D keeps the error of a sum over 5000 layers, relative to itself; it is about 1e-6 here.
    slack = 5000 * tolerances.EPS[dtype] * (1 - exact).max() + 4 * tolerances.EPS[dtype]
    assert np.abs(G - exact).max() <= slack and np.isfinite(T).all()
    assert (T.diagonal() == 1).all() and (G.diagonal() == 1).all()


@pytest.mark.slow
def test_networks_that_shrink_and_that_explode(engine):
    """c_v = c_w = 0.01 without skips is 5e-5 a layer; α = 1e10 is 1e20 a layer."""
    shrinking = rk.Network(1000, skip=False, c_v=0.01, c_w=0.01)
    for network, dtype in product((shrinking, rk.Network(300, alpha=1e10)), DTYPES):
        for K in rk.gram(network, X, normalized=True, engine=engine, dtype=dtype):
            assert np.isfinite(K).all() and (K.diagonal() == 1).all()


@pytest.mark.slow
def test_unnormalized_and_too_deep(engine):
    X, kernel = np.ones((2, 1, 3)), rk.ResCGPK(1023, head="trace")
    error = kernel(X, engine=engine)[0, 0] / 2.0**1023 - 1
    assert abs(error) <= 1023 * tolerances.EPS["float64"]
    for call in (kernel.replace(depth=1024), kernel.replace(depth=1500).diag):
        with pytest.raises(OverflowError, match=r"exceeds float64 at depth .*normalized=True"):
            call(X, engine=engine)
    with pytest.raises(OverflowError, match="exceeds float32 at depth 200"):
        kernel.replace(depth=200)(X, engine=engine, dtype="float32")
    assert kernel.replace(depth=1500, normalized=True)(X, engine=engine)[0, 1] == 1


@pytest.mark.parametrize("head", HEADS)
def test_signals_of_any_size(engine, head):
    """Normalized kernels do not depend on a factor; other kernels exceed float64, or are right."""
    modest = X * (1.5 / np.abs(X).max())
    huge, sizes = modest * 2.0**1023, np.array([1e-90, 1e-75, 1e75])[:, None, None]
    kernel = rk.ResCNTK(2, head=head)
    normalized = kernel.replace(normalized=True)
    expected = normalized(modest, engine=engine)
    assert (normalized(huge, engine=engine) == expected).all()
    K = normalized(modest * sizes, engine=engine)  # products of kernels may leave float64
    assert (K.diagonal() == 1).all() and np.abs(K - expected).max() <= tolerances.ROUTES
    with pytest.raises(OverflowError):
        kernel(huge, engine=engine)
    weak = kernel.replace(readout_scale=2.0**-1000, input_scale=2.0**-101)  # 2^-1100 · 1/2
    expected = kernel(modest, engine=engine)
    error = np.abs(weak(huge, engine=engine) / 2.0**946 - expected)
    assert error.max() <= 2 * tolerances.KERNEL["float64"] * np.abs(expected).max()


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("activation", LINEAR_AT_0)
def test_tiny_signals_see_a_linear_network(engine, head, skip, activation, rng):
    """K(2^-840 x, z) = 2^-840 K(x, z), up to roundings, where z is tiny or not."""
    parts = ("input", "inner", "readout")
    network = rk.Network(3, activation=activation, skip=skip, trained=parts)
    skip_unless_taken(engine, network)
    gram = partial(rk.gram, network, head=head, engine=engine)
    X, Z = 2.0**-60 * (rng.standard_normal((3, 2, 6)) + 0.5), rng.standard_normal((2, 2, 6)) + 0.3
    roots = [np.sqrt(K.diagonal()) for K in (*gram(X), *gram(Z))]
    pairs = [*zip(gram(X, Z), gram(2.0**-840 * X, Z), roots[:2], roots[2:], strict=True)]
    pairs += zip(gram(X), gram(2.0**-420 * X), roots[:2], roots[:2], strict=True)
    for small, tiny, left, right in pairs:
        bar = tolerances.ROUTES * np.outer(left, right)
        assert (np.abs(np.ldexp(tiny, 840) - small) <= bar).all()
    # Normalized kernels have the size of a product's root, which no float64 product has.
    kernel = rk.Kernel(network, "ntk", head, normalized=True)
    K = kernel(X * 1e-90, engine=engine)
    difference = np.abs(K - kernel(X * 1e-40, engine=engine))
    if head == "gap":  # an odd activation's terms cancel: as shares of the trace head's kernel
        kernel = kernel.replace(normalized=False)
        share = kernel.diag(X * 1e-40) / kernel.replace(head="trace").diag(X * 1e-40)
        difference *= np.sqrt(np.outer(share, share))
    assert (K.diagonal() == 1).all() and difference.max() <= tolerances.ROUTES


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", [1e-100, 1e-300])
def test_pixels_out_of_reach_do_not_count(engine, factor, dtype):
    """The head "equivariant" sees its receptive field alone, however large other pixels are."""
    for network, field in (
        (rk.Network(3, 1), [0]),
        (rk.Network(1, 1, input_filter_size=3), [0, 1, 5]),
        (rk.Network(2, 1, outer_filter_size=3), [0, 1, 2, 4, 5]),
        (rk.Network(2, 3, outer_filter_size=1), [0, 1, 5]),
    ):
        kernel = rk.Kernel(network, "ntk", "equivariant", normalized=True)
        Y = X.copy()
        Y[:, :, field] *= factor
        K, expected = (kernel(signals, engine=engine, dtype=dtype) for signals in (Y, X))
        assert np.abs(K - expected).max() <= 2 * tolerances.KERNEL[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_weak_branches_are_right_or_refused(engine, dtype):
    options, bar = {"engine": engine, "dtype": dtype}, 2 * tolerances.KERNEL[dtype]
    weak = rk.Network(2, 5, c_v=1e-300)
    for head in HEADS:
        for kind in ("gpk", "ntk"):
            kernel = rk.Kernel(weak, kind, head, normalized=True)
            assert (kernel(X, **options) == kernel.replace(alpha=0.0)(X, **options)).all()
        alone = rk.Kernel(weak.replace(trained=("inner", "outer")), "ntk", head, normalized=True)
        says = f"branch gain 5e-301 and trains only inner and outer.*{dtype} does not resolve"
        with pytest.raises(ValueError, match=says):
            alone(X, **options)
        # To first order, the kernel is proportional to c_v.
        small, smaller = (alone.replace(c_v=c_v)(X, **options) for c_v in (1e-24, 1e-25))
        assert np.abs(small - smaller).max() <= bar
    dark = X * (np.arange(X.shape[2]) > 0)  # pixel 1 has the branches alone
    kernel = rk.Kernel(rk.Network(2, c_v=1e-10), "gpk", "equivariant", normalized=True)
    expected = kernel(dark, engine="reference")
    for c_v in (1e-20, 1e-24, *[1e-156] * (dtype == "float64")):
        K = kernel.replace(c_v=c_v)(dark, **options)
        assert np.abs(K - expected).max() <= bar + 1e-10


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", rarely(1e-160, 1e160))
def test_settings_for_floating_point_errors_change_nothing(engine, factor, dtype):
    """``np.errstate(all="raise")`` around a call: underflow inside is an ordinary event."""
    signals = X * factor
    signals[0, :, 2] = 0
    signals[1] *= 1e-100
    networks = [
        rk.Network(2),
        rk.Network(60),
        rk.Network(2, activation="erf"),
        rk.Network(2, activation="gelu"),
    ]
    calls = [partial(rk.pixel_pairs, networks[0])]
    for network, head in product(networks, HEADS):
        kernel = rk.Kernel(network, "ntk", head, normalized=network.depth == 60)
        if takes(engine, network):
            calls += [kernel, kernel.diag, lambda S, k=kernel, **more: k(S, S[:2], **more)]
    for call in calls:
        found = []
        for how in ("ignore", "raise"):
            with np.errstate(all=how):
                try:
                    found.append(call(signals, engine=engine, dtype=dtype))
                except OverflowError:
                    found.append(None)
        assert np.array_equal(*found)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 1e-25), ("float64", 1e-170)])
def test_kernels_below_the_least_number_are_refused(engine, dtype, size):
    """Only signals of zeros have kernels of 0; normalized kernels have no least size."""
    options, signals = {"engine": engine, "dtype": dtype}, size * X
    for call in (rk.ResCNTK(2), rk.ResCGPK(2).diag, partial(rk.pixel_pairs, rk.Network(2))):
        with pytest.raises(OverflowError, match=f"the kernel falls below {dtype} at depth 2: exp"):
            call(signals, **options)
    signals[0] = 0
    normalized = rk.ResCNTK(2, normalized=True)(signals[:2], **options)
    assert normalized[1, 1] == 1 and (normalized[0] == 0).all()
    assert (rk.ResCNTK(2)(0 * signals, **options) == 0).all()


ONE_TINY = np.array([1.0, 1e-24, 1.0])[:, None, None]
BELOW = {
    "signals and input_scale": ({"input_scale": 1e-200}, 1e-250, "float64"),
    "the root of both": ({"input_scale": 1e-268}, 1e-196, "float64"),
    "one signal of float32": ({}, ONE_TINY, "float32"),
    "one signal": ({}, ONE_TINY**7, "float64"),
    "readout_scale": ({"readout_scale": 1e-300}, 1e-30, "float64"),
    "the least readout_scale": ({"readout_scale": 5e-324}, 1.0, "float64"),
    "numbers of few digits": ({"readout_scale": 1e-315}, 1.0, "float64"),
    "a falling network": ({"skip": False, "c_v": 1e-80}, 1e-100, "float64"),
}
"""Fields, a factor on signals, and a precision that has no numbers for their kernels."""


@pytest.mark.parametrize("activation", ["relu", *NOT_RELU])
@pytest.mark.parametrize("name", BELOW)
def test_no_kernel_is_zero_in_silence(engine, name, activation):
    """Kernels that fall below the precision are refused, for all calls and each activation."""
    fields, factor, dtype = BELOW[name]
    network = rk.Network(2, activation=activation, **fields)
    skip_unless_taken(engine, network)
    options, signals = {"engine": engine, "dtype": dtype}, X * factor
    calls = [partial(rk.pixel_pairs, network), partial(rk.pixel_shares, network)]
    for kind, head in product(KINDS, HEADS):
        kernel = rk.Kernel(network, kind, head)
        calls += [kernel, kernel.diag, lambda S, k=kernel, **more: k(S, S[:2], **more)]
    for call in calls:
        with pytest.raises(OverflowError, match="falls? below|below 2.-450"):
            call(signals, **options)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tiny_kernels_of_large_signals_are_taken(engine, dtype):
    """Bumps far apart: K(x, z) is below the precision, √(K(x, x) K(z, z)) is not."""
    places = np.arange(40.0)
    bumps = [np.exp(-((places - middle) ** 2) / 1.6) for middle in (5.0, 33.0)]
    kernel = rk.ResCGPK(1, 1, "trace", alpha=1e-3)
    K = kernel(np.array(bumps)[:, None], engine=engine, dtype=dtype)
    assert 0 <= K[0, 1] < 1e-30 < K[0, 0]


def test_growth_makes_up_for_tiny_signals(engine):
    """2^1900 times 1e-560: sizes of signals below float64 when squared."""
    signals, network = 1e-280 * np.ones((2, 1, 3)), rk.Network(1900, 1)
    K = rk.Kernel(network, "gpk", "trace")(signals, engine=engine)
    exact = Fraction(1e-280) ** 2 * 2**1900
    assert abs(Fraction(float(K[0, 1])) / exact - 1) <= 1900 * tolerances.EPS["float64"]


@pytest.mark.parametrize(
    ("c_v", "bias"), [(1e-2, 1e-15), (1e-6, 1e-11), (1e-10, 1e-13), (1e-14, 1e-14)]
)
def test_biases_of_falling_networks(engine, c_v, bias, rng):
    """Against fractions for one pixel with itself, and 128-bit arithmetic for windows."""
    network = rk.Network(2, 3, skip=False, c_v=c_v, bias=bias)
    x = 0.631
    exact = Fraction(x) ** 2
    for _ in range(network.depth):
        exact = Fraction(c_v) / 2 * (exact + Fraction(bias) ** 2) + Fraction(bias) ** 2
    K = rk.Kernel(network, "gpk", "trace")(np.full((1, 1, 1), x), engine=engine)
    assert abs(Fraction(float(K[0, 0])) / exact - 1) <= tolerances.KERNEL["float64"]
    if isinstance(quadruple.library(), str):
        pytest.skip(quadruple.library())
    network = rk.Network(4, 3, skip=False, c_v=c_v, bias=bias)
    signals = rng.standard_normal((3, 2, 5)) * 10 ** rng.uniform(-3, 3, 5)
    grams = quadruple.Grams(network, signals)
    for head, normalized in product(quadruple.HEADS, (False, True)):
        found = rk.gram(network, signals, head=head, normalized=normalized, engine=engine)
        for kind, K in found._asdict().items():
            assert grams.error(K, kind, head, normalized) <= tolerances.KERNEL["float64"]


def test_biases_far_below_one_signal_and_above_another(engine):
    """Variances fall by 1e18 a layer: no root of a negative number, and no refusal."""
    network = rk.Network(
        3, 1, input_filter_size=3, skip=False, c_v=4.8186104128891026e-18,
        bias=4.180770724234471e-16,
    )  # fmt: skip
    signals = np.array([[[-4.6e-14, -1.1e9]], [[5.4e31, 1.8e15]], [[-3.4e-2, 9.3e-24]]])
    exact = definition.pixel_pairs(signals, network)[network.depth]
    for head, normalized in product(HEADS, (False, True)):
        found = rk.gram(network, signals, head=head, normalized=normalized, engine=engine)
        for K, pairs in zip(found, exact, strict=True):
            truth = definition.head(pairs, head)
            if normalized:
                own = np.sqrt(truth.diagonal().astype(float))
                K = K * own[:, None] * own
            assert definition.errors(K, truth, truth.diagonal()) <= tolerances.KERNEL["float64"]


@pytest.mark.parametrize("normalized", [False, True])
def test_signals_too_large_for_erf_are_refused(engine, normalized):
    """Its kernels tend to a limit, and then would leave the range of squared variances."""
    kernel = rk.CGPK(3, head="trace", activation="erf", normalized=normalized)
    skip_unless_taken(engine, kernel.network)
    for dtype in DTYPES:  # float32 has rounded results of float64
        limit, K = (kernel(X * scale, engine=engine, dtype=dtype) for scale in (1e4, 1e70))
        assert np.abs(K - limit).max() <= 1e-3
        for scale in (1e78, 1e200):
            with pytest.raises(OverflowError, match="signals are too large"):
                kernel(X * scale, engine=engine, dtype=dtype)


def far_away(distance, rng):
    """Return two signals whose energy is `distance` pixels away from pixel 1."""
    X = np.zeros((2, 2, 2 * distance + 3))
    X[:, :, distance : distance + 3] = rng.standard_normal((2, 2, 3))
    return X


def beside_biases(size, rng):
    X = rng.standard_normal((2, 2, 4))
    X[1] *= size
    return X


FALLING = {"depth": 60, "skip": False, "c_v": 0.5}
INPUT = {"depth": 3, "bias": 1.0, "trained": ("input",)}
OUT_OF_RANGE = [
    ({"depth": 20, "alpha": 1.0}, (far_away, 37), "equivariant", ("float64", "float32")),
    ({"depth": 25, "alpha": 0.1}, (far_away, 47), "equivariant", ("float64",)),
    ({"depth": 16, "alpha": 1e-3}, (far_away, 25), "equivariant", ("float64",)),
    ({"depth": 8, "alpha": 1e-9}, (far_away, 9), "equivariant", ("float64",)),
    ({"depth": 24, "alpha": 1e-9}, (far_away, 45), "equivariant", ()),
    ({"depth": 8, "alpha": 1e-200}, (far_away, 9), "equivariant", ()),
    (FALLING | {"bias": 1e-10}, (beside_biases, 1.0), "trace", ("float64", "float32")),
    (FALLING | {"bias": 1e-25}, (beside_biases, 1.0), "trace", ("float64",)),
    (FALLING | {"bias": 1e-150, "depth": 999}, (beside_biases, 1.0), "trace", ()),
    (INPUT, (beside_biases, 1e-12), "gap", ("float64", "float32")),
    (INPUT, (beside_biases, 1e-22), "gap", ("float64",)),
    (INPUT, (beside_biases, 1e-160), "gap", ()),
]
"""Fields, signals, heads, and the precisions whose numbers have room for the kernels."""


@pytest.mark.parametrize(("fields", "signals", "head", "precisions"), OUT_OF_RANGE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_right_or_out_of_range(engine, fields, signals, head, precisions, dtype, rng):
    """Against 128-bit arithmetic. What a precision has no numbers for is never 0 in silence."""
    if isinstance(quadruple.library(), str):
        pytest.skip(quadruple.library())
    make, size = signals
    X, network = make(size, rng), rk.Network(**fields)

    def gram():
        return rk.gram(network, X, head=head, normalized=True, engine=engine, dtype=dtype)

    if dtype not in precisions:
        with pytest.raises(OverflowError, match=f"a share of .* expected at least .* in {dtype}"):
            gram()
        return
    exact = quadruple.Grams(network, X)
    for kind, K in gram()._asdict().items():
        if head != "gap" or exact.share_left(kind) > 0.2:
            assert exact.error(K, kind, head) <= tolerances.KERNEL[dtype]


def test_an_input_filter_reaches_pixel_1_without_branches(engine, rng):
    """Its windows are there at any α."""
    X = far_away(2, rng)
    K = rk.Kernel(rk.Network(2, alpha=0, input_filter_size=5), "gpk", "equivariant")(
        X, engine=engine
    )
    x, z = (s.reshape(2, -1)[:, 2] for s in X)
    assert abs(K[0, 1] - x @ z / 10) <= 4 * tolerances.EPS["float64"] * np.abs(x * z).sum()


@pytest.mark.parametrize("bias", [1e200, 1e-200])
def test_biases_of_any_size(engine, bias, rng):
    """Against 128-bit arithmetic."""
    if isinstance(quadruple.library(), str):
        pytest.skip(quadruple.library())
    X, network = rng.standard_normal((2, 2, 5)), rk.Network(3, bias=bias)
    exact = quadruple.Grams(network, X)
    for kind, K in rk.gram(network, X, normalized=True, engine=engine)._asdict().items():
        assert exact.error(K, kind, "gap") <= tolerances.KERNEL["float64"]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("skip", [True, False])
def test_gelu_of_huge_signals_is_relu(engine, head, skip, rng):
    """To relative errors of the inverse of a pre-activation: parallel, opposite and zero pixels."""
    network = rk.Network(4, 3, activation="gelu", skip=skip)
    skip_unless_taken(engine, network)
    x = 1e100 * rng.standard_normal((2, 6))
    x[:, 3:5] = 0.0
    X = np.stack([x, -x, 3.0 * x, x * (1 + 1e-9), 1e100 * rng.standard_normal((2, 6))])
    relu = rk.gram(network.replace(activation="relu"), X, head=head, engine=engine)
    for K, expected in zip(rk.gram(network, X, head=head, engine=engine), relu, strict=True):
        own = np.sqrt(expected.diagonal())
        assert (np.abs(K - expected) / own / own[:, None]).max() <= tolerances.ROUTES


@pytest.mark.parametrize("activation", NOT_RELU)
@pytest.mark.parametrize(
    ("network", "factor", "options", "says"),
    [
        (rk.Network(1000, 1), 1e-160, {}, "signals have roots of variances below 2.-450"),
        (rk.Network(2, bias=0.1, trained="input"), 1e-170, {}, "signals have roots of variances"),
        (rk.Network(2), 1e-25, {"dtype": "float32"}, "the kernel falls below float32"),
        (rk.Network(2), 1e-170, {}, "the kernel falls below float64"),
        (rk.Network(2, c_v=1e300), 1e150, {}, "variances of layer . (exceed|reach)|too large for"),
    ],
)
def test_sizes_beyond_float64_are_refused(engine, activation, network, factor, options, says):
    """Sizes count where activations are not homogeneous."""
    network = network.replace(activation=activation)
    skip_unless_taken(engine, network)
    with pytest.raises(OverflowError, match=says):
        rk.gram(network, factor * X, head="trace", engine=engine, **options)


@pytest.mark.parametrize("activation", LINEAR_AT_0)
@pytest.mark.parametrize(
    ("fields", "factor", "same"),
    [
        ({"input_scale": 1e100}, 1e-50, {"input_scale": 1.0}),
        ({"input_scale": 1e-290}, 1.0, {"input_scale": 1e-200}),
        ({"bias": 1e-200}, 1e-200, {"bias": 1.0, "negative_slope": 1.0, "c_v": 1.0}),
    ],
)
def test_sizes_of_pre_activations_count(engine, activation, fields, factor, same):
    """Not the sizes of signals. Tiny signals with tiny biases see a linear network."""
    network = rk.Network(3, activation=activation, **fields)
    skip_unless_taken(engine, network)
    if "negative_slope" in same:
        at_0 = activation_of(network).function(np, scipy.special, 1e-20) / 1e-20
        same = rk.Network(3, **same).replace(c_v=2.0 * at_0**2)
    else:
        same = network.replace(**same)
    X = np.random.default_rng(0).standard_normal((3, 2, 6))
    found = rk.gram(network, factor * X, normalized=True, head="trace", engine=engine)
    expected = rk.gram(same, X, normalized=True, head="trace", engine=engine)
    assert np.abs(np.array(found) - np.array(expected)).max() <= tolerances.ROUTES


@pytest.mark.parametrize("head", HEADS)
def test_weights_and_signals_of_inverse_sizes(engine, head):
    """c_w makes up for tiny signals: no head looks at signals of size 1 instead."""
    network = rk.Network(2, activation="erf", c_w=1e160, c_v=1e-160)
    skip_unless_taken(engine, network)
    found = rk.gram(network, 1e-80 * X, normalized=True, head=head, engine=engine)
    same = network.replace(c_w=1.0, c_v=1.0)
    # The features of the skip connection have the size of the signals, and the branch has too.
    expected = rk.gram(same, X, normalized=True, head=head, engine=engine)
    assert np.abs(np.array(found) - np.array(expected)).max() <= tolerances.ROUTES


def test_the_largest_signals_are_refused_in_one_sentence(engine):
    network = rk.Network(2, activation="erf")
    skip_unless_taken(engine, network)
    with pytest.raises(OverflowError, match="^the signals are too large for float64 and activ"):
        rk.gram(network, np.full((1, 1, 4), 1.7e308), normalized=True, engine=engine)


@pytest.mark.parametrize("activation", NOT_RELU)
def test_pixels_far_below_their_signal_are_refused(engine, activation, rng):
    network = rk.Network(2, 1, activation=activation)
    skip_unless_taken(engine, network)
    X = rng.standard_normal((2, 2, 4))
    X[:, :, 0] *= 1e-150
    with pytest.raises(OverflowError, match="pixel 1 has roots of variances below"):
        rk.gram(network, X, head="equivariant", engine=engine)


def test_erf_networks_that_fall_below_float64_are_refused(engine, rng):
    network = rk.Network(50, skip=False, activation="erf", c_v=1e-7)
    skip_unless_taken(engine, network)
    with pytest.raises(OverflowError, match="variances of layer 50 fall below 1e-153, expected a"):
        rk.gram(network, rng.standard_normal((2, 1, 4)), normalized=True, engine=engine)


def test_subnormal_signals_do_not_warn(engine, rng):
    X = rng.standard_normal((4, 2, 12)) * 1e-310
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        K = rk.ResCNTK(2, normalized=True)(X, engine=engine)
    assert np.isfinite(K).all()
