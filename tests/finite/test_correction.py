"""Corrections at finite width, against sampled networks, quadrature and sums over layers."""

import jax
import mpmath
import numpy as np
import pytest
from hypothesis import given, reject, settings
from scipy.integrate import dblquad
from scipy.stats import multivariate_normal

import rescntk as rk
from rescntk import finite, literature
from rescntk.checks.values import PARTS
from rescntk.finite.correction import last_state
from rescntk.finite.fluctuations import Points
from rescntk.finite.forward import features, outputs
from rescntk.finite.kernels import trained_parts
from rescntk.finite.parameters import shapes
from rescntk.network.parameters import RELU_FIELDS
from tests import tolerances
from tests.helpers import assert_within, nightly
from tests.strategies import heads, networks, signals

X = np.random.default_rng(0).standard_normal((3, 4, 1))
X[1] = X[0] + 0.4 * X[1]  # near, beside a far one
PIXELS = np.random.default_rng(1).standard_normal((2, 3, 3))
LINES = np.random.default_rng(3).standard_normal((2, 1, 2))  # layer 1 reads multiples
OF_CONDITION = 1e-9
"""Of curvatures at angles of order 1."""

MLP = literature.geifman_cnn
MIXED = rk.Network(
    3, 3, skip=(True, False, True), alpha=(0.5, 1.0, 2.0), c_w=(1.3, 0.8, 1.0), bias=0.3
)
NETWORKS = {
    "one layer": (MLP(1, 1), X, "gap"),
    "three layers": (MLP(3, 1), X, "gap"),
    "outer weights": (rk.Network(2, 1, skip=False), X, "gap"),
    "readout": (MLP(2, 1).replace(trained=("readout",)), X, "gap"),
    "inner": (MLP(2, 1).replace(trained=("inner",)), X, "gap"),
    "all parts": (
        rk.Network(2, 1, skip=False, c_v=1.5, c_w=1.3, bias=0.4, readout_scale=0.7, trained=PARTS),
        X,
        "gap",
    ),
    "skip connections": (rk.Network(3, 1), X, "gap"),
    "filters": (rk.Network(2, 3, input_filter_size=3, skip=False, dilation=2), PIXELS, "trace"),
    "residual": (rk.Network(2, 3, alpha=0.6, trained=PARTS), PIXELS, "gap"),
    "several kinds of layers": (MIXED, PIXELS, 2),
    "normalized": (rk.Network(2, 3, norm=True, bias=0.3, trained=PARTS), PIXELS, "gap"),
    "normalized, equivariant": (MIXED.replace(norm=True, bias=0.0), PIXELS, "equivariant"),
    "normalized, plain": (rk.Network(2, 1, norm=True, skip=False), X, "gap"),
    "one channel": (rk.Network(2, 3, trained=("input", "outer")), LINES, "trace"),
    "images": (rk.Network(2, 3, alpha=0.7), PIXELS[:, :2, :2, None], "gap"),
}
OF_EACH_DAY = ("all parts", "residual", "normalized", "several kinds of layers")


def correction(network, signals, head, width=1):
    return finite.correction(network, signals, width, head, images=signals.ndim == 4)


def parameters(network, signals, head, width):
    """Return the shapes of parameters, and how they are put together."""
    reads_pixels = head not in ("gap", "equivariant")
    pixels = int(np.prod(signals.shape[2:])) if reads_pixels else None
    return jax.tree.flatten(shapes(network, signals.shape[1], width, pixels, signals.ndim - 2))


def sampled(network, signals, head, width, number):
    """Return (GPK, NTK) of random networks, (number, 2, n_pairs), in float32."""
    leaves, structure = parameters(network, signals, head, width)
    rng, signals = np.random.default_rng(0), signals.astype(np.float32)
    pairs = np.triu_indices(len(signals))

    def kernels(drawn):
        params = structure.unflatten(drawn)
        f = features(network, head, params, signals)
        gpk = network.readout_scale / f.shape[1] * (f @ f.T)

        def output(parts):
            return outputs(network, head, params._replace(**parts), signals)

        jacobians = jax.tree.leaves(jax.jacrev(output)(trained_parts(network, params)))
        rows = [jacobian.reshape(len(signals), -1) for jacobian in jacobians]
        return jax.numpy.stack([gpk[pairs], sum(row @ row.T for row in rows)[pairs]])

    batch, several, found = jax.jit(jax.vmap(kernels)), max(1, 2**20 // width**2), []
    for _ in range(-(-number // several)):
        drawn = [rng.standard_normal((several, *leaf.shape), np.float32) for leaf in leaves]
        found.append(np.asarray(batch(drawn), np.float64))
    return np.concatenate(found)


def moments(network, signals, head, width, number):
    """Return means less exact kernels, and variances, times the width, and their errors."""
    pairs = np.triu_indices(len(signals))
    exact = np.array([rk.Kernel(network, kind, head)(signals)[pairs] for kind in ("gpk", "ntk")])
    away = sampled(network, signals, head, width, number) - exact
    number, square = len(away), (away - away.mean(axis=0)) ** 2
    values = np.array([away.mean(axis=0), square.mean(axis=0)]) * width
    return values, np.array([away.std(axis=0), square.std(axis=0)]) * width / np.sqrt(number)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [*OF_EACH_DAY, *nightly(*[name for name in NETWORKS if name not in OF_EACH_DAY])]
)
def test_sampled_networks(name):
    """Of widths 16 to 256, continued to infinite width by terms of order 1/width and 1/width²."""
    (network, signals, head), widths = NETWORKS[name], (16, 32, 64, 128, 256)
    found, pairs = correction(network, signals, head), np.triu_indices(len(signals))
    shifts = [found.gpk_shift[pairs], found.ntk_shift[pairs]]
    variances = [found.gpk_deviation[pairs] ** 2, found.ntk_deviation[pairs] ** 2]
    predicted, scores = np.array([shifts, variances]), []
    rows = [moments(network, signals, head, n, 60_000 // n) for n in widths]
    values, errors = map(np.array, zip(*rows, strict=True))
    design = np.array([[1.0, 1 / n, 1 / n**2] for n in widths])
    for place in np.ndindex(predicted.shape):
        y, e = values[:, *place], errors[:, *place]
        weighted = design / e[:, None]
        covariance = np.linalg.inv(weighted.T @ weighted)
        constant = (covariance @ weighted.T @ (y / e))[0]
        scores.append((constant - predicted[place]) / np.sqrt(covariance[0, 0]))
        # At the widest networks the first order is right but for what the second may add.
        away = np.abs(y - predicted[place])
        assert away[-1] <= 3 * e[-1] + away[0] / 4
    # Some 300 numbers of all networks are compared; those of one network vary together.
    of_network = 2.0
    assert np.abs(scores).max() <= tolerances.STANDARD_ERRORS
    assert np.sqrt(np.mean(np.square(scores))) <= of_network


@pytest.mark.slow
@pytest.mark.nightly
@settings(max_examples=20)
@given(
    networks(RELU_FIELDS | {"bias", "norm"}, 3, dilated="freely", layers="of their own"),
    signals(2, max_length=4),
    heads,
)
def test_random_networks(network, signals, head):
    """The second order is bounded by the difference of two widths."""
    width, number, pairs = 24, 4000, np.triu_indices(len(signals))
    try:
        found = correction(network, signals, head)
    except ValueError as refusal:
        if "in one line" not in str(refusal):
            raise
        reject()
    narrow, wide = (moments(network, signals, head, n, number) for n in (width, 2 * width))
    shifts = [found.gpk_shift[pairs], found.ntk_shift[pairs]]
    variances = [found.gpk_deviation[pairs] ** 2, found.ntk_deviation[pairs] ** 2]
    away = np.abs(2 * wide[0] - narrow[0] - np.array([shifts, variances]))
    error = np.sqrt(4 * wide[1] ** 2 + narrow[1] ** 2)
    third_order = np.abs(wide[0] - narrow[0])
    in_float32 = 1e-4 * np.abs([shifts, variances]).max()
    assert (away <= tolerances.STANDARD_ERRORS * error + third_order + in_float32).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["residual", "normalized", "several kinds of layers"])
def test_units_have_in_common_what_the_recursion_has(name):
    """`State.mixed` and `State.squares` are means over pairs of units, i = j among them."""
    (network, signals, _), width, number = NETWORKS[name], 24, 300
    cases, points = np.array([[0], [1]]), Points(2, signals.shape[2:])
    state = last_state(network, points, signals, cases)
    leaves, structure = parameters(network, signals, "trace", width)

    def units(drawn):
        """Return f f Θ̂ and Θ̂ Θ̂, of which the first and the second factor have units i and j."""
        params = structure.unflatten(drawn)

        def of(parts):
            f = features(network, "trace", params._replace(**parts), signals)
            return f.reshape(points.size, width)

        parts = trained_parts(network, params)
        parts = {part: value for part, value in parts.items() if part != "readout"}
        jacobians = jax.tree.leaves(jax.jacrev(of)(parts))
        rows = [each.reshape(points.size, width, -1) for each in jacobians]
        theta = sum(jax.numpy.einsum("aip,bjp->aibj", row, row) for row in rows)
        f = of(parts)
        mixed = jax.numpy.einsum("xi,zj,aibj->xzab", f, f, theta)
        squares = jax.numpy.einsum("aibj,cidj->abcd", theta, theta)
        return jax.numpy.stack([mixed, squares]) / width

    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        compiled = jax.jit(units)
        draws = ([rng.standard_normal(leaf.shape) for leaf in leaves] for _ in range(number))
        found = np.array([compiled(drawn) for drawn in draws])
    expected = np.stack([state.mixed[..., 0], state.squares[..., 0]])
    error = found.std(axis=0) / np.sqrt(number)
    next_order = 8 / width * np.abs(expected).max(axis=(1, 2, 3, 4), keepdims=True)
    away = np.abs(found.mean(axis=0) - expected)
    assert (away <= tolerances.STANDARD_ERRORS * error + next_order).all()
    assert (expected.max(axis=(1, 2, 3, 4)) >= 4 * next_order.ravel() / 2).all()


@pytest.mark.slow
def test_one_hidden_layer_by_quadrature():
    """Entries are means over units: their variance is that of one unit, by a double integral."""
    signals = np.array([[1.0, 0.0], [0.6, 0.8]])[:, :, None]
    found = finite.correction(MLP(1, 1), signals, 10)
    F = signals[:, :, 0] @ signals[:, :, 0].T / 2
    law = multivariate_normal(cov=F)

    def integral(function):
        """Return a mean over the quadrant where both pre-activations are positive."""
        return dblquad(lambda v, u: function(u, v) * law.pdf([u, v]), 0, 8, 0, 8, epsabs=1e-8)[0]

    product, square = integral(lambda u, v: 2 * u * v), integral(lambda u, v: 4 * (u * v) ** 2)
    both = law.cdf([0.0, 0.0])
    bar = 1e-7  # squares of integrals, which err by 1e-8, times at most 10
    assert abs(found.gpk_deviation[0, 1] ** 2 - (square - product**2) / 10) <= bar
    # Θ of a unit is φφ + w² φ'φ' F with its readout weight w: E w² = 1 and E w⁴ = 3.
    mean = product + 2 * both * F[0, 1]
    square += 2 * 2 * product * F[0, 1] + 3 * 4 * both * F[0, 1] ** 2
    assert abs(found.ntk_deviation[0, 1] ** 2 - (square - mean**2) / 10) <= bar
    assert (found.gpk_shift == 0).all() and (found.ntk_shift == 0).all()


@pytest.mark.slow
def test_shifts_of_one_hidden_layer_behind_random_features():
    """Given its n weights W a hidden unit has Gaussians of the covariance r c_w F⁰ + σ_b².

    Here r = ‖W‖²/n has mean 1 and variance 2/n, and the kernel of the input's weights is r times
    E[σ'σ'], whatever the width: half the variance times second derivatives by r are the shifts.
    """
    c_v, c_w, bias = 1.5, 1.3, 0.4
    network = rk.Network(
        1, 1, skip=False, c_v=c_v, c_w=c_w, bias=bias, readout_scale=0.7, trained=("input",)
    )
    found, points = finite.correction(network, X, 1), X[:, :, 0]
    F, T = points @ points.T / 4, rk.Kernel(network, "ntk", "trace")(X)

    def moments(r, place):
        """Return E[σσ] and E[σ'σ'] of a pair."""
        i, j = place
        x, z, both = (r * c_w * F[a, b] + bias**2 for a, b in ((i, i), (j, j), (i, j)))
        size = mpmath.sqrt(x * z)
        angle = mpmath.acos(both / size) if i != j else 0
        sine = size * mpmath.sin(angle)
        return (sine + (mpmath.pi - angle) * both) / (2 * mpmath.pi), (1 - angle / mpmath.pi) / 2

    for place in zip(*np.triu_indices(3), strict=True):
        gpk, ntk = (
            float(mpmath.diff(lambda r, f=f: f(r, place), 1, 2))
            for f in (lambda r, p: moments(r, p)[0], lambda r, p: r * moments(r, p)[1])
        )
        slopes = float(moments(1, place)[1])
        assert abs(found.gpk_shift[place] - 0.7 * c_v * gpk) <= OF_CONDITION
        assert abs(found.ntk_shift[place] - T[place] * ntk / slopes) <= OF_CONDITION


@pytest.mark.parametrize(("depth", "c_w"), [(1, 1.0), (4, 1.0), (30, 1.0), (4, 0.3)])
def test_one_signal_is_the_sum_over_layers(depth, c_w):
    """docs/theory/finite_width.md, sections 1 and 2, to first order: 5 and 1 a layer, any c_w."""
    network = MLP(depth, 1).replace(c_w=c_w)
    found = finite.correction(network, X[:1], 100)
    K, T = (rk.Kernel(network, kind, "trace")(X[:1]) for kind in ("gpk", "ntk"))
    assert abs((found.gpk_deviation / K) ** 2 - 5 * depth / 100) <= tolerances.ROUTES
    layers = np.abs(np.subtract.outer(np.arange(depth + 1), np.arange(depth + 1)))
    law = (5 * (depth - layers) + layers).mean() / 100
    of_slopes = 1e-6 / 100  # of the integral of four slopes
    assert abs((found.ntk_deviation / T) ** 2 - law) <= of_slopes * depth
    assert found.gpk_shift == found.ntk_shift == 0


@pytest.mark.parametrize(
    "network", [MLP(3, 1), rk.Network(2, 3, alpha=0.7), rk.Network(2, 3, norm=True, skip=False)]
)
def test_corrections_of_multiples_of_signals_are_multiples(network):
    """Networks without biases are homogeneous, and so are their kernels, of any width.

    With normalized features, but without skip connections, signals' sizes do not matter.
    """
    signals = PIXELS if network.filter_size > 1 else X
    sizes = np.array([0.25, 5.0, 1.0][: len(signals)])
    products = np.ones((2, 2)) if network.norm else np.outer(sizes, sizes)
    alone = finite.correction(network, signals, 10)
    multiples = finite.correction(network, signals * sizes[:, None, None], 10)
    for name in alone._fields:
        factor = 1.0 if name.startswith("correlation") else products
        found, expected = getattr(multiples, name), getattr(alone, name)
        assert_within(found / factor, expected, OF_CONDITION)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("readout_scale", [1.0, 0.7])
def test_one_signal_and_biases_add_up_over_layers(depth, readout_scale):
    """Means of squares of n Gaussians of variance S vary by 2S²/n; of max(z, 0) by 5S²/4n.

    What a layer reads varies too, and a bias does not.
    """
    c_v, c_w, bias, n = 1.5, 1.3, 0.4, 1000
    network = rk.Network(
        depth, 1, skip=False, c_v=c_v, c_w=c_w, bias=bias, readout_scale=readout_scale
    )
    read, variance = (X[0] ** 2).mean(), 0.0
    for layer in range(depth):
        if layer:  # means of squares of the layer below, whose units are Gaussians
            variance += 2 * read**2
        read, variance = c_w * read + bias**2, c_w**2 * variance
        variance = c_v**2 * (1.25 * read**2 + variance / 4)
        read = c_v * read / 2 + bias**2
    variance = readout_scale**2 * (variance + 2 * read**2) / n
    found = finite.correction(network, X[:1], n)
    assert abs(found.gpk_deviation**2 / variance - 1) <= tolerances.ROUTES
    assert abs(found.gpk_shift) <= tolerances.ROUTES * read / n


def test_equal_pixels_are_one():
    """Weights of a filter's taps that read the same numbers are one weight."""
    network = rk.Network(2, 3, alpha=0.7, bias=0.3, trained=PARTS)
    alone = finite.correction(network, X, 10)
    equal = finite.correction(network, np.repeat(X, 3, axis=2), 10)
    for found, expected in zip(equal, alone, strict=True):
        assert_within(found, expected, OF_CONDITION)


@pytest.mark.parametrize("head", ["gap", "trace", 2])
def test_corrections_do_not_depend_on_where_signals_begin(head):
    found = finite.correction(MIXED, PIXELS, 10, head)
    moved = finite.correction(MIXED, np.roll(PIXELS, 1, axis=2), 10, head)
    for one, other in zip(found, moved, strict=True):
        assert_within(one, other, OF_CONDITION)


def test_images_of_one_line_are_signals():
    """Taps of a filter beside the line read it again."""
    network = rk.Network(2, 3, alpha=0.7)
    found = finite.correction(network, PIXELS, 10, 2)
    images = finite.correction(network, PIXELS[:, :, None], 10, 2, images=True)
    for one, other in zip(found, images, strict=True):
        assert_within(one, other, OF_CONDITION)


@pytest.mark.parametrize(("pool", "head"), [(1, "trace"), (3, "gap"), (9, "gap")])
def test_windows_of_one_pixel_and_of_all_are_heads(pool, head):
    found, expected = (finite.correction(MIXED, PIXELS, 10, of) for of in (pool, head))
    assert all((a == b).all() for a, b in zip(found, expected, strict=True))


def test_pairs_are_those_of_all_signals():
    """A pair has the same correction beside other signals, and in the other order."""
    found = finite.correction(MIXED, np.concatenate([PIXELS, PIXELS[:1] + 1.0]), 10)
    alone, back = (finite.correction(MIXED, signals, 10) for signals in (PIXELS, PIXELS[::-1]))
    for all_of_them, two, other_way in zip(found, alone, back, strict=True):
        assert_within(all_of_them[:2, :2], two, tolerances.ROUTES)
        assert_within(other_way[::-1, ::-1], two, OF_CONDITION)


def test_a_layer_without_a_branch_leaves_a_mean_over_units():
    """Behind a dead layer K̂ is the mean square of the n Gaussians of the input's weights."""
    network = rk.Network(2, 3, c_w=0.0)
    found, K = finite.correction(network, PIXELS, 10), rk.Kernel(network, "gpk", "gap")(PIXELS)
    variance = (np.outer(K.diagonal(), K.diagonal()) + K**2) / 10
    assert_within(found.gpk_deviation**2, variance, tolerances.ROUTES)
    assert (found.gpk_shift == 0).all()


def test_zero_signals_and_opposite_ones_are_taken():
    """The kernel of 0 is 0 in every network without biases; −x is no multiple for ReLU."""
    signals = np.stack([PIXELS[0], 0 * PIXELS[0], -PIXELS[0]])
    found = finite.correction(rk.Network(2, 3, alpha=0.7), signals, 10)
    for values in found:
        assert np.isfinite(values).all() and (values[1] == 0).all()
    assert found.gpk_deviation[0, 2] > 0 and (found.ntk_deviation[[0, 2], [0, 2]] > 0).all()


@pytest.mark.parametrize("network", [rk.Network(60, 1, skip=False), rk.Network(60, 1)])
def test_fluctuations_of_the_deficit_grow_with_depth(network):
    """By (8/3)(1 + p/2) p a layer, relative to its square: docs/theory/depth_and_width.md."""
    signals, near = X[[0, 2]], 0.1  # relatively some log L/L, of 60 to 240 layers
    p = network.branch_share

    def relative(depth):
        of_depth = network.replace(depth=depth)
        found = finite.correction(of_depth, signals, 1)
        K = rk.Kernel(of_depth, "gpk")(signals)
        deficit = 1.0 - K[0, 1] / np.sqrt(K[0, 0] * K[1, 1])
        return (found.correlation_deviation[0, 1] / deficit) ** 2

    slope = (relative(240) - relative(60)) / 180
    assert abs(slope / (8 / 3 * (1 + p / 2) * p) - 1) <= near


def test_corrections_of_correlations_that_float64_does_not_tell_are_nan():
    """Of near signals; not of a signal with itself, nor of kernels that are no correlations."""
    points = np.array([[1.0, 1.0, 1.0], np.sin([0.0, 3e-3, 0.1])])
    points[0] = np.sqrt(1 - points[1] ** 2)
    found = finite.correction(rk.Network(2, 1), points.T[:, :, None], 10)
    for values in (found.correlation_shift, found.correlation_deviation):
        assert np.isnan(values[0, 1]) and np.isfinite(values[2]).all()
        assert (values.diagonal() == 0).all()
    assert np.isfinite(found[:4]).all() and found.correlation_deviation[0, 2] > 0


def test_a_near_pair_is_nearly_a_signal_with_itself():
    """Down to the least angle that is taken."""
    angle = 1.1e-3
    points = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])[:, :, None]
    network = rk.Network(3, 1, skip=False)
    found = finite.correction(network, points, 10)
    for deviation in (found.gpk_deviation, found.ntk_deviation):
        assert abs(deviation[0, 1] / deviation[0, 0] - 1) <= angle
        assert (deviation == deviation.T).all()
    T = rk.Kernel(network, "ntk", "trace")(points)[0, 0]
    rounding = np.finfo(float).eps / angle**3  # curvatures of κ0 grow like the angle's inverse cube
    assert abs(found.ntk_shift[0, 1]) <= angle * T and abs(found.gpk_shift[0, 1]) <= rounding * T


def test_nearer_pairs_are_refused():
    """In one direction, or in opposite ones; multiples of each other are taken."""
    for sign in (1, -1):
        points = sign * np.array([[sign, 0.0], [np.cos(0.9e-3), np.sin(0.9e-3)]])[:, :, None]
        message = "X has case 0 and case 1 whose pre-activations in layer 1 are"
        with pytest.raises(ValueError, match=message):
            finite.correction(MLP(2), points, 10)
    same = finite.correction(MLP(2), np.stack([X[0], 3.0 * X[0]]), 10)
    multiples = same.gpk_deviation[0, 0] * np.outer([1, 3], [1, 3])
    assert_within(same.gpk_deviation, multiples, tolerances.ROUTES)
    assert (same.correlation_deviation == 0).all() and (same.correlation_shift == 0).all()


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (MLP(2).replace(activation="erf"), "activation 'erf', expected 'relu': its fluctuat"),
        (MLP(2).replace(negative_slope=0.1), "negative_slope 0.1, expected 0.0: its fluctuat"),
    ],
)
def test_what_is_not_known_is_refused_by_name(network, message):
    with pytest.raises(ValueError, match=message):
        finite.correction(network, X, 10)


def test_a_width_of_0_is_refused():
    with pytest.raises(ValueError, match="width is 0, expected an integer of at least 1"):
        finite.correction(MLP(2), X, 0)


def test_too_many_pixels_are_refused_before_any_work():
    with pytest.raises(MemoryError, match="a correction for signals of 3000 pixels takes at least"):
        finite.correction(MLP(2), np.ones((2, 1, 3000)), 10)


def test_kernels_whose_squares_exceed_float64_are_refused():
    with pytest.raises(OverflowError, match="the squares of kernels exceed float64"):
        finite.correction(MLP(2), 1e90 * X, 10)


@pytest.mark.parametrize("size", [1e-200, 1e-100])
@pytest.mark.parametrize("norm", [False, True])
def test_signals_whose_squares_are_lost_are_refused(size, norm):
    """They are not taken for 0."""
    message = "X has case 1, pixel 2 whose variance in the input is .*, expected 0 or at least 1e-1"
    signals = PIXELS.copy()
    signals[1, :, 2] *= size
    with pytest.raises(ValueError, match=message):
        finite.correction(rk.Network(1, 3, norm=norm), signals, 10)


@pytest.mark.parametrize(
    ("options", "where"), [({"c_w": 1e-150}, "in layer 1"), ({"readout_scale": 1e-150}, "behind")]
)
def test_networks_whose_kernels_squares_are_lost_are_refused(options, where):
    with pytest.raises(ValueError, match=f"X has case 0 whose variance {where}"):
        finite.correction(rk.Network(2, 1, **options), X, 10)


@pytest.mark.parametrize("options", [{"alpha": 1e80}, {"c_w": 1e160}, {"bias": 1e160}])
def test_great_constants_are_refused(options):
    with pytest.raises(OverflowError, match="the squares of kernels exceed float64"):
        finite.correction(rk.Network(1, 1, **options), X, 10)


@pytest.mark.parametrize("images", [True, 1])
def test_signals_are_no_images(images):
    with pytest.raises(ValueError, match="images is (True|1), expected"):
        finite.correction(MLP(2), X, 10, images=images)
