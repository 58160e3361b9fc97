"""Layers with constants of their own, and normalized features, on every engine."""

import numpy as np
import pytest

import rescntk as rk
from rescntk.checks.values import DTYPES
from rescntk.engines.layer.operations import Operations
from rescntk.engines.signals import checks
from tests import tolerances
from tests.helpers import ENGINES, HEADS
from tests.oracles import definition
from tests.tolerances import CONSTANT

engines = pytest.mark.parametrize("engine", ENGINES)
X = np.random.default_rng(0).standard_normal((3, 2, 4))
X[1, :, 2] = 0.0  # a pixel without features
NORM = rk.Network(3, 3, alpha=0.7, norm=True)
FORGETS = NORM.replace(skip=(False, True, True), bias=(0.0, 0.3, 0.0))


def error(network, X, head, engine, dtype):
    """Return the largest error of normalized kernels of both kinds, beside 40 digits."""
    kernels = rk.gram(network, X, head=head, engine=engine, dtype=dtype, normalized=True)
    errors = []
    for K, pairs in zip(kernels, definition.pixel_pairs(X, network)[network.depth], strict=True):
        exact = definition.head(pairs, head)
        root = np.array([definition.mp.sqrt(value) for value in exact.diagonal()])
        errors.append(np.abs(K - (exact / np.outer(root, root)).astype(float)).max())
    return max(errors)


@engines
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1e-13, 1e-3, 1.0, 1e6, 1e13])
@pytest.mark.parametrize("network", [NORM, FORGETS], ids=["residual", "ordinary layer first"])
def test_normalized_features_of_signals_of_any_size_are_exact(network, size, dtype, engine):
    for head in HEADS:
        assert error(network, size * X, head, engine, dtype) <= tolerances.KERNEL[dtype]


@engines
def test_a_pixel_that_is_not_zero_is_normalized_however_small(engine):
    """sin π is 1.2e-16 in float64: beside pixels of size 1 it is a pixel, not 0."""
    nearly = X.copy()
    nearly[1, :, 2] = 1.2e-16, -2e-16
    for dtype in DTYPES:
        assert error(NORM, nearly, "trace", engine, dtype) <= tolerances.KERNEL[dtype]
    with_zero, without = (rk.gram(NORM, S, head="trace", engine=engine).gpk for S in (X, nearly))
    assert abs(with_zero - without)[1, 1] > 0.01


@engines
@pytest.mark.parametrize(("dtype", "size"), [("float32", 1e-15), ("float64", 1e-130)])
def test_the_smallest_pixels_that_are_taken_keep_their_digits(engine, dtype, size):
    small = X.copy()
    small[:, :, 2] = size * X[:, :, 0]
    for head in HEADS:
        assert error(NORM, small, head, engine, dtype) <= tolerances.KERNEL[dtype]
    beside_biases = NORM.replace(bias=0.3, trained=("input",))
    assert error(beside_biases, size * X, "trace", engine, dtype) <= tolerances.KERNEL[dtype]


@engines
def test_pixels_without_digits_are_refused(engine):
    tiny = X.copy()
    tiny[1, :, 2] = 1e-17
    with pytest.raises(OverflowError, match=r"a pixel, .* share of .*e-35 .* dtype='float64' or"):
        rk.gram(NORM, tiny, engine=engine, dtype="float32")
    tiny[1, :, 2] = 1e-170
    with pytest.raises(OverflowError, match="a pixel, whose features are normalized, has a share"):
        rk.gram(NORM, tiny, engine=engine)


INNER = NORM.replace(trained="inner")
"""Its tangent kernel consists of branches alone, which do not depend on the size of signals."""

WITHOUT_MEANS = np.array([[[1.0, -1.0, 2.0, -2.0, 3.0, -3.0]]])


@engines
@pytest.mark.parametrize(("dtype", "exponent"), [("float32", 50), ("float64", 440)])
def test_large_signals_leave_branches_of_normalized_features_their_digits(dtype, exponent, engine):
    """From 2^48 on, kernels differ from their limit by less than rounding errors."""
    kernel = rk.Kernel(INNER, "ntk", "trace")
    sizes = 2.0**48, 2.0**exponent
    K, same = (kernel(size * X, engine=engine, dtype=dtype) for size in sizes)
    assert np.abs(K - same).max() <= tolerances.KERNEL[dtype] * same.max()


@engines
@pytest.mark.parametrize(("dtype", "bias"), [("float32", 5e3), ("float64", 1e33)])
def test_the_input_keeps_its_digits_beside_large_biases(dtype, bias, engine):
    """Each layer divides what the input has in its features by the variance of biases."""
    network = NORM.replace(trained="input", skip=False, bias=bias)
    assert error(network, X, "trace", engine, dtype) <= tolerances.KERNEL[dtype]


BRANCHES_WITHOUT_DIGITS = {
    "tangent kernels of branches": ("trace", "ntk", INNER, X),
    "a pixel that is 0": ("equivariant", "gpk", NORM, X[:, :, [2, 0, 1, 3]]),
    "means that are 0": ("gap", "gpk", NORM, WITHOUT_MEANS),
    "tangent kernels of the input beside biases": (
        "trace",
        "ntk",
        NORM.replace(trained="input", skip=False, bias=1e95),
        X,
    ),
    "small α": ("trace", "ntk", INNER.replace(alpha=1e-3), X),
}


@engines
@pytest.mark.parametrize(("dtype", "exponent"), [("float32", 58), ("float64", 470)])
@pytest.mark.parametrize("name", BRANCHES_WITHOUT_DIGITS)
def test_branches_too_small_beside_large_signals_are_refused(name, dtype, exponent, engine):
    """They are all that the kernel consists of."""
    head, kind, network, signals = BRANCHES_WITHOUT_DIGITS[name]
    with pytest.raises(OverflowError, match="branches of normalized features have a share of"):
        rk.Kernel(network, kind, head)(2.0**exponent * signals, engine=engine, dtype=dtype)


@engines
@pytest.mark.parametrize("dtype", DTYPES)
def test_nearly_equal_pixels_keep_their_slopes_in_the_largest_signals_that_are_taken(dtype, engine):
    """Their deficits are near the smallest subnormal number, or are rounded to 0."""
    network = rk.Network(1, 1, norm=True, trained="inner", input_scale=1.0)
    angles = np.geomspace(1e-7, 1e-4, 60)
    signals = np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, :, None]
    size = 0.999 / (checks._STD_MARGIN * checks.least_std(dtype))
    x = np.array([[[1.0], [0.0]]])
    kernel = rk.Kernel(network, "ntk", "trace", normalized=True)
    K = kernel(size * x, size * signals, engine=engine, dtype=dtype)
    exact = (1.0 - angles / np.pi) * np.cos(angles)
    assert np.abs(K[0] - exact).max() <= tolerances.KERNEL[dtype]


@engines
@pytest.mark.parametrize(("dtype", "alpha"), [("float32", 1e-6), ("float64", 1e-20)])
def test_the_smallest_branches_that_are_taken_keep_their_digits_in_deep_networks(
    dtype, alpha, engine, rng
):
    network = rk.Network(50, 1, norm=True, trained="inner", alpha=alpha, input_scale=1.0)
    share = Operations(network, depth=50, n_channels=2).bounds.total_branch_share(50)
    least_variance = checks._BRANCH_MARGIN * np.finfo(dtype).tiny / share
    signals = rng.standard_normal((8, 2, 1))
    signals *= 0.999 / np.sqrt(least_variance) / np.linalg.norm(signals, axis=1, keepdims=True)
    assert error(network, signals, "trace", engine, dtype) <= tolerances.KERNEL[dtype]


@engines
@pytest.mark.parametrize(("dtype", "depth"), [("float32", 80), ("float64", 640)])
def test_tangent_kernels_that_biases_make_too_small_layer_by_layer_are_refused(
    dtype, depth, engine
):
    """Features have the variance 3, 2 of which are the biases', so each layer divides by 3."""
    network = rk.Network(depth, skip=False, norm=True, bias=1.0, trained=("input",))
    with pytest.raises(OverflowError, match="branches of normalized features have a share of"):
        rk.Kernel(network, "ntk", normalized=True)(X, engine=engine, dtype=dtype)


@engines
@pytest.mark.parametrize("dtype", DTYPES)
def test_branches_are_negligible_beside_large_signals_with_means(dtype, engine):
    """Layers add α² to variances of 2^120: the kernel is that of the input alone."""
    signals = 2.0**60 * X[:, :, [0, 1, 3]]
    K = rk.Kernel(NORM, "gpk", "trace")(signals, engine=engine, dtype=dtype)
    F0 = np.einsum("xcj,zcj->xz", signals, signals) / signals[0].size
    assert np.abs(K - F0).max() <= tolerances.KERNEL[dtype] * F0.max()


@engines
def test_normalized_networks_without_branches_are_taken(engine):
    """Their GPK is that of the input, and inner weights have no tangent kernel."""
    network = INNER.replace(alpha=0.0)
    F, T = rk.gram(network, X, head="trace", engine=engine)
    F0 = np.einsum("xcj,zcj->xz", X, X) / X[0].size
    assert np.abs(F - F0).max() <= tolerances.KERNEL["float64"] * F0.max() and not T.any()


@engines
def test_features_that_biases_alone_make_are_refused_where_they_have_no_digits(engine):
    """After layer 1 the pixel without features has α bias, and layer 2 normalizes it."""
    network = NORM.replace(filter_size=1, alpha=1e-8, bias=1e-10)
    with pytest.raises(OverflowError, match="a pixel, whose features are normalized, has a share"):
        rk.gram(network, X, engine=engine, dtype="float32")
    assert error(network, X, "trace", engine, "float64") <= tolerances.KERNEL["float64"]


@engines
def test_sizes_are_forgotten_after_an_ordinary_layer(engine):
    factors = np.array([1e-200, 3.0, 1e200])[:, None, None]
    for head in HEADS:
        options = {"head": head, "engine": engine}
        for K, same in zip(
            rk.gram(FORGETS, factors * X, **options), rk.gram(FORGETS, X, **options), strict=True
        ):
            assert np.abs(K - same).max() <= tolerances.ROUTES * np.abs(same).max()


@engines
def test_signals_of_zeros_stay_zeros_without_biases(engine):
    zero = np.zeros((2, 1, 3))
    for network in (NORM, NORM.replace(skip=False)):
        assert not np.any(rk.gram(network, zero, engine=engine))
    assert (rk.gram(FORGETS, zero, engine=engine).gpk > 0).all()


@engines
def test_biases_of_a_late_layer_reach_signals_of_zeros(engine):
    network = rk.Network(3, 1, bias=(0.0, 0.0, 0.5))
    K = rk.gram(network, np.zeros((1, 1, 2)), engine=engine, head="trace").gpk
    assert K[0, 0] == pytest.approx(0.5**2 + 0.5**2, rel=CONSTANT)  # of c_v/2 = 1, and of the outer


DIFFERENT_LAYERS = rk.Network(
    4, (3, 1, 5, 3), alpha=(1.0, 0.5, 2.0, 0.3), skip=(True, False, True, True)
)


@pytest.mark.parametrize("norm", [False, True])
def test_depths_of_one_pass_are_the_first_layers(norm):
    deep = DIFFERENT_LAYERS.replace(norm=norm)
    for depth, K in zip((1, 2, 4), rk.gram(deep, X, depths=(1, 2, 4)).ntk, strict=True):
        alone = rk.gram(deep.replace(depth=depth), X).ntk
        assert np.abs(K - alone).max() <= tolerances.ROUTES * np.abs(alone).max()


def test_layers_that_a_network_lacks_are_refused():
    network = DIFFERENT_LAYERS
    with pytest.raises(ValueError, match="network has alpha .* and depths has 5"):
        rk.gram(network, X, depths=(2, 5))
    with pytest.raises(ValueError, match="is .* expected one value for all layers, or 5 of them"):
        network.replace(depth=5)


@engines
@pytest.mark.parametrize("bias", [1e160, 1e300])
def test_biases_beyond_the_root_of_float64_beside_normalized_features(bias, engine):
    """After an ordinary layer they are all that is left; beside signals these are refused."""
    ordinary = rk.Network(2, 3, norm=True, bias=bias, skip=False)
    K = rk.gram(ordinary, X, head="trace", normalized=True, engine=engine).gpk
    assert np.abs(K - 1.0).max() <= tolerances.KERNEL["float64"]
    with pytest.raises(OverflowError, match="a pixel, whose features are normalized, has a share"):
        rk.gram(ordinary.replace(skip=True), X, head="trace", normalized=True, engine=engine)
