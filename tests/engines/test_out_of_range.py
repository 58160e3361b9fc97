"""Numbers outside the range of a precision: kernels have all their digits, or are refused."""

from functools import partial
from itertools import product

import numpy as np
import pytest

import rescntk as rk
from rescntk.checks.values import DTYPES, KINDS
from rescntk.engines.signals import checks
from rescntk.network.activations import ACTIVATIONS
from tests import tolerances
from tests.helpers import ENGINES, HEADS, NOT_HOMOGENEOUS, skip_unless_supported
from tests.oracles import definition, quadruple

pytestmark = pytest.mark.parametrize("engine", ENGINES)

X = np.random.default_rng(0).standard_normal((3, 2, 6))

tiny = pytest.mark.parametrize(("dtype", "size"), [("float32", 1e-25), ("float64", 1e-170)])


@tiny
def test_kernels_below_the_least_number_are_refused(engine, dtype, size):
    for call in (rk.ResCNTK(2), rk.ResCGPK(2).diag, partial(rk.pixel_pairs, rk.Network(2))):
        with pytest.raises(OverflowError, match=f"the kernel falls below {dtype} at depth 2: exp"):
            call(size * X, engine=engine, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_down_to_the_least_normal_number_are_taken(engine, dtype):
    kernel = rk.ResCNTK(2, head="trace")
    K = kernel(0.1 * X)
    own = np.sqrt(K.diagonal())
    scale = 1.5 * float(np.finfo(dtype).tiny) / K.diagonal().min()
    found = kernel.replace(readout_scale=scale)(0.1 * X, engine=engine, dtype=dtype)
    error = np.abs(found / scale - K) / own / own[:, None]
    assert error.max() <= tolerances.KERNEL[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_below_the_least_normal_number_are_refused(engine, dtype):
    """K(x, x) itself would lose digits."""
    kernel = rk.ResCNTK(2, head="trace")
    scale = 0.75 * float(np.finfo(dtype).tiny) / kernel(0.1 * X).diagonal().min()
    below = kernel.replace(readout_scale=scale)
    for call in (below, partial(rk.pixel_pairs, below.network)):
        with pytest.raises(OverflowError, match="the kernel falls below"):
            call(0.1 * X, engine=engine, dtype=dtype)


@tiny
def test_normalized_kernels_have_no_least_size(engine, dtype, size):
    K = rk.ResCNTK(2, normalized=True)(size * X, engine=engine, dtype=dtype)
    assert (K.diagonal() == 1).all()


@tiny
def test_signals_of_zeros_have_normalized_kernels_of_zero(engine, dtype, size):
    signals = size * X[:2]
    signals[0] = 0
    K = rk.ResCNTK(2, normalized=True)(signals, engine=engine, dtype=dtype)
    assert K.tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize("dtype", DTYPES)
def test_signals_of_zeros_have_kernels_of_zero(engine, dtype):
    assert (rk.ResCNTK(2)(0 * X, engine=engine, dtype=dtype) == 0).all()


@pytest.mark.parametrize("kernel", [rk.ResCNTK(60, head="trace"), rk.ResCGPK(2, alpha=0.01)])
def test_powers_of_two_as_a_scale_change_no_digit(engine, kernel, rng):
    """From the least normal number to the largest one.

    The layers' growth, which engines multiply at the end, alone would fall below them or exceed
    them: kernels are larger as sums over layers, and smaller as means over pixels.
    """
    signals = rng.standard_normal((3, 1, 100))
    K = kernel(signals, engine=engine)
    exponents = np.frexp(K)[1]
    least, most = -1021 - exponents.min(), 1024 - exponents.max()
    for power, bits in (*((least + k, -40) for k in range(9)), *((most - k, 40) for k in range(9))):
        scaled = kernel.replace(readout_scale=2.0 ** (power - 2 * bits))
        assert np.array_equal(scaled(2.0**bits * signals, engine=engine), np.ldexp(K, power))


def test_normalized_kernels_with_a_signal_beyond_float64_are_refused(engine):
    """It may be the left or the right signal."""
    network = rk.Network(30, 3, skip=False, c_v=1e-100, bias=1.0, input_scale=1e150)
    gram = partial(rk.gram, network, head="equivariant", normalized=True, engine=engine)
    within, beyond = X[:1], 1e100 * X[:1]
    assert gram(within, X[1:]).ntk.all()
    for sides in ((within, beyond), (beyond, within)):
        with pytest.raises(OverflowError, match="the kernel exceeds float64 at depth 30"):
            gram(*sides)


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


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", BELOW)
def test_no_kernel_is_zero_in_silence(engine, name, activation):
    """Kernels that fall below the precision are refused, for all calls and each activation."""
    fields, factor, dtype = BELOW[name]
    network = rk.Network(2, activation=activation, **fields)
    skip_unless_supported(engine, network)
    options, signals = {"engine": engine, "dtype": dtype}, X * factor
    calls = [partial(rk.pixel_pairs, network), partial(rk.pixel_shares, network)]
    for kind, head in product(KINDS, HEADS):
        kernel = rk.Kernel(network, kind, head)
        calls += [kernel, kernel.diag, lambda S, k=kernel, **more: k(S, S[:2], **more)]
    for call in calls:
        with pytest.raises(OverflowError, match="falls? below|have standard deviations below"):
            call(signals, **options)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tiny_kernels_of_large_signals_are_taken(engine, dtype):
    """The signals are bumps far apart. K(x, z) is below the precision of √(K(x, x) K(z, z))."""
    pixels = np.arange(40.0)
    bumps = [np.exp(-((pixels - middle) ** 2) / 1.6) for middle in (5.0, 33.0)]
    kernel = rk.ResCGPK(1, 1, "trace", alpha=1e-3)
    K = kernel(np.array(bumps)[:, None], engine=engine, dtype=dtype)
    assert 0 <= K[0, 1] < 1e-30 < K[0, 0]


@pytest.mark.parametrize("dtype", DTYPES)  # float32 has rounded results of float64
@pytest.mark.parametrize("normalized", [False, True])
def test_kernels_of_erf_tend_to_a_limit(engine, normalized, dtype):
    """The distance from the limit is below the inverse of the least size of a pixel."""
    kernel = rk.CGPK(3, head="trace", activation="erf", normalized=normalized)
    skip_unless_supported(engine, kernel.network)
    limit, K = (kernel(X * scale, engine=engine, dtype=dtype) for scale in (1e4, 1e70))
    assert np.abs(K - limit).max() <= 1 / (1e4 * np.linalg.norm(X, axis=1).min())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("scale", [1e78, 1e200])
def test_signals_too_large_for_erf_are_refused(engine, normalized, dtype, scale):
    """The squares of variances would leave float64."""
    kernel = rk.CGPK(3, head="trace", activation="erf", normalized=normalized)
    skip_unless_supported(engine, kernel.network)
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

FIELDS = ("fields", "signals", "head")

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
    (INPUT, (beside_biases, 1e-130), "gap", ("float64",)),
    (INPUT, (beside_biases, 1e-160), "gap", ()),
    (INPUT, (beside_biases, 1e-170), "gap", ()),
]
"""Fields, signals, heads, and the precisions whose numbers have room for the kernels."""


def within_range(expected):
    """Return cases of `OUT_OF_RANGE` with a precision that has room for the kernels, or has not."""
    return [
        (*case, dtype)
        for *case, precisions in OUT_OF_RANGE
        for dtype in DTYPES
        if (dtype in precisions) == expected
    ]


def normalized_gram(engine, fields, signals, head, dtype, rng):
    """Return a network, signals, and their normalized kernels."""
    make, size = signals
    X, network = make(size, rng), rk.Network(**fields)
    return network, X, rk.gram(network, X, head=head, normalized=True, engine=engine, dtype=dtype)


@pytest.mark.parametrize((*FIELDS, "dtype"), within_range(True))
def test_kernels_within_a_precision_are_right(engine, fields, signals, head, dtype, rng):
    """They are compared with 128-bit arithmetic. With "gap" the terms do not cancel."""
    if isinstance(quadruple.library(), str):
        pytest.skip(quadruple.library())
    network, X, grams = normalized_gram(engine, fields, signals, head, dtype, rng)
    exact = quadruple.Grams(network, X)
    for kind, K in grams._asdict().items():
        assert exact.resolves(kind, head)
        assert exact.error(K, kind, head) <= tolerances.KERNEL[dtype]


@pytest.mark.parametrize((*FIELDS, "dtype"), within_range(False))
def test_kernels_beyond_a_precision_are_refused(engine, fields, signals, head, dtype, rng):
    """No such kernel is 0 in silence."""
    with pytest.raises(OverflowError, match=f"a share of .* expected at least .* in {dtype}"):
        normalized_gram(engine, fields, signals, head, dtype, rng)


def test_an_input_filter_reaches_pixel_1_without_branches(engine, rng):
    """The filtered input has values at pixel 1 at any α."""
    X = far_away(2, rng)
    K = rk.Kernel(rk.Network(2, alpha=0, input_filter_size=5), "gpk", "equivariant")(
        X, engine=engine
    )
    x, z = (s.reshape(2, -1)[:, 2] for s in X)
    assert abs(K[0, 1] - x @ z / 10) <= 4 * tolerances.EPS["float64"] * np.abs(x * z).sum()


@pytest.mark.parametrize("activation", NOT_HOMOGENEOUS)
@pytest.mark.parametrize(
    ("network", "factor", "options", "says"),
    [
        (rk.Network(1000, 1), 1e-160, {}, "signals have standard deviations below"),
        (rk.Network(2, bias=0.1, trained="input"), 1e-170, {}, "signals have standard deviations"),
        (rk.Network(2), 1e-25, {"dtype": "float32"}, "the kernel falls below float32"),
        (rk.Network(2), 1e-170, {}, "the kernel falls below float64"),
        (rk.Network(2, c_v=1e300), 1e50, {}, "variances of layer . (exceed|reach)"),
        (rk.Network(2, c_v=1e300), 1e150, {}, "variances of layer . (exceed|reach)|too large for"),
    ],
)
def test_sizes_beyond_float64_are_refused(engine, activation, network, factor, options, says):
    """The sizes of signals count if the activation is not homogeneous."""
    network = network.replace(activation=activation)
    skip_unless_supported(engine, network)
    with pytest.raises(OverflowError, match=says):
        rk.gram(network, factor * X, head="trace", engine=engine, **options)


def test_the_largest_signals_are_refused_in_one_sentence(engine):
    network = rk.Network(2, activation="erf")
    skip_unless_supported(engine, network)
    with pytest.raises(OverflowError, match="^the signals are too large for float64 and activ"):
        rk.gram(network, np.full((1, 1, 4), 1.7e308), normalized=True, engine=engine)


@pytest.mark.parametrize("activation", NOT_HOMOGENEOUS)
def test_pixels_far_below_their_signal_are_refused(engine, activation, rng):
    network = rk.Network(2, 1, activation=activation)
    skip_unless_supported(engine, network)
    X = rng.standard_normal((2, 2, 4))
    X[:, :, 0] *= 1e-150
    with pytest.raises(OverflowError, match="pixel 1 has standard deviations below"):
        rk.gram(network, X, head="equivariant", engine=engine)


@pytest.mark.parametrize("activation", NOT_HOMOGENEOUS)
def test_pixels_too_small_to_divide_by_are_negligible_beside_pixel_1(engine, activation, rng):
    """The other signal's pixels are ordinary. Pixel 7, which is ordinary too, is not seen."""
    network = rk.Network(2, 3, activation=activation)
    skip_unless_supported(engine, network)
    X = rng.standard_normal((2, 2, 13))
    X[0] = 0.0
    X[0, :, 6] = 1.0
    X[0, :, 0] = 1e-100
    gram = partial(rk.gram, network, head="equivariant", engine=engine)
    std_of_1 = np.sqrt(gram(X).gpk[0, 0]) / 1e-100
    least = checks.least_std("float64") / tolerances.EPS["float64"]
    for size, is_taken in ((1.01, True), (0.99, False)):
        X[0, :, 0] = size * least / std_of_1
        X[0, :, 1] = 0.5 * checks.least_std("float64") * np.array([1.0, -1.0])
        if not is_taken:
            with pytest.raises(OverflowError, match="pixel 1 has standard deviations below"):
                gram(X)
            continue
        exact = definition.pixel_pairs(X, network)[network.depth]
        for K, pairs in zip(gram(X), exact, strict=True):
            of_head = definition.head(pairs, "equivariant")
            assert definition.errors(K, of_head, of_head.diagonal()) <= tolerances.KERNEL["float64"]


def test_erf_networks_that_fall_below_float64_are_refused(engine, rng):
    network = rk.Network(50, skip=False, activation="erf", c_v=1e-7)
    skip_unless_supported(engine, network)
    with pytest.raises(OverflowError, match="variances of layer 50 fall below .*, expected a"):
        rk.gram(network, rng.standard_normal((2, 1, 4)), normalized=True, engine=engine)


@pytest.mark.parametrize("activation", NOT_HOMOGENEOUS)
@pytest.mark.parametrize(
    "fields", [{"c_v": (2.0, 0.0, 2.0)}, {"c_w": (1.0, 0.0, 1.0), "norm": True}]
)
def test_kernels_after_a_layer_without_a_branch_are_0(engine, activation, fields, rng):
    """They have not fallen below any number, but are exactly 0."""
    network = rk.Network(3, skip=False, activation=activation, **fields)
    skip_unless_supported(engine, network)
    found = rk.gram(network, rng.standard_normal((2, 2, 3)), engine=engine)
    assert (found.gpk == 0).all() and (found.ntk == 0).all()


ROOT_OF_LEAST = np.sqrt(np.finfo(np.float64).tiny)
"""Squares of larger numbers have all digits of float64."""


def taken(sizes, compute, expected):
    """Return the sizes whose kernels are not refused; these are right."""
    found = []
    for size in sizes:
        try:
            K = compute(size)
        except OverflowError:
            continue
        assert np.abs(K - expected).max() <= tolerances.ROUTES
        found.append(size)
    return found


@pytest.mark.parametrize("activation", NOT_HOMOGENEOUS)
def test_small_signals_beside_biases_are_right_or_refused(engine, activation):
    """Only the input is trained. Squares of differences of size eps keep their digits too."""
    kernel = rk.Kernel(
        rk.Network(2, bias=0.1, trained="input", activation=activation), "ntk", "trace", True
    )
    skip_unless_supported(engine, kernel.network)
    sizes = 2.0 ** np.arange(-540, -80, 20)
    found = taken(sizes, lambda size: kernel(size * X, engine=engine), kernel(2.0**-80 * X))
    within = sizes[sizes > 2.0**10 * ROOT_OF_LEAST / tolerances.EPS["float64"]]
    assert set(within) <= set(found)


@pytest.mark.parametrize("activation", NOT_HOMOGENEOUS)
def test_pixels_below_their_signal_are_right_or_refused(engine, activation):
    """The head "equivariant" reads them alone; inverses of roots, multiplied, stay in float64."""
    network = rk.Network(2, 1, activation=activation)
    skip_unless_supported(engine, network)
    kernel = rk.Kernel(network, "ntk", "equivariant", normalized=True)

    def compute(size):
        return kernel(X * np.where(np.arange(X.shape[2]), 1.0, size), engine=engine)

    sizes = 10.0 ** np.arange(-170, -40, 10)
    found = taken(sizes, compute, compute(1e-40))
    assert set(sizes[sizes > 1e18 * ROOT_OF_LEAST / tolerances.EPS["float64"]]) <= set(found)


@pytest.mark.parametrize("activation", NOT_HOMOGENEOUS)
@pytest.mark.parametrize("fields", [{"depth": 2, "alpha": 0.1}, {"depth": 3}])
def test_a_small_pixel_alone_under_its_filters_is_right_or_refused(engine, fields, activation):
    """Means over taps have a ninth of its variance in a layer, and pixel 1 reads them again."""
    network = rk.Network(filter_size=9, outer_filter_size=1, activation=activation, **fields)
    skip_unless_supported(engine, network)
    kernel = rk.Kernel(network, "ntk", "equivariant", normalized=True)
    signals = np.zeros((2, 2, 41))
    signals[:, :, 0] = [[1.0, 0.0], [0.6, 0.8]]

    def compute(size):
        X = size * signals
        X[:, :, 20] = 1.0  # which pixel 1 does not see
        return kernel(X, engine=engine)

    sizes = np.geomspace(1e-130, 1e-115, 61)
    found = taken(sizes, compute, compute(1e-60))
    assert 0 < len(found) < len(sizes)


def test_layers_of_any_growth_are_right_or_refused(engine):
    """Normalized kernels without skips do not depend on it; squares of growths stay in float64."""
    network = rk.Network(2, 3, skip=False)

    def compute(bits):
        grown = network.replace(c_v=2.0 * 2.0**bits)
        try:
            return rk.gram(grown, X, normalized=True, engine=engine).ntk
        except ValueError as refusal:
            raise OverflowError from refusal

    bits = range(-1000, 1001, 40)
    found = taken(bits, compute, compute(0))
    assert {number for number in bits if abs(2 * number) < 1000} <= set(found)


@pytest.mark.parametrize("activation", NOT_HOMOGENEOUS)
def test_falling_networks_are_right_or_refused(engine, activation):
    """Variances are near 1e-20, where layers are linear and multiply them by c_v σ'(0)²."""
    network = rk.Network(1, 1, skip=False, activation=activation, c_v=1e-7)
    skip_unless_supported(engine, network)
    kernel = rk.Kernel(network, "gpk", "trace", normalized=True)
    depths = range(1, 40)
    found = taken(
        depths,
        lambda depth: kernel.replace(depth=depth)(1e-10 * X, engine=engine),
        kernel(1e-10 * X),
    )
    least_factor = 2e-8
    within = [depth for depth in depths if 1e-20 * least_factor**depth > 1e3 * ROOT_OF_LEAST]
    assert set(within) <= set(found) and len(found) < len(depths)


SMALL_BESIDE_BIASES = {
    "the last layer": {"alpha": 1e-12, "c_w": 1e-28, "bias": 1e10, "trained": "readout"},
    "the trained parts": {"c_v": 1e-24, "bias": 1e10, "trained": ("input", "inner")},
}
"""What is too small for float32 beside the biases."""


@pytest.mark.parametrize("what", SMALL_BESIDE_BIASES)
def test_kernels_too_small_beside_biases_are_refused(engine, what):
    """Compiled engines refuse them too, although their tables end with the last activation."""
    network = rk.Network(2, 3, **SMALL_BESIDE_BIASES[what])
    with pytest.raises(OverflowError, match=f"^{what} ha.* a share of .* in float32"):
        rk.gram(network, X, head="trace", engine=engine, dtype="float32")
