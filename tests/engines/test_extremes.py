"""Extremes that engines take: great depth, signals and biases of any size, weak branches."""

import warnings
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest
import scipy.special

import rescntk as rk
from rescntk.checks.values import DTYPES
from rescntk.network.activations import activation_of
from rescntk.theory import multisphere
from tests import tolerances
from tests.helpers import ENGINES, HEADS, LINEAR_AT_0, rarely, skip_unless_supported, supports
from tests.oracles import definition, quadruple

pytestmark = pytest.mark.parametrize("engine", ENGINES)

X = np.random.default_rng(0).standard_normal((3, 2, 6))


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "dtype"), list(zip([1.0, 0.3], DTYPES, strict=True)))
def test_normalized_kernels_keep_their_digits_at_depth_5000(engine, alpha, dtype, rng):
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
def test_networks_that_shrink_or_explode_have_finite_normalized_kernels(engine):
    """A layer multiplies variances by 5e-5, or by 1e20."""
    shrinking = rk.Network(1000, skip=False, c_v=0.01, c_w=0.01)
    networks = shrinking, shrinking.replace(trained=("input",)), rk.Network(300, alpha=1e10)
    for network, dtype in product(networks, DTYPES):
        for K in rk.gram(network, X, normalized=True, engine=engine, dtype=dtype):
            assert np.isfinite(K).all() and (K.diagonal() == 1).all()


ONES, DOUBLING = np.ones((2, 1, 3)), rk.ResCGPK(1023, head="trace")
"""Signals and a kernel whose value is 2^depth; 2^1024 exceeds float64."""


@pytest.mark.slow
def test_the_deepest_kernel_within_float64_is_computed(engine):
    error = DOUBLING(ONES, engine=engine)[0, 0] / 2.0**1023 - 1
    assert abs(error) <= 1023 * tolerances.EPS["float64"]


@pytest.mark.slow
def test_deeper_kernels_are_refused(engine):
    for call in (DOUBLING.replace(depth=1024), DOUBLING.replace(depth=1500).diag):
        with pytest.raises(OverflowError, match=r"exceeds float64 at depth .*normalized=True"):
            call(ONES, engine=engine)
    with pytest.raises(OverflowError, match="exceeds float64 at depth 1500"):  # also if not last
        rk.gram(DOUBLING.network, ONES, head="trace", depths=(1500, 2), engine=engine)
    with pytest.raises(OverflowError, match="exceeds float32 at depth 200"):
        DOUBLING.replace(depth=200)(ONES, engine=engine, dtype="float32")


@pytest.mark.slow
def test_normalized_kernels_have_any_depth(engine):
    assert DOUBLING.replace(depth=1500, normalized=True)(ONES, engine=engine)[0, 1] == 1


MODEST = X * (1.5 / np.abs(X).max())
HUGE = MODEST * 2.0**1023


@pytest.mark.parametrize("head", HEADS)
def test_normalized_kernels_of_signals_of_any_size(engine, head):
    """A factor changes rounding alone, also where products of kernels leave float64."""
    normalized = rk.ResCNTK(2, head=head, normalized=True)
    expected = normalized(MODEST, engine=engine)
    assert (normalized(HUGE, engine=engine) == expected).all()
    sizes = np.array([1e-90, 1e-75, 1e75])[:, None, None]
    K = normalized(MODEST * sizes, engine=engine)
    assert (K.diagonal() == 1).all() and np.abs(K - expected).max() <= tolerances.ROUTES


@pytest.mark.parametrize("head", HEADS)
def test_kernels_of_huge_signals_are_right_or_refused(engine, head):
    kernel = rk.ResCNTK(2, head=head)
    with pytest.raises(OverflowError):
        kernel(HUGE, engine=engine)
    weak = kernel.replace(readout_scale=2.0**-1000, input_scale=2.0**-101)  # 2^-1100 · 1/2
    expected = kernel(MODEST, engine=engine)
    error = np.abs(weak(HUGE, engine=engine) / 2.0**946 - expected)
    assert error.max() <= 2 * tolerances.KERNEL["float64"] * np.abs(expected).max()


@pytest.fixture(params=product(LINEAR_AT_0, (True, False)), ids=str)
def linear_at_0(request, engine):
    """Return a network that is linear to first order, with skips and without."""
    activation, skip = request.param
    trained = ("input", "inner", "readout")
    network = rk.Network(3, activation=activation, skip=skip, trained=trained)
    skip_unless_supported(engine, network)
    return network


SMALL = 2.0**-60 * (np.random.default_rng(1).standard_normal((3, 2, 6)) + 0.5)
"""Signals that a network sees to first order; smaller ones see no other network."""


@pytest.mark.parametrize("head", ["gap", "trace", 4])
def test_signals_below_normal_numbers_are_seen_as_larger_ones(engine, head, linear_at_0):
    """Signals are whole numbers times 2^-1060, for which the network is linear. Kernels are bitwise
    equal."""
    whole = np.round(4 * np.random.default_rng(1).standard_normal((3, 2, 6))) + 0.0
    K, expected = (
        rk.gram(linear_at_0, 2.0**power * whole, head=head, normalized=True, engine=engine).ntk
        for power in (-1060, -500)
    )
    assert 0 < np.abs(expected[0, 1]) < 1 and np.abs(K - expected).max() <= tolerances.ROUTES


@pytest.mark.parametrize("head", HEADS)
def test_kernels_of_tiny_signals_are_bilinear(engine, head, linear_at_0, rng):
    """K(2^-840 x, z) = 2^-840 K(x, z) = K(2^-420 x, 2^-420 z), up to roundings."""
    gram, Z = (
        partial(rk.gram, linear_at_0, head=head, engine=engine),
        rng.standard_normal((2, 2, 6)),
    )
    Z += 0.3
    roots = [np.sqrt(K.diagonal()) for K in (*gram(SMALL), *gram(Z))]
    pairs = [*zip(gram(SMALL, Z), gram(2.0**-840 * SMALL, Z), roots[:2], roots[2:], strict=True)]
    pairs += zip(gram(SMALL), gram(2.0**-420 * SMALL), roots[:2], roots[:2], strict=True)
    for small, tiny, left, right in pairs:
        bar = tolerances.ROUTES * np.outer(left, right)
        assert (np.abs(np.ldexp(tiny, 840) - small) <= bar).all()


def difference_of_tiny_signals(engine, head, network):
    """Return by how much normalized NTKs differ where float64 has products of kernels, and not."""
    kernel = rk.Kernel(network, "ntk", head, normalized=True)
    return np.abs(kernel(SMALL * 1e-90, engine=engine) - kernel(SMALL * 1e-40, engine=engine))


@pytest.mark.parametrize("head", [head for head in HEADS if head != "gap"])
def test_normalized_kernels_of_tiny_signals_do_not_depend_on_size(engine, head, linear_at_0):
    assert difference_of_tiny_signals(engine, head, linear_at_0).max() <= tolerances.ROUTES


def test_normalized_gap_of_tiny_signals_does_not_depend_on_size(engine, linear_at_0):
    """An odd activation's terms cancel: relative to the trace head's kernel."""
    kernel = rk.Kernel(linear_at_0, "ntk", "gap")
    ratio = kernel.diag(SMALL * 1e-40) / kernel.replace(head="trace").diag(SMALL * 1e-40)
    difference = difference_of_tiny_signals(engine, "gap", linear_at_0)
    assert (difference * np.sqrt(np.outer(ratio, ratio))).max() <= tolerances.ROUTES


@pytest.mark.parametrize("head", HEADS)
def test_normalized_kernels_of_tiny_signals_are_one_on_the_diagonal(engine, head, linear_at_0):
    """Here the product of K(x, x) and K(z, z) is below float64."""
    kernel = rk.Kernel(linear_at_0, "ntk", head, normalized=True)
    assert (kernel(SMALL * 1e-90, engine=engine).diagonal() == 1).all()


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


WEAK = rk.Network(2, 5, c_v=1e-300)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head", HEADS)
def test_branches_too_weak_to_resolve_count_as_none(engine, head, dtype):
    for kind in ("gpk", "ntk"):
        kernel = rk.Kernel(WEAK, kind, head, normalized=True)
        kernels = (k(X, engine=engine, dtype=dtype) for k in (kernel, kernel.replace(alpha=0.0)))
        assert np.array_equal(*kernels)


def kernel_of_branches(head):
    """Return the NTK of `WEAK` where the branches' weights alone are trained."""
    return rk.Kernel(WEAK.replace(trained=("inner", "outer")), "ntk", head, normalized=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head", HEADS)
def test_training_branches_too_weak_to_resolve_is_refused(engine, head, dtype):
    says = f"branch gain 5e-301 and trains only inner and outer.*{dtype} does not resolve"
    with pytest.raises(ValueError, match=says):
        kernel_of_branches(head)(X, engine=engine, dtype=dtype)


UNRESOLVED = {
    "weak branches": WEAK.replace(trained=("inner", "outer")),
    "falling layers": rk.Network(200, 3, skip=False, c_v=1e-3, bias=0.1, trained=("input",)),
}
"""Networks whose tangent kernel is refused."""


@pytest.mark.parametrize("network", UNRESOLVED.values(), ids=UNRESOLVED)
def test_gaussian_process_kernels_do_not_ask_what_is_trained(engine, network):
    with pytest.raises(ValueError, match="does not resolve"):
        rk.gram(network, X, engine=engine)
    every = network.replace(trained=("input", "inner", "outer", "readout"))
    K, expected = (rk.gram(each, X, kinds="gpk", engine=engine).gpk for each in (network, every))
    assert np.array_equal(K, expected)


def test_training_branches_of_weight_0_has_the_tangent_kernel_0(engine):
    network = WEAK.replace(c_v=2.0, alpha=0.0, trained=("inner", "outer"))
    assert not np.any(rk.gram(network, X, engine=engine).ntk)


def test_one_branch_too_weak_to_resolve_counts_as_none(engine):
    """Only weights of branches are trained, and the other branch is strong."""
    kernels = (
        rk.gram(rk.Network(2, alpha=(1.0, weak), trained=("inner",)), X, engine=engine).ntk
        for weak in (1e-160, 0.0)
    )
    assert np.array_equal(*kernels)


@pytest.mark.parametrize(
    ("depth", "fields"),
    [
        pytest.param(40, {"c_v": (1.0, 0.9) * 20}, id="many layers"),
        pytest.param(4, {"c_v": (1e-90, 1e-80) * 2, "norm": True}, id="normalized"),
    ],
)
def test_falling_layers_beside_biases_are_right_or_refused(engine, depth, fields, rng):
    """Only the input is trained, so that the tangent kernel falls by the growths of all layers."""
    if isinstance(quadruple.library(), str):
        pytest.skip(quadruple.library())
    network = rk.Network(depth, 3, skip=False, bias=0.1, trained=("input",), **fields)
    signals = rng.standard_normal((2, 2, 4))
    options = {"head": "trace", "kinds": "ntk", "normalized": True, "engine": engine}
    try:
        (K,) = rk.gram(network, signals, **options)
    except (OverflowError, ValueError):
        assert network.norm
        return
    error = quadruple.Grams(network, signals).error(K, "ntk", "trace")
    assert error <= tolerances.KERNEL["float64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head", HEADS)
def test_tangent_kernels_of_weak_branches_are_proportional_to_their_gain(engine, head, dtype):
    """To first order, the normalized kernels therefore do not depend on c_v."""
    small, smaller = (
        kernel_of_branches(head).replace(c_v=c_v)(X, engine=engine, dtype=dtype)
        for c_v in (1e-24, 1e-25)
    )
    assert np.abs(small - smaller).max() <= 2 * tolerances.KERNEL[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_pixels_that_only_weak_branches_reach_keep_their_digits(engine, dtype):
    """To first order in c_v, normalized kernels do not depend on it."""
    dark = X * (np.arange(X.shape[2]) > 0)  # pixel 1 has the branches alone
    second_order = 1e-10  # in c_v, of the expected kernel
    kernel = rk.Kernel(rk.Network(2, c_v=second_order), "gpk", "equivariant", normalized=True)
    expected = kernel(dark, engine="array")
    for c_v in (1e-20, 1e-24, *[1e-156] * (dtype == "float64")):
        K = kernel.replace(c_v=c_v)(dark, engine=engine, dtype=dtype)
        assert np.abs(K - expected).max() <= 2 * tolerances.KERNEL[dtype] + second_order


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
        if supports(engine, network):
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


def test_growth_makes_up_for_tiny_signals(engine):
    """The kernel is 2^1900 times 1e-600. The squares of the sizes of signals are below float64."""
    signals, network = 1e-300 * np.ones((2, 1, 3)), rk.Network(1900, 1)
    K = rk.Kernel(network, "gpk", "trace")(signals, engine=engine)
    exact = Fraction(1e-300) ** 2 * 2**1900
    assert abs(Fraction(float(K[0, 1])) / exact - 1) <= 1900 * tolerances.EPS["float64"]


def test_growth_does_not_make_up_for_sizes_that_lack_digits(engine):
    """The root of input_scale makes sizes subnormal, of either side."""
    kernel = rk.Kernel(rk.Network(1900, 1, input_scale=1e-20), "gpk", "trace")
    small, large = 1e-300 * np.ones((2, 1, 3)), 1e-200 * np.ones((1, 1, 3))
    for signals in ((small,), (large, small)):
        with pytest.raises(OverflowError, match="the kernel falls below float64"):
            kernel(*signals, engine=engine)


falling = pytest.mark.parametrize(
    ("c_v", "bias"), [(1e-2, 1e-15), (1e-6, 1e-11), (1e-10, 1e-13), (1e-14, 1e-14)]
)


@falling
def test_biases_of_falling_networks_are_exact_at_one_pixel(engine, c_v, bias):
    """The kernel of a pixel with itself is compared with a fraction."""
    network = rk.Network(2, 3, skip=False, c_v=c_v, bias=bias)
    x = 0.631
    exact = Fraction(x) ** 2
    for _ in range(network.depth):
        exact = Fraction(c_v) / 2 * (exact + Fraction(bias) ** 2) + Fraction(bias) ** 2
    K = rk.Kernel(network, "gpk", "trace")(np.full((1, 1, 1), x), engine=engine)
    assert abs(Fraction(float(K[0, 0])) / exact - 1) <= tolerances.KERNEL["float64"]


@falling
def test_biases_of_falling_networks_are_exact_with_filters(engine, c_v, bias, rng):
    """Kernels are compared with those in 128-bit arithmetic."""
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
    """Variances fall by 1e18 in each layer. No root of a negative number is taken."""
    network = rk.Network(
        3,
        1,
        input_filter_size=3,
        skip=False,
        c_v=4.8186104128891026e-18,
        bias=4.180770724234471e-16,
    )
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


def test_rounding_errors_of_biases_do_not_add_up_over_layers(engine, rng):
    """All sums of variances and biases are rounded alike. The exact kernels have 128 bits."""
    if isinstance(quadruple.library(), str):
        pytest.skip(quadruple.library())
    network, X = rk.Network(2000, 3, skip=False, bias=0.3), rng.standard_normal((2, 2, 2))
    (K,) = rk.gram(network, X, head="trace", kinds=("gpk",), engine=engine)
    error = quadruple.Grams(network, X).error(K, "gpk", "trace", normalized=False)
    assert error <= tolerances.KERNEL["float64"]


OF_ANY_SIZE = {
    "large": {"bias": 1e200},
    "small": {"bias": 1e-200},
    "large beside normalized features": {"bias": 1e30, "norm": True, "skip": (False, True, True)},
    "small beside normalized features": {"bias": 1e-30, "norm": True, "skip": (False, True, True)},
}
"""Biases beside signals of size 1, some of which leave float32."""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_ANY_SIZE)
def test_kernels_beside_biases_of_any_size_are_exact(engine, name, dtype, rng):
    """Kernels are compared with those in 128-bit arithmetic."""
    if isinstance(quadruple.library(), str):
        pytest.skip(quadruple.library())
    X, network = rng.standard_normal((2, 2, 5)), rk.Network(3, **OF_ANY_SIZE[name])
    exact = quadruple.Grams(network, X)
    found = rk.gram(network, X, normalized=True, engine=engine, dtype=dtype)
    for kind, K in found._asdict().items():
        assert exact.error(K, kind, "gap") <= tolerances.KERNEL[dtype]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("skip", [True, False])
def test_gelu_of_huge_signals_is_relu(engine, head, skip, rng):
    """The relative error is the inverse of a pre-activation, also at parallel pixels."""
    network = rk.Network(4, 3, activation="gelu", skip=skip)
    skip_unless_supported(engine, network)
    x = 1e100 * rng.standard_normal((2, 6))
    x[:, 3:5] = 0.0
    X = np.stack([x, -x, 3.0 * x, x * (1 + 1e-9), 1e100 * rng.standard_normal((2, 6))])
    relu = rk.gram(network.replace(activation="relu"), X, head=head, engine=engine)
    for K, expected in zip(rk.gram(network, X, head=head, engine=engine), relu, strict=True):
        own = np.sqrt(expected.diagonal())
        assert (np.abs(K - expected) / own / own[:, None]).max() <= tolerances.ROUTES


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
    """The sizes of signals do not count. For tiny signals and biases the network is linear."""
    network = rk.Network(3, activation=activation, **fields)
    skip_unless_supported(engine, network)
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
    skip_unless_supported(engine, network)
    found = rk.gram(network, 1e-80 * X, normalized=True, head=head, engine=engine)
    same = network.replace(c_w=1.0, c_v=1.0)
    # The features of the skip connection have the size of the signals, and the branch has too.
    expected = rk.gram(same, X, normalized=True, head=head, engine=engine)
    assert np.abs(np.array(found) - np.array(expected)).max() <= tolerances.ROUTES


def test_kernels_that_cancel_do_not_warn(engine, rng):
    """With "gap" and an odd activation, even K(x, x) is a rounding error of either sign."""
    kernel = rk.Kernel(rk.Network(2, 1, skip=False, activation="erf"), "ntk", "gap")
    skip_unless_supported(engine, kernel.network)
    x = rng.standard_normal((40, 1, 3))
    K = kernel(np.concatenate([x, -x], axis=2), engine=engine)
    negative = K.diagonal() < 0
    assert np.abs(K).max() <= tolerances.EPS["float64"] and negative.any()
    normalized = kernel.replace(normalized=True)(np.concatenate([x, -x], axis=2), engine=engine)
    assert (normalized[negative] == 0).all() and (normalized[:, negative] == 0).all()


def test_subnormal_signals_do_not_warn(engine, rng):
    X = rng.standard_normal((4, 2, 12)) * 1e-310
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        K = rk.ResCNTK(2, normalized=True)(X, engine=engine)
    assert np.isfinite(K).all()
