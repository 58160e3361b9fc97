"""Corrections at finite width, against sampled networks, quadrature and a sum over layers."""

import jax
import mpmath
import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import multivariate_normal

import rescntk as rk
from rescntk import finite, literature
from rescntk.checks.values import PARTS
from rescntk.finite.correction import _layers, _State, _steps
from rescntk.finite.forward import features, outputs
from rescntk.finite.kernels import trained_parts
from rescntk.finite.parameters import shapes
from tests import tolerances
from tests.helpers import assert_within, nightly

X = np.random.default_rng(0).standard_normal((3, 4, 1))
X[1] = X[0] + 0.4 * X[1]  # near, beside a far one
PAIRS = np.triu_indices(3)
MLP = literature.geifman_cnn
NETWORKS = {
    "one layer": MLP(1, 1),
    "three layers": MLP(3, 1),
    "outer weights": rk.Network(2, 1, skip=False),
    "all parts": rk.Network(
        2, 1, skip=False, c_v=1.5, c_w=1.3, bias=0.4, readout_scale=0.7, trained=PARTS
    ),
    "readout": MLP(2, 1).replace(trained=("readout",)),
    "inner": MLP(2, 1).replace(trained=("inner",)),
}


def sampled(network, width, number):
    """Return (GPK, NTK) of random networks, (number, 2, n_pairs), in float32."""
    leaves, structure = jax.tree.flatten(shapes(network, 4, width, 1, 1))
    rng, signals = np.random.default_rng(0), X.astype(np.float32)

    def kernels(drawn):
        params = structure.unflatten(drawn)
        f = features(network, "trace", params, signals)
        gpk = network.readout_scale / width * (f @ f.T)

        def output(parts):
            return outputs(network, "trace", params._replace(**parts), signals)

        jacobians = jax.tree.leaves(jax.jacrev(output)(trained_parts(network, params)))
        rows = [jacobian.reshape(len(X), -1) for jacobian in jacobians]
        return jax.numpy.stack([gpk[PAIRS], sum(row @ row.T for row in rows)[PAIRS]])

    batch, several, found = jax.jit(jax.vmap(kernels)), max(1, 2**20 // width**2), []
    for _ in range(-(-number // several)):
        drawn = [rng.standard_normal((several, *leaf.shape), np.float32) for leaf in leaves]
        found.append(np.asarray(batch(drawn), np.float64))
    return np.concatenate(found)


def moments(network, width, number):
    """Return means less exact kernels, and variances, times the width, and their errors."""
    kinds = ("gpk", "ntk")
    exact = np.array([rk.Kernel(network, kind, "trace")(X)[PAIRS] for kind in kinds])
    away = sampled(network, width, number) - exact
    number, square = len(away), (away - away.mean(axis=0)) ** 2
    values = np.array([away.mean(axis=0), square.mean(axis=0)]) * width
    return values, np.array([away.std(axis=0), square.std(axis=0)]) * width / np.sqrt(number)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*[*NETWORKS][2:5], *nightly(*[*NETWORKS][:2], "inner")])
def test_sampled_networks(name):
    """Of widths 16 to 256, continued to infinite width by terms of order 1/width and 1/width²."""
    network, widths = NETWORKS[name], (16, 32, 64, 128, 256)
    found = finite.correction(network, X, 1)
    shifts = [found.gpk_shift[PAIRS], found.ntk_shift[PAIRS]]
    variances = [found.gpk_deviation[PAIRS] ** 2, found.ntk_deviation[PAIRS] ** 2]
    predicted, scores = np.array([shifts, variances]), []
    rows = [moments(network, n, 80_000 // n) for n in widths]
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
    assert np.abs(scores).max() <= 3 and np.mean(np.abs(scores) <= 2) >= 0.9


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
    of_condition = 1e-9  # of curvatures at angles of order 1

    def moments(r, place):
        """Return E[σσ] and E[σ'σ'] of a pair."""
        i, j = place
        x, z, both = (r * c_w * F[a, b] + bias**2 for a, b in ((i, i), (j, j), (i, j)))
        size = mpmath.sqrt(x * z)
        angle = mpmath.acos(both / size) if i != j else 0
        sine = size * mpmath.sin(angle)
        return (sine + (mpmath.pi - angle) * both) / (2 * mpmath.pi), (1 - angle / mpmath.pi) / 2

    for place in zip(*PAIRS, strict=True):
        gpk, ntk = (
            float(mpmath.diff(lambda r, f=f: f(r, place), 1, 2))
            for f in (lambda r, p: moments(r, p)[0], lambda r, p: r * moments(r, p)[1])
        )
        slopes, of_condition = (
            float(moments(1, place)[1]),
            1e-9,
        )  # of curvatures at angles of order 1
        assert abs(found.gpk_shift[place] - 0.7 * c_v * gpk) <= of_condition
        assert abs(found.ntk_shift[place] - T[place] * ntk / slopes) <= of_condition


def pairs_of_units(layers, S, trained, rng, n=64):
    """Return n g_i(ξ) g_j(ζ) Θ_ij, n Θ_ij² and n Θ_ij Θ_ji of one network, means over i ≠ j."""
    g = rng.standard_normal((n, 2)) @ np.linalg.cholesky(S).T
    theta = trained * S[0, 1] * np.eye(n)
    for layer in layers:
        read, slopes = (np.maximum(g, 0), g > 0) if layer.rectified else (g, np.ones_like(g))
        weights = np.sqrt(layer.variance / n) * rng.standard_normal((n, n))
        own = layer.variance * read[:, 0] @ read[:, 1] / n + layer.bias**2
        theta = (weights * slopes[:, 0]) @ theta @ (weights * slopes[:, 1]).T
        theta += layer.trained * own * np.eye(n)
        g = weights @ read + layer.bias * rng.standard_normal((n, 1))
    theta -= np.diag(theta.diagonal())
    crossed = (theta**2).sum(), (theta * theta.T).sum()
    return np.array([*(g.T @ theta @ g).ravel(), *crossed]) / (n - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "network",
    [
        MLP(3, 1),
        rk.Network(2, 1, skip=False, trained=("input",)),
        rk.Network(2, 1, skip=False, c_v=1.5, c_w=1.3, bias=0.4, trained=PARTS),
    ],
)
def test_pairs_of_units_have_the_covariances_of_the_recursion(network):
    """G, b and b' of docs/theory/finite_width.md, which are 0 behind the first weights."""
    points, layers, rng = X[:2, :, 0], _layers(network)[:-1], np.random.default_rng(0)
    S, trained = points @ points.T / 4, network.parts.input
    if not trained:
        S, trained = network.layer(1).c_w * S + network.layer(1).bias ** 2, network.parts.inner
    with jax.enable_x64(True):
        y, zero = jax.numpy.array([[*S[[0, 0, 1], [0, 1, 1]], trained * S[0, 1]]]), np.zeros(1)
        state = _State(y, 0 * y, np.zeros((1, 4, 4)), np.zeros((1, 2, 2)), zero, zero)
        for layer in layers:
            state = _steps(layer.rectified, (layer.variance, layer.bias, layer.trained), state)
    expected = np.array([*np.ravel(state.G), *state.squares, *state.crossed])
    drawn = np.array([pairs_of_units(layers, S, trained, rng) for _ in range(300)])
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    next_order = 8 / 64  # relatively some 1/width, of up to four layers
    bar = tolerances.STANDARD_ERRORS * error + next_order * expected
    assert (np.abs(drawn.mean(axis=0) - expected) <= bar).all()
    assert bar.max() <= 0.5 * expected.max()  # the test has teeth


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


@pytest.mark.parametrize(("depth", "c_w"), [(1, 1.0), (4, 1.0), (30, 1.0), (4, 0.3)])
def test_one_signal_is_the_sum_over_layers(depth, c_w):
    """docs/theory/finite_width.md, sections 1 and 2, to first order: 5 and 1 a layer, any c_w."""
    network = MLP(depth, 1).replace(c_w=c_w)
    found = finite.correction(network, X[:1], 100)
    K, T = (rk.Kernel(network, kind, "trace")(X[:1]) for kind in ("gpk", "ntk"))
    assert abs((found.gpk_deviation / K) ** 2 - 5 * depth / 100) <= tolerances.ROUTES
    layers = np.abs(np.subtract.outer(np.arange(depth + 1), np.arange(depth + 1)))
    law = (5 * (depth - layers) + layers).mean() / 100
    of_layer = 1e-12  # sums over all pairs of layers
    assert abs((found.ntk_deviation / T) ** 2 - law) <= of_layer * depth
    assert found.gpk_shift == found.ntk_shift == 0


def test_corrections_of_multiples_of_signals_are_multiples():
    """Networks without biases are homogeneous, and so are their kernels, of any width."""
    network, sizes = MLP(3, 1), np.array([1.0, 0.25, 5.0])
    products, of_condition = np.outer(sizes, sizes), 1e-9  # of curvatures at angles of order 1
    alone = finite.correction(network, X, 10)
    multiples = finite.correction(network, X * sizes[:, None, None], 10)
    for found, expected in zip(multiples, alone, strict=True):
        assert_within(found / products, expected, of_condition)


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


def test_a_pair_nearer_than_the_least_angle_is_refused():
    """In one direction, or in opposite ones."""
    for sign in (1, -1):
        points = sign * np.array([[sign, 0.0], [np.cos(0.9e-3), np.sin(0.9e-3)]])[:, :, None]
        with pytest.raises(ValueError, match="X has cases 0 and 1 in one line up to an angle of"):
            finite.correction(MLP(2), points, 10)


LINE = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -3.0]])[:, :, None]


@pytest.mark.parametrize(
    ("network", "signals", "message"),
    [
        (rk.Network(2), X, "network has skip True, expected False: fluctuations of networks with"),
        (MLP(2).replace(activation="erf"), X, "activation 'erf', expected 'relu': its fluctuat"),
        (MLP(2).replace(negative_slope=0.1), X, "negative_slope 0.1, expected 0.0: its fluctuat"),
        (MLP(2).replace(c_w=0.0), X, "expected positive c_v, c_w and input_scale"),
        (MLP(2).replace(input_scale=0.0), X, "expected positive c_v, c_w and input_scale"),
        (MLP(2), np.ones((2, 4, 3)), r"shape \(2, 4, 3\), expected \(n_cases, n_channels, 1\)"),
        (MLP(2), X * [[[1]], [[0]], [[1]]], "X is 0 in case 1, expected signals that are not"),
        (MLP(2), LINE, "X has cases 1 and 2 in one line up to an angle of 0.001"),
    ],
)
def test_what_is_not_known_is_refused_by_name(network, signals, message):
    with pytest.raises(ValueError, match=message):
        finite.correction(network, signals, 10)


def test_a_width_of_0_is_refused():
    with pytest.raises(ValueError, match="width is 0, expected an integer of at least 1"):
        finite.correction(MLP(2), X, 0)
